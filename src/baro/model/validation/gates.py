"""Fields of ``resource.k8s.io`` that a feature gate covers: what goes from an object while the gate is off.

Bodies are of v1 and are changed in place. Source: ``dropDisabledFields`` in the strategies of
``pkg/registry/resource`` in Kubernetes 1.34 to 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from baro.model.validation.rules import Rules

Body = dict[str, Any]

_GROUP: Final = "resource.k8s.io/"
_LIST_VALUES: Final = ("ints", "bools", "strings", "versions")
_SELECTION: Final = ("nodeName", "nodeSelector", "allNodes")
_BINDING: Final = ("bindingConditions", "bindingFailureConditions")


def drop_disabled(new: Body, old: Mapping[str, Any] | None, rules: Rules) -> None:
    """Takes out of ``new`` what a gate covers that is off, unless ``old`` uses it already."""
    if not is_resource(new):
        return
    gated = _GATED if rules.since("1.35") else _GATED_OF_1_34
    for gates, covered, in_use in gated:
        if not all(rules.on(gate) for gate in gates) and (old is None or not in_use(old)):
            covered(new)


# --- parts of an object ---------------------------------------------------------------------------------


def is_resource(body: Mapping[str, Any]) -> bool:
    return str(body.get("apiVersion", "")).startswith(_GROUP)


def _claim_spec(body: Mapping[str, Any]) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = body.get("spec") or {}
    if body.get("kind") == "ResourceClaimTemplate":
        spec = spec.get("spec") or {}
    return spec if body.get("kind") in ("ResourceClaim", "ResourceClaimTemplate") else {}


def requests(body: Mapping[str, Any]) -> list[Body]:
    return (_claim_spec(body).get("devices") or {}).get("requests") or []


def exacts(request: Mapping[str, Any]) -> Iterator[Body]:
    if request.get("exactly") is not None:
        yield request["exactly"]
    yield from request.get("firstAvailable") or ()


def _all_exacts(body: Mapping[str, Any]) -> Iterator[Body]:
    for request in requests(body):
        yield from exacts(request)


def results(body: Mapping[str, Any]) -> list[Body]:
    if body.get("kind") != "ResourceClaim":
        return []
    allocation = (body.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def _devices(body: Mapping[str, Any]) -> list[Body]:
    if body.get("kind") != "ResourceSlice":
        return []
    return (body.get("spec") or {}).get("devices") or []


# --- what gates cover ------------------------------------------------------------------------------------


def _pop(holders: Iterable[Body], *names: str) -> None:
    for holder in holders:
        for name in names:
            holder.pop(name, None)


def _has(holders: Iterable[Body], *names: str) -> bool:
    return any(holder.get(name) not in (None, [], {}) for holder in holders for name in names)


def _drop_capacity(body: Body) -> None:
    _pop(_devices(body), "allowMultipleAllocations")
    for device in _devices(body):
        for capacity in (device.get("capacity") or {}).values():
            capacity.pop("requestPolicy", None)
    _pop(_constraints(body), "distinctAttribute")
    _pop(_all_exacts(body), "capacity")
    _pop(results(body), "shareID", "consumedCapacity")
    _pop(_statuses(body), "shareID")


def _uses_capacity(body: Mapping[str, Any]) -> bool:
    capacities = [c for device in _devices(body) for c in (device.get("capacity") or {}).values()]
    return (
        _has(_devices(body), "allowMultipleAllocations")
        or _has(capacities, "requestPolicy")
        or _has(_constraints(body), "distinctAttribute")
        or _has(_all_exacts(body), "capacity")
        or _has(results(body), "shareID", "consumedCapacity")
        or _has(_statuses(body), "shareID")
    )


def _constraints(body: Mapping[str, Any]) -> list[Body]:
    return (_claim_spec(body).get("devices") or {}).get("constraints") or []


def _statuses(body: Mapping[str, Any]) -> list[Body]:
    return (body.get("status") or {}).get("devices") or [] if body.get("kind") == "ResourceClaim" else []


def _claim_status(body: Mapping[str, Any]) -> list[Body]:
    return [body["status"]] if body.get("kind") == "ResourceClaim" and body.get("status") else []


def _slice_spec(body: Mapping[str, Any]) -> list[Body]:
    return [body["spec"]] if body.get("kind") == "ResourceSlice" and body.get("spec") else []


def _drop_partitions(body: Body) -> None:
    _pop(_slice_spec(body), "sharedCounters", "perDeviceNodeSelection")
    _pop(_devices(body), "consumesCounters", *_SELECTION)


def _uses_partitions(body: Mapping[str, Any]) -> bool:
    return _has(_slice_spec(body), "sharedCounters", "perDeviceNodeSelection") or _has(
        _devices(body), "consumesCounters", *_SELECTION
    )


def _drop_taints(body: Body) -> None:
    _pop(_devices(body), "taints")
    _pop(_all_exacts(body), "tolerations")


def _consumptions(body: Mapping[str, Any]) -> Iterator[Body]:
    for device in _devices(body):
        yield from device.get("consumesCounters") or ()


def _attributes(body: Mapping[str, Any]) -> Iterator[Body]:
    for device in _devices(body):
        yield from (device.get("attributes") or {}).values()


def _lists_given(body: Mapping[str, Any]) -> bool:
    return any(attribute.get(name) is not None for attribute in _attributes(body) for name in _LIST_VALUES)


def _class_spec(body: Mapping[str, Any]) -> list[Body]:
    return [body["spec"]] if body.get("kind") == "DeviceClass" and body.get("spec") else []


_Gated = tuple[tuple[str, ...], Callable[[Body], None], Callable[[Mapping[str, Any]], bool]]
_GATED: Final[tuple[_Gated, ...]] = (
    (
        ("DRAPrioritizedList",),
        lambda body: _pop(requests(body), "firstAvailable"),
        lambda old: _has(requests(old), "firstAvailable"),
    ),
    (
        ("DRADeviceTaints",),
        _drop_taints,
        lambda old: _has(_devices(old), "taints") or _has(_all_exacts(old), "tolerations"),
    ),
    (
        ("DRAAdminAccess",),
        lambda body: _pop(chain(_all_exacts(body), results(body)), "adminAccess"),
        lambda old: _has(_all_exacts(old), "adminAccess") or _has(results(old), "adminAccess"),
    ),
    (("DRAConsumableCapacity",), _drop_capacity, _uses_capacity),
    (
        ("DRADerivedAttributes",),
        lambda body: _pop(_all_exacts(body), "derivedAttributes"),
        lambda old: _has(_all_exacts(old), "derivedAttributes"),
    ),
    (("DRAPartitionableDevices",), _drop_partitions, _uses_partitions),
    (
        ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"),
        lambda body: _pop(_devices(body), *_BINDING, "bindsToNode"),
        lambda old: _has(_devices(old), *_BINDING, "bindsToNode"),
    ),
    (
        ("DRADeviceBindingConditions",),
        lambda body: _pop(results(body), *_BINDING),
        lambda old: any(result.get(name) is not None for result in results(old) for name in _BINDING),
    ),
    (
        ("DRADeviceCompatibilityGroups",),
        lambda body: _pop(_consumptions(body), "compatibilityGroups"),
        lambda old: _has(_consumptions(old), "compatibilityGroups"),
    ),
    (
        ("DRANodeAllocatableResources",),
        lambda body: _pop(_devices(body), "nodeAllocatableResources", "nodeAllocatableResourceMappings"),
        lambda old: _has(_devices(old), "nodeAllocatableResources"),
    ),
    (("DRAListTypeAttributes",), lambda body: _pop(_attributes(body), *_LIST_VALUES), _lists_given),
    (
        ("DRAPartitionableDevicesType",),
        lambda body: _pop(_slice_spec(body), "partitionTypeAttribute"),
        lambda old: _has(_slice_spec(old), "partitionTypeAttribute"),
    ),
    (
        ("DRAOptionalNodeOperations",),
        lambda body: _pop(chain(_slice_spec(body), results(body)), "skipNodeOperations"),
        lambda old: _has(_slice_spec(old), "skipNodeOperations") or _has(results(old), "skipNodeOperations"),
    ),
    (
        ("DRAExtendedResource",),
        lambda body: _pop(_class_spec(body), "extendedResourceName"),
        lambda old: any("extendedResourceName" in spec for spec in _class_spec(old)),
    ),
    (
        ("DRAResourceClaimDeviceStatus",),
        lambda body: _pop(_claim_status(body), "devices"),
        lambda old: bool(_statuses(old)),
    ),
)  # fmt: skip
"""Gates → what goes without them, and whether an object uses it."""


def _allocations(body: Mapping[str, Any]) -> list[Body]:
    return [a for status in _claim_status(body) if (a := status.get("allocation"))]


def _drop_capacity_1_34(body: Body) -> None:
    """1.34 forgot to drop ``distinctAttribute``."""
    kept = [constraint.get("distinctAttribute") for constraint in _constraints(body)]
    _drop_capacity(body)
    for constraint, attribute in zip(_constraints(body), kept, strict=True):
        if attribute is not None:
            constraint["distinctAttribute"] = attribute


def _drop_binding_1_34(body: Body) -> None:
    _pop(results(body), *_BINDING)
    _pop(_allocations(body), "allocationTimestamp")


_OF_1_34: Final[Mapping[tuple[str, ...], _Gated]] = {
    gates: (gates, covered, in_use)
    for gates, covered, in_use in (
        (
            ("DRADeviceTaints",),  # tolerations stay
            lambda body: _pop(_devices(body), "taints"),
            lambda old: _has(_devices(old), "taints"),
        ),
        (("DRAConsumableCapacity",), _drop_capacity_1_34, _uses_capacity),
        (
            ("DRADeviceBindingConditions",),
            _drop_binding_1_34,
            lambda old: _has(results(old), *_BINDING) or _has(_allocations(old), "allocationTimestamp"),
        ),
    )
}
_GATED_OF_1_34: Final[tuple[_Gated, ...]] = tuple(_OF_1_34.get(gated[0], gated) for gated in _GATED)
