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

Who is next, and what state it is in, is decided here; where one pod goes in ``solo``, where a gang goes in
``gang_plan``, what nobody will use any more in ``leftovers``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import datetime

from baro.controller import pods, solo
from baro.controller.actions import Action, Allocate, Explain, Intend, Release, Ungate, Wait
from baro.controller.conflicts import Conflicts
from baro.controller.draft import Claims, Draft, ready, said, touched
from baro.controller.gang_plan import GangPlan
from baro.controller.leftovers import leftovers
from baro.controller.marks import intent
from baro.controller.placer import Placer
from baro.controller.shields import missing, needed, superfluous
from baro.controller.soundness import bad
from baro.controller.terms import Memory, Settings
from baro.controller.view import View
from baro.model.kinds.core import Pod
from baro.model.names import REASON_ANNOTATION


def plan(
    view: View, now: datetime, placer: Placer, settings: Settings, memory: Memory
) -> Generator[Action, None, None]:
    """The next writes, each as soon as it is decided. The view must not change before the iterator is used up
    or closed, and is then as it was before.
    """
    return _Round(Draft(view, now, placer, settings, memory)).run()


class _Round:
    """One call of ``plan``: everybody's turn, in order."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._gangs = GangPlan(draft)

    def run(self) -> Generator[Action, None, None]:
        draft, settings = self._draft, self._draft.settings
        shielded = draft.memory.shields and needed(draft.view)
        conflicts = Conflicts(draft.view, shielded=shielded)
        for action in conflicts.actions():
            yield action
        if shielded:
            yield from missing(draft.view, sorted(draft.view.outlived), "another claim held it as well")
        draft.busy |= conflicts.contested
        placed = 0
        try:
            for pod in draft.view.indexes.turns:
                if settings.namespace not in ("", pod.metadata.namespace):
                    continue
                for action in self._pod(pod):
                    draft.busy.update(touched(action))
                    placed += isinstance(action, Allocate | Intend)
                    yield action
                if placed >= settings.batch:
                    break
            yield from superfluous(draft.view)
            yield from leftovers(
                draft.view,
                draft.now,
                draft.busy,
                grace_s=settings.orphan_grace_s,
                namespace=settings.namespace,
            )
        finally:
            draft.undo()

    def _pod(self, pod: Pod) -> Iterator[Action]:
        draft = self._draft
        claims, waits = draft.claims(pod)
        if waits:
            early = draft.settings.patience_s - draft.age(pod)
            if pods.gated(pod):
                yield Explain(pod, "WaitingForClaims", waits) if early <= 0 else Wait(early)
            return
        if draft.unsettled(claims):
            return
        unsound = [(claim, why) for claim in claims if (why := bad(draft.view, pod, claim))]
        if unsound:
            for claim, why in unsound:
                yield Release(claim, why)
        elif not pods.gated(pod) and all(claim.status.allocation for claim in claims):
            if pod.metadata.annotations.get(REASON_ANNOTATION) != said(claims):
                yield Ungate(pod, None, claims, said(claims))  # placed anew since: say so
            # the rest is kube-scheduler's
        elif ready(pod, claims):
            yield from self._ready(pod, claims)
        elif any(intent(claim) for claim in claims):
            yield from solo.confirm(draft, pod, claims)
        elif pod.metadata.uid not in draft.memory.skip:
            gang = self._gangs.of(pod)
            if gang is not None:
                yield from self._gangs.place(pod, gang)
            else:
                yield from solo.place(draft, pod, claims)

    def _ready(self, pod: Pod, claims: Claims) -> Iterator[Action]:
        """A pod that has all it needs and still has its gate."""
        if pod.metadata.uid in self._draft.memory.barred:
            return
        gang = self._gangs.of(pod)
        if gang is not None and not self._gangs.complete(gang):
            yield from self._gangs.hold_back(gang, claims)
        else:
            yield solo.release_gate(self._draft, pod, claims)
