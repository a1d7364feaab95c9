"""The nodes that a pod may use, by class, with the first of each class at hand.

Kept per index and per kind of pod (what it tolerates and demands of nodes), and brought up to date node by
node. A ``Selection`` is what one question looks at: all candidates, or those that were named.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol
from weakref import ref

from baro.inventory import Inventory
from baro.model.kinds.core import Pod
from baro.placement.classes import ClassIndex
from baro.placement.nodes import why_excluded

_MOST_WAITING = 64
"""So many readers are remembered before those that are gone are struck off."""


class Settled(Protocol):
    """Something that reads the candidates late and must do so before they change."""

    def settle(self) -> object: ...


class Candidates:
    """Classes of nodes and their members, without the nodes that pods of this kind may not use."""

    def __init__(self, inventory: Inventory, index: ClassIndex, pod: Pod | None) -> None:
        self.members: dict[int, list[str]] = {}
        """Names per class, sorted."""
        self.number: dict[str, int] = {}
        """Class per node that may be used."""
        self._waiting: list[ref[Settled]] = []
        self._inventory = inventory
        self._index = index
        self._pod = pod
        self._excluded: dict[str, str] = {}
        self._in_order: tuple[tuple[str, str], ...] | None = ()
        self._seen = 0

    def sync(self) -> None:
        """Take over what has changed since the last question."""
        self._index.sync()
        log = self._inventory.changes
        if self._seen == log.now:
            return
        changes = log.since(self._seen)
        self._seen = log.now
        for late in self._waiting:
            reader = late()
            if reader is not None:
                reader.settle()
        self._waiting.clear()
        nodes: Collection[str] | None = changes.nodes
        if nodes is None:
            nodes = set(self._inventory.node_names()) | self.number.keys() | self._excluded.keys()
        for node in nodes if changes.structure is None else changes.structure:
            self._judge(node)
        for node in nodes:
            self._move(node)

    def settle_before_change(self, reader: Settled) -> None:
        """Tell a reader before anything here changes, if it is still there then."""
        if len(self._waiting) >= _MOST_WAITING:
            self._waiting = [late for late in self._waiting if late() is not None]
        self._waiting.append(ref(reader))

    def _judge(self, node: str) -> None:
        """May the node be used at all?"""
        why = why_excluded(self._inventory, node, self._pod) if self._inventory.has_node(node) else None
        if why != self._excluded.get(node):
            self._in_order = None
            if why is None:
                del self._excluded[node]
            else:
                self._excluded[node] = why

    def _move(self, node: str) -> None:
        new = None if node in self._excluded else self._index.number.get(node)
        old = self.number.get(node)
        if old == new:
            return
        if old is not None:
            names = self.members[old]
            del names[bisect_left(names, node)]
            if not names:
                del self.members[old]
            del self.number[node]
        if new is not None:
            insort(self.members.setdefault(new, []), node)
            self.number[node] = new

    @property
    def excluded(self) -> tuple[tuple[str, str], ...]:
        """(node, why) of all nodes that may not be used, in order of name."""
        if self._in_order is None:
            self._in_order = tuple(sorted(self._excluded.items()))
        return self._in_order

    def everything(self) -> Selection:
        """All candidates."""
        return _All(self, self.excluded)

    def but(self, nodes: Collection[str]) -> Selection:
        """All candidates but these. What that costs grows with their number only."""
        if not isinstance(nodes, set | frozenset):
            nodes = frozenset(nodes)
        excluded = tuple(item for item in self.excluded if item[0] not in nodes)
        return _AllBut(self, nodes, excluded) if nodes else self.everything()

    def only(self, nodes: Iterable[str]) -> Selection:
        """Those of these nodes that may be used. A name that the inventory does not know is a node without
        devices."""
        if isinstance(nodes, list | tuple) and tuple(nodes) == self._inventory.node_names():
            return self.everything()
        wanted = nodes if isinstance(nodes, set | frozenset) else frozenset(nodes)
        unknown = wanted.difference(self.number, self._excluded)
        if not unknown and 2 * len(wanted) > len(self.number):
            excluded = tuple(item for item in self.excluded if item[0] in wanted)
            if len(wanted) - len(excluded) == len(self.number):
                return _All(self, excluded)
            return _AllBut(self, set(self.number).difference(wanted), excluded)
        return _named(wanted, self._index, self._excluded.get)


def few(inventory: Inventory, index: ClassIndex, pod: Pod | None, nodes: Collection[str]) -> Selection:
    """Those of a few nodes that the pod may use, found without looking at any other node."""
    index.sync()
    return _named(nodes, index, lambda node: why_excluded(inventory, node, pod))


def _named(nodes: Iterable[str], index: ClassIndex, why_not: Callable[[str], str | None]) -> Selection:
    groups: dict[int, list[str]] = {}
    excluded: list[tuple[str, str]] = []
    for node in sorted(set(nodes)):
        why = why_not(node)
        if why is not None:
            excluded.append((node, why))
        else:
            number = index.number.get(node)
            groups.setdefault(index.assign(node) if number is None else number, []).append(node)
    return _Named(groups, tuple(excluded))


class Selection(ABC):
    """Classes with the nodes that count in one question."""

    counts: Mapping[int, int]
    """Class number → how many nodes."""
    excluded: tuple[tuple[str, str], ...]
    """(node, why) of those that were asked for and may not be used, in order of name."""

    @abstractmethod
    def first(self, number: int) -> str:
        """The first node of a class, in order of name."""

    @abstractmethod
    def nodes(self, number: int) -> Sequence[str]:
        """All nodes of a class, in order of name."""


class _All(Selection):
    def __init__(self, candidates: Candidates, excluded: tuple[tuple[str, str], ...]) -> None:
        self._members = candidates.members
        self.counts = {number: len(names) for number, names in candidates.members.items()}
        self.excluded = excluded

    def first(self, number: int) -> str:
        return self._members[number][0]

    def nodes(self, number: int) -> Sequence[str]:
        return self._members[number]


class _AllBut(Selection):
    def __init__(
        self, candidates: Candidates, without: Collection[str], excluded: tuple[tuple[str, str], ...]
    ) -> None:
        self._members = candidates.members
        self._without = without
        counts = {number: len(names) for number, names in candidates.members.items()}
        for number in map(candidates.number.get, without):
            if number is not None:
                counts[number] -= 1
        self.counts = {number: count for number, count in counts.items() if count}
        self.excluded = excluded

    def first(self, number: int) -> str:
        return next(name for name in self._members[number] if name not in self._without)

    def nodes(self, number: int) -> Sequence[str]:
        return [name for name in self._members[number] if name not in self._without]


class _Named(Selection):
    def __init__(self, groups: Mapping[int, list[str]], excluded: tuple[tuple[str, str], ...]) -> None:
        self._groups = groups
        self.counts = {number: len(names) for number, names in groups.items()}
        self.excluded = excluded

    def first(self, number: int) -> str:
        return self._groups[number][0]

    def nodes(self, number: int) -> Sequence[str]:
        return self._groups[number]
