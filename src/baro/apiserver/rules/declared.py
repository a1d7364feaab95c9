"""Structural schemas as CEL types: what a rule may name, and how large it may be.

A field without a type, or with a name that no identifier can stand for, does not exist for rules. Sizes feed
the estimate of what a rule may cost. Source: ``SchemaDeclType`` of ``k8s.io/apiserver/pkg/cel/common``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from baro.apiserver.rules.names import escaped
from baro.cel import types
from baro.cel.environment import Environment, environment
from baro.cel.types import Type

Schema = Mapping[str, Any]

REQUEST_BYTES: Final = 3 * 1024 * 1024
"""The largest request there is, from which unlimited sizes are derived."""
_NAME_BYTES: Final = 253
_FORMATS: Final[dict[str, tuple[Type, int, int]]] = {
    "duration": (types.DURATION, 3, 32),
    "date": (types.TIMESTAMP, 12, 12),
    "date-time": (types.TIMESTAMP, 21, 32),
}
"""Format → type, bytes of the shortest text, bytes of the longest."""


class Declared(msgspec.Struct, frozen=True):
    """A type with sizes: ``most`` elements or characters, at least ``least`` bytes of JSON.

    ``fields`` (by identifier) is None unless it is an object with fields; ``element`` is the type of items
    or values, ``key`` that of a map's keys.
    """

    kind: str
    least: int
    most: int = 0
    fields: Mapping[str, Declared] | None = None
    element: Declared | None = None
    key: Declared | None = None


_KEY: Final = Declared("string", 2)


def subschema(value: Any) -> Schema | None:
    return value if isinstance(value, Mapping) else None


def properties(schema: Schema) -> Mapping[str, Schema]:
    """The declared fields, none for a schema without."""
    found = subschema(schema.get("properties")) or {}
    return {str(name): below for name, below in found.items() if isinstance(below, Mapping)}


def with_object_fields(schema: Schema) -> Schema:
    """The schema of a resource's root, which always has kind, apiVersion and a name."""
    text = {"type": "string"}
    declared = properties(schema)
    metadata = properties(declared.get("metadata") or {})
    names = {}
    for name, limit in (("name", _NAME_BYTES), ("generateName", _NAME_BYTES - 1)):
        own = (metadata.get(name) or {}).get("maxLength")
        names[name] = {**text, "maxLength": min(own, limit) if isinstance(own, int) else limit}
    meta = {"type": "object", "properties": names}
    return {**schema, "properties": {**declared, "kind": text, "apiVersion": text, "metadata": meta}}


def is_embedded(schema: Schema) -> bool:
    return schema.get("x-kubernetes-embedded-resource") is True


def declared_of(schema: Schema, *, root: bool = False) -> Declared | None:
    """The type of values of ``schema``; None for what rules cannot see. ``root``: of a whole resource."""
    if schema.get("x-kubernetes-int-or-string") is True:
        return Declared("dyn", 1, _characters(schema, REQUEST_BYTES - 2))
    if root or is_embedded(schema):
        schema = with_object_fields(schema)
    kind = schema.get("type")
    if kind == "array":
        return _array(schema)
    if kind == "object":
        return _object(schema)
    if kind == "string":
        return _text(schema)
    simple = {"boolean": Declared("bool", 4), "number": Declared("double", 1), "integer": Declared("int", 1)}
    return simple.get(str(kind))


def _array(schema: Schema) -> Declared | None:
    items = subschema(schema.get("items"))
    element = declared_of(items) if items is not None else None
    if element is None:
        return None
    most = _limit(schema, "maxItems")
    return Declared(
        "list", 2, (REQUEST_BYTES - 2) // (element.least + 1) if most is None else most, element=element
    )


def _object(schema: Schema) -> Declared | None:
    values = subschema(schema.get("additionalProperties"))
    if values is not None:
        element = declared_of(values)
        if element is None:
            return None
        most = _limit(schema, "maxProperties")
        default = (REQUEST_BYTES - 2) // (element.least + 6)
        return Declared("map", 2, default if most is None else most, element=element, key=_KEY)
    fields: dict[str, Declared] = {}
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    least = 2
    for name, below in properties(schema).items():
        found = declared_of(below)
        if found is None:
            continue
        identifier = escaped(name)
        if identifier is not None:
            fields[identifier] = found
        if name in needed and "default" not in below:
            least += len(name.encode()) + found.least + 4
    return Declared("object", least, fields=fields)


def _text(schema: Schema) -> Declared:
    format_ = schema.get("format")
    if format_ == "byte":
        most = _limit(schema, "maxLength")
        return Declared("bytes", 2, REQUEST_BYTES - 2 if most is None else most)
    if format_ in _FORMATS:
        type_, least, most = _FORMATS[format_]
        return Declared("duration" if type_ is types.DURATION else "timestamp", least, most)
    allowed = schema.get("enum")
    default = REQUEST_BYTES - 2
    if isinstance(allowed, list) and allowed:
        default = max((len(item.encode()) for item in allowed if isinstance(item, str)), default=0)
    return Declared("string", 2, _characters(schema, default))


def _characters(schema: Schema, default: int) -> int:
    """A limit in characters, each of which may take four bytes."""
    most = _limit(schema, "maxLength")
    return default if most is None else most * 4


def _limit(schema: Schema, name: str) -> int | None:
    value = schema.get(name)
    return max(int(value), 0) if isinstance(value, int | float) and not isinstance(value, bool) else None


# --- environments ----------------------------------------------------------------------------------------

_SIMPLE: Final = {
    "dyn": types.DYN, "bool": types.BOOL, "int": types.INT, "double": types.DOUBLE, "string": types.STRING,
    "bytes": types.BYTES, "duration": types.DURATION, "timestamp": types.TIMESTAMP,
}  # fmt: skip


def scope(declared: Declared, *, optional_old: bool) -> Environment:
    """What a rule on values of the type sees: ``self`` and ``oldSelf``, and no device."""
    base = environment("admission")
    fields = {name: known for name, known in base.fields.items() if name != "kubernetes.DRADevice"}
    variables = {
        name: t for name, t in base.variables.items() if name not in ("device", "kubernetes.DRADevice")
    }
    own = _type(declared, "selfType", fields)
    variables["self"] = own
    variables["oldSelf"] = types.optional_of(own) if optional_old else own
    return Environment(base.functions, types.DYN, fields, variables, base.messages)


def _type(declared: Declared, name: str, structs: dict[str, Mapping[str, Type]]) -> Type:
    """The type of the checker; objects get names and are entered into ``structs``."""
    if declared.kind == "list" and declared.element is not None:
        return types.list_of(_type(declared.element, f"{name}.@idx", structs))
    if declared.kind == "map" and declared.element is not None:
        return types.map_of(types.STRING, _type(declared.element, f"{name}.@elem", structs))
    if declared.fields is not None:
        structs[name] = {
            field: _type(below, f"{name}.{field}", structs) for field, below in declared.fields.items()
        }
        return types.struct(name)
    return _SIMPLE[declared.kind]
