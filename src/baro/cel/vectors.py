"""Values of one expression for many devices: codes per row and the values that they stand for.

``Space`` holds the rows in question and runs parts of an expression over them, each once per distinct tuple
of what it reads: values of devices, and vectors computed before. A failure is a value here (``Failure``).
Imports NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from baro.cel.ast import Node, walk
from baro.cel.code import Code, Failure, Frame, PlanError, Run
from baro.cel.compilation import Fixed, Path, Variable
from baro.cel.compiler import Compiler
from baro.cel.device import ColumnRef, DeviceView, Value
from baro.cel.errors import CelRuntimeError
from baro.cel.folds import LIMIT_MESSAGE, WORK_LIMIT
from baro.cel.reading import MapKind, reads_of
from baro.cel.shapes import columns_read, presence, shaped_views
from baro.cel.table import DeviceTable
from baro.cel.tuples import Row, classes_of, distinct
from baro.cel.values import UInt
from baro.model.quantity import Quantity

Rows = NDArray[np.int64]
"""Places in a space, ascending."""

NO, YES, SOFT, HARD = 0, 1, 2, 3
"""What a vector's value is to ``&&`` and ``||``: a bool, a failure they can absorb (or no bool), one they
cannot."""

_FEW_ROUNDS = 256
_ROWS_PER_ROUND = 16  # to compile a round costs about as much as to run it for so many rows
_PLAIN = frozenset({bool, int, str, UInt, type(None)})


class NotLifted(Exception):  # noqa: N818 no error: the scalar program answers instead
    """This cannot be computed for many devices at once with the certainty that nothing differs."""


class Vector(NamedTuple):
    """``values[codes[place]]`` for the places it was asked for; other places hold anything."""

    codes: NDArray[np.int32]
    values: Sequence[Any]


class Words:
    """Values by code; values that nothing can tell apart share one."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.values: list[Any] = []
        self._known: dict[object, int] = {}
        for value in values:
            self.code(value)

    def code(self, value: Any) -> int:
        kind = type(value)
        key: object
        if kind in _PLAIN:
            key = (kind, value)
        elif kind is Failure:
            key = (value.error.message, value.error.absorbable, Failure)
        else:
            key = id(value)  # equal ones may print differently; ``values`` keeps it alive
        code = self._known.get(key)
        if code is None:
            code = self._known[key] = len(self.values)
            self.values.append(value)
        return code

    def translation(self, values: Sequence[Any]) -> NDArray[np.int32]:
        """Their codes here."""
        return np.fromiter(map(self.code, values), dtype=np.int32, count=len(values))


def kinds_of(values: Sequence[Any]) -> NDArray[np.int8]:
    """``NO``, ``YES``, ``SOFT`` or ``HARD`` per value."""
    return np.fromiter(map(_kind, values), dtype=np.int8, count=len(values))


def _kind(value: Any) -> int:
    if type(value) is bool:
        return YES if value else NO
    return HARD if type(value) is Failure and not value.error.absorbable else SOFT


def failure_of(value: Any) -> Failure:
    """The failure that a value is where a bool is wanted."""
    return value if type(value) is Failure else Failure(CelRuntimeError("no such overload"))


Scope = Mapping[str | int, Path | Fixed | Vector]
"""What the variables around a part of the expression are, and by identity of its node what a key is."""


class Part(Compiler):
    """The compiler of a part: ``given`` nodes, and variables that are vectors, are read from the frame."""

    def __init__(self, node: Node, scope: Scope, given: Mapping[int, Vector]) -> None:
        super().__init__()
        self.given = given
        self.inputs: list[tuple[int, Vector]] = []
        names: dict[str, Variable] = {}
        used = {part.name for part, _ in walk(node) if hasattr(part, "name")}
        self._keys = {key: found for key, found in scope.items() if isinstance(key, int)}
        for name, found in scope.items():
            if isinstance(name, int):
                continue
            if not isinstance(found, Vector):
                names[name] = found
            elif name in used:
                names[name] = self._input(found)
        self.scopes.append(names)

    def known_key(self, node: Node) -> str | None:
        known = self._keys.get(id(node))
        return known.value if isinstance(known, Fixed) else super().known_key(node)

    def _input(self, vector: Vector) -> int:
        slot = self.slot()
        self.inputs.append((slot, vector))
        return slot

    def compile(self, node: Node) -> Code:
        vector = self.given.get(id(node))
        return super().compile(node) if vector is None else Code(_read(self._input(vector)))


def _read(slot: int) -> Run:
    def run(device: DeviceView, frame: Frame) -> Any:
        value = frame[slot]
        if type(value) is Failure:  # a new error each time: a raised one gathers tracebacks
            raise CelRuntimeError(value.error.message, absorbable=value.error.absorbable)
        return value

    return run


class Space:
    """Rows of a table, by place. ``work`` is the most that any of them has spent of the work limit."""

    def __init__(self, table: DeviceTable, rows: NDArray[np.int64]) -> None:
        self.table = table
        self.rows = rows
        self.size = len(rows)
        self.work = 0
        self._rounds = max(_FEW_ROUNDS, len(rows) // _ROWS_PER_ROUND)
        self._codes: dict[ColumnRef, NDArray[np.int32] | None] = {}
        self._words: dict[ColumnRef, Sequence[Value | Quantity | None]] = {}
        self._present: dict[ColumnRef, NDArray[np.bool_]] = {}

    def spend(self, charge: int) -> None:
        """Every row may have spent so much more. Raises ``NotLifted`` where one may have passed the limit."""
        self.work += charge
        if self.work >= WORK_LIMIT:
            raise NotLifted

    def begin_round(self, charge: int) -> None:
        """One more round of an unrolled fold is compiled, and may be spent for at every row. Raises
        ``NotLifted`` where running it for all rows together is no longer worth it."""
        self._rounds -= 1
        if self._rounds < 0:
            raise NotLifted
        self.spend(charge)

    # --- columns -------------------------------------------------------------------------------------

    def codes(self, column: ColumnRef) -> NDArray[np.int32] | None:
        if column not in self._codes:
            found = self.table.codes(column)
            self._codes[column] = None if found is None else found[self.rows]
        return self._codes[column]

    def words(self, column: ColumnRef) -> Sequence[Value | Quantity | None]:
        if column not in self._words:
            self._words[column] = self.table.vocabulary(column)
        return self._words[column]

    def present(self, column: ColumnRef) -> NDArray[np.bool_]:
        """Per place whether the device has a value there."""
        if column not in self._present:
            codes = self.codes(column)
            assert codes is not None  # noqa: S101 asked for columns of the table only
            self._present[column] = presence(self.table, column, codes)
        return self._present[column]

    def columns(self, kind: MapKind, domain: str) -> list[ColumnRef]:
        """The columns of a domain that any device has, in the order of the keys of its map."""
        return [
            column for column in self.table.columns(kind) if column.domain == domain and self._has(column)
        ]

    def domains(self, kind: MapKind) -> list[str]:
        return list(dict.fromkeys(column.domain for column in self.table.columns(kind) if self._has(column)))

    def _has(self, column: ColumnRef) -> bool:
        return self.codes(column) is not None

    # --- parts of the expression ---------------------------------------------------------------------

    def run(self, node: Node, scope: Scope, given: Mapping[int, Vector], places: Rows) -> Vector:
        """The part at these places: the exact scalar code, once per distinct tuple of what it reads."""
        part = Part(node, scope, given)
        try:
            run = part.compile(node).run
        except PlanError:
            raise NotLifted from None
        if part.panics:
            raise NotLifted
        columns = self._read_by(part, node, scope, given)
        group, firsts, _ = distinct(
            [*self._classes(part, columns, places), *(vector.codes[places] for _, vector in part.inputs)],
            len(places),
        )
        chosen = places[firsts]
        runner = _Runner(run, part, chosen)
        devices: Iterable[tuple[int, DeviceView]]
        if part.whole:
            full = {column: self.table.codes(column) for column in columns}
            devices = shaped_views(self.table, full, self.rows[chosen])
        else:
            devices = enumerate(self._devices(list(columns), chosen))
        results = runner.codes(devices, len(chosen))
        self.spend(runner.most)
        codes = np.zeros(self.size, dtype=np.int32)
        codes[places] = results[group]
        return Vector(codes, runner.words.values)

    def _read_by(
        self, part: Part, node: Node, scope: Scope, given: Mapping[int, Vector]
    ) -> dict[ColumnRef, bool]:
        """The columns that a part reads, with whether only their presence matters."""
        if not part.whole:
            return {column: False for column in part.columns if self.codes(column) is not None}
        names = {
            name: found.keys if isinstance(found, Path) else None
            for name, found in scope.items()
            if isinstance(name, str)
        }
        reads = reads_of(node, names, frozenset(given))
        reads = msgspec.structs.replace(reads, columns=reads.columns | part.columns)
        found = columns_read(reads, self.table)
        return {column: only for column, only in found.items() if self.codes(column) is not None}

    def _classes(
        self, part: Part, columns: Mapping[ColumnRef, bool], places: Rows
    ) -> Iterator[NDArray[np.int32]]:
        compared = {} if part.whole else part.compared_columns()
        for column, only_presence in columns.items():
            codes = self.codes(column)
            assert codes is not None  # noqa: S101 the others are left out
            if only_presence:
                yield self.present(column)[places].astype(np.int32)
            else:
                words = self.words(column)
                yield classes_of(compared.get(column), column, codes[places], words, self.table)

    def _devices(self, columns: list[ColumnRef], chosen: Rows) -> Iterator[DeviceView]:
        """A device per place with the values of these columns; valid until the next."""
        row = Row(columns)
        device = cast("DeviceView", row)  # it has all that the part reads
        if not columns:
            yield from [device] * len(chosen)
            return
        read = []
        for column in columns:
            words, codes = self.words(column), self.codes(column)
            assert codes is not None  # noqa: S101 the others are left out
            read.append([words[code] if code else None for code in codes[chosen].tolist()])
        for values in zip(*read, strict=True):
            row.fill(values)
            yield device


class _Runner:
    """Runs a compiled part device by device; ``most`` is what the dearest run has spent."""

    def __init__(self, run: Run, part: Part, chosen: Rows) -> None:
        self.words = Words()
        self.most = 0
        self._run = run
        self._inputs = [(slot, vector.values, vector.codes[chosen].tolist()) for slot, vector in part.inputs]
        self._frame: Frame = [WORK_LIMIT, *[None] * (part.slots - 1)]

    def codes(self, devices: Iterable[tuple[int, DeviceView]], size: int) -> NDArray[np.int32]:
        """The codes of what it gives for devices, each with its number among the chosen places."""
        run, frame, inputs, words = self._run, self._frame, self._inputs, self.words
        found = [0] * size
        last: Any = _NOTHING
        code = 0
        value: Any
        for number, device in devices:
            for slot, values, codes in inputs:
                frame[slot] = values[codes[number]]
            try:
                value = run(device, frame)
            except CelRuntimeError as error:
                if error.message == LIMIT_MESSAGE:
                    raise NotLifted from None
                value = Failure(error.with_traceback(None))
            if frame[0] != WORK_LIMIT:
                self.most = max(self.most, WORK_LIMIT - frame[0])
                frame[0] = WORK_LIMIT
            if value is not last:
                code, last = words.code(value), value
            found[number] = code
        return np.array(found, dtype=np.int32)


_NOTHING = object()
