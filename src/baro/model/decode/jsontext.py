"""JSON text as the API server reads it: duplicate keys kept, errors in Go's words.

``decode_body`` is for the edge of a server and for oracles; files go through ``baro.model.load``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from baro.model.gotext import go_quote

_GVK_TYPE: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
"""One escape of a JSON string: a pair of surrogates, half of one, or any other."""


class Pairs(dict[str, Any]):
    """A JSON object with duplicate keys: a dict in which the last one wins, and all ``pairs`` in order."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


class BodyError(ValueError):
    """The request body is no JSON object; the message is that of the server's 400 answer."""


def decode_body(data: bytes, kind: str) -> dict[str, Any]:
    """The JSON object in ``data``, sent where an object of ``kind`` is expected.

    Objects with duplicate keys come as ``Pairs``, so that ``strict_errors`` can report them. Escapes of lone
    surrogates become U+FFFD, as in Go.
    Raises ``BodyError``.
    """
    body: Any = None
    if b"\\ud" in data.lower():
        data = _ESCAPE.sub(_no_lone_surrogate, data)
    try:
        body = json.loads(data, object_pairs_hook=_object, parse_constant=_no_constant)
        problem = None
    except (ValueError, RecursionError) as error:
        problem = json_error(data.decode("utf-8", errors="replace")) or str(error)
    if problem is None and body is None:
        return {}  # Go reads null into an empty object
    if problem is None and isinstance(body, dict):
        problem = _identity_error(body)
    if problem is None and not isinstance(body, dict):
        problem = f"json: cannot unmarshal {_go_name(body)} into Go value of type {_GVK_TYPE}"
    if problem is not None:
        raise BodyError(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
            f"json parse error: {problem} ({_summary(data)})"
        )
    found: dict[str, Any] = body
    return found


def named_kind(body: Mapping[str, Any]) -> tuple[str, str]:
    """What the object says it is: ``apiVersion`` and ``kind``, empty where it does not say.

    Unlike all other fields these are found whatever the case of their names; of several the last one counts.
    """
    found = {"apiversion": "", "kind": ""}
    for key, value in _all_pairs(body):
        if key.lower() in found and isinstance(value, str):
            found[key.lower()] = value
    return found["apiversion"], found["kind"]


def _identity_error(body: Mapping[str, Any]) -> str | None:
    """Why Go cannot read what the object says it is: the two fields are texts, or null."""
    for key, value in _all_pairs(body):
        field = {"apiversion": "apiVersion", "kind": "kind"}.get(key.lower())
        if field is not None and value is not None and not isinstance(value, str):
            return f"json: cannot unmarshal {_go_name(value)} into Go struct field .{field} of type string"
    return None


def _all_pairs(body: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return body.pairs if isinstance(body, Pairs) else body.items()


def _go_name(value: Any) -> str:
    names = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    return names.get(type(value), "object" if isinstance(value, dict) else "null")


def _no_lone_surrogate(match: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if match.group("lone") else match.group()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else Pairs(pairs)


def _no_constant(name: str) -> None:
    raise ValueError(f"invalid character '{name[0]}' looking for beginning of value")


def _summary(data: bytes) -> str:
    """The first 30 bytes: text when they look like JSON, hexadecimal otherwise."""
    if not data:
        return "<empty>"
    more = " ..." if len(data) > 30 else ""
    if data[:1] == b"{":
        return data[:30].decode("utf-8", errors="replace") + more
    return data[:30].hex() + more


# --- errors in Go's words --------------------------------------------------------------------------------

_SPACE: Final = " \t\r\n"
_VALUE: Final = "looking for beginning of value"
_KEY: Final = "looking for beginning of object key string"
_MAX_DEPTH: Final = 10_000
_LITERALS: Final[Mapping[str, str]] = {"t": "true", "f": "false", "n": "null"}


def json_error(text: str) -> str | None:
    """What Go's scanner says about ``text``; None when it is one JSON value. Never recurses."""
    scan = _Scan(text)
    try:
        scan.run()
    except _Refused as refused:
        return str(refused)
    return None


class _Refused(Exception):  # noqa: N818 - carries the answer, is no error of ours
    pass


class _Scan:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.open: list[str] = []

    def run(self) -> None:
        self.value()
        while self.open:
            inside = self.open[-1]
            char = self.next_char()
            if char == {"{": "}", "[": "]"}[inside]:
                self.open.pop()
            elif char == ",":
                if inside == "{":
                    self.key(self.next_char())
                self.value()
            else:
                self.refuse(char, "after object key:value pair" if inside == "{" else "after array element")
        rest = self.text[self.at :].lstrip(_SPACE)
        if rest:
            self.refuse(rest[0], "after top-level value")

    def value(self) -> None:
        """Reads one scalar, or opens arrays and objects down to the first scalar or empty one."""
        while True:
            char = self.next_char()
            if char in "{[":
                if len(self.open) >= _MAX_DEPTH:
                    raise _Refused("exceeded max depth")
                if self.opened(char):
                    return
                continue
            if char == '"':
                self.string()
            elif char in _LITERALS:
                self.literal(_LITERALS[char])
            elif char in "-0123456789":
                self.number(char)
            else:
                self.refuse(char, _VALUE)
            return

    def opened(self, char: str) -> bool:
        """Steps into an array or object; True when it is empty and already closed."""
        self.open.append(char)
        following = self.next_char()
        if following == ("}" if char == "{" else "]"):
            self.open.pop()
            return True
        if char == "{":
            self.key(following)
        else:
            self.at -= 1
        return False

    def key(self, char: str) -> None:
        if char != '"':
            self.refuse(char, _KEY)
        self.string()
        colon = self.next_char()
        if colon != ":":
            self.refuse(colon, "after object key")

    def string(self) -> None:
        while (char := self.take()) != '"':
            if char == "\\":
                self.escape()
            elif char < " ":
                self.refuse(char, "in string literal")

    def escape(self) -> None:
        char = self.take()
        if char == "u":
            for _ in range(4):
                digit = self.take()
                if digit not in "0123456789abcdefABCDEF":
                    self.refuse(digit, "in \\u hexadecimal character escape")
        elif char not in 'bfnrt\\/"':
            self.refuse(char, "in string escape code")

    def literal(self, word: str) -> None:
        for expected in word[1:]:
            char = self.take()
            if char != expected:
                self.refuse(char, f"in literal {word} (expecting '{expected}')")

    def number(self, char: str) -> None:
        if char == "-":
            char = self.digit("in numeric literal")
        if char != "0":
            self.digits()
        if self.peek() == ".":
            self.take()
            self.digit("after decimal point in numeric literal")
            self.digits()
        if self.peek() in ("e", "E"):
            self.take()
            if self.peek() in ("+", "-"):
                self.take()
            self.digit("in exponent of numeric literal")
            self.digits()

    def digit(self, where: str) -> str:
        char = self.take()
        if char not in "0123456789":
            self.refuse(char, where)
        return char

    def digits(self) -> None:
        while self.peek() and self.peek() in "0123456789":
            self.at += 1

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        char = self.peek()
        if not char:
            raise _Refused("unexpected end of JSON input")
        self.at += 1
        return char

    def next_char(self) -> str:
        while (char := self.take()) in _SPACE:
            pass
        return char

    def refuse(self, char: str, where: str) -> None:
        shown = {"'": "'\\''", '"': "'\"'"}.get(char) or f"'{go_quote(char)[1:-1]}'"
        raise _Refused(f"invalid character {shown} {where}")
