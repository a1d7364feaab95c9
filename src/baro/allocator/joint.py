"""Choosing one set of GPUs per claim, jointly over the claims of a pod, in order of the objective.

The sets come in bands from ``sets``; the search decides which of them are feasible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod

import msgspec

from baro.allocator.graph import NodeGraph
from baro.allocator.ledger import Pick
from baro.allocator.nearest import Nearest
from baro.allocator.search import Search
from baro.allocator.sets import Option, Wanted, ranked, remainder

_MAX_JOINT = 4_000
"""Up to this many combinations of sets over several claims the choice is joint, beyond it claim by claim."""
_MOST_TRIES = 200
"""Searches spent on finding nearer NICs."""


class Room(msgspec.Struct, frozen=True):
    """Everything that choosing among sets needs. ``fixed``: (claim, request) → alternative to take;
    ``base``: any solution with those alternatives."""

    search: Search
    graph: NodeGraph
    wants: Sequence[Wanted]
    nearest: Nearest
    fixed: dict[tuple[int, int], int]
    base: tuple[Pick, ...]

    @property
    def free(self) -> int:
        """GPUs that nobody has, by position."""
        problem = self.search.problem
        return self.graph.to_shape(problem.free & problem.usable)

    def allowed(self, options: Sequence[Option], nics: Sequence[int] = ()) -> tuple[int, ...]:
        """Per claim: its set, and every device that is no GPU; of NICs only ``nics`` (masks per wish).

        Claims to which the set is all one take any GPU.
        """
        graph = self.graph
        masks = [
            -1 if want.free else ~graph.mask | graph.to_devices(option.mask | want.fixed)
            for want, option in zip(self.wants, options, strict=True)
        ]
        for wish, mask in zip(self.nearest.wishes, nics, strict=False):
            masks[wish.claim] &= ~wish.candidates | mask
        return tuple(masks)

    def gpus(self, options: Sequence[Option]) -> list[int]:
        """Mask of GPUs per claim, by device numbers."""
        return [
            self.graph.to_devices(option.mask | want.fixed)
            for want, option in zip(self.wants, options, strict=True)
        ]

    def solve(self, allowed: tuple[int, ...]) -> tuple[Pick, ...] | None:
        """The first solution within these masks; the very first one if it lies within them."""
        if all(allowed[pick.claim] >> pick.device & 1 for pick in self.base):
            return self.base
        return self.search.run(allowed=allowed, fixed=self.fixed)


def best(room: Room, options: Sequence[tuple[Option, ...]]) -> tuple[tuple[Pick, ...] | None, bool]:
    """The best feasible choice and whether all were looked at; ``None`` when no combination is feasible."""
    with_gpus = [index for index, found in enumerate(options) if any(option.mask for option in found)]
    if len(with_gpus) <= 1:
        return _alone(room, options, with_gpus[0] if with_gpus else 0), True
    if prod(len(found) for found in options) <= _MAX_JOINT:
        return _jointly(room, product(*options)), True
    return _one_by_one(room, options), False


def _alone(room: Room, options: Sequence[tuple[Option, ...]], chosen: int) -> tuple[Pick, ...] | None:
    """One claim has a choice: its sets in an order that nodes of one shape share."""
    before = tuple(found[0] for found in options[:chosen])
    after = tuple(found[0] for found in options[chosen + 1 :])
    for band in ranked(room.graph.shape, room.free, room.wants[chosen], options[chosen]):
        combinations = ((*before, option, *after) for option in band)
        picks = _with_nearest(room, tuple(combinations)) if room.nearest else _first(room, combinations)
        if picks is not None:
            return picks
    return None


def _jointly(room: Room, combinations_: Iterator[tuple[Option, ...]]) -> tuple[Pick, ...] | None:
    """All combinations in order of the objective; the first that the search can realise.

    Bandwidth of all claims comes first, the slowest claim's before the others', then closeness likewise.
    """
    by_bands: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[Option, ...]]] = {}
    for combination in combinations_:
        union = 0
        for option in combination:
            if union & option.mask:
                break
            union |= option.mask
        else:
            fast = tuple(sorted((option.fast for option in combination), reverse=True))
            close = tuple(sorted((option.band for option in combination), reverse=True))
            by_bands.setdefault((fast, close), []).append(combination)
    shape, free = room.graph.shape, room.free
    for bands in sorted(by_bands):
        ordered = sorted(by_bands[bands], key=lambda found: remainder(shape, free, [o.mask for o in found]))
        picks = _with_nearest(room, ordered) if room.nearest else _first(room, ordered)
        if picks is not None:
            return picks
    return None


def _first(room: Room, ordered: Iterable[tuple[Option, ...]]) -> tuple[Pick, ...] | None:
    found = (room.solve(room.allowed(combination)) for combination in ordered)
    return next((picks for picks in found if picks is not None), None)


def _with_nearest(room: Room, ordered: Sequence[tuple[Option, ...]]) -> tuple[Pick, ...] | None:
    """The combination with the nearest NICs, of equal ones the first."""
    choices = [(room.nearest.choices(room.gpus(combination)), combination) for combination in ordered]
    choices.sort(key=lambda item: item[0][0][0] if item[0] else 0)
    found: tuple[int, tuple[Pick, ...]] | None = None
    tries = _MOST_TRIES
    for sets, combination in choices:
        for distance, nics in sets:
            if (found is not None and distance >= found[0]) or not tries:
                break
            tries -= 1
            picks = room.solve(room.allowed(combination, nics))
            if picks is not None:
                found = (distance, picks)
                break
    return _first(room, ordered) if found is None else found[1]


def _one_by_one(room: Room, options: Sequence[tuple[Option, ...]]) -> tuple[Pick, ...] | None:
    """Each claim takes its best set given those before it, as long as the others still fit."""
    shape, free = room.graph.shape, room.free
    chosen: list[Option] = []
    solution: tuple[Pick, ...] | None = None
    for index in range(len(options)):
        taken = 0
        for option in chosen:
            taken |= option.mask
        rest = [option for option in options[index] if not option.mask & taken]
        rest.sort(key=lambda o: (o.band, *remainder(shape, free, [*(c.mask for c in chosen), o.mask])))
        for option in rest:
            later = [Option(want.union & ~taken & ~option.mask, 0) for want in room.wants[index + 1 :]]
            solution = room.search.run(allowed=room.allowed([*chosen, option, *later]), fixed=room.fixed)
            if solution is not None:
                chosen.append(option)
                break
        else:
            return None
    return _with_nearest(room, [tuple(chosen)]) if room.nearest else solution
