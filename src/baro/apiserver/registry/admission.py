"""What depends on other objects: a namespace must exist and live, and admin access needs its consent."""

from __future__ import annotations

from typing import Any, Final

from baro.apiserver.catalogue import Served
from baro.apiserver.registry.strategy import NAMESPACES
from baro.apiserver.status import Cause, Resource, forbidden, invalid, not_found
from baro.apiserver.storage import Key, Store

Body = dict[str, Any]

BOOT_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
UNDELETABLE: Final = frozenset({"default", "kube-public", "kube-system"})

_ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_ADMIN_MESSAGE: Final = (
    "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on "
    "the containing namespace"
)


def admit_create(store: Store, served: Served, namespace: str, body: Body) -> None:
    """Raises 404 for a missing namespace, 403 for a dying one, 422 for admin access without consent."""
    if not served.kind.namespaced:
        return
    record = store.get(Key(NAMESPACES, "", namespace))
    if record is None:
        raise not_found(Resource("", "namespaces"), namespace)
    holder = record.body()
    name = str(body["metadata"].get("name", ""))
    if holder["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = Cause(
            "NamespaceTerminating", "metadata.namespace", f"namespace {namespace} is being terminated"
        )
        raise forbidden(served.resource, name, why, [cause])
    if (record.index.labels.get(_ADMIN_LABEL)) != "true":
        causes = [
            Cause("FieldValueForbidden", path, _ADMIN_MESSAGE) for path in _admin_requests(served, body)
        ]
        if causes:
            raise invalid(served.kind.group, served.kind.kind, name, causes)


def _admin_requests(served: Served, body: Body) -> list[str]:
    if served.stored.kind == "ResourceClaim":
        spec, prefix = body.get("spec"), "spec"
    elif served.stored.kind == "ResourceClaimTemplate":
        spec, prefix = (body.get("spec") or {}).get("spec"), "spec.spec"
    else:
        return []
    requests = ((spec or {}).get("devices") or {}).get("requests") or ()
    return [
        f"{prefix}.devices.requests[{index}].adminAccess"
        for index, request in enumerate(requests)
        if (request.get("exactly") or {}).get("adminAccess")
    ]
