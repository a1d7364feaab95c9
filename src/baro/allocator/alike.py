"""Devices that no part of a search can tell apart: they fail alike, and states count them instead of naming
them. Found once per search, and only when it has to go back."""

from __future__ import annotations

from collections.abc import Iterable

from baro.allocator.frame import NodeFrame, bits

_MAX_CLASSES = 12
"""With more kinds of devices than this, counting per kind costs more than it saves."""


class Kinds:
    """A partition of the devices of a node by ``masks``; each device of ``single`` is a kind of its own."""

    def __init__(self, frame: NodeFrame, masks: Iterable[int], single: int) -> None:
        apart: dict[object, int] = {}
        for device, consumption in frame.consumption.items():
            groups = tuple(
                (part.counter_set, part.compatibility_groups) for part in frame.rare[device].consumes_counters
            )
            kind = (frame.pool_of[device], groups, *sorted(consumption.items()))
            apart[kind] = apart.get(kind, 0) | 1 << device
        everything = (1 << frame.size) - 1
        kinds = [everything & ~single] if everything & ~single else []
        for mask in {*masks, *apart.values()}:
            kinds = [part for own in kinds for part in (own & mask, own & ~mask) if part]
        self._kinds = kinds + [1 << device for device in bits(single)]
        self._of: dict[int, int] = {}

    def of(self, device: int) -> int:
        """The mask of a device's kind."""
        found = self._of.get(device)
        if found is None:
            bit = 1 << device
            found = self._of[device] = next(kind for kind in self._kinds if kind & bit)
        return found

    def pattern(self, taken: int, start: int, *, exact: bool) -> object:
        """What of ``taken`` devices matters for devices at or after ``start``: the devices themselves if
        ``exact``, else how many there are of each kind."""
        if exact or len(self._kinds) > _MAX_CLASSES:
            return (taken, start)
        rest = -1 << start
        return tuple(
            ((taken & kind).bit_count(), (taken & kind & rest).bit_count(), (kind & rest).bit_count())
            for kind in self._kinds
        )
