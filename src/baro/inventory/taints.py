"""Device taints: rules merged into devices, and what tolerates what.

Source of the rules: ``resourceclaim/devicetoleration.go`` and ``resourceslice/tracker`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable

from baro.model.kinds.core import Taint, Toleration
from baro.model.kinds.resource import DeviceTaint, DeviceTaintRule, DeviceToleration

BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
"""Other effects (``None`` and any future one) never keep a device from being allocated."""


def rule_matches(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    """Whether a rule taints that device. A rule without selector taints nothing, an empty one everything."""
    selector = rule.spec.device_selector
    if selector is None:
        return False
    return (
        selector.driver in (None, driver)
        and selector.pool in (None, pool)
        and selector.device in (None, device)
    )


class RuleIndex:
    """Rules by the pool that they name, so that many rules cost a device only those that can match it."""

    def __init__(self, rules: Iterable[DeviceTaintRule]) -> None:
        self.rules = tuple(rules)
        self._general: list[int] = []
        """Positions of rules that name no single pool."""
        self._of_pool: dict[tuple[str, str], list[int]] = {}
        for position, rule in enumerate(self.rules):
            selector = rule.spec.device_selector
            if selector is None:
                continue
            if selector.driver is None or selector.pool is None:
                self._general.append(position)
            else:
                self._of_pool.setdefault((selector.driver, selector.pool), []).append(position)

    def taints(self, driver: str, pool: str, device: str) -> tuple[DeviceTaint, ...]:
        """The taints of the rules that match a device, in order of the rules."""
        own = self._of_pool.get((driver, pool))
        if own is None and not self._general:
            return ()
        positions = sorted([*(own or ()), *self._general])
        rules = (self.rules[position] for position in positions)
        return tuple(rule.spec.taint for rule in rules if rule_matches(rule, driver, pool, device))


def tolerates(toleration: DeviceToleration | Toleration, taint: DeviceTaint | Taint) -> bool:
    """The rules of node taints: an empty effect or key matches all, an empty operator is ``Equal``."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            # An empty key needs Exists, as validation demands.
            return bool(toleration.key) and toleration.value == taint.value
    return False


def tolerated(
    taints: Iterable[DeviceTaint | Taint], tolerations: tuple[DeviceToleration | Toleration, ...]
) -> bool:
    """Whether every blocking taint is tolerated."""
    return all(
        taint.effect not in BLOCKING_EFFECTS or any(tolerates(t, taint) for t in tolerations)
        for taint in taints
    )
