"""What ``allocate`` answers for one node."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from baro.inventory import DeviceKey
from baro.model.kinds.resource import AllocationResult


class Outcome(StrEnum):
    FIT = "fits"
    NO_FIT = "no-fit"
    ERROR = "error"
    """Upstream's error: a claim, class or device that cannot be judged."""
    GAVE_UP = "gave-up"
    """The work limit was reached. Never means that nothing fits."""


class Score(msgspec.Struct, frozen=True, kw_only=True, order=False):
    """How good the chosen set is; ``placement`` compares scores of nodes.

    ``preference``: chosen subrequest per prioritized request, 0 is the most wanted. ``gbps``: predicted
    GB/s of the slowest claim's set of two or more GPUs, ``None`` when unknown or when there is none.
    """

    preference: tuple[int, ...] = ()
    gbps: float | None = None
    rank: float = 0.0
    """As ``gbps``, with a lower bound where it is unknown: for comparing, never to print."""
    closeness: float = 0.0
    """GB/s (or ranks) summed over all pairs of GPUs of a claim, over all claims: tells sets of one bandwidth
    apart, such as two NVLink pairs from one pair and two single GPUs."""
    nic: int = 0
    """How far NICs lie from the GPUs: per NIC 0 the same PCIe switch, 1 root, 2 NUMA node, 3 farther."""
    loss: tuple[tuple[int, int], ...] = ()
    """(size, groups): how many disjoint well-connected groups of that many GPUs can no longer be placed."""
    free_after: int = 0
    """GPUs left free on the node."""


class NodeDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one node.

    ``error`` is upstream's text; with ``on_node`` it concerns only this node, otherwise the claims as such.
    ``reasons`` say in words why it fits as it does or why it does not fit.
    """

    node: str
    outcome: Outcome
    error: str | None = None
    on_node: bool = False
    allocations: tuple[AllocationResult, ...] = ()
    score: Score | None = None
    work: int = 0
    reasons: tuple[str, ...] = ()
    free_gpus: int = 0
    """GPUs of the node that were free and selected before the choice."""
    island: int = 0
    """The largest set of those that are all linked by NVLink; 0 when none or unknown."""

    @property
    def fits(self) -> bool:
        return self.outcome is Outcome.FIT

    @property
    def devices(self) -> tuple[DeviceKey, ...]:
        """All devices chosen, in order of claims and results."""
        return tuple(
            DeviceKey(result.driver, result.pool, result.device)
            for allocation in self.allocations
            for result in allocation.devices.results
        )
