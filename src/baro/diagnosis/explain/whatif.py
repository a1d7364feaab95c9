"""Near misses: the smallest changes with which the claims would fit, each confirmed by the allocator.

Three sorts. Changes to the claims (a selector, a constraint, a toleration, fewer devices) are tried on every
kind of node. Releases (which holders would have to go) are tried on the nodes that come nearest: one holder,
then two, then as few as are found by giving back one after another. Node filters are lifted one at a time.
All of it is bounded by a budget of allocations; what was not tried is not said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import msgspec

from baro.allocator import Plan, Policy, allocate, compile_plan
from baro.allocator.problem import Fatal, NodeProblem
from baro.diagnosis.explain.bench import Bench, Budget
from baro.diagnosis.explain.changes import applied, worth_trying
from baro.diagnosis.explain.funnel import some
from baro.diagnosis.explain.kinds import FILTERED, Kind, Question, elsewhere, nearness
from baro.diagnosis.explain.nodes import UNSCHEDULABLE_TAINT, rejection
from baro.diagnosis.explain.rejection import Rejection
from baro.diagnosis.explain.result import Change, Miss, MissKind, Step
from baro.diagnosis.explain.world import World
from baro.inventory import claim_name
from baro.model.kinds.core import Pod, Toleration
from baro.model.kinds.resource import ResourceClaim, ResourceSlice
from baro.model.quantity import QuantityError

_NEAREST = 4
"""Kinds of nodes on which releases are tried."""
_MOST_KINDS = 1_000
"""Kinds of nodes on which a change to the claims is tried; with more of them counts are "at least"."""
_MOST_FILTERED = 48
"""Nodes of one kind that are looked at with a filter lifted."""
_PAIRED = 10
"""Changes of which pairs are tried where none alone helps."""
_MOST_RELEASES = 4
"""Ways to release that are told of one node."""


def misses(world: World, question: Question, found: Sequence[Kind]) -> tuple[Miss, ...]:
    """What would do, the smallest changes first. Nothing when something fits already."""
    if any(kind.answer.step is Step.FITS for kind in found):
        return ()
    budget = Budget(world.options.work)
    asked = sorted(
        (kind for kind in found if kind.answer.outcome != FILTERED and kind.claims),
        key=lambda kind: (nearness(kind.answer), -len(kind.nodes), kind.nodes[0]),
    )
    told = [
        *_node_changes(world, question, found, budget),
        *_releases(world, question, asked, budget),
        *_claim_changes(world, question, asked, budget),
        *_whole_pools(world, question, asked, budget),
    ]
    if not told:
        told += _pairs(world, question, asked, budget)
    return tuple(sorted(told, key=_order))


def _order(miss: Miss) -> tuple[int, int, int]:
    """One holder, then what changes least of what was asked for, then more holders."""
    kinds = list(MissKind)
    changed = miss.changes[0]
    rank = kinds.index(changed.kind) * 2 + (changed.value is None)
    return len(miss.changes), rank, -miss.nodes


# --- changes to the claims ----------------------------------------------------------------------------------


class _Trial:
    """Changed claims, asked on kinds of nodes. Nothing else differs, so the cluster itself is asked."""

    def __init__(self, world: World, question: Question, kinds: Sequence[Kind], budget: Budget) -> None:
        self.kinds = kinds[:_MOST_KINDS]
        self.all_of_them = len(kinds) <= _MOST_KINDS
        self._world = world
        self._policy = question.policy
        self._budget = budget

    def helped(self, changes: Sequence[Change]) -> list[Kind]:
        """The kinds on which the changed claims fit."""
        plans: dict[int, Plan] = {}
        found = []
        for kind in self.kinds:
            if not self._budget.take():
                self.all_of_them = False
                break
            plan = plans.get(id(kind.claims))
            if plan is None:
                plan = plans[id(kind.claims)] = compile_plan(
                    applied(kind.claims, changes),
                    self._world.inventory.classes,
                    self._world.options.features,
                )
            if self._fits(kind.nodes[0], plan):
                found.append(kind)
        return found

    def _fits(self, node: str, plan: Plan) -> bool:
        try:
            return allocate(
                self._world.inventory,
                node,
                plan,
                policy=self._policy,
                features=self._world.options.features,
                selectors=self._world.engine,
            ).fits
        except KeyError:
            return False  # answers from a table (recorded selectors) know no new expressions

    def miss(self, changes: Sequence[Change], helped: Sequence[Kind], text: str) -> Miss:
        """The near miss that the kinds confirm."""
        return _miss(changes, helped, text, at_least=not self.all_of_them)


def _claim_changes(world: World, question: Question, asked: Sequence[Kind], budget: Budget) -> Iterator[Miss]:
    trial = _Trial(world, question, asked, budget)
    worth = _worth(world, asked)
    done: dict[object, bool] = {}
    for change in worth:
        place = (change.kind, change.claim, change.request, change.index, change.key)
        if change.value is None and done.get(place):
            continue  # a replacement does already, so nothing has to go
        helped = trial.helped((change,))
        if helped:
            done[place] = True
            yield trial.miss((change,), helped, _text_of_change(change, asked[0]))
    yield from _fewer(trial)


def _worth(world: World, asked: Sequence[Kind]) -> list[Change]:
    """Changes that the nearest kinds suggest, each once."""
    found: dict[Change, None] = {}
    for kind in asked[:_NEAREST]:
        problem = _problem(world, kind)
        if problem is not None:
            found |= dict.fromkeys(worth_trying(problem, kind.plan))
    return list(found)


def _problem(world: World, kind: Kind) -> NodeProblem | None:
    try:
        return NodeProblem(world.inventory, kind.nodes[0], kind.plan, world.options.features, world.engine)
    except (Fatal, QuantityError):
        return None


def _fewer(trial: _Trial) -> Iterator[Miss]:
    """The most devices with which each request would fit."""
    if not trial.kinds:
        return
    for claim in trial.kinds[0].plan.claims:
        for request in claim.requests:
            for alternative in request.alternatives:
                if alternative.all_devices or alternative.count < 2:
                    continue
                for count in range(alternative.count - 1, 0, -1):
                    change = Change(
                        kind=MissKind.COUNT, claim=claim.name, request=alternative.name, value=str(count)
                    )
                    helped = trial.helped((change,))
                    if helped:
                        of = f"{alternative.count} devices in request {alternative.name}"
                        text = f"with {count} instead of {of}"
                        yield trial.miss((change,), helped, text)
                        break


def _pairs(world: World, question: Question, asked: Sequence[Kind], budget: Budget) -> list[Miss]:
    """Two changes to the claims together, or one with everything released, where none alone helps."""
    trial = _Trial(world, question, asked[:_NEAREST], budget)
    trial.all_of_them = len(asked) <= _NEAREST
    worth = _worth(world, asked)[:_PAIRED]
    for two in combinations(worth, 2):
        pair = sorted(two, key=lambda change: -change.index)  # taking one out must not renumber the other
        if (pair[0].kind, pair[0].claim, pair[0].request, pair[0].index) == (
            pair[1].kind, pair[1].claim, pair[1].request, pair[1].index,
        ):  # fmt: skip
            continue
        helped = trial.helped(pair)
        if helped:
            text = " and ".join(_text_of_change(change, asked[0]) for change in pair)
            return [trial.miss(pair, helped, text)]
    return []


def _miss(changes: Sequence[Change], helped: Sequence[Kind], text: str, *, at_least: bool = False) -> Miss:
    nodes = sum(len(kind.nodes) for kind in helped)
    first = min(kind.nodes[0] for kind in helped)
    least = "at least " if at_least else ""
    where = f"node {first}" if nodes == 1 else f"{least}{nodes} nodes (first: {first})"
    return Miss(changes=tuple(changes), text=f"{text}, it would fit on {where}", nodes=nodes, first=first)


def _text_of_change(change: Change, kind: Kind) -> str:
    where = f"request {change.request}"
    match change.kind:
        case MissKind.SELECTOR if change.value is None:
            return f"without selector {change.index + 1} of {where}"
        case MissKind.SELECTOR:
            return f"with `{change.value}` as selector {change.index + 1} of {where}"
        case MissKind.TOLERATE:
            return f"if {where} tolerated the device taint {change.key}"
        case MissKind.CAPACITY if change.value is None:
            return f"without the capacity {change.key} in {where}"
        case MissKind.CAPACITY:
            return f"with {change.key} {change.value} in {where}"
        case MissKind.TOPOLOGY:
            return f"without `baro.dev/topology: required` on claim {change.claim}"
        case MissKind.CONSTRAINT:
            claim = next(item for item in kind.plan.claims if item.name == change.claim)
            constraint = claim.constraints[change.index]
            name = "distinctAttribute" if constraint.distinct else "matchAttribute"
            if change.value is not None:
                return f"with `{name}: {change.value}` in place of {constraint.attribute}"
            return f"without constraint {change.index + 1} ({name} {constraint.attribute})"
    return change.kind.value


# --- releases -----------------------------------------------------------------------------------------------


def _releases(world: World, question: Question, asked: Sequence[Kind], budget: Budget) -> Iterator[Miss]:
    for kind in asked[:_NEAREST]:
        bench = Bench(world, kind.nodes[0])
        wanted = {claim_name(claim) for claim in kind.claims}
        names = [name for claim in bench.holders() if (name := claim_name(claim)) not in wanted]
        if not names or not bench.fits(kind.claims, question.policy, names, budget):
            continue
        for released in _smallest(bench, kind.claims, question.policy, names, budget):
            changes = tuple(Change(kind=MissKind.RELEASE, claim=name) for name in released)
            freed = [_freed(world, bench, name) for name in released]
            text = f"node {kind.nodes[0]}: freeing {' and '.join(freed)} would do"
            yield Miss(changes=changes, text=text, nodes=1, first=kind.nodes[0])


def _smallest(
    bench: Bench, claims: Sequence[ResourceClaim], policy: Policy, names: Sequence[str], budget: Budget
) -> list[tuple[str, ...]]:
    """All single holders that would do, else pairs, else one set from which none can be left out."""
    for size in (1, 2):
        found = []
        for released in combinations(names, size):
            if bench.fits(claims, policy, released, budget):
                found.append(released)
                if len(found) == _MOST_RELEASES:
                    break
        if found:
            return found
        if budget.spent:
            return []
    needed = list(names)
    for name in names:
        rest = [other for other in needed if other != name]
        if bench.fits(claims, policy, rest, budget):
            needed = rest
    return [tuple(needed)] if not budget.spent else []


def _freed(world: World, bench: Bench, claim: str) -> str:
    """``gpu-6 (pod default/x)``: the devices of a holder on this node, and who it is."""
    keys = [
        key.device
        for key, shares in bench.inventory.usage.holders.items()
        if any(share.claim == claim for share in shares)
    ]
    return f"{some(sorted(keys))} ({world.holder(claim)})"


# --- pools and nodes ----------------------------------------------------------------------------------------


def _whole_pools(world: World, question: Question, asked: Sequence[Kind], budget: Budget) -> Iterator[Miss]:
    """If the slices of an incomplete pool that are there were all of it."""
    for kind in asked[:_NEAREST]:
        node = kind.nodes[0]
        for pool in world.inventory.pools(node).pools:
            if not pool.incomplete:
                continue
            bench = Bench(world, node)
            slices = [
                _of_size(item, len(pool.counter_slices))
                if (item.spec.driver, item.spec.pool.name) == (pool.driver, pool.name)
                else item
                for item in bench.snapshot.slices
            ]
            if bench.changed(slices).fits(kind.claims, question.policy, budget=budget):
                missing = pool.slices[0].slice_count - len(pool.counter_slices)
                text = (
                    f"once pool {pool.id} is complete ({abs(missing)} of {pool.slices[0].slice_count} slices"
                    f" {'are missing' if missing > 0 else 'too many'})"
                )
                yield _miss((Change(kind=MissKind.POOL, key=pool.id),), [kind], text)


def _of_size(item: ResourceSlice, count: int) -> ResourceSlice:
    pool = msgspec.structs.replace(item.spec.pool, resource_slice_count=count)
    return msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, pool=pool))


def _node_changes(world: World, question: Question, found: Sequence[Kind], budget: Budget) -> Iterator[Miss]:
    """Which filtered nodes would do if the pod tolerated or wanted them."""
    helped: dict[tuple[str, str], list[Kind]] = {}
    texts: dict[tuple[str, str], str] = {}
    for kind in found:
        out = kind.rejected
        if out is None or question.pod is None:
            continue
        trial = lifted(question.pod, out)
        if trial is None:
            continue
        text = trial.text
        for node in kind.nodes[:_MOST_FILTERED]:
            if trial.rejection(world, question, node) is None and would(world, question, kind, node, budget):
                place = (out.plugin, out.key)
                texts[place] = text
                helped.setdefault(place, []).append(msgspec.structs.replace(kind, nodes=(node,)))
    for place, nodes in helped.items():
        change = Change(kind=MissKind.NODE, key="/".join(place))
        yield _miss((change,), nodes, texts[place])


def would(world: World, question: Question, kind: Kind, node: str, budget: Budget) -> bool:
    """Whether the claims fit on a node that was not asked."""
    if elsewhere(world, node, question.allocated) is not None:
        return False
    if not kind.claims:
        return True
    return Bench(world, node).fits(kind.claims, question.policy, budget=budget)


class Lifted(msgspec.Struct, frozen=True):
    """One filter taken away: the pod as it would have to be, or the step left out, and how that reads."""

    pod: Pod
    text: str
    without: tuple[Step, ...] = ()

    def rejection(self, world: World, question: Question, node: str) -> Rejection | None:
        """The filter that rejects the node all the same."""
        return rejection(
            world, node, self.pod, planner=question.planner, of=question.pod, without=self.without
        )


def lifted(pod: Pod, out: Rejection) -> Lifted | None:
    """The filter of a rejection taken away; ``None`` for room, which is no filter of somebody's making."""
    match out.plugin:
        case "TaintToleration":
            name = out.key.partition(":")[0].partition("=")[0]
            return Lifted(_tolerating(pod, name), f"if the pod tolerated the node taint {out.key}")
        case "NodeUnschedulable":
            return Lifted(_tolerating(pod, UNSCHEDULABLE_TAINT), "if the node were uncordoned")
        case "NodeAffinity":
            spec = msgspec.structs.replace(pod.spec, node_selector={}, affinity=None)
            what = f"nodeSelector {out.key}" if "=" in out.key else "node affinity"
            return Lifted(msgspec.structs.replace(pod, spec=spec), f"without the pod's {what}")
    return Lifted(pod, out.lift, (out.step,)) if out.lift else None


def _tolerating(pod: Pod, key: str) -> Pod:
    toleration = Toleration(key=key, operator="Exists")
    spec = msgspec.structs.replace(pod.spec, tolerations=(*pod.spec.tolerations, toleration))
    return msgspec.structs.replace(pod, spec=spec)
