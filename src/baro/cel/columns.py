"""One selector over many devices: the exact scalar program, once per distinct tuple of the columns it reads.

The device table (the inventory's) hands out columns of integer codes with a vocabulary of values. The tuples
of codes that occur are found with NumPy, the program runs once for each, and the outcome is spread over the
rows. So the meaning is that of the scalar program by construction, and the outcome per tuple is kept: it
explains why nothing matches. A program that uses a whole map (``device.attributes.exists(…)``) reads all
columns that the map is made of, or where only its keys matter (``reading``) whether each column has a value;
devices of one shape so share one run.

Importing this module imports NumPy; ``baro.cel`` itself does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from baro.cel.device import ColumnRef, DeviceView, Value
from baro.cel.errors import CelRuntimeError
from baro.cel.program import Program
from baro.cel.reading import MapKind, MapRef
from baro.cel.shapes import column_order, presence, shaped_views
from baro.model.quantity import Quantity

FALSE, TRUE, ERROR = 0, 1, 2
_DENSE_LIMIT = 1 << 20
_MANY_VALUES = 64


class DeviceTable(Protocol):
    """The devices as columns. Rows are devices, in a fixed order."""

    @property
    def size(self) -> int:
        """Number of rows."""

    def codes(self, column: ColumnRef) -> NDArray[np.int32] | None:
        """One code per row, 0 where the device lacks the value; ``None`` when no device has the column."""

    def vocabulary(self, column: ColumnRef) -> Sequence[Value | Quantity | None]:
        """The values by code; position 0 stands for "absent" and is ignored."""

    def code_of(self, column: ColumnRef, value: Value) -> int:
        """The code of a value, 0 when no device has it."""

    def columns(self, kind: MapKind) -> Sequence[ColumnRef]:
        """The columns of that kind, in the order in which ``view`` has them."""

    def view(self, row: int) -> DeviceView:
        """The device of a row."""

    @property
    def broken(self) -> NDArray[np.int64]:
        """Rows whose device cannot be evaluated at all (``DeviceView.broken``)."""


class TupleOutcome(msgspec.Struct, frozen=True, gc=False):
    """Outcome for one distinct tuple of values. ``count`` rows share it; ``values`` follow ``columns``.

    For a column of many values that the program only compares with constants (``Program.compared``) a value
    that is none of the constants is an example: the rows of the tuple hold others of its type too.
    """

    values: tuple[Value | Quantity | None, ...]
    outcome: int
    error: str | None
    count: int


class ColumnResult(msgspec.Struct, frozen=True):
    """``outcome`` per row: 0 false, 1 true, 2 error. ``group`` per row is the index into ``tuples``.

    ``columns`` is ``None`` for a program that reads whole maps; then each tuple is one content of those maps,
    without values.
    """

    columns: tuple[ColumnRef, ...] | None
    outcome: NDArray[np.int8]
    group: NDArray[np.int32]
    tuples: tuple[TupleOutcome, ...]

    def error(self, row: int) -> str | None:
        """The error of a row, or ``None``."""
        return self.tuples[int(self.group[row])].error


def evaluate_columns(program: Program, table: DeviceTable) -> ColumnResult:
    """The outcome of a selector for every row of the table.

    Nothing is raised for errors of single devices: they are outcome 2 with their text in ``tuples``.
    """
    if program.columns is None:
        return _by_shape(program, table)
    columns = tuple(sorted(program.columns, key=column_order))
    codes = [table.codes(column) for column in columns]
    vocabularies = [
        table.vocabulary(column) if found is not None else ()
        for column, found in zip(columns, codes, strict=True)
    ]
    classes = [
        _classes(program, column, found, vocabulary, table)
        for column, found, vocabulary in zip(columns, codes, vocabularies, strict=True)
        if found is not None
    ]
    group, firsts, counts = _distinct(classes, table.size)
    row = _Row(columns)
    device = cast("DeviceView", row)  # it has all that a program reads
    tuples = []
    for values, count in zip(_values(codes, vocabularies, firsts), counts.tolist(), strict=True):
        row.fill(values)
        outcome, error = _run(program, device)
        tuples.append(TupleOutcome(values, outcome, error, count))
    return _with_broken(columns, group, tuples, table)


def _by_shape(program: Program, table: DeviceTable) -> ColumnResult:
    """A program that reads whole maps: once per distinct content of those."""
    needed = needed_columns(program, table)
    codes = {column: table.codes(column) for column in needed}
    classes = []
    for column, only_presence in needed.items():
        found = codes[column]
        if found is not None:
            classes.append(presence(table, column, found).astype(np.int32) if only_presence else found)
    group, firsts, counts = _distinct(classes, table.size)
    tuples: list[TupleOutcome] = [TupleOutcome((), FALSE, None, count) for count in counts.tolist()]
    for place, device in shaped_views(table, codes, firsts):
        outcome, error = _run(program, device)
        if outcome != FALSE:
            tuples[place] = TupleOutcome((), outcome, error, tuples[place].count)
    return _with_broken(None, group, tuples, table)


def needed_columns(program: Program, table: DeviceTable) -> dict[ColumnRef, bool]:
    """The columns of a table that a program reads, in the table's order, with whether only their presence
    matters. Columns that no device has are left out."""
    reads = program.whole_reads
    needed: dict[ColumnRef, bool] = {}
    for kind in ("attribute", "capacity"):
        for column in table.columns(kind):
            maps = (MapRef(kind, column.domain), MapRef(kind))
            if column in reads.columns or any(ref in reads.values for ref in maps):
                needed[column] = False
            elif any(ref in reads.keys for ref in maps):
                needed[column] = True
    return needed | {column: False for column in reads.columns if not column.domain}


def _values(
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


def _classes(
    program: Program,
    column: ColumnRef,
    codes: NDArray[np.int32],
    vocabulary: Sequence[Value | Quantity | None],
    table: DeviceTable,
) -> NDArray[np.int32]:
    """The codes, or for a column of many values that is only compared with constants: one class per constant,
    and one per type of all other values. A serial number tested with ``==`` so has three classes, not
    80,000."""
    constants = program.compared.get(column)
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


def _run(program: Program, view: DeviceView) -> tuple[int, str | None]:
    try:
        return (TRUE if program.evaluate(view) else FALSE), None
    except CelRuntimeError as error:
        return ERROR, error.message


class _Row:
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


def _distinct(
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


def _with_broken(
    columns: tuple[ColumnRef, ...] | None,
    group: NDArray[np.int32],
    tuples: list[TupleOutcome],
    table: DeviceTable,
) -> ColumnResult:
    """Devices that upstream cannot even convert fail for every selector, whatever their values."""
    for row in table.broken.tolist():
        group[row] = len(tuples)
        tuples.append(TupleOutcome((), ERROR, table.view(row).broken, 1))
    outcomes = np.fromiter((entry.outcome for entry in tuples), dtype=np.int8, count=len(tuples))
    outcome = outcomes[group] if len(tuples) else np.zeros(0, dtype=np.int8)
    return ColumnResult(columns, outcome, group, tuple(tuples))
