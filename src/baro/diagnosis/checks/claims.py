"""Check *DRA broken*, part two: claims that hold devices nobody uses, or that nobody can use.

The API server checks none of this: not whether a device exists, nor whether two claims hold it, nor whether
a consumer is still alive.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from baro.diagnosis.checks.board import Board
from baro.diagnosis.checks.problem import Lost, Problem, count, named, problem
from baro.inventory.usage import claim_name
from baro.model.kinds.resource import FINALIZER, ResourceClaim

NAME = "dra"
GRACE_HOURS = 0.1
"""An allocation may be unreserved, and a deletion unfinished, for a moment."""


def check(board: Board) -> Iterator[Problem]:
    """All problems with claims."""
    for claim in board.snapshot.claims:
        if claim.metadata.deletion_timestamp:
            yield from _terminating(board, claim)
        elif claim.status.allocation is not None:
            yield from _held(board, claim)
    yield from _twice(board)
    yield from _gone_devices(board)
    yield from _no_class(board)


def _describe(claim: ResourceClaim) -> tuple[str, ...]:
    meta = claim.metadata
    return (f"kubectl get resourceclaim -n {meta.namespace} {meta.name} -o yaml",)


def _lost(board: Board, claim: ResourceClaim, since: str | None) -> Lost:
    """The GPUs that a claim holds."""
    allocation = claim.status.allocation
    ids = frozenset(
        f"{board.node_of(result.driver, result.pool)}/{result.driver}/{result.device}"
        for result in (allocation.devices.results if allocation else ())
        if not result.admin_access and (result.driver, result.pool) in board.gpu_pools
    )
    return Lost(gpus=ids, hours=board.hours_since(since), basis="GPUs that the claim holds")


def _terminating(board: Board, claim: ResourceClaim) -> Iterator[Problem]:
    meta = claim.metadata
    hours = board.hours_since(meta.deletion_timestamp)
    if hours is not None and hours < GRACE_HOURS:
        return
    users = board.users.get((meta.namespace, meta.name), [])
    yield problem(
        NAME,
        "claim-stuck-terminating",
        f"claim {claim_name(claim)} is being deleted"
        + (f" for {hours:.1f} h" if hours is not None else "")
        + f" and kept by {named(meta.finalizers) or 'no finalizer'}",
        subject=f"ResourceClaim {claim_name(claim)}",
        evidence=(
            f"deletionTimestamp {meta.deletion_timestamp}",
            f"pods that use it: {named(view.name for view in users) or 'none in the evidence'}",
            f"reservedFor: {named(ref.name for ref in claim.status.reserved_for) or 'nobody'}",
        ),
        next=_describe(claim),
        lost=_lost(board, claim, meta.deletion_timestamp),
        facts={"finalizers": list(meta.finalizers)},
    )


def _held(board: Board, claim: ResourceClaim) -> Iterator[Problem]:
    """An allocated claim: who is it reserved for, and do they live?"""
    meta, status = claim.metadata, claim.status
    allocation = status.allocation
    since = allocation.allocation_timestamp if allocation else None
    if FINALIZER not in meta.finalizers and allocation is not None:
        yield problem(
            NAME,
            "claim-without-finalizer",
            f"claim {claim_name(claim)} is allocated without the finalizer {FINALIZER}: its devices "
            "leak when it "
            "is deleted or its pods end",
            subject=f"ResourceClaim {claim_name(claim)}",
            next=_describe(claim),
        )
    if board.evidence.lacks("pods") or not board.snapshot.pods:
        return
    if not status.reserved_for:
        yield from _unreserved(board, claim, since)
    else:
        yield from _consumers_gone(board, claim, since)


def _unreserved(board: Board, claim: ResourceClaim, since: str | None) -> Iterator[Problem]:
    meta, allocation = claim.metadata, claim.status.allocation
    hours = board.hours_since(since)
    if board.users.get((meta.namespace, meta.name)) or (hours is not None and hours < GRACE_HOURS):
        return
    held = count(len(allocation.devices.results) if allocation else 0, "device")
    yield problem(
        NAME,
        "claim-allocated-unreserved",
        f"claim {claim_name(claim)} holds {held} and is reserved for nobody: nothing ever releases it",
        subject=f"ResourceClaim {claim_name(claim)}",
        evidence=(f"allocated {since}" if since else "when it was allocated is not told", "no pod uses it"),
        next=_describe(claim),
        lost=_lost(board, claim, since),
    )


def _consumers_gone(board: Board, claim: ResourceClaim, since: str | None) -> Iterator[Problem]:
    """Every pod that the claim is reserved for is gone."""
    reserved = claim.status.reserved_for
    gone = [
        ref
        for ref in reserved
        if ref.resource == "pods"
        and ref.uid not in board.pods_by_uid
        and board.sees(claim.metadata.namespace)
    ]
    if not gone or len(gone) < len(reserved):
        return
    yield problem(
        NAME,
        "claim-reserved-for-gone-pod",
        f"claim {claim_name(claim)} is reserved for {named(ref.name for ref in gone)}, "
        f"{'which is gone' if len(gone) == 1 else 'which are gone'}: its devices stay taken",
        subject=f"ResourceClaim {claim_name(claim)}",
        evidence=tuple(f"no pod has the UID {ref.uid} ({ref.name})" for ref in gone),
        next=(*_describe(claim), "kubectl get pods -n kube-system | grep controller-manager"),
        lost=_lost(board, claim, since),
        facts={"pods": [ref.name for ref in gone]},
    )


def _twice(board: Board) -> Iterator[Problem]:
    """One device, several holders."""
    for key, claims in board.inventory.usage.doubly_held():
        users = [
            view.name
            for name in claims
            for view in board.users.get(tuple(name.split("/", 1)), ())  # type: ignore[arg-type]
        ]
        yield problem(
            NAME,
            "duplicate-allocation",
            f"device {key} is allocated to {len(claims)} claims at once: {named(claims)}",
            subject=f"ResourceClaim {claims[0]}",
            node=board.node_of(key.driver, key.pool),
            evidence=(f"pods that use them: {named(users) or 'none'}",),
            next=tuple(
                f"kubectl get resourceclaim -n {ns} {name} -o yaml"
                for ns, _, name in (claim.partition("/") for claim in claims[:2])
            ),
            facts={"device": str(key), "claims": list(claims)},
        )


def _gone_devices(board: Board) -> Iterator[Problem]:
    """Allocated devices that are not published. Judged only for pools that are published at all, or when the
    node of the pool exists: a dump without slices says nothing."""
    if not board.snapshot.slices or board.evidence.lacks("resourceslices"):
        return
    drivers = {item.spec.driver for item in board.snapshot.slices}
    for key, shares in board.inventory.usage.holders.items():
        if key.driver not in drivers or board.is_published(key):
            continue
        claims = sorted({share.claim for share in shares})
        yield problem(
            NAME,
            "allocated-device-gone",
            f"device {key} is allocated to {named(claims)} and no longer published",
            subject=f"ResourceClaim {claims[0]}",
            node=board.node_of(key.driver, key.pool),
            next=(f"kubectl get resourceslices -o wide | grep {key.pool}",),
            facts={"device": str(key), "claims": claims},
        )


def _no_class(board: Board) -> Iterator[Problem]:
    """Claims that wait for a class that does not exist."""
    if board.evidence.lacks("deviceclasses") or (not board.snapshot.classes and not board.snapshot.slices):
        return
    missing: dict[str, list[str]] = {}
    for claim in board.snapshot.claims:
        if claim.status.allocation is not None:
            continue
        for request in claim.spec.devices.requests:
            asked = [request.exactly] if request.exactly else list(request.first_available)
            for one in asked:
                if one.device_class_name and one.device_class_name not in board.inventory.classes:
                    missing.setdefault(one.device_class_name, []).append(
                        f"{claim_name(claim)}, request {request.name}"
                    )
    known = sorted(board.inventory.classes)
    for name, claims in missing.items():
        near = [item for item in known if name in item or item in name]
        near += [item for item in difflib.get_close_matches(name, known, n=2) if item not in near]
        yield problem(
            NAME,
            "device-class-not-found",
            f"claim {claims[0]}: could not retrieve device class {name}: it does not exist",
            subject=f"DeviceClass {name}",
            evidence=(
                f"classes that exist: {named(known) or 'none'}",
                *((f"nearest: {named(near)}",) if near else ()),
                f"claims that ask for it: {count(len(claims), 'request')}",
            ),
            next=("kubectl get deviceclasses",),
            facts={"cause": "device-class-not-found", "class": name, "existing": known},
        )
