"""A pod of a gang: how many of the gang exist, whether they all fit at once, and what would let them.

Who belongs to a gang, and whether it fits, is placement's (``placement.gang``): the production search over
all its pods, with the room of nodes. A gang is one only for whoever places it: baro's planner for pods with
its gate, Kubernetes' PodGroups, other schedulers by their name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from baro.allocator import Policy
from baro.diagnosis.explain.result import Cause, Change, Miss, MissKind, Step, Verdict
from baro.diagnosis.explain.world import World
from baro.inventory import claim_name
from baro.model import pods
from baro.model.errors import InputError
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import DeviceRequestAllocationResult, ResourceClaim
from baro.model.names import GANG_LABEL, PLACEMENT_GATE
from baro.placement.gang import GangPlacement, place_gang
from baro.placement.gang.objects import Gang, key_of_gang
from baro.placement.gang.place import GANG_WORK
from baro.placement.requests import Claims, members

_MOST_NODES = 256
"""Nodes up to which it is tried whose release would let the gang in."""
_MOST_RELEASES = 24
_MOST_TOLD = 2
_TRIAL_WORK = 20_000
_DEFAULT_SCHEDULER = "default-scheduler"
_KUBERNETES = "scheduling.k8s.io"


class GangAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the gang as a whole comes to. ``causes`` are empty when it is not in the way."""

    causes: tuple[Cause, ...] = ()
    misses: tuple[Miss, ...] = ()
    notes: tuple[str, ...] = ()


def gang_answer(world: World, pod: Pod) -> GangAnswer | None:
    """The answer for the gang that the pod names; ``None`` for a pod of none."""
    key = key_of_gang(pod)
    if key is None:
        return None
    if not _effective(pod, key[0]):
        note = f"it names the gang {key[2]}, which has no effect: "
        if key[0] == GANG_LABEL:
            return GangAnswer(notes=(f"{note}the pod has no gate {PLACEMENT_GATE}",))
        return GangAnswer(notes=(f"{note}the pod is kube-scheduler's, and it knows no {key[0]}",))
    planner = pods.gated(pod)
    return world.once(("gang", *key, planner), lambda: _answer(world, key, planner=planner))


def with_gang(
    gang: GangAnswer, judged: tuple[Verdict, Step | None, tuple[Cause, ...]], *, alone: bool
) -> tuple[Verdict, Step | None, tuple[Cause, ...]]:
    """The judgement of the pod with that of its gang. Where the pod has a place by itself, or only the
    planner's gate is before it, the gang is what it waits for; else it comes last."""
    verdict, step, said = judged
    if not gang.causes or verdict not in (Verdict.FITS, Verdict.PENDING):
        return judged
    planner_only = step is Step.GATE and said[0].code == "pending-planner"
    if alone and (verdict is Verdict.FITS or planner_only):
        return Verdict.PENDING, Step.GANG, (*gang.causes, *said)
    return verdict, step, (*said, *gang.causes)


def _effective(pod: Pod, source: str) -> bool:
    """Whether somebody places the pod by its gang."""
    if source == GANG_LABEL or pods.gated(pod):
        return pods.gated(pod)
    return source == _KUBERNETES or pod.spec.scheduler_name not in ("", _DEFAULT_SCHEDULER)


def _answer(world: World, key: tuple[str, str, str], *, planner: bool) -> GangAnswer:
    mine = tuple(
        item
        for item in world.snapshot.pods
        if key_of_gang(item) == key and not pods.done(item) and not item.metadata.deletion_timestamp
    )
    try:
        gang = world.groups.gang(key, mine)
        if gang is None:
            return GangAnswer()
        found = _Asked(world, gang, planner=planner)
        return found.answer()
    except InputError as error:
        return GangAnswer(notes=(f"gang {key[1]}/{key[2]}: {error}",))


class _Asked:
    """One gang in one cluster."""

    def __init__(self, world: World, gang: Gang, *, planner: bool) -> None:
        self._world = world
        self._gang = gang
        self._policy = Policy.TOPOLOGY if planner else Policy.FIRST_FIT
        self._bound = tuple(pod.spec.node_name for pod in gang.pods if pod.spec.node_name)
        self._members = members(gang, Claims(world.snapshot.claims, world.evidence.templates, "the evidence"))
        self._needed = gang.at_least
        """Pods that must have a place, those that run included; ``None``: all."""

    def answer(self) -> GangAnswer:
        total, needed = len(self._gang.pods), self._needed
        if needed is not None and len(self._bound) >= needed:
            return GangAnswer(
                notes=(f"{self._gang.title} runs with {len(self._bound)} pods, and needs {needed}",)
            )
        if needed is not None and total < needed:
            return GangAnswer(causes=(self._too_few(total, needed),), notes=self._notes())
        found = self._place()
        if found.fits:
            return GangAnswer(notes=(f"{self._gang.title} would fit now: {found.reasons[0]}", *self._notes()))
        return GangAnswer(
            causes=(self._no_place(found),), misses=tuple(self._releases()), notes=self._notes()
        )

    def _notes(self) -> tuple[str, ...]:
        if self._gang.known:
            return ()
        return (
            f"{self._gang.title}: the object that describes it is not in the evidence; all pods are needed",
        )

    def _too_few(self, total: int, needed: int) -> Cause:
        waiting = [member.title for member in self._members]
        listed = ", ".join(waiting[:4]) + (f" and {len(waiting) - 4} more" if len(waiting) > 4 else "")
        return Cause(
            code="pending-gang",
            message=f"{self._gang.title} needs {needed} pods, and {total} exist",
            evidence=(f"{len(self._bound)} run, {len(waiting)} wait: {listed or 'none'}",),
            next=f"kubectl -n {self._gang.key[1]} get pods  (the job or set that makes the others)",
        )

    def _no_place(self, found: GangPlacement) -> Cause:
        total, least = len(self._members), self._least
        most = self._place(0)
        fits = len(most.seated) if most.fits else 0
        one = "pod" if least == 1 else "pods"
        where = f"; {fits} of them: {most.reasons[0]}" if fits and most.reasons else ""
        held = f"{len(self._bound)} run already; " if self._bound else ""
        gave_up = found.outcome.value == "gave-up"
        return Cause(
            code="pending-gang",
            message=f"{self._gang.title} needs a place for {least} {one} at once, "
            + (f"and none was found within the work limit ({fits} fit)" if gave_up else f"and {fits} fit"),
            evidence=(f"{held}{total} wait{where}", *found.reasons[:2]),
            next="baro place -o wide  (places the gang as the planner would)",
        )

    @property
    def _least(self) -> int:
        """How many of those that wait must have a place."""
        return len(self._members) if self._needed is None else max(0, self._needed - len(self._bound))

    def _place(self, at_least: int | None = None, work: int = GANG_WORK) -> GangPlacement:
        world = self._world
        if at_least is None:
            at_least = None if self._needed is None else self._least
        return place_gang(
            world.inventory,
            self._members,
            at_least=at_least,
            same=self._gang.same,
            beside=self._bound,
            room=self._room,
            policy=self._policy,
            features=world.options.features,
            selectors=world.engine,
            work_limit=work,
        )

    def _room(self, node: str, some: Sequence[Pod]) -> bool:
        """Whether the node has CPU, memory and the like for all of them at once."""
        found = self._world.inventory.nodes.get(node)
        if found is None or not found.status.allocatable:
            return True  # not known
        total = dict(self._world.used.get(node, {}))
        for pod in some:
            pods.add(total, self._world.asked(pod))
        return all(
            total.get(name, 0) <= (pods.scaled(raw) or 0) for name, raw in found.status.allocatable.items()
        )

    # --- whose release would do -----------------------------------------------------------------------------

    def _releases(self) -> Iterator[Miss]:
        """Single holders without which the whole gang has a place, those of most devices first."""
        world = self._world
        if len(world.inventory.node_names()) > _MOST_NODES:
            return
        own = {claim_name(claim) for member in self._members for claim in member.claims}
        holders = [
            (len(claim.status.allocation.devices.results), claim_name(claim), claim)
            for claim in world.snapshot.claims
            if claim.status.allocation is not None and claim_name(claim) not in own
        ]
        holders.sort(key=lambda item: (-item[0], item[1]))
        told = 0
        for _, name, claim in holders[:_MOST_RELEASES]:
            found = self._without(claim)
            if not found.fits:
                continue
            what = ", ".join(result.device for result in _results(claim)[:8])
            yield Miss(
                changes=(Change(kind=MissKind.GANG, claim=name),),
                text=f"{self._gang.title}: freeing {what} ({world.holder(name)}) would let all of it in",
                nodes=len(found.nodes),
                first=found.nodes[0] if found.nodes else "",
            )
            told += 1
            if told == _MOST_TOLD:
                return

    def _without(self, claim: ResourceClaim) -> GangPlacement:
        inventory = self._world.inventory
        inventory.release_claim(claim)
        try:
            return self._place(work=_TRIAL_WORK)
        finally:
            inventory.hold_claim(claim)


def _results(claim: ResourceClaim) -> Sequence[DeviceRequestAllocationResult]:
    return claim.status.allocation.devices.results if claim.status.allocation else ()
