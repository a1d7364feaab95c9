"""The planner's question to ``baro.placement``, and the answer in the planner's words.

A seam, so that the protocol of the planner is tested apart from the search for devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from baro.controller.rooms import Openings
from baro.inventory import Inventory
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import AllocationResult, ResourceClaim
from baro.placement import place
from baro.placement.gang import GangMember, GangPlacement, place_gang


class Choice(msgspec.Struct, frozen=True):
    """Where claims go. ``node`` is ``None`` when they fit nowhere, and ``reason`` says why.

    ``allocations`` are in the order of the claims that were asked for, without timestamps.
    """

    node: str | None
    allocations: tuple[AllocationResult, ...]
    reason: str


class Placer(Protocol):
    """Chooses node and devices for unallocated claims of one pod, given what is free now."""

    def __call__(
        self, inventory: Inventory, claims: Sequence[ResourceClaim], openings: Openings, pod: Pod
    ) -> Choice:
        """All claims on one of these nodes, or none. ``BaroError`` for claims that cannot be judged."""
        ...


@runtime_checkable
class GangPlacer(Protocol):
    """Chooses nodes and devices for all pods of a gang, or for none."""

    def gang(
        self,
        inventory: Inventory,
        members: Sequence[GangMember],
        *,
        at_least: int,
        beside: Sequence[str],
        room: Callable[[str, Sequence[Pod]], bool],
    ) -> GangPlacement:
        """At least so many of the members, near to the nodes ``beside``, where there is room."""
        ...


def with_policy(policy: str) -> WithPolicy:
    """``baro.placement`` with policy ``topology`` or ``first-fit``."""
    return WithPolicy(policy)


class WithPolicy:
    """``Placer`` and ``GangPlacer`` in one."""

    def __init__(self, policy: str) -> None:
        self._policy = policy

    def __call__(
        self, inventory: Inventory, claims: Sequence[ResourceClaim], openings: Openings, pod: Pod
    ) -> Choice:
        nodes, without = openings.nodes, openings.without
        found = place(inventory, claims, nodes=nodes, without=without, policy=self._policy, pod=pod)
        if found.fits:
            return Choice(found.node, found.allocations, found.reasons[0] if found.reasons else "")
        lines = list(found.reasons)
        if found.error and not any(found.error in line for line in lines):
            lines.insert(0, found.error)
        return Choice(None, (), "; ".join(lines) or "no node fits")

    def gang(
        self,
        inventory: Inventory,
        members: Sequence[GangMember],
        *,
        at_least: int,
        beside: Sequence[str],
        room: Callable[[str, Sequence[Pod]], bool],
    ) -> GangPlacement:
        return place_gang(
            inventory, members, at_least=at_least, beside=beside, room=room, policy=self._policy
        )
