"""Figures of all sets of GPUs of one machine at once: an array with one entry per mask of positions.

``Shape`` looks at one set at a time, which is quickest on eight GPUs. On sixteen there are 65,536 sets, and
where every path is measured no two of them are alike; here the same exact figures come from a few hundred
array operations. Nothing is rounded or left out. Not for machines of more than 16 GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baro.topology.machine import Link, Machine, Pair
from baro.topology.rates import floor
from baro.topology.rings import packed_rings

Masks = NDArray[np.int64]
Figures = NDArray[np.float64]
Matrix = NDArray[Any]
"""Of pairs, symmetric: one entry per position and position."""

_MICRO = 1_000_000
_NO_LINK = Link(kind="?")


class EverySet:
    """The model of ``topology.bandwidth`` over all sets of a machine whose links have their GB/s."""

    def __init__(self, machine: Machine) -> None:
        indices = [gpu.index for gpu in machine.gpus]
        self.size = len(indices)
        self._links = {
            (a, b): machine.links.get((indices[a], indices[b]), _NO_LINK)
            for a, b in combinations(range(self.size), 2)
        }
        self._switched = bool(machine.switched)
        self._worth = {pair: floor(link) for pair, link in self._links.items()}
        micro = self._matrix(lambda pair: round(self._worth[pair] * _MICRO), np.int64)
        self._closeness = _over_pairs(micro, 0, np.add)
        self._slowest_hop = self._slowest_hops()
        self._packed: dict[tuple[int, ...], float] = {}
        self._disjoint: dict[int, NDArray[np.int8]] = {}
        if any(link.nvlinks for link in self._links.values()):
            self._prepare_nvlink()

    def scores(self, masks: Sequence[int]) -> list[float]:
        """``Prediction.score`` of each set, GB/s."""
        wanted = np.asarray(masks, np.int64)
        found: Figures = self._slowest_hop[wanted]
        if any(link.nvlinks for link in self._links.values()):
            linked = self._over_switches[wanted] if self._switched else self._meshed(wanted, found)
            found = np.maximum(found, linked)
        return [float(score) for score in found]

    def closenesses(self, masks: Sequence[int]) -> list[float]:
        """The sum over the pairs of each set, GB/s."""
        found: list[float] = (self._closeness[np.asarray(masks, np.int64)] / _MICRO).tolist()
        return found

    def most_disjoint(self, groups: Iterable[int], members: int, within: int) -> int:
        """How many disjoint ones of ``groups``, which are all that count of this size, lie within a mask."""
        table = self._disjoint.get(members)
        if table is None:
            find = _at_most_two if 2 * members >= self.size else _most_disjoint
            table = self._disjoint[members] = find(self.size, frozenset(groups))
        return int(table[within])

    # --- one ring -------------------------------------------------------------------------------------

    def _slowest_hops(self) -> Figures:
        """The slowest hop of the ring of each set whose slowest hop is fastest; 0 below two GPUs."""
        values = sorted(set(self._worth.values()))
        rank = {value: at + 1 for at, value in enumerate(values)}
        ranks = _widest_rings(self._matrix(lambda pair: rank[self._worth[pair]], np.uint8))
        return np.array([0.0, *values])[ranks]

    # --- NVLink ---------------------------------------------------------------------------------------

    def _prepare_nvlink(self) -> None:
        def count(pair: Pair) -> int:
            return self._links[pair].nvlinks

        def worth(pair: Pair) -> float:
            return self._worth[pair] if count(pair) else np.inf

        def rate(pair: Pair) -> float:
            return self._worth[pair] / count(pair) if count(pair) else np.inf

        fewest = _over_pairs(self._matrix(count, np.int64), 10**6, np.minimum)
        if self._switched:
            least = _over_pairs(self._matrix(worth, np.float64), np.inf, np.minimum)
            self._over_switches: Figures = np.where((fewest > 0) & np.isfinite(least), least, 0.0)
            return
        self._fewest, self._most = fewest, _over_pairs(self._matrix(count, np.int64), 0, np.maximum)
        self._rate = _over_pairs(self._matrix(rate, np.float64), np.inf, np.minimum)
        self._ring_of_links = _widest_rings(self._matrix(lambda pair: int(count(pair) > 0), np.uint8)) > 0
        self._links_within = _over_pairs(self._matrix(count, np.int64), 0, np.add)

    def _meshed(self, masks: Masks, alone: Figures) -> Figures:
        """What directly linked GPUs reach over NVLink alone; where ``alone`` is more, that or any less."""
        members = _counts(masks)
        rate = np.where(self._most[masks] > 0, self._rate[masks], 0.0)
        total = np.where(
            self._fewest[masks] == self._most[masks], rate * ((members - 1) * self._most[masks]), 0.0
        )
        total[members < 2] = 0.0
        # No more half rings than half links allow.
        at_most = rate * (2 * self._links_within[masks] // np.maximum(members, 1))
        open_ = (self._fewest[masks] != self._most[masks]) & self._ring_of_links[masks] & (at_most > alone)
        for at in np.flatnonzero(open_).tolist():
            total[at] = rate[at] * self._rings_within(int(masks[at]))
        return total

    def _rings_within(self, mask: int) -> float:
        """``packed_rings`` of a set; sets with the same numbers of links share it."""
        inside = [at for at in range(self.size) if mask >> at & 1]
        key = tuple(self._links[pair].nvlinks for pair in combinations(inside, 2))
        found = self._packed.get((len(inside), *key))
        if found is None:
            found = packed_rings(len(inside), lambda a, b: self._links[inside[a], inside[b]].nvlinks)
            self._packed[len(inside), *key] = found
        return found

    def _matrix(self, value: Callable[[Pair], float], kind: type[np.generic]) -> Matrix:
        matrix: Matrix = np.zeros((self.size, self.size), kind)
        for a, b in self._links:
            matrix[a, b] = matrix[b, a] = value((a, b))
        return matrix


# --- over all masks -------------------------------------------------------------------------------


def _at_most_two(size: int, groups: frozenset[int]) -> NDArray[np.int8]:
    """As ``_most_disjoint`` for groups of at least half of the positions."""
    most = np.zeros((2,) * size, np.int8)
    most.reshape(-1)[list(groups)] = 1
    for axis in range(size):
        without, with_it = np.moveaxis(most, axis, 0)
        np.maximum(with_it, without, out=with_it)
    everything = (1 << size) - 1
    if any(everything ^ group in groups for group in groups):
        most.reshape(-1)[everything] = 2
    return most.reshape(-1)


def _most_disjoint(size: int, groups: frozenset[int]) -> NDArray[np.int8]:
    """Per mask, how many disjoint ones of these groups lie within it at most."""
    most = np.zeros((2,) * size, np.int8)
    by_lowest: dict[int, list[int]] = {}
    for group in sorted(groups):
        by_lowest.setdefault((group & -group).bit_length() - 1, []).append(group)
    # The masks whose lowest position is ``low``, highest first: without that position all is known already.
    for low in reversed(range(size)):
        below = (0,) * low
        with_low, without = [], []
        for group in (0, *by_lowest.get(low, ())):
            above = [group >> at & 1 for at in reversed(range(low + 1, size))]
            with_low.append((*(1 if bit else slice(None) for bit in above), 1, *below))
            without.append((*(0 if bit else slice(None) for bit in above), 0, *below))
        most[with_low[0]] = most[without[0]]
        for target, rest in zip(with_low[1:], without[1:], strict=True):
            most[target] = np.maximum(most[target], most[rest] + 1)
    return most.reshape(-1)


def _counts(masks: Masks) -> NDArray[np.int64]:
    found = np.zeros(masks.shape, np.int64)
    for at in range(16):
        found += masks >> at & 1
    return found


def _over_pairs(matrix: Matrix, start: float, combine: np.ufunc) -> NDArray[Any]:
    """Per mask all pairs within it, combined; ``start`` where there is none."""
    size = len(matrix)
    found = np.full(1 << size, start, matrix.dtype)
    for new in range(size):
        beside = np.full(1 << new, start, matrix.dtype)
        for other in range(new):
            half = 1 << other
            beside[half : 2 * half] = combine(beside[:half], matrix[new, other])
        found[1 << new : 2 << new] = combine(found[: 1 << new], beside)
    return found


def _widest_rings(rank: Matrix) -> NDArray[np.uint8]:
    """Per mask the least rank on the ring through all its positions whose least rank is largest.

    Held and Karp's recursion with the least instead of the sum: ``paths[mask, last]`` is the best path from
    the lowest position of the mask through all of it to ``last``. 0 below two positions, and where the only
    rings have a hop of rank 0. Ranks are below 255.
    """
    size = len(rank)
    masks = np.arange(1 << size)
    lowest = masks & -masks
    members = _counts(masks)
    paths = np.zeros((1 << size, size), np.uint8)
    for at in range(size):
        paths[1 << at, at] = 255
    for many in range(2, size + 1):
        layer = masks[members == many]
        for last in range(size):
            bit = 1 << last
            here = layer[(layer & bit > 0) & (lowest[layer] != bit)]
            if here.size:
                paths[here, last] = np.minimum(paths[here ^ bit], rank[last]).max(axis=1)
    found = np.zeros(1 << size, np.uint8)
    for first in range(size):
        here = masks[(lowest == 1 << first) & (members > 1)]
        if here.size:
            found[here] = np.minimum(paths[here], rank[first]).max(axis=1)
    return found
