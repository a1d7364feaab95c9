"""Islands: sets of GPUs that are all linked to each other, grade by grade.

A *grade* is one number of NVLinks that occurs between two GPUs of the machine. The islands of a grade are
the maximal sets whose pairs all have at least that many links; they may overlap (the cube mesh of a DGX-1).
A GPU without such a link is in no island of the grade, and a machine without NVLink has no islands: PCIe
neighbourhoods are ``pcie_groups``, which are never called islands.

Exact for up to 16 GPUs, the size of the largest machine; larger inputs only occur in tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from baro.topology.links import RANK
from baro.topology.machine import Machine

Group = tuple[int, ...]
"""GPU indices in ascending order."""


class Grade(msgspec.Struct, frozen=True):
    """All maximal sets of which every pair has at least ``nvlinks`` links; larger first, then by index."""

    nvlinks: int
    islands: tuple[Group, ...]


class Islands(msgspec.Struct, frozen=True):
    """``best`` is what people mean by "the islands of this machine"; ``grades`` has all, best first.

    The best grade is the one with the largest island; among those the one that covers most GPUs; then the
    one with most links. So a board of eight with one weak GPU stays one island of eight (and its stronger
    seven are the island of the grade above), four bridged pairs are four islands even when one bridge is
    weak, and a DGX-1 is its two quads. Of overlapping islands, ``best`` leaves out those whose GPUs are all
    in larger ones already (the four cross pairs of a DGX-1); ``grades`` keeps them.
    """

    best: tuple[Group, ...]
    grades: tuple[Grade, ...]

    def of(self, gpu: int) -> Group | None:
        """The first best island with this GPU, or ``None``."""
        return next((island for island in self.best if gpu in island), None)


class PcieGroup(msgspec.Struct, frozen=True):
    """GPUs that reach each other without leaving this level of the PCIe tree; sets of at least two."""

    kind: str
    groups: tuple[Group, ...]


def islands(machine: Machine) -> Islands:
    """The islands of a machine. All empty when there is no NVLink, or when NVLink is unknown."""
    counts = {pair: link.nvlinks for pair, link in machine.links.items() if link.nvlinks > 0}
    grades = tuple(
        Grade(grade, _cliques({pair for pair, links in counts.items() if links >= grade}))
        for grade in sorted(set(counts.values()), reverse=True)
    )
    if not grades:
        return Islands((), ())
    best = max(
        grades,
        key=lambda grade: (
            len(grade.islands[0]),
            len({gpu for island in grade.islands for gpu in island}),
            grade.nvlinks,
        ),
    )
    return Islands(_covering(best.islands), grades)


def pcie_groups(machine: Machine) -> tuple[PcieGroup, ...]:
    """Groups behind one PCIe switch (PIX) and behind one tree of switches (PXB), nearest level first.

    A level that adds nothing to the one before is left out. NVLink cells hide the PCIe relation; there the
    known switch of both GPUs helps. Empty when a hypervisor hides the tree.
    """
    if machine.numa_hidden:
        return ()
    found: list[PcieGroup] = []
    for kind in ("PIX", "PXB"):
        groups = _components(machine, RANK[kind])
        if groups and (not found or found[-1].groups != groups):
            found.append(PcieGroup(kind, groups))
    return tuple(found)


def _covering(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """The groups, larger first, that hold at least one GPU which no group before holds."""
    covered: set[int] = set()
    kept: list[Group] = []
    for group in groups:
        if not covered.issuperset(group):
            kept.append(group)
            covered.update(group)
    return tuple(kept)


def _cliques(edges: set[tuple[int, int]]) -> tuple[Group, ...]:
    """All maximal cliques of size two and more: larger first, then lexicographic."""
    neighbours: dict[int, set[int]] = {}
    for a, b in edges:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    found = _bron_kerbosch(set(), set(neighbours), set(), neighbours)
    return tuple(sorted(found, key=lambda group: (-len(group), group)))


def _bron_kerbosch(
    clique: set[int], candidates: set[int], done: set[int], neighbours: dict[int, set[int]]
) -> Iterator[Group]:
    """Bron and Kerbosch with Tomita's pivot: few recursions, no duplicates."""
    if not candidates and not done:
        if len(clique) > 1:
            yield tuple(sorted(clique))
        return
    pivot = max(sorted(candidates | done), key=lambda gpu: len(neighbours[gpu] & candidates))
    for gpu in sorted(candidates - neighbours[pivot]):
        yield from _bron_kerbosch(
            clique | {gpu}, candidates & neighbours[gpu], done & neighbours[gpu], neighbours
        )
        candidates = candidates - {gpu}
        done = done | {gpu}


def _components(machine: Machine, rank: int) -> tuple[Group, ...]:
    """Connected GPUs over relations at most that far away, as sets of two and more."""
    switch = {gpu.index: gpu.pcie_switch for gpu in machine.gpus}
    group = {gpu.index: gpu.index for gpu in machine.gpus}

    def root(gpu: int) -> int:
        while group[gpu] != gpu:
            gpu = group[gpu]
        return gpu

    for (a, b), link in machine.links.items():
        same_switch = switch.get(a) is not None and switch.get(a) == switch.get(b)
        if same_switch or RANK.get(link.kind, len(RANK)) <= rank:
            low, high = sorted((root(a), root(b)))
            group[high] = low
    members: dict[int, list[int]] = {}
    for gpu in sorted(group):
        members.setdefault(root(gpu), []).append(gpu)
    return tuple(tuple(gpus) for gpus in members.values() if len(gpus) > 1)
