"""How the parts of a document merge, for compiled-in kinds and for those of a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol

import msgspec

from baro.model.schema import Field, TypeRef, resolve

Relation = Literal["leaf", "granular", "set", "keyed"]
"""``leaf``: scalars and everything atomic. ``granular``: maps and structs. The others are lists."""


Expected = Literal["", "string", "number", "boolean", "list", "map"]
_EXPECTED: Final[Mapping[str, Expected]] = {
    "string": "string", "bytes": "string", "time": "string", "microTime": "string",
    "int32": "number", "int64": "number", "float": "number", "integer": "number", "number": "number",
    "bool": "boolean", "boolean": "boolean", "array": "list", "map": "map", "object": "map",
}  # fmt: skip
"""Names of types, here and in JSON schemas."""


class Shape(Protocol):
    """The type of one value. ``keys`` are set for ``keyed`` lists only."""

    @property
    def relation(self) -> Relation: ...

    @property
    def keys(self) -> Mapping[str, Any]:
        """Key fields of the items of a list, with the default of each (None: it has none)."""

    @property
    def expects(self) -> Expected:
        """What kind of value this must be; ``""`` when any will do."""

    @property
    def closed(self) -> bool:
        """Whether only declared names may occur."""

    def declares(self, name: str) -> bool:
        """Whether ``name`` is a field of a struct (and no key of a map)."""

    def child(self, name: str) -> Shape: ...

    def item(self) -> Shape: ...


class _Deduced(msgspec.Struct, frozen=True):
    """What nothing is known of: maps merge, lists are replaced as a whole."""

    relation: Relation = "granular"
    keys: Mapping[str, Any] = {}
    expects: Expected = ""
    closed: bool = False

    def declares(self, name: str) -> bool:
        return False

    def child(self, name: str) -> Shape:
        return DEDUCED

    def item(self) -> Shape:
        return DEDUCED


DEDUCED: Final[Shape] = _Deduced()
LEAF: Final[Shape] = _Deduced("leaf")

_KEY_DEFAULTS: Final = {"protocol": "TCP"}
"""Keys of lists that the API defaults; the schema tables hold no defaults."""


class BuiltinShape(msgspec.Struct, frozen=True):
    """The shape of a value of ``baro.model.schema``. Lists are atomic unless the field says more."""

    type: TypeRef
    field: Field | None = None

    @property
    def relation(self) -> Relation:
        if self.type.kind == "array":
            listed = self.field.list_type if self.field is not None else None
            return "keyed" if listed == "map" else "set" if listed == "set" else "leaf"
        if self.field is not None and self.field.atomic:
            return "leaf"
        if self.type.kind == "map":
            return "granular"
        if self.type.kind == "object" and self.type.ref is not None:
            return "leaf" if resolve(self.type.ref).atomic else "granular"
        return "leaf"

    @property
    def keys(self) -> Mapping[str, Any]:
        names = self.field.list_map_keys if self.field is not None else ()
        return {name: _KEY_DEFAULTS.get(name) for name in names}

    @property
    def expects(self) -> Expected:
        return _EXPECTED.get(self.type.kind, "")

    @property
    def closed(self) -> bool:
        return self.type.kind == "object" and self.type.ref is not None

    def declares(self, name: str) -> bool:
        return self.closed and name in resolve(self.type.ref or "").fields

    def child(self, name: str) -> Shape:
        if not self.closed:
            return BuiltinShape(self.type.items) if self.type.items is not None else DEDUCED
        field = resolve(self.type.ref or "").fields.get(name)
        return BuiltinShape(field.type, field) if field is not None else DEDUCED

    def item(self) -> Shape:
        return BuiltinShape(self.type.items) if self.type.items is not None else DEDUCED


class SchemaShape(msgspec.Struct, frozen=True):
    """The shape of a value that a structural schema describes. ``root`` adds the metadata of every object."""

    schema: Mapping[str, Any]
    root: bool = False

    @property
    def relation(self) -> Relation:
        if self.schema.get("type") == "array":
            listed = self.schema.get("x-kubernetes-list-type")
            return "keyed" if listed == "map" else "set" if listed == "set" else "leaf"
        if self.schema.get("x-kubernetes-map-type") == "atomic":
            return "leaf"
        return "granular" if self.schema.get("type") == "object" or self._open else "leaf"

    @property
    def keys(self) -> Mapping[str, Any]:
        properties = (self.schema.get("items") or {}).get("properties") or {}
        names = self.schema.get("x-kubernetes-list-map-keys") or ()
        return {name: (properties.get(name) or {}).get("default") for name in names}

    @property
    def expects(self) -> Expected:
        if self.schema.get("x-kubernetes-int-or-string") is True:
            return ""
        return _EXPECTED.get(str(self.schema.get("type")), "")

    @property
    def _open(self) -> bool:
        return self.schema.get("x-kubernetes-preserve-unknown-fields") is True

    @property
    def closed(self) -> bool:
        return "additionalProperties" not in self.schema and not self._open

    def declares(self, name: str) -> bool:
        if self.root and name in ("apiVersion", "kind", "metadata"):
            return True
        return name in (self.schema.get("properties") or {})

    def child(self, name: str) -> Shape:
        if self.root and name == "metadata":
            return METADATA
        if self.root and name in ("apiVersion", "kind"):
            return LEAF
        found = (self.schema.get("properties") or {}).get(name)
        if found is None:
            found = self.schema.get("additionalProperties")
        if self.schema.get("x-kubernetes-embedded-resource") and name == "metadata":
            return METADATA
        return SchemaShape(found) if isinstance(found, Mapping) else DEDUCED

    def item(self) -> Shape:
        items = self.schema.get("items")
        return SchemaShape(items) if isinstance(items, Mapping) else DEDUCED


METADATA: Final[Shape] = BuiltinShape(
    TypeRef("object", "v1.ObjectMeta", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
)
