"""Structural schemas: dropping unknown fields, filling in defaults, checking values.

The texts are those of ``k8s.io/kube-openapi/pkg/validation`` and ``apiextensions-apiserver``. A schema that
is no object, or a keyword that means nothing here, checks nothing.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import re2  # type: ignore[import-untyped] # google-re2 ships no types

from baro.apiserver.rules import Correlated
from baro.apiserver.rules.declared import Schema, subschema
from baro.apiserver.status import Cause
from baro.model.gotext import go_quote
from baro.model.validation.causes import shown

_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_OBJECT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


def without_unknown(value: Any, schema: Schema, *, root: bool = False) -> Any:
    """A deep copy of what ``schema`` declares. ``root`` keeps apiVersion, kind and metadata."""
    if isinstance(value, Mapping):
        kept: dict[str, Any] = {}
        for name, item, below in _members(value, schema, root=root):
            if below is not None:
                kept[name] = without_unknown(item, below)
        return kept
    if isinstance(value, list | tuple):
        items = subschema(schema.get("items"))
        return [without_unknown(item, items) if items is not None else copy.deepcopy(item) for item in value]
    return value


def unknown_fields(value: Any, schema: Schema, path: str = "", *, root: bool = False) -> Iterator[str]:
    """Paths of the fields that :func:`without_unknown` drops."""
    if isinstance(value, Mapping):
        for name, item, below in _members(value, schema, root=root):
            here = f"{path}.{name}" if path else name
            if below is None:
                yield here
            elif not (root and name in _OBJECT_FIELDS):
                yield from unknown_fields(item, below, here)
    elif isinstance(value, list | tuple):
        items = subschema(schema.get("items"))
        for index, item in enumerate(value):
            if items is not None:
                yield from unknown_fields(item, items, f"{path}[{index}]")


def _members(
    value: Mapping[Any, Any], schema: Schema, *, root: bool
) -> Iterator[tuple[str, Any, Schema | None]]:
    """Name, value and schema of each member; the schema is None for a member that is not declared."""
    properties = subschema(schema.get("properties")) or {}
    additional = schema.get("additionalProperties")
    named = root or schema.get(_EMBEDDED) is True
    for name, item in value.items():
        below = subschema(properties.get(name))
        if named and name in _OBJECT_FIELDS:
            below = {_OPEN: True}
        elif below is None and isinstance(additional, Mapping):
            below = additional
        elif below is None and (additional is True or schema.get(_OPEN) is True):
            below = {_OPEN: True}
        yield str(name), item, below


def without_null_fields(value: Any, schema: Schema) -> Any:
    """``value`` changed in place: a null where the schema allows none, and has no default, is no field."""
    if isinstance(value, dict):
        properties = subschema(schema.get("properties")) or {}
        additional = subschema(schema.get("additionalProperties"))
        for name in list(value):
            below = subschema(properties.get(name)) or additional
            if below is None:
                continue
            if _is_absent(value[name], below) and below.get("default") is None:
                del value[name]
            else:
                without_null_fields(value[name], below)
    elif isinstance(value, list):
        items = subschema(schema.get("items"))
        for item in value if items is not None else ():
            without_null_fields(item, items or {})
    return value


def with_defaults(value: Any, schema: Schema) -> Any:
    """``value`` changed in place: absent fields with a default get it. A null that may not be is absent."""
    if isinstance(value, dict):
        properties = subschema(schema.get("properties")) or {}
        for name, raw in properties.items():
            below = subschema(raw) or {}
            if below.get("default") is not None and (name not in value or _is_absent(value[name], below)):
                value[name] = copy.deepcopy(below["default"])
        additional = subschema(schema.get("additionalProperties"))
        for name, item in value.items():
            found = subschema(properties.get(name)) or additional
            if found is not None:
                value[name] = _defaulted(item, found)
    elif isinstance(value, list):
        items = subschema(schema.get("items"))
        if items is not None:
            value[:] = [_defaulted(item, items) for item in value]
    return value


def _is_absent(value: Any, schema: Schema) -> bool:
    return value is None and schema.get("nullable") is not True


def _defaulted(value: Any, schema: Schema) -> Any:
    filled = copy.deepcopy(schema.get("default")) if _is_absent(value, schema) else value
    return with_defaults(filled, schema)


# --- checking --------------------------------------------------------------------------------------------


def problems(
    value: Any, schema: Schema, path: str = "", *, root: bool = False, was: Correlated | None = None
) -> list[Cause]:
    """Everything in ``value`` that ``schema`` does not allow. Repeats in keyed lists: :func:`duplicates`.

    ``was`` compares it with what it replaces: a part that stays as it was is not refused.
    """
    found = _problems(value, schema, path, root=root, was=was)
    return [] if found and was is not None and was.unchanged else found


def _problems(
    value: Any, schema: Schema, path: str, *, root: bool = False, was: Correlated | None = None
) -> list[Cause]:
    if value is None and schema.get("nullable") is True:
        return []
    wrong = _wrong_type(value, schema)
    if wrong is not None:
        text = f"{path or '<nil>'} in body must be of type {wrong}: {go_quote(_type_name(value))}"
        return [
            _cause("FieldValueTypeInvalid", path, f"Invalid value: {go_quote(_type_name(value))}: {text}")
        ]
    found = list(_combined(value, schema, path, was))
    found += _enumerated(value, schema, path)
    if isinstance(value, str):
        found += _text(value, schema, path)
    elif isinstance(value, Mapping):
        found += _object(value, schema, path, root=root, was=was)
    elif isinstance(value, list):
        found += _array(value, schema, path, was)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found += _number(value, schema, path)
    return found


def _wrong_type(value: Any, schema: Schema) -> str | None:
    """The type that ``value`` should have had; None when it fits."""
    if schema.get(_INT_OR_STRING) is True:
        fits = isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
        return None if fits else "integer,string"
    wanted = schema.get("type")
    if not isinstance(wanted, str) or not wanted:
        return None
    actual = _type_name(value)
    if actual == wanted or (wanted == "number" and actual == "integer"):
        return None
    return wanted


def _type_name(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return "integer"
    names = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        type(None): "null",
    }
    return names.get(type(value), "object")


def _combined(value: Any, schema: Schema, path: str, was: Correlated | None) -> Iterator[Cause]:
    for sub in _schemas(schema.get("allOf")):
        yield from _problems(value, sub, path, was=was)
    name = go_quote(path)
    some = _schemas(schema.get("anyOf"))
    if some and all(_problems(value, sub, path, was=was) for sub in some):
        yield _invalid(path, value, f"{name} must validate at least one schema (anyOf)")
    one = _schemas(schema.get("oneOf"))
    valid = sum(not problems(value, sub, path) for sub in one)
    if one and valid != 1:
        how = "Found none valid" if valid == 0 else f"Found {valid} valid alternatives"
        yield _invalid(path, value, f"{name} must validate one and only one schema (oneOf). {how}")
    negated = subschema(schema.get("not"))
    if negated is not None and not problems(value, negated, path):
        yield _invalid(path, value, f"{name} must not validate the schema (not)")


def _enumerated(value: Any, schema: Schema, path: str) -> list[Cause]:
    allowed = schema.get("enum")
    if not isinstance(allowed, list) or not allowed or value in allowed:
        return []
    listed = ", ".join(go_quote(item) if isinstance(item, str) else shown(item) for item in allowed)
    text = f"Unsupported value: {shown(value)}: supported values: {listed}"
    return [_cause("FieldValueNotSupported", path, text)]


def _text(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    """The first rule that a text breaks, as the server stops there."""
    longest, shortest, pattern = (schema.get(name) for name in ("maxLength", "minLength", "pattern"))
    if isinstance(longest, int) and len(value) > longest:
        yield _cause("FieldValueTooLong", path, f"Too long: may not be more than {longest} bytes")
    elif isinstance(shortest, int) and len(value) < shortest:
        yield _invalid(path, value, f"{path} in body should be at least {shortest} chars long")
    elif isinstance(pattern, str) and not _matches(pattern, value):
        yield _invalid(path, value, f"{path} in body should match '{pattern}'")
    elif schema.get("format") == "date-time" and not _is_time(value):
        yield _invalid(path, value, f"{path} in body must be of type date-time: {go_quote(value)}")


def _number(value: float, schema: Schema, path: str) -> Iterator[Cause]:
    least, most, step = (schema.get(name) for name in ("minimum", "maximum", "multipleOf"))
    if isinstance(least, int | float):
        strict = schema.get("exclusiveMinimum") is True
        if value < least or (strict and value == least):
            how = "greater than" if strict else "greater than or equal to"
            yield _invalid(path, value, f"{path} in body should be {how} {shown(least)}")
    if isinstance(most, int | float):
        strict = schema.get("exclusiveMaximum") is True
        if value > most or (strict and value == most):
            how = "less than" if strict else "less than or equal to"
            yield _invalid(path, value, f"{path} in body should be {how} {shown(most)}")
    if isinstance(step, int | float) and step and value % step:
        yield _invalid(path, value, f"{path} in body should be a multiple of {shown(step)}")


def _object(
    value: Mapping[str, Any], schema: Schema, path: str, *, root: bool, was: Correlated | None
) -> Iterator[Cause]:
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in value:
            yield _cause("FieldValueRequired", _join(path, str(name)), "Required value")
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    if isinstance(fewest, int) and len(value) < fewest:
        yield _invalid(path, value, f"{path} in body should have at least {fewest} properties")
    if isinstance(most, int) and len(value) > most:
        text = f"Too many: {len(value)}: must have at most {most} items"
        yield _cause("FieldValueTooMany", path, text)
    for name, item, below in _members(value, schema, root=root):
        if below is not None and not (root and name in _OBJECT_FIELDS):
            before = was.field(name) if was is not None else None
            yield from problems(item, below, _join(path, name), was=before)
        elif below is None and schema.get("additionalProperties") is False:
            text = f"{_join(path, name)} in body is a forbidden property"
            yield _invalid(path, value, text)


def _array(value: list[Any], schema: Schema, path: str, was: Correlated | None) -> Iterator[Cause]:
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    if isinstance(fewest, int) and len(value) < fewest:
        yield _invalid(path, value, f"{path} in body should have at least {fewest} items")
    if isinstance(most, int) and len(value) > most:
        yield _cause("FieldValueTooMany", path, f"Too many: {len(value)}: must have at most {most} items")
    items = subschema(schema.get("items"))
    for index, item in enumerate(value if items is not None else ()):
        before = was.item(index) if was is not None else None
        yield from problems(item, items or {}, f"{path}[{index}]", was=before)


def duplicates(value: Any, schema: Schema, path: str = "", *, root: bool = False) -> Iterator[Cause]:
    """The repeats in lists of the types ``set`` and ``map``."""
    if isinstance(value, list):
        yield from _duplicates(value, schema, path)
        items = subschema(schema.get("items"))
        for index, item in enumerate(value if items is not None else ()):
            yield from duplicates(item, items or {}, f"{path}[{index}]")
    elif isinstance(value, Mapping):
        for name, item, below in _members(value, schema, root=root):
            if below is not None and not (root and name in _OBJECT_FIELDS):
                yield from duplicates(item, below, _join(path, name))


def _duplicates(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or ()
    if kind not in ("set", "map"):
        return
    seen: list[Any] = []
    for index, item in enumerate(value):
        identity = (
            {name: item.get(name) for name in keys} if kind == "map" and isinstance(item, Mapping) else item
        )
        if identity in seen:
            text = f"Duplicate value: {shown(identity)}"
            yield _cause("FieldValueDuplicate", f"{path}[{index}]", text)
        seen.append(identity)


def _matches(pattern: str, value: str) -> bool:
    """Go's syntax and linear time; a pattern that Go could not read matches everything."""
    try:
        return re2.search(pattern, value) is not None
    except re2.error:
        return True


def _is_time(value: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)?", value):
        return False
    try:
        datetime.fromisoformat(value[:19].upper())
    except ValueError:
        return False
    return True


def _schemas(value: Any) -> list[Schema]:
    return [sub for sub in value if isinstance(sub, Mapping)] if isinstance(value, list) else []


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _invalid(path: str, value: Any, text: str) -> Cause:
    return _cause("FieldValueInvalid", path, f"Invalid value: {shown(value)}: {text}")


def _cause(reason: str, path: str, message: str) -> Cause:
    return Cause(reason, path or "<nil>", message)
