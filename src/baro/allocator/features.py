"""Which optional parts of DRA are on, and which quirks of upstream are kept.

Names and defaults are Kubernetes 1.37.2's feature gates, read from a real server.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Policy(StrEnum):
    """How a set is chosen among those that satisfy the claims."""

    TOPOLOGY = "topology"
    """The best predicted bandwidth, then the least fragmentation."""
    FIRST_FIT = "first-fit"
    """Upstream's exact choice: the first set in pool, slice and device order."""


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates of the allocator, then switches for behaviour on which upstream is disputed.

    The defaults are those of 1.37. The switches:

    ``admin_blocks_later`` - a device picked with admin access is not given to a later request of the same
    pod. Upstream's choice is kept where it finds one; where it finds none, the pick does not block.
    ``forget_unpublished`` - free the counters of an allocated device that is no longer published
    (kubernetes#140802); off, since it hands out a partition twice.
    ``reject_inconsistent_pools`` - a pool whose slices disagree on ``resourceSliceCount`` is unusable;
    upstream does not look at it, so the default only reports it.
    ``all_on_incomplete_is_on_node`` - "all devices" of an incomplete pool fails only this node
    (kubernetes#141898) rather than the pod on every node; 1.37.2 still does the latter.
    """

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable: bool = True
    taints: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True
    fractional_capacity: bool = False
    list_attributes: bool = False

    admin_blocks_later: bool = True
    forget_unpublished: bool = False
    reject_inconsistent_pools: bool = False
    all_on_incomplete_is_on_node: bool = False

    @classmethod
    def from_gates(cls, gates: Iterable[str]) -> Features:
        """Only these gates on, named as Kubernetes names them; ``+`` joins gates that go together.

        Unknown gates are ignored, as they do not concern the allocator.
        """
        on = {part for gate in gates for part in gate.split("+")}
        return cls(**{field: gate in on for gate, field in _GATES.items()})


_GATES = {
    "DRAAdminAccess": "admin_access",
    "DRAPrioritizedList": "prioritized_list",
    "DRAPartitionableDevices": "partitionable",
    "DRADeviceTaints": "taints",
    "DRADeviceBindingConditions": "binding_conditions",
    "DRAConsumableCapacity": "consumable_capacity",
    "DRAFractionalCapacityRange": "fractional_capacity",
    "DRAListTypeAttributes": "list_attributes",
}

DEFAULT_1_37 = Features()
