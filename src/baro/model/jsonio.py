"""JSON texts in pieces: where documents begin, what is wrong and on which line, fields by path.

Large dumps are not turned into Python objects here. A text is cut into ``msgspec.Raw`` documents, which
checks the syntax and costs a fraction of decoding; who needs an object decodes its piece.
What the documents mean is the business of ``baro.model.load``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from baro.model.errors import InputError, TooLargeError, Where
from baro.model.positions import Position

_BYTE = re.compile(r" \(byte (\d+)\)$")
_SPACE = b" \t\r\n"
_NOT_SPACE = re.compile(rb"[^ \t\r\n]")


class Piece(msgspec.Struct, frozen=True):
    """One JSON value of a text, with the byte and the line (from 1) where it starts."""

    raw: msgspec.Raw
    offset: int
    line: int


def pieces(data: bytes, *, file: str) -> list[Piece]:
    """The JSON values of a text: one, or several in a row (JSON lines, ``kubectl get -w -o json``).

    Raises ``InputError`` with file and line for anything that is not JSON.
    """
    found: list[Piece] = []
    view, offset, line = memoryview(data), 0, 1
    while True:
        start = _NOT_SPACE.search(data, offset)
        if start is None:
            return found
        line += data.count(b"\n", offset, start.start())
        offset = start.start()
        end = len(data)
        try:
            raw = msgspec.json.decode(view[offset:], type=msgspec.Raw)
        except msgspec.DecodeError as error:
            byte = _BYTE.search(str(error))
            if byte is None or "trailing characters" not in str(error):
                fail(error, data, offset, file=file)
            end = offset + int(byte[1]) - 1  # msgspec names the byte after the first trailing one
            raw = msgspec.json.decode(view[offset:end], type=msgspec.Raw)
        except RecursionError as error:
            fail(error, data, offset, file=file)
        found.append(Piece(raw, offset, line))
        line += data.count(b"\n", offset, end)
        offset = end


def items(piece: Piece, raw_list: msgspec.Raw, data: bytes) -> Iterator[Piece]:
    """The elements of ``piece``'s ``items``, each with its place in the text."""
    offset, line = piece.offset, piece.line
    before = max(data.find(b'"items"', offset), offset)
    for raw in msgspec.json.decode(raw_list, type=list[msgspec.Raw]):
        text = bytes(raw)
        before = max(data.find(text, before), before)  # between two elements there is only a comma
        line += data.count(b"\n", offset, before)
        yield Piece(raw, before, line)
        offset, before = before, before + len(text)


def value(raw: msgspec.Raw, data: bytes, offset: int, *, file: str) -> Any:
    """The piece as JSON types. Raises ``InputError``."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        fail(error, data, offset, file=file)


def check_depth(body: Any, depth: int, *, where: Where) -> None:
    """Raises ``TooLargeError`` where ``body`` nests more than ``depth`` collections."""
    level = [body]
    for _ in range(depth):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise too_deep(where, depth)


def too_deep(where: Where, depth: int | None = None) -> TooLargeError:
    what = f"nested more than {depth} levels deep" if depth else "nested too deeply"
    return TooLargeError(what, where=where, next_step="no Kubernetes object is that deep: check the brackets")


class _DuplicateError(Exception):
    pass


def check_duplicates(data: bytes, piece: Piece, *, file: str) -> None:
    """Raises ``InputError`` where one object of the piece has a key twice, in the API server's words."""
    text = bytes(piece.raw)
    try:
        json.loads(text, object_pairs_hook=_unique, parse_int=str, parse_float=str)
    except _DuplicateError:
        path, offset = _first_duplicate(text.decode("utf-8", "replace"))
        where = place(data, piece.offset + offset, file)
        raise InputError(f'duplicate field "{path}"', where=where, next_step="keep one of the two") from None
    except RecursionError:
        raise too_deep(place(data, piece.offset, file)) from None


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _DuplicateError


# --- errors ----------------------------------------------------------------------------------------------


def place(data: bytes, offset: int, file: str) -> Where:
    """Line and column of a byte."""
    line = data.count(b"\n", 0, offset) + 1
    return Where(file=file, line=line, column=offset - data.rfind(b"\n", 0, offset))


_TOO_BIG = re.compile(rb"-?[0-9][0-9.]*[eE][+-]?[0-9]{3,}|-?[0-9]{4301,}")


def fail(error: Exception, data: bytes, offset: int, *, file: str) -> NoReturn:
    """Turns what msgspec says about ``data[offset:]`` into an ``InputError``."""
    if isinstance(error, RecursionError):
        raise too_deep(place(data, offset, file)) from None
    text = str(error).removeprefix("JSON is malformed: ").partition(" - at")[0]
    what, step = f"{text[:1].lower()}{text[1:]}", "mend the value"
    byte = _BYTE.search(text)
    if "truncated" in text:
        offset = len(data.rstrip(_SPACE))
        what, step = "the JSON text ends too early", "get the whole file"
    elif byte is not None:
        offset += int(byte[1])
        what = _BYTE.sub("", what)
        step = "JSON needs double quotes, commas between entries, and has no comments"
        if what == "invalid character":
            what += f" {data[offset : offset + 1].decode('utf-8', 'replace')!r}"
    elif "out of range" in text:
        number = _TOO_BIG.search(data, offset)
        offset = number.start() if number else offset
    raise InputError(what, where=place(data, offset, file), next_step=step) from None


# --- positions -------------------------------------------------------------------------------------------

_TOKEN = re.compile(r'[ \t\r\n:]*(?:("(?:[^"\\]|\\.)*")|([{\[])|([}\]])|(,)|([^\s,:{}\[\]"]+))', re.DOTALL)


class _Walk:
    """Reads JSON text that is known to be right, and tells the place of every value."""

    def __init__(self, text: str, line: int, column: int) -> None:
        self.text, self.line, self.column = text, line, column
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.duplicate: tuple[str, int] | None = None

    def at(self, offset: int) -> Position:
        low, high = 0, len(self.starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.starts[middle] <= offset else (low, middle)
        column = offset - self.starts[low] + (self.column if low == 0 else 1)
        return Position(self.line + low, column)

    def tree(self) -> Position:
        root = self.at(0)
        stack: list[tuple[Position, bool, str]] = []
        key: tuple[str, Position] | None = None
        for match in _TOKEN.finditer(self.text):
            string, opening, closing, comma, _ = match.groups()
            if comma:
                continue
            if closing:
                stack.pop()
                continue
            offset = match.start(match.lastindex or 0)
            if string and stack and stack[-1][1] and key is None:
                key = (json.loads(string), self.at(offset))
                self._note_duplicate(stack[-1], key[0], offset)
                continue
            node, path = (root, "") if not stack else self._attach(stack[-1], key, offset)
            key = None
            if opening:
                stack.append((node, opening == "{", path))
        return root

    def _attach(
        self, parent: tuple[Position, bool, str], key: tuple[str, Position] | None, offset: int
    ) -> tuple[Position, str]:
        owner, _, path = parent
        if key is None:
            node = self.at(offset)
            name = f"{path}[{len(owner.children)}]"
            owner.children[len(owner.children)] = node
            return node, name
        owner.children[key[0]] = key[1]
        return key[1], f"{path}.{key[0]}" if path else key[0]

    def _note_duplicate(self, parent: tuple[Position, bool, str], key: str, offset: int) -> None:
        owner, _, path = parent
        if self.duplicate is None and key in owner.children:
            self.duplicate = (f"{path}.{key}" if path else key, offset)


def positions(piece: Piece, data: bytes) -> Position:
    """Lines and columns of one piece."""
    before = -1 if piece.line == 1 else data.rfind(b"\n", 0, piece.offset)
    text = bytes(piece.raw).decode("utf-8", "replace")
    return _Walk(text, piece.line, piece.offset - before).tree()


def _first_duplicate(text: str) -> tuple[str, int]:
    walk = _Walk(text, 1, 1)
    walk.tree()
    path, offset = walk.duplicate or ("", 0)
    return path, len(text[:offset].encode())
