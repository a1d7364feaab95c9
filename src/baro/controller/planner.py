"""The planner's decision: what to write next, from the picture of the cluster. No effects.

Level-triggered: every write leaves a state from which the next call goes on, so it does not matter whether
the process lives, was killed between any two writes, or another planner made the last one. A pod goes
through these states, all of them read from the API::

    gated, claims unallocated      → Allocate   (finalizer; allocation and reservation in one write)
    gated, all allocated, reserved → Ungate     (verified again, then gate off and reason written)
    gated, an allocation is bad    → Release    (node or device gone, taint, held twice), then as above
    ungated by us, not bound, claim unallocated (PostFilter took it) → Intend, then Allocate
    bound while its allocation was being taken back → the same, on its node only

Nothing is ungated before a watch has shown our own writes: whoever wrote the same device before us is then
in the picture, and whoever writes it later sees ours. A pod that has no gate any more is bound as soon as its
allocation stands, so that one is announced first, in an annotation, and confirmed in the same way. Of two
claims that hold one device the later one yields (see ``conflicts``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec

from baro.controller import pods
from baro.controller.actions import (
    Action,
    Allocate,
    ClaimWrite,
    Explain,
    Intend,
    Nominate,
    Release,
    Ungate,
    Wait,
    Withdraw,
)
from baro.controller.conflicts import Conflicts
from baro.controller.gangs import Gang, GangKey, gang_from, gang_of
from baro.controller.indexes import Key
from baro.controller.leftovers import leftovers
from baro.controller.marks import (
    allocated,
    allocated_at,
    counted,
    intent,
    marked,
    moment_of,
    ours,
    reserved_for,
)
from baro.controller.placer import Choice, GangPlacer, Placer, with_policy
from baro.controller.view import View, key_of
from baro.inventory.taints import tolerated
from baro.inventory.usage import DeviceKey
from baro.kube.events import rfc3339
from baro.model.errors import BaroError
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from baro.model.names import REASON_ANNOTATION
from baro.placement.gang import GangMember, GangPlacement

MAX_CONSUMERS = 256
"""Limit of ``status.reservedFor``."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``namespace`` empty means all. Times in seconds."""

    namespace: str = ""
    orphan_grace_s: float = 60.0
    """How long an allocation without any consumer is left alone."""
    patience_s: float = 10.0
    """How long a pod may wait for its claim objects before that is said."""
    settle_s: float = 1.5
    """How old an allocation is before its pod is ungated, while kube-scheduler may be allocating as well. Its
    time has whole seconds, so this is half a second at least."""
    quiet_s: float = 1.0
    """For how long kube-scheduler must have been quiet before baro allocates, while it may be allocating."""
    deference_s: float = 10.0
    """A pod of this age no longer waits for that."""
    batch: int = 64
    """Pods placed in one round, so that writes start before a long queue is through."""


Quiet: TypeAlias = Callable[[tuple[ResourceClaim, ...]], float]
"""For how many seconds kube-scheduler has allocated nothing that claims could get; infinite: it cannot."""


class Memory(msgspec.Struct, frozen=True):
    """What the caller remembers and the API does not tell. Forgetting it costs time, never a wrong write."""

    skip: frozenset[str] = frozenset()
    """Uids of pods that are not to be placed now: backing off, or nothing changed since they did not fit."""
    barred: frozenset[str] = frozenset()
    """Uids of pods whose gate the server has just refused to take off."""
    quiet_s: Quiet = lambda claims: math.inf
    """What ``Rivals`` says of claims."""
    written: Mapping[str, str] = {}
    """Uid → resourceVersion of claims that this process has just allocated. One that still is at that version
    need not be read again before ungating."""


def plan(
    view: View, now: datetime, placer: Placer, settings: Settings, memory: Memory
) -> Generator[Action, None, None]:
    """The next writes, each as soon as it is decided. The view must not change before the iterator is used up
    or closed, and is then as it was before.
    """
    return _Round(view, now, placer, settings, memory).run()


class _Round:
    """One call of ``plan``: the view plus what this round has already decided."""

    def __init__(self, view: View, now: datetime, placer: Placer, settings: Settings, memory: Memory) -> None:
        self.view = view
        self.now = now
        self.placer = placer
        self.settings = settings
        self.memory = memory
        self.tried: dict[Key, ResourceClaim] = {}
        """Claims that the inventory counts otherwise than the view, while this round thinks."""
        self.seated: list[Pod] = []
        """Pods that the rooms count where this round sends them."""
        self.homeless: dict[GangKey, str] = {}
        """Gangs for which there is no place now, and why."""
        self.gangs: dict[GangKey, Gang] = {}
        self.complete: dict[GangKey, tuple[int, bool]] = {}
        """What ``_complete`` found of a gang, and how many claims were busy then: every member asks it."""

    def run(self) -> Generator[Action, None, None]:
        conflicts = Conflicts(self.view)
        busy: set[Key] = set()
        for action in conflicts.actions():
            yield action
        busy |= conflicts.contested
        placed = 0
        try:
            for pod in self.view.indexes.turns:
                if self.settings.namespace not in ("", pod.metadata.namespace):
                    continue
                for action in self._pod(pod, busy):
                    busy |= _touches(action)
                    placed += isinstance(action, Allocate | Intend)
                    yield action
                if placed >= self.settings.batch:
                    break
            grace_s, namespace = self.settings.orphan_grace_s, self.settings.namespace
            yield from leftovers(self.view, self.now, busy, grace_s=grace_s, namespace=namespace)
        finally:
            for key, claim in self.tried.items():
                self.view.inventory.hold_claim(counted(self.view.all(ResourceClaim).get(key, claim)))
            for pod in self.seated:
                self.view.seat(pod)

    # --- one pod -------------------------------------------------------------------------------------------

    def _pod(self, pod: Pod, busy: set[Key]) -> Iterator[Action]:
        claims, waits = self._claims(pod)
        if waits:
            early = self.settings.patience_s - self._age(pod)
            if pods.gated(pod):
                yield Explain(pod, "WaitingForClaims", waits) if early <= 0 else Wait(early)
            return
        keys = {key_of(claim) for claim in claims}
        if keys & (self.view.pending.keys() | busy):
            return  # about to be written, or written and not confirmed yet: a later round sees it
        bad = [(claim, why) for claim in claims if (why := self._bad(pod, claim))]
        if bad:
            for claim, why in bad:
                yield Release(claim, why)
            return
        if not pods.gated(pod) and all(claim.status.allocation for claim in claims):
            if pod.metadata.annotations.get(REASON_ANNOTATION) != _said(claims):
                yield Ungate(pod, None, claims, _said(claims))  # placed anew since: say so
            return  # the rest is kube-scheduler's
        if all(claim.status.allocation and reserved_for(claim, pod) for claim in claims):
            if pod.metadata.uid in self.memory.barred:
                return
            gang = self._gang(pod) if pods.gated(pod) else None
            if gang is not None and not self._complete(gang, busy):
                yield from self._hold_back(gang, claims)
                return
            early = self._unsettled(claims)
            yield self._ungate(pod, claims) if early <= 0 else Wait(early, for_scheduler=True)
        elif any(intent(claim) for claim in claims):
            yield from self._intended(pod, claims)
        elif pod.metadata.uid not in self.memory.skip:
            gang = self._gang(pod) if pods.gated(pod) else None
            if gang is not None:
                yield from self._place_gang(pod, gang, busy)
            else:
                yield from self._place(pod, claims)

    def _ungate(self, pod: Pod, claims: tuple[ResourceClaim, ...]) -> Ungate:
        """The claims are read once more, unless the watch has just shown them as this process wrote them."""
        node = next((node for claim in claims if (node := _node_of(claim))), None)
        verify = tuple(
            c for c in claims if self.memory.written.get(c.metadata.uid) != c.metadata.resource_version
        )
        if not math.isinf(self.memory.quiet_s(claims)):
            verify = claims
        return Ungate(pod, node, verify, _said(claims))

    def _unsettled(self, claims: tuple[ResourceClaim, ...]) -> float:
        """Seconds in which kube-scheduler may still show that it had decided on these devices before."""
        moments = [allocated_at(claim) for claim in claims if ours(claim)]
        ages = [(self.now - moment).total_seconds() for moment in moments if moment is not None]
        return (
            0.0 if not ages or math.isinf(self.memory.quiet_s(claims)) else self.settings.settle_s - min(ages)
        )

    def _claims(self, pod: Pod) -> tuple[tuple[ResourceClaim, ...], str]:
        """The claims of a pod, or why it must wait for them."""
        found: dict[Key, ResourceClaim] = {}
        namespace = pod.metadata.namespace
        for ref in pods.claim_refs(pod, self.view.owned(pod)):
            if not ref.needed:
                continue
            if ref.name is None:
                return (), f"waits for the claim of {ref.entry} to be made from its template"
            claim = self.view.find(ResourceClaim, namespace, ref.name)
            if claim is None:
                return (), f"waits for ResourceClaim {namespace}/{ref.name}, which does not exist"
            if ref.template is not None and not pods.owned_by(claim, pod):
                return (), f"waits: ResourceClaim {namespace}/{ref.name} was not made for this pod"
            if claim.metadata.deletion_timestamp and not reserved_for(claim, pod):
                return (), f"waits: ResourceClaim {namespace}/{ref.name} is being deleted"
            found[key_of(claim)] = claim
        return tuple(found.values()), ""

    def _place(self, pod: Pod, claims: tuple[ResourceClaim, ...]) -> Iterator[Action]:
        full = [c for c in claims if len(c.status.reserved_for) >= MAX_CONSUMERS and not reserved_for(c, pod)]
        if full:
            yield Explain(
                pod, "NoPlacement", f"{full[0].ref} has {MAX_CONSUMERS} consumers, the most there may be"
            )
            return
        quiet_s = self.memory.quiet_s(claims)
        if quiet_s < self.settings.quiet_s and self._age(pod) < self.settings.deference_s:
            yield Wait(self.settings.quiet_s - quiet_s, for_scheduler=True)
            return
        choice, excluded = self._choose(pod, claims)
        if choice.node is not None:
            yield self._allocate(pod, claims, choice)
            return
        # What an interrupted or overtaken write left of this pod's claims may be in its own way.
        own = [claim for claim in claims if self._only_for(claim, pod)]
        if own and len(own) < len(claims):
            afresh = tuple(allocated(claim, None) if claim in own else claim for claim in claims)
            self._count(afresh)
            again, _ = self._choose(pod, afresh)
            self._count(claims)
            if again.node is not None:
                for claim in own:
                    yield Release(claim, "the pod's other claims do not fit beside it")
                return
        if pods.gated(pod) and pod.status.nominated_node_name:
            yield Nominate(pod, "")  # left by a planner that was stopped just before the gate was off
        text = _no_fit(choice, excluded)
        if pod.spec.node_name:
            text = (
                f"bound to node {pod.spec.node_name}, where kube-scheduler gave its devices to another pod; "
                f"delete the pod to have it placed anew: {text}"
            )
        yield Explain(pod, "NoPlacement", text)

    # --- gangs ---------------------------------------------------------------------------------------------

    def _gang(self, pod: Pod) -> Gang | None:
        key = gang_of(pod)
        if key is None:
            return None
        if key not in self.gangs:
            self.gangs[key] = gang_from(key, self.view.indexes.gangs.get(key, {}).values())
        return self.gangs[key]

    def _has_place(self, pod: Pod, busy: set[Key]) -> bool:
        """The pod runs, is on its way, or has all it needs, as a watch has shown."""
        if not pods.gated(pod):
            return True
        claims, waits = self._claims(pod)
        keys = {key_of(claim) for claim in claims}
        if waits or keys & (self.view.pending.keys() | busy):
            return False
        return all(claim.status.allocation and reserved_for(claim, pod) for claim in claims)

    def _complete(self, gang: Gang, busy: set[Key]) -> bool:
        known = self.complete.get(gang.key)
        if known is None or known[0] != len(busy):  # busy only grows
            there = sum(self._has_place(member, busy) for member in gang.members)
            known = self.complete[gang.key] = (len(busy), gang.lacks is None and there >= gang.size)
        return known[1]

    def _hold_back(self, gang: Gang, claims: tuple[ResourceClaim, ...]) -> Iterator[Action]:
        """A member that has all it needs waits for the others, unless there are too few of them now."""
        if gang.lacks is not None:
            for claim in claims:
                if ours(claim):
                    yield Release(claim, gang.lacks)

    def _place_gang(self, pod: Pod, gang: Gang, busy: set[Key]) -> Iterator[Action]:
        """Every member that has no place yet, in one decision; what it holds goes back when there is none."""
        why = gang.lacks or self.homeless.get(gang.key)
        if why is not None:
            yield Explain(pod, "NoPlacement" if gang.lacks is None else "WaitingForGang", why)
            return
        asking: list[tuple[Pod, tuple[ResourceClaim, ...]]] = []
        settled: list[tuple[Pod, tuple[ResourceClaim, ...]]] = []
        for member in gang.members:
            claims, waits = self._claims(member)
            if pods.gated(member) and waits:
                yield Explain(pod, "WaitingForGang", f"pod {member.metadata.name} {waits}")
                return
            keys = {key_of(claim) for claim in claims}
            if keys & (self.view.pending.keys() | busy):
                return
            (settled if self._has_place(member, busy) else asking).append((member, claims))
        quiet_s = min(self.memory.quiet_s(claims) for _, claims in asking)
        if quiet_s < self.settings.quiet_s and self._age(pod) < self.settings.deference_s:
            yield Wait(self.settings.quiet_s - quiet_s, for_scheduler=True)
            return
        found = self._choose_gang(gang, asking, settled)
        if isinstance(found, str):
            self.homeless[gang.key] = found
            held = [(m, c) for m, claims in settled for c in claims if pods.gated(m) and self._only_for(c, m)]
            for _, claim in held:
                yield Release(claim, "the rest of its gang has no place")
            if not held:
                yield Explain(pod, "NoPlacement", found)
            return
        written: set[Key] = set()
        for seated in found.seated:
            member, claims = asking[seated.seat.member]
            keys = {key_of(claim) for claim in claims if claim.status.allocation is None}
            if keys & written:
                continue  # shares a claim with a member before: it reserves that when it is confirmed
            written |= keys
            yield self._allocate(member, claims, Choice(seated.node, seated.allocations, found.reasons[0]))

    def _choose_gang(
        self,
        gang: Gang,
        asking: Sequence[tuple[Pod, tuple[ResourceClaim, ...]]],
        settled: Sequence[tuple[Pod, tuple[ResourceClaim, ...]]],
    ) -> GangPlacement | str:
        """Where the members go, or why there is no place."""
        members = [
            GangMember(
                claims=tuple(claim for claim in claims if claim.status.allocation is None),
                pod=member,
                allocated=tuple(claim.status.allocation for claim in claims if claim.status.allocation),
            )
            for member, claims in asking
        ]
        beside = [member.spec.node_name or _node_of_all(claims) or "" for member, claims in settled]
        placer = self.placer if isinstance(self.placer, GangPlacer) else with_policy("topology")
        try:
            found = placer.gang(
                self.view.inventory,
                members,
                at_least=max(1, gang.size - len(settled)),
                beside=[node for node in beside if node],
                room=lambda node, some: self.view.rooms.takes(
                    node, [(p, self.view.requests(p)) for p in some]
                ),
            )
        except BaroError as error:
            return str(error)
        except Exception as error:
            # A bug of baro's that one gang's claims bring out must not keep all other pods waiting.
            return f"baro failed on this gang, please report it: {type(error).__name__}: {error}"
        return found if found.fits else f"gang {gang.key[1]}: " + "; ".join(found.reasons)

    def _choose(self, pod: Pod, claims: tuple[ResourceClaim, ...]) -> tuple[Choice, Mapping[str, int]]:
        """Node and devices for the unallocated claims, beside those that are allocated already."""
        fixed = [claim.status.allocation for claim in claims if claim.status.allocation]
        openings = self.view.openings(pod, fixed)
        excluded = openings.left_out
        wanted = [claim for claim in claims if claim.status.allocation is None]
        if not openings.count:
            return Choice(None, (), ""), excluded
        if not wanted:
            node = self.view.names(openings)[0]
            return Choice(node, (), f"on node {node}: shares what is allocated there"), excluded
        try:
            return self.placer(self.view.inventory, wanted, openings, pod), excluded
        except BaroError as error:  # a selector that does not compile, a class that is not there
            return Choice(None, (), str(error)), excluded
        except Exception as error:
            # A bug of baro's that one pod's claims bring out must not keep all other pods waiting.
            text = f"baro failed on these claims, please report it: {type(error).__name__}: {error}"
            return Choice(None, (), text), excluded

    def _intended(self, pod: Pod, claims: tuple[ResourceClaim, ...]) -> Iterator[Action]:
        """An announcement that a watch has confirmed, and nobody contests: write it. Else take it back."""
        meant = [(claim, intent(claim)) for claim in claims if claim.status.allocation is None]
        why = "the pod's placement is being backed off" if pod.metadata.uid in self.memory.skip else None
        for _, allocation in meant:
            why = why or ("it is incomplete" if allocation is None else self._unfit(allocation))
        fixed = [a for claim in claims if (a := claim.status.allocation or intent(claim))]
        nodes = self.view.names(self.view.openings(pod, fixed))
        if why or not nodes:
            for claim, allocation in meant:
                if allocation is not None:
                    yield Withdraw(claim, why or "its node no longer has room for the pod")
            return
        writes = [ClaimWrite(claim, allocation) for claim, allocation in meant]
        writes += [ClaimWrite(c, None) for c in claims if c.status.allocation and not reserved_for(c, pod)]
        self._seat(pod, nodes[0])
        yield Allocate(pod, nodes[0], tuple(writes), _said(claim for claim, _ in meant))

    def _allocate(self, pod: Pod, claims: tuple[ResourceClaim, ...], choice: Choice) -> Action:
        stamp = rfc3339(self.now)
        results = iter(choice.allocations)
        writes, after = [], []
        for claim in claims:
            if claim.status.allocation is None:
                allocation = msgspec.structs.replace(next(results), allocation_timestamp=stamp)
                writes.append(ClaimWrite(claim, allocation))
                after.append(allocated(claim, allocation))
            elif not reserved_for(claim, pod):
                writes.append(ClaimWrite(claim, None))
        self._count(after)
        node = choice.node or ""
        self._seat(pod, node)
        # Without a gate kube-scheduler binds as soon as the status is written: nothing could be verified.
        # A claim that baro wrote before may mean that the gate is gone already, and only not heard of.
        first = pods.gated(pod) and not any(marked(write.claim) for write in writes if write.allocation)
        kind = Allocate if first else Intend
        return kind(pod, node, tuple(writes), choice.reason)

    def _count(self, claims: Iterable[ResourceClaim]) -> None:
        """Let the inventory count these claims as they would be, until the round ends."""
        for claim in claims:
            self.tried[key_of(claim)] = claim
            self.view.inventory.hold_claim(claim)

    def _seat(self, pod: Pod, node: str) -> None:
        """Let the rooms count the pod on that node, until the round ends."""
        self.seated.append(pod)
        self.view.rooms.count(pod.metadata.uid, node, self.view.requests(pod))

    # --- is an allocation still good -----------------------------------------------------------------------

    def _bad(self, pod: Pod, claim: ResourceClaim) -> str | None:
        """Why an allocation of ours, for this unbound pod alone, must be taken back, or ``None``."""
        allocation = claim.status.allocation
        if allocation is None or not self._only_for(claim, pod):
            return None
        node = pods.pinned(allocation.node_selector)
        if pod.spec.node_name:  # bound while its allocation was being replaced: it starts there or nowhere
            return None if node in (None, pod.spec.node_name) else f"its pod went to {pod.spec.node_name}"
        if node is not None and self.view.find(Node, "", node) is None:
            return f"node {node} is gone"
        if not pods.gated(pod):
            return None  # kube-scheduler may be binding the pod at this moment
        why = self._unfit(allocation)
        if why is not None:
            return why
        if not self.view.openings(pod, [allocation]).count:
            return "its node no longer has room for the pod, or no longer takes it"
        return None

    def _unfit(self, allocation: AllocationResult) -> str | None:
        """A device that is not there any more, or that may not be used."""
        for result in allocation.devices.results:
            row = self.view.inventory.row(DeviceKey(result.driver, result.pool, result.device))
            if row is None:
                return f"device {result.driver}/{result.pool}/{result.device} is no longer published"
            if not tolerated(self.view.inventory.taints(row), result.tolerations):
                return f"device {result.driver}/{result.pool}/{result.device} is tainted"
        return None

    def _only_for(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Allocated by baro, and nobody but this pod consumes it."""
        return ours(claim) and all(c.uid == pod.metadata.uid for c in claim.status.reserved_for)

    def _age(self, pod: Pod) -> float:
        since = moment_of(pod.metadata.creation_timestamp)
        return 0.0 if since is None else (self.now - since).total_seconds()


def reservation(pod: Pod) -> ResourceClaimConsumerReference:
    """The entry of ``reservedFor`` for a live pod. A wrong uid would cost the claim its allocation."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def _node_of(claim: ResourceClaim) -> str | None:
    return pods.pinned(claim.status.allocation.node_selector) if claim.status.allocation else None


def _node_of_all(claims: Iterable[ResourceClaim]) -> str | None:
    return next((node for claim in claims if (node := _node_of(claim))), None)


def _touches(action: Action) -> set[Key]:
    """Claims that the action will write."""
    match action:
        case Allocate(writes=writes) | Intend(writes=writes):
            return {key_of(write.claim) for write in writes}
        case Release(claim=claim) | Withdraw(claim=claim):
            return {key_of(claim)}
    return set()


def _said(claims: Iterable[ResourceClaim]) -> str:
    """What was written on the claims when they were allocated; survives a restart in between."""
    texts = dict.fromkeys(
        claim.metadata.annotations[REASON_ANNOTATION]
        for claim in claims
        if (ours(claim) or intent(claim)) and REASON_ANNOTATION in claim.metadata.annotations
    )
    return "; ".join(texts) or "nothing to place: its claims were allocated already, or it has none"


def _no_fit(choice: Choice, excluded: Mapping[str, int]) -> str:
    others = [f"{count} node{'s' if count > 1 else ''} {why}" for why, count in sorted(excluded.items())]
    return "; ".join([text for text in (choice.reason, *others) if text]) or "the cluster has no nodes"
