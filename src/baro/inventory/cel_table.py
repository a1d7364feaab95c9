"""The device table as the CEL engine reads it (``baro.cel.columns.DeviceTable``).

Values are converted to CEL's once per vocabulary entry, not per device. Imports NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from baro.cel.columns import needed_columns
from baro.cel.computation import Computation
from baro.cel.device import AttributeError_, ColumnRef, DeviceView, Value, attribute_value
from baro.cel.reading import MapKind
from baro.inventory.columns import Column, DeviceTable, Name, TypedValue
from baro.model.kinds.resource import DeviceAttribute
from baro.model.quantity import Quantity, QuantityError

_Needed = WeakKeyDictionary[Computation, tuple[int, list[tuple[Column, bool]]]]
_AS_THEY_ARE = frozenset({"string", "int", "bool"})
_FIELD = {"int": "int_", "bool": "bool_"}


class CelTable:
    """A live view: what changes in the table changes here."""

    def __init__(self, table: DeviceTable) -> None:
        self._table = table
        self._values: dict[int, list[Value | Quantity | None]] = {}
        """By identity of the column: CEL values by code."""
        self._bad: dict[int, dict[int, str]] = {}
        """By identity of the column: code → why the value cannot be converted. Empty in a sound cluster."""
        self._codes_of: dict[int, tuple[int, dict[object, int]]] = {}
        """By identity of the column: how many codes are in the index, and code by type and value."""
        self._needed: _Needed = WeakKeyDictionary()
        """Program → number of columns when it was looked at, and those it needs, with whether their presence
        is all."""
        self._revision = -1

    @property
    def size(self) -> int:
        return self._table.size

    @property
    def revision(self) -> int:
        """Grows with every write of a device."""
        return self._table.revision

    def codes(self, column: ColumnRef) -> NDArray[np.int32] | None:
        """One code per row; ``None`` when no device has the column."""
        found = self._column(column)
        if found is None:
            return None
        codes = np.zeros(self.size, dtype=np.int32)
        codes[: len(found.codes)] = np.frombuffer(found.codes, dtype=np.int32)
        return codes

    def code(self, column: ColumnRef, row: int) -> int:
        """The code of one row, 0 when the device lacks the value."""
        found = self._column(column)
        return 0 if found is None else found.code(row)

    def vocabulary(self, column: ColumnRef) -> Sequence[Value | Quantity | None]:
        """CEL values by code; 0 is absent."""
        found = self._column(column)
        return [None] if found is None else list(self._converted(found))

    def columns(self, kind: MapKind) -> tuple[ColumnRef, ...]:
        """The columns of attributes or of capacities, in the order in which ``view`` has them."""
        held = self._table.attributes if kind == "attribute" else self._table.capacities
        return tuple(ColumnRef(kind, domain, name) for domain, name in held)

    def shape(self, program: Computation, row: int) -> tuple[int, ...]:
        """What a program that reads whole maps can tell of a row: rows of one shape get one answer."""
        held = len(self._table.attributes) + len(self._table.capacities)
        known = self._needed.get(program)
        if known is None or known[0] != held:
            needed = needed_columns(program, self)
            read = [(self._column(ref), only_presence) for ref, only_presence in needed.items()]
            known = held, [(column, only) for column, only in read if column is not None]
            self._needed[program] = known
        return tuple(
            [
                int(column.code(row) != 0) if only_presence else column.code(row)
                for column, only_presence in known[1]
            ]
        )

    def code_of(self, column: ColumnRef, value: Value) -> int:
        """The code of a value, 0 when no device has it."""
        found = self._column(column)
        if found is None:
            return 0
        values = self._converted(found)
        done, index = self._codes_of.get(id(found), (1, {}))
        for code in range(done, len(values)):
            index.setdefault((type(values[code]), values[code]), code)
        self._codes_of[id(found)] = (len(values), index)
        return index.get((type(value), value), 0)

    @property
    def broken(self) -> NDArray[np.int64]:
        """Rows whose device cannot be evaluated at all."""
        if not self.has_broken:
            return np.zeros(0, dtype=np.int64)
        return np.array(
            [row for row in range(self.size) if self.broken_text(row) is not None], dtype=np.int64
        )

    @property
    def has_broken(self) -> bool:
        """Whether any value that a device ever had cannot be converted."""
        if self._revision != self._table.revision:
            self._revision = self._table.revision
            for column in (*self._table.attributes.values(), *self._table.capacities.values()):
                self._converted(column)
        return bool(self._bad)

    def broken_text(self, row: int) -> str | None:
        """Upstream's error for any selector on this device: an attribute that cannot be converted."""
        if not self.has_broken:
            return None
        for what, columns in (("attribute", self._table.attributes), ("capacity", self._table.capacities)):
            for (domain, identifier), column in columns.items():
                message = self._bad.get(id(column), {}).get(column.code(row))
                if message is not None:
                    short = identifier if domain == self._table.driver(row) else f"{domain}/{identifier}"
                    return f"{what} {short}: {message}"
        return None

    def view(self, row: int) -> DeviceView:
        """The device of a row as a selector sees it."""
        table = self._table
        attributes: dict[str, dict[str, Value]] = {}
        for (domain, identifier), column in table.attributes.items():
            code = column.code(row)
            value = self._converted(column)[code] if code else None
            if value is not None:
                attributes.setdefault(domain, {})[identifier] = value  # type: ignore[assignment]
        capacity: dict[str, dict[str, Quantity]] = {}
        for (domain, identifier), column in table.capacities.items():
            code = column.code(row)
            amount = self._converted(column)[code] if code else None
            if isinstance(amount, Quantity):
                capacity.setdefault(domain, {})[identifier] = amount
        return DeviceView(
            driver=table.driver(row),
            attributes=attributes,
            capacity=capacity,
            allow_multiple_allocations=table.rare(row).shareable,
            broken=self.broken_text(row),
        )

    def _column(self, ref: ColumnRef) -> Column | None:
        name: Name = (ref.domain, ref.name)
        match ref.kind:
            case "attribute":
                return self._table.attributes.get(name)
            case "capacity":
                return self._table.capacities.get(name)
            case "driver":
                return self._table.drivers
        return self._table.shareable

    def _converted(self, column: Column) -> list[Value | Quantity | None]:
        """CEL values of a vocabulary, extended as it grows."""
        values = self._values.setdefault(id(column), [None])
        for code in range(len(values), len(column.vocabulary)):
            typed = column.vocabulary[code]
            try:
                values.append(None if typed is None else _value(typed))
            except (AttributeError_, QuantityError) as error:
                self._bad.setdefault(id(column), {})[code] = str(error)
                values.append(None)
        return values


def _value(typed: TypedValue) -> Value | Quantity:
    kind, content = typed
    if kind in _AS_THEY_ARE:
        return content  # type: ignore[return-value]
    if kind == "quantity":
        return Quantity.parse(content)  # type: ignore[arg-type]
    if kind == "unset":
        return attribute_value(DeviceAttribute())
    return attribute_value(DeviceAttribute(**{_FIELD.get(kind, kind): content}))  # type: ignore[arg-type]
