"""Which loads of a gang one node can carry, how well, and what that costs others.

Nodes that are alike are asked once (``Placer``). A load is judged by the allocator as the claims of one pod,
so pods that share a node never get the same device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from math import floor, log
from typing import TypeAlias

import msgspec

from baro.allocator import Features, NodeDecision, Outcome, Policy, predict_set
from baro.allocator.graph import BAND
from baro.inventory import DeviceKey
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from baro.placement.board import loss_of
from baro.placement.gang.cover import Bin, Counts, Load, Meter, most
from baro.placement.gang.units import Kind
from baro.placement.nodes import reaches, why_excluded
from baro.placement.placer import Case, Placer

Room: TypeAlias = Callable[[str, Sequence[Pod]], bool]
"""Whether a node has room (CPU, memory, pods) for these pods at once. Where some fit, fewer of them do."""
Worth: TypeAlias = tuple[float | None, ...]
"""Per claim or kind; ``None`` where bandwidth does not matter."""
Grade: TypeAlias = tuple[int, int]
"""How far the worst unit of a load is from its best: rank of its alternatives, bands of bandwidth below."""
NodeClass: TypeAlias = tuple[int, tuple[bool, ...], tuple[bool, ...]]
"""Class number, kinds that may use the node, and loads for which there is room."""
WORST: Grade = (2**31, 2**31)
_MOST_LOADS = 1_500
"""Loads of several kinds that are looked at; beyond it others are left out and nothing is proved."""


class Graded(msgspec.Struct, frozen=True):
    """A load that fits, with the worth of each kind's worst set in it."""

    load: Load
    preference: int
    worth: Worth


class Options:
    """Loads per class of nodes for the kinds of one gang. ``unsure``: something was not decided, so that
    nothing is proved by what is missing here."""

    def __init__(
        self,
        placer: Placer,
        kinds: Sequence[Kind],
        policy: Policy,
        features: Features,
        work_limit: int,
        meter: Meter,
    ) -> None:
        self.unsure = False
        self.failed: dict[int, NodeDecision] = {}
        """Kind → an error that concerns its claims as such, or that of one node."""
        self._placer = placer
        self._kinds = kinds
        self._policy = policy
        self._features = features
        self._limit = work_limit
        self._meter = meter
        self._cases: dict[Counts, Case] = {}
        self._graded: dict[tuple[Counts, int], Graded | None] = {}
        self._wanted = tuple(len(kind.units) for kind in kinds)
        self._grown = 0
        self._best: list[float] = [0.0] * len(kinds)
        self._classes: dict[NodeClass, list[str]] = {}
        self._loads: dict[tuple[int, tuple[bool, ...]], tuple[Graded, ...]] = {}

    # --- classes of nodes ----------------------------------------------------------------------------------

    def bins(self, nodes: Iterable[str], room: Room | None) -> dict[NodeClass, list[str]]:
        """The nodes by class. Judges loads on every class; afterwards ``bin`` tells what they carry."""
        whole = self._case(tuple(1 for _ in self._kinds))
        alike: dict[tuple[int, tuple[bool, ...]], list[str]] = {}
        for node in nodes:
            admitted = tuple(self.admits(kind, node) for kind in range(len(self._kinds)))
            if any(admitted):
                alike.setdefault((_number(whole, node), admitted), []).append(node)
        # Where several kinds have too many loads to look at all, the emptiest nodes come first.
        for key in sorted(alike, key=lambda key: (-self._free(key[1], alike[key][0]), alike[key][0])):
            self._loads[key] = tuple(self._grow(key[1], alike[key][0]))
        found: dict[NodeClass, list[str]] = {}
        for key, members in alike.items():
            for node in members:
                fitting = (
                    ()
                    if room is None
                    else tuple(room(node, self.pods(item.load.counts)) for item in self._loads[key])
                )
                found.setdefault((*key, fitting), []).append(node)
        self._classes = found
        return found

    def _free(self, admitted: tuple[bool, ...], node: str) -> int:
        """GPUs that units could take on a node."""
        free = 0
        for kind, may in enumerate(admitted):
            if may:
                self._judge(self.one(kind), node)
                case = self._case(self.one(kind))
                free = max(free, case.judged[_number(case, node)].decision.free_gpus)
        return free

    def bin(self, of: NodeClass, nodes: Sequence[str], grade: Grade) -> Bin:
        """Nodes of a class with the loads that are no worse than ``grade``."""
        loads = self._loads[of[0], of[1]]
        good = (
            item.load
            for at, item in enumerate(loads)
            if (not of[2] or of[2][at]) and self._grade(item) <= grade
        )
        return Bin(tuple(nodes), tuple(good))

    def grades(self, classes: Collection[NodeClass]) -> list[Grade]:
        """All grades that loads have, best first."""
        found = {
            self._grade(item)
            for of in classes
            for at, item in enumerate(self._loads[of[0], of[1]])
            if not of[2] or of[2][at]
        }
        return sorted(found)

    def admits(self, kind: int, node: str) -> bool:
        """Whether the pods of a kind may use the node at all."""
        inventory, of = self._placer.inventory, self._kinds[kind]
        if of.selectors and not reaches(inventory, node, of.selectors):
            return False
        return all(why_excluded(inventory, node, pod) is None for pod in of.pods or (None,))

    def alone(self, kind: int) -> bool:
        """Whether a unit of the kind fits on some node by itself."""
        return self.most(kind) > 0

    def most(self, kind: int) -> int:
        """How many units of a kind all nodes together carry when nothing else is there."""
        return most([self.bin(of, nodes, WORST) for of, nodes in self._classes.items()], kind)

    def _grade(self, item: Graded) -> Grade:
        bands = (
            floor(log(self._best[kind] / worth) / -log(BAND) + 1e-9)
            for kind, worth in enumerate(item.worth)
            if worth
        )
        return item.preference, max(bands, default=0)

    # --- loads of one class --------------------------------------------------------------------------------

    def _grow(self, admitted: tuple[bool, ...], node: str) -> Iterator[Graded]:
        """Loads that fit, from single units upwards: with a load each of its parts fits."""
        kinds = range(len(self._kinds))
        empty = tuple(0 for _ in kinds)
        fitting = {empty}
        newest = [empty]
        while newest:
            larger: dict[Counts, None] = {}
            for counts in newest:
                for kind in kinds:
                    if admitted[kind] and counts[kind] < self._wanted[kind]:
                        larger[_changed(counts, kind, 1)] = None
            newest = []
            for counts in larger:
                if any(counts[k] and _changed(counts, k, -1) not in fitting for k in kinds):
                    continue
                if len(kinds) > 1 and sum(counts) > 1:
                    self._grown += 1
                    if self._grown > _MOST_LOADS:
                        self.unsure = True
                        return
                graded = self._judge(counts, node)
                if graded is not None:
                    fitting.add(counts)
                    newest.append(counts)
                    yield graded

    def _judge(self, counts: Counts, node: str) -> Graded | None:
        """The load on one node, or ``None`` when it does not fit. Alike nodes share the answer."""
        case = self._case(counts)
        number = _number(case, node)
        key = (counts, number)
        if key in self._graded:
            return self._graded[key]
        known = case.judged.get(number)
        worth = case.worth.get(number)
        decision = known.decision if known else self._evaluate(case, node)
        if decision.fits and worth is None:
            if (
                known
            ):  # Found on a node that may have changed since; what sets are worth is read off this one.
                decision = self._evaluate(case, node)
            worth = case.worth[number] = self._worth(decision)
        self._graded[key] = graded = None if worth is None else self._found(counts, decision, worth)
        if not decision.fits:
            self._note(counts, decision)
        return graded

    def _evaluate(self, case: Case, node: str) -> NodeDecision:
        decision = self._placer.evaluate(case, _number(case, node), node)
        self._meter.spend(1 + decision.work)
        return decision

    def _found(self, counts: Counts, decision: NodeDecision, worth: Worth) -> Graded | None:
        if not decision.fits:
            return None
        of_kind: list[float | None] = [None] * len(counts)
        values = iter(worth)
        for kind, count in enumerate(counts):
            for _ in range(count * len(self._kinds[kind].claims)):
                value, worst = next(values), of_kind[kind]
                if value is not None:
                    self._best[kind] = max(self._best[kind], value)
                    of_kind[kind] = value if worst is None else min(worst, value)
        score, worst_of = decision.score, tuple(of_kind)
        if score is None:
            return Graded(Load(counts), 0, worst_of)
        cost = (-round(score.closeness), score.nic, *loss_of(score), score.free_after)
        return Graded(Load(counts, cost), max(score.preference, default=0), worst_of)

    def _note(self, counts: Counts, decision: NodeDecision) -> None:
        """Remember what keeps an answer from being proved, and errors of units by themselves."""
        if decision.outcome is Outcome.GAVE_UP:
            self.unsure = True
        if decision.outcome is Outcome.ERROR and sum(counts) == 1:
            kind = counts.index(1)
            known = self.failed.get(kind)
            if known is None or (known.on_node and not decision.on_node):
                self.failed[kind] = decision

    def _worth(self, decision: NodeDecision) -> Worth:
        """Per claim: predicted bandwidth of its set of two GPUs or more, as a rank."""
        if self._policy is Policy.FIRST_FIT:
            return (None,) * len(decision.allocations)
        found: list[float | None] = []
        for allocation in decision.allocations:
            keys = [DeviceKey(r.driver, r.pool, r.device) for r in allocation.devices.results]
            told = predict_set(self._placer.inventory, decision.node, keys) if len(keys) > 1 else None
            found.append(None if told is None else told.score)
        return tuple(found)

    # --- cases ---------------------------------------------------------------------------------------------

    def _case(self, counts: Counts) -> Case:
        """The claims of a load as one question. Their names do not matter, and differ."""
        case = self._cases.get(counts)
        if case is None:
            claims = self.claims(counts)
            case = self._placer.case(claims, self._policy, self._features, self._limit)
            self._cases[counts] = case
        return case

    def claims(self, counts: Counts) -> list[ResourceClaim]:
        """The claims of a load, kind by kind, unit by unit, under names of their own."""
        return [
            named(claim, f"{kind}-{unit}-{index}")
            for kind, count in enumerate(counts)
            for unit in range(count)
            for index, claim in enumerate(self._kinds[kind].claims)
        ]

    def one(self, kind: int) -> Counts:
        """The load of a single unit."""
        return tuple(int(kind == other) for other in range(len(self._kinds)))

    def pods(self, counts: Counts) -> tuple[Pod, ...]:
        """The pods of a load, as far as they are known."""
        return tuple(pod for kind, count in enumerate(counts) for pod in self._kinds[kind].pods * count)

    def allocate(self, counts: Counts, node: str) -> NodeDecision:
        """The load on this very node, as things are now."""
        case = self._case(counts)
        number = _number(case, node)
        known = self._placer.answer(case, number, node) if number in case.judged else None
        return known or self._evaluate(case, node)


def named(claim: ResourceClaim, name: str) -> ResourceClaim:
    """The claim under another name."""
    metadata = msgspec.structs.replace(claim.metadata, namespace="gang", name=name)
    return msgspec.structs.replace(claim, metadata=metadata)


def _number(case: Case, node: str) -> int:
    case.index.sync()
    number = case.index.number.get(node)
    return case.index.assign(node) if number is None else number


def _changed(counts: Counts, kind: int, by: int) -> Counts:
    return (*counts[:kind], counts[kind] + by, *counts[kind + 1 :])
