"""OpenAPI v3 for the served kinds, made from ``baro.model.schema``.

kubectl needs three things of it: the schemas (``explain``), the merge keys of lists (``apply``), and PATCH
operations that take ``fieldValidation`` and ``dryRun`` (without them it would validate on the client). So
that is what the documents hold; they are no full description of the API.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from baro.apiserver.catalogue import Catalogue, Served
from baro.model.schema import Field, TypeRef, resolve
from baro.model.validation.rules import parse

Body = dict[str, Any]

_METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

_SCALARS: Final[dict[str, Body]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microTime": {"type": "string", "format": "date-time"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intOrString": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_PATCH_TYPES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"


def index(catalogue: Catalogue) -> Body:
    """``/openapi/v3``: one document per group and version, addressed by its content."""
    paths: Body = {}
    for group, version in catalogue.group_versions():
        place = f"apis/{group}/{version}" if group else f"api/{version}"
        content = msgspec.json.encode(document(catalogue, group, version))
        digest = hashlib.sha256(content).hexdigest().upper()
        paths[place] = {"serverRelativeURL": f"/openapi/v3/{place}?hash={digest}"}
    return {"paths": paths}


def document(catalogue: Catalogue, group: str, version: str) -> Body | None:
    """The document of one group and version; None for one that is not served."""
    resources = catalogue.of_version(group, version)
    if not resources:
        return None
    schemas: dict[str, Body] = {}
    paths: Body = {}
    for served in resources:
        if served.custom is not None:
            schemas[served.kind.type] = _custom_schema(served.custom.schema)
            _add_schema(schemas, _METADATA, catalogue.kube_version)
        else:
            _add_schema(schemas, served.kind.type, catalogue.kube_version)
        schemas[served.kind.type]["x-kubernetes-group-version-kind"] = [_gvk(served)]
        paths.update(_paths(served))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes (embedded in baro)", "version": f"v{catalogue.kube_version}"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _custom_schema(schema: Mapping[str, Any]) -> Body:
    """A definition's schema with the fields that every object has."""
    metadata = {"allOf": [{"$ref": f"#/components/schemas/{_METADATA}"}]}
    every: Body = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": metadata}
    return {**schema, "properties": {**(schema.get("properties") or {}), **every}}


def _add_schema(schemas: dict[str, Body], ref: str, kube_version: str) -> None:
    """The object type ``ref`` as ``kube_version`` has it, and all that it refers to."""
    newest = parse(kube_version)
    pending = [ref]
    while pending:
        name = pending.pop()
        if name in schemas:
            continue
        shape = resolve(name)
        fields = [f for f in shape.fields.values() if not f.since or parse(f.since) <= newest]
        schema: Body = {"type": "object", "properties": {f.name: _property(f) for f in fields}}
        required = [field.name for field in fields if field.required]
        if required:
            schema["required"] = required
        if shape.atomic:
            schema["x-kubernetes-map-type"] = "atomic"
        schemas[name] = schema
        pending += [found for field in fields if (found := _ref(field.type))]


def _ref(type_: TypeRef) -> str | None:
    return type_.ref or (_ref(type_.items) if type_.items is not None else None)


def _property(field: Field) -> Body:
    schema = _type(field.type)
    if field.list_type is not None:
        schema["x-kubernetes-list-type"] = field.list_type
    if field.list_map_keys:
        schema["x-kubernetes-list-map-keys"] = list(field.list_map_keys)
    if field.merge_key is not None:
        schema["x-kubernetes-patch-merge-key"] = field.merge_key
    if field.patch_strategy:
        schema["x-kubernetes-patch-strategy"] = ",".join(field.patch_strategy)
    return schema


def _type(type_: TypeRef) -> Body:
    if type_.kind == "array":
        return {"type": "array", "items": _type(type_.items) if type_.items is not None else {}}
    if type_.kind == "map":
        values = _type(type_.items) if type_.items is not None else {}
        return {"type": "object", "additionalProperties": values}
    if type_.kind == "object":
        return {"allOf": [{"$ref": f"#/components/schemas/{type_.ref}"}]} if type_.ref else {"type": "object"}
    return dict(_SCALARS[type_.kind])


def _gvk(served: Served) -> Body:
    return {"group": served.kind.group, "version": served.kind.version, "kind": served.kind.kind}


def _paths(served: Served) -> Body:
    kind = served.kind
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    collection = (
        f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
    )
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.type}"}}}
    patches = (*_PATCH_TYPES, STRATEGIC_PATCH) if served.builtin else _PATCH_TYPES
    return {
        collection: {
            "get": _operation(
                served, "list", ("limit", "continue", "labelSelector", "fieldSelector", "watch")
            ),
            "post": _operation(served, "post", _WRITES, body),
        },
        f"{collection}/{{name}}": {
            "get": _operation(served, "get", ()),
            "put": _operation(served, "put", _WRITES, body),
            "patch": _operation(
                served, "patch", _WRITES, {name: {"schema": {"type": "object"}} for name in patches}
            ),
            "delete": _operation(served, "delete", ("dryRun", "gracePeriodSeconds", "propagationPolicy")),
        },
    }


_WRITES: Final = ("dryRun", "fieldManager", "fieldValidation")


def _operation(served: Served, action: str, query: tuple[str, ...], content: Body | None = None) -> Body:
    response = {"application/json": {"schema": {"$ref": f"#/components/schemas/{served.kind.type}"}}}
    operation: Body = {
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for name in query
        ],
        "responses": {"200": {"description": "OK", "content": response}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(served),
    }
    if content is not None:
        operation["requestBody"] = {"content": content}
    return operation
