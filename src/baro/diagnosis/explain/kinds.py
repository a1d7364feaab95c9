"""Nodes by kind: those that answer alike are asked once, and told as one line.

Two steps. Nodes of one class (``placement``'s exact classes: same devices, same use, same filters) share one
answer. Answers that read alike, such as "5 free, 4 needed" with other devices free, are then merged into
groups, so that 10,000 nodes are a handful of lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from baro.allocator import WORK_LIMIT, Outcome, Plan, Policy, cel_engine, compile_plan
from baro.diagnosis.explain.answer import answer
from baro.diagnosis.explain.bench import Budget
from baro.diagnosis.explain.extended import on_node
from baro.diagnosis.explain.nodes import rejection
from baro.diagnosis.explain.rejection import Rejection
from baro.diagnosis.explain.result import Answer, Group, Step
from baro.diagnosis.explain.world import World
from baro.inventory.node_selection import NodeSelectorError, matches
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from baro.placement.placer import Placer

_MOST_PROOFS = 300
"""Kinds of nodes on which it is found out which of constraints and counters is in the way."""
FILTERED = "filtered"
"""Outcome of a node that was not asked for devices."""
ELSEWHERE = "resourceclaim not available on the node"
"""kube-scheduler's word where an allocated claim belongs to another node."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the nodes are asked. ``claims_of`` has, per set of extended resources that DRA must serve on a
    node, the claims to allocate there; ``()`` is always among the sets. ``resources`` are all those that a
    class serves."""

    pod: Pod | None = None
    resources: tuple[str, ...] = ()
    claims_of: Mapping[tuple[str, ...], tuple[ResourceClaim, ...]]
    allocated: tuple[ResourceClaim, ...] = ()
    policy: Policy = Policy.FIRST_FIT
    planner: bool = False


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of one class. ``claims`` are those asked for, ``rejected`` why they were not asked at all."""

    nodes: tuple[str, ...]
    answer: Answer
    claims: tuple[ResourceClaim, ...] = ()
    plan: Plan = Plan(())
    rejected: Rejection | None = None


def kinds(world: World, question: Question, names: Iterable[str]) -> list[Kind]:
    """The answers of all these nodes, one entry per class."""
    variants = {key: _Variant(world, claims, question.policy) for key, claims in question.claims_of.items()}
    alike: dict[object, list[str]] = {}
    known: dict[object, tuple[Rejection | None, str | None, tuple[str, ...]]] = {}
    for name in names:
        out = rejection(world, name, question.pod, planner=question.planner)
        variant = on_node(world, name, question.resources)
        away = None if out else elsewhere(world, name, question.allocated)
        number = variants[variant].number(name) if out is None else None
        key: object = (out.plugin, out.key, out.scheduler, out.states) if out else (number, away, variant)
        alike.setdefault(key, []).append(name)
        known.setdefault(key, (out, away, variant))
    found: list[Kind] = []
    proofs = Budget(_MOST_PROOFS)
    for key, members in alike.items():
        out, away, variant = known[key]
        found.append(_kind(world, question, tuple(members), out, away, variants[variant], proofs))
    return found


def _kind(
    world: World,
    question: Question,
    members: tuple[str, ...],
    out: Rejection | None,
    away: str | None,
    variant: _Variant,
    proofs: Budget,
) -> Kind:
    node = members[0]
    if out is not None:
        said = Answer(node=node, outcome=FILTERED, step=out.step, reason=out.reason, scheduler=out.scheduler)
        return Kind(nodes=members, answer=said, claims=variant.claims, plan=variant.plan, rejected=out)
    if variant.claims:
        said = answer(world, node, variant.claims, variant.plan, question.policy, proofs)
    else:
        said = Answer(node=node, outcome=Outcome.FIT.value, step=Step.FITS, reason="nothing to allocate")
    if away is not None and said.step is Step.FITS:
        said = Answer(node=node, outcome=FILTERED, step=Step.NODE, reason=away, scheduler=(ELSEWHERE,))
    return Kind(nodes=members, answer=said, claims=variant.claims, plan=variant.plan)


class _Variant:
    """One list of claims: its plan, and the class of each node for it."""

    def __init__(self, world: World, claims: tuple[ResourceClaim, ...], policy: Policy) -> None:
        self.claims = claims
        self.plan = compile_plan(claims, world.inventory.classes, world.options.features)
        self._numbers: Mapping[str, int] = {}
        if claims and world.snapshot.slices:
            engine = None if world.options.engine is cel_engine else world.engine
            placer = Placer.of(world.inventory, engine)
            case = placer.case(claims, policy, world.options.features, WORK_LIMIT)
            case.index.sync()
            self._numbers = case.index.number

    def number(self, node: str) -> int:
        return self._numbers.get(node, -1)


def elsewhere(world: World, name: str, allocated: Sequence[ResourceClaim]) -> str | None:
    """Which allocated claim does not let the pod run on this node."""
    for claim in allocated:
        selector = claim.status.allocation.node_selector if claim.status.allocation else None
        if selector is None:
            continue
        try:
            if not matches(selector, name, world.inventory.labels(name)):
                return f"claim {claim.metadata.name} is allocated elsewhere{_where(claim)}"
        except NodeSelectorError as error:
            return f"the allocation of claim {claim.metadata.name} cannot be read: {error}"
    return None


def _where(claim: ResourceClaim) -> str:
    name = pinned(claim)
    return f" (node {name})" if name else ""


def pinned(claim: ResourceClaim) -> str | None:
    """The node that an allocation names, when it names one."""
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return None
    for term in allocation.node_selector.node_selector_terms:
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return None


# --- groups -------------------------------------------------------------------------------------------------

_ORDER = {step: number for number, step in enumerate(Step)}


def groups(found: Iterable[Kind]) -> tuple[Group, ...]:
    """Kinds that read alike as one, those nearest to a fit first, then the most nodes."""
    merged: dict[object, list[Kind]] = {}
    for kind in found:
        merged.setdefault(_reads(kind.answer), []).append(kind)
    built = [
        Group(
            nodes=tuple(sorted(name for kind in alike for name in kind.nodes)),
            answer=min(alike, key=lambda kind: kind.nodes[0]).answer,
        )
        for alike in merged.values()
    ]
    return tuple(sorted(built, key=lambda group: (nearness(group.answer), -len(group.nodes), group.nodes[0])))


def nearness(said: Answer) -> tuple[int, int, int]:
    """Sort key: fits first, then errors of the pod, then those that got furthest and lack fewest devices;
    filtered nodes last."""
    if said.step is Step.FITS:
        return 0, 0, 0
    if said.outcome == Outcome.ERROR.value and not said.on_node:
        return 1, 0, 0
    if said.outcome == FILTERED:
        return 3, -_ORDER[said.step], 0
    stops = [(funnel, funnel.stops_at()) for funnel in said.funnels]
    short = [max(funnel.need, 1) - stop.after for funnel, stop in stops if stop and stop.step is said.step]
    return 2, -_ORDER[said.step], min(short, default=0)


def _reads(said: Answer) -> object:
    counts = tuple(
        (funnel.request, tuple((stage.step, stage.label, stage.after) for stage in funnel.stages))
        for funnel in said.funnels
    )
    error = re.sub(r" on device [^:]+:", "", said.error or "")
    filtered = re.sub(r"\d[\d.]*\w*", "#", said.reason) if said.outcome == FILTERED else ""
    return said.outcome, said.step, said.scheduler if not error else (), error, counts, filtered
