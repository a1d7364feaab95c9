"""What a typed server does to a body by decoding and encoding it: unknown fields and nulls go, quantities
become canonical. Empty lists go too, but not in ``resource.k8s.io``, whose rules tell them from absent ones.

Works on the schema; free documents (opaque parameters, ``NodeTopology.spec``) are kept as they are, and so
is a body of a kind without a schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from baro.model.quantity import Quantity, QuantityError
from baro.model.schema import ObjectType, TypeRef, resolve
from baro.model.validation.rules import parse


def pruned(
    body: Mapping[str, Any], shape: ObjectType, kube_version: str, *, empty: bool = False
) -> dict[str, Any]:
    """A deep copy of the fields that ``shape`` has in ``kube_version``, whatever their values.

    ``empty``: optional lists and maps without items stay.
    """
    return _Pruning(parse(kube_version), empty).known(body, shape)


class _Pruning(NamedTuple):
    version: tuple[int, int]
    empty: bool

    def known(self, body: Mapping[str, Any], shape: ObjectType) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, field in shape.fields.items():
            value = body.get(name)
            if value is None or (field.since and parse(field.since) > self.version):
                continue
            value = self.value(value, field.type)
            shown = self.empty or field.required or value not in ({}, [])
            if shown or field.type.kind not in ("array", "map"):
                kept[name] = value
        return kept

    def value(self, value: Any, type_: TypeRef) -> Any:
        if type_.kind == "object" and isinstance(value, Mapping):
            return self.known(value, resolve(type_.ref)) if type_.ref else value
        if type_.kind == "array" and isinstance(value, list | tuple) and type_.items is not None:
            zero: Any = {} if type_.items.kind == "object" else None
            return [self.value(zero if item is None else item, type_.items) for item in value]
        if type_.kind == "map" and isinstance(value, Mapping) and type_.items is not None:
            there = {str(key): item for key, item in value.items() if item is not None}
            return {key: self.value(item, type_.items) for key, item in there.items()}
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
