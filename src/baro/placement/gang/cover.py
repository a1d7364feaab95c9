"""How many nodes carry which load, so that everything wanted is carried by as few nodes as possible.

Numbers only: *bins* are nodes that can carry the same *loads*, a load says how many units of each kind. What
a unit or a node is, nobody here knows. With one kind of unit the answer is exact by counting. With several it
is a search with counting bounds and a memo of failed states, which gives up at a work limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

Counts: TypeAlias = tuple[int, ...]
"""How many units of each kind."""
_IMPROVE = 3_000
"""Work spent on fewer nodes once some way is known."""
_DEEPEST = 400
"""Nodes with loads of their own in one solution of the search; more are left to the greedy pass."""


class Load(msgspec.Struct, frozen=True):
    """What one node may carry. ``cost`` compares loads of equal counts: less is better."""

    counts: Counts
    cost: tuple[float, ...] = ()


class Bin(msgspec.Struct, frozen=True):
    """Nodes (in order of name) that can carry the same loads. With a load its parts are loads too."""

    nodes: tuple[str, ...]
    loads: tuple[Load, ...]


class OutOfWork(Exception):  # noqa: N818 - an end of the search, not a fault
    """The work limit was reached before a solution was found or excluded."""


class Meter:
    """Counts work; ``spend`` raises ``OutOfWork`` beyond the limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.done = 0

    def spend(self, amount: int = 1) -> None:
        self.done += amount
        if self.done > self.limit:
            raise OutOfWork


Chosen: TypeAlias = tuple[tuple[str, Load], ...]
"""Node and what it carries."""


def cover(bins: Sequence[Bin], wanted: Counts, meter: Meter) -> Chosen | None:
    """Nodes and loads that sum up to ``wanted`` exactly, on as few nodes as could be found.

    ``None``: there is no way, and that is proved. Raises ``OutOfWork`` when neither is known. The number of
    nodes is the least with one kind of unit; with several it is, unless the work limit ends the search for
    fewer. Nodes of equal loads are taken by least cost, then by name.
    """
    bins = [item for item in bins if item.loads and item.nodes]
    weights = _weights(bins, wanted)
    if any(_total(bins, weight) < _dot(weight, wanted) for weight in weights):
        return None
    ordered = sorted(bins, key=lambda item: _order(item, weights[-1]))
    found = _greedy(ordered, wanted, weights[-1])
    if len(wanted) > 1:
        found = _search(ordered, wanted, weights, meter, found)
    return None if found is None else _cheapest(ordered, found)


def least_nodes(bins: Sequence[Bin], wanted: Counts) -> int | None:
    """No way has fewer nodes than this; ``None`` when counting excludes every way."""
    weights = _weights(bins, wanted)
    if not bins or any(_total(bins, weight) < _dot(weight, wanted) for weight in weights):
        return None
    return _least_nodes(bins, wanted, weights)


def capacity(bins: Sequence[Bin], wanted: Counts) -> float:
    """How much the bins carry, in units weighed by the part of the largest node that one takes."""
    if not bins:
        return 0.0
    weight = _weights(bins, wanted)[-1]
    return _total(bins, weight) / max(weight)


def most(bins: Sequence[Bin], kind: int) -> int:
    """How many units of one kind the bins carry when nothing else is there."""
    return sum(len(item.nodes) * max((load.counts[kind] for load in item.loads), default=0) for item in bins)


# --- counting --------------------------------------------------------------------------------------------


def _dot(weight: Sequence[float], counts: Counts) -> float:
    return sum(w * c for w, c in zip(weight, counts, strict=True))


def _capacity(item: Bin, weight: Sequence[float]) -> float:
    return max(_dot(weight, load.counts) for load in item.loads)


def _total(bins: Sequence[Bin], weight: Sequence[float]) -> float:
    return sum(len(item.nodes) * _capacity(item, weight) for item in bins)


def _weights(bins: Sequence[Bin], wanted: Counts) -> list[tuple[float, ...]]:
    """Ways to count: each kind alone, all alike, and last by the part of a node that a unit takes."""
    kinds = range(len(wanted))
    alone = [tuple(float(kind == other) for other in kinds) for kind in kinds]
    if len(wanted) == 1:
        return alone
    largest = [max((load.counts[k] for item in bins for load in item.loads), default=0) for k in kinds]
    # Products of the largest counts keep the shares exact: 1/a and 1/b become b and a.
    scale = 1
    for count in largest:
        scale *= max(count, 1)
    shares = tuple(float(scale // max(count, 1)) for count in largest)
    return [*alone, tuple(1.0 for _ in kinds), shares]


def _order(item: Bin, weight: Sequence[float]) -> tuple[object, ...]:
    best = max(item.loads, key=lambda load: _dot(weight, load.counts))
    return -_dot(weight, best.counts), best.cost, item.nodes[0]


def _least_nodes(bins: Sequence[Bin], wanted: Counts, weights: Sequence[Sequence[float]]) -> int:
    """No solution has fewer nodes than this."""
    bound = 0
    for weight in weights:
        left = _dot(weight, wanted)
        count = 0
        for capacity, nodes in sorted(((_capacity(b, weight), len(b.nodes)) for b in bins), reverse=True):
            if left <= 0:
                break
            if capacity <= 0:
                return count + 1
            needed = min(nodes, int(-(-left // capacity)))
            count += needed
            left -= needed * capacity
        bound = max(bound, count)
    return bound


# --- one pass --------------------------------------------------------------------------------------------


def _fitting(item: Bin, left: Counts) -> Iterator[Load]:
    return (load for load in item.loads if all(c <= r for c, r in zip(load.counts, left, strict=True)))


def _less(left: Counts, load: Load, times: int = 1) -> Counts:
    return tuple(r - times * c for r, c in zip(left, load.counts, strict=True))


def _greedy(bins: Sequence[Bin], wanted: Counts, weight: Sequence[float]) -> list[tuple[int, Load]] | None:
    """Largest loads first: (bin, load) per node. With one kind nothing uses fewer nodes."""
    left = wanted
    found: list[tuple[int, Load]] = []
    for number, item in enumerate(bins):
        for _ in item.nodes:
            load = max(
                _fitting(item, left),
                key=lambda load: (_dot(weight, load.counts), tuple(-c for c in load.cost)),
                default=None,
            )
            if load is None:
                break
            found.append((number, load))
            left = _less(left, load)
            if not any(left):
                return found
    return None


def _cheapest(bins: Sequence[Bin], found: Sequence[tuple[int, Load]]) -> Chosen:
    """The same counts on the nodes where they cost least: the largest loads choose first."""
    free = [list(item.nodes) for item in bins]
    options: dict[Counts, list[tuple[tuple[float, ...], str, int, Load]]] = {}
    for counts in {load.counts for _, load in found}:
        able = (
            (load.cost, item.nodes[0], number, load)
            for number, item in enumerate(bins)
            for load in item.loads
            if load.counts == counts
        )
        options[counts] = sorted(able, key=lambda option: option[:3])
    chosen: list[tuple[str, Load]] = []
    by_size = sorted(found, key=lambda pick: (-sum(pick[1].counts), pick[1].counts, pick[0]))
    for _, load in by_size:
        # Able are at most as many as there are bins; the search found a node for each, but another load may
        # have taken it meanwhile: then this one takes the next, and in the end the one that gave way.
        for _, _, number, option in options[load.counts]:
            if free[number]:
                chosen.append((free[number].pop(0), option))
                break
        else:
            return _as_found(bins, found)
    return tuple(chosen)


def _as_found(bins: Sequence[Bin], found: Sequence[tuple[int, Load]]) -> Chosen:
    free = [list(item.nodes) for item in bins]
    return tuple((free[number].pop(0), load) for number, load in found)


# --- several kinds ---------------------------------------------------------------------------------------


def _search(
    bins: Sequence[Bin],
    wanted: Counts,
    weights: Sequence[Sequence[float]],
    meter: Meter,
    found: list[tuple[int, Load]] | None,
) -> list[tuple[int, Load]] | None:
    """A way on few nodes, ``found`` if nothing better; ``None`` is proved by exhausting the states."""
    if found is None:
        everything = min(sum(len(item.nodes) for item in bins), sum(wanted))
        found = _Search(bins, weights, meter).run(wanted, everything)
    return None if found is None else _fewer(bins, wanted, weights, meter, found)


def _fewer(
    bins: Sequence[Bin],
    wanted: Counts,
    weights: Sequence[Sequence[float]],
    meter: Meter,
    found: list[tuple[int, Load]],
) -> list[tuple[int, Load]]:
    """Fewer nodes than ``found``, if some are found soon."""
    own = Meter(_IMPROVE)
    try:
        for limit in range(_least_nodes(bins, wanted, weights), len(found)):
            better = _Search(bins, weights, own).run(wanted, limit)
            if better is not None:
                return better
    except OutOfWork:
        pass
    finally:
        meter.done += own.done
    return found


class _Search:
    """Bins in order, each carrying loads in falling order; states that failed are not entered again."""

    def __init__(self, bins: Sequence[Bin], weights: Sequence[Sequence[float]], meter: Meter) -> None:
        self._bins = bins
        self._weights = weights
        self._meter = meter
        self._failed: set[tuple[int, int, int, Counts, int]] = set()
        share = weights[-1]
        self._loads = [
            sorted(item.loads, key=lambda load: (-_dot(share, load.counts), load.counts, load.cost))
            for item in bins
        ]
        self._rest: list[list[float]] = [[0.0] * len(weights)]
        """Per bin: what it and all later bins carry, by each way to count."""
        self._top: list[list[float]] = [[0.0] * len(weights)]
        """Per bin: the most that one node of it or a later bin carries."""
        for item in reversed(bins):
            one = [_capacity(item, weight) for weight in weights]
            self._rest.append([r + len(item.nodes) * c for r, c in zip(self._rest[-1], one, strict=True)])
            self._top.append([max(t, c) for t, c in zip(self._top[-1], one, strict=True)])
        self._rest.reverse()
        self._top.reverse()

    def run(self, wanted: Counts, nodes: int) -> list[tuple[int, Load]] | None:
        """(bin, load) per node with at most ``nodes`` nodes, or ``None`` when there is no way."""
        return self._from(0, 0, len(self._bins[0].nodes) if self._bins else 0, wanted, nodes, 0)

    def _from(
        self, number: int, at: int, nodes: int, left: Counts, most_nodes: int, depth: int
    ) -> list[tuple[int, Load]] | None:
        """From load ``at`` of bin ``number``, of which ``nodes`` nodes are unused."""
        if not any(left):
            return []
        if depth > _DEEPEST:
            raise OutOfWork
        state = (number, at, nodes, left, most_nodes)
        if state in self._failed:
            return None
        while number < len(self._bins) and self._may(number, nodes, left, most_nodes):
            for index in range(at, len(self._loads[number])):
                load = self._loads[number][index]
                self._meter.spend()
                times = min([nodes, most_nodes, *_times(left, load)])
                for count in range(times, 0, -1):
                    rest = self._from(
                        number,
                        index + 1,
                        nodes - count,
                        _less(left, load, count),
                        most_nodes - count,
                        depth + 1,
                    )
                    if rest is not None:
                        return [(number, load)] * count + rest
            number, at = number + 1, 0
            nodes = len(self._bins[number].nodes) if number < len(self._bins) else 0
        self._failed.add(state)
        return None

    def _may(self, number: int, nodes: int, left: Counts, most_nodes: int) -> bool:
        """Whether counting does not exclude that bin ``number`` and those after it carry the rest."""
        unused = len(self._bins[number].nodes) - nodes
        for way, weight in enumerate(self._weights):
            needed = _dot(weight, left)
            if needed > most_nodes * self._top[number][way]:
                return False
            if needed > self._rest[number][way] - unused * _capacity(self._bins[number], weight):
                return False
        return True


def _times(left: Counts, load: Load) -> Iterator[int]:
    return (r // c for r, c in zip(left, load.counts, strict=True) if c)
