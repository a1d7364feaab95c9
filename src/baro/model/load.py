"""Objects from manifests and dumps: files, directories, standard input; YAML, JSON, lists.

Every object comes with the file and line where it starts, and finds the line of any of its fields when
asked. What is wrong with the input is one ``InputError`` with file, line and what to do; garbage costs
little time and memory (``Limits``). Whether an object is *right* (fields, values, versions) is not decided
here: see ``baro.model.decode`` and ``baro.model.validation``.

Large JSON dumps stay bytes: an object is decoded when its ``body`` or its Struct is asked for, so a caller
that goes through a dump one object at a time holds one object at a time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import msgspec

from baro.model import jsonio, textio, yamlio
from baro.model.decode import to_kind
from baro.model.errors import InputError, Where
from baro.model.kinds.base import KubeObject
from baro.model.positions import Position, Step, locate, split_path
from baro.model.textio import Limits, Text

__all__ = ["Limits", "Loaded", "Source", "decode_objects", "load_bytes", "load_json_list", "load_paths"]

Kind = TypeVar("Kind", bound=KubeObject)

STDIN = "stdin"
"""How errors name standard input."""


class Source(msgspec.Struct, frozen=True):
    """Where an object stands: ``steps`` into the YAML document with that index, or the byte ``offset`` of a
    JSON value."""

    text: Text
    document: int = 0
    steps: tuple[Step, ...] = ()
    offset: int | None = None


class Loaded:
    """One object of a manifest or dump. Read only.

    ``where`` names file, first line and object. ``body`` is the object in JSON types; for objects of a large
    JSON dump it is decoded on each access, so keep it in a variable.
    """

    __slots__ = ("_body", "_origin", "_root", "api_version", "kind", "where")

    def __init__(self, body: dict[str, Any], where: Where | None = None) -> None:
        self.where = where or Where()
        self.api_version = str(body.get("apiVersion", ""))
        self.kind = str(body.get("kind", ""))
        self._body: dict[str, Any] | None = body
        self._origin: _YamlOrigin | _JsonOrigin | None = None
        self._root: Position | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The object in JSON types. Raises ``InputError`` for a number out of range in a large dump."""
        if self._body is None and isinstance(self._origin, _JsonOrigin):
            body = self._origin.decode(self.where)
            if body.get("kind") and body.get("apiVersion"):
                return body
            return {**body, "apiVersion": self.api_version, "kind": self.kind}
        return self._body or {}

    def as_kind(self) -> KubeObject | None:
        """The Struct of the object in the v1 shape, or None for kinds that baro does not model.

        Raises ``InputError`` with file, line and field path where a field has a wrong type.
        """
        struct = _struct(self.api_version, self.kind)
        if struct is not None and isinstance(self._origin, _JsonOrigin):
            try:
                return self._origin.decode_as(struct)
            except msgspec.ValidationError:
                pass  # nulls, or a wrong type: the slow way knows what to say
        return to_kind(self.body, self.where)

    def position_of(self, path: str) -> tuple[int, int] | None:
        """Line and column, from 1, of a field such as ``spec.devices[0].name``.

        A field that is missing has the place of the nearest field above it that is there. None if the object
        did not come from a text.
        """
        if self._origin is None:
            return None
        if self._root is None:
            self._root = self._origin.root()
        found = locate(self._root, split_path(path))
        return found.line, found.column

    @property
    def source(self) -> Source | None:
        """The text that the object came from, and its place in it; None if it did not come from a text."""
        origin = self._origin
        if isinstance(origin, _YamlOrigin):
            return Source(origin.places.text, document=origin.index, steps=origin.steps)
        if isinstance(origin, _JsonOrigin):
            return Source(origin.text, offset=origin.piece.offset)
        return None

    def line_of(self, path: str) -> int | None:
        """The line of a field; see ``position_of``."""
        position = self.position_of(path)
        return position[0] if position else None

    def where_of(self, path: str) -> Where:
        """``where`` made exact: with the line and column of a field, and its path."""
        line, column = self.position_of(path) or (self.where.line, None)
        return Where(
            file=self.where.file, line=line, column=column, object=self.where.object, path=path or None
        )

    def __repr__(self) -> str:
        return f"Loaded({self.where})"


def load_paths(
    paths: Sequence[str | Path], *, stdin: BinaryIO | None = None, limits: Limits | None = None
) -> tuple[Loaded, ...]:
    """The objects of files, of directories (manifests in and below, by name) and of ``-``, standard input.

    Lists are flattened. Documents without content are skipped; a file that has nothing else is an error,
    unless it was found in a directory. Raises the first ``InputError``.
    """
    limits = limits or Limits()
    loaded: list[Loaded] = []
    for path in paths:
        if path == "-":
            text = textio.read_stream(stdin or sys.stdin.buffer, STDIN, limits)
            loaded += _objects(text, limits, may_be_empty=False)
            continue
        path = Path(path)  # noqa: PLW2901
        try:
            is_directory = path.is_dir()
        except OSError as error:
            raise textio.unreadable(path, error) from None
        if not is_directory:
            loaded += _objects(textio.read_file(path, limits), limits, may_be_empty=False)
            continue
        try:
            files = list(textio.files_below(path, limits))
        except OSError as error:
            raise textio.unreadable(path, error) from None
        for file in files:
            loaded += _objects(textio.read_file(file, limits), limits, may_be_empty=True)
    return tuple(loaded)


def load_bytes(data: bytes, file: str = STDIN, *, limits: Limits | None = None) -> tuple[Loaded, ...]:
    """The objects of a text in memory; ``file`` is what errors call it. Raises ``InputError``."""
    limits = limits or Limits()
    return tuple(_objects(textio.check(data, file, limits), limits, may_be_empty=False))


def decode_objects(loaded: Iterable[Loaded], *kinds: type[Kind]) -> Iterator[Kind]:
    """The objects of these kinds as Structs, in order and one at a time; other kinds are passed over.

    Raises ``InputError`` with file, line and field path where a field has a wrong type.
    """
    names = {kind.__name__ for kind in kinds}
    for one in loaded:
        if one.kind in names:
            found = one.as_kind()
            if isinstance(found, kinds):
                yield found


class _ListOf(msgspec.Struct, Generic[Kind]):
    items: tuple[Kind, ...] | None = None


def load_json_list(data: bytes, kind: type[Kind], *, file: str = STDIN) -> tuple[Kind, ...]:
    """The objects of one JSON list, all of one kind in the v1 shape: the quickest way from a server's answer.

    Raises ``InputError`` for what is no JSON, and with a field path where a field has a wrong type.
    """
    try:
        return msgspec.json.decode(data, type=_ListOf[kind]).items or ()  # type: ignore[valid-type]
    except (msgspec.DecodeError, RecursionError) as error:
        what, _, path = str(error).partition(" - at `$")
        if not path:
            jsonio.fail(error, data, 0, file=file)
        where = Where(file=file, path=path.strip(".`"))
        raise InputError(what, where=where, next_step="mend the field") from None


# --- where an object comes from ---------------------------------------------------------------------------


class _YamlPlaces:
    """The positions of one YAML text, read again when the first of them is asked for."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.roots: tuple[Position | None, ...] | None = None

    def root(self, index: int) -> Position:
        if self.roots is None:
            self.roots = yamlio.positions(self.text.data, file=self.text.file)
        return self.roots[index] or Position(1, 1)


class _YamlOrigin(msgspec.Struct, frozen=True):
    places: _YamlPlaces
    index: int
    steps: tuple[Step, ...]

    def root(self) -> Position:
        return locate(self.places.root(self.index), self.steps)


class _JsonOrigin(msgspec.Struct, frozen=True):
    text: Text
    piece: jsonio.Piece
    depth: int

    def root(self) -> Position:
        return jsonio.positions(self.piece, self.text.data)

    def decode(self, where: Where) -> dict[str, Any]:
        value = jsonio.value(self.piece.raw, self.text.data, self.piece.offset, file=self.text.file)
        jsonio.check_depth(value, self.depth, where=where)
        return value if isinstance(value, dict) else {}

    def decode_as(self, struct: type[KubeObject]) -> KubeObject:
        return msgspec.json.decode(self.piece.raw, type=struct)


@lru_cache(maxsize=256)
def _struct(api_version: str, kind: str) -> type[KubeObject] | None:
    """The Struct that reads this kind as it is, without conversion."""
    try:
        empty = to_kind({"apiVersion": api_version, "kind": kind})
    except InputError:
        return None
    return type(empty) if empty is not None and empty.api_version == api_version else None


# --- from text to objects ---------------------------------------------------------------------------------


_QUOTED_KEY = re.compile(rb"\s*[\[{]\s*[\[{]?\s*\"")


class _Head(msgspec.Struct, rename="camel"):
    """The fields of a JSON object that say what it is, still undecoded."""

    api_version: msgspec.Raw = msgspec.Raw(b"null")
    kind: msgspec.Raw = msgspec.Raw(b"null")
    metadata: msgspec.Raw = msgspec.Raw(b"null")
    items: msgspec.Raw = msgspec.Raw(b"")


class _Name(msgspec.Struct, rename="camel"):
    name: Any = None
    namespace: Any = None
    generate_name: Any = None


def _objects(text: Text, limits: Limits, *, may_be_empty: bool) -> list[Loaded]:
    loaded, empty = _from_json_or_yaml(text, limits) if text.json else _from_yaml(text, limits)
    if empty and not may_be_empty:
        step = "check that the file was written completely"
        raise InputError("no object in it", where=Where(file=text.file), next_step=step)
    return loaded


def _from_json_or_yaml(text: Text, limits: Limits) -> tuple[list[Loaded], bool]:
    """A text that starts with a bracket: JSON, or a flow collection of YAML."""
    try:
        pieces = jsonio.pieces(text.data, file=text.file)
    except InputError as error:
        if text.file.endswith(".json") or len(text.data) > limits.checked_json_bytes:
            raise
        try:
            return _from_yaml(text, limits)
        except InputError:
            if _QUOTED_KEY.match(text.data):
                raise error from None
            raise
    return [one for piece in pieces for one in _from_json(text, piece, limits)], not pieces


def _from_yaml(text: Text, limits: Limits) -> tuple[list[Loaded], bool]:
    places, loaded, empty = _YamlPlaces(text), list[Loaded](), True
    for document in yamlio.documents(
        text.data, file=text.file, depth=limits.depth, alias_nodes=limits.alias_nodes
    ):
        empty = False
        for body, steps in _flatten(document.body, (), places, document):
            name = _name(body.get("metadata"))
            line = document.lines.get(id(body), document.line)
            one = Loaded(body, Where(file=text.file, line=line, object=_label(body["kind"], name)))
            one._origin = _YamlOrigin(places, document.index, steps)
            loaded.append(one)
    return loaded, empty


def _flatten(
    body: Any, steps: tuple[Step, ...], places: _YamlPlaces, document: yamlio.Document
) -> Iterator[tuple[dict[str, Any], tuple[Step, ...]]]:
    """The objects in a document: itself, or what its ``items`` hold."""
    try:
        api_version, kind = _identity(body, Where())
    except InputError as error:
        place = locate(places.root(document.index), steps)
        where = Where(file=places.text.file, line=place.line)
        raise InputError(error.what, where=where, next_step=error.next_step) from None
    if not _is_list(kind, body.get("items"), present="items" in body):
        yield body, steps
        return
    for number, item in enumerate(body.get("items") or ()):
        _adopt(item, api_version, kind)
        yield from _flatten(item, (*steps, "items", number), places, document)


def _from_json(
    text: Text, piece: jsonio.Piece, limits: Limits, parent: tuple[str, str] = ("", "")
) -> Iterator[Loaded]:
    """The objects in one JSON value; ``parent`` is the identity of the list around it."""
    where = Where(file=text.file, line=piece.line)
    if _first_byte(piece.raw) != b"{":
        raise _not_an_object(msgspec.json.decode(piece.raw), where)
    small = len(text.data) <= limits.checked_json_bytes
    if small and not any(parent):
        jsonio.check_duplicates(text.data, piece, file=text.file)
    head = msgspec.json.decode(piece.raw, type=_Head)
    fields = {"apiVersion": msgspec.json.decode(head.api_version), "kind": msgspec.json.decode(head.kind)}
    _adopt(fields, *parent)
    api_version, kind = _identity(fields, where)
    items: Any = {b"[": [], b"n": None, b"": None}.get(_first_byte(head.items), head.items)
    if _is_list(kind, items, present=_first_byte(head.items) != b""):
        if items is not None:
            for item in jsonio.items(piece, head.items, text.data):
                yield from _from_json(text, item, limits, (api_version, kind))
        return
    try:
        name = _name(msgspec.structs.asdict(msgspec.json.decode(head.metadata, type=_Name)))
    except msgspec.ValidationError:
        name = ""
    one = Loaded(fields, Where(file=where.file, line=where.line, object=_label(kind, name)))
    one._origin, one._body = _JsonOrigin(text, piece, limits.depth), None
    if small:
        one._body = one.body
    yield one


def _first_byte(raw: msgspec.Raw) -> bytes:
    return bytes(memoryview(raw)[:1])


# --- what an object is ------------------------------------------------------------------------------------


def _identity(body: Any, where: Where) -> tuple[str, str]:
    """``apiVersion`` and ``kind`` of an object. Raises ``InputError`` where there is none."""
    if not isinstance(body, dict):
        raise _not_an_object(body, where)
    for field, shown in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        value = body.get(field)
        if value is None or value == "":
            step = "every object needs apiVersion and kind; a fragment of one cannot be used alone"
            raise InputError(f"Object '{shown}' is missing", where=where, next_step=step)
        if not isinstance(value, str):
            step = "quote it" if isinstance(value, (int, float)) else "see kubectl explain"
            raise InputError(f"{field} is {_shown(value)}, not text", where=where, next_step=step)
    return body["apiVersion"], body["kind"]


def _not_an_object(value: Any, where: Where) -> InputError:
    step = "a document must be a mapping with apiVersion and kind"
    if isinstance(value, list):
        step = "write one document per object, or wrap them: {apiVersion: v1, kind: List, items: […]}"
    return InputError(f"{_shown(value)}, not an object", where=where, next_step=step)


def _shown(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _is_list(kind: str, items: Any, *, present: bool) -> bool:
    """Whether an object is a list of objects: ``List``, or ``<Kind>List`` with ``items``."""
    if not kind.endswith("List"):
        return False
    return isinstance(items, list) or (items is None and (present or kind == "List"))


def _adopt(item: Any, api_version: str, kind: str) -> None:
    """Items of a typed list may lack ``apiVersion`` and ``kind``, as in the API server's own answers."""
    if isinstance(item, dict) and kind not in ("", "List"):
        for field, value in (("kind", kind.removesuffix("List")), ("apiVersion", api_version)):
            if not item.get(field):
                item[field] = value


def _name(metadata: Any) -> str:
    """``namespace/name`` as far as it is known."""
    if not isinstance(metadata, dict):
        return ""
    name, generated = metadata.get("name"), metadata.get("generateName", metadata.get("generate_name"))
    shown = str(name) if name else f"{generated}*" if generated else ""
    namespace = metadata.get("namespace")
    return f"{namespace}/{shown}" if namespace and shown else shown


def _label(kind: str, name: str) -> str:
    return f"{kind} {name}" if name else kind
