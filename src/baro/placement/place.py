"""Node and set together: every node is asked for its best set, and the best of those wins (design D4).

Order: preferred alternatives, predicted GB/s in bands, what is lost to others (large well-connected groups
stay whole, and broken nodes are filled first), fewest GPUs left free, name. Nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from baro.allocator import (
    DEFAULT_1_37,
    WORK_LIMIT,
    Features,
    NodeDecision,
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
from baro.placement.board import Board, Decisions, Group, leading
from baro.placement.demands import with_wish
from baro.placement.placer import Names, Placer
from baro.placement.reasons import nowhere, won


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where the claims go. ``allocations`` has one result per claim, in order.

    ``per_node`` has every node that was asked, in order of name. A node that was judged together with an
    identical one carries its score but no allocations; it is put together when first read. ``reasons[0]`` is
    the answer in one line.
    """

    fits: bool
    node: str | None = None
    allocations: tuple[AllocationResult, ...] = ()
    score: Score | None = None
    reasons: tuple[str, ...] = ()
    per_node: Sequence[NodeDecision] = ()
    excluded: tuple[tuple[str, str], ...] = ()
    """(node, why) of nodes that were not asked."""
    evaluations: int = 0
    """How many nodes were really evaluated; the others were identical to one of those, or to one that was
    evaluated for an earlier question about the same inventory."""
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
    without: Collection[str] = (),
    policy: Policy | str = Policy.TOPOLOGY,
    features: Features = DEFAULT_1_37,
    selectors: SelectorEngine | None = None,
    pod: Pod | None = None,
    work_limit: int = WORK_LIMIT,
) -> Placement:
    """The best node and devices for unallocated claims that belong together (the claims of one pod).

    An ``Inventory`` remembers what was found out: asked again, only nodes that changed since, and only kinds
    of nodes that were not met before, cost anything. Claims of equal spec share that, whatever their names.

    ``nodes`` restricts the choice; ``without`` takes nodes out of it, which in a large cluster costs less
    than naming all others. With ``pod`` its tolerations, node selector and affinity count, and its annotation
    ``baro.dev/topology`` for claims without one. Claims that are allocated count as in use if they are part
    of the cluster.
    """
    inventory = cluster if isinstance(cluster, Inventory) else Inventory(cluster)
    policy = Policy(policy)
    claims = with_wish(claims, pod)
    placer = Placer.of(inventory, selectors)
    case = placer.case(claims, policy, features, work_limit)
    selection, candidates = placer.select(case, pod, nodes, without)
    evaluations = placer.judge(case, selection)
    board = Board(case, selection)
    best_node = board.winner()
    names = Names(claims)
    winner: NodeDecision | None = None
    if best_node is not None:
        node, number = best_node
        winner = placer.answer(case, number, node)
        if winner is None:
            winner = placer.evaluate(case, number, node)
            evaluations += 1
    per_node = Decisions(inventory, case, selection, winner, names)
    if candidates is not None:
        candidates.settle_before_change(per_node)
    groups = board.groups() if winner is None else []
    return Placement(
        fits=winner is not None,
        node=winner.node if winner else None,
        allocations=winner.allocations if winner else (),
        score=winner.score if winner else None,
        reasons=won(winner, board.tally(), selection.excluded)
        if winner
        else nowhere(groups, selection.excluded, names),
        per_node=per_node,
        excluded=selection.excluded,
        evaluations=evaluations,
        error=None if winner else _error(groups, names),
    )


def _error(groups: Sequence[Group], names: Names) -> str | None:
    """The error that concerns the claims as such, or the first one when every node has its own."""
    decisions = [group.decision for group in groups]
    fatal = next((d.error for d in decisions if d.error and not d.on_node), None)
    if fatal is None and decisions and all(d.error for d in decisions):
        fatal = decisions[0].error
    return None if fatal is None else names.text(fatal)


def best(decisions: Sequence[NodeDecision], policy: Policy) -> NodeDecision | None:
    """The winner among the nodes that fit, or ``None``."""
    leaders = leading([decision for decision in decisions if decision.fits], policy)
    return min(leaders, key=lambda decision: decision.node, default=None)


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
