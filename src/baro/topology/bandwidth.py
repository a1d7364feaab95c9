"""Predicted all-reduce bandwidth of a set of GPUs: GB/s in one direction of the best ring configuration.

The figure is what nccl-tests calls bus bandwidth when the hardware is the limit, with specified link rates
(a real library reaches 80 to 95 % of them, see ``rates``):

- two GPUs: the path between them;
- through NVSwitch: what the weakest GPU of the set can send, since every link reaches every peer;
- directly linked: rings that use every link once in each direction, packed side by side (``rings``);
  k fully meshed GPUs with b GB/s a pair give (k-1)·b: four H200 NVL at NV6 give 3 · 150 = 450;
- when no ring runs over NVLink alone: one ring with as fast a slowest hop as possible, and that hop is it.

In-network reduction (NVLink SHARP) is not counted. A measured matrix overrides the model pair by pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from itertools import combinations
from math import comb

import msgspec

from baro.topology.assess import complete
from baro.topology.islands import islands
from baro.topology.links import P2P_CELLS
from baro.topology.machine import Confidence, Link, Machine, Pair
from baro.topology.rates import floor
from baro.topology.rings import best_ring, packed_rings

MOST_SETS = 12_870
"""C(16, 8): the sets of half of the GPUs of the largest common machine."""

_FEW_SETS = 500
"""Up to this many sets are looked at one by one: most are remembered."""
_WEAKNESS = {confidence: rank for rank, confidence in enumerate(Confidence)}
_NO_LINK = Link(kind="?")


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What a set of GPUs is worth. Bandwidths are GB/s in one direction."""

    gpus: tuple[int, ...]
    gbps: float | None = None
    """Of the best ring configuration; ``None`` when unknown, and for fewer than two GPUs."""
    slowest_hop_gbps: float | None = None
    ring: tuple[int, ...] = ()
    """GPU indices in ring order from the smallest; of all rings the one with the fastest slowest hop."""
    slowest_hop: Pair | None = None
    slowest_kind: str | None = None
    confidence: Confidence = Confidence.UNKNOWN
    score: float = 0.0
    """``gbps``, or where that is unknown a lower bound. For ranking sets of one machine, never to print."""
    hops_gbps: float = 0.0
    """Sum over the ring: of two sets with the same bottleneck, the better linked one has more."""
    notes: tuple[str, ...] = ()


class Predictor:
    """Predictions for one machine, remembered by set. Machines of one shape share what they remember."""

    def __init__(self, machine: Machine) -> None:
        self.machine = complete(machine)
        self._shape = _shape(
            tuple(gpu.index for gpu in self.machine.gpus),
            tuple(sorted(self.machine.links.items())),
            bool(self.machine.switched),
        )

    def predict(self, gpus: Iterable[int]) -> Prediction:
        """The prediction for a set of GPU indices, in any order. Raises ``KeyError`` for an unknown index."""
        return self._shape.predict(gpus)

    def best_sets(
        self, free: Iterable[int], count: int, limit: int = 1, required: Iterable[int] = ()
    ) -> tuple[Prediction, ...]:
        """The best sets of ``count`` GPUs out of ``free`` that contain ``required``, best first.

        Ranked by predicted bandwidth, then by how well the other hops of the ring are linked, then by
        index. On machines of up to 16 GPUs (12,870 sets at most) no set is left out that could be among the
        best. Above ``MOST_SETS`` only sets inside islands and the lowest indices are looked at. Empty when
        there are not enough GPUs.
        """
        must = tuple(sorted(set(required)))
        others = sorted(set(free).difference(must))
        more = count - len(must)
        if count < 1 or not 0 <= more <= len(others):
            return ()
        rests: Iterable[tuple[int, ...]] = combinations(others, more)
        if comb(len(others), more) > MOST_SETS:
            rests = self._likely(others, more)
        elif comb(len(others), more) > _FEW_SETS:
            return self._best_by_bound([(*must, *rest) for rest in rests], limit)
        sets = (self.predict((*must, *rest)) for rest in rests)
        return tuple(nsmallest(limit, sets, key=_preference))

    def _best_by_bound(self, sets: Sequence[tuple[int, ...]], limit: int) -> tuple[Prediction, ...]:
        """As looking at all of them, but not at those that cannot be among the best."""
        bounds = sorted(((self._shape.at_most(gpus), gpus) for gpus in sets), reverse=True)
        best: list[Prediction] = []
        for bound, gpus in bounds:
            if len(best) == limit and bound < best[-1].score:
                break
            best = nsmallest(limit, (*best, self.predict(gpus)), key=_preference)
        return tuple(best)

    def _likely(self, others: Sequence[int], more: int) -> Iterable[tuple[int, ...]]:
        """The first ``more`` GPUs of each island that has so many, and the first of all."""
        groups = [island for grade in islands(self.machine).grades for island in grade.islands]
        inside = [[gpu for gpu in others if gpu in group] for group in groups]
        return dict.fromkeys(tuple(gpus[:more]) for gpus in (*inside, others) if len(gpus) >= more)


def predict(machine: Machine, gpus: Sequence[int]) -> Prediction:
    """The prediction for one set. Use a ``Predictor`` for many sets of one machine."""
    return Predictor(machine).predict(gpus)


def _preference(prediction: Prediction) -> tuple[float, float, tuple[int, ...]]:
    return (-prediction.score, -prediction.hops_gbps, prediction.gpus)


@lru_cache(maxsize=256)
def _shape(indices: tuple[int, ...], links: tuple[tuple[Pair, Link], ...], switched: bool) -> _Shape:
    return _Shape(indices, dict(links), switched)


class _Shape:
    """All that the model looks at, with two memories: by set, and by the matrix of a set."""

    def __init__(self, indices: tuple[int, ...], links: Mapping[Pair, Link], switched: bool) -> None:
        self._bit = {index: 1 << position for position, index in enumerate(indices)}
        self._switched = switched
        self._links = links
        kinds: dict[Link, int] = {_NO_LINK: 0}
        self._class = {pair: kinds.setdefault(link, len(kinds)) for pair, link in links.items()}
        self._worth = {pair: floor(links.get(pair)) for pair in combinations(sorted(indices), 2)}
        self._by_set: dict[int, Prediction] = {}
        self._by_matrix: dict[tuple[int, ...], Prediction] = {}

    def predict(self, gpus: Iterable[int]) -> Prediction:
        mask = 0
        for gpu in gpus:
            mask |= self._bit[gpu]
        known = self._by_set.get(mask)
        if known is None:
            known = self._by_set[mask] = self._from_matrix(
                tuple(i for i, bit in self._bit.items() if mask & bit)
            )
        return known

    def at_most(self, gpus: Sequence[int]) -> float:
        """No less than the score of a set: what its weakest GPU has of strong hops."""
        if len(gpus) < 2:
            return 0.0
        inside = [[self._worth[min(a, b), max(a, b)] for b in gpus if b != a] for a in gpus]
        bound = min(sorted(row)[-2] if len(row) > 1 else row[0] for row in inside)
        links = [[self._nvlinks(min(a, b), max(a, b)) for b in gpus if b != a] for a in gpus]
        rates = [
            worth / (1 if self._switched else count)
            for row, counts in zip(inside, links, strict=True)
            for worth, count in zip(row, counts, strict=True)
            if count
        ]
        if not rates:
            return bound
        return max(bound, min(rates) * (1 if self._switched else min(map(sum, links))))

    def _nvlinks(self, a: int, b: int) -> int:
        return self._links.get((a, b), _NO_LINK).nvlinks

    def _from_matrix(self, gpus: tuple[int, ...]) -> Prediction:
        """Sets with the same matrix get the same answer, carried over in index order."""
        key = (len(gpus), *(self._class.get(pair, 0) for pair in combinations(gpus, 2)))
        known = self._by_matrix.get(key)
        if known is None:
            known = self._by_matrix[key] = self._compute(gpus)
        if known.gpus == gpus:
            return known
        to = dict(zip(known.gpus, gpus, strict=True))
        hop = known.slowest_hop
        return msgspec.structs.replace(
            known,
            gpus=gpus,
            ring=tuple(to[gpu] for gpu in known.ring),
            slowest_hop=None if hop is None else (to[hop[0]], to[hop[1]]),
        )

    def _compute(self, gpus: tuple[int, ...]) -> Prediction:
        if len(gpus) < 2:
            return Prediction(gpus=gpus, ring=gpus)
        links = {pair: self._links.get(pair, _NO_LINK) for pair in combinations(gpus, 2)}
        worth = {pair: floor(link) for pair, link in links.items()}
        total, used = self._nvlink_total(gpus, links), [link for link in links.values() if link.nvlinks]
        ring = _ring(gpus, worth)
        single = min(worth[hop] for hop in _hops(ring))
        if used and total >= single:
            over_nvlink = {pair: worth[pair] if link.nvlinks else 0.0 for pair, link in links.items()}
            ring = _ring(gpus, over_nvlink)
        else:
            total, used = single, [links[hop] for hop in _hops(ring)]
        hops = {hop: links[hop] for hop in _hops(ring)}
        slowest = min(hops, key=lambda hop: (worth[hop], hop))
        known = all(link.gbps is not None for link in used)
        return Prediction(
            gpus=gpus,
            gbps=total if known else None,
            slowest_hop_gbps=links[slowest].gbps,
            ring=ring,
            slowest_hop=slowest,
            slowest_kind=links[slowest].kind,
            confidence=max((link.confidence for link in used), key=_WEAKNESS.__getitem__)
            if known
            else Confidence.UNKNOWN,
            score=total,
            hops_gbps=sum(worth[hop] for hop in hops),
            notes=_notes(hops.values()),
        )

    def _nvlink_total(self, gpus: tuple[int, ...], links: Mapping[Pair, Link]) -> float:
        """GB/s over NVLink alone (a lower bound where a rate is unknown); 0 when no ring exists."""
        linked = [link for link in links.values() if link.nvlinks]
        if not linked or (self._switched and len(linked) < len(links)):
            return 0.0
        if self._switched:
            return min(floor(link) for link in linked)
        rate = min(floor(link) / link.nvlinks for link in linked)
        return rate * packed_rings(len(gpus), lambda a, b: links[gpus[a], gpus[b]].nvlinks)


def _ring(gpus: tuple[int, ...], worth: Mapping[Pair, float]) -> tuple[int, ...]:
    order = best_ring(len(gpus), lambda a, b: worth[gpus[min(a, b)], gpus[max(a, b)]])
    return tuple(gpus[position] for position in order)


def _hops(ring: tuple[int, ...]) -> list[Pair]:
    """The pairs that a ring crosses, each once, the smaller index first."""
    steps = zip(ring, (*ring[1:], ring[0]), strict=True)
    return list(dict.fromkeys((a, b) if a < b else (b, a) for a, b in steps))


def _notes(hops: Iterable[Link]) -> tuple[str, ...]:
    refused = sorted({link.p2p for link in hops if link.p2p not in (None, "OK", "U")})
    return tuple(
        f"peer access refused ({cell}: {P2P_CELLS.get(cell, 'not in the legend')}): "
        "traffic goes through host memory"
        for cell in refused
    )
