"""What the server does to an object of ``resource.k8s.io`` before it validates.

That is: defaults, parts put back that a write may not touch, and fields of gates that are off.

The result is the object as it would be stored (and read back), apart from what only a store knows: UID,
times, resource version. Bodies are of v1 and decode; they are not changed, parts are shared.
Source: ``pkg/apis/resource/v1/defaults.go`` and the strategies in ``pkg/registry/resource`` of Kubernetes
1.37.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from baro.model.quantity import NANO, Quantity
from baro.model.validation.gates import Body, drop_disabled, exacts, is_resource, requests, results
from baro.model.validation.rules import Rules

_MILLI: Final = NANO // 1000
_SERVER_METADATA: Final = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink",
)  # fmt: skip


def prepare_create(body: Mapping[str, Any], rules: Rules) -> Body:
    """``body`` with defaults, without status, and without fields of gates that are off."""
    new = _copy(body)
    if is_resource(new) and new.get("kind") in ("ResourceClaim", "DeviceTaintRule"):
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
            keep(metadata, before, name)
    if subresource == "status":
        keep(new, old, "spec")
        kept: tuple[str, ...] = ()
        if is_resource(new):
            kept = ("labels", "annotations", "finalizers", "ownerReferences")
        elif new.get("kind") == "Pod":
            kept = ("ownerReferences",)
        for name in kept:
            keep(metadata, before, name)
    elif _has_status(new):
        keep(new, old, "status")
    deallocates = subresource == "status" and new.get("kind") == "ResourceClaim" and is_resource(new)
    dropped_first = rules.since("1.35")  # 1.34 compared devices by shares that it dropped afterwards
    if dropped_first:
        drop_disabled(new, old, rules)
    if deallocates:
        new.setdefault("status", {})
        drop_deallocated(new["status"], old.get("status", {}))
    if not dropped_first:
        drop_disabled(new, old, rules)
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


def _has_status(body: Mapping[str, Any]) -> bool:
    return body.get("kind") in ("ResourceClaim", "DeviceTaintRule", "Pod", "Node", "Namespace")


def keep(new: Body, old: Mapping[str, Any], name: str) -> None:
    """The field as it was: what a request says of it does not count."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


# --- defaults --------------------------------------------------------------------------------------------


def set_defaults(body: Body, version: str = "v1") -> None:
    """Fills in ``allocationMode``, ``count`` and toleration operators (the time of a taint is the server's).

    ``version`` is the request's: v1beta1 takes a request without a class as one with alternatives.
    """
    if not is_resource(body):
        return
    for request in requests(body):
        for exact in exacts(request):
            flat = version == "v1beta1" and exact is request.get("exactly")
            if flat and exact.get("tolerations") == []:
                del exact["tolerations"]  # converted item by item, so that no items are no list
            if not flat or exact.get("deviceClassName"):
                default_count(exact)
            _default_operators(exact)
    for result in results(body):
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
