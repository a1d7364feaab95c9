"""Text in quotes as Go's ``%q`` writes it."""

from __future__ import annotations

import unicodedata

_SHORT = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\",
    '"': r"\"",
}  # fmt: skip
_PLAIN = frozenset("LMNPS")
"""Letters, marks, numbers, punctuation and symbols are printed; spaces and controls are not, but for " "."""


def quote(value: str | bytes) -> str:
    """The quoted form; of bytes those that are no UTF-8 show as ``\\xff``."""
    text = value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    short = _SHORT.get(char)
    if short is not None:
        return short
    code = ord(char)
    if char == " " or unicodedata.category(char)[0] in _PLAIN:
        return char
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
