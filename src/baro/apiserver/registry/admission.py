"""What depends on the namespace of an object: it must exist and live, and its labels give consent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from baro.apiserver.catalogue import Served
from baro.apiserver.registry.strategy import NAMESPACES
from baro.apiserver.status import Cause, Resource, forbidden, not_found
from baro.apiserver.storage import Key, Store

Body = dict[str, Any]

BOOT_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
UNDELETABLE: Final = frozenset({"default", "kube-public", "kube-system"})


def admit_create(store: Store, served: Served, namespace: str, body: Body) -> None:
    """Raises 404 for a missing namespace and 403 for a dying one."""
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


def unique_owners(metadata: Body, warnings: list[str], *, when: str = "") -> None:
    """Keeps the first of equal owner references, in place, and says so. ``when`` is told for patches."""
    owners = metadata.get("ownerReferences")
    if not isinstance(owners, list):
        return
    kept: list[Any] = []
    repeated: list[str] = []
    for owner in owners:
        if owner not in kept:
            kept.append(owner)
        else:
            repeated.append(str(owner.get("uid", "")) if isinstance(owner, Mapping) else "")
    if repeated:
        metadata["ownerReferences"] = kept
        warnings.append(
            f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references "
            "in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate "
            f"UID(s) observed: {', '.join(repeated)}"
        )


def namespace_labels(store: Store, body: Body) -> Mapping[str, str]:
    """The labels of the namespace that an object is in; none for one without."""
    record = store.get(Key(NAMESPACES, "", str(body["metadata"].get("namespace") or "")))
    return record.index.labels if record is not None else {}
