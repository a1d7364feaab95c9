"""What a checked selector reads of a device, and what it compares with constants.

Looks at the syntax tree only. Values that come by way of a variable (``cel.bind``, macros over maps) are not
followed: nothing is said about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from baro.cel.ast import Call, Entry, ListNode, Node, Select
from baro.cel.ast import Literal as Constant
from baro.cel.values import type_name

Kind = Literal["attribute", "capacity"]
_KINDS: Final[dict[str, Kind]] = {"attributes": "attribute", "capacity": "capacity"}
COMPARISONS: Final = {
    "_==_": "==",
    "_!=_": "!=",
    "_<_": "<",
    "_<=_": "<=",
    "_>_": ">",
    "_>=_": ">=",
    "@in": "in",
}
METHODS: Final = ("startsWith", "endsWith", "contains")
_MIRRORED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Read(msgspec.Struct, frozen=True):
    """``device.attributes['domain'].name`` at ``text[start:end]``."""

    kind: Kind
    domain: str
    name: str
    start: int
    end: int
    guarded: bool
    """Whether a missing value is no error here: ``has()``, ``.?name``."""

    @property
    def full(self) -> str:
        return f"{self.domain}/{self.name}"

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.domain, self.name


class Comparison(msgspec.Struct, frozen=True):
    """A read compared with constants; ``type`` is that of all of them, empty when they differ.

    ``operator`` is as written with the read on the left. ``literal`` is the span of the constants.
    """

    read: Read
    operator: str
    values: tuple[Any, ...]
    type: str
    start: int
    end: int
    literal: tuple[int, int]


class ConstantCall(msgspec.Struct, frozen=True):
    """``quantity('80 Gi')``: a constructor of a constant."""

    function: str
    value: str
    start: int
    end: int


class MethodCall(msgspec.Struct, frozen=True):
    """``device.attributes['domain'].name.startsWith('text')``: a test of a text with a constant."""

    read: Read
    method: str
    value: str
    method_span: tuple[int, int]
    """The method's name in the text."""
    literal: tuple[int, int]


class Reads(msgspec.Struct, frozen=True):
    """Everything of one selector, in the order of the text."""

    reads: tuple[Read, ...]
    guards: frozenset[tuple[str, str, str]]
    """Values that are tested for presence somewhere in the selector."""
    comparisons: tuple[Comparison, ...]
    constants: tuple[ConstantCall, ...]
    calls: tuple[MethodCall, ...]
    driver_tests: tuple[ConstantCall, ...]
    """``device.driver`` compared with a constant; the function is ``driver``."""
    drivers: frozenset[str]
    """Names that ``device.driver`` is compared with."""


def of(tree: Node) -> Reads:
    reads: dict[tuple[int, int], Read] = {}
    guards: set[tuple[str, str, str]] = set()
    comparisons: list[Comparison] = []
    constants: list[ConstantCall] = []
    calls: list[MethodCall] = []
    drivers: list[ConstantCall] = []
    for node in walk(tree):
        read = _read(node)
        if read is not None:
            reads.setdefault((read.start, read.end), read)
            if read.guarded:
                guards.add(read.key)
        if isinstance(node, Call):
            guards |= set(_tested(node))
            drivers += _driver(node)
            found = _comparison(node)
            if found is not None:
                comparisons.append(found)
            if (call := _method(node)) is not None:
                calls.append(call)
            if node.function in ("quantity", "semver") and len(node.args) == 1:
                argument = node.args[0]
                if isinstance(argument, Constant) and isinstance(argument.value, str):
                    constants.append(
                        ConstantCall(node.function, argument.value, argument.start, argument.end)
                    )
    return Reads(
        tuple(reads[place] for place in sorted(reads)),
        frozenset(guards),
        tuple(comparisons),
        tuple(constants),
        tuple(calls),
        tuple(drivers),
        frozenset(test.value for test in drivers),
    )


def walk(node: Node) -> Iterator[Node]:
    """All nodes, parents before children."""
    stack: list[Node] = [node]
    while stack:
        found = stack.pop()
        yield found
        for base in type(found).__mro__:
            for slot in getattr(base, "__slots__", ()):
                stack += _nodes(getattr(found, slot, None))


def _nodes(value: Any) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    if isinstance(value, Entry):
        return [*_nodes(value.key), *_nodes(value.value)]
    if isinstance(value, tuple):
        return [node for item in value for node in _nodes(item)]
    return []


def _map_of(node: Any) -> tuple[Kind, str, bool] | None:
    """(kind, domain, optional) of ``device.attributes['domain']``."""
    if not isinstance(node, Call) or node.function not in ("_[_]", "_[?_]") or len(node.args) != 2:
        return None
    holder, domain = node.args
    kind = _holder(holder)
    if kind is None or not isinstance(domain, Constant) or not isinstance(domain.value, str):
        return None
    return kind, domain.value, node.function == "_[?_]"


def _holder(node: Any) -> Kind | None:
    """``device.attributes`` or ``device.capacity``."""
    if isinstance(node, Select) and not node.test and getattr(node.operand, "name", None) == "device":
        return _KINDS.get(node.field)
    return None


def _read(node: Node) -> Read | None:
    if isinstance(node, Select):
        found = _map_of(node.operand)
        if found is None or node.start < 0:
            return None
        guarded = node.test or node.optional or found[2]
        return Read(found[0], found[1], node.field, node.start, node.end, guarded)
    if isinstance(node, Call) and node.function in ("_[_]", "_[?_]") and len(node.args) == 2:
        found, name = _map_of(node.args[0]), node.args[1]
        if (
            found is None
            or not isinstance(name, Constant)
            or not isinstance(name.value, str)
            or node.start < 0
        ):
            return None
        guarded = node.function == "_[?_]" or found[2]
        return Read(found[0], found[1], name.value, node.start, node.end, guarded)
    return None


def _tested(node: Call) -> Iterator[tuple[str, str, str]]:
    """``'name' in device.attributes['domain']``."""
    if node.function == "@in" and len(node.args) == 2:
        name, holder = node.args
        found = _map_of(holder)
        if found is not None and isinstance(name, Constant) and isinstance(name.value, str):
            yield found[0], found[1], name.value


def _driver(node: Call) -> Iterator[ConstantCall]:
    if node.function not in ("_==_", "@in") or len(node.args) != 2:
        return
    for one, other in (node.args, node.args[::-1]):
        if isinstance(one, Select) and one.field == "driver" and getattr(one.operand, "name", "") == "device":
            for constant in other.elements if isinstance(other, ListNode) else (other,):
                if isinstance(constant, Constant) and isinstance(constant.value, str):
                    yield ConstantCall("driver", constant.value, constant.start, constant.end)


def _method(node: Call) -> MethodCall | None:
    read = _read(node.target) if node.target is not None else None
    if read is None or node.function not in METHODS or len(node.args) != 1:
        return None
    argument = node.args[0]
    if not isinstance(argument, Constant) or not isinstance(argument.value, str) or argument.start < 0:
        return None
    span = (read.end, read.end + 1 + len(node.function))
    return MethodCall(read, node.function, argument.value, span, (argument.start, argument.end))


def _constants(node: Node) -> tuple[Any, ...] | None:
    if isinstance(node, Constant):
        return (node.value,)
    if isinstance(node, ListNode) and node.elements:
        values = tuple(element.value for element in node.elements if isinstance(element, Constant))
        return values if len(values) == len(node.elements) else None
    return None


def _comparison(node: Call) -> Comparison | None:
    operator = COMPARISONS.get(node.function)
    if operator is None or len(node.args) != 2 or node.start < 0:
        return None
    left, right = node.args
    read, other = _read(left), right
    if read is None and operator != "in":
        read, other, operator = _read(right), left, _MIRRORED[operator]
    values = _constants(other) if read is not None else None
    if read is None or values is None or read.guarded:
        return None
    types = {type_name(value) for value in values}
    return Comparison(
        read,
        operator,
        values,
        types.pop() if len(types) == 1 else "",
        node.start,
        node.end,
        (other.start, other.end),
    )
