"""Derived attributes (KEP-6080): values that a request computes from a device, for its constraints alone.

The expression runs once per distinct tuple of what it reads, as a selector does. What it gives is a value or
the text of upstream's error (``baro.cel.derived``). Not here: which constraint asks.
"""

from __future__ import annotations

import msgspec

from baro.cel import CelCompileError, CelRuntimeError
from baro.cel.derived import AttributeProgram, compile_attribute
from baro.inventory import Inventory
from baro.inventory.cel_table import CelTable
from baro.inventory.columns import TypedValue

_MOST_TUPLES = 100_000


class Failed(msgspec.Struct, frozen=True):
    """Why there is no value. ``compile``: no device has one."""

    text: str
    compile: bool = False


class DerivedValues:
    """Values per expression and row for one inventory."""

    def __init__(self, inventory: Inventory) -> None:
        self._table = CelTable(inventory.table)
        self._known: dict[str, dict[object, TypedValue | Failed]] = {}

    @classmethod
    def of(cls, inventory: Inventory) -> DerivedValues:
        """The values of an inventory; they live as long as it does."""
        found = inventory.derived.get(cls)
        if not isinstance(found, cls):
            found = inventory.derived[cls] = cls(inventory)
        return found

    def value(self, expression: str, row: int) -> TypedValue | Failed:
        """The attribute that the device in that row gets."""
        program = derivation(expression)
        if isinstance(program, str):
            return Failed(program, compile=True)
        broken = self._table.broken_text(row)
        if broken is not None:
            return Failed(broken)
        known = self._known.setdefault(expression, {})
        key: tuple[int, ...]
        if program.columns is None:  # it reads whole maps
            key = self._table.shape(program, row)
        else:
            key = tuple(self._table.code(column, row) for column in program.columns)
        found = known.get(key)
        if found is None:
            if len(known) >= _MOST_TUPLES:
                known.clear()
            found = known[key] = self._run(program, row)
        return found

    def _run(self, program: AttributeProgram, row: int) -> TypedValue | Failed:
        try:
            return program.evaluate(self._table.view(row))
        except CelRuntimeError as error:
            return Failed(error.message)


def derivation(expression: str) -> AttributeProgram | str:
    """The expression compiled as the scheduler does, or the compiler's message."""
    try:
        return compile_attribute(expression)
    except CelCompileError as error:
        return error.message
