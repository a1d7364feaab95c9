"""The abstract syntax tree of a CEL expression after macro expansion.

Every node carries ``at``, the character offset that messages about it point to (for a call: its operator or
opening parenthesis), and ``start`` and ``end``, the offsets of its text (half open, without parentheses
around the whole; -1 for nodes that a macro made up). The checker writes the type it found to ``type``;
nothing else is mutable by design.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Node:
    """Base of all nodes."""

    __slots__ = ("at", "depth", "end", "start", "type")

    def __init__(self, at: int) -> None:
        self.at = at
        self.start = self.end = -1
        self.depth = 0  # nesting as cel-go counts it against its limit of 250
        self.type: Any = None


class Literal(Node):
    """A constant; ``value`` is a CEL value (see ``values``)."""

    __slots__ = ("value",)

    def __init__(self, at: int, value: Any) -> None:
        super().__init__(at)
        self.value = value


class Ident(Node):
    __slots__ = ("name",)

    def __init__(self, at: int, name: str) -> None:
        super().__init__(at)
        self.name = name


class Select(Node):
    """``operand.field``; ``test`` for ``has(operand.field)``; ``optional`` for ``operand.?field``."""

    __slots__ = ("field", "field_at", "operand", "optional", "test")

    def __init__(
        self, at: int, operand: Node, field: str, *, test: bool = False, optional: bool = False
    ) -> None:
        super().__init__(at)
        self.operand = operand
        self.field = field
        self.field_at = at
        self.test = test
        self.optional = optional


class Call(Node):
    """``function(args)`` or, with a target, ``target.function(args)``; operators are calls named ``_+_``.

    ``overloads`` are the ids the checker found possible.
    """

    __slots__ = ("args", "function", "overloads", "target")

    def __init__(self, at: int, function: str, args: tuple[Node, ...], target: Node | None = None) -> None:
        super().__init__(at)
        self.function = function
        self.args = args
        self.target = target
        self.overloads: tuple[str, ...] = ()


class ListNode(Node):
    """``[a, ?b]``; ``optional`` holds the indices with a question mark."""

    __slots__ = ("elements", "optional")

    def __init__(self, at: int, elements: tuple[Node, ...], optional: frozenset[int] = frozenset()) -> None:
        super().__init__(at)
        self.elements = elements
        self.optional = optional


class Entry:
    """One ``key: value`` of a map, or ``field: value`` of a message (then ``key`` is a name)."""

    __slots__ = ("at", "key", "optional", "value")

    def __init__(self, at: int, key: Any, value: Node, optional: bool) -> None:
        self.at = at
        self.key = key
        self.value = value
        self.optional = optional


class MapNode(Node):
    __slots__ = ("entries",)

    def __init__(self, at: int, entries: tuple[Entry, ...]) -> None:
        super().__init__(at)
        self.entries = entries


class Message(Node):
    """``type.name{field: value}``. No message type has fields for device selectors but wrappers do."""

    __slots__ = ("entries", "name")

    def __init__(self, at: int, name: str, entries: tuple[Entry, ...]) -> None:
        super().__init__(at)
        self.name = name
        self.entries = entries


class Comprehension(Node):
    """A fold: what every iterating macro becomes.

    ``accu = init; for var in range: if not condition: break; accu = step; result``
    """

    __slots__ = ("accu", "condition", "init", "range", "result", "step", "var", "var2")

    def __init__(  # noqa: PLR0913, PLR0917 the seven parts are the definition of a fold
        self,
        at: int,
        range_: Node,
        var: str,
        var2: str | None,
        accu: str,
        init: Node,
        condition: Node,
        step: Node,
        result: Node,
    ) -> None:
        super().__init__(at)
        self.range = range_
        self.var = var
        self.var2 = var2
        self.accu = accu
        self.init = init
        self.condition = condition
        self.step = step
        self.result = result


class Broken(Node):
    """Stands where a complaint was already noted, so that parsing can go on."""

    __slots__ = ()


def children(node: Node) -> Iterator[Node]:
    """The direct parts of a node."""
    if isinstance(node, Select):
        yield node.operand
    elif isinstance(node, Call):
        if node.target is not None:
            yield node.target
        yield from node.args
    elif isinstance(node, ListNode):
        yield from node.elements
    elif isinstance(node, (MapNode, Message)):
        for entry in node.entries:
            if isinstance(entry.key, Node):
                yield entry.key
            yield entry.value
    elif isinstance(node, Comprehension):
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
