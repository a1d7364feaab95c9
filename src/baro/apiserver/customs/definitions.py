"""The CustomResourceDefinition itself: its own schema, what it describes, and its status.

Source: ``apiextensions/v1`` of Kubernetes. A definition is served as soon as it is created, so its conditions
are written with it instead of by controllers. What makes one valid is in ``validity``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from baro.apiserver.rules import RuleTree, rule_tree
from baro.model.schema import Column, Kind

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
_SCALE: Final[Body] = {
    "type": "object",
    "properties": dict.fromkeys(("specReplicasPath", "statusReplicasPath", "labelSelectorPath"), _TEXT),
}
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
        "subresources": {"type": "object", "properties": {"status": _FREE, "scale": _SCALE}},
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


class Scale(msgspec.Struct, frozen=True):
    """Where a kind keeps what its ``scale`` subresource shows, as steps; ``selector`` may be empty."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()
    spec_path: str = ""
    status_path: str = ""
    selector_path: str = ""


class Version(msgspec.Struct, frozen=True):
    """One served version of a defined kind. ``paths`` belong to the columns behind the name."""

    kind: Kind
    schema: Mapping[str, Any]
    storage: bool
    paths: tuple[str, ...]
    selectable: tuple[str, ...] = ()
    warning: str = ""
    rules: RuleTree | None = None
    scale: Scale | None = None


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


def ignored(body: Body) -> Iterator[str]:
    """What a valid definition asks for and this server does not do."""
    if (body["spec"].get("conversion") or {}).get("strategy") == "Webhook":
        yield "spec.conversion: objects are not converted, versions differ in their name only"


# --- what it means ---------------------------------------------------------------------------------------


def versions_of(body: Body) -> tuple[tuple[Version, ...], Version]:
    """The served versions of a valid definition, the preferred first, and the one of the store."""
    spec = body["spec"]
    served = {version["name"] for version in spec["versions"] if version.get("served")}
    found = [_version(spec, version) for version in spec["versions"]]
    storage = next(version for version in found if version.storage)
    known = [version for version in found if version.kind.version in served]
    return tuple(sorted(known, key=lambda version: _priority(version.kind.version), reverse=True)), storage


def _version(spec: Body, version: Body) -> Version:
    names = spec["names"]
    given = version.get("additionalPrinterColumns") or []
    columns = tuple(
        Column(c["name"], c["type"], c.get("format", ""), int(c.get("priority", 0)), c.get("description", ""))
        for c in given
    )
    asked = version.get("subresources") or {}
    subresources = tuple(name for name in ("status", "scale") if isinstance(asked.get(name), dict))
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
        warning = version.get("deprecationWarning") or _deprecation(spec, kind)
    schema = version["schema"]["openAPIV3Schema"]
    scale = _scale(asked.get("scale"))
    storage = version.get("storage") is True
    return Version(kind, schema, storage, paths, selectable, warning, rule_tree(schema), scale)


def _deprecation(spec: Body, kind: Kind) -> str:
    """The warning of a deprecated version that brings none; it names the newest that is better."""
    better = [v["name"] for v in spec["versions"] if v.get("served") and not v.get("deprecated")]
    newest = max(better, key=_priority, default="")
    text = f"{kind.api_version} {kind.kind} is deprecated"
    if not newest or _priority(newest) < _priority(kind.version):
        return text
    return f"{text}; use {kind.group}/{newest} {kind.kind}"


def _scale(asked: Any) -> Scale | None:
    if not isinstance(asked, dict):
        return None
    names = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    spec, status, selector = (str(asked.get(name) or "") for name in names)
    steps = [tuple(path.removeprefix(".").split(".")) if path else () for path in (spec, status, selector)]
    return Scale(steps[0], steps[1], steps[2], spec, status, selector)


def _priority(version: str) -> tuple[int, int, int, str]:
    """GA before beta before alpha, higher numbers first, other names last."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return 0, 0, 0, version
    stage = {None: 3, "beta": 2, "alpha": 1}[match[2]]
    return stage, int(match[1]), int(match[3] or 0), version
