"""What the server changes in an object before it is written, kind by kind: status, spec and generation.

A write to the resource keeps the old status, a write to ``/status`` keeps the old spec. Bodies are stored
forms and are changed in place. Which changes are *refused* is the business of ``baro.model.validation``.
Source: the ``strategy.go`` files of kube-apiserver 1.37.
"""

from __future__ import annotations

from typing import Any, Final

from baro.apiserver.catalogue import DEFINITIONS, Served
from baro.apiserver.registry.versions import kept
from baro.apiserver.storage import ResourceKey
from baro.model.quantity import Quantity, QuantityError
from baro.model.validation.prepare import drop_deallocated, keep

Body = dict[str, Any]

PODS: Final = ResourceKey("", "pods")
NODES: Final = ResourceKey("", "nodes")
NAMESPACES: Final = ResourceKey("", "namespaces")
EVENTS: Final = ResourceKey("", "events")
LEASES: Final = ResourceKey("coordination.k8s.io", "leases")
CLAIMS: Final = ResourceKey("resource.k8s.io", "resourceclaims")

_GENERATION: Final = frozenset(
    {PODS}
    | {
        ResourceKey("resource.k8s.io", name)
        for name in ("resourceslices", "deviceclasses", "devicetaintrules")
    }
)
_OPEN_METADATA_IN_STATUS: Final = frozenset({PODS, NODES, NAMESPACES})
"""Kinds whose ``/status`` also takes labels and annotations; the others reset them."""
CREATE_ON_UPDATE: Final = frozenset({EVENTS, LEASES})
_CONDITIONAL_UPDATE: Final = frozenset({LEASES, ResourceKey("resource.k8s.io", "devicetaintrules")})


def needs_resource_version(served: Served) -> bool:
    """Whether a PUT without a resourceVersion is refused."""
    return served.key in _CONDITIONAL_UPDATE or not served.builtin


def _counts_generations(served: Served) -> bool:
    return served.key in _GENERATION or not served.builtin


def prepare_create(served: Served, body: Body, now: str) -> None:
    """Takes away what a client may not set, adds what only the server knows."""
    metadata = body["metadata"]
    for name in (
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "selfLink",
        "generation",
    ):
        metadata.pop(name, None)
    if _counts_generations(served):
        metadata["generation"] = 1
    if "status" in served.kind.subresources and served.key not in (NODES, NAMESPACES):
        body.pop("status", None)
    if served.key == NAMESPACES:
        body["status"] = {"phase": "Active"}
        finalizers = body.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
    if served.key == PODS:
        body["status"] = _new_pod_status(body.get("spec") or {}, now)
    if served.key == LEASES:
        _drop_strategy(body)


def _drop_strategy(lease: Body) -> None:
    """Coordinated leader election is off by default, and so are its fields."""
    for name in ("strategy", "preferredHolder"):
        (lease.get("spec") or {}).pop(name, None)


def _new_pod_status(spec: Body, now: str) -> Body:
    status: Body = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    return {**status, "qosClass": qos_class(spec)}


def qos_class(spec: Body) -> str:
    """``Guaranteed`` when all containers limit cpu and memory to what they request, as the kubelet counts."""
    guaranteed, any_resource = True, False
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = _positive(requests.get(name)), _positive(limits.get(name))
            any_resource = any_resource or request is not None or limit is not None
            if limit is None or (request is not None and request != limit):
                guaranteed = False
    if not any_resource:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(raw: Any) -> Quantity | None:
    try:
        quantity = Quantity.parse(raw) if raw is not None else None
    except QuantityError:
        return None  # validation says so
    return quantity if quantity is not None and quantity.sign > 0 else None


def prepare_update(served: Served, new: Body, old: Body, subresource: str) -> None:
    """Puts back what this write may not touch, and counts the generation on."""
    meta, old_meta = new["metadata"], old["metadata"]
    for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        keep(meta, old_meta, name)
    meta.pop("selfLink", None)
    if subresource == "status":
        _prepare_status(served, new, old)
    elif subresource == "finalize":
        keep(new, old, "status")
    elif "status" in served.kind.subresources:
        keep(new, old, "status")
        if served.key == NAMESPACES:
            keep(new.setdefault("spec", {}), old.get("spec") or {}, "finalizers")
    if served.key == LEASES:
        _drop_strategy(new)
    counted = _counts_generations(served) and not (subresource == "status" and served.custom is not None)
    if counted and _asked(served, new) != _asked(served, old):
        meta["generation"] = int(old_meta.get("generation", 0)) + 1


def _asked(served: Served, body: Body) -> Any:
    """What a generation counts: the spec; of a custom object everything but its metadata."""
    if served.custom is None or served.key == DEFINITIONS:
        return body.get("spec")
    whole = kept(body, served)
    return {name: value for name, value in whole.items() if name not in ("metadata", "apiVersion")}


def _prepare_status(served: Served, new: Body, old: Body) -> None:
    names = new.keys() | old.keys() if served.custom is not None else {"spec"}
    for name in names - {"metadata", "status"}:
        keep(new, old, name)
    meta, old_meta = new["metadata"], old["metadata"]
    if served.key not in _OPEN_METADATA_IN_STATUS:
        for name in ("labels", "annotations", "finalizers", "ownerReferences"):
            keep(meta, old_meta, name)
    if served.key == PODS:
        keep(meta, old_meta, "ownerReferences")
        status, before = new.setdefault("status", {}), old.get("status") or {}
        for name in ("qosClass", "resourceClaimStatuses", "extendedResourceClaimStatus"):
            if name in before and not status.get(name):
                status[name] = before[name]
    if served.key == CLAIMS:
        new.setdefault("status", {})
        drop_deallocated(new["status"], old.get("status") or {})
