"""Devices rebuilt from columns, for programs that read whole maps.

Devices that have the same columns are of one shape: the names of a shape are found once, and its devices are
made of zipped values. Imports NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from baro.cel.device import ColumnRef, DeviceView, Value
from baro.cel.reading import MapRef, Reads
from baro.cel.table import DeviceTable
from baro.model.quantity import Quantity

Values = Sequence[Value | Quantity | None]


def column_order(column: ColumnRef) -> tuple[str, str, str]:
    return column.kind, column.domain, column.name


def columns_read(reads: Reads, table: DeviceTable) -> dict[ColumnRef, bool]:
    """The columns of a table behind what is read, in the table's order, with whether only their presence
    matters. Columns that no device has are left out."""
    needed: dict[ColumnRef, bool] = {}
    for kind in ("attribute", "capacity"):
        for column in table.columns(kind):
            maps = (MapRef(kind, column.domain), MapRef(kind))
            if column in reads.columns or any(ref in reads.values for ref in maps):
                needed[column] = False
            elif any(ref in reads.keys for ref in maps):
                needed[column] = True
    return needed | {column: False for column in reads.columns if not column.domain}


class Shaped:
    """A ``DeviceView`` by looks, with what a program reads and nothing else; one serves many devices."""

    __slots__ = ("allow_multiple_allocations", "attributes", "broken", "capacity", "driver")

    def __init__(self) -> None:
        self.driver: Any = ""
        self.allow_multiple_allocations: Any = False
        self.attributes: dict[str, dict[str, Any]] = {}
        self.capacity: dict[str, dict[str, Any]] = {}
        self.broken: str | None = None


def shaped_views(
    table: DeviceTable, codes: Mapping[ColumnRef, NDArray[np.int32] | None], rows: NDArray[np.int64]
) -> Iterator[tuple[int, DeviceView]]:
    """(index into ``rows``, device) for each row, shape by shape. A device is only valid until the next."""
    present = {column: found for column, found in codes.items() if found is not None}
    values = {column: _values(table.vocabulary(column), found[rows]) for column, found in present.items()}
    masks = [presence(table, column, found)[rows] for column, found in present.items()]
    for places in _shapes(masks, len(rows)):
        first = int(places[0])
        having = [column for column in present if values[column][first] is not None]
        yield from _of_one_shape(having, values, places)


def presence(table: DeviceTable, column: ColumnRef, codes: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Per row whether the device has a value there; one that cannot be converted is none."""
    found: NDArray[np.bool_] = codes != 0
    if len(table.broken):
        sound = np.array([value is not None for value in table.vocabulary(column)])
        sound[0] = False
        found = sound[codes]
    return found


def _values(vocabulary: Values, codes: NDArray[np.int32]) -> list[Any]:
    return [vocabulary[code] if code else None for code in codes.tolist()]


def _shapes(columns: Sequence[NDArray[np.bool_]], size: int) -> Iterator[NDArray[np.int64]]:
    """The places of each shape: rows that have a value in the same columns."""
    if size == 0:
        return
    if not columns:
        yield np.arange(size)
        return
    bits = np.packbits(np.stack(columns, axis=1), axis=1)
    _, shape = np.unique(bits, axis=0, return_inverse=True)
    shape = shape.reshape(-1)
    order = np.argsort(shape, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(shape[order])) + 1)


def _of_one_shape(
    having: Sequence[ColumnRef], values: Mapping[ColumnRef, list[Any]], places: NDArray[np.int64]
) -> Iterator[tuple[int, DeviceView]]:
    device = Shaped()
    view = cast("DeviceView", device)
    chosen = places.tolist()
    parts: list[tuple[str, str, tuple[str, ...], Iterator[tuple[Any, ...]]]] = []
    plain: list[tuple[str, Iterator[Any]]] = []
    groups: dict[tuple[str, str], list[ColumnRef]] = {}
    for column in having:
        if column.kind in ("attribute", "capacity"):
            groups.setdefault((column.kind, column.domain), []).append(column)
        else:
            held = values[column]
            plain.append((column.kind, iter([held[place] for place in chosen])))
    for (kind, domain), columns in groups.items():
        picked = [[values[column][place] for place in chosen] for column in columns]
        parts.append((kind, domain, tuple(column.name for column in columns), zip(*picked, strict=True)))
    for place in chosen:
        for kind, domain, names, rows in parts:
            held_by = device.attributes if kind == "attribute" else device.capacity
            held_by[domain] = dict(zip(names, next(rows), strict=True))
        for kind, items in plain:
            if kind == "driver":
                device.driver = next(items) or ""
            else:
                device.allow_multiple_allocations = bool(next(items))
        yield place, view
