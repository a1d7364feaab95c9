"""A placement as a document: ``PlacementReport``, the stable JSON of ``baro place``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from baro.allocator import Outcome
from baro.model.kinds.resource import AllocationResult, ResourceClaim
from baro.model.names import API_VERSION
from baro.placement.gang import GangMember, GangPlacement
from baro.placement.place import Placement
from baro.placement.requests import key_of


def report(claims: Sequence[ResourceClaim], placement: Placement) -> dict[str, Any]:
    """``{apiVersion, kind, outcome, fits, node, claims: [{namespace, name, allocation}], score, …}``.

    ``outcome`` is ``fits``, ``no-fit``, ``error`` (with the text in ``error``) or ``gave-up``.
    ``allocation`` is a resource.k8s.io/v1 AllocationResult, or null when nothing fits. ``score.gbps`` is
    the predicted GB/s of the slowest claim's set, null when unknown.
    """
    allocations = placement.allocations or (None,) * len(claims)
    return {
        "apiVersion": API_VERSION,
        "kind": "PlacementReport",
        "outcome": outcome(placement).value,
        "fits": placement.fits,
        "node": placement.node,
        "claims": _claims(claims, allocations),
        "score": None if placement.score is None else _score(placement),
        "reasons": list(placement.reasons),
        "error": placement.error,
        "work": {"nodesEvaluated": placement.evaluations, "devicesTried": work_of(placement)},
        "nodes": [
            {
                "name": decision.node,
                "outcome": decision.outcome.value,
                "error": decision.error,
                "freeGPUs": decision.free_gpus,
                "largestIsland": decision.island,
                "gbps": decision.score.gbps if decision.score else None,
                "reasons": list(decision.reasons),
            }
            for decision in placement.per_node
        ],
        "excluded": [{"name": name, "reason": reason} for name, reason in placement.excluded],
    }


def gang_report(name: tuple[str, str], members: Sequence[GangMember], found: GangPlacement) -> dict[str, Any]:
    """``{apiVersion, kind, gang: {namespace, name}, outcome, fits, nodes, domain, pods, reasons, error, …}``.

    ``kind`` is ``GangPlacementReport``. Each pod has ``node`` and ``claims`` as in a ``PlacementReport``;
    ``node`` is null for pods without a place. ``domain`` is ``{level, name}`` of what holds all nodes, null
    when nothing nearer than the cluster does.
    """
    seats = {(item.seat.member, item.seat.replica): item for item in found.seated}
    pods = []
    for number, member in enumerate(members):
        item = seats.get((number, 0))
        allocations = item.allocations if item else (None,) * len(member.claims)
        pod = member.pod
        pods.append(
            {
                "namespace": key_of(pod)[0] if pod else None,
                "name": key_of(pod)[1] if pod else member.title,
                "node": item.node if item else None,
                "claims": _claims(member.claims, allocations),
            }
        )
    return {
        "apiVersion": API_VERSION,
        "kind": "GangPlacementReport",
        "gang": {"namespace": name[0], "name": name[1]},
        "outcome": found.outcome.value,
        "fits": found.fits,
        "nodes": list(found.nodes),
        "domain": None if found.domain is None else {"level": found.domain[0], "name": found.domain[1]},
        "pods": pods,
        "reasons": list(found.reasons),
        "error": found.error,
        "work": {"steps": found.work},
    }


def work_of(placement: Placement) -> int:
    """Devices that the search tried, over the nodes that were evaluated for this answer or an earlier one."""
    return sum(decision.work for decision in placement.per_node)


def _claims(
    claims: Sequence[ResourceClaim], allocations: Sequence[AllocationResult | None]
) -> list[dict[str, Any]]:
    return [
        {"namespace": key_of(claim)[0], "name": key_of(claim)[1], "allocation": _json(allocation)}
        for claim, allocation in zip(claims, allocations, strict=True)
    ]


def outcome(placement: Placement) -> Outcome:
    """The answer over all nodes. An error of single nodes is none of the whole while others can be judged;
    "no fit" is said only when no node gave up."""
    if placement.fits:
        return Outcome.FIT
    if placement.error is not None:
        return Outcome.ERROR
    gave_up = any(decision.outcome is Outcome.GAVE_UP for decision in placement.per_node)
    return Outcome.GAVE_UP if gave_up else Outcome.NO_FIT


def _score(placement: Placement) -> dict[str, Any]:
    score = placement.score
    if score is None:
        return {}
    return {
        "preference": list(score.preference),
        "gbps": score.gbps,
        "lostGroups": {str(size): groups for size, groups in score.loss},
        "freeGPUsAfter": score.free_after,
    }


def _json(value: Any) -> Any:
    return None if value is None else msgspec.json.decode(msgspec.json.encode(value))
