"""Policy ``topology``: the best set of one node under the objective (design D4).

Among the sets that satisfy the claims: most preferred alternatives first (a contract with the user), then
predicted GB/s in bands, then what is left for others (large well-connected groups stay whole), then GPUs
that lie closer, then device order. Feasibility is always decided by the search itself, run within each
candidate set, so the policy can only choose among valid answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import comb, prod

import msgspec

from baro.allocator.decision import Score
from baro.allocator.graph import BAND, NodeGraph
from baro.allocator.ledger import Pick
from baro.allocator.problem import bits
from baro.allocator.search import Search

_MAX_SETS = 20_000
"""More candidate sets than this for one claim are not all looked at: a good one is grown instead."""
_MAX_JOINT = 4_000
"""Up to this many combinations of sets over several claims the choice is joint, beyond it claim by claim."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The best set. ``refusal`` instead of picks: a claim requires one island and none is large enough."""

    picks: tuple[Pick, ...] = ()
    score: Score = Score()
    refusal: str | None = None
    exact: bool = True


class _Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim wants of the graph. Masks are over device numbers."""

    count: int
    union: int
    """GPUs that any of its requests may take."""
    fixed: int
    """GPUs it takes in any case (mode All)."""
    required: bool
    free: bool
    """The set does not matter: annotation ``none``, or no GPUs wanted."""


class _Option(msgspec.Struct, frozen=True):
    """One candidate set of a claim; ``band`` 0 is the fastest."""

    mask: int
    band: int
    score: float


def choose(search: Search, graph: NodeGraph | None, base: tuple[Pick, ...]) -> Choice:
    """The best choice; ``base`` is any solution of the search."""
    fixed, base = _preferred(search, base)
    preference = tuple(pick for _, pick in sorted(_preference(search, base).items()))
    if graph is None:
        refusal = _without_graph(search, base)
        return Choice(picks=base, score=Score(preference=preference), refusal=refusal)
    wants = [_want(search, graph, index, base) for index in range(len(search.plan.claims))]
    if graph.shape.uniform:
        # Every set is as good as any other of its size: the search's own choice stands.
        for index, want in enumerate(wants):
            if want.required and not graph.shape.islands:
                return Choice(refusal=_too_small(graph, want, search.plan.claims[index].name))
        return Choice(picks=base, score=_score(search, graph, base, preference))
    options: list[list[_Option]] = []
    for index, want in enumerate(wants):
        found = _options(graph, want)
        if want.required and not found:
            return Choice(refusal=_too_small(graph, want, search.plan.claims[index].name))
        options.append(found)
    picks, exact = _best(search, graph, wants, options, fixed, base)
    if picks is None:
        if any(want.required for want in wants):
            return Choice(refusal="no set of GPUs within one island satisfies the claim's other constraints")
        picks = base
    return Choice(picks=picks, score=_score(search, graph, picks, preference), exact=exact)


def _preferred(search: Search, base: tuple[Pick, ...]) -> tuple[dict[tuple[int, int], int], tuple[Pick, ...]]:
    """The most preferred alternatives that fit together, request by request, and a solution with them."""
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


def _want(search: Search, graph: NodeGraph, claim: int, base: Sequence[Pick]) -> _Claim:
    plan = search.plan.claims[claim]
    count = union = fixed = 0
    for pick in base:
        if pick.claim != claim or pick.alternative.admin:
            continue
        eligible = search.eligible(pick.alternative)
        if pick.alternative.all_devices:
            fixed |= 1 << pick.device & graph.mask
        elif eligible and not eligible & ~graph.mask:
            count += 1
            union |= eligible
    ignored = plan.topology == "none" or not (count or fixed)
    return _Claim(
        count=count,
        union=union & ~fixed,
        fixed=fixed,
        required=plan.topology == "required" and (count + fixed.bit_count()) > 1,
        free=ignored,
    )


def _options(graph: NodeGraph, want: _Claim) -> list[_Option]:
    """Candidate sets of a claim, all of them where that is feasible, fastest band first."""
    if want.free:
        return [_Option(0, 0, 0.0)]
    masks = list(_sets(graph, want))
    if want.required:
        islands = [graph.to_devices(island) for island in graph.shape.islands]
        masks = [mask for mask in masks if any(not (mask | want.fixed) & ~island for island in islands)]
    scored = [(graph.shape.predict(graph.to_shape(mask | want.fixed)).score, mask) for mask in masks]
    scored.sort(key=lambda item: -item[0])
    options: list[_Option] = []
    band, top = -1, 0.0
    for score, mask in scored:
        if band < 0 or score < top * BAND:
            band, top = band + 1, score
        options.append(_Option(mask, band, score))
    return options


def _sets(graph: NodeGraph, want: _Claim) -> Iterator[int]:
    devices = tuple(bits(want.union))
    if comb(len(devices), want.count) <= _MAX_SETS:
        for chosen in combinations(devices, want.count):
            yield sum(1 << device for device in chosen)
        return
    seen: set[int] = set()
    for seed in devices:
        mask = 1 << seed
        while mask.bit_count() < want.count:
            mask |= max(
                (1 << device for device in devices if not mask >> device & 1),
                key=lambda bit, mask=mask: (graph.shape.predict(graph.to_shape(mask | bit)).score, -bit),  # type: ignore[misc]
            )
        if mask not in seen:
            seen.add(mask)
            yield mask


def _best(
    search: Search,
    graph: NodeGraph,
    wants: Sequence[_Claim],
    options: Sequence[list[_Option]],
    fixed: dict[tuple[int, int], int],
    base: tuple[Pick, ...],
) -> tuple[tuple[Pick, ...] | None, bool]:
    size = prod(len(found) for found in options)
    if size <= _MAX_JOINT or sum(len(found) > 1 for found in options) <= 1:
        return _jointly(search, graph, wants, product(*options), fixed, base), True
    return _one_by_one(search, graph, wants, options, fixed), False


def _jointly(
    search: Search,
    graph: NodeGraph,
    wants: Sequence[_Claim],
    combinations_: Iterator[tuple[_Option, ...]],
    fixed: dict[tuple[int, int], int],
    base: tuple[Pick, ...],
) -> tuple[Pick, ...] | None:
    """All combinations in order of the objective; the first that the search can realise."""
    by_bands: dict[tuple[int, ...], list[tuple[_Option, ...]]] = {}
    for combination in combinations_:
        union = 0
        for option in combination:
            if union & option.mask:
                break
            union |= option.mask
        else:
            bands = tuple(sorted((option.band for option in combination), reverse=True))
            by_bands.setdefault(bands, []).append(combination)
    free = graph.to_shape(search.problem.free & search.problem.usable)
    for bands in sorted(by_bands):
        ranked = sorted(by_bands[bands], key=lambda found: _remainder(graph, free, [o.mask for o in found]))
        for combination in ranked:
            allowed = _allowed(graph, wants, combination)
            if all(allowed[pick.claim] >> pick.device & 1 for pick in base):
                # The first solution of all is the first one within these sets too.
                return base
            picks = search.run(allowed=allowed, fixed=fixed)
            if picks is not None:
                return picks
    return None


def _one_by_one(
    search: Search,
    graph: NodeGraph,
    wants: Sequence[_Claim],
    options: Sequence[list[_Option]],
    fixed: dict[tuple[int, int], int],
) -> tuple[Pick, ...] | None:
    """Each claim takes its best set given those before it, as long as the others still fit."""
    free = graph.to_shape(search.problem.free & search.problem.usable)
    chosen: list[_Option] = []
    solution: tuple[Pick, ...] | None = None
    for index in range(len(options)):
        taken = 0
        for option in chosen:
            taken |= option.mask
        rest = [option for option in options[index] if not option.mask & taken]
        rest.sort(key=lambda o: (o.band, *_remainder(graph, free, [*(c.mask for c in chosen), o.mask])))
        for option in rest:
            later = [_Option(want.union & ~taken & ~option.mask, 0, 0.0) for want in wants[index + 1 :]]
            solution = search.run(allowed=_allowed(graph, wants, [*chosen, option, *later]), fixed=fixed)
            if solution is not None:
                chosen.append(option)
                break
        else:
            return None
    return solution


def _remainder(graph: NodeGraph, free: int, masks: Sequence[int]) -> tuple[object, ...]:
    """Sort key: what is lost to others, then how far apart each set lies, then device order."""
    shape = graph.shape
    left = free
    spread = 0.0
    for mask in masks:
        own = graph.to_shape(mask)
        left &= ~own
        spread -= shape.closeness(own)
    return (
        tuple(-groups for groups in shape.placeable(left)),
        -shape.concentration(left),
        spread,
        tuple(tuple(bits(mask)) for mask in masks),
    )


def _allowed(graph: NodeGraph, wants: Sequence[_Claim], options: Sequence[_Option]) -> tuple[int, ...]:
    """Per claim: its set, and every device that is no GPU. Claims to which the set is all one take any."""
    return tuple(
        -1 if want.free else ~graph.mask | option.mask | want.fixed
        for want, option in zip(wants, options, strict=True)
    )


def _score(search: Search, graph: NodeGraph, picks: Sequence[Pick], preference: tuple[int, ...]) -> Score:
    shape = graph.shape
    before = graph.to_shape(search.problem.free & search.problem.usable)
    taken = 0
    slowest: float | None = None
    rank = 0.0
    unknown = False
    for claim in range(len(search.plan.claims)):
        own = 0
        for pick in picks:
            if pick.claim == claim and not pick.alternative.admin:
                own |= 1 << pick.device
        mask = graph.to_shape(own)
        taken |= mask
        if mask.bit_count() > 1:
            gbps, worth = shape.gbps(mask), shape.predict(mask).score
            unknown = unknown or gbps is None
            if gbps is not None and (slowest is None or gbps < slowest):
                slowest = gbps
            rank = worth if not rank else min(rank, worth)
    after = before & ~taken
    loss = tuple(a - b for a, b in zip(shape.placeable(before), shape.placeable(after), strict=True))
    return Score(
        preference=preference,
        gbps=None if unknown else slowest,
        rank=rank,
        loss=tuple(zip(shape.sizes(), loss, strict=True)),
        free_after=after.bit_count(),
    )


def _too_small(graph: NodeGraph, want: _Claim, claim: str) -> str:
    free = want.union | want.fixed
    islands = [graph.to_devices(island) & free for island in graph.shape.islands]
    largest = max((island.bit_count() for island in islands), default=0)
    if not graph.shape.islands:
        return f"claim {claim} requires one island: {free.bit_count()} free GPUs, no island is known here"
    return f"claim {claim} requires one island: {free.bit_count()} free GPUs, largest island has {largest}"


def _without_graph(search: Search, base: Sequence[Pick]) -> str | None:
    """A claim that requires an island cannot be satisfied where no topology is known."""
    for index, claim in enumerate(search.plan.claims):
        if claim.topology == "required" and sum(pick.claim == index for pick in base) > 1:
            return f"claim {claim.name} requires one island: the topology of this node is not known"
    return None
