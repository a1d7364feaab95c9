"""``fieldPath`` of a rule and ``jsonPath`` of a selectable field: ``.spec.size`` and ``.spec['a.b']``.

Source: ``ValidFieldPath`` of ``apiextensions-apiserver/pkg/apiserver/schema/cel``.
"""

from __future__ import annotations

import re
from typing import Final

from baro.apiserver.rules.declared import Schema, properties, subschema

_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class FieldPathError(ValueError):
    """The path leads nowhere in the schema, or cannot be read."""


def found(path: str, schema: Schema, *, brackets: bool = True) -> tuple[tuple[str, ...], Schema]:
    """The steps of a path (a key of a map in brackets) and the schema it leads to."""
    steps: list[str] = []
    parts = _TOKEN.findall(path)
    at = 0
    while at < len(parts):
        sign, name = parts[at], parts[at + 1 : at + 2]
        if sign not in (".", "["):
            raise FieldPathError(f"expected [ or . but got: {sign}")
        if sign == "[" and not brackets:
            raise FieldPathError("array notation is not allowed")
        if not name:
            raise FieldPathError("unexpected end of JSON path")
        at += 2
        text = name[0]
        if sign == "[":
            if len(text) < 2 or text[0] != "'" or text[-1] != "'":
                raise FieldPathError(f"expected single quoted string but got {text}")
            text = _unquoted(text[1:-1])
            closing = parts[at : at + 1]
            at += 1
            if closing != ["]"]:
                raise FieldPathError(
                    f"expected ] but got {closing[0]}" if closing else "unexpected end of JSON path"
                )
        schema, step = _step(text, schema)
        steps.append(step)
    return tuple(steps), schema


def _step(name: str, schema: Schema) -> tuple[Schema, str]:
    fields, values = properties(schema), subschema(schema.get("additionalProperties"))
    if fields:
        if name not in fields:
            raise FieldPathError("does not refer to a valid field")
        return fields[name], f".{name}"
    if values is None:
        raise FieldPathError("does not refer to a valid field")
    return values, f"[{name}]"


def normalized(path: str, schema: Schema) -> str:
    """The path as causes name it; ``""`` for none. Raises ``FieldPathError``."""
    return "".join(found(path, schema)[0]).removeprefix(".") if path else ""


def _unquoted(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        char = match[1]
        if char in "'\\":
            return char
        if char not in _ESCAPES:
            raise FieldPathError(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPES[char]

    return re.sub(r"\\(.)", plain, text)
