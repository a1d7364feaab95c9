"""What has been decided so far about an inventory: answers per kind of claims and class of nodes.

A question costs one evaluation per class that was not judged before, whatever the number of nodes; a change
of the inventory moves the nodes that it concerns to other classes. Claims that differ only in name share one
plan, in which placeholders stand for the names. One ``Placer`` belongs to an inventory and an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from baro.allocator import (
    Features,
    NodeDecision,
    Outcome,
    Plan,
    Policy,
    SelectorEngine,
    allocate,
    cel_engine,
    compile_plan,
)
from baro.inventory import Inventory, claim_name
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from baro.placement.candidates import Candidates, Selection, few
from baro.placement.classes import ClassIndex, KnowsColumns, Reading, reading_of
from baro.placement.demands import demands, wish
from baro.placement.facts import FactsTable

K = TypeVar("K")
V = TypeVar("V")
_MOST_PLANS = 256
_MOST_INDEXES = 32
_MOST_KINDS_OF_PODS = 32
_FEW = 16
"""Up to this part of the nodes is looked at by name, without finding out which others the pod may use."""
_SPARE_ANSWERS = 4096
"""Answers about classes that no node is in at present are kept up to about this number: classes come back."""


class Judged(msgspec.Struct, frozen=True):
    """The answer for a class, found on one node. ``level`` numbers answers of equal worth."""

    decision: NodeDecision
    stamp: tuple[int, int]
    """Of the node at that time."""
    level: int


class Case:
    """One kind of claims under one policy: the plan, and the answers so far by class number."""

    def __init__(
        self, plan: Plan, index: ClassIndex, policy: Policy, features: Features, work_limit: int
    ) -> None:
        self.plan = plan
        self.index = index
        self.policy = policy
        self.features = features
        self.work_limit = work_limit
        self.judged: dict[int, Judged] = {}
        self.worth: dict[int, tuple[float | None, ...]] = {}
        """Of classes on which pods of gangs were judged: what each claim's set is worth, as a rank."""
        self.refusals = frozenset(_refusals(plan))
        self.failing: set[int] = set()
        """Classes whose nodes give an error that may name a device, so each node has its own."""
        self.errors: dict[str, tuple[tuple[int, int], NodeDecision]] = {}
        """Node → stamp and answer, for members of failing classes."""
        self.levels: list[NodeDecision] = []
        """A decision for each level, without what is of one node only."""
        self._level_of: dict[NodeDecision, int] = {}
        self._most = _SPARE_ANSWERS

    def level(self, decision: NodeDecision) -> int:
        """The level of a decision: equal for decisions that an objective cannot tell apart."""
        bare = msgspec.structs.replace(
            decision, node="", allocations=(), work=0, reasons=(), error=None, on_node=False
        )
        found = self._level_of.get(bare)
        if found is None:
            found = self._level_of[bare] = len(self.levels)
            self.levels.append(bare)
        return found

    def trim(self, live: Callable[[], Iterable[int]]) -> None:
        """Forget answers about classes that are not there any more, once there are many."""
        if len(self.judged) > self._most:
            alive = set(live())
            # A new dictionary: who still reads the old one keeps it.
            self.judged = {number: self.judged[number] for number in alive & self.judged.keys()}
            self.worth = {number: self.worth[number] for number in alive & self.worth.keys()}
            self.failing &= alive
            self.errors.clear()
            self._most = 2 * len(self.judged) + _SPARE_ANSWERS


def _refusals(plan: Plan) -> Iterator[str | None]:
    """Errors that are about the claims and the same on every node."""
    for claim in plan.claims:
        yield claim.refusal
        for request in claim.requests:
            yield request.refusal
            yield from (alternative.refusal for alternative in request.alternatives)


class Placer:
    """Plans, indexes and answers for one inventory and one selector engine."""

    def __init__(self, inventory: Inventory, engine: SelectorEngine) -> None:
        self.inventory = inventory
        self.engine = engine
        self._cases: dict[object, Case] = {}
        self._indexes: dict[object, tuple[Reading, ClassIndex]] = {}
        self._facts: dict[bool, FactsTable] = {}
        self._candidates: dict[tuple[int, bytes], tuple[ClassIndex, Candidates]] = {}

    @classmethod
    def of(cls, inventory: Inventory, selectors: SelectorEngine | None = None) -> Placer:
        """The placer of an inventory, always the same one; with an engine of one's own a fresh one."""
        engine = selectors or cel_engine(inventory)
        found = inventory.derived.get(cls)
        if isinstance(found, cls) and found.engine is engine:
            return found
        fresh = cls(inventory, engine)
        if selectors is None:
            inventory.derived[cls] = fresh
        return fresh

    def case(self, claims: Sequence[ResourceClaim], policy: Policy, features: Features, limit: int) -> Case:
        """The case that these claims are. Their names do not matter."""
        table = self.inventory.table
        names = [claim_name(claim) for claim in claims]
        key = (
            msgspec.json.encode([(claim.spec, wish(claim)) for claim in claims]),
            tuple(map(names.index, names)),
            policy,
            features,
            limit,
            self.inventory.class_stamp,
            len(table.attributes),
            len(table.capacities),
        )
        found = _again(self._cases, key)
        if found is None:
            plan = compile_plan(_unnamed(claims, names), self.inventory.classes, features)
            fresh = Case(plan, self._index(plan, features), policy, features, limit)
            found = _kept(self._cases, key, fresh, _MOST_PLANS)
        return found

    def _index(self, plan: Plan, features: Features) -> ClassIndex:
        reading = reading_of(self.inventory.table, plan, self.engine, partitionable=features.partitionable)
        key = reading.key()
        found = _again(self._indexes, key)
        if found is None:
            facts = self._facts.get(reading.partitionable)
            if facts is None:
                facts = FactsTable(self.inventory, partitionable=reading.partitionable)
                self._facts[reading.partitionable] = facts
            engine = self.engine if isinstance(self.engine, KnowsColumns) else None
            index = ClassIndex(self.inventory, facts, reading, engine)
            found = _kept(self._indexes, key, (reading, index), _MOST_INDEXES)
        return found[1]

    def select(
        self, case: Case, pod: Pod | None, nodes: Iterable[str] | None, without: Collection[str]
    ) -> tuple[Selection, Candidates | None]:
        """The nodes that count, and the candidates that they are read from, if they are."""
        if nodes is None:
            candidates = self.candidates(case, pod)
            return candidates.but(without) if without else candidates.everything(), candidates
        if without or not isinstance(nodes, Collection):
            nodes = [node for node in nodes if node not in without]
        if _FEW * len(nodes) <= len(case.index.number):
            return few(self.inventory, case.index, pod, nodes), None
        candidates = self.candidates(case, pod)
        return candidates.only(nodes), candidates

    def candidates(self, case: Case, pod: Pod | None) -> Candidates:
        """The nodes that the pod may use, by class, as they are now."""
        key = (id(case.index), demands(pod))
        found = _again(self._candidates, key)
        if found is None:
            fresh = Candidates(self.inventory, case.index, pod)
            found = _kept(self._candidates, key, (case.index, fresh), _MOST_KINDS_OF_PODS)
        found[1].sync()
        return found[1]

    # --- answers -------------------------------------------------------------------------------------------

    def judge(self, case: Case, selection: Selection) -> int:
        """See to it that every class of the selection is judged. Returns how many evaluations that took."""
        case.trim(case.index.number.values)
        missing = selection.counts.keys() - case.judged.keys()
        work = len(missing)
        for first, number in sorted((selection.first(number), number) for number in missing):
            self.evaluate(case, number, first)
        for number in case.failing & selection.counts.keys():
            for node in selection.nodes(number):
                known = case.errors.get(node)
                if known is None or known[0] != self.inventory.stamp(node):
                    self.evaluate(case, number, node)
                    work += 1
        return work

    def answer(self, case: Case, number: int, node: str) -> NodeDecision | None:
        """The answer for that very node, if it still stands. One with shares does not: ids are unique."""
        known = case.judged[number]
        decision = known.decision
        if decision.node != node or known.stamp != self.inventory.stamp(node):
            return None
        results = (result for item in decision.allocations for result in item.devices.results)
        return None if any(result.share_id is not None for result in results) else decision

    def evaluate(self, case: Case, number: int, node: str) -> NodeDecision:
        """Ask the allocator about one node, and keep the answer for its class."""
        decision = allocate(
            self.inventory,
            node,
            case.plan,
            policy=case.policy,
            features=case.features,
            selectors=self.engine,
            work_limit=case.work_limit,
        )
        stamp = self.inventory.stamp(node)
        case.judged[number] = Judged(decision, stamp, case.level(decision))
        if decision.outcome is Outcome.ERROR and decision.error not in case.refusals:
            case.failing.add(number)
            case.errors[node] = (stamp, decision)
        return decision


def _again(cache: dict[K, V], key: K) -> V | None:
    """A value of a cache, or ``None``; it now counts as the newest."""
    value = cache.pop(key, None)
    if value is not None:
        cache[key] = value
    return value


def _kept(cache: dict[K, V], key: K, value: V, most: int) -> V:
    """Put a value into a cache; the oldest ones make room."""
    while len(cache) >= most:
        del cache[next(iter(cache))]
    cache[key] = value
    return value


# --- names -----------------------------------------------------------------------------------------------

_MARK = "\x00"
"""No name of an object has this character."""


def _unnamed(claims: Sequence[ResourceClaim], names: Sequence[str]) -> list[ResourceClaim]:
    """The claims with placeholders for their names; claims of one name share a placeholder."""
    return [
        msgspec.structs.replace(
            claim,
            metadata=msgspec.structs.replace(
                claim.metadata, namespace="", name=f"{_MARK}{names.index(name)}{_MARK}"
            ),
        )
        for claim, name in zip(claims, names, strict=True)
    ]


class Names:
    """Puts the names of claims back into texts about their plan."""

    def __init__(self, claims: Sequence[ResourceClaim]) -> None:
        self._names = [claim_name(claim) for claim in claims]

    def text(self, text: str) -> str:
        if _MARK in text:
            for number, name in enumerate(self._names):
                text = text.replace(f"{_MARK}{number}{_MARK}", name)
        return text

    def decision(self, decision: NodeDecision) -> NodeDecision:
        """The decision with the names of these claims in it."""
        error = None if decision.error is None else self.text(decision.error)
        reasons = tuple(map(self.text, decision.reasons))
        if error == decision.error and reasons == decision.reasons:
            return decision
        return msgspec.structs.replace(decision, error=error, reasons=reasons)
