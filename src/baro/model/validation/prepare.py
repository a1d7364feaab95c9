"""What the server does to an object of ``resource.k8s.io`` before it validates.

That is: defaults, parts put back that a write may not touch, and fields of gates that are off.

The result is the object as it would be stored (and read back), apart from what only a store knows: UID,
times, resource version. Bodies are of v1 and decode; they are not changed, parts are shared.
Source: ``pkg/apis/resource/v1/defaults.go`` and the strategies in ``pkg/registry/resource`` of Kubernetes
1.37.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from baro.model.quantity import NANO, Quantity
from baro.model.validation.rules import Rules

Body = dict[str, Any]

_MILLI: Final = NANO // 1000
_GROUP: Final = "resource.k8s.io/"
_LIST_VALUES: Final = ("ints", "bools", "strings", "versions")
_SELECTION: Final = ("nodeName", "nodeSelector", "allNodes")
_BINDING: Final = ("bindingConditions", "bindingFailureConditions")
_SERVER_METADATA: Final = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink",
)  # fmt: skip


def prepare_create(body: Mapping[str, Any], rules: Rules) -> Body:
    """``body`` with defaults, without status, and without fields of gates that are off."""
    new = _copy(body)
    if _is_resource(new) and new.get("kind") in ("ResourceClaim", "DeviceTaintRule"):
        new.pop("status", None)
    set_defaults(new, rules.version)
    drop_disabled(new, None, rules)
    _drop_repeated_owners(new)
    _round_resources(new)
    return new


def prepare_update(body: Mapping[str, Any], old: Mapping[str, Any], rules: Rules, subresource: str) -> Body:
    """``body`` with what this write may not touch put back from ``old``."""
    new = _copy(body)
    set_defaults(new, rules.version)
    _drop_repeated_owners(new)
    _round_resources(new)
    metadata, before = new.setdefault("metadata", {}), old.get("metadata", {})
    for name in _SERVER_METADATA:
        if name != "uid" or not metadata.get("uid"):
            _keep(metadata, before, name)
    if subresource == "status":
        _keep(new, old, "spec")
        if _is_resource(new):
            for name in ("labels", "annotations", "finalizers", "ownerReferences"):
                _keep(metadata, before, name)
    elif _has_status(new):
        _keep(new, old, "status")
    drop_disabled(new, old, rules)
    if subresource == "status" and new.get("kind") == "ResourceClaim" and _is_resource(new):
        new.setdefault("status", {})
        drop_deallocated(new["status"], old.get("status", {}))
    return new


def stored(body: Mapping[str, Any]) -> Body:
    """``body`` as it comes out of a store: with defaults, which a recorded or hand-made one may lack."""
    found = _copy(body)
    set_defaults(found)
    return found


def as_created(body: Mapping[str, Any], rules: Rules) -> Body:
    """``body`` as a server stores what somebody created there: without what its gates cover that are off."""
    created = _copy({name: value for name, value in body.items() if name != "status"})
    drop_disabled(created, None, rules)
    found = {**created, "status": copy.deepcopy(body["status"])} if "status" in body else dict(created)
    drop_disabled(found, created, rules)  # the status comes with a second write
    return found


def _drop_repeated_owners(body: Body) -> None:
    """Of equal owner references the server keeps the first (and warns)."""
    metadata = body.get("metadata") or {}
    kept: list[Body] = []
    told: list[Body] = []
    for owner in metadata.get("ownerReferences") or ():
        plain = {field: value for field, value in owner.items() if value is not None and value != ""}
        if plain not in told:
            told.append(plain)
            kept.append(owner)
    if kept:
        metadata["ownerReferences"] = kept


def _round_resources(body: Body) -> None:
    """Amounts of a node are kept in thousandths, rounded up."""
    if (body.get("apiVersion"), body.get("kind")) != ("v1", "Node"):
        return
    for field in ("capacity", "allocatable"):
        amounts = (body.get("status") or {}).get(field) or {}
        for name, raw in amounts.items():
            quantity = Quantity.parse(raw)
            if quantity.scaled % _MILLI:
                amounts[name] = str(Quantity.from_scaled(quantity.milli_value() * _MILLI, quantity.format))


def _copy(body: Mapping[str, Any]) -> Body:
    new: Body = copy.deepcopy(dict(body))
    return new


def _is_resource(body: Mapping[str, Any]) -> bool:
    return str(body.get("apiVersion", "")).startswith(_GROUP)


def _has_status(body: Mapping[str, Any]) -> bool:
    return body.get("kind") in ("ResourceClaim", "DeviceTaintRule", "Pod", "Node", "Namespace")


def _keep(new: Body, old: Mapping[str, Any], name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


# --- defaults --------------------------------------------------------------------------------------------


def set_defaults(body: Body, version: str = "v1") -> None:
    """Fills in ``allocationMode``, ``count`` and toleration operators (the time of a taint is the server's).

    ``version`` is the request's: v1beta1 takes a request without a class as one with alternatives.
    """
    if not _is_resource(body):
        return
    for request in _requests(body):
        for exact in _exacts(request):
            flat = version == "v1beta1" and exact is request.get("exactly")
            if flat and exact.get("tolerations") == []:
                del exact["tolerations"]  # converted item by item, so that no items are no list
            if not flat or exact.get("deviceClassName"):
                default_count(exact)
            _default_operators(exact)
    for result in _results(body):
        _default_operators(result)


def default_count(exact: Body) -> None:
    """Allocation mode and count of a request as the server fills them in, in place."""
    if not exact.get("allocationMode"):
        exact["allocationMode"] = "ExactCount"
    if exact["allocationMode"] == "ExactCount" and not exact.get("count"):
        exact["count"] = 1
    elif not exact.get("count"):
        exact.pop("count", None)


def _default_operators(holder: Body) -> None:
    for toleration in holder.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


def _claim_spec(body: Mapping[str, Any]) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = body.get("spec") or {}
    if body.get("kind") == "ResourceClaimTemplate":
        spec = spec.get("spec") or {}
    return spec if body.get("kind") in ("ResourceClaim", "ResourceClaimTemplate") else {}


def _requests(body: Mapping[str, Any]) -> list[Body]:
    return (_claim_spec(body).get("devices") or {}).get("requests") or []


def _exacts(request: Mapping[str, Any]) -> Iterator[Body]:
    if request.get("exactly") is not None:
        yield request["exactly"]
    yield from request.get("firstAvailable") or ()


def _all_exacts(body: Mapping[str, Any]) -> Iterator[Body]:
    for request in _requests(body):
        yield from _exacts(request)


def _results(body: Mapping[str, Any]) -> list[Body]:
    if body.get("kind") != "ResourceClaim":
        return []
    allocation = (body.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def _devices(body: Mapping[str, Any]) -> list[Body]:
    if body.get("kind") != "ResourceSlice":
        return []
    return (body.get("spec") or {}).get("devices") or []


# --- fields of gates that are off ------------------------------------------------------------------------


def drop_disabled(new: Body, old: Mapping[str, Any] | None, rules: Rules) -> None:
    """Takes out of ``new`` what a gate covers that is off, unless ``old`` uses it already."""
    if not _is_resource(new):
        return
    gated = _GATED if rules.since("1.35") else _GATED_OF_1_34
    for gates, covered, in_use in gated:
        if not all(rules.on(gate) for gate in gates) and (old is None or not in_use(old)):
            covered(new)


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
    _pop(_results(body), "shareID", "consumedCapacity")
    _pop(_statuses(body), "shareID")


def _uses_capacity(body: Mapping[str, Any]) -> bool:
    capacities = [c for device in _devices(body) for c in (device.get("capacity") or {}).values()]
    return (
        _has(_devices(body), "allowMultipleAllocations")
        or _has(capacities, "requestPolicy")
        or _has(_constraints(body), "distinctAttribute")
        or _has(_all_exacts(body), "capacity")
        or _has(_results(body), "shareID", "consumedCapacity")
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
        lambda body: _pop(_requests(body), "firstAvailable"),
        lambda old: _has(_requests(old), "firstAvailable"),
    ),
    (
        ("DRADeviceTaints",),
        _drop_taints,
        lambda old: _has(_devices(old), "taints") or _has(_all_exacts(old), "tolerations"),
    ),
    (
        ("DRAAdminAccess",),
        lambda body: _pop(chain(_all_exacts(body), _results(body)), "adminAccess"),
        lambda old: _has(_all_exacts(old), "adminAccess") or _has(_results(old), "adminAccess"),
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
        lambda body: _pop(_results(body), *_BINDING),
        lambda old: any(result.get(name) is not None for result in _results(old) for name in _BINDING),
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
        lambda body: _pop(chain(_slice_spec(body), _results(body)), "skipNodeOperations"),
        lambda old: _has(_slice_spec(old), "skipNodeOperations") or _has(_results(old), "skipNodeOperations"),
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
    _pop(_results(body), *_BINDING)
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
            lambda old: _has(_results(old), *_BINDING) or _has(_allocations(old), "allocationTimestamp"),
        ),
    )
}
_GATED_OF_1_34: Final[tuple[_Gated, ...]] = tuple(_OF_1_34.get(gated[0], gated) for gated in _GATED)


# --- deallocation ----------------------------------------------------------------------------------------


def identity(device: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Driver, pool, device and share of a result or a device status."""
    driver, pool, name, share = (
        str(device.get(field) or "") for field in ("driver", "pool", "device", "shareID")
    )
    return driver, pool, name, share


def drop_deallocated(status: Body, before: Mapping[str, Any]) -> None:
    """Device status goes with the devices that this write deallocates."""

    def allocated(of: Mapping[str, Any]) -> set[tuple[str, str, str, str]]:
        return {
            identity(result)
            for result in ((of.get("allocation") or {}).get("devices") or {}).get("results") or ()
        }

    gone = allocated(before) - allocated(status)
    kept = [device for device in status.get("devices") or () if identity(device) not in gone]
    if kept:
        status["devices"] = kept
    else:
        status.pop("devices", None)
