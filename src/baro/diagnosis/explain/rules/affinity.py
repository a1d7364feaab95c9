"""Required affinity and anti-affinity between pods: the filter InterPodAffinity.

Three rules in this order: some domain of the pod's affinity has a pod that matches all terms (or nobody
matches anywhere and the pod itself does); none of its anti-affinity terms matches in the node's domain; and
no running pod's anti-affinity term matches the pod there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from baro.diagnosis.explain.rejection import Rejection
from baro.diagnosis.explain.result import Step
from baro.diagnosis.explain.rules.labels import is_empty, selects, shown
from baro.diagnosis.explain.rules.wire import Term, Wish
from baro.model.kinds.core import Node, Pod

if TYPE_CHECKING:
    from baro.diagnosis.explain.world import World

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
What = TypeVar("What")
Domain = tuple[str, str]
"""(label key, value)."""


class Affinity:
    """What one pod wants near, what it does not want near, and who does not want it near."""

    plugin = "InterPodAffinity"

    def __init__(self, world: World, pod: Pod, wish: Wish) -> None:
        self._world = world
        self._pod = pod
        self._wish = wish
        self._near: dict[Domain, str] = {}
        """Domains with a pod that matches all affinity terms → one of those pods."""
        self._unwanted: dict[Domain, tuple[str, Term]] = {}
        self._unwelcome: dict[Domain, tuple[str, Term]] = {}
        self.unknown: set[str] = set()
        """Namespaces whose labels a term asks for and that are not in the evidence."""
        self._scan()

    def _scan(self) -> None:
        wish, world = self._wish, self._world
        for name, node in world.inventory.nodes.items() if wish.affinity or wish.anti_affinity else ():
            labels = node.metadata.labels
            for pod in world.bound.get(name, ()):
                who = "/".join(world.key(pod))
                if wish.affinity and self._meets_all(wish.affinity, pod):
                    for term in wish.affinity:
                        _put(self._near, labels, term.topology_key, who)
                for term in wish.anti_affinity:
                    if self._matches(term, self._pod, pod):
                        _put(self._unwanted, labels, term.topology_key, (who, term))
        for pod, terms in world.anti_affine:
            runs_on = world.inventory.nodes.get(pod.spec.node_name)
            for term in terms if runs_on is not None else ():
                if runs_on is not None and self._matches(term, pod, self._pod):
                    by = ("/".join(world.key(pod)), term)
                    _put(self._unwelcome, runs_on.metadata.labels, term.topology_key, by)

    def _meets_all(self, terms: Iterable[Term], pod: Pod) -> bool:
        return all(self._matches(term, self._pod, pod) for term in terms)

    def _matches(self, term: Term, owner: Pod, other: Pod) -> bool:
        """Whether a term of ``owner`` means the pod ``other``."""
        if not selects(term.label_selector, other.metadata.labels):
            return False
        namespace = self._world.key(other)[0]
        if not term.namespaces and term.namespace_selector is None:
            return namespace == self._world.key(owner)[0]
        if namespace in term.namespaces or is_empty(term.namespace_selector):
            return True
        if term.namespace_selector is None:
            return False
        labels = self._world.namespace_labels.get(namespace)
        if labels is None:
            self.unknown.add(namespace)
            labels = {"kubernetes.io/metadata.name": namespace}
        return selects(term.namespace_selector, labels)

    def rejection(self, node: Node) -> Rejection | None:
        """The first of the three rules that the node does not meet."""
        return self._not_near(node) or self._too_near(node) or self._not_welcome(node)

    def _not_near(self, node: Node) -> Rejection | None:
        terms, labels = self._wish.affinity, node.metadata.labels
        missing = next((term.topology_key for term in terms if term.topology_key not in labels), None)
        met = all((term.topology_key, labels.get(term.topology_key, "")) in self._near for term in terms)
        if missing is None and (met or (not self._near and self._meets_all(terms, self._pod))):
            return None
        first = terms[0]
        wanted = " and ".join(dict.fromkeys(shown(term.label_selector) for term in terms))
        keys = ", ".join(dict.fromkeys(term.topology_key for term in terms))
        where = sorted({f"{key}={value} (pod {who})" for (key, value), who in self._near.items()})
        evidence = f"such pods are in {', '.join(where[:4])}" if where else "no such pod runs on any node"
        return Rejection(
            step=Step.NEAR,
            plugin=self.plugin,
            reason=f"has no label {missing}, by which the pod's affinity looks"
            if missing is not None
            else f"no pod with {wanted} in its {keys}, which the pod's affinity wants",
            key=f"affinity {first.topology_key}",
            scheduler=(AFFINITY,),
            evidence=(evidence,),
            lift="without the pod's affinity to other pods",
        )

    def _too_near(self, node: Node) -> Rejection | None:
        for term in self._wish.anti_affinity:
            found = self._unwanted.get((term.topology_key, node.metadata.labels.get(term.topology_key, "")))
            if found is not None and term.topology_key in node.metadata.labels:
                who, by = found
                domain = f"{term.topology_key}={node.metadata.labels[term.topology_key]}"
                return Rejection(
                    step=Step.NEAR,
                    plugin=self.plugin,
                    reason=f"a pod with {shown(by.label_selector)} is in its {term.topology_key},"
                    " which the pod's anti-affinity forbids",
                    key=f"anti-affinity {term.topology_key} {shown(by.label_selector)}",
                    scheduler=(ANTI_AFFINITY,),
                    evidence=(f"in {domain}: pod {who}",),
                    lift="without the pod's anti-affinity",
                )
        return None

    def _not_welcome(self, node: Node) -> Rejection | None:
        for domain in node.metadata.labels.items():
            if domain in self._unwelcome:
                who, term = self._unwelcome[domain]
                return Rejection(
                    step=Step.NEAR,
                    plugin=self.plugin,
                    reason=f"a pod in its {domain[0]} has an anti-affinity against this pod"
                    f" ({shown(term.label_selector)})",
                    key=f"existing {domain[0]} {shown(term.label_selector)}",
                    scheduler=(EXISTING,),
                    evidence=(f"in {domain[0]}={domain[1]}: pod {who}",),
                    lift="without the anti-affinity of pods that run there",
                )
        return None


def _put(found: dict[Domain, What], labels: Mapping[str, str], key: str, what: What) -> None:
    """The first that is found in a node's domain stands for all."""
    if key in labels:
        found.setdefault((key, labels[key]), what)
