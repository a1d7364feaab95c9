"""What one node answers to a set of claims, and at which step it falls out.

The outcome is ``allocate``'s. The step is proved, not guessed: the first stage of a funnel that leaves fewer
devices than needed; or else what makes it fit when it is taken away (a constraint, counters, the topology
wish); or the selector, class or pool that upstream's error speaks of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

from baro.allocator import NodeDecision, Outcome, Plan, Policy, allocate
from baro.allocator.problem import Fatal, NodeProblem
from baro.diagnosis.explain.bench import Bench, Budget
from baro.diagnosis.explain.funnel import funnels, pool_notes
from baro.diagnosis.explain.result import Answer, Funnel, Stage, Step
from baro.diagnosis.explain.world import World
from baro.model.kinds.resource import ResourceClaim
from baro.model.names import TOPOLOGY_ANNOTATION
from baro.model.quantity import QuantityError

NO_FIT = "cannot allocate all claims"
"""kube-scheduler's word for every node on which nothing fits."""

_TOGETHER = "each request alone could be satisfied here, but not all of them together"

_ERRORS: tuple[tuple[str, Step], ...] = (
    (r"^class [^:]+: selector #\d+( on device [^:]+)?: CEL|could not retrieve device class", Step.CLASS),
    (r"missing device class name", Step.CLASS),
    (r"^claim [^:]+: selector #\d+( on device [^:]+)?: CEL|CEL expression empty", Step.SELECTOR),
    (r"invalid resource pools|currently (being updated|invalid)$|node selector in resource slice", Step.POOL),
    (r"exceeds the claim limit", Step.LIMIT),
    (r"cannot add device .* claim constraint|empty constraint", Step.CONSTRAINT),
    (r"feature is disabled$", Step.FEATURE),
    (r"unsupported count mode", Step.REQUEST),
    (r"an amount is no quantity", Step.CAPACITY),
)
"""Upstream's error texts (the allocator's own, ``allocate`` writes no others) → the step they belong to."""


def answer(
    world: World,
    node: str,
    claims: Sequence[ResourceClaim],
    plan: Plan,
    policy: Policy,
    proofs: Budget | None = None,
) -> Answer:
    """The answer of one node. ``proofs`` bounds on how many nodes a step is proved by taking things away."""
    decision = allocate(
        world.inventory,
        node,
        plan,
        policy=policy,
        features=world.options.features,
        selectors=world.engine,
    )
    problem, drawn = _drawn(world, node, plan)
    step, reason = _blame(world, claims, plan, policy, decision, problem, drawn)
    if step is None:
        step, reason = Step.SET, _TOGETHER
        if proofs is None or proofs.take():
            step, reason = _together(world, claims, plan, policy, decision)
    return Answer(
        node=node,
        outcome=decision.outcome.value,
        step=step,
        reason=reason,
        error=decision.error,
        on_node=decision.on_node,
        scheduler=scheduler_words(decision),
        said=decision.reasons,
        funnels=drawn,
        devices=tuple(key.device for key in decision.devices),
        gbps=decision.score.gbps if decision.score else None,
        free_gpus=decision.free_gpus,
        island=decision.island,
    )


def scheduler_words(decision: NodeDecision) -> tuple[str, ...]:
    """What kube-scheduler counts for the node; an error of the pod as such is not counted by node."""
    match decision.outcome:
        case Outcome.NO_FIT:
            return (NO_FIT,)
        case Outcome.ERROR if decision.on_node and decision.error:
            return (decision.error,)
    return ()


def _drawn(world: World, node: str, plan: Plan) -> tuple[NodeProblem | None, tuple[Funnel, ...]]:
    try:
        problem = NodeProblem(world.inventory, node, plan, world.options.features, world.engine)
        return problem, funnels(problem, plan)
    except (Fatal, QuantityError):
        return None, ()


# --- the step -----------------------------------------------------------------------------------------------


def _blame(
    world: World,
    claims: Sequence[ResourceClaim],
    plan: Plan,
    policy: Policy,
    decision: NodeDecision,
    problem: NodeProblem | None,
    drawn: Sequence[Funnel],
) -> tuple[Step | None, str]:
    """The step and its words; no step where each request alone could be had."""
    match decision.outcome:
        case Outcome.FIT:
            return Step.FITS, next(iter(decision.reasons), "fits")
        case Outcome.GAVE_UP:
            return Step.UNDECIDED, next(iter(decision.reasons), "")
        case Outcome.ERROR:
            text = decision.error or ""
            notes = list(pool_notes(problem)) if problem is not None else []
            step = error_step(text)
            return step, "; ".join([text, *notes]) if step is Step.POOL else text
    if problem is None:
        return Step.SET, next(iter(decision.reasons), "nothing fits")
    short = first_short(drawn)
    if short is not None:
        return short[1].step, words(*short)
    return None, ""


def error_step(text: str) -> Step:
    """The step that an error of upstream's allocator belongs to."""
    return next((step for pattern, step in _ERRORS if re.search(pattern, text)), Step.SET)


def first_short(drawn: Iterable[Funnel]) -> tuple[Funnel, Stage] | None:
    """The first request of which every alternative falls short alone, by the one that comes furthest."""
    for _, alternatives in groupby(drawn, key=lambda item: (item.claim, item.request.partition("/")[0])):
        found = [(item, item.stops_at()) for item in alternatives]
        stops = [(item, stop) for item, stop in found if stop is not None]
        if stops and len(stops) == len(found):
            return max(stops, key=lambda pair: list(Step).index(pair[1].step))
    return None


def words(funnel: Funnel, stage: Stage) -> str:
    """One sentence about where a request falls short."""
    who = f"request {funnel.request}"
    need = f"{funnel.wanted} needed"
    before, after = stage.before, stage.after
    match stage.step:
        case Step.PUBLISHED:
            return f"{who}: {need}, {after or 'none'} published"
        case Step.HERE:
            return f"{who}: {need}, {before} published, {after or 'none'} of them for this node"
        case Step.POOL:
            return f"{who}: {need}, {after or 'none'} of {before} in a usable pool: {'; '.join(stage.notes)}"
        case Step.CLASS | Step.SELECTOR:
            of = f" {funnel.device_class}" if stage.step is Step.CLASS else ""
            return f"{who}: {need}, {stage.label}{of} leaves {after} of {before}"
        case Step.FREE:
            return f"{who}: {need}, {before} match, {after or 'none'} of them free"
        case Step.TAINT:
            return f"{who}: {need}, {before} free, {after or 'none'} of them without a taint in the way"
        case Step.CAPACITY:
            return f"{who}: {need}, {before} free, {after or 'none'} of them with the capacity {stage.text}"
        case Step.CONSTRAINT if stage.text.startswith("distinct"):
            return f"{who}: {need} with different {_attribute(stage)}, {before} usable with {after} values"
        case Step.CONSTRAINT:
            return f"{who}: {need} with one {_attribute(stage)}, {before} usable, largest group has {after}"
    return f"{who}: {need}, {stage.label} leaves {after} of {before}"


def _attribute(stage: Stage) -> str:
    return stage.text.partition(" ")[2]


def _together(
    world: World, claims: Sequence[ResourceClaim], plan: Plan, policy: Policy, decision: NodeDecision
) -> tuple[Step, str]:
    """Each request could be had alone. What, taken away, lets all of them fit?"""
    bench = Bench(world, decision.node)
    said = next(iter(decision.reasons), "")
    if policy is Policy.TOPOLOGY and bench.fits([without_wish(claim) for claim in claims], policy):
        return Step.TOPOLOGY, said
    free = [without_constraints(claim) for claim in claims]
    if any(claim.constraints for claim in plan.claims) and bench.fits(free, policy):
        return Step.CONSTRAINT, _constraint_words(bench, claims, plan, policy)
    loose = bench.without_counters()
    if loose.fits(claims, policy):
        return Step.COUNTERS, "the devices that are free draw on counters that are used up"
    if loose.fits(free, policy):
        return Step.COUNTERS, "constraints and shared counters together leave nothing"
    return Step.SET, _TOGETHER


def _constraint_words(bench: Bench, claims: Sequence[ResourceClaim], plan: Plan, policy: Policy) -> str:
    """Which single constraint is in the way, if one is."""
    for number, claim in enumerate(plan.claims):
        for index, constraint in enumerate(claim.constraints):
            changed = list(claims)
            changed[number] = without_constraints(claims[number], index)
            if bench.fits(changed, policy):
                kind = "distinctAttribute" if constraint.distinct else "matchAttribute"
                return (
                    f"each request alone could be satisfied, but not all with {kind} {constraint.attribute}"
                    f" (claim {claim.name})"
                )
    return "each request alone could be satisfied, but not with the constraints of the claims"


def without_constraints(claim: ResourceClaim, index: int | None = None) -> ResourceClaim:
    """The claim without its constraints, or without one of them."""
    devices = claim.spec.devices
    kept = tuple(item for at, item in enumerate(devices.constraints) if index not in (None, at))
    changed = msgspec.structs.replace(devices, constraints=kept)
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, devices=changed))


def without_wish(claim: ResourceClaim) -> ResourceClaim:
    """The claim without its annotation ``baro.dev/topology``."""
    annotations = {k: v for k, v in claim.metadata.annotations.items() if k != TOPOLOGY_ANNOTATION}
    metadata = msgspec.structs.replace(claim.metadata, annotations=annotations)
    return msgspec.structs.replace(claim, metadata=metadata)
