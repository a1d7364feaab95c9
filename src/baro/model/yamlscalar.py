"""YAML scalars as Kubernetes resolves them: sigs.k8s.io/yaml over go-yaml v2 (YAML 1.1), into JSON types.

Differences from other YAML libraries: ``y``, ``yes``, ``on`` are booleans, timestamps stay text, ``010`` is
octal, integers beyond 64 bits are floats, whole floats become integers (JSON writes them so), and a float
that is out of range stays text.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from decimal import Decimal
from typing import Any


class RejectedError(Exception):
    """A node cannot be used; ``what`` and ``next_step`` as in ``InputError``, the place is the caller's."""

    def __init__(self, what: str, next_step: str, *, too_large: bool = False) -> None:
        super().__init__(what)
        self.what, self.next_step, self.too_large = what, next_step, too_large
        self.mark: Any = None
        """Where the node starts, if that is not where the error was noticed."""


_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INTEGERS = (
    (re.compile(r"[-+]?(?:0|[1-9][0-9]{0,19})", re.ASCII), 10),
    (re.compile(r"[-+]?0[oO]?[0-7]+", re.ASCII), 8),
    (re.compile(r"[-+]?0[xX][0-9a-fA-F]+", re.ASCII), 16),
    (re.compile(r"[-+]?0[bB][01]+", re.ASCII), 2),
)
_TAGS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "null": (type(None),),
    "timestamp": (str,),
}


def scalar(event: Any) -> Any:
    """The value of a scalar event. Raises ``RejectedError``."""
    tag: str | None = event.tag
    if tag is None:
        value = resolve(event.value) if event.implicit[0] else event.value
    else:
        value = _tagged(tag.removeprefix("tag:yaml.org,2002:"), event.value)
    if type(value) is float and not math.isfinite(value):
        raise RejectedError(
            f"{event.value} is not a number that JSON has", "use a finite number, or quote the text"
        )
    return value


def resolve(text: str) -> Any:
    """The value of a plain scalar: None, bool, int, float or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "0123456789+-.":
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    for pattern, base in _INTEGERS:
        if pattern.fullmatch(plain):
            return _integer(plain, base)
    if not _FLOAT.fullmatch(plain):
        return text
    return _number(plain, text)


def _integer(plain: str, base: int) -> Any:
    if len(plain) > 80:  # longer than any 64-bit integer in any base
        return _number(plain, plain) if _FLOAT.fullmatch(plain) else plain
    digits = plain.lstrip("+-").lower()
    value = int(
        digits.removeprefix("0o").removeprefix("0x").removeprefix("0b") if base != 10 else digits, base
    )
    value = -value if plain[0] == "-" else value
    if -(2**63) <= value < (2**63 if plain[0] == "+" else 2**64):
        return value
    return _number(plain, plain) if _FLOAT.fullmatch(plain) else plain


def _number(plain: str, text: str) -> Any:
    """A float as JSON carries it: whole ones below 1e21 are written, and so read, as integers."""
    value = float(plain)
    if math.isinf(value):
        return text
    whole = value.is_integer() and abs(value) < 1e21
    return int(Decimal(repr(value))) if whole else value  # the digits that Go writes, zeros after them


def _tagged(tag: str, text: str) -> Any:
    if tag == "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace")
        except binascii.Error:
            raise RejectedError("!!binary value contains invalid base64 data", "encode it anew") from None
    if tag not in _TAGS:
        return text  # !!str, and tags of other programs
    value = resolve(text)
    if type(value) not in _TAGS[tag]:
        raise RejectedError(f"cannot decode `{text}` as a !!{tag}", "remove the tag or mend the value")
    return value


def key_text(value: Any) -> str:
    """A key as JSON has it. Raises ``RejectedError`` for null and for collections."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int and -(2**63) <= value < 2**63:
        return str(value)
    if type(value) is float or (type(value) is int and value < -(2**63)):
        return format(float(value), "g")
    name = {dict: "a mapping", list: "a list", int: "so large a number"}.get(type(value), "null")
    raise RejectedError(f"{name} cannot be a key", "quote the key, or put a blank after a colon")
