"""The CustomResourceDefinition itself: its own schema, what makes one valid, and its status.

Source: ``apiextensions/v1`` and ``pkg/apis/apiextensions/validation`` of Kubernetes. A definition is served
as soon as it is created, so its conditions are written with it instead of by controllers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from baro.apiserver.customs.jsonpath import JsonPathError, find
from baro.apiserver.status import Cause
from baro.model.schema import Column, Kind
from baro.model.validation.causes import shown

Body = dict[str, Any]

_NAME: Final = Column("Name", format="name", description="Name of the object, unique in its namespace.")
AGE: Final = Column("Age", description="Time since the object was created.")

DEFINITION_KIND: Final = Kind(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    singular="customresourcedefinition",
    type="io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    short_names=("crd", "crds"),
    subresources=("status",),
    categories=("api-extensions",),
    columns=(_NAME, Column("Created At", description="When the definition was created.")),
)

_TEXT: Final[Body] = {"type": "string"}
_TEXTS: Final[Body] = {"type": "array", "items": _TEXT}
_FREE: Final[Body] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_NAMES: Final[Body] = {
    "type": "object",
    "required": ["plural", "kind"],
    "properties": {
        "plural": _TEXT, "singular": _TEXT, "kind": _TEXT, "listKind": _TEXT,
        "shortNames": _TEXTS, "categories": _TEXTS,
    },
}  # fmt: skip
_COLUMN: Final[Body] = {
    "type": "object",
    "required": ["name", "type", "jsonPath"],
    "properties": {
        "name": _TEXT, "type": _TEXT, "jsonPath": _TEXT, "format": _TEXT, "description": _TEXT,
        "priority": {"type": "integer"},
    },
}  # fmt: skip
_VERSION: Final[Body] = {
    "type": "object",
    "required": ["name", "served", "storage"],
    "properties": {
        "name": _TEXT,
        "served": {"type": "boolean"},
        "storage": {"type": "boolean"},
        "deprecated": {"type": "boolean"},
        "deprecationWarning": _TEXT,
        "schema": {"type": "object", "properties": {"openAPIV3Schema": _FREE}},
        "subresources": {"type": "object", "properties": {"status": _FREE, "scale": _FREE}},
        "additionalPrinterColumns": {"type": "array", "items": _COLUMN},
        "selectableFields": {
            "type": "array",
            "items": {"type": "object", "required": ["jsonPath"], "properties": {"jsonPath": _TEXT}},
        },
    },
}
_CONDITION: Final[Body] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("type", "status", "lastTransitionTime", "reason", "message"), _TEXT),
        "observedGeneration": {"type": "integer"},
    },
}
DEFINITION_SCHEMA: Final[Body] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "group": _TEXT,
                "names": _NAMES,
                "scope": _TEXT,
                "versions": {"type": "array", "items": _VERSION},
                "conversion": {
                    "type": "object",
                    "required": ["strategy"],
                    "properties": {"strategy": _TEXT, "webhook": _FREE},
                },
                "preserveUnknownFields": {"type": "boolean"},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "conditions": {
                    "type": "array",
                    "items": _CONDITION,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                },
                "acceptedNames": _NAMES,
                "storedVersions": _TEXTS,
                "observedGeneration": {"type": "integer"},
            },
        },
    },
}


class Version(msgspec.Struct, frozen=True):
    """One served version of a defined kind. ``paths`` belong to the columns behind the name."""

    kind: Kind
    schema: Mapping[str, Any]
    storage: bool
    paths: tuple[str, ...]
    selectable: tuple[str, ...] = ()
    warning: str = ""


def complete(body: Body) -> None:
    """Fills in what a definition may leave out, in place."""
    spec = body.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(names.get("kind"), str):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


# --- validity --------------------------------------------------------------------------------------------


def check_definition(body: Body) -> list[Cause]:
    """Why a well-typed definition is none."""
    spec = body["spec"]
    names = spec.get("names") or {}
    found: list[Cause] = []
    for path, value in (("spec.group", spec.get("group")), ("spec.names.plural", names.get("plural"))):
        if not value:
            found.append(Cause("FieldValueRequired", path, "Required value"))
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if body["metadata"].get("name") != wanted:
        text = (
            f'Invalid value: {shown(body["metadata"].get("name"))}: must be spec.names.plural+"."+spec.group'
        )
        found.append(Cause("FieldValueInvalid", "metadata.name", text))
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        text = (
            f'Unsupported value: {shown(spec.get("scope") or "")}: supported values: "Cluster", "Namespaced"'
        )
        found.append(Cause("FieldValueNotSupported", "spec.scope", text))
    versions = spec.get("versions") or []
    if not versions:
        found.append(
            Cause("FieldValueRequired", "spec.versions", "Required value: must have at least one version")
        )
    if versions and sum(version.get("storage") is True for version in versions) != 1:
        text = "Invalid value: must have exactly one version marked as storage version"
        found.append(Cause("FieldValueInvalid", "spec.versions", text))
    shared = len({shown(version.get("schema")) for version in versions}) == 1
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        found += _check_version(version, path, "spec.validation" if shared else f"{path}.schema")
    return list(dict.fromkeys(found))


def _check_version(version: Body, path: str, schema_path: str) -> Iterator[Cause]:
    """The server keeps a schema that all versions share in one place, and names that in its errors."""
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", str(version.get("name", ""))):
        rule = "a DNS-1035 label must consist of lower case alphanumeric characters or '-'"
        text = f"Invalid value: {shown(version.get('name'))}: {rule}"
        yield Cause("FieldValueInvalid", f"{path}.name", text)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(schema, Mapping) or not schema:
        yield Cause("FieldValueRequired", f"{path}.schema.openAPIV3Schema", "Required value")
        return
    place = f"{schema_path}.openAPIV3Schema"
    if schema.get("type") != "object":
        text = f"Invalid value: {shown(schema.get('type') or '')}: must be object at the root"
        yield Cause("FieldValueInvalid", f"{place}.type", text)
    yield from _check_structure(schema, place, root=True)
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        try:
            find({}, str(column.get("jsonPath", "")))
        except JsonPathError as error:
            text = f"Invalid value: {shown(column.get('jsonPath'))}: {error}"
            where = f"{path}.additionalPrinterColumns[{index}].jsonPath"
            yield Cause("FieldValueInvalid", where, text)


def check_definition_update(body: Body, old: Body) -> list[Cause]:
    """What a definition never changes once objects may be of its kind."""
    spec, before = body["spec"], old.get("spec") or {}
    names, was = spec.get("names") or {}, before.get("names") or {}
    changes = (
        ("spec.group", spec.get("group"), before.get("group")),
        ("spec.scope", spec.get("scope"), before.get("scope")),
        ("spec.names.kind", names.get("kind"), was.get("kind")),
        ("spec.names.plural", names.get("plural"), was.get("plural")),
    )
    return [
        Cause("FieldValueInvalid", path, f"Invalid value: {shown(value)}: field is immutable")
        for path, value, earlier in changes
        if value != earlier
    ]


def _check_structure(schema: Mapping[str, Any], path: str, *, root: bool = False) -> Iterator[Cause]:
    """A structural schema says the type of every field."""
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not free and not root:
        text = "Required value: must not be empty for specified object fields"
        yield Cause("FieldValueRequired", f"{path}.type", text)
    properties = schema.get("properties")
    for name, below in sorted(properties.items()) if isinstance(properties, Mapping) else ():
        if isinstance(below, Mapping) and not (root and name in ("metadata", "apiVersion", "kind")):
            yield from _check_structure(below, f"{path}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        below = schema.get(name)
        if isinstance(below, Mapping):
            yield from _check_structure(below, f"{path}.{name}")
    if schema.get("type") == "array" and not isinstance(schema.get("items"), Mapping):
        yield Cause("FieldValueRequired", f"{path}.items", "Required value: must be specified")


def ignored(body: Body) -> Iterator[str]:
    """What a valid definition asks for and this server does not do."""
    spec = body["spec"]
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        yield "spec.conversion: objects are not converted, versions differ in their name only"
    for version in spec.get("versions") or ():
        name = f"version {version.get('name')}"
        if "scale" in (version.get("subresources") or {}):
            yield f"{name}: the scale subresource is not served"
        if _has_rules((version.get("schema") or {}).get("openAPIV3Schema")):
            yield f"{name}: x-kubernetes-validations are not enforced"


def _has_rules(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        return "x-kubernetes-validations" in schema or any(map(_has_rules, schema.values()))
    return isinstance(schema, list) and any(map(_has_rules, schema))


# --- what it means ---------------------------------------------------------------------------------------


def versions_of(body: Body) -> tuple[Version, ...]:
    """The served versions of a valid definition, the preferred first."""
    spec = body["spec"]
    versions = [version for version in spec["versions"] if version.get("served")]
    found = [_version(spec, version) for version in versions]
    return tuple(sorted(found, key=lambda version: _priority(version.kind.version), reverse=True))


def _version(spec: Body, version: Body) -> Version:
    names = spec["names"]
    given = version.get("additionalPrinterColumns") or []
    columns = tuple(
        Column(c["name"], c["type"], c.get("format", ""), int(c.get("priority", 0)), c.get("description", ""))
        for c in given
    )
    subresources = ("status",) if "status" in (version.get("subresources") or {}) else ()
    kind = Kind(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        type=".".join([*reversed(spec["group"].split(".")), version["name"], names["kind"]]),
        short_names=tuple(names.get("shortNames") or ()),
        namespaced=spec["scope"] == "Namespaced",
        subresources=subresources,
        categories=tuple(names.get("categories") or ()),
        columns=(_NAME, *(columns or (AGE,))),
    )
    paths = tuple(c["jsonPath"] for c in given) or (".metadata.creationTimestamp",)
    selectable = tuple(str(f["jsonPath"]).removeprefix(".") for f in version.get("selectableFields") or ())
    warning = ""
    if version.get("deprecated"):
        default = f"{kind.api_version} {kind.kind} is deprecated"
        warning = version.get("deprecationWarning") or default
    schema = version["schema"]["openAPIV3Schema"]
    return Version(kind, schema, version.get("storage") is True, paths, selectable, warning)


def _priority(version: str) -> tuple[int, int, int, str]:
    """GA before beta before alpha, higher numbers first, other names last."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return 0, 0, 0, version
    stage = {None: 3, "beta": 2, "alpha": 1}[match[2]]
    return stage, int(match[1]), int(match[3] or 0), version


def status_of(body: Body, now: str, taken: str = "") -> Body:
    """The status of a definition. ``taken`` names what another definition has already."""
    before = body.get("status") or {}
    accepted = not taken
    conditions = [
        _condition(
            "NamesAccepted", accepted, "NoConflicts" if accepted else "KindConflict",
            "no conflicts found" if accepted else f'"{taken}" is already in use',
        ),
        _condition(
            "Established", accepted, "InitialNamesAccepted" if accepted else "NotAccepted",
            "the initial names have been accepted" if accepted else "not all names are accepted",
        ),
    ]  # fmt: skip
    old = {condition.get("type"): condition for condition in before.get("conditions") or ()}
    for condition in conditions:
        same = old.get(condition["type"], {})
        kept = same.get("lastTransitionTime") if same.get("status") == condition["status"] else None
        condition["lastTransitionTime"] = kept or now
    stored = next((v["name"] for v in body["spec"]["versions"] if v.get("storage")), "")
    versions = list(dict.fromkeys([*(before.get("storedVersions") or ()), stored]))
    names = dict(body["spec"]["names"]) if accepted else {"plural": "", "kind": ""}
    return {"conditions": conditions, "acceptedNames": names, "storedVersions": versions}


def _condition(name: str, holds: bool, reason: str, message: str) -> Body:
    status = "True" if holds else "False"
    return {"lastTransitionTime": "", "message": message, "reason": reason, "status": status, "type": name}


def established(body: Body) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
