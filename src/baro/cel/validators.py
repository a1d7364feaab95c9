"""What upstream checks after the types: literals that could only fail, mixed aggregates, format strings."""

from __future__ import annotations

from collections.abc import Callable

from baro.cel import ast, types
from baro.cel.ast import Node, walk
from baro.cel.errors import CelCompileError, CelRuntimeError, Issue, Source
from baro.cel.operators import checked_timestamp
from baro.cel.types import Type
from baro.cel.values import no_overload


def validate(tree: Node, source: Source) -> list[Issue]:
    """The complaints about a well-typed tree."""
    issues: list[Issue] = []
    nodes = list(walk(tree))
    _literals(nodes, source, issues)
    exempt = {id(part) for node, _ in nodes if _is_format(node) for part, _ in walk(node) if part is not node}
    for node, _ in nodes:
        if isinstance(node, ast.ListNode) and id(node) not in exempt:
            _same_elements(node, source, issues)
        elif isinstance(node, ast.MapNode) and id(node) not in exempt:
            _same_entries(node, source, issues)
    calls = [node for node, _ in nodes if isinstance(node, ast.Call) and _is_format(node)]
    if calls:
        from baro.cel.format_check import check_format  # noqa: PLC0415 only for those who format

        for call in calls:
            check_format(call, source, issues)
    return issues


def _literals(nodes: list[tuple[Node, int]], source: Source, issues: list[Issue]) -> None:
    for node, _ in nodes:
        if not isinstance(node, ast.Call) or node.function not in _LITERAL_CHECKS or not node.args:
            continue
        argument = node.args[0]
        if not isinstance(argument, ast.Literal):
            continue
        try:
            _try_literal(node.function, argument.value)
        except CelRuntimeError:
            issues.append(source.issue(argument.at, f"invalid {node.function} argument"))


def _try_literal(function: str, value: object) -> None:
    from baro.cel.functions.strings import compile_regex  # noqa: PLC0415 not every selector has such a call
    from baro.cel.functions.times import parse_duration, parse_timestamp  # noqa: PLC0415 as above

    if type(value) is str:
        checks: dict[str, Callable[[str], object]] = {
            "duration": parse_duration, "timestamp": parse_timestamp, "matches": compile_regex,
        }  # fmt: skip
        checks[function](value)
    elif type(value) is int and function == "timestamp":
        checked_timestamp(value * 10**9)
    elif function != "matches":
        raise no_overload()


_LITERAL_CHECKS = frozenset(["duration", "timestamp", "matches"])


def _is_format(node: Node) -> bool:
    return isinstance(node, ast.Call) and node.function == "format" and node.target is not None


def _unwrapped(given: Type, optional: bool) -> Type:
    """The type of an element. Upstream panics on one with a question mark whose type is not known."""
    if optional and not given.params:
        raise CelCompileError("PANIC: runtime error: index out of range [0] with length 0")
    return given.params[0] if optional else given


def _differ(first: Type, second: Type, at: int, source: Source, issues: list[Issue]) -> bool:
    if types.equivalent(first, second):
        return False
    issues.append(source.issue(at, f"expected type '{first.display()}' but found '{second.display()}'"))
    return True


def _same_elements(node: ast.ListNode, source: Source, issues: list[Issue]) -> None:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        given = _unwrapped(element.type, index in node.optional)
        if first is None:
            first = given
        elif _differ(first, given, element.at, source, issues):
            return


def _same_entries(node: ast.MapNode, source: Source, issues: list[Issue]) -> None:
    key: Type | None = None
    value: Type | None = None
    for entry in node.entries:
        given = _unwrapped(entry.value.type, entry.optional)
        if key is None or value is None:
            key, value = entry.key.type, given
            continue
        _differ(key, entry.key.type, entry.key.at, source, issues)
        _differ(value, given, entry.value.at, source, issues)
