"""What the planner may decide to do. Values only: ``plan`` makes them, ``Effects`` carries them out.

Each carries the objects as they were when it was decided; their resourceVersions and uids guard the writes,
so an action that has been overtaken fails with a conflict and is planned anew.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from baro.inventory.usage import DeviceKey
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import AllocationResult, DeviceTaintRule, ResourceClaim


class ClaimWrite(msgspec.Struct, frozen=True):
    """Allocates ``claim`` for the pod; with ``allocation=None`` only reserves what is allocated already."""

    claim: ResourceClaim
    allocation: AllocationResult | None


class Allocate(msgspec.Struct, frozen=True):
    """Write the allocations (with the pod's reservation in the same write) of all claims of a pod."""

    pod: Pod
    node: str
    writes: tuple[ClaimWrite, ...]
    reason: str


class Intend(msgspec.Struct, frozen=True):
    """Announce the allocations of a pod that has no gate any more; ``Allocate`` follows when no other claim
    turns out to hold the devices.
    """

    pod: Pod
    node: str
    writes: tuple[ClaimWrite, ...]
    reason: str


class Withdraw(msgspec.Struct, frozen=True):
    """Take an announcement back."""

    claim: ResourceClaim
    why: str


class Ungate(msgspec.Struct, frozen=True):
    """Nominate the node, remove the gate and say why. Of a pod that was placed anew when it had no gate any
    more: only say why.

    ``verify`` are claims that are to be read once more first, and must still be as they were planned.
    """

    pod: Pod
    node: str | None
    verify: tuple[ResourceClaim, ...]
    reason: str


class Nominate(msgspec.Struct, frozen=True):
    """Tell kube-scheduler which node a gated pod is for, so that it looks there first and keeps the room.
    An empty ``node``: for none.
    """

    pod: Pod
    node: str


class Release(msgspec.Struct, frozen=True):
    """Take back an allocation of baro's. With ``drop_finalizer`` the claim becomes as it was before.

    ``while_gated``: another claim holds the same device, and this one yields because these pods still have
    their gate. One that has lost it meanwhile has the better right.
    """

    claim: ResourceClaim
    why: str
    drop_finalizer: bool = False
    while_gated: tuple[Pod, ...] = ()


class DropFinalizer(msgspec.Struct, frozen=True):
    """Second half of a release that was interrupted."""

    claim: ResourceClaim


class Shield(msgspec.Struct, frozen=True):
    """Keep kube-scheduler off a device that two claims hold, before one of them gives it back."""

    device: DeviceKey
    why: str


class Unshield(msgspec.Struct, frozen=True):
    """Nobody holds the device any more: let it be allocated again."""

    rule: DeviceTaintRule


class Explain(msgspec.Struct, frozen=True):
    """Tell the pod's owner why it waits."""

    pod: Pod
    reason: str
    message: str
    type: str = "Warning"


class Wait(msgspec.Struct, frozen=True):
    """Nothing to write yet: look again after that time, even without news.

    ``for_scheduler``: kube-scheduler goes first, rather than that something is missing.
    """

    seconds: float
    for_scheduler: bool = False


Action: TypeAlias = (
    Allocate
    | Intend
    | Withdraw
    | Ungate
    | Nominate
    | Release
    | DropFinalizer
    | Shield
    | Unshield
    | Explain
    | Wait
)
