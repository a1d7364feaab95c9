"""Allocations of baro's that no pod will ever use, and finalizers that an interruption left.

Nobody else in Kubernetes collects either: the claim controller acts only when a last consumer goes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from baro.controller import pods
from baro.controller.actions import Action, DropFinalizer, Release, Wait
from baro.controller.indexes import Key
from baro.controller.marks import allocated_at, intent, marked, ours
from baro.controller.view import View
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim


def leftovers(
    view: View, now: datetime, busy: Collection[Key], *, grace_s: float, namespace: str
) -> Iterator[Action]:
    """What is to be cleaned up. ``busy`` are claims that this round writes; ``namespace`` empty is all."""
    wanted: set[Key] | None = None
    for key, claim in view.indexes.unused.items():
        if key in busy or key in view.pending:
            continue
        if namespace not in ("", claim.metadata.namespace):
            continue
        if claim.status.allocation is None and marked(claim) and intent(claim) is None:
            yield DropFinalizer(claim)  # also when a pod names it, which fits nowhere now
            continue
        if not ours(claim) and not intent(claim):
            continue
        wanted = wanted if wanted is not None else _referenced(view)
        if key in wanted:
            continue
        if claim.status.allocation is None:
            yield DropFinalizer(claim)
        else:
            early = _grace_left(claim, now, grace_s)
            yield Release(claim, "no pod uses it", drop_finalizer=True) if early <= 0 else Wait(early)


def _referenced(view: View) -> set[Key]:
    """Claims that a pod which has not ended names."""
    return {
        (pod.metadata.namespace, ref.name)
        for pod in view.all(Pod).values()
        if not pods.done(pod) and not (pod.metadata.deletion_timestamp and not pod.spec.node_name)
        for ref in pods.claim_refs(pod, view.owned(pod))
        if ref.name is not None
    }


def _grace_left(claim: ResourceClaim, now: datetime, grace_s: float) -> float:
    since = allocated_at(claim)
    return grace_s - (now - since).total_seconds() if since else 0.0
