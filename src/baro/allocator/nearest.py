"""Network devices beside GPUs: of equally good sets the one whose NICs lie nearest to the GPUs.

Nearness comes from what both publish: the same ``pcieSwitch``, else the same ``pcieRoot``, else the same
``numaNode``; anything else, and what is not told, counts as far. A claim with GPUs and NICs is looked at by
itself, the NICs of a claim without GPUs beside all GPUs of the pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice, product
from math import comb

import msgspec

from baro.allocator.frame import bits
from baro.allocator.graph import NodeGraph
from baro.allocator.infer import AttributeFinder, finder_of
from baro.allocator.ledger import Pick
from baro.allocator.search import Search

FAR = 3
_GRADES = ("pcieSwitch", "pcieRoot", "numaNode")
"""Attribute ids, nearest first: distance 0, 1, 2."""
_MOST_SETS = 256
_MOST_CHOICES = 64


class Wish(msgspec.Struct, frozen=True):
    """The NICs of one claim: how many, and which it may have (a mask of devices)."""

    claim: int
    count: int
    candidates: int


class Nearest:
    """Distances on one node, for the NICs that claims want. False where they want none."""

    def __init__(self, search: Search, graph: NodeGraph, base: Sequence[Pick]) -> None:
        self._graph = graph
        self._rows = search.problem.rows
        self.wishes: tuple[Wish, ...] = ()
        if any(not graph.mask >> pick.device & 1 for pick in base):
            self._finder = finder_of(search.problem.inventory.table)
            self.wishes = tuple(self._wishes(search, base))
        self._grades: dict[tuple[int, int], int] = {}

    def __bool__(self) -> bool:
        return bool(self.wishes)

    def _wishes(self, search: Search, base: Sequence[Pick]) -> Iterator[Wish]:
        drivers = {search.problem.keys[device].driver for device in self._graph.devices if device >= 0}
        for claim in range(len(search.plan.claims)):
            count = candidates = 0
            for pick in base:
                other = pick.alternative
                if pick.claim != claim or other.admin or other.all_devices:
                    continue
                eligible = search.eligible(other)
                if search.problem.keys[pick.device].driver not in drivers and self._told(eligible):
                    count += 1
                    candidates |= eligible
            if count:
                yield Wish(claim, count, candidates)

    def _told(self, devices: int) -> bool:
        """Whether any of them says where it is."""
        rows = [self._rows[device] for device in bits(devices)]
        return any(self._finder.value(name, row) is not None for row in rows for name in _GRADES)

    def grade(self, gpu: int, nic: int) -> int:
        """0 the same switch, 1 root, 2 NUMA node, 3 anything else."""
        found = self._grades.get((gpu, nic))
        if found is None:
            found = self._grades[gpu, nic] = _grade(self._finder, self._rows[gpu], self._rows[nic])
        return found

    def distance(self, gpus: Sequence[int], nics: Sequence[int]) -> int:
        """Sum over the NICs, each beside a GPU of its own as long as there are any left.

        Taking the nearest pair first is exact: a switch lies below one root and a root in one NUMA node.
        """
        if not gpus:
            return 0
        pairs = sorted((self.grade(gpu, nic), gpu, nic) for gpu in gpus for nic in nics)
        most = -(-len(nics) // len(gpus))
        used: dict[int, int] = {}
        done: set[int] = set()
        total = 0
        for grade, gpu, nic in pairs:
            if nic not in done and used.get(gpu, 0) < most:
                done.add(nic)
                used[gpu] = used.get(gpu, 0) + 1
                total += grade
        return total

    def choices(self, gpus: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
        """(distance, mask of NICs per wish), nearest first. ``gpus``: mask of devices per claim."""
        ranked = [self._sets(wish, self._beside(gpus, wish.claim)) for wish in self.wishes]
        found = []
        for chosen in islice(product(*ranked), 16 * _MOST_CHOICES):
            union = 0
            for _, mask in chosen:
                if union & mask:
                    break
                union |= mask
            else:
                found.append((sum(d for d, _ in chosen), tuple(mask for _, mask in chosen)))
        found.sort(key=lambda item: item[0])
        return found[:_MOST_CHOICES]

    def of(self, picks: Sequence[Pick], claims: int) -> int:
        """The distance of a finished choice."""
        gpus = [0] * claims
        nics: list[list[int]] = [[] for _ in range(claims)]
        wanted = {wish.claim: wish.candidates for wish in self.wishes}
        for pick in picks:
            if self._graph.mask >> pick.device & 1:
                gpus[pick.claim] |= 1 << pick.device
            elif wanted.get(pick.claim, 0) >> pick.device & 1:
                nics[pick.claim].append(pick.device)
        return sum(self.distance(self._beside(gpus, claim), found) for claim, found in enumerate(nics))

    def _beside(self, gpus: Sequence[int], claim: int) -> list[int]:
        mask = gpus[claim]
        if not mask:
            for part in gpus:
                mask |= part
        return list(bits(mask))

    def _sets(self, wish: Wish, gpus: list[int]) -> list[tuple[int, int]]:
        nics = list(bits(wish.candidates))
        if comb(len(nics), wish.count) > _MOST_SETS:
            # Too many to list: only among those that are nearest to some GPU.
            nics.sort(key=lambda nic: min((self.grade(gpu, nic) for gpu in gpus), default=0))
            nics = sorted(nics[: wish.count + 4])
        sets = islice(combinations(nics, wish.count), 4 * _MOST_SETS)
        ranked = [(self.distance(gpus, chosen), sum(1 << nic for nic in chosen)) for chosen in sets]
        ranked.sort(key=lambda item: item[0])
        return ranked


def _grade(finder: AttributeFinder, gpu: int, nic: int) -> int:
    for grade, name in enumerate(_GRADES):
        if name == "numaNode":
            mine: object = finder.number(name, gpu)
            other: object = finder.number(name, nic)
        else:
            mine, other = finder.text(name, gpu), finder.text(name, nic)
        if mine is not None and mine == other:
            return grade
    return FAR
