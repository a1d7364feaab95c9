"""State of ``matchAttribute`` and ``distinctAttribute`` during the search.

A constraint holds a small immutable state, so undoing a choice is forgetting the new state. Sets of devices
are bit masks over the devices of the node. Requests that derive the attribute see other values of the same
device, so a constraint has one *view* per way to find the value; the state is shared by all of them. Rules:
``experimental/constraint.go`` with the fixes of 1.37: a distinct value is compared with all chosen devices
(kubernetes#140438), the running intersection of list values is rolled back (kubernetes#140300).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from baro.inventory.columns import TypedValue

State: TypeAlias = Hashable
"""Nothing chosen yet is ``None``. Match: the common value, or the set of values still common. Distinct: a
frozenset of all values taken."""

_SCALAR_OF: Final = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}
UNSET: Final = ("unset", None)


class ConstraintData:
    """The values of one constraint's attribute on the devices of a node, as one kind of request sees them.

    ``lists`` is the gate DRAListTypeAttributes: with it scalars count as lists of one, and values of no known
    type never satisfy a constraint. ``errors`` are upstream's texts for devices whose value cannot be found.
    """

    def __init__(
        self,
        values: Sequence[TypedValue | None],
        *,
        distinct: bool,
        lists: bool,
        set_valued: bool | None = None,
        errors: Mapping[int, str] | None = None,
    ) -> None:
        self.distinct = distinct
        self.values: list[TypedValue | None] = [_comparable(value, lists) for value in values]
        self.set_valued = has_lists(values, lists) if set_valued is None else set_valued
        self.errors = errors or {}
        self.masks: dict[TypedValue, int] = {}
        self.present = 0
        for index, value in enumerate(self.values):
            if value is not None:
                self.present |= 1 << index
                self.masks[value] = self.masks.get(value, 0) | 1 << index
        self.unset = self.masks.get(UNSET, 0)
        """Devices whose value is of no known type: of a distinct constraint only the first may be one."""
        self._compatible: dict[State, int] = {}

    def compatible(self, state: State) -> int:
        """The devices that may be added."""
        if state is None:
            return self.present
        found = self._compatible.get(state)
        if found is None:
            found = self._compatible[state] = self._find_compatible(state)
        return found

    def add(self, state: State, device: int) -> State:
        """The state after adding a compatible device."""
        value = self.values[device]
        if self.set_valued:
            elements = _elements(value)
            if self.distinct:
                return elements | (state if isinstance(state, frozenset) else frozenset())
            return elements & state if isinstance(state, frozenset) else elements
        if self.distinct:
            return frozenset({value}) | (state if isinstance(state, frozenset) else frozenset())
        return value

    def groups(self, state: State) -> list[int] | None:
        """Masks of which a match constraint must choose one; ``None`` when grouping does not apply."""
        if self.distinct or self.set_valued:
            return None
        return list(self.masks.values()) if state is None else [self.compatible(state)]

    def distinct_left(self, state: State, candidates: int) -> int | None:
        """An upper bound of how many more devices a distinct constraint can take from the candidates."""
        if not self.distinct or self.set_valued:
            return None
        allowed = self.compatible(state) & candidates
        return sum(1 for mask in self.masks.values() if mask & allowed)

    def _find_compatible(self, state: Any) -> int:
        if self.set_valued:
            found = 0
            for index, value in enumerate(self.values):
                if value is None:
                    continue
                common = _elements(value) & state
                if bool(common) != self.distinct:
                    found |= 1 << index
            return found
        if not self.distinct:
            return 0 if state == UNSET else self.masks.get(state, 0)
        taken = self.unset
        for value in state:
            taken |= self.masks.get(value, 0)
        return self.present & ~taken


def has_lists(values: Sequence[TypedValue | None], lists: bool) -> bool:
    """Whether values must be compared as sets."""
    return lists and any(value is not None and value[0] in _SCALAR_OF for value in values)


def _comparable(value: TypedValue | None, lists: bool) -> TypedValue | None:
    """A list value without the list feature is of a kind that constraints do not know, as is an empty one."""
    if value is None:
        return None
    if value[0] in _SCALAR_OF and not (lists and value[1]):
        value = UNSET
    return None if lists and value == UNSET else value


def _elements(value: TypedValue | None) -> frozenset[TypedValue]:
    if value is None:
        return frozenset()
    kind, content = value
    scalar = _SCALAR_OF.get(kind)
    if scalar is None:
        return frozenset({value})
    return frozenset((scalar, item) for item in content)  # type: ignore[attr-defined]
