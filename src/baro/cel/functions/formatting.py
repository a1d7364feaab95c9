"""``"…".format([…])``: the clauses ``%s %d %f %e %b %x %X %o``, as cel-go's string library prints them.

Fixed and scientific clauses follow Go's English locale: digit groups with commas, ``×10`` with raised digits.
``clauses`` splits a format string and is shared with the compile-time validator.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from baro.cel.errors import CelRuntimeError
from baro.cel.functions.conversions import to_string
from baro.cel.functions.quoting import quote
from baro.cel.values import Duration, Map, Timestamp, TypeValue, UInt, type_name

_DEFAULT_PRECISION = 6
MAX_PRECISION = 100_000  # upstream has no limit; a text of this length is over the cost limit there
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

WRONG_TYPE = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types,"
    " durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}


class FormatError(ValueError):
    """The format string or an argument does not fit."""


class _WrongTypeError(ValueError):
    pass


def clauses(text: str) -> Iterator[str | tuple[str, int | None]]:
    """Literal pieces, and clauses as (letter, precision). Raises ``FormatError`` when it gets to a bad one.

    Before each clause comes ``("", None)``, so that the caller can fetch its argument before the clause is
    parsed; ``("", 1)`` when the text ends at the percent sign.
    """
    at = 0
    while at < len(text):
        if text[at] != "%":
            end = text.find("%", at)
            end = len(text) if end < 0 else end
            yield text[at:end]
            at = end
        elif text.startswith("%%", at):
            yield "%"
            at += 2
        else:
            yield "", 1 if at + 1 >= len(text) else None
            at, clause = _clause(text, at + 1)
            yield clause


def _clause(text: str, at: int) -> tuple[int, tuple[str, int | None]]:
    if at >= len(text):
        raise FormatError("unexpected end of string")
    head = "could not parse formatting clause: "
    precision: int | None = None
    if text[at] == ".":
        match = re.compile("[0-9]*").match(text, at + 1)
        digits = match.group() if match else ""
        at += 1 + len(digits)
        while_parsing = f"{head}error while parsing precision: "
        if at >= len(text):
            raise FormatError(f"{while_parsing}could not find end of precision specifier")
        if not digits:
            reason = 'strconv.Atoi: parsing "": invalid syntax'
            raise FormatError(f"{while_parsing}error while converting precision to integer: {reason}")
        precision = int(digits)
        if precision > MAX_PRECISION:
            reason = f"precision {precision} exceeds maximum allowed precision {MAX_PRECISION}"
            raise FormatError(f"{while_parsing}{reason}")
    letter = text[at]
    if letter not in "sdfebxXo":
        shown = letter if letter.isascii() else chr(letter.encode()[0])
        raise FormatError(f'{head}unrecognized formatting clause "{shown}"')
    return at + 1, (letter, precision)


def format_string(text: str, args: tuple[Any, ...]) -> str:
    """The formatted string. Raises ``CelRuntimeError`` with upstream's words."""
    out: list[str] = []
    position = 0
    try:
        for piece in clauses(text):
            if isinstance(piece, str):
                out.append(piece)
            elif piece[0] == "":
                if position >= len(args):
                    raise FormatError(f"index {position} out of range")
            else:
                out.append(_apply(piece[0], piece[1], args[position]))
                position += 1
    except FormatError as error:
        raise CelRuntimeError(str(error)) from None
    return "".join(out)


def _apply(letter: str, precision: int | None, arg: Any) -> str:
    try:
        if letter == "f":
            return _fixed(_double(arg), _DEFAULT_PRECISION if precision is None else precision)
        if letter == "e":
            return _scientific(_double(arg), _DEFAULT_PRECISION if precision is None else precision)
        if letter in "xX":
            return _hex(arg, letter)
        return _SIMPLE[letter](arg)
    except _WrongTypeError as error:
        given = error.args[0] if error.args else type_name(arg)
        text = f"{WRONG_TYPE[letter.lower()]}, was given {given}"
        raise FormatError(f"error during formatting: {text}") from None


def _double(arg: Any) -> float:
    if type(arg) is float:
        return arg
    if type(arg) is str and arg in _SPECIAL:
        return _SPECIAL[arg]
    raise _WrongTypeError


def _special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    return ("∞" if value > 0 else "-∞") if math.isinf(value) else None


def _fixed(value: float, precision: int) -> str:
    return _special(value) or f"{value + 0.0:,.{precision}f}"  # a zero loses its sign


def _scientific(value: float, precision: int) -> str:
    """Always six digits: what is written as the precision is the width."""
    text = _special(value)
    if text is None:
        mantissa, _, exponent = f"{value + 0.0:.6e}".partition("e")
        sign = "-" if exponent[0] == "-" else ""
        raised = f"{sign}{exponent[1:]:0>2}".translate(_RAISED)
        text = f"{mantissa}×10{raised}"
    return text.rjust(precision)


def _integer(form: str) -> Callable[[Any], str]:
    def text(arg: Any) -> str:
        if type(arg) is int or type(arg) is UInt:
            return format(int(arg), form)
        if form == "b" and type(arg) is bool:
            return "1" if arg else "0"
        raise _WrongTypeError

    return text


def _hex(arg: Any, letter: str) -> str:
    if type(arg) is str:
        arg = arg.encode()
    if type(arg) is bytes:
        return arg.hex().upper() if letter == "X" else arg.hex()
    return _integer(letter)(arg)


def _string(arg: Any) -> str:
    if type(arg) is tuple:
        return f"[{', '.join(map(_nested, arg))}]"
    if type(arg) is Map:
        pairs = sorted((_map_key(key), _nested(value)) for key, value in arg.items())
        return "{" + ", ".join(f"{key}:{value}" for key, value in pairs) + "}"
    if arg is None:
        return "null"
    if type(arg) is TypeValue:
        return arg.name
    try:
        return to_string(arg)
    except CelRuntimeError as error:
        if type(arg) is bytes:
            reason = f'could not convert argument "{error.message}" to string'
            raise FormatError(f"error during formatting: {reason}") from None
        raise _WrongTypeError from None


def _map_key(key: Any) -> str:
    if type(key) is str:
        return quote(key)
    if type(key) in (bool, int, UInt):
        return _string(key)
    raise FormatError(f"error during formatting: no formatting function for map key of type {type_name(key)}")


def _nested(value: Any) -> str:
    """A value inside a list or map, as CEL literals look."""
    if type(value) is str:
        return quote(value)
    if type(value) is bytes:
        return f"b{quote(_string(value))}"
    if type(value) is float:
        plain = _special(value)
        return f"{value:.6f}" if plain is None else f'"{plain.replace("∞", "+Inf").replace("-+", "-")}"'
    if type(value) is Timestamp:
        return f'timestamp("{to_string(value)}")'
    if type(value) is Duration:
        return f'duration("{to_string(value)}")'
    try:
        return _string(value)
    except _WrongTypeError:
        reason = f"no formatting function for {type_name(value)}"
        raise FormatError(f"error during formatting: {reason}") from None


_SIMPLE: dict[str, Callable[[Any], str]] = {
    "s": _string,
    "d": _integer("d"),
    "b": _integer("b"),
    "o": _integer("o"),
}
