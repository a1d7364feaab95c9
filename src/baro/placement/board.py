"""All answers to one question, by class: which class wins, how many lose why, and each node's answer.

Works on classes and their sizes. What every single node answered is put together only when somebody reads
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import msgspec

from baro.allocator import NodeDecision, Policy, Score
from baro.inventory import Inventory
from baro.placement.candidates import Selection
from baro.placement.placer import Case, Names

_BAND = 0.93
"""Nodes within 7 % of the best count as equally fast, and their sets as equally close."""


class Group(msgspec.Struct, frozen=True):
    """Nodes with one answer; ``first`` is the first of them by name."""

    first: str
    count: int
    decision: NodeDecision


class Board:
    """Every class of the selection must have been judged."""

    def __init__(self, case: Case, selection: Selection) -> None:
        self._case = case
        self._selection = selection
        judged = case.judged
        tally = [0] * len(case.levels)
        for number, count in selection.counts.items():
            tally[judged[number].level] += count
        self._tally = tally

    def tally(self) -> Iterator[tuple[NodeDecision, int]]:
        """Answers of different worth, without what is of one node only, and how many nodes gave them."""
        return ((self._case.levels[level], count) for level, count in enumerate(self._tally) if count)

    def winner(self) -> tuple[str, int] | None:
        """(node, class) of the best node, or ``None`` when nothing fits."""
        case, selection = self._case, self._selection
        front = {id(d) for d in leading([d for d, _ in self.tally() if d.fits], case.policy)}
        if not front:
            return None
        levels = {level for level, decision in enumerate(case.levels) if id(decision) in front}
        judged = case.judged
        return min(
            (selection.first(number), number) for number in selection.counts if judged[number].level in levels
        )

    def groups(self) -> list[Group]:
        """The answers in order of the first node that gave them. Errors are told node by node."""
        found: list[Group] = []
        for number, count in self._selection.counts.items():
            if number in self._case.failing:
                for node in self._selection.nodes(number):
                    found.append(Group(node, 1, self._case.errors[node][1]))
            else:
                decision = self._case.judged[number].decision
                found.append(Group(self._selection.first(number), count, decision))
        found.sort(key=lambda group: group.first)
        return found


def leading(decisions: Sequence[NodeDecision], policy: Policy) -> Sequence[NodeDecision]:
    """Those of some decisions that fit among which only the name of the node decides."""
    if policy is Policy.FIRST_FIT or not decisions:
        return decisions
    scores = [decision.score or Score() for decision in decisions]
    preferred = min(score.preference for score in scores)
    rest = [at for at, score in enumerate(scores) if score.preference == preferred]
    for worth_of in ([score.rank for score in scores], [score.closeness for score in scores]):
        top = max(worth_of[at] for at in rest)
        rest = [at for at in rest if worth_of[at] >= top * _BAND]
    worth = {at: (scores[at].nic, loss_of(scores[at]), scores[at].free_after) for at in rest}
    least = min(worth.values())
    return [decisions[at] for at in rest if worth[at] == least]


def loss_of(score: Score) -> tuple[int, ...]:
    """Groups lost to others, the largest first: comparable between machines."""
    lost = dict(score.loss)
    return tuple(lost.get(size, 0) for size in (16, 8, 4, 2))


class Decisions(Sequence[NodeDecision]):
    """The answer of every node that was asked, in order of name.

    A node that was judged together with an identical one has its answer and score, but no allocations. Put
    together when first read, at the latest when the inventory's next change is taken over.
    """

    def __init__(
        self,
        inventory: Inventory,
        case: Case,
        selection: Selection,
        winner: NodeDecision | None,
        names: Names,
    ) -> None:
        self._size = sum(selection.counts.values())
        self._items: tuple[NodeDecision, ...] | None = None
        failing = case.failing & selection.counts.keys()
        errors = {node: case.errors[node][1] for number in failing for node in selection.nodes(number)}
        self._open: tuple[Any, ...] = (inventory, case.judged, selection, winner, names, errors)

    def settle(self) -> Sequence[NodeDecision]:
        """Put the answers together while the candidates are still those that were asked."""
        if self._items is None:
            self._items = tuple(sorted(_each(*self._open), key=lambda decision: decision.node))
            self._open = ()
        return self._items

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> NodeDecision: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[NodeDecision]: ...
    def __getitem__(self, index: int | slice) -> NodeDecision | Sequence[NodeDecision]:
        return self.settle()[index]

    def __iter__(self) -> Iterator[NodeDecision]:
        return iter(self.settle())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(self.settle())


def _each(
    inventory: Inventory,
    judged: dict[int, Any],
    selection: Selection,
    winner: NodeDecision | None,
    names: Names,
    errors: dict[str, NodeDecision],
) -> Iterable[NodeDecision]:
    for number in selection.counts:
        known = judged[number]
        decision = names.decision(known.decision)
        reasons = () if decision.fits else decision.reasons
        for node in selection.nodes(number):
            if winner is not None and node == winner.node:
                yield winner
            elif node in errors:
                yield names.decision(errors[node])
            elif node == decision.node and inventory.stamp(node) == known.stamp:
                yield decision
            else:
                yield msgspec.structs.replace(decision, node=node, allocations=(), work=0, reasons=reasons)
