"""What the planner may decide to do. Values only: ``plan`` makes them, ``Effects`` carries them out.

Each carries the objects as they were when it was decided; their resourceVersions and uids guard the writes,
so an action that has been overtaken fails with a conflict and is planned anew.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from baro.model.kinds.core import Pod
from baro.model.kinds.resource import AllocationResult, ResourceClaim


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
    """Verify once more that the claims are as planned, then remove the gate and say why. Of a pod that was
    placed anew when it had no gate any more: only say why.
    """

    pod: Pod
    claims: tuple[ResourceClaim, ...]
    reason: str


class Release(msgspec.Struct, frozen=True):
    """Take back an allocation of baro's. With ``drop_finalizer`` the claim becomes as it was before.

    ``contested``: another claim holds the same device, and which one yields depends on the pods' gates.
    """

    claim: ResourceClaim
    why: str
    drop_finalizer: bool = False
    contested: bool = False


class DropFinalizer(msgspec.Struct, frozen=True):
    """Second half of a release that was interrupted."""

    claim: ResourceClaim


class Explain(msgspec.Struct, frozen=True):
    """Tell the pod's owner why it waits."""

    pod: Pod
    reason: str
    message: str
    type: str = "Warning"


class Wait(msgspec.Struct, frozen=True):
    """Nothing to write yet: look again after that time, even without news."""

    seconds: float


Action: TypeAlias = Allocate | Intend | Withdraw | Ungate | Release | DropFinalizer | Explain | Wait
