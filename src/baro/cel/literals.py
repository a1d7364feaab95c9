"""Values of literal tokens: numbers with their ranges, strings and bytes with their escapes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from baro.cel.lexer import T
from baro.cel.values import UInt

_SIMPLE = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))"
)


class LiteralError(ValueError):
    """The token has the shape of a literal but no value."""


def parse_int(text: str) -> int:
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    value = sign * (int(digits[2:], 16) if digits.startswith("0x") else _decimal(digits))
    if not -(2**63) <= value < 2**63:
        raise LiteralError("invalid int literal")
    return value


def parse_uint(text: str) -> UInt:
    digits = text[:-1]
    value = int(digits[2:], 16) if digits.startswith("0x") else _decimal(digits)
    if value >= 2**64:
        raise LiteralError("invalid uint literal")
    return UInt(value)


def _decimal(digits: str) -> int:
    """Python refuses very long integers; they are out of range anyway."""
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) <= 20 else 2**64


def parse_double(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise LiteralError("invalid double literal")
    return value


def parse_string(text: str) -> str:
    body, raw = _unquote(text)
    return body if raw else _ESCAPE.sub(_unescape, body)


def parse_bytes(text: str) -> bytes:
    """In a bytes literal ``\\x`` and octal escapes are bytes, and ``\\u`` is not allowed."""
    body, raw = _unquote(text[1:])
    if raw:
        return body.encode()
    out, at = bytearray(), 0
    for match in _ESCAPE.finditer(body):
        out += body[at : match.start()].encode()
        at = match.end()
        simple, hex_digits, short, long, octal = match.groups()
        if short or long:
            raise LiteralError("unable to unescape string")
        if simple:
            out += _SIMPLE[simple].encode()
        else:
            out.append(int(hex_digits, 16) if hex_digits else int(octal, 8))
    out += body[at:].encode()
    return bytes(out)


def _unquote(text: str) -> tuple[str, bool]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[:1] in ("r", "R")
    if raw:
        text = text[1:]
    width = 3 if len(text) >= 6 and text[:3] in ("'''", '"""') else 1
    return text[width : len(text) - width], raw


def _unescape(match: re.Match[str]) -> str:
    simple, hex_digits, short, long, octal = match.groups()
    if simple:
        return _SIMPLE[simple]
    code = int(octal, 8) if octal else int(hex_digits or short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise LiteralError("invalid unicode code point")
    return chr(code)


_SIMPLE_VALUES = {T.TRUE: True, T.FALSE: False, T.NULL: None}
_PARSERS: dict[T, Callable[[str], object]] = {
    T.INT: parse_int,
    T.UINT: parse_uint,
    T.FLOAT: parse_double,
    T.STRING: parse_string,
    T.BYTES: parse_bytes,
}


def parse_literal(kind: T, text: str) -> object:
    """The value of a literal token, a sign before numbers included. Raises ``LiteralError``."""
    return _SIMPLE_VALUES[kind] if kind in _SIMPLE_VALUES else _PARSERS[kind](text)
