"""Node and set together: every node is asked for its best set, and the best of those wins (design D4).

Order: preferred alternatives, predicted GB/s in bands, what is lost to others (large well-connected groups
stay whole, and broken nodes are filled first), fewest GPUs left free, name. Nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from baro.allocator import (
    DEFAULT_1_37,
    WORK_LIMIT,
    Features,
    NodeDecision,
    Outcome,
    Policy,
    Score,
    SelectorEngine,
    allocate,
    cel_engine,
    compile_plan,
    predict_set,
)
from baro.inventory import DeviceKey, Inventory, Snapshot
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import AllocationResult, ResourceClaim
from baro.model.names import TOPOLOGY_ANNOTATION
from baro.placement.classes import NodeClasses
from baro.placement.nodes import why_excluded
from baro.placement.reasons import reasons_for

_BAND = 0.93
"""Nodes within 7 % of the fastest count as equally fast."""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where the claims go. ``allocations`` has one result per claim, in order.

    ``per_node`` has every node that was asked, in order of name. A node that was judged together with an
    identical one carries its score but no allocations. ``reasons[0]`` is the answer in one line.
    """

    fits: bool
    node: str | None = None
    allocations: tuple[AllocationResult, ...] = ()
    score: Score | None = None
    reasons: tuple[str, ...] = ()
    per_node: tuple[NodeDecision, ...] = ()
    excluded: tuple[tuple[str, str], ...] = ()
    """(node, why) of nodes that were not asked."""
    evaluations: int = 0
    """How many nodes were really evaluated; the others were identical to one of those."""
    error: str | None = None
    """Upstream's error when nothing fits because claims, classes or devices cannot be judged."""


class FirstFit(msgspec.Struct, frozen=True, kw_only=True):
    """What upstream's first fit takes on one node. ``gbps`` is ``None`` when unknown or not applicable."""

    node: str
    decision: NodeDecision
    gbps: float | None = None
    slowest_kind: str | None = None


def place(  # noqa: PLR0913
    cluster: Snapshot | Inventory,
    claims: Sequence[ResourceClaim],
    *,
    nodes: Iterable[str] | None = None,
    policy: Policy | str = Policy.TOPOLOGY,
    features: Features = DEFAULT_1_37,
    selectors: SelectorEngine | None = None,
    pod: Pod | None = None,
    work_limit: int = WORK_LIMIT,
) -> Placement:
    """The best node and devices for unallocated claims that belong together (the claims of one pod).

    ``nodes`` restricts the choice. With ``pod`` its tolerations, node selector and affinity count, and its
    annotation ``baro.dev/topology`` for claims without one. Claims
    that are allocated count as in use if they are part of the cluster.
    """
    inventory = cluster if isinstance(cluster, Inventory) else Inventory(cluster)
    policy = Policy(policy)
    plan = compile_plan(_with_wish(claims, pod), inventory.classes, features)
    engine = selectors or cel_engine(inventory)
    names = sorted(nodes) if nodes is not None else list(inventory.node_names())
    excluded = [(name, why) for name in names if (why := why_excluded(inventory, name, pod)) is not None]
    out = {name for name, _ in excluded}

    def evaluate(node: str) -> NodeDecision:
        return allocate(
            inventory, node, plan, policy=policy, features=features, selectors=engine, work_limit=work_limit
        )

    classes = NodeClasses(inventory, plan, engine)
    decisions, evaluations = _by_class([name for name in names if name not in out], classes, evaluate)
    winner = best(decisions, policy)
    if winner is not None and not winner.allocations and claims:
        full = evaluate(winner.node)
        evaluations += 1
        decisions[decisions.index(winner)] = winner = full
    return Placement(
        fits=winner is not None,
        node=winner.node if winner else None,
        allocations=winner.allocations if winner else (),
        score=winner.score if winner else None,
        reasons=reasons_for(winner, decisions, excluded),
        per_node=tuple(decisions),
        excluded=tuple(excluded),
        evaluations=evaluations,
        error=None if winner else _error(decisions),
    )


def _error(decisions: Sequence[NodeDecision]) -> str | None:
    """The error that concerns the claims as such, or the first one when every node has its own."""
    fatal = next((d.error for d in decisions if d.error and not d.on_node), None)
    if fatal is None and decisions and all(d.error for d in decisions):
        return decisions[0].error
    return fatal


def _with_wish(claims: Sequence[ResourceClaim], pod: Pod | None) -> Sequence[ResourceClaim]:
    """The claims, with the pod's topology annotation where they have none."""
    wish = pod.metadata.annotations.get(TOPOLOGY_ANNOTATION) if pod else None
    if wish is None:
        return claims
    return [
        msgspec.structs.replace(
            claim,
            metadata=msgspec.structs.replace(
                claim.metadata, annotations={TOPOLOGY_ANNOTATION: wish, **claim.metadata.annotations}
            ),
        )
        for claim in claims
    ]


def _by_class(
    names: Sequence[str], classes: NodeClasses, evaluate: Callable[[str], NodeDecision]
) -> tuple[list[NodeDecision], int]:
    """A decision per node, evaluating one node of each class; and how many that were."""
    known: dict[object, NodeDecision] = {}
    decisions: list[NodeDecision] = []
    evaluations = 0
    for name in names:
        key = classes.key(name)
        twin = known.get(key) if key is not None else None
        if twin is not None:
            decisions.append(_copy(twin, name))
            continue
        decision = evaluate(name)
        evaluations += 1
        decisions.append(decision)
        # An error may name a device, so each node has its own.
        if key is not None and decision.outcome is not Outcome.ERROR:
            known[key] = decision
    return decisions, evaluations


def best(decisions: Sequence[NodeDecision], policy: Policy) -> NodeDecision | None:
    """The winner among the nodes that fit, or ``None``."""
    fitting = [decision for decision in decisions if decision.fits]
    if not fitting:
        return None
    if policy is Policy.FIRST_FIT:
        return min(fitting, key=lambda decision: decision.node)
    scores = {decision.node: decision.score or Score() for decision in fitting}
    preferred = min(score.preference for score in scores.values())
    left = [d for d in fitting if scores[d.node].preference == preferred]
    top = max(scores[d.node].rank for d in left)
    left = [d for d in left if scores[d.node].rank >= top * _BAND]
    return min(left, key=lambda d: (_loss(scores[d.node]), scores[d.node].free_after, d.node))


def first_fit(
    cluster: Snapshot | Inventory,
    claims: Sequence[ResourceClaim],
    *,
    nodes: Iterable[str],
    features: Features = DEFAULT_1_37,
    selectors: SelectorEngine | None = None,
) -> tuple[FirstFit, ...]:
    """What kube-scheduler's allocator would take on each of these nodes, and what that set is worth."""
    inventory = cluster if isinstance(cluster, Inventory) else Inventory(cluster)
    plan = compile_plan(claims, inventory.classes, features)
    engine = selectors or cel_engine(inventory)
    found: list[FirstFit] = []
    for name in nodes:
        decision = allocate(
            inventory, name, plan, policy=Policy.FIRST_FIT, features=features, selectors=engine
        )
        predictions = [
            predict_set(
                inventory, name, [DeviceKey(r.driver, r.pool, r.device) for r in allocation.devices.results]
            )
            for allocation in decision.allocations
        ]
        slowest = min((p for p in predictions if p is not None), key=lambda p: p.score, default=None)
        found.append(
            FirstFit(
                node=name,
                decision=decision,
                gbps=slowest.gbps if slowest else None,
                slowest_kind=slowest.slowest_kind if slowest else None,
            )
        )
    return tuple(found)


def _copy(twin: NodeDecision, node: str) -> NodeDecision:
    reasons = () if twin.fits else twin.reasons
    return msgspec.structs.replace(twin, node=node, allocations=(), work=0, reasons=reasons)


def _loss(score: Score) -> tuple[int, ...]:
    lost = dict(score.loss)
    return tuple(lost.get(size, 0) for size in (16, 8, 4, 2))
