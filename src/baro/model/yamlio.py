"""YAML as Kubernetes reads it: several documents, JSON types only, lines in every error.

Scalars are resolved as Kubernetes does (``baro.model.yamlscalar``), keys that are numbers or booleans
become text, ``<<`` merges. Stricter than kubectl in one thing: a key that occurs twice is an error, as it
is for the API server.

Documents are built from libyaml's events without recursion, so depth and alias expansion are bounded
while reading. Files, lists of objects and kinds are the business of ``baro.model.load``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Protocol, cast

import msgspec
import yaml
from yaml import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.cyaml import CParser  # type: ignore[attr-defined]

from baro.model.errors import InputError, TooLargeError, Where
from baro.model.positions import Position
from baro.model.yamlscalar import RejectedError, key_text, scalar

_LINE_DEPTH = 3  # document, items, item: the starts that error messages name


class Document(msgspec.Struct, frozen=True):
    """One document: its value in JSON types, its first line, its index in the text.

    ``lines`` gives the first line of mappings near the top, by ``id`` of the mapping.
    """

    body: Any
    line: int
    index: int
    lines: dict[int, int]


def documents(data: bytes, *, file: str, depth: int, alias_nodes: int) -> Iterator[Document]:
    """The documents of a YAML text; those without a value (comments only, ``null``) are left out.

    ``depth`` bounds nesting, ``alias_nodes`` the nodes that aliases may add to one document.
    Raises ``InputError`` with file and line.
    """
    index = -1
    builder = _Builder(file, depth, alias_nodes)
    for event in _events(data, file):
        if isinstance(event, yaml.DocumentStartEvent):
            index += 1
            builder = _Builder(file, depth, alias_nodes)
        elif isinstance(event, yaml.DocumentEndEvent):
            if builder.root is not None:
                yield Document(builder.root, builder.line, index, builder.lines)
        else:
            _mapped(builder, event, data, file)


def _mapped(builder: _Builder, event: Any, data: bytes, file: str) -> None:
    try:
        builder.take(event)
    except RejectedError as rejected:
        mark = rejected.mark or event.start_mark
        where = Where(file=file, line=mark.line + 1, column=mark.column + 1)
        kind = TooLargeError if rejected.too_large else InputError
        raise kind(rejected.what, where=where, next_step=_template_hint(data) or rejected.next_step) from None


# --- building --------------------------------------------------------------------------------------------


class _Mark:
    """Sentinels that no document can contain."""


_NO_KEY: Final = _Mark()
_MERGE: Final = _Mark()
_OPEN: Final = _Mark()


class _Frame:
    """A collection that is still being read."""

    __slots__ = ("anchor", "key", "mark", "seen", "value")

    def __init__(self, value: Any, event: Any) -> None:
        self.value, self.anchor, self.mark = value, event.anchor, event.start_mark
        self.key: Any = _NO_KEY
        self.seen: set[str] = set()


class _Builder:
    """One document, event by event."""

    def __init__(self, file: str, depth: int, alias_nodes: int) -> None:
        self.file, self.depth, self.alias_nodes = file, depth, alias_nodes
        self.root: Any = None
        self.line = 0
        self.lines: dict[int, int] = {}
        self.stack: list[_Frame] = []
        self.anchors: dict[str, Any] = {}

    def take(self, event: Any) -> None:
        kind = type(event)
        if kind is ScalarEvent:
            self._scalar(event)
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            self._open({} if kind is MappingStartEvent else [], event)
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            self._close()
        elif kind is AliasEvent:
            self._add(self._alias(event.anchor))

    def _scalar(self, event: Any) -> None:
        frame = self.stack[-1] if self.stack else None
        if frame is None:
            self.line = event.start_mark.line + 1
        elif frame.key is _NO_KEY and type(frame.value) is dict and event.value == "<<" and _may_merge(event):
            frame.key = _MERGE
            return
        value = scalar(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = value
        self._add(value)

    def _open(self, value: Any, event: Any) -> None:
        if not self.stack:
            self.line = event.start_mark.line + 1
        if len(self.stack) >= self.depth:
            raise RejectedError(
                f"nested more than {self.depth} levels deep",
                "no Kubernetes object is that deep: check the brackets and the indentation",
                too_large=True,
            )
        if event.anchor is not None:
            self.anchors[event.anchor] = _OPEN
        self.stack.append(_Frame(value, event))

    def _close(self) -> None:
        frame = self.stack.pop()
        if frame.anchor is not None:
            self.anchors[frame.anchor] = frame.value
        if len(self.stack) < _LINE_DEPTH and type(frame.value) is dict:
            self.lines[id(frame.value)] = frame.mark.line + 1
        try:
            self._add(frame.value)
        except RejectedError as rejected:
            rejected.mark = frame.mark
            raise

    def _add(self, value: Any) -> None:
        if not self.stack:
            self.root = value
            return
        frame = self.stack[-1]
        if type(frame.value) is list:
            frame.value.append(value)
        elif frame.key is _NO_KEY:
            frame.key = key = key_text(value)
            if key in frame.seen:
                raise RejectedError(f'duplicate field "{key}"', "keep one of the two")
            frame.seen.add(key)
        elif frame.key is _MERGE:
            frame.key = _NO_KEY
            _merge(frame.value, value)
        else:
            frame.value[frame.key] = value
            frame.key = _NO_KEY

    def _alias(self, name: str) -> Any:
        if name not in self.anchors:
            raise RejectedError(
                f"unknown anchor '{name}' referenced", f"define it with &{name} above this line"
            )
        value = self.anchors[name]
        if value is _OPEN:
            raise RejectedError(f"anchor '{name}' value contains itself", "write the repeated part out")
        return self._copy(value, len(self.stack))

    def _copy(self, value: Any, level: int) -> Any:
        """A copy, so that a change in one place does not show in the other; counts and bounds the nodes."""
        self.alias_nodes -= 1
        if self.alias_nodes < 0:
            raise RejectedError(
                "document contains excessive aliasing", "write the repeated parts out", too_large=True
            )
        if level > self.depth:
            raise RejectedError(
                f"nested more than {self.depth} levels deep", "write the aliases out", too_large=True
            )
        if type(value) is dict:
            return {key: self._copy(child, level + 1) for key, child in value.items()}
        if type(value) is list:
            return [self._copy(child, level + 1) for child in value]
        return value


def _may_merge(event: Any) -> bool:
    return bool(event.implicit[0]) or event.tag == "tag:yaml.org,2002:merge"


def _merge(target: dict[str, Any], value: Any) -> None:
    """Later keys win, as in go-yaml v2; of several merged mappings the first wins."""
    sources = value[::-1] if type(value) is list else [value]
    if not all(type(source) is dict for source in sources):
        raise RejectedError(
            "map merge requires map or sequence of maps as the value",
            "let << refer to a mapping, or quote it",
        )
    for source in sources:
        target.update(source)


# --- events, errors --------------------------------------------------------------------------------------


class _EventSource(Protocol):
    def get_event(self) -> Any: ...
    def dispose(self) -> None: ...


def events(text: bytes | str) -> Iterator[Any]:
    """libyaml's events; endless streams end at the stream's end event. Raises ``yaml.YAMLError``."""
    parser = cast("_EventSource", CParser(text))
    try:
        while True:
            event = parser.get_event()
            if event is None or type(event) is yaml.StreamEndEvent:
                return
            if type(event) is not yaml.StreamStartEvent:
                yield event
    finally:
        parser.dispose()


def _events(data: bytes, file: str) -> Iterator[Any]:
    """The events, with libyaml's errors mapped."""
    try:
        yield from events(data)
    except yaml.YAMLError as error:
        raise _mapped_error(error, data, file) from None


_MESSAGES: dict[str, tuple[str, str]] = {
    "mapping values are not allowed in this context": (
        "mapping values are not allowed here",
        "check the indentation, and quote a value that contains ': '",
    ),
    "did not find expected key": ("a key is expected here", "check the indentation and the quotes above it"),
    "did not find expected '-' indicator": (
        "a '-' is expected here",
        "align the entries of a list, and the key that follows it",
    ),
    "found a tab character that violates indentation": (
        "a tab is used for indentation",
        "indent with spaces",
    ),
    "found incompatible YAML document": ("a %YAML version that nobody reads", "remove the %YAML line"),
    "exceeded maximum nesting depth": ("nested more than 1,000 levels deep", "check the brackets"),
    "could not find expected ':'": ("a ':' is expected here", "a key needs ': ' after it"),
    "found unexpected end of stream": (
        "the text ends inside quotes",
        "close the quotes or get the whole file",
    ),
    "did not find expected ',' or '}'": ("',' or '}' is expected here", "close the bracket: '}'"),
    "did not find expected ',' or ']'": ("',' or ']' is expected here", "close the bracket: ']'"),
}


def _mapped_error(error: yaml.YAMLError, data: bytes, file: str) -> InputError:
    hint = _template_hint(data)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:  # a character that YAML does not allow; ``position`` counts bytes or characters
        position = int(getattr(error, "position", 0))
        what = str(getattr(error, "reason", None) or "not YAML")
        where = Where(file=file, line=data.count(b"\n", 0, position) + 1)
        return InputError(
            what, where=where, next_step=hint or "remove the character; a manifest is plain text"
        )
    problem = str(getattr(error, "problem", None) or error)
    what, next_step = _MESSAGES.get(problem, (problem, "check the indentation and the quotes near this line"))
    if problem == "found character that cannot start any token":
        line = data.splitlines()[mark.line : mark.line + 1]
        character = line[0].decode("utf-8", "replace")[mark.column : mark.column + 1] if line else ""
        tab = character == "\t"
        what = "a tab is used for indentation" if tab else f"a value cannot start with {character!r}"
        next_step = "indent with spaces" if tab else "quote the value"
    opened = getattr(error, "context_mark", None)
    if opened is not None and opened.line < mark.line and what != problem:
        what += f"; what it belongs to starts on line {opened.line + 1}"
    where = Where(file=file, line=mark.line + 1, column=mark.column + 1)
    return InputError(what, where=where, next_step=hint or next_step)


_TEMPLATE = re.compile(rb"^[^#\n]*\{\{", re.MULTILINE)


def _template_hint(data: bytes) -> str | None:
    if _TEMPLATE.search(data):
        return "this is a template, not a manifest: render it first, for instance with `helm template`"
    return None


# --- positions -------------------------------------------------------------------------------------------


def positions(data: bytes, *, file: str) -> tuple[Position | None, ...]:
    """Lines and columns of all documents of a text that was read without error, by index."""
    return tuple(_Tree().read(data, file))


class _Tree:
    """The positions of one document after another."""

    def __init__(self) -> None:
        self.stack: list[tuple[Position, list[Any]]] = []
        self.anchors: dict[str, Position] = {}
        self.root: Position | None = None

    def read(self, data: bytes, file: str) -> Iterator[Position | None]:
        for event in _events(data, file):
            kind = type(event)
            if kind is yaml.DocumentEndEvent:
                yield self.root
                self.stack, self.anchors, self.root = [], {}, None
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                self.stack.pop()
            elif kind is not yaml.DocumentStartEvent:
                self.take(event, kind)

    def take(self, event: Any, kind: type) -> None:
        node = Position(event.start_mark.line + 1, event.start_mark.column + 1)
        if kind is AliasEvent:
            node.children = self.anchors[event.anchor].children
        elif event.anchor is not None:
            self.anchors[event.anchor] = node
        self.root = self.root or node
        if self.stack and _is_key(self.stack[-1], event, node):
            return
        if self.stack:
            _attach(self.stack[-1], node)
        if kind is MappingStartEvent or kind is SequenceStartEvent:
            self.stack.append((node, [kind is MappingStartEvent, None]))


def _is_key(parent: tuple[Position, list[Any]], event: Any, node: Position) -> bool:
    """Whether the event is a key of the mapping above; remembers it with its place."""
    state = parent[1]
    if not state[0] or state[1] is not None:
        return False
    state[1] = (key_text(scalar(event)) if type(event) is ScalarEvent else "", node)
    return True


def _attach(parent: tuple[Position, list[Any]], node: Position) -> None:
    owner, state = parent
    if not state[0]:
        owner.children[len(owner.children)] = node
        return
    key, place = state[1]
    state[1] = None
    if key == "<<":
        owner.children = {**owner.children, **node.children}
    else:
        owner.children[key] = node
        node.line, node.column = place.line, place.column
