"""The real selector engine: CEL over the inventory's columns.

The exact scalar program runs once per distinct tuple of the columns that an expression reads; later devices
with the same tuple get the remembered answer, a run-time error included. Since a tuple is made of values,
changes of the inventory need no invalidation.
"""

from __future__ import annotations

from functools import lru_cache
from weakref import WeakKeyDictionary

from baro.cel import CelCompileError, CelRuntimeError, Program, compile_selector
from baro.cel.device import ColumnRef
from baro.inventory import Inventory
from baro.inventory.cel_table import CelTable

_ENGINES: WeakKeyDictionary[Inventory, CelSelectors] = WeakKeyDictionary()
_MOST_TUPLES = 200_000
"""Answers kept per expression before they are thrown away and found again."""


class CelSelectors:
    """Answers per expression and row for one inventory."""

    def __init__(self, inventory: Inventory) -> None:
        self._table = CelTable(inventory.table)
        self._answers: dict[str, dict[object, bool | str]] = {}
        self._columns: dict[str, tuple[ColumnRef, ...] | None] = {}

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
        if columns is None:
            return self._run(program, row)
        answers = self._answers.setdefault(expression, {})
        key = tuple(self._table.code(column, row) for column in columns)
        known = answers.get(key)
        if known is None:
            if len(answers) >= _MOST_TUPLES:
                answers.clear()
            known = answers[key] = self._run(program, row)
        return known

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
