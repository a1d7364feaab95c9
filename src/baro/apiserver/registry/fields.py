"""The index of an object: its labels, owners and the fields that a field selector may name.

Source: the field label conversions and ``GetAttrs`` functions of kube-apiserver.
"""

from __future__ import annotations

from typing import Any, Final

from baro.apiserver.catalogue import Served
from baro.apiserver.selectors import FieldSelector
from baro.apiserver.status import StatusError, bad_request
from baro.apiserver.storage import Index, ResourceKey

_SELECTABLE: Final[dict[ResourceKey, tuple[str, ...]]] = {
    ResourceKey("", "pods"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    ResourceKey("", "nodes"): ("spec.unschedulable",),
    ResourceKey("", "namespaces"): ("status.phase",),
    ResourceKey("", "secrets"): ("type",),
    ResourceKey("", "events"): (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    ResourceKey("resource.k8s.io", "resourceslices"): ("spec.nodeName", "spec.driver", "spec.pool.name"),
}
_BOOLEANS: Final = frozenset({"spec.hostNetwork", "spec.unschedulable"})
_ALIASES: Final = {"spec.host": "spec.nodeName"}


def index(served: Served, body: dict[str, Any]) -> Index:
    """The index of an object in its stored form."""
    metadata = body["metadata"]
    fields = {name: field_value(body, name) for name in _SELECTABLE.get(served.key, ())}
    return Index(
        uid=metadata.get("uid", ""),
        labels=metadata.get("labels") or {},
        fields={name: value for name, value in fields.items() if value},
        owners=tuple(owner.get("uid", "") for owner in metadata.get("ownerReferences") or ()),
    )


def is_indexed(resource: ResourceKey) -> bool:
    """Whether the fields that objects of the resource can be selected by are in their index."""
    return resource in _SELECTABLE


def _selectable(served: Served) -> tuple[str, ...] | None:
    if served.custom is not None:
        return served.custom.selectable or None
    return _SELECTABLE.get(served.key)


def with_names(fields: dict[str, str], namespace: str, name: str) -> dict[str, str]:
    """``fields`` and the two that every object has, which follow from its key."""
    return {"metadata.name": name, "metadata.namespace": namespace, **fields}


def check(served: Served, selector: FieldSelector) -> FieldSelector:
    """The selector with old names replaced. Raises 400 for a field that the kind cannot be selected by."""
    known = _selectable(served)
    allowed = {"metadata.name", *(known or ())}
    if served.kind.namespaced or known is None:
        allowed.add("metadata.namespace")
    terms = []
    for field, equal, value in selector.terms:
        name = _ALIASES.get(field, field) if served.key == ResourceKey("", "pods") else field
        if name not in allowed:
            raise _unknown(served, name, known=known is not None)
        terms.append((name, equal, value))
    return FieldSelector(tuple(terms))


def _unknown(served: Served, field: str, *, known: bool) -> StatusError:
    if served.kind.plural == "resourceslices":
        kind = f"{served.kind.group}/{served.kind.version}, Kind={served.kind.kind}"
        return bad_request(f"field label not supported for {kind}: {field}")
    if known or not served.builtin:
        return bad_request(f"field label not supported: {field}")
    return bad_request(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def field_value(body: dict[str, Any], path: str) -> str:
    """A field as selectors see it; ``""`` for one that is not there."""
    if path == "source":  # of an event: the old field or the new one
        return str((body.get("source") or {}).get("component") or body.get("reportingComponent") or "")
    node: Any = body
    for part in path.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    if path in _BOOLEANS:
        return "true" if node else "false"
    if path == "status.podIPs":
        return ",".join(str(ip.get("ip", "")) for ip in node or ())
    if isinstance(node, bool):
        return "true" if node else "false"
    return str(node) if isinstance(node, str | int) else ""
