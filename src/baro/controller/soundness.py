"""Whether an allocation of baro's is still good for its pod. Questions to a view, no effects."""

from __future__ import annotations

from baro.controller import pods
from baro.controller.marks import ours
from baro.controller.shields import TAINT
from baro.controller.view import View
from baro.inventory.taints import tolerated
from baro.inventory.usage import DeviceKey
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import AllocationResult, ResourceClaim


def bad(view: View, pod: Pod, claim: ResourceClaim) -> str | None:
    """Why an allocation of ours, for this unbound pod alone, must be taken back, or ``None``."""
    allocation = claim.status.allocation
    if allocation is None or not only_for(claim, pod):
        return None
    node = pods.pinned(allocation.node_selector)
    if pod.spec.node_name:  # bound while its allocation was being replaced: it starts there or nowhere
        return None if node in (None, pod.spec.node_name) else f"its pod went to {pod.spec.node_name}"
    if node is not None and view.find(Node, "", node) is None:
        return f"node {node} is gone"
    if not pods.gated(pod):
        return None  # kube-scheduler may be binding the pod at this moment
    why = unfit(view, allocation)
    if why is not None:
        return why
    if not view.openings(pod, [allocation]).count:
        return "its node no longer has room for the pod, or no longer takes it"
    return None


def unfit(view: View, allocation: AllocationResult) -> str | None:
    """A device that is not there any more, or that may not be used; ``None`` when all are well."""
    for result in allocation.devices.results:
        row = view.inventory.row(DeviceKey(result.driver, result.pool, result.device))
        if row is None:
            return f"device {result.driver}/{result.pool}/{result.device} is no longer published"
        taints = [taint for taint in view.inventory.taints(row) if taint.key != TAINT]
        if not tolerated(taints, result.tolerations):
            return f"device {result.driver}/{result.pool}/{result.device} is tainted"
    return None


def only_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Allocated by baro, and nobody but this pod consumes it."""
    return ours(claim) and all(c.uid == pod.metadata.uid for c in claim.status.reserved_for)
