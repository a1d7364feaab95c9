"""Scalars as they are written in YAML and JSON: from value back to text, and from text to new text.

``offsets`` traces each character of a value to the place in the source that made it, through quotes, escapes,
folding and block indentation. ``written`` gives a value the form that its neighbour had. What a scalar
*means* (types, tags) is decided in ``baro.model.yamlscalar``.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, Literal

from baro.model.yamlscalar import resolve

Style = Literal["plain", "single", "double", "literal", "folded"]

_ESCAPES: Final = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r",
    "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028",
    "P": "\u2029",
}  # fmt: skip
_WIDTHS: Final = {"x": 2, "u": 4, "U": 8}
_HEADER: Final = re.compile(r"[|>]([+-]?)([1-9]?)([+-]?)[ \t]*(?:#[^\n]*)?(?:\r\n|\n|\r)")
_BREAK: Final = re.compile(r"\r\n|\r|\n")


def offsets(raw: str, style: Style, value: str) -> list[int] | None:
    """Where in ``raw`` each character of ``value`` is written; one entry more, for its end.

    None when the reading here does not give ``value``: nothing is pointed at rather than something wrong.
    """
    pairs = _block(raw, style) if style in ("literal", "folded") else _flow(raw, style)
    if pairs is None:
        return None
    text = "".join(character for character, _ in pairs)
    if text != value:
        if not (style in ("literal", "folded") and text.rstrip("\n") == value.rstrip("\n")):
            return None
        end = pairs[-1][1] if pairs else 0
        pairs = pairs[: len(value)] + [("\n", end)] * (len(value) - len(pairs))
    if style in ("single", "double"):
        return [offset for _, offset in pairs] + [len(raw) - 1]
    return [offset for _, offset in pairs] + [len(raw)]


_Pairs = list[tuple[str, int]]


def _flow(raw: str, style: Style) -> _Pairs | None:
    """Plain and quoted scalars: single breaks become blanks, further ones stay."""
    start, end = (1, len(raw) - 1) if style in ("single", "double") else (0, len(raw))
    if end < start:
        return None
    pairs: _Pairs = []
    position = start
    while position < end:
        character = raw[position]
        if character in "\r\n":
            position = _fold(raw, position, end, pairs)
        elif style == "double" and character == "\\":
            moved = _escape(raw, position, end, pairs)
            if moved is None:
                return None
            position = moved
        elif style == "single" and raw[position : position + 2] == "''":
            pairs.append(("'", position))
            position += 2
        else:
            pairs.append((character, position))
            position += 1
    return pairs


def _fold(raw: str, position: int, end: int, pairs: _Pairs) -> int:
    """A line break inside a flow scalar, with the blanks around it."""
    first, breaks = position, 0
    while pairs and pairs[-1][0] in " \t" and raw[pairs[-1][1]] in " \t":  # not one that was escaped
        pairs.pop()
    while position < end and raw[position] in " \t\r\n":
        match = _BREAK.match(raw, position)
        breaks += match is not None
        position = match.end() if match else position + 1
    pairs += [(" ", first)] if breaks == 1 else [("\n", first)] * (breaks - 1)
    return position


def _escape(raw: str, position: int, end: int, pairs: _Pairs) -> int | None:
    code = raw[position + 1 : position + 2]
    if code in ("\r", "\n"):  # an escaped break joins the lines
        match = _BREAK.match(raw, position + 1)
        after = match.end() if match else position + 2
        while after < end and raw[after] in " \t":
            after += 1
        return after
    width = _WIDTHS.get(code)
    if width is None:
        if code not in _ESCAPES:
            return None
        pairs.append((_ESCAPES[code], position))
        return position + 2
    after = position + 2 + width
    number = int(raw[position + 2 : after], 16)
    if 0xD800 <= number < 0xDC00 and raw[after : after + 2] == "\\u":  # JSON writes two halves
        low = int(raw[after + 2 : after + 6], 16)
        number, after = 0x10000 + ((number - 0xD800) << 10) + (low - 0xDC00), after + 6
    pairs.append((chr(number), position))
    return after


def _block(raw: str, style: Style) -> _Pairs | None:
    """``|`` and ``>`` scalars, without regard to what stands after the last line of text."""
    header = _HEADER.match(raw)
    if header is None:
        return []
    lines = _lines(raw, header.end())
    first = next((line for line in lines if line[0].strip(" ")), None)
    indent = len(first[0]) - len(first[0].lstrip(" ")) if first else 0
    if header[2]:
        return None  # relative to a parent that is not known here
    pairs: _Pairs = []
    breaks: _Pairs = []
    more_before = False
    for content, offset, breaking in lines:
        text = content[indent:]
        more = text[:1] in (" ", "\t")
        if not text:
            breaks.append(("\n", offset))
            continue
        if style == "literal" or more or more_before or not pairs:
            pairs += breaks
        elif len(breaks) == 1:
            pairs.append((" ", breaks[0][1]))
        else:
            pairs += breaks[1:]
        pairs += [(character, offset + indent + at) for at, character in enumerate(text)]
        breaks, more_before = [("\n", breaking)], more
    return pairs + breaks


def _lines(raw: str, position: int) -> list[tuple[str, int, int]]:
    """(text, offset, offset of the break) of the lines from ``position`` on."""
    found: list[tuple[str, int, int]] = []
    while position <= len(raw):
        match = _BREAK.search(raw, position)
        end = match.start() if match else len(raw)
        found.append((raw[position:end], position, end))
        if match is None:
            break
        position = match.end()
    return found


# --- writing ---------------------------------------------------------------------------------------------

_PLAIN = re.compile(r"[A-Za-z0-9_/.][^\x00-\x1f\x7f-\x9f#:\[\]{},\"'&*!|>%@`\\]*")


def written(value: Any, style: Style, *, json_text: bool = False, line: str = "\n", indent: int = 0) -> str:
    """``value`` as a scalar in that style, or in the nearest style that can hold it.

    ``line`` is the line break of the text and ``indent`` the column of a block scalar's lines.
    """
    if not isinstance(value, str) or json_text:
        return json.dumps(value, ensure_ascii=False)
    simple = value.isprintable()
    if style in ("literal", "folded") and "\r" not in value and value.strip() == value.rstrip("\n"):
        body = "".join(
            f"{line}{' ' * indent}{part}" if part else line for part in value.rstrip("\n").split("\n")
        )
        return f"|{'' if value.endswith(chr(10)) else '-'}{body}"
    if style == "single" and simple:
        return "'" + value.replace("'", "''") + "'"
    if style == "plain" and _PLAIN.fullmatch(value) and value == value.strip() and resolve(value) is value:
        return str(value)
    if style == "plain" and simple and '"' in value and "'" not in value:
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False) if simple else f'"{"".join(map(_escaped, value))}"'


def _escaped(character: str) -> str:
    """A character in double quotes; JSON's pairs of surrogates are no YAML."""
    if character.isprintable():
        return f"\\{character}" if character in '"\\' else character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
