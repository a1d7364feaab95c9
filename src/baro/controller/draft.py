"""One round of planning under way: the view, and what the round has decided already.

Devices and room that an earlier decision of the round takes are counted in the view's inventory and rooms
until ``undo``, so that the next decision sees them. What pods and gangs have in common is here; who goes
where, and when, is decided in ``solo`` and ``gang_plan``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from baro.controller import pods
from baro.controller.actions import Action, Allocate, ClaimWrite, Intend, Release, Wait, Withdraw
from baro.controller.indexes import Key
from baro.controller.marks import allocated, counted, intent, marked, moment_of, ours, reserved_for
from baro.controller.placer import Choice, Placer
from baro.controller.terms import Memory, Settings
from baro.controller.view import View, key_of
from baro.kube.events import rfc3339
from baro.model.errors import BaroError
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from baro.model.names import REASON_ANNOTATION

Claims = tuple[ResourceClaim, ...]


class Draft:
    """The view must not change between the first decision and ``undo``."""

    def __init__(self, view: View, now: datetime, placer: Placer, settings: Settings, memory: Memory) -> None:
        self.view = view
        self.now = now
        self.placer = placer
        self.settings = settings
        self.memory = memory
        self.busy: set[Key] = set()
        """Claims that the round writes, or that are contested: nobody builds on them. Only grows."""
        self._tried: dict[Key, ResourceClaim] = {}
        """Claims that the inventory counts otherwise than the view, while this round thinks."""
        self._seated: list[Pod] = []
        """Pods that the rooms count where this round sends them."""

    # --- questions -----------------------------------------------------------------------------------------

    def claims(self, pod: Pod) -> tuple[Claims, str]:
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

    def unsettled(self, claims: Claims) -> bool:
        """Whether one is about to be written, or written and not confirmed yet: a later round sees it."""
        keys = {key_of(claim) for claim in claims}
        return bool(keys & (self.view.pending.keys() | self.busy))

    def age(self, pod: Pod) -> float:
        """Seconds since the pod was created."""
        since = moment_of(pod.metadata.creation_timestamp)
        return 0.0 if since is None else (self.now - since).total_seconds()

    def deference(self, pod: Pod, quiet_s: float) -> Wait | None:
        """What to wait for when kube-scheduler, quiet for ``quiet_s``, is to go first."""
        if quiet_s < self.settings.quiet_s and self.age(pod) < self.settings.deference_s:
            return Wait(self.settings.quiet_s - quiet_s, for_scheduler=True)
        return None

    def choose(self, pod: Pod, claims: Claims) -> tuple[Choice, Mapping[str, int]]:
        """Node and devices for the unallocated claims, beside those that are allocated already; and how many
        nodes were left out, by reason.
        """
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

    # --- decisions -----------------------------------------------------------------------------------------

    def allocate(self, pod: Pod, claims: Claims, choice: Choice) -> Action:
        """The action that gives the pod its node and devices; from now on the round counts them as taken."""
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
        self.count(after)
        node = choice.node or ""
        self.seat(pod, node)
        # Without a gate kube-scheduler binds as soon as the status is written: nothing could be verified.
        # A claim that baro wrote before may mean that the gate is gone already, and only not heard of.
        first = pods.gated(pod) and not any(marked(write.claim) for write in writes if write.allocation)
        kind = Allocate if first else Intend
        return kind(pod, node, tuple(writes), choice.reason)

    def count(self, claims: Iterable[ResourceClaim]) -> None:
        """Let the inventory count these claims as they would be, until the round ends."""
        for claim in claims:
            self._tried[key_of(claim)] = claim
            self.view.inventory.hold_claim(claim)

    def seat(self, pod: Pod, node: str) -> None:
        """Let the rooms count the pod on that node, until the round ends."""
        self._seated.append(pod)
        self.view.rooms.count(pod.metadata.uid, node, self.view.requests(pod))

    def undo(self) -> None:
        """The end of the round: the view counts again what is, not what was decided."""
        for key, claim in self._tried.items():
            self.view.inventory.hold_claim(counted(self.view.all(ResourceClaim).get(key, claim)))
        for pod in self._seated:
            self.view.seat(pod)


def ready(pod: Pod, claims: Claims) -> bool:
    """Whether all claims are allocated, and reserved for the pod."""
    return all(claim.status.allocation and reserved_for(claim, pod) for claim in claims)


def node_of(claims: Iterable[ResourceClaim]) -> str | None:
    """The node that the allocations name."""
    selectors = (claim.status.allocation.node_selector for claim in claims if claim.status.allocation)
    return next((node for selector in selectors if (node := pods.pinned(selector))), None)


def said(claims: Iterable[ResourceClaim]) -> str:
    """What was written on the claims when they were allocated; survives a restart in between."""
    texts = dict.fromkeys(
        claim.metadata.annotations[REASON_ANNOTATION]
        for claim in claims
        if (ours(claim) or intent(claim)) and REASON_ANNOTATION in claim.metadata.annotations
    )
    return "; ".join(texts) or "nothing to place: its claims were allocated already, or it has none"


def touched(action: Action) -> Iterator[Key]:
    """Claims that the action will write."""
    match action:
        case Allocate(writes=writes) | Intend(writes=writes):
            for write in writes:
                yield key_of(write.claim)
        case Release(claim=claim) | Withdraw(claim=claim):
            yield key_of(claim)
