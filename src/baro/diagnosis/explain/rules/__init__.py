"""What kube-scheduler's filters beside devices, taints and room look at, for one pod: host ports, volumes,
topology spread, affinity between pods.

Each filter is computed once for the pod (``PreFilter``) and then asked node by node. Rules and words are
those of Kubernetes 1.37 (``pkg/scheduler/framework/plugins``: nodeports, volumerestrictions, volumebinding,
volumezone, podtopologyspread, interpodaffinity). The planner looks at none of this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from baro.diagnosis.explain.rejection import Rejection
from baro.diagnosis.explain.result import Cause, Step
from baro.diagnosis.explain.rules.affinity import Affinity
from baro.diagnosis.explain.rules.ports import Ports
from baro.diagnosis.explain.rules.spread import Spreading
from baro.diagnosis.explain.rules.volumes import Volumes
from baro.diagnosis.explain.rules.wire import NO_WISH
from baro.model.kinds.core import Node, Pod

if TYPE_CHECKING:
    from baro.diagnosis.explain.world import World

__all__ = ["Rules", "rules_of"]


class Rules:
    """The filters of one pod."""

    def __init__(self, world: World, pod: Pod) -> None:
        self._world = world
        self._pod = pod
        self._wish = world.wishes.of.get(world.key(pod), NO_WISH)

    @cached_property
    def _ports(self) -> Ports:
        return Ports(self._world, self._wish)

    @cached_property
    def _volumes(self) -> Volumes:
        return Volumes(self._world, self._pod, self._wish)

    @cached_property
    def _spread(self) -> Spreading:
        return Spreading(self._world, self._pod, self._wish)

    @cached_property
    def _affinity(self) -> Affinity:
        return Affinity(self._world, self._pod, self._wish)

    def before_room(self, node: Node, without: Collection[Step] = ()) -> Rejection | None:
        """The filters before NodeResourcesFit. ``without`` names those to leave out."""
        return None if Step.PORTS in without else self._ports.rejection(node)

    def after_room(self, node: Node, without: Collection[Step] = ()) -> Rejection | None:
        """The filters between NodeResourcesFit and DynamicResources."""
        if Step.VOLUMES not in without and (found := self._volumes.rejection(node)) is not None:
            return found
        if Step.SPREAD not in without and (found := self._spread.rejection(node)) is not None:
            return found
        return None if Step.NEAR in without else self._affinity.rejection(node)

    def stops(self) -> Iterator[tuple[Cause, str]]:
        """What stops the pod whatever the node is, with kube-scheduler's word for it."""
        return self._volumes.stops()

    @property
    def names(self) -> tuple[str, ...]:
        """What the pod asks for, in words: for whoever does not look at it."""
        wish = self._wish
        found = {
            "host ports": wish.ports,
            "volumes": wish.volumes,
            "topology spread": wish.spread,
            "affinity between pods": (*wish.affinity, *wish.anti_affinity),
        }
        return tuple(name for name, wanted in found.items() if wanted)

    def notes(self) -> Iterator[str]:
        """What could not be looked at, since the evidence does not have it."""
        yield from self._volumes.notes
        for namespace in sorted(self._affinity.unknown)[:4]:
            yield (
                f"the labels of namespace {namespace} are not in the evidence, and a namespaceSelector"
                " between pods asks for them"
            )
        if self._world.key(self._pod) in self._world.wishes.unreadable:
            yield "the pod's affinity, spread, ports and volumes cannot be read: a field has a wrong type"

    def covers(self, word: str) -> bool:
        """Whether a reason of kube-scheduler's is of a rule that was looked at with all that it needs."""
        if "free ports" in word:
            return bool(self._wish.ports)
        if "topology spread" in word:
            return bool(self._wish.spread)
        if "existing pods" in word:
            return bool(self._world.anti_affine) and not self._affinity.unknown
        if "affinity rules" in word:
            return bool(self._wish.affinity or self._wish.anti_affinity) and not self._affinity.unknown
        if "olume" in word or "pvc" in word or "node(s) did not have enough free storage" in word:
            modelled = "max volume count" not in word and "free storage" not in word
            return modelled and bool(self._wish.volumes) and self._volumes.known
        return False


def rules_of(world: World, pod: Pod) -> Rules:
    """The rules of a pod, computed once for each pod object, which they keep alive."""
    return world.once(("rules", id(pod)), lambda: Rules(world, pod))
