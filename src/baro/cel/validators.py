"""What upstream checks after the types: literals that could only fail, mixed aggregates, format strings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from baro.cel import ast, types
from baro.cel.ast import Node
from baro.cel.errors import CelRuntimeError, Issue, Source
from baro.cel.functions.formatting import WRONG_TYPE, FormatError, clauses
from baro.cel.functions.strings import compile_regex
from baro.cel.functions.times import parse_duration, parse_timestamp
from baro.cel.operators import checked_timestamp
from baro.cel.types import Type
from baro.cel.values import no_overload

_WANTED = {
    "d": ("int", "uint"),
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": ("int", "uint", "bool"),
    "x": ("int", "uint", "string", "bytes"),
    "o": ("int", "uint"),
}
_PRINTABLE = frozenset(
    [
        "list",
        "map",
        "int",
        "uint",
        "double",
        "bool",
        "string",
        "google.protobuf.Timestamp",
        "bytes",
        "google.protobuf.Duration",
        "type",
        "null_type",
        "dyn",
    ]
)


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
    for node, _ in nodes:
        if isinstance(node, ast.Call) and _is_format(node):
            _format_call(node, source, issues)
    return issues


def children(node: Node) -> Iterator[Node]:
    """The direct parts of a node."""
    if isinstance(node, ast.Select):
        yield node.operand
    elif isinstance(node, ast.Call):
        if node.target is not None:
            yield node.target
        yield from node.args
    elif isinstance(node, ast.ListNode):
        yield from node.elements
    elif isinstance(node, (ast.MapNode, ast.Message)):
        for entry in node.entries:
            if isinstance(entry.key, Node):
                yield entry.key
            yield entry.value
    elif isinstance(node, ast.Comprehension):
        yield from (node.range, node.init, node.condition, node.step, node.result)


def walk(tree: Node) -> Iterator[tuple[Node, int]]:
    """Every node with its depth, parents first. A node that macros share comes once."""
    seen: set[int] = set()
    stack = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node, depth
        stack += [(child, depth + 1) for child in reversed(list(children(node)))]


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
    if type(value) is str:
        _LITERAL_CHECKS[function](value)
    elif type(value) is int and function == "timestamp":
        checked_timestamp(value * 10**9)
    elif function != "matches":
        raise no_overload()


_LITERAL_CHECKS: dict[str, Callable[[str], object]] = {
    "duration": parse_duration,
    "timestamp": parse_timestamp,
    "matches": compile_regex,
}


def _is_format(node: Node) -> bool:
    return isinstance(node, ast.Call) and node.function == "format" and node.target is not None


def _unwrapped(given: Type, optional: bool) -> Type:
    return given.params[0] if optional and given.params else given


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


def _format_call(node: ast.Call, source: Source, issues: list[Issue]) -> None:
    text, args = node.target, node.args[0]
    if not isinstance(text, ast.Literal) or type(text.value) is not str or not isinstance(args, ast.ListNode):
        return
    used = 0
    try:
        for piece in clauses(text.value):
            if isinstance(piece, str):
                continue
            if piece[0]:
                bad = _unfit(piece[0], args.elements[used - 1])
                if bad is not None:
                    message = f"{WRONG_TYPE[piece[0].lower()]}, was given {bad.type.name}"
                    issues.append(source.issue(bad.at, f"error during formatting: {message}"))
                    return
                continue
            used += 1
            if used > len(args.elements) and piece[1] is None:
                raise FormatError(f"index {used - 1} out of range")
    except FormatError as error:
        issues.append(source.issue(node.at, str(error)))
        return
    if len(args.elements) > used:
        counts = f"(expected {used}, got {len(args.elements)})"
        issues.append(source.issue(node.at, f"too many arguments supplied to string.format {counts}"))


def _unfit(letter: str, node: Node) -> Node | None:
    """The node whose type a clause cannot print, or ``None``."""
    name = node.type.name
    if letter != "s":
        return None if name == "dyn" or name in _WANTED[letter.lower()] else node
    if name not in _PRINTABLE:
        return node
    parts: list[Node] = []
    if isinstance(node, ast.ListNode):
        parts = list(node.elements)
    elif isinstance(node, ast.MapNode):
        parts = [part for entry in node.entries for part in (entry.key, entry.value)]
    return next((bad for bad in (_unfit("s", part) for part in parts) if bad is not None), None)
