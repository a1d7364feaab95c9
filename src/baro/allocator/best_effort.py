"""The choice of NVIDIA's device plugin: the best-effort policy of go-gpuallocator, for comparison.

Pairs of GPUs have points: 10 (SYS), 20 (NODE), 30 (PHB), 40 (PXB) or 50 (PIX) for the PCIe path plus 100 for
each NVLink between them; what is not known counts nothing. The free GPUs are cut into sets of the size asked
for, the cut with the highest total wins, and of that cut the set with the most points. Found exactly, by
remembered subproblems instead of listing all cuts, with the first of equal ones as the original lists them.

Deliberately different: a set filled up with nothing never wins (go-gpuallocator PR #80), the remembered best
cut is not overwritten while listing goes on (seven sets and more), disagreeing directions of a pair are no
panic. Deliberately alike, since this is what it is compared with: one GPU is the first free one, ties of the
total may give the asker a worse set, NVLinks that end at switches count nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import combinations

from baro.topology.machine import Gpu, Machine

POINTS = {"SYS": 10, "NODE": 20, "PHB": 30, "PXB": 40, "PIX": 50}
NVLINK_POINTS = 100
_NIL = -1
"""Fills up the last set; no GPU has this number."""

Matrix = Sequence[Sequence[int]]
"""Points per pair of GPU positions."""


def points(machine: Machine) -> tuple[tuple[int, ...], ...]:
    """The points of all pairs, by position in ``machine.gpus``."""
    return tuple(tuple(0 if a is b else _pair(machine, a, b) for b in machine.gpus) for a in machine.gpus)


def _pair(machine: Machine, a: Gpu, b: Gpu) -> int:
    link = machine.link(a.index, b.index)
    kind = link.kind if link is not None and link.kind in POINTS else _pcie(a, b)
    nvlinks = 0 if link is None or machine.switched else link.nvlinks
    return POINTS.get(kind or "", 0) + NVLINK_POINTS * nvlinks


def _pcie(a: Gpu, b: Gpu) -> str | None:
    """The PCIe path below an NVLink, as far as the facts of two GPUs tell."""
    if a.pcie_switch is not None and a.pcie_switch == b.pcie_switch:
        return "PIX"
    if a.pcie_root is not None and a.pcie_root == b.pcie_root:
        return "PHB"
    if a.numa is None or b.numa is None:
        return None
    return "NODE" if set(a.numa) & set(b.numa) else "SYS"


def preferred(
    matrix: Matrix, available: Sequence[int], size: int, required: Collection[int] = ()
) -> tuple[int, ...] | None:
    """The GPUs that the policy takes; ``None`` where it takes none.

    ``available`` are positions in ascending order, ``required`` those that must be among them.
    """
    if not 0 < size <= len(available) or not set(required) <= set(available) or len(set(required)) > size:
        return None
    if size == 1:
        return tuple(required) or (available[0],)
    sets = _Cuts(matrix, size, -len(available) % size, frozenset(required)).best(tuple(available))
    full = [chosen for chosen in sets or () if _NIL not in chosen and set(required) <= set(chosen)]
    return max(full, key=lambda chosen: _set_points(matrix, chosen)) if full else None


def _set_points(matrix: Matrix, chosen: Sequence[int]) -> int:
    return sum(matrix[a][b] for a, b in combinations(chosen, 2) if _NIL not in (a, b))


class _Cuts:
    """All cuts of some GPUs into sets, best first. ``padding``: how many are lacking for whole sets."""

    def __init__(self, matrix: Matrix, size: int, padding: int, required: frozenset[int]) -> None:
        self._matrix = matrix
        self._size = size
        self._padding = padding
        self._required = required
        self._total = lru_cache(maxsize=None)(self._find_total)

    def best(self, gpus: tuple[int, ...]) -> list[tuple[int, ...]] | None:
        """The first cut with the highest total, set by set."""
        left, padded = gpus, self._padding == 0
        wanted = self._total(left, padded)
        if wanted is None:
            return None
        found: list[tuple[int, ...]] = []
        while left:
            for chosen, rest, done in self._steps(left, padded):
                tail = self._total(rest, done)
                if tail is not None and _set_points(self._matrix, chosen) + tail == wanted:
                    found.append(chosen)
                    left, padded, wanted = rest, done, tail
                    break
        return found

    def _find_total(self, left: tuple[int, ...], padded: bool) -> int | None:
        """The highest total of the sets that remain; ``None`` when there is no cut."""
        if not left:
            return 0 if padded else None
        totals = (
            _set_points(self._matrix, chosen) + tail
            for chosen, rest, done in self._steps(left, padded)
            if (tail := self._total(rest, done)) is not None
        )
        return max(totals, default=None)

    def _steps(
        self, left: tuple[int, ...], padded: bool
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], bool]]:
        """(next set, what remains, whether the padding is used up), in the original's order of listing."""
        first, others = left[0], left[1:]
        nils = 0 if padded else self._padding
        # Positions beyond the GPUs stand for nothing; a set takes all of them or none.
        listed = combinations((*others, *[_NIL] * nils), self._size - 1)
        for more in listed:
            filled = more.count(_NIL)
            if filled not in (0, nils):
                continue
            chosen = (first, *more)
            if self._required & set(chosen) and (filled or not self._required <= set(chosen)):
                continue
            yield chosen, tuple(gpu for gpu in others if gpu not in more), padded or filled > 0
