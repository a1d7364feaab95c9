"""The next writes for one pod: to place it, to confirm an announcement, to take its gate off. No effects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from baro.controller import pods
from baro.controller.actions import (
    Action,
    Allocate,
    ClaimWrite,
    Explain,
    Nominate,
    Release,
    Ungate,
    Wait,
    Withdraw,
)
from baro.controller.draft import Claims, Draft, node_of, said
from baro.controller.marks import allocated, allocated_at, intent, ours, reserved_for
from baro.controller.placer import Choice
from baro.controller.rivals import Exposure
from baro.controller.soundness import only_for, unfit
from baro.model.kinds.core import Pod

MAX_CONSUMERS = 256
"""Limit of ``status.reservedFor``."""


def place(draft: Draft, pod: Pod, claims: Claims) -> Iterator[Action]:
    """Node and devices for a pod that has not all it needs, or why there are none."""
    full = [c for c in claims if len(c.status.reserved_for) >= MAX_CONSUMERS and not reserved_for(c, pod)]
    if full:
        text = f"{full[0].ref} has {MAX_CONSUMERS} consumers, the most there may be"
        yield Explain(pod, "NoPlacement", text)
        return
    wait = draft.deference(pod, draft.memory.quiet_s(claims))
    if wait is not None:
        yield wait
        return
    choice, excluded = draft.choose(pod, claims)
    if choice.node is not None:
        yield draft.allocate(pod, claims, choice)
        return
    # What an interrupted or overtaken write left of this pod's claims may be in its own way.
    own = [claim for claim in claims if only_for(claim, pod)]
    if own and len(own) < len(claims):
        afresh = tuple(allocated(claim, None) if claim in own else claim for claim in claims)
        draft.count(afresh)
        again, _ = draft.choose(pod, afresh)
        draft.count(claims)
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


def confirm(draft: Draft, pod: Pod, claims: Claims) -> Iterator[Action]:
    """An announcement that a watch has confirmed, and nobody contests: write it. Else take it back."""
    meant = [(claim, intent(claim)) for claim in claims if claim.status.allocation is None]
    why = "the pod's placement is being backed off" if pod.metadata.uid in draft.memory.skip else None
    for _, allocation in meant:
        why = why or ("it is incomplete" if allocation is None else unfit(draft.view, allocation))
    fixed = [a for claim in claims if (a := claim.status.allocation or intent(claim))]
    nodes = draft.view.names(draft.view.openings(pod, fixed))
    if why or not nodes:
        for claim, allocation in meant:
            if allocation is not None:
                yield Withdraw(claim, why or "its node no longer has room for the pod")
        return
    writes = [ClaimWrite(claim, allocation) for claim, allocation in meant]
    writes += [ClaimWrite(c, None) for c in claims if c.status.allocation and not reserved_for(c, pod)]
    draft.seat(pod, nodes[0])
    yield Allocate(pod, nodes[0], tuple(writes), said(claim for claim, _ in meant))


def release_gate(draft: Draft, pod: Pod, claims: Claims) -> Action:
    """Takes the gate off, or waits while kube-scheduler may still show that it had decided on these devices
    before. The claims are read once more, unless the watch has just shown them as this process wrote them.
    """
    moments = [moment for claim in claims if ours(claim) and (moment := allocated_at(claim)) is not None]
    exposure = draft.memory.exposure(claims, max(moments)) if moments else Exposure.NONE
    if exposure is not Exposure.NONE:
        likely = exposure is Exposure.LIKELY
        stands_s = draft.settings.undecided_s if likely else draft.settings.settle_s
        early = stands_s - (draft.now - max(moments)).total_seconds()
        if early > 0:
            return Wait(early, for_scheduler=True)
        return Ungate(pod, node_of(claims), claims, said(claims))
    written = draft.memory.written
    verify = tuple(c for c in claims if written.get(c.metadata.uid) != c.metadata.resource_version)
    return Ungate(pod, node_of(claims), verify, said(claims))


def _no_fit(choice: Choice, excluded: Mapping[str, int]) -> str:
    others = [f"{count} node{'s' if count > 1 else ''} {why}" for why, count in sorted(excluded.items())]
    return "; ".join([text for text in (choice.reason, *others) if text]) or "the cluster has no nodes"
