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

from typing import cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from baro.cel.computation import Computation
from baro.cel.device import ColumnRef, DeviceView, Value
from baro.cel.errors import CelRuntimeError
from baro.cel.lifting import outcomes
from baro.cel.program import Program
from baro.cel.shapes import column_order, columns_read, presence, shaped_views
from baro.cel.table import DeviceTable
from baro.cel.tuples import Row, classes_of, distinct, value_tuples
from baro.model.quantity import Quantity

FALSE, TRUE, ERROR = 0, 1, 2
MANY = 1024
"""Distinct tuples from which on it pays to take a selector apart."""


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


def evaluate_columns(program: Program, table: DeviceTable, *, lift_from: int = MANY) -> ColumnResult:
    """The outcome of a selector for every row of the table.

    Nothing is raised for errors of single devices: they are outcome 2 with their text in ``tuples``. From
    ``lift_from`` distinct tuples on the parts of the selector are run apart where that saves work (see
    ``lifting``); outcomes are the same.
    """
    if program.columns is None:
        return _by_shape(program, table, lift_from)
    columns = tuple(sorted(program.columns, key=column_order))
    codes = [table.codes(column) for column in columns]
    vocabularies = [
        table.vocabulary(column) if found is not None else ()
        for column, found in zip(columns, codes, strict=True)
    ]
    classes = [
        classes_of(program.compared.get(column), column, found, vocabulary, table)
        for column, found, vocabulary in zip(columns, codes, vocabularies, strict=True)
        if found is not None
    ]
    group, firsts, counts = distinct(classes, table.size)
    found = value_tuples(codes, vocabularies, firsts)
    answers = _lifted(program, table, firsts, lift_from)
    if answers is None:
        row = Row(columns)
        device = cast("DeviceView", row)  # it has all that a program reads
        tuples = []
        for values, count in zip(found, counts.tolist(), strict=True):
            row.fill(values)
            tuples.append(TupleOutcome(values, *_run(program, device), count))
    else:
        tuples = [
            TupleOutcome(values, *answer, count)
            for values, answer, count in zip(found, answers, counts.tolist(), strict=True)
        ]
    return _with_broken(columns, group, tuples, table)


def _lifted(
    program: Program, table: DeviceTable, rows: NDArray[np.int64], lift_from: int
) -> list[tuple[int, str | None]] | None:
    """Outcome and error of each of these rows, ``None`` where the program is to be run for each."""
    if len(rows) < lift_from or (answers := outcomes(program, table, rows)) is None:
        return None
    return [
        (ERROR, answer.message) if isinstance(answer, CelRuntimeError) else (TRUE if answer else FALSE, None)
        for answer in answers
    ]


def _by_shape(program: Program, table: DeviceTable, lift_from: int) -> ColumnResult:
    """A program that reads whole maps: once per distinct content of those."""
    needed = needed_columns(program, table)
    codes = {column: table.codes(column) for column in needed}
    classes = []
    for column, only_presence in needed.items():
        found = codes[column]
        if found is not None:
            classes.append(presence(table, column, found).astype(np.int32) if only_presence else found)
    group, firsts, counts = distinct(classes, table.size)
    answers = _lifted(program, table, firsts, lift_from)
    if answers is not None:
        lifted = [
            TupleOutcome((), *answer, count) for answer, count in zip(answers, counts.tolist(), strict=True)
        ]
        return _with_broken(None, group, lifted, table)
    tuples: list[TupleOutcome] = [TupleOutcome((), FALSE, None, count) for count in counts.tolist()]
    for place, device in shaped_views(table, codes, firsts):
        outcome, error = _run(program, device)
        if outcome != FALSE:
            tuples[place] = TupleOutcome((), outcome, error, tuples[place].count)
    return _with_broken(None, group, tuples, table)


def needed_columns(program: Computation, table: DeviceTable) -> dict[ColumnRef, bool]:
    """The columns of a table that a program reads, in the table's order, with whether only their presence
    matters. Columns that no device has are left out."""
    return columns_read(program.whole_reads, table)


def _run(program: Program, view: DeviceView) -> tuple[int, str | None]:
    try:
        return (TRUE if program.evaluate(view) else FALSE), None
    except CelRuntimeError as error:
        return ERROR, error.message


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
