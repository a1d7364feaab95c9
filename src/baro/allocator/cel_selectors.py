"""The real selector engine: CEL over the inventory's columns.

The exact scalar program runs once per distinct tuple of the columns that an expression reads; later devices
with the same tuple get the remembered answer, a run-time error included. Since a tuple is made of values,
changes of the inventory need no invalidation. Over all rows at once the answers come from
``baro.cel.columns`` and are brought up to date row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from weakref import WeakKeyDictionary

from baro.cel import CelCompileError, CelRuntimeError, Program, compile_selector
from baro.cel.device import ColumnRef
from baro.inventory import Inventory
from baro.inventory.cel_table import CelTable

_ENGINES: WeakKeyDictionary[Inventory, CelSelectors] = WeakKeyDictionary()
_MOST_TUPLES = 200_000
"""Answers kept per expression before they are thrown away and found again."""
_MOST_EXPRESSIONS = 64
"""Expressions whose answers for all rows are kept."""
_NO, _YES, _ERROR = 0, 1, 2


class CelSelectors:
    """Answers per expression and row for one inventory."""

    def __init__(self, inventory: Inventory) -> None:
        self._table = CelTable(inventory.table)
        self._answers: dict[str, dict[object, bool | str]] = {}
        self._columns: dict[str, tuple[ColumnRef, ...] | None] = {}
        self._over_all: dict[str, tuple[int, bytearray]] = {}
        """Revision of the table at the last full look, and the answer per row."""

    @classmethod
    def of(cls, inventory: Inventory) -> CelSelectors:
        """The engine of an inventory; it lives as long as the inventory."""
        found = _ENGINES.get(inventory)
        if found is None:
            found = _ENGINES[inventory] = cls(inventory)
        return found

    def compile_error(self, expression: str) -> str | None:
        compiled = _compiled(expression)
        return compiled if isinstance(compiled, str) else None

    def columns(self, expression: str) -> tuple[ColumnRef, ...] | None:
        """What an expression reads; ``None`` when that is everything, or when it does not compile."""
        program = _compiled(expression)
        if isinstance(program, str) or program.columns is None:
            return None
        return tuple(program.columns)

    def verdict(self, expression: str, row: int) -> bool | str:
        broken = self._table.broken_text(row)
        if broken is not None:
            return broken
        program = _compiled(expression)
        if isinstance(program, str):
            return program
        columns = self._columns.get(expression)
        if columns is None and program.columns is not None:
            columns = self._columns[expression] = tuple(program.columns)
        answers = self._answers.setdefault(expression, {})
        if columns is None:  # it reads whole maps
            key = self._table.shape(program, row)
        else:
            key = tuple([self._table.code(column, row) for column in columns])
        known = answers.get(key)
        if known is None:
            if len(answers) >= _MOST_TUPLES:
                answers.clear()
            known = answers[key] = self._run(program, row)
        return known

    def broken(self, rows: Sequence[int]) -> bool:
        """Whether every selector fails on one of these devices, since it cannot be converted."""
        return self._table.has_broken and any(self._table.broken_text(row) is not None for row in rows)

    def answers(self, expression: str) -> Sequence[int]:
        """Per row 0 (no), 1 (yes) or 2 (error), as of the last ``refresh``."""
        if expression not in self._over_all:
            self.refresh(expression, None)
        return self._over_all[expression][1]

    def refresh(self, expression: str, rows: Sequence[int] | None) -> None:
        """Look again at these rows, or at all of them: then once per distinct tuple of values."""
        known = self._over_all.get(expression)
        if known is not None and known[0] == self._table.revision:
            return
        if known is None or rows is None or len(rows) > self._table.size // 8:
            self._over_all.pop(expression, None)
            while len(self._over_all) >= _MOST_EXPRESSIONS:
                del self._over_all[next(iter(self._over_all))]
            self._over_all[expression] = (self._table.revision, self._all(expression))
            return
        found = known[1]
        found.extend(bytes(max(self._table.size - len(found), 0)))
        for row in rows:
            answer = self.verdict(expression, row)
            found[row] = _ERROR if isinstance(answer, str) else _YES if answer else _NO

    def _all(self, expression: str) -> bytearray:
        program = _compiled(expression)
        if isinstance(program, str):
            return bytearray([_ERROR]) * self._table.size
        # NumPy costs import time that one node does not need.
        from baro.cel.columns import evaluate_columns  # noqa: PLC0415

        return bytearray(evaluate_columns(program, self._table).outcome.tobytes())

    def _run(self, program: Program, row: int) -> bool | str:
        try:
            return program.evaluate(self._table.view(row))
        except CelRuntimeError as error:
            return error.message


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> Program | str:
    try:
        return compile_selector(expression)
    except CelCompileError as error:
        return error.message
