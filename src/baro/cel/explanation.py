"""Why a selector gives what it gives on one device: its conditions one by one, each with its own outcome.

A selector is taken apart where it is joined by ``&&`` and ``||``, through ``cel.bind``; everything else is
one condition. Conditions are the selector's own parts, compiled once more on their own. What this is not:
another evaluator. An outcome is that of the condition by itself, so a condition behind a decisive one is told
as well, and each has the whole cost limit for itself (``Program.evaluate`` alone judges costs).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from baro.cel import ast
from baro.cel.ast import Node
from baro.cel.calls import logic_run
from baro.cel.code import Run
from baro.cel.computation import Computation
from baro.cel.device import ColumnRef, DeviceView, Value
from baro.cel.errors import CelRuntimeError, Source
from baro.cel.macros import is_binding
from baro.cel.native import selected
from baro.cel.values import no_overload
from baro.model.quantity import Quantity

Operator = Literal["", "&&", "||"]
_OPERATORS: dict[str, Operator] = {"_&&_": "&&", "_||_": "||"}


class Reading(msgspec.Struct, frozen=True):
    """A value of the device that a condition looks at; ``None`` when the device lacks it."""

    column: ColumnRef
    value: Value | Quantity | None


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """One condition of a selector on one device.

    ``text`` is as written, without parentheses around the whole, and stands at ``start`` to ``end``
    (character offsets, half open), from ``line`` and ``column`` (from 1, as in compile errors) on. ``value``
    is ``None`` if it failed, then ``error`` has the scheduler's words. ``operator`` tells how ``parts`` are
    joined; a condition that cannot be taken apart has none. ``reads`` are the single values it names, in
    order of name; ``whole_map`` is true if it walks or counts attributes or capacities, so that more may
    matter.
    """

    text: str
    start: int
    end: int
    line: int
    column: int
    value: bool | None
    error: str | None = None
    operator: Operator = ""
    parts: tuple[Clause, ...] = ()
    reads: tuple[Reading, ...] = ()
    whole_map: bool = False


class _Condition:
    """A part of the tree, ready to run; with ``parts`` it is joined from their outcomes."""

    __slots__ = ("columns", "node", "operator", "parts", "program", "whole")

    def __init__(self, node: Node, text: Node, length: int) -> None:
        self.node = text
        self.operator: Operator = ""
        self.parts: list[_Condition] = []
        self.columns: frozenset[ColumnRef] = frozenset()
        self.whole = False
        body, wrappers = _body(node)
        if isinstance(body, ast.Call) and body.function in _OPERATORS:
            self.operator = _OPERATORS[body.function]
            parts = _flat(body, body.function)
            self.parts = [_Condition(_wrapped(part, wrappers), part, length) for part in parts]
            self.columns = frozenset().union(*(part.columns for part in self.parts))
            self.whole = any(part.whole for part in self.parts)
            return
        self.program = Computation(node, length)
        self.columns = self.program.reads
        self.whole = self.program.columns is None

    def outcome(self, device: DeviceView, source: Source) -> tuple[Clause, Any]:
        """The clause, and the value or the error behind it."""
        parts = [part.outcome(device, source) for part in self.parts]
        found: Any
        try:
            if parts:
                found = logic_run(self.operator == "||", [_again(one) for _, one in parts])(device, [])
            else:
                found = self.program.value(device)
        except CelRuntimeError as error:
            found = error
        failed = found if isinstance(found, CelRuntimeError) else None
        if failed is None and type(found) is not bool:
            failed = no_overload()  # what a value that is no bool is worth between && and ||
        line, column = source.place(self.node.start)
        clause = Clause(
            text=source.text[self.node.start : self.node.end],
            start=self.node.start, end=self.node.end, line=line, column=column,
            value=None if failed else found, error=failed.message if failed else None,
            operator=self.operator, parts=tuple(part for part, _ in parts),
            reads=_readings(self.columns, device), whole_map=self.whole,
        )  # fmt: skip
        return clause, found


def explain(tree: Node, expression: str) -> Explanation:
    """The conditions of a selector. The caller provides for a deep Python stack, here and there."""
    return Explanation(_Condition(tree, tree, len(expression)), Source(expression))


class Explanation:
    """The conditions of one selector; call it with a device."""

    __slots__ = ("_source", "_whole")

    def __init__(self, whole: _Condition, source: Source) -> None:
        self._whole = whole
        self._source = source

    def __call__(self, device: DeviceView) -> tuple[Clause, ...]:
        """One clause per condition joined by the outermost ``&&``, in order; else the one clause there is."""
        clause, found = self._whole.outcome(device, self._source)
        if clause.operator == "&&":
            return clause.parts
        if type(found) is bool or isinstance(found, CelRuntimeError):
            return (clause,)
        try:  # alone it is the result, which may be an optional
            return (msgspec.structs.replace(clause, value=selected(found), error=None),)
        except CelRuntimeError as error:
            return (msgspec.structs.replace(clause, error=error.message),)


def _body(node: Node) -> tuple[Node, list[ast.Comprehension]]:
    """What is inside of ``cel.bind``, and the bindings around it, outermost first."""
    wrappers: list[ast.Comprehension] = []
    inner = node
    while isinstance(inner, ast.Comprehension) and is_binding(inner):
        wrappers.append(inner)
        inner = inner.result
    return inner, wrappers


def _wrapped(node: Node, wrappers: list[ast.Comprehension]) -> Node:
    """The node with the bindings around it again."""
    for outer in reversed(wrappers):
        wrapped = ast.Comprehension(
            outer.at, outer.range, outer.var, None, outer.accu, outer.init, outer.condition, outer.step, node
        )
        wrapped.type = node.type
        node = wrapped
    return node


def _flat(node: Node, function: str) -> list[Node]:
    """The operands of a chain; parentheses around a part of it do not matter."""
    if not isinstance(node, ast.Call) or node.function != function:
        return [node]
    return [operand for arg in node.args for operand in _flat(arg, function)]


def _again(found: Any) -> Run:
    def run(device: DeviceView, frame: list[Any]) -> Any:
        if isinstance(found, CelRuntimeError):
            raise found
        return found

    return run


def _readings(columns: frozenset[ColumnRef], device: DeviceView) -> tuple[Reading, ...]:
    ordered = sorted(columns, key=lambda column: (column.kind, column.domain, column.name))
    return tuple(Reading(column, value_of(device, column)) for column in ordered)


def value_of(device: DeviceView, column: ColumnRef) -> Value | Quantity | None:
    """What a device has in a column, ``None`` if nothing."""
    if column.kind == "driver":
        return device.driver
    if column.kind == "allowMultipleAllocations":
        return device.allow_multiple_allocations
    fields = device.attributes if column.kind == "attribute" else device.capacity
    return fields.get(column.domain, {}).get(column.name)
