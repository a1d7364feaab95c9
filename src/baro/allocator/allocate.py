"""The entry: which devices of one node satisfy a set of claims.

``allocate`` never raises for what claims or devices contain; refusals and selector failures are outcomes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from baro.allocator.decision import NodeDecision, Outcome
from baro.allocator.explain import why, why_not
from baro.allocator.features import DEFAULT_1_37, Features, Policy
from baro.allocator.graph import NodeGraph, graph_of
from baro.allocator.ledger import Pick
from baro.allocator.plan import Plan, compile_plan
from baro.allocator.problem import Fatal, NodeProblem
from baro.allocator.result import results
from baro.allocator.search import OutOfWork, Search
from baro.allocator.selectors import SelectorEngine
from baro.allocator.topology_policy import choose, choose_best_effort, unimproved
from baro.inventory import Inventory
from baro.model.kinds.resource import ResourceClaim
from baro.model.quantity import QuantityError

WORK_LIMIT = 100_000
"""Devices tried before the search gives up; some seconds at worst."""


def random_share_id() -> str:
    return str(uuid.uuid4())


def allocate(  # noqa: PLR0913
    inventory: Inventory,
    node: str,
    claims: Sequence[ResourceClaim] | Plan,
    *,
    policy: Policy = Policy.TOPOLOGY,
    features: Features = DEFAULT_1_37,
    selectors: SelectorEngine | None = None,
    work_limit: int = WORK_LIMIT,
    new_share_id: Callable[[], str] = random_share_id,
) -> NodeDecision:
    """Devices for unallocated claims, in the order given, on one node.

    ``claims`` may be a plan from ``compile_plan`` to spare compiling it for every node. First-fit gives
    upstream's exact answer and choice, errors included; topology gives the best set under the objective, and
    treats a device whose selector fails as not matching, raising the error only when nothing fits.
    """
    plan = claims if isinstance(claims, Plan) else compile_plan(claims, inventory.classes, features)
    engine = selectors or cel_engine(inventory)
    search: Search | None = None
    try:
        problem = NodeProblem(inventory, node, plan, features, engine)
        search = Search(problem, work_limit=work_limit, ignore_errors=policy is not Policy.FIRST_FIT)
        picks = first_fit(search)
        if picks is None:
            return _no_fit(search, policy)
        if policy is Policy.FIRST_FIT:
            return NodeDecision(
                node=node,
                outcome=Outcome.FIT,
                allocations=results(problem, picks, new_share_id),
                work=search.work,
                reasons=why(problem, graph_of(problem), picks),
            )
        return _by_topology(search, picks, new_share_id, policy)
    except Fatal as refused:
        return NodeDecision(
            node=node,
            outcome=Outcome.ERROR,
            error=refused.message,
            on_node=refused.on_node,
            work=search.work if search else 0,
        )
    except QuantityError as bad:
        # No API server lets one through, but files may hold anything.
        return NodeDecision(node=node, outcome=Outcome.ERROR, error=f"an amount is no quantity: {bad}")
    except OutOfWork:
        work = search.work if search else 0
        return NodeDecision(
            node=node,
            outcome=Outcome.GAVE_UP,
            work=work,
            reasons=(f"gave up after {work} devices tried; neither a fit nor its absence is proved",),
        )


def _no_fit(search: Search, policy: Policy) -> NodeDecision:
    problem = search.problem
    if problem.invalid_pools:
        return NodeDecision(
            node=problem.node,
            outcome=Outcome.ERROR,
            error="invalid resource pools were encountered",
            on_node=True,
            work=search.work,
            reasons=tuple(
                f"pool {pool.id} is invalid: {pool.invalid}" for pool in problem.pools if pool.invalid
            ),
        )
    failed = None if policy is Policy.FIRST_FIT else _error_behind(search)
    free, island = (0, 0) if policy is Policy.FIRST_FIT else _free_gpus(search, graph_of(problem))
    return NodeDecision(
        node=problem.node,
        outcome=Outcome.NO_FIT if failed is None else Outcome.ERROR,
        error=failed,
        work=search.work,
        reasons=why_not(search),
        free_gpus=free,
        island=island,
    )


def _error_behind(search: Search) -> str | None:
    """The selector failure that upstream would report where nothing fits; ``None`` if it meets none."""
    if search.first_error() is None:
        return None
    try:
        Search(search.problem, work_limit=WORK_LIMIT, ignore_errors=False).run()
    except Fatal as refused:
        return refused.message
    except OutOfWork:
        return search.first_error()
    return None


def _by_topology(
    search: Search, base: tuple[Pick, ...], new_share_id: Callable[[], str], policy: Policy
) -> NodeDecision:
    problem = search.problem
    graph = graph_of(problem)
    try:
        choice = (choose if policy is Policy.TOPOLOGY else choose_best_effort)(search, graph, base)
    except OutOfWork:
        if any(claim.topology == "required" for claim in search.plan.claims):
            raise  # the first solution may not be one for such a claim
        choice = unimproved(search, graph, base)
    free, island = _free_gpus(search, graph)
    if choice.refusal is not None:
        return NodeDecision(
            node=problem.node,
            outcome=Outcome.NO_FIT,
            work=search.work,
            reasons=(choice.refusal,),
            free_gpus=free,
            island=island,
        )
    return NodeDecision(
        node=problem.node,
        outcome=Outcome.FIT,
        allocations=results(problem, choice.picks, new_share_id),
        score=choice.score,
        work=search.work,
        reasons=why(problem, graph, choice.picks),
        free_gpus=free,
        island=island,
    )


def _free_gpus(search: Search, graph: NodeGraph | None) -> tuple[int, int]:
    """GPUs that the claims could take, and the most of them in one island."""
    if graph is None:
        return 0, 0
    eligible = 0
    for _, _, alternative in search.plan.alternatives():
        eligible |= search.eligible(alternative)
    free = graph.to_shape(eligible & search.problem.free)
    return free.bit_count(), max(((i & free).bit_count() for i in graph.shape.islands), default=0)


def first_fit(search: Search) -> tuple[Pick, ...] | None:
    """Upstream's choice; where its admin-access quirk leaves none, the choice without that quirk."""
    picks = search.run()
    if picks is None and search.has_admin and not search.problem.features.compatibility:
        try:
            return search.run(admin_blocks=False)
        except Fatal:
            return None
    return picks


def cel_engine(inventory: Inventory) -> SelectorEngine:
    """The real selector engine of an inventory; the same one at every call."""
    # CEL costs import time that callers with an engine of their own need not pay.
    from baro.allocator.cel_selectors import CelSelectors  # noqa: PLC0415

    return CelSelectors.of(inventory)
