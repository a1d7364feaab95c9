"""Topology spread constraints with ``DoNotSchedule``: the filter PodTopologySpread.

``skew = pods that match in the node's domain + the pod itself, if it matches, - the fewest in any domain``;
the fewest counts as 0 while there are fewer domains than ``minDomains``. Domains are those of nodes that have
all the keys of the pod's constraints and are let in by the policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from baro.diagnosis.explain.rejection import Rejection
from baro.diagnosis.explain.result import Step
from baro.diagnosis.explain.rules.labels import is_empty, selects
from baro.diagnosis.explain.rules.wire import LabelSelector, Spread, Wish
from baro.inventory.node_selection import NodeSelectorError, matches
from baro.inventory.taints import BLOCKING_EFFECTS, tolerates
from baro.model.kinds.core import Node, Pod

if TYPE_CHECKING:
    from baro.diagnosis.explain.world import World

WORD = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{WORD} (missing required label)"


class _Constraint(msgspec.Struct):
    """A constraint with its selector made whole, and the pods that match by domain."""

    wanted: Spread
    selector: LabelSelector | None
    own: int
    count: dict[str, int]

    @property
    def least(self) -> int:
        """The fewest in a domain, as the skew takes it."""
        enough = len(self.count) >= (self.wanted.min_domains or 1)
        return min(self.count.values()) if enough and self.count else 0


class Spreading:
    """The spread constraints of one pod."""

    plugin = "PodTopologySpread"

    def __init__(self, world: World, pod: Pod, wish: Wish) -> None:
        self._world = world
        self._pod = pod
        self._constraints = tuple(self._of(item) for item in wish.spread)
        if self._constraints:
            self._count()

    def _of(self, wanted: Spread) -> _Constraint:
        labels = self._pod.metadata.labels
        selector = wanted.label_selector
        keys = {key: labels[key] for key in wanted.match_label_keys if key in labels}
        if keys and selector is not None:
            merged = {**selector.match_labels, **keys}
            # The same key asked for with two values is met by nobody, as it is when both are requirements.
            clash = any(selector.match_labels.get(key, value) != value for key, value in keys.items())
            selector = None if clash else msgspec.structs.replace(selector, match_labels=merged)
        return _Constraint(wanted, selector, int(selects(selector, labels)), {})

    def _count(self) -> None:
        keys = {item.wanted.topology_key for item in self._constraints}
        for name, node in self._world.inventory.nodes.items():
            labels = node.metadata.labels
            if not keys <= labels.keys():
                continue
            for item in self._constraints:
                if self._counts(item.wanted, node):
                    value = labels[item.wanted.topology_key]
                    item.count[value] = item.count.get(value, 0) + self._matching(item, name)

    def _counts(self, wanted: Spread, node: Node) -> bool:
        """Whether the policies let the node into the calculation."""
        if wanted.node_affinity_policy == "Honor" and not _affine(self._pod, node):
            return False
        return wanted.node_taints_policy != "Honor" or all(
            taint.effect not in BLOCKING_EFFECTS
            or any(tolerates(toleration, taint) for toleration in self._pod.spec.tolerations)
            for taint in node.spec.taints
        )

    def _matching(self, item: _Constraint, node: str) -> int:
        if is_empty(item.selector):
            return 0
        namespace = self._world.key(self._pod)[0]
        return sum(
            not pod.metadata.deletion_timestamp
            and self._world.key(pod)[0] == namespace
            and selects(item.selector, pod.metadata.labels)
            for pod in self._world.bound.get(node, ())
        )

    def rejection(self, node: Node) -> Rejection | None:
        """The first constraint that the node does not meet."""
        labels: Mapping[str, str] = node.metadata.labels
        for item in self._constraints:
            key = item.wanted.topology_key
            if key not in labels:
                return self._rejected(item, f"has no label {key}, over which the pod is spread", NO_LABEL)
            here = item.count.get(labels[key], 0)
            skew = here + item.own - item.least
            if skew > item.wanted.max_skew:
                domain = f"{key}={labels[key]}"
                reason = f"one more pod there would be {skew} ahead of the emptiest {key}, maxSkew is"
                return self._rejected(item, f"{reason} {item.wanted.max_skew}", WORD, domain)
        return None

    def _rejected(self, item: _Constraint, reason: str, word: str, domain: str = "") -> Rejection:
        key = item.wanted.topology_key
        ordered = sorted(item.count.items(), key=lambda pair: (-pair[1], pair[0]))
        listed = ", ".join(f"{value} ({count})" for value, count in ordered[:6])
        more = f" and {len(ordered) - 6} more" if len(ordered) > 6 else ""
        evidence = [f"pods that match by {key}: {listed}{more}" if listed else f"no node counts for {key}"]
        if item.wanted.min_domains and len(item.count) < item.wanted.min_domains:
            least = f"{len(item.count)} of at least {item.wanted.min_domains} domains (minDomains)"
            evidence.append(f"{least}: the fewest counts as 0")
        if domain:
            evidence.insert(
                0, f"{domain} would have {item.count.get(domain.partition('=')[2], 0) + item.own}"
            )
        return Rejection(
            step=Step.SPREAD,
            plugin=self.plugin,
            reason=reason,
            key=key,
            scheduler=(word,),
            evidence=tuple(evidence),
            lift=f"without the pod's topology spread constraint on {key}",
        )


def _affine(pod: Pod, node: Node) -> bool:
    """nodeSelector and required node affinity; one that cannot be parsed matches no node."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None or affinity.required is None:
        return True
    try:
        return matches(affinity.required, node.metadata.name, labels)
    except NodeSelectorError:
        return False
