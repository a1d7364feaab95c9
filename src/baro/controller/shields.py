"""Taint rules that keep kube-scheduler off a device which two claims hold.

kube-scheduler (1.34 to 1.37) keeps the allocated devices as a plain set. When one of two claims that hold a
device gives it back, the device leaves the set, although the other claim still holds it, and the next pod
without a gate gets it. So before baro takes back an allocation whose device another claim holds as well, it
taints the device with a ``DeviceTaintRule``, and it removes the rule when nobody holds the device any more:
from then on the set is right again. It does the same when the other claim was quicker to go. Kubernetes 1.37
serves these rules; older versions go without.

Which rules there are is in the API alone: any planner goes on where another was stopped. No effects here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from baro.controller.actions import Action, Shield, Unshield
from baro.controller.rivals import selects_nothing
from baro.controller.view import View, key_of
from baro.inventory.usage import DeviceKey
from baro.model.kinds.resource import DeviceClass, DeviceTaintRule
from baro.model.names import API_GROUP, FIELD_MANAGER

TAINT = f"{API_GROUP}/held-twice"
"""Key of the taint. It says nothing against the device itself, nor against who holds it already."""
_MANAGED_BY = "app.kubernetes.io/managed-by"


def body(device: DeviceKey, why: str) -> dict[str, Any]:
    """The rule for a device, by a name that every planner gives it."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {
            "name": _name(device),
            "labels": {_MANAGED_BY: FIELD_MANAGER},
            "annotations": {f"{API_GROUP}/why": why},
        },
        "spec": {
            "deviceSelector": {"driver": device.driver, "pool": device.pool, "device": device.device},
            "taint": {"key": TAINT, "effect": "NoSchedule"},
        },
    }


def needed(view: View) -> bool:
    """Whether there is any class from which kube-scheduler allocates."""
    return any(not selects_nothing(view, name) for _, name in view.all(DeviceClass))


def missing(view: View, devices: Iterable[DeviceKey], why: str) -> Iterator[Shield]:
    """What is to be written for devices that have no rule yet."""
    for device in devices:
        if ("", _name(device)) not in view.all(DeviceTaintRule):
            yield Shield(device, why)


def confirmed(view: View, devices: Iterable[DeviceKey]) -> bool:
    """Whether a watch has shown the rules of all of them: then kube-scheduler can know of them as well."""
    rules = view.all(DeviceTaintRule)
    keys = [("", _name(device)) for device in devices]
    return all(key in rules and key not in view.pending for key in keys)


def superfluous(view: View) -> Iterator[Action]:
    """Rules of baro's for devices that nobody holds any more."""
    for rule in view.all(DeviceTaintRule).values():
        device = _device(rule)
        if device is None or key_of(rule) in view.pending:
            continue
        if not view.inventory.usage.holders.get(device):
            yield Unshield(rule)


def _device(rule: DeviceTaintRule) -> DeviceKey | None:
    """The device of a rule that baro made, ``None`` for a rule of somebody else."""
    selector = rule.spec.device_selector
    if rule.spec.taint.key != TAINT or selector is None:
        return None
    if selector.driver is None or selector.pool is None or selector.device is None:
        return None
    device = DeviceKey(selector.driver, selector.pool, selector.device)
    return device if rule.metadata.name == _name(device) else None


def _name(device: DeviceKey) -> str:
    return f"baro-held-twice-{hashlib.sha256(str(device).encode()).hexdigest()[:16]}"
