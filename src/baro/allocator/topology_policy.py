"""Policy ``topology``: the best set of one node under the objective (design D4).

Among the sets that satisfy the claims: most preferred alternatives first (a contract with the user), then
predicted GB/s in bands, then GPUs that lie closer, in bands, then the nearest NICs, then what is left for
others (large well-connected groups stay whole), then device order. Feasibility is always decided by the
search itself, run within each candidate set, so the policy can only choose among valid answers.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from baro.allocator.best_effort import preferred
from baro.allocator.decision import Score
from baro.allocator.graph import NodeGraph, Shape
from baro.allocator.joint import Room, best
from baro.allocator.ledger import Pick
from baro.allocator.nearest import Nearest
from baro.allocator.problem import bits
from baro.allocator.search import Search
from baro.allocator.sets import Option, Wanted, options_of, remember


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The best set. ``refusal`` instead of picks: a claim requires one island and none is large enough."""

    picks: tuple[Pick, ...] = ()
    score: Score = Score()
    refusal: str | None = None
    exact: bool = True


def choose(search: Search, graph: NodeGraph | None, base: tuple[Pick, ...]) -> Choice:
    """The best choice; ``base`` is any solution of the search."""
    fixed, base = _preferred(search, base)
    preference = tuple(fixed.values())
    if graph is None:
        refusal = _without_graph(search, base)
        return Choice(picks=base, score=Score(preference=preference), refusal=refusal)
    wants = [_want(search, graph, index, base) for index in range(len(search.plan.claims))]
    nearest = Nearest(search, graph, base)
    if graph.shape.uniform and not nearest:
        # Every set is as good as any other of its size: the search's own choice stands.
        for index, want in enumerate(wants):
            if want.required and not graph.shape.islands:
                return Choice(refusal=_too_small(graph, want, search.plan.claims[index].name))
        return Choice(picks=base, score=_score(search, graph, base, preference, nearest))
    options: list[tuple[Option, ...]] = []
    for index, want in enumerate(wants):
        found = options_of(graph.shape, want)
        if want.required and not found:
            return Choice(refusal=_too_small(graph, want, search.plan.claims[index].name))
        options.append(found)
    picks, exact = best(Room(search, graph, wants, nearest, fixed, base), options)
    if picks is None:
        if any(want.required for want in wants):
            return Choice(refusal="no set of GPUs within one island satisfies the claim's other constraints")
        picks = base
    score = _score(search, graph, picks, preference, nearest)
    return Choice(picks=picks, score=score, exact=exact)


def unimproved(search: Search, graph: NodeGraph | None, base: tuple[Pick, ...]) -> Choice:
    """A solution as it is, for when there is no work left to look for a better one."""
    preference = tuple(_preference(search, base).values())
    if graph is None:
        return Choice(picks=base, score=Score(preference=preference), exact=False)
    score = _score(search, graph, base, preference, Nearest(search, graph, base))
    return Choice(picks=base, score=score, exact=False)


def choose_best_effort(search: Search, graph: NodeGraph | None, base: tuple[Pick, ...]) -> Choice:
    """What NVIDIA's device plugin would take of the GPUs, claim by claim; the first fit where constraints of
    the claims forbid that. A claim that requires one island is left to ``choose``."""
    fixed, base = _preferred(search, base)
    wants = [] if graph is None else [_want(search, graph, i, base) for i in range(len(search.plan.claims))]
    if graph is None or any(want.required for want in wants):
        return choose(search, graph, base)
    options: list[Option] = []
    taken = 0
    for want in wants:
        found = None if want.free else _best_effort_set(graph, want, taken)
        options.append(Option(want.union if found is None else found, 0))
        taken |= 0 if found is None else found
    room = Room(search, graph, wants, Nearest(search, graph, ()), fixed, base)
    picks = search.run(allowed=room.allowed(options), fixed=fixed) or base
    score = _score(search, graph, picks, tuple(fixed.values()), room.nearest)
    return Choice(picks=picks, score=score, exact=False)


def _best_effort_set(graph: NodeGraph, want: Wanted, taken: int) -> int | None:
    required = tuple(bits(want.fixed))
    available = tuple(bits((want.union | want.fixed) & ~taken))
    found = preferred(graph.shape.points, available, want.count + len(required), required)
    return None if found is None else sum(1 << at for at in found)


def _preferred(search: Search, base: tuple[Pick, ...]) -> tuple[dict[tuple[int, int], int], tuple[Pick, ...]]:
    """The most preferred alternatives that fit together, request by request in order, and a solution with
    them."""
    open_requests = [
        (c, r)
        for c, claim in enumerate(search.plan.claims)
        for r, request in enumerate(claim.requests)
        if request.prioritized
    ]
    fixed: dict[tuple[int, int], int] = {}
    for position in open_requests:
        current = _preference(search, base)
        for index in range(current[position]):
            better = search.run(fixed={**fixed, position: index})
            if better is not None:
                base = better
                break
        fixed[position] = _preference(search, base)[position]
    return fixed, base


def _preference(search: Search, picks: Sequence[Pick]) -> dict[tuple[int, int], int]:
    """(claim, request) → index of the alternative taken, for prioritized requests."""
    taken = {pick.alternative.id for pick in picks}
    found: dict[tuple[int, int], int] = {}
    for c, claim in enumerate(search.plan.claims):
        for r, request in enumerate(claim.requests):
            if request.prioritized:
                found[c, r] = next((a.index for a in request.alternatives if a.id in taken), 0)
    return found


def _want(search: Search, graph: NodeGraph, claim: int, base: Sequence[Pick]) -> Wanted:
    plan = search.plan.claims[claim]
    count = union = fixed = 0
    for pick in base:
        if pick.claim != claim or pick.alternative.admin:
            continue
        eligible = search.eligible(pick.alternative)
        if pick.alternative.all_devices:
            fixed |= 1 << pick.device
        elif eligible and not eligible & ~graph.mask:
            count += 1
            union |= eligible
    fixed = graph.to_shape(fixed)
    ignored = plan.topology == "none" or not (count or fixed)
    return Wanted(
        count=count,
        union=graph.to_shape(union) & ~fixed,
        fixed=fixed,
        required=plan.topology == "required" and (count + fixed.bit_count()) > 1,
        free=ignored,
    )


def _score(
    search: Search,
    graph: NodeGraph,
    picks: Sequence[Pick],
    preference: tuple[int, ...],
    nearest: Nearest,
) -> Score:
    own = [0] * len(search.plan.claims)
    for pick in picks:
        if not pick.alternative.admin:
            own[pick.claim] |= 1 << pick.device
    before = graph.to_shape(search.problem.free & search.problem.usable)
    found = _worth(graph.shape, before, tuple(graph.to_shape(mask) for mask in own))
    if preference or nearest:
        nic = nearest.of(picks, len(own)) if nearest else 0
        return msgspec.structs.replace(found, preference=preference, nic=nic)
    return found


def _worth(shape: Shape, before: int, sets: tuple[int, ...]) -> Score:
    """The score of one set per claim as far as the shape tells it; ``before``: what was free."""
    key = ("score", before, *sets)
    known: Score | None = shape.remembered.get(key)
    if known is not None:
        return known
    taken = 0
    rates: list[float | None] = []
    rank = closeness = 0.0
    for mask in sets:
        taken |= mask
        if mask.bit_count() > 1:
            rates.append(shape.gbps(mask))
            worth = shape.predict(mask).score
            rank = worth if not rank else min(rank, worth)
            closeness += shape.closeness(mask)
    told = [rate for rate in rates if rate is not None]
    after = before & ~taken
    loss = tuple(a - b for a, b in zip(shape.placeable(before), shape.placeable(after), strict=True))
    score = Score(
        gbps=min(told) if told and len(told) == len(rates) else None,
        rank=rank,
        closeness=closeness,
        loss=tuple(zip(shape.sizes(), loss, strict=True)),
        free_after=after.bit_count(),
    )
    return remember(shape, key, score, 1)


def _too_small(graph: NodeGraph, want: Wanted, claim: str) -> str:
    free = want.union | want.fixed
    largest = max(((island & free).bit_count() for island in graph.shape.islands), default=0)
    if not graph.shape.islands:
        return f"claim {claim} requires one island: {free.bit_count()} free GPUs, no island is known here"
    return f"claim {claim} requires one island: {free.bit_count()} free GPUs, largest island has {largest}"


def _without_graph(search: Search, base: Sequence[Pick]) -> str | None:
    """A claim that requires an island cannot be satisfied where no topology is known."""
    for index, claim in enumerate(search.plan.claims):
        if claim.topology == "required" and sum(pick.claim == index for pick in base) > 1:
            return f"claim {claim.name} requires one island: the topology of this node is not known"
    return None
