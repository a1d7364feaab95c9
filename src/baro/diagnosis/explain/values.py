"""What devices publish in the columns that a selector reads, so that a mismatch can be seen at a glance.

Reads the expression through the CEL room; decides nothing. With a selector engine that has no expressions to
read (answers from a table) there is nothing to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from baro.allocator.problem import NodeProblem, bits
from baro.cel import CelCompileError, CelRuntimeError, Clause, Program, Value, compile_selector
from baro.cel.device import ColumnRef
from baro.inventory.cel_table import CelTable
from baro.inventory.columns import Column, DeviceTable
from baro.model.quantity import Quantity
from baro.model.semver import SemVer

_MOST_VALUES = 4
_MOST_DEVICES = 256


def program_of(expression: str) -> Program | None:
    """The compiled selector; ``None`` when it does not compile or there is none."""
    if not expression:
        return None
    try:
        return compile_selector(expression)
    except CelCompileError:
        return None


def column_of(table: DeviceTable, ref: ColumnRef) -> Column | None:
    """The column of the device table that a selector refers to."""
    match ref.kind:
        case "attribute":
            return table.attributes.get((ref.domain, ref.name))
        case "capacity":
            return table.capacities.get((ref.domain, ref.name))
        case "driver":
            return table.drivers
    return table.shareable


def published(problem: NodeProblem, expression: str, devices: int) -> Iterator[str]:
    """Which conditions of a selector the devices do not meet, and what they publish instead:
    ``productName == 'H100' is false: gpu.nvidia.com/productName = NVIDIA H100 80GB HBM3 (8)``.

    A condition counts for as many devices as it is false on; only the first ones are looked at.
    """
    program = program_of(expression) if devices else None
    if program is None or program.columns is None:
        return
    read = [column_of(problem.inventory.table, ref) for ref in program.columns]
    alike: dict[tuple[int, ...], list[int]] = {}
    for device in islice(bits(devices), _MOST_DEVICES):
        row = problem.rows[device]
        alike.setdefault(tuple(column.code(row) if column else 0 for column in read), []).append(row)
    table = CelTable(problem.inventory.table)
    said: dict[str, dict[str, Counter[str]]] = {}
    for rows in alike.values():
        for clause in _unmet(program, table, rows[0]):
            failed = "fails" if clause.error else "is false"
            by_column = said.setdefault(f"{clause.text} {failed}", {})
            for reading in clause.reads:
                value = "nothing" if reading.value is None else text_of(reading.value)
                by_column.setdefault(name_of(reading.column), Counter())[value] += len(rows)
    for condition, by_column in said.items():
        listed = "; ".join(f"{name} = {_listed(values)}" for name, values in by_column.items())
        yield f"{condition}: {listed}" if listed else condition


def _unmet(program: Program, table: CelTable, row: int) -> Sequence[Clause]:
    """The conditions that are not true on the device of a row; none on a device that cannot be evaluated."""
    try:
        return [clause for clause in program.explain(table.view(row)) if clause.value is not True]
    except CelRuntimeError:
        return ()


def _listed(values: Counter[str]) -> str:
    shown = ", ".join(f"{value} ({count})" for value, count in values.most_common(_MOST_VALUES))
    return f"{shown}, …" if len(values) > _MOST_VALUES else shown


def name_of(ref: ColumnRef) -> str:
    """``driver``, ``memory`` or ``domain/name`` of what is not of the device's own kind."""
    return ref.kind if ref.kind == "driver" else f"{ref.domain}/{ref.name}"


def text_of(value: Value | Quantity) -> str:
    """A published value with its type where that may surprise: ``0``, ``"0"``, ``version 1.2.3``."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        surprising = value.lstrip("-").isdigit() or value in ("true", "false", "")
        return f'"{value}"' if surprising else value
    if isinstance(value, SemVer):
        return f"version {value}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(text_of, value))}]"
    return str(value)
