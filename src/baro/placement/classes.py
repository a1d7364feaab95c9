"""Nodes that are alike for a set of claims: one evaluation serves them all.

Two nodes are in one class if their devices, in allocation order, agree in everything that the claims'
selectors read, in the *pattern* of everything of which only equality matters (constraints, islands,
switches), in what is in use and in what few devices have (taints, counters, capacities). Classes are exact:
nodes of one class get the same decision, up to the names of devices. A change moves only the nodes that it
concerns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Protocol, runtime_checkable

import msgspec

from baro.allocator import Plan
from baro.allocator.plan import Alternative
from baro.cel.device import ColumnRef
from baro.inventory import Inventory
from baro.inventory.columns import Column, DeviceTable
from baro.placement.facts import (
    GROUPED_BY_GRAPH,
    READ_BY_GRAPH,
    FactsTable,
    NodeFacts,
    codes_of,
    pattern_of,
)

_MANY_VALUES = 1024
"""A selector that reads a column of more values than this is compared by its answers, not by the values."""


@runtime_checkable
class KnowsColumns(Protocol):
    """A selector engine that can tell what an expression reads."""

    def columns(self, expression: str) -> tuple[ColumnRef, ...] | None:
        """The columns, or ``None`` for whole maps."""

    def broken(self, rows: Sequence[int]) -> bool:
        """Whether every selector fails on one of these devices."""

    def answers(self, expression: str) -> Sequence[int]:
        """Per row 0 (no), 1 (yes) or 2 (error), as of the last ``refresh``."""

    def refresh(self, expression: str, rows: Sequence[int] | None) -> None:
        """These rows (``None``: all) have changed or come; ``answers`` must be true of them again."""


class Reading(msgspec.Struct, frozen=True):
    """What of the devices a plan looks at. Plans with equal readings share an index."""

    exact: tuple[Column, ...] = ()
    grouped: tuple[tuple[Column, ...], ...] = ()
    """Columns of one attribute id, whose values are compared with each other only."""
    selectors: tuple[str, ...] = ()
    """Expressions of which the answer itself is compared."""
    partitionable: bool = True
    comparable: bool = True
    """False: the engine cannot tell what selectors read, so each node is judged by itself."""

    def key(self) -> object:
        """Equal keys: equal readings. Columns count by identity."""
        grouped = tuple(tuple(map(id, columns)) for columns in self.grouped)
        return (tuple(map(id, self.exact)), grouped, self.selectors, self.partitionable, self.comparable)


def reading_of(table: DeviceTable, plan: Plan, selectors: object, *, partitionable: bool) -> Reading:
    """What the selectors, constraints and capacities of a plan read beside what ``NodeFacts`` compare."""
    if not isinstance(selectors, KnowsColumns):
        return Reading(partitionable=partitionable, comparable=False)
    exact: list[Column | None] = []
    answered: list[str] = []
    for _, _, alternative in plan.alternatives():
        for selector in alternative.selectors:
            found = _columns_read(table, selectors, selector.expression)
            if found is None:
                answered.append(selector.expression)
            else:
                exact += found
        for expression in _derivations(plan, alternative):
            # Imported with CEL, which claims without derived attributes need not pay.
            from baro.allocator.derived import derivation  # noqa: PLC0415

            compiled = derivation(expression)
            if not isinstance(compiled, str):
                if compiled.columns is None:
                    return Reading(partitionable=partitionable, comparable=False)
                exact += [_column(table, ref) for ref in compiled.columns]
        if alternative.capacity:
            exact += table.capacities.values()
    wanted = {item.attribute.rpartition("/")[2] for claim in plan.claims for item in claim.constraints}
    grouped: dict[str, list[Column]] = {}
    known = set()
    for (_, identifier), column in table.attributes.items():
        if identifier in READ_BY_GRAPH:
            known.add(id(column))
        elif identifier in wanted and identifier not in GROUPED_BY_GRAPH:
            grouped.setdefault(identifier, []).append(column)
    return Reading(
        exact=_once(column for column in exact if id(column) not in known),
        grouped=tuple(tuple(columns) for columns in grouped.values()),
        selectors=tuple(dict.fromkeys(answered)),
        partitionable=partitionable,
    )


def _derivations(plan: Plan, alternative: Alternative) -> tuple[str, ...]:
    """The expressions by which a request finds what its constraints compare."""
    claim = next(
        claim
        for claim in plan.claims
        for request in claim.requests
        if any(item.id == alternative.id for item in request.alternatives)
    )
    found = (
        claim.constraints[index].views[view]
        for index, view in zip(alternative.constraints, alternative.views, strict=True)
    )
    return tuple(expression for expression in found if expression is not None)


def _column(table: DeviceTable, ref: ColumnRef) -> Column | None:
    columns = {"attribute": table.attributes, "capacity": table.capacities}.get(ref.kind, {})
    return columns.get((ref.domain, ref.name))


def _once(columns: Iterable[Column | None]) -> tuple[Column, ...]:
    return tuple({id(column): column for column in columns if column is not None}.values())


def _columns_read(table: DeviceTable, selectors: KnowsColumns, expression: str) -> list[Column] | None:
    """The columns to compare; ``None`` where comparing the answers is what helps."""
    read = selectors.columns(expression)
    if read is None:
        return None
    found: list[Column] = []
    for ref in read:
        column = _column(table, ref)
        if column is not None:
            if len(column.vocabulary) > _MANY_VALUES:
                return None
            found.append(column)
    return found


class ClassIndex:
    """Class number per node, for one reading. A node that nothing can be compared with has a number of its
    own, a new one after every change."""

    def __init__(
        self, inventory: Inventory, facts: FactsTable, reading: Reading, selectors: KnowsColumns | None
    ) -> None:
        self.number: dict[str, int] = {}
        self._inventory = inventory
        self._facts = facts
        self._reading = reading
        self._selectors = selectors
        self._static: dict[str, int | None] = {}
        self._static_ids: dict[object, int] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._next = count()
        self._seen = 0

    def sync(self) -> None:
        """Number anew what has changed."""
        log = self._inventory.changes
        if self._seen == log.now:
            return
        changes = log.since(self._seen)
        structure, nodes = changes.structure, changes.nodes
        self._seen = log.now
        self._facts.sync()
        if structure is None or len(self._static_ids) + len(self._numbers) > self._limit():
            # Classes that no node is in any more are forgotten too. Numbers are never used again.
            structure = nodes = None
            for kept in (self._static, self._static_ids, self._numbers):
                kept.clear()
        for node in structure or ():
            self._static.pop(node, None)
        self._answer(structure)
        if nodes is None:
            self.number = {node: self.assign(node) for node in self._inventory.node_names()}
            return
        for node in nodes:
            if self._inventory.has_node(node):
                self.number[node] = self.assign(node)
            else:
                self.number.pop(node, None)

    def _limit(self) -> int:
        return 8 * len(self.number) + 8192

    def _answer(self, nodes: frozenset[str] | None) -> None:
        """Let the engine look again at the devices of nodes that changed."""
        if self._selectors is not None and (nodes is None or nodes):
            for expression in self._reading.selectors:
                rows = (
                    None if nodes is None else [row for node in nodes for row in self._facts.get(node).rows]
                )
                self._selectors.refresh(expression, rows)

    def assign(self, node: str) -> int:
        """The number of the class that the node is in now."""
        facts = self._facts.get(node)
        if node not in self._static:
            self._static[node] = self._find_static(facts)
        static = self._static[node]
        if static is None or any(map(self._inventory.keeps_consumption, facts.pools)):
            return next(self._next)
        mask = facts.in_use(self._inventory.usage.holders)
        if mask is None:
            return next(self._next)
        key = (static, mask)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = next(self._next)
        return number

    def _find_static(self, facts: NodeFacts) -> int | None:
        """What the node is like apart from use, as a number; ``None`` for a node to be judged by itself."""
        if facts.alike is None or not self._reading.comparable or self._selectors is None:
            return None
        if self._selectors.broken(facts.rows):
            return None
        parts: list[object] = [facts.alike]
        for expression in self._reading.selectors:
            answers = self._selectors.answers(expression)
            parts.append(bytes(answers[row] for row in facts.rows))
        parts += [codes_of(column, facts.rows, facts.span).tobytes() for column in self._reading.exact]
        parts += [pattern_of(columns, facts.rows, facts.span) for columns in self._reading.grouped]
        return self._static_ids.setdefault(tuple(parts), next(self._next))
