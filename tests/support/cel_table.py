"""A table of devices for the CEL engine, made of single devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from baro.cel import ColumnRef, DeviceView, Value
from baro.cel.device import ColumnKind
from baro.cel.reading import MapKind
from baro.model.quantity import Quantity


class ListTable:
    """The simplest table: columns made on demand from a list of views.

    Like an inventory it has one order of columns, in which every device has its keys.
    """

    def __init__(self, views: Sequence[DeviceView]) -> None:
        self._views = list(views)
        self._columns = {kind: self._found(kind) for kind in ("attribute", "capacity")}
        self._views = [self._ordered(view) for view in views]

    @property
    def size(self) -> int:
        return len(self._views)

    def _value(self, column: ColumnRef, row: int) -> Value | Quantity | None:
        view = self._views[row]
        if column.kind == "driver":
            return view.driver
        if column.kind == "allowMultipleAllocations":
            return view.allow_multiple_allocations
        if column.kind == "attribute":
            return view.attributes.get(column.domain, {}).get(column.name)
        return view.capacity.get(column.domain, {}).get(column.name)

    def vocabulary(self, column: ColumnRef) -> Sequence[Value | Quantity | None]:
        found: list[Value | Quantity | None] = [None]
        for row in range(self.size):
            value = self._value(column, row)
            if value is not None and not any(
                type(value) is type(known) and value == known for known in found
            ):
                found.append(value)
        return found

    def codes(self, column: ColumnRef) -> NDArray[np.int32] | None:
        words = self.vocabulary(column)
        if len(words) == 1:
            return None
        codes = [
            next((code for code, word in enumerate(words) if type(word) is type(value) and word == value), 0)
            for value in (self._value(column, row) for row in range(self.size))
        ]
        return np.array(codes, dtype=np.int32)

    def columns(self, kind: MapKind) -> Sequence[ColumnRef]:
        return self._columns[kind]

    def _found(self, kind: str) -> list[ColumnRef]:
        found: dict[ColumnRef, None] = {}
        for view in self._views:
            held = view.attributes if kind == "attribute" else view.capacity
            mine: ColumnKind = "attribute" if kind == "attribute" else "capacity"
            found |= {ColumnRef(mine, domain, name): None for domain in held for name in held[domain]}
        return list(found)

    def _ordered(self, view: DeviceView) -> DeviceView:
        made: dict[str, dict[str, dict[str, Any]]] = {"attribute": {}, "capacity": {}}
        for kind, columns in self._columns.items():
            held: Mapping[str, Mapping[str, Any]] = view.attributes if kind == "attribute" else view.capacity
            for column in columns:
                if column.name in held.get(column.domain, {}):
                    made[kind].setdefault(column.domain, {})[column.name] = held[column.domain][column.name]
        return msgspec.structs.replace(view, attributes=made["attribute"], capacity=made["capacity"])

    def code_of(self, column: ColumnRef, value: Value) -> int:
        words = self.vocabulary(column)
        return next(
            (code for code, word in enumerate(words) if type(word) is type(value) and word == value), 0
        )

    def view(self, row: int) -> DeviceView:
        return self._views[row]

    @property
    def broken(self) -> NDArray[np.int64]:
        return np.array(
            [row for row, view in enumerate(self._views) if view.broken is not None], dtype=np.int64
        )
