"""Where every value of a YAML or JSON document stands in its text, to the character.

``baro.model.positions`` says on which line a field is; this room says which characters it consists of, how a
scalar is written (plain, quoted, block) and which character of the text each character of its value came
from. Linters point into an expression with it, and fixes replace text without touching anything else.
Built for one document at a time and only when somebody asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal

import yaml
from yaml import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent

from baro.model.positions import Step
from baro.model.scalartext import Style, offsets
from baro.model.yamlio import events
from baro.model.yamlscalar import RejectedError, key_text, scalar

NodeStyle = Literal["plain", "single", "double", "literal", "folded", "flow", "block", "alias"]
_SCALAR_STYLES: Final[dict[str | None, Style]] = {
    None: "plain", "": "plain", "'": "single", '"': "double", "|": "literal", ">": "folded",
}  # fmt: skip
_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*[ \t\r\n]+)+")


class Span:
    """A value in its text: ``text[start:end]``; offsets count characters.

    ``key`` is the span of its key in a mapping. ``children`` are by key or index. A block collection begins
    at its first key or dash. ``shared`` says that the value stands below an alias or a merge: the same
    characters mean something elsewhere too.
    """

    __slots__ = ("children", "dash", "end", "key", "parent", "shared", "start", "style", "target", "value")

    def __init__(self, start: int, end: int, style: NodeStyle, value: Any = None) -> None:
        self.start, self.end, self.style, self.value = start, end, style, value
        self.key: tuple[int, int] | None = None
        self.dash: int | None = None
        self.children: dict[Step, Span] = {}
        self.parent: Span | None = None
        self.shared = False
        self.target: Span | None = None
        """What an alias stands for."""

    @property
    def is_scalar(self) -> bool:
        return self.style not in ("flow", "block", "alias")

    def at(self, steps: tuple[Step, ...]) -> Span | None:
        """The value at ``steps``, None where there is none. A key may hold dots that ``steps`` split."""
        node, index = self, 0
        while index < len(steps):
            for end in range(index + 1, len(steps) + 1):
                name = steps[index] if end == index + 1 else ".".join(map(str, steps[index:end]))
                child = node.children.get(name)
                if child is None:
                    child = node.children.get(str(name))
                if child is not None:
                    node, index = child, end
                    break
            else:
                return None
        return node

    def characters(self, text: str) -> list[int] | None:
        """For each character of a scalar's text value, and its end, the offset where it is written.

        None where the value is no text, or cannot be traced back.
        """
        if not self.is_scalar or not isinstance(self.value, str):
            return None
        found = offsets(text[self.start : self.end], _style_of(self.style), self.value)
        return None if found is None else [self.start + offset for offset in found]


def _style_of(style: NodeStyle) -> Style:
    found: Style = style  # type: ignore[assignment] # a scalar's style is one of the five
    return found


def spans(text: str) -> tuple[Span | None, ...]:
    """The documents of a YAML text that was read without error before, by index.

    None stands for a document without content; there are none at all where reading fails.
    """
    try:
        return tuple(_Walk(text).documents())
    except (yaml.YAMLError, RejectedError):
        return ()


class _Walk:
    """libyaml's events with a stack of open collections."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.stack: list[tuple[Span, list[Any]]] = []
        self.anchors: dict[str, Span] = {}
        self.root: Span | None = None

    def documents(self) -> Iterator[Span | None]:
        for event in events(self.text):
            kind = type(event)
            if kind is yaml.DocumentEndEvent:
                yield self.root
                self.stack, self.anchors, self.root = [], {}, None
            elif kind is not yaml.DocumentStartEvent:
                self.take(event, kind)

    def take(self, event: Any, kind: type) -> None:
        if kind is MappingEndEvent or kind is SequenceEndEvent:
            node, _ = self.stack.pop()
            if node.style == "flow":
                node.end = event.end_mark.index
            self.grow(node)
            return
        node = self.node(event, kind)
        if self.stack and self.is_key(event, kind, node):
            return
        if self.stack:
            self.attach(node)
        else:
            self.root = node
        if kind is MappingStartEvent or kind is yaml.SequenceStartEvent:
            self.stack.append((node, [kind is MappingStartEvent, None]))
        else:
            self.grow(node)

    def node(self, event: Any, kind: type) -> Span:
        start, end = event.start_mark.index, event.end_mark.index
        if kind is AliasEvent:
            node = Span(start, end, "alias")
            target = self.anchors.get(event.anchor)
            if target is not None:
                node.children, node.value, node.target = target.children, target.value, target
                _share(target)
            return node
        properties = _PROPERTIES.match(self.text, start) if event.anchor or event.tag else None
        start = properties.end() if properties else start
        if kind is ScalarEvent:
            node = Span(start, end, _SCALAR_STYLES[event.style], scalar(event))
            if node.style in ("literal", "folded"):
                node.end = max(start, start + len(self.text[start:end].rstrip(" \t\r\n")))
        else:
            node = Span(start, end, "flow" if event.flow_style else "block")
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def is_key(self, event: Any, kind: type, node: Span) -> bool:
        state = self.stack[-1][1]
        if not state[0] or state[1] is not None:
            return False
        state[1] = (key_text(scalar(event)) if kind is ScalarEvent else "", node)
        return True

    def attach(self, node: Span) -> None:
        owner, state = self.stack[-1]
        node.parent = owner
        if not state[0]:
            if owner.style == "block":
                node.dash = self.dash(owner, node)
            owner.children[len(owner.children)] = node
            return
        name, key = state[1]
        state[1] = None
        node.key = (key.start, key.end)
        if name == "<<":
            _share(node)
            owner.children = {**owner.children, **node.children}
        else:
            owner.children[name] = node

    def dash(self, owner: Span, node: Span) -> int | None:
        """The dash of a list item: in the column where the list begins, on its line or one above."""
        column = owner.start - (self.text.rfind("\n", 0, owner.start) + 1)
        line = self.text.rfind("\n", 0, node.start) + 1
        while line >= 0:
            if self.text[line + column : line + column + 1] == "-" and line + column < max(node.start, 1):
                return line + column
            if line <= owner.start:
                return None
            line = self.text.rfind("\n", 0, line - 1) + 1
        return None

    def grow(self, node: Span) -> None:
        """A block collection ends where its last value ends."""
        for owner, _ in self.stack:
            if owner.style == "block":
                owner.end = max(owner.end, node.end)


def _share(node: Span) -> None:
    node.shared = True
    for child in node.children.values():
        if not child.shared:
            _share(child)


# --- JSON ------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r'[ \t\r\n:,]*(?:("(?:[^"\\]|\\.)*")|([{\[])|([}\]])|([^\s,:{}\[\]"]+))', re.DOTALL)


def json_spans(text: str, start: int = 0) -> Span | None:
    """The JSON value that begins at ``start``; the text was read without error before."""
    import json  # noqa: PLC0415 - only for escapes of strings

    stack: list[tuple[Span, bool]] = []
    key: tuple[str, int, int] | None = None
    position = start
    while match := _TOKEN.match(text, position):
        position = match.end()
        string, opening, closing, plain = match.groups()
        at = match.start(match.lastindex or 0)
        if closing:
            node, _ = stack.pop()
            node.end = position
            if not stack:
                return node
            continue
        if string and stack and stack[-1][1] and key is None:
            key = (json.loads(string), at, position)
            continue
        if opening:
            node = Span(at, at, "flow")
        else:
            node = Span(at, position, "double" if string else "plain", json.loads(string or plain))
        if not stack:
            if not opening:
                return node
        else:
            _adopt(stack[-1][0], node, key)
            key = None
        if opening:
            stack.append((node, opening == "{"))
    return None


def _adopt(owner: Span, node: Span, key: tuple[str, int, int] | None) -> None:
    node.parent = owner
    if key is None:
        owner.children[len(owner.children)] = node
    else:
        node.key = key[1], key[2]
        owner.children[key[0]] = node
