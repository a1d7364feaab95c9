"""When kube-scheduler may be allocating devices itself, and for how long it has not done so.

It decides on devices from its own picture and writes the claim some time later. Until that write is seen, a
device may be promised twice although every claim looks right; and when baro then takes its own allocation
back, kube-scheduler, which keeps a plain set of allocated devices, holds the device for free. So baro lets it
go first. Only pods without gates, with claims of ordinary classes, bring this about: where there are none,
nobody has to wait.
"""

from __future__ import annotations

import math
from datetime import datetime

from baro.controller import pods
from baro.controller.view import View
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import DeviceClass, DeviceRequest, ResourceClaim


class Rivals:
    """Remembers when the pods that kube-scheduler could allocate for, or what is free, last changed."""

    def __init__(self) -> None:
        self._seen: tuple[frozenset[str], int] | None = None
        self._since: datetime | None = None

    def quiet_s(self, view: View, now: datetime) -> float:
        """Seconds without a change; infinite when no such pod waits."""
        uids = waiting(view)
        if not uids:
            self._seen = None
            return math.inf
        seen = (uids, view.generation)
        if self._since is None or seen != self._seen:
            self._seen, self._since = seen, now
        return (now - self._since).total_seconds()


def waiting(view: View) -> frozenset[str]:
    """Uids of pods whose claims kube-scheduler could allocate now. Unknown counts as yes."""
    found = (pod for pod in view.all(Pod).values() if _its_turn(pod))
    return frozenset(pod.metadata.uid for pod in found if _may_allocate(view, pod))


def _its_turn(pod: Pod) -> bool:
    waits = not pod.spec.node_name and not pod.spec.scheduling_gates and not pod.metadata.deletion_timestamp
    return waits and bool(pod.spec.resource_claims) and not pods.done(pod)


def _may_allocate(view: View, pod: Pod) -> bool:
    for ref in pods.claim_refs(pod, view.owned(pod)):
        if not ref.needed:
            continue
        claim = view.find(ResourceClaim, pod.metadata.namespace, ref.name) if ref.name else None
        if claim is None or (claim.status.allocation is None and not _hidden(view, claim)):
            return True
    return False


def _hidden(view: View, claim: ResourceClaim) -> bool:
    """Whether one of the claim's requests can only be met by classes that select nothing by themselves."""
    return any(
        all(_selects_nothing(view, name) for name in _classes(request))
        for request in claim.spec.devices.requests
    )


def _classes(request: DeviceRequest) -> list[str]:
    if request.exactly is not None:
        return [request.exactly.device_class_name]
    return [alternative.device_class_name for alternative in request.first_available]


def _selects_nothing(view: View, name: str) -> bool:
    found = view.find(DeviceClass, "", name)
    return found is None or any(
        s.cel is not None and s.cel.expression == "false" for s in found.spec.selectors
    )
