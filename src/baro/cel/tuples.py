"""The distinct tuples of the values that a program reads, found in columns of codes. Imports NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baro.cel.device import ColumnRef, Value
from baro.cel.table import DeviceTable
from baro.model.quantity import Quantity

_DENSE_LIMIT = 1 << 20
_MANY_VALUES = 64


def value_tuples(
    codes: Sequence[NDArray[np.int32] | None],
    vocabularies: Sequence[Sequence[Value | Quantity | None]],
    firsts: NDArray[np.int64],
) -> Iterator[tuple[Value | Quantity | None, ...]]:
    """The values of the first row of each group, column by column; ``None`` where the device lacks one."""
    if not codes:
        return iter([()] * len(firsts))
    read = []
    for found, vocabulary in zip(codes, vocabularies, strict=True):
        if found is None:
            read.append([None] * len(firsts))
        else:
            read.append([vocabulary[code] if code else None for code in found[firsts].tolist()])
    return zip(*read, strict=True)


def classes_of(
    constants: Sequence[Value] | None,
    column: ColumnRef,
    codes: NDArray[np.int32],
    vocabulary: Sequence[Value | Quantity | None],
    table: DeviceTable,
) -> NDArray[np.int32]:
    """The codes, or for a column of many values that is only compared with ``constants``: one class per
    constant, and one per type of all other values. A serial number tested with ``==`` so has three classes,
    not 80,000."""
    if constants is None or len(vocabulary) <= _MANY_VALUES:
        return codes
    kinds = {kind: number for number, kind in enumerate(set(map(type, vocabulary[1:])), start=1)}
    if len(kinds) == 1:
        classes = np.ones(len(vocabulary), dtype=np.int32)
    else:
        classes = np.fromiter((kinds.get(type(value), 0) for value in vocabulary), dtype=np.int32)
    classes[0] = 0
    for number, constant in enumerate(constants, start=len(kinds) + 1):
        code = table.code_of(column, constant)
        if code:
            classes[code] = number
    return classes[codes]


class Row:
    """A device whose values are exchanged in place: a ``DeviceView`` by looks, made once for all tuples."""

    __slots__ = ("_places", "allow_multiple_allocations", "attributes", "broken", "capacity", "driver")

    def __init__(self, columns: Sequence[ColumnRef]) -> None:
        self.driver: Any = ""
        self.allow_multiple_allocations: Any = False
        self.attributes: dict[str, dict[str, Any]] = {}
        self.capacity: dict[str, dict[str, Any]] = {}
        self.broken: str | None = None
        self._places: list[tuple[dict[str, Any] | None, str]] = []
        for column in columns:
            if column.kind == "attribute":
                self._places.append((self.attributes.setdefault(column.domain, {}), column.name))
            elif column.kind == "capacity":
                self._places.append((self.capacity.setdefault(column.domain, {}), column.name))
            else:
                self._places.append((None, column.kind))

    def fill(self, values: Sequence[Any]) -> None:
        for (place, name), value in zip(self._places, values, strict=True):
            if place is None:
                if name == "driver":
                    self.driver = value or ""
                else:
                    self.allow_multiple_allocations = bool(value)
            elif value is None:
                place.pop(name, None)
            else:
                place[name] = value


def distinct(
    codes: Sequence[NDArray[np.int32]], size: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Group of each row, and for each group a row of it and its number of rows."""
    if size == 0:
        nothing = np.zeros(0, dtype=np.int64)
        return np.zeros(0, dtype=np.int32), nothing, nothing
    combined: NDArray[np.int64] | None = None
    bound = 1
    for column in codes:
        width = int(column.max()) + 1
        if combined is None:
            combined, bound = column.astype(np.int64), width
            continue
        if bound * width > np.iinfo(np.int64).max:
            combined, bound = _dense(combined)
        combined = combined * width + column
        bound *= width
    if combined is None:
        combined = np.zeros(size, dtype=np.int64)
    return _groups(combined, bound)


def _dense(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    distinct, renumbered = np.unique(codes, return_inverse=True)
    return renumbered.astype(np.int64), len(distinct)


def _groups(
    codes: NDArray[np.int64], bound: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    if bound > _DENSE_LIMIT:
        _, firsts, group, counts = np.unique(
            codes, return_index=True, return_inverse=True, return_counts=True
        )
        return group.astype(np.int32), firsts, counts
    counts = np.bincount(codes, minlength=bound)
    present = np.flatnonzero(counts)
    rank = np.zeros(bound, dtype=np.int32)
    rank[present] = np.arange(len(present), dtype=np.int32)
    first_row = np.zeros(bound, dtype=np.int64)
    first_row[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last write, the first row, wins
    return rank[codes], first_row[present], counts[present]
