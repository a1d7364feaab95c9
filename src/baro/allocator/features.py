"""Which optional parts of DRA are on, and which quirks of upstream are kept.

Names and defaults are Kubernetes' feature gates; which are on in which version is in one table,
``baro.model.validation.rules``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

KUBE_VERSIONS: Final = ("1.34", "1.35", "1.36", "1.37", "1.38")
"""Versions whose defaults can be selected. Those of 1.38 are inferred from 1.37, whose successor it is."""


class Policy(StrEnum):
    """How a set is chosen among those that satisfy the claims."""

    TOPOLOGY = "topology"
    """The best predicted bandwidth, then the least fragmentation."""
    FIRST_FIT = "first-fit"
    """Upstream's exact choice: the first set in pool, slice and device order."""
    BEST_EFFORT = "best-effort"
    """The choice of NVIDIA's device plugin (go-gpuallocator) among the GPUs of a node, for comparison."""


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates of the allocator, then the one switch for behaviour in which upstream is at fault.

    The defaults are those of 1.37. ``taint_rules`` is for whoever builds the inventory: without it, leave
    DeviceTaintRules out. ``compatibility`` keeps every open quirk of upstream 1.37.2, so that the answer is
    upstream's in all cases; without it, in each of these the answer is the one that the API promises:

    - A device picked with admin access is not given to a later normal request of the same pod. Off: where
      upstream's way finds nothing, the pick does not block.
    - "All devices" that a constraint rules out is an error at once, even where the next alternative of the
      request would fit. Off: an error only if nothing else fits.
    - Counters, and compatibility groups, of an allocated device that is no longer published are free
      (kubernetes#140802). Off: they stay taken, else a partition is handed out twice.
    - A capacity is found by the name as written, so a request for ``gpu.example.com/memory`` never finds a
      device of that driver which publishes ``memory``. Off: a name without a domain is in the driver's.
    - A device that claims share, published anew as one that cannot be shared, counts as free but for its
      capacities. Off: it is in use until all shares are gone.
    - A default of a capacity policy that is no valid value is accepted only when it is written alike.

    Kept in both, since the recorded answers of 1.37.2 demand it: admin access consumes counters
    (kubernetes#140729), a negative counter blocks its pool (#141216), slices of one generation that disagree
    on ``resourceSliceCount`` are not noticed (``Inventory.problems`` tells).

    ``all_on_incomplete_is_on_node`` is a change of behaviour after 1.37: "all devices" of an incomplete or
    invalid pool fails only this node (kubernetes#141898) rather than the pod on every node.
    """

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable: bool = True
    taints: bool = True
    taint_rules: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True
    fractional_capacity: bool = False
    list_attributes: bool = False
    derived_attributes: bool = False
    compatibility_groups: bool = False
    optional_node_operations: bool = False

    all_on_incomplete_is_on_node: bool = False
    compatibility: bool = False

    @property
    def alpha(self) -> bool:
        """Whether a feature is on that only upstream's experimental allocator has."""
        return (
            self.list_attributes
            or self.derived_attributes
            or self.compatibility_groups
            or self.optional_node_operations
        )

    @classmethod
    def from_gates(cls, gates: Iterable[str]) -> Features:
        """Only these gates on, named as Kubernetes names them; ``+`` joins gates that go together.

        Unknown gates are ignored, as they do not concern the allocator.
        """
        on = {part for gate in gates for part in gate.split("+")}
        return cls(**{field: gate in on for gate, field in _GATES.items()})

    @classmethod
    def of_version(cls, kube_version: str, changes: Mapping[str, bool] | None = None) -> Features:
        """Upstream's defaults in one of ``KUBE_VERSIONS``, with single gates turned on or off.

        Gates that a server has locked may be turned off too. Raises ``FeatureError`` for a version or gate
        that is not known.
        """
        if kube_version == "1.37" and not changes:
            return cls()
        if kube_version not in KUBE_VERSIONS:
            raise FeatureError(f"unknown version {kube_version!r}: one of {', '.join(KUBE_VERSIONS)}")
        from baro.model.validation import rules  # noqa: PLC0415 - costs more than the allocator itself

        known = rules.known_gates(kube_version)
        on = set(rules.default_gates(kube_version))
        for gate, wanted in (changes or {}).items():
            if gate not in known:
                raise FeatureError(f"{kube_version} has no gate {gate!r}: one of {', '.join(known)}")
            (on.add if wanted else on.discard)(gate)
        if _TAINT_RULES not in known and "DRADeviceTaints" in on:
            on.add(_TAINT_RULES)  # one gate for both in 1.34
        features = cls.from_gates(on)
        if kube_version == "1.38":
            return msgspec.structs.replace(features, all_on_incomplete_is_on_node=True)
        return features


class FeatureError(ValueError):
    """A gate or version that does not exist; the text lists those that do."""


def without_effect(gates: Iterable[str]) -> tuple[str, ...]:
    """Those of some gates that change nothing here: what they guard is not part of an allocation, or (node
    allocatable resources) not of this allocator."""
    return tuple(gate for gate in gates if gate not in _GATES)


_TAINT_RULES = "DRADeviceTaintRules"
_GATES = {
    "DRAAdminAccess": "admin_access",
    "DRAPrioritizedList": "prioritized_list",
    "DRAPartitionableDevices": "partitionable",
    "DRADeviceTaints": "taints",
    _TAINT_RULES: "taint_rules",
    "DRADeviceBindingConditions": "binding_conditions",
    "DRAConsumableCapacity": "consumable_capacity",
    "DRAFractionalCapacityRange": "fractional_capacity",
    "DRAListTypeAttributes": "list_attributes",
    "DRADerivedAttributes": "derived_attributes",
    "DRADeviceCompatibilityGroups": "compatibility_groups",
    "DRAOptionalNodeOperations": "optional_node_operations",
}

DEFAULT_1_37 = Features()
