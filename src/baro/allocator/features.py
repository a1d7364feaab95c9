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


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates of the allocator, then switches for behaviour on which upstream is disputed.

    The defaults are those of 1.37. ``taint_rules`` is for whoever builds the inventory: without it, leave
    DeviceTaintRules out. The switches:

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
    taint_rules: bool = True
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
        return cls.from_gates(on)


class FeatureError(ValueError):
    """A gate or version that does not exist; the text lists those that do."""


def without_effect(gates: Iterable[str]) -> tuple[str, ...]:
    """Those of some gates that change nothing here: what they guard is not part of an allocation, or (derived
    attributes, compatibility groups, node allocatable resources) of this allocator."""
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
}

DEFAULT_1_37 = Features()
