"""How baro knows its own allocations again, also after a restart.

A claim's allocation is baro's when the annotation ``baro.dev/allocated-by`` holds the digest of its devices
and its time. An annotation alone would not do: after the claim was released, kube-scheduler may allocate it,
and baro must never take back what somebody else decided. Kubernetes 1.34 and 1.35 drop the time of an
allocation (feature gate DRADeviceBindingConditions): there the devices alone must do, and the annotation
keeps the time.

An *intent* is an allocation that baro has announced on a claim and not yet written to its status. It holds
its devices for every planner. Only pods without a gate need it: see ``planner``.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import msgspec

from baro.model.kinds.core import Pod
from baro.model.kinds.resource import (
    FINALIZER,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from baro.model.names import ALLOCATED_BY, INTENT


def mark(allocation: AllocationResult) -> str:
    """The annotation's value, ``baro-<digest>@<time>``, of what the API server keeps as it is."""
    return f"baro-{_digest(allocation)}@{allocation.allocation_timestamp or ''}"


def ours(claim: ResourceClaim) -> bool:
    """Whether the claim is allocated, and by baro."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    digest, _, stamp = claim.metadata.annotations.get(ALLOCATED_BY, "").partition("@")
    return digest == f"baro-{_digest(allocation)}" and allocation.allocation_timestamp in (None, stamp)


def allocated_at(claim: ResourceClaim) -> datetime | None:
    """When the claim was allocated; of baro's own allocations also when the API server keeps no time."""
    allocation = claim.status.allocation
    if allocation is None:
        return None
    noted = claim.metadata.annotations.get(ALLOCATED_BY, "").partition("@")[2] if ours(claim) else None
    return moment_of(allocation.allocation_timestamp or noted)


def _digest(allocation: AllocationResult) -> str:
    parts: list[str] = []
    for result in allocation.devices.results:
        parts += [result.request, result.driver, result.pool, result.device, result.share_id or ""]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def marked(claim: ResourceClaim) -> bool:
    """Whether baro once prepared this claim for an allocation and its finalizer is still there."""
    return ALLOCATED_BY in claim.metadata.annotations and FINALIZER in claim.metadata.finalizers


def reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim is reserved for this very pod."""
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


def reservation(pod: Pod) -> ResourceClaimConsumerReference:
    """The entry of ``reservedFor`` for a live pod. A wrong uid would cost the claim its allocation."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def intent(claim: ResourceClaim) -> AllocationResult | None:
    """What is announced for an unallocated claim. Counts only while the finalizer is there: whoever releases
    the claim for good removes it, and the intent with it.
    """
    text = claim.metadata.annotations.get(INTENT)
    if text is None or claim.status.allocation is not None or FINALIZER not in claim.metadata.finalizers:
        return None
    try:
        return msgspec.json.decode(text, type=AllocationResult)
    except msgspec.DecodeError:
        return None  # not written by baro


def announced(allocation: AllocationResult) -> str:
    """The annotation's value."""
    return msgspec.json.encode(allocation).decode()


def allocated(claim: ResourceClaim, allocation: AllocationResult | None) -> ResourceClaim:
    """The claim as it would be with that allocation. Without one it is reserved for nobody either."""
    reserved = claim.status.reserved_for if allocation is not None else ()
    status = msgspec.structs.replace(claim.status, allocation=allocation, reserved_for=reserved)
    return msgspec.structs.replace(claim, status=status)


def counted(claim: ResourceClaim) -> ResourceClaim:
    """The claim as the inventory counts it: an intent holds devices as an allocation does."""
    meant = intent(claim)
    return claim if meant is None else allocated(claim, meant)


def moment_of(text: str | None) -> datetime | None:
    """A timestamp of the API, ``None`` when there is none or it cannot be read."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
