"""Least and greatest figures (costs, sizes) with 64-bit saturation, and the declared sizes of a device.

The arithmetic is upstream's to the last digit: unsigned 64-bit integers that stick at their maximum, and
factors applied in double precision and rounded up. Nothing here knows expressions.
"""

from __future__ import annotations

import math

import msgspec

U64 = 2**64 - 1

# What upstream charges: for making a list, a map or a message; per character read, and of a pattern.
LIST_COST, MAP_COST, MESSAGE_COST = 10, 30, 40
SCAN, REGEX = 0.1, 0.25


class Bounds(msgspec.Struct, frozen=True):
    """A range of costs, or of sizes (characters, bytes, elements)."""

    min: int
    max: int

    def plus(self, other: Bounds) -> Bounds:
        return Bounds(add(self.min, other.min), add(self.max, other.max))

    def times(self, other: Bounds) -> Bounds:
        return Bounds(multiply(self.min, other.min), multiply(self.max, other.max))

    def scaled(self, factor: float) -> Bounds:
        return Bounds(scale(self.min, factor), scale(self.max, factor))

    def union(self, other: Bounds) -> Bounds:
        return Bounds(min(self.min, other.min), max(self.max, other.max))


def exactly(value: int) -> Bounds:
    return Bounds(value, value)


ZERO, ONE, UNKNOWN = exactly(0), exactly(1), Bounds(0, U64)


def add(left: int, right: int) -> int:
    return min(left + right, U64)


def multiply(left: int, right: int) -> int:
    return min(left * right, U64)


def scale(value: int, factor: float) -> int:
    """``value * factor`` in double precision, rounded up."""
    return min(math.ceil(float(value) * factor), U64)


def wrapped(value: int) -> int:
    """An unsigned integer after an overflow that upstream does not guard against."""
    return value & U64


class FieldPath:
    """How a value is reached from ``device``: names, and ``@keys``, ``@values``, ``@items``, ``@indices``.

    Upstream appends to shared arrays: two values reached from one variable write their last name to the same
    place when the array has room, and the earlier one then reads the later one's name. Estimates depend on
    it, so paths here share their cells in the same way.
    """

    __slots__ = ("cells", "length", "room")

    def __init__(self, cells: list[str], length: int, room: int) -> None:
        self.cells = cells
        self.length = length
        self.room = room

    @classmethod
    def of(cls, name: str) -> FieldPath:
        return cls([name], 1, 1)

    def extended(self, name: str) -> FieldPath:
        if self.length < self.room:
            self.cells[self.length :] = [name, *self.cells[self.length + 1 :]]
            return FieldPath(self.cells, self.length + 1, self.room)
        cells = [*self.cells[: self.length], name]
        return FieldPath(cells, self.length + 1, max(1, self.room * 2))

    def names(self) -> list[str]:
        return self.cells[: self.length]


NO_PATH = FieldPath([], 0, 0)

# --- declared sizes ----------------------------------------------------------------------------------------


class _Declared(msgspec.Struct, frozen=True):
    """A declared type: its greatest size, and the types inside. ``any_field``: each name is an element."""

    size: int
    fields: dict[str, _Declared] = {}
    key: _Declared | None = None
    element: _Declared | None = None
    any_field: bool = False


_DRIVER, _DOMAIN, _ID, _ATTRIBUTE = _Declared(63), _Declared(63), _Declared(32), _Declared(64)
_MAX_NAMES = 32  # attributes and capacities of one device together
_QUANTITY = _Declared(0)
_ATTRIBUTES = _Declared(_MAX_NAMES, key=_ID, element=_ATTRIBUTE, any_field=True)
_CAPACITIES = _Declared(_MAX_NAMES, key=_ID, element=_QUANTITY)
_DEVICE = _Declared(
    0,
    fields={
        "driver": _DRIVER,
        "allowMultipleAllocations": _Declared(1),
        "attributes": _Declared(_MAX_NAMES, key=_DOMAIN, element=_ATTRIBUTES),
        "capacity": _Declared(_MAX_NAMES, key=_DOMAIN, element=_CAPACITIES),
    },
)


def declared_size(path: FieldPath) -> Bounds | None:
    """The declared size of what a path reaches: limits of the API (``resource.k8s.io/v1``)."""
    names = path.names()
    if not names or names[0] != "device":
        return None
    current: _Declared | None = _DEVICE
    for name in names[1:]:
        assert current is not None  # noqa: S101 shown below
        if name in ("@items", "@values"):
            current = current.element
        elif name == "@keys":
            current = current.key
        else:
            current = current.fields.get(name) or (current.element if current.any_field else None)
        if current is None:
            return None
    assert current is not None  # noqa: S101
    return Bounds(0, current.size)
