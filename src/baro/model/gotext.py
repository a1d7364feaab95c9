"""Text as Go prints it, for messages that must read as upstream's do."""

from __future__ import annotations

import json

_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def go_quote(text: str) -> str:
    """``text`` in double quotes with Go's escapes, as ``%q`` prints it in upstream's messages."""
    if text.isascii() and text.isprintable():
        return json.dumps(text)
    return f'"{"".join(_quote_character(character) for character in text)}"'


def _quote_character(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return f"\\{character}"
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
