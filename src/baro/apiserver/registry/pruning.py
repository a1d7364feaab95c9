"""What a typed server does to a body by decoding and encoding it: unknown fields, nulls and empty
lists go, quantities become canonical.

Works on the schema; free documents (opaque parameters, ``NodeTopology.spec``) are kept as they are, and so
is a body of a kind without a schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baro.model.quantity import Quantity, QuantityError
from baro.model.schema import ObjectType, TypeRef, resolve


def pruned(body: Mapping[str, Any], shape: ObjectType) -> dict[str, Any]:
    """A deep copy of the fields that ``shape`` knows. Values of a wrong type are taken over as they are."""
    kept: dict[str, Any] = {}
    for name, field in shape.fields.items():
        value = body.get(name)
        if value is None:
            continue
        value = _value(value, field.type)
        if field.required or value not in ({}, []) or field.type.kind not in ("array", "map"):
            kept[name] = value
    return kept


def _value(value: Any, type_: TypeRef) -> Any:
    if type_.kind == "object" and isinstance(value, Mapping):
        return pruned(value, resolve(type_.ref)) if type_.ref else value
    if type_.kind == "array" and isinstance(value, list | tuple) and type_.items is not None:
        return [
            _value({} if item is None and type_.items.kind == "object" else item, type_.items)
            for item in value
        ]
    if type_.kind == "map" and isinstance(value, Mapping) and type_.items is not None:
        return {str(key): _value(item, type_.items) for key, item in value.items() if item is not None}
    if type_.kind == "any":
        return _plain(value)
    return _canonical(value) if type_.kind == "quantity" else value


def _canonical(value: Any) -> Any:
    """A quantity as the server writes it back: ``1000m`` → ``"1"``."""
    try:
        return str(Quantity.parse(value))
    except (QuantityError, TypeError):
        return value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
