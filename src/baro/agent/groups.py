"""Which NVLink groups of a machine are published as attributes: island ids, peers, aligned groups.

Attributes can only express a partition: each GPU has one value. So an island id is given only where the
best islands are disjoint, and the groups of two, four and eight are one fixed partition each, nested and as
strongly linked as possible. Sets that cross these lines may be linked as well; the planner, which knows the
whole graph, uses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import combinations
from typing import Final

from baro.topology.islands import islands
from baro.topology.machine import Machine, Pair

Group = tuple[int, ...]

SIZES: Final = (8, 4, 2)
_MAX_EXACT: Final = 10
"""Linked GPUs up to which the strongest partition is searched; larger sets are cut in index order."""


def domains(machine: Machine) -> tuple[Group, ...]:
    """The best islands when no GPU is in two of them, else none."""
    best = islands(machine).best
    members = [gpu for island in best for gpu in island]
    return best if len(members) == len(set(members)) else ()


def peers(machine: Machine) -> dict[int, int]:
    """GPU index → number of GPUs it reaches over NVLink.

    A GPU of which no link is told (a lost one) is nobody's peer and has no count itself; a GPU that has
    both told and untold pairs with others is missing too.
    """
    if machine.nvlink_unknown:
        return {}
    told = sorted({gpu for pair in machine.links for gpu in pair})
    links = {(a, b): machine.link(a, b) for a in told for b in told if a != b}
    return {
        a: sum(1 for b in told if b != a and (link := links[a, b]) is not None and link.nvlinks > 0)
        for a in told
        if all(links[a, b] is not None for b in told if b != a)
    }


def aligned_groups(machine: Machine) -> dict[int, tuple[Group, ...]]:
    """Size → disjoint groups of that size whose pairs are all linked; sizes without a group are missing.

    As many groups as possible, then as many NVLinks inside them as possible, then the lowest indices
    together. Every group of two or four lies within a group of the next size where there is one.
    """
    weights = {pair: link.nvlinks for pair, link in machine.links.items() if link.nvlinks > 0}
    found: dict[int, tuple[Group, ...]] = {}
    areas: tuple[Group, ...] = (tuple(gpu.index for gpu in machine.gpus),)
    for size in SIZES:
        groups = tuple(sorted(group for area in areas for group in _partition(area, size, weights)))
        if groups:
            found[size] = groups
            rest = set(areas[0]).union(*areas) - {gpu for group in groups for gpu in group}
            areas = (*groups, *((tuple(sorted(rest)),) if rest else ()))
    return {size: found[size] for size in sorted(found)}


def _chunks(linked: Group, size: int) -> list[Group]:
    """Equally linked GPUs cut into whole blocks such as 4-7 first, so that a lost GPU moves few groups."""
    blocks = [tuple(g for g in linked if g // size == block) for block in {g // size for g in linked}]
    whole = [block for block in blocks if len(block) == size]
    rest = sorted(set(linked) - {gpu for block in whole for gpu in block})
    return whole + [tuple(rest[i : i + size]) for i in range(0, len(rest) - size + 1, size)]


def _partition(area: Group, size: int, weights: Mapping[Pair, int]) -> tuple[Group, ...]:
    """Disjoint fully linked groups within ``area``, best first by the rule of ``aligned_groups``."""
    found: list[Group] = []
    for part in _connected(area, weights):
        if len(part) < size:
            continue
        alike = len({weights.get(pair, 0) for pair in combinations(part, 2)}) == 1
        if alike or len(part) > _MAX_EXACT:
            chunks = _chunks(part, size)
            found += [chunk for chunk in chunks if all(pair in weights for pair in combinations(chunk, 2))]
        else:
            found += _strongest(part, size, weights)
    return tuple(found)


def _connected(area: Group, weights: Mapping[Pair, int]) -> list[Group]:
    """The parts of ``area`` that no link joins; a group never spans two of them."""
    left, parts = set(area), []
    while left:
        part: set[int] = set()
        reach = {min(left)}
        while reach:
            part |= reach
            left -= reach
            reach = {b for b in left for a in reach if (min(a, b), max(a, b)) in weights}
        parts.append(tuple(sorted(part)))
    return parts


def _strongest(part: Group, size: int, weights: Mapping[Pair, int]) -> tuple[Group, ...]:
    """The best partition by exhaustive search with a memo: at most 2^10 sets of what is left."""

    @cache
    def best(left: Group) -> tuple[int, int, tuple[Group, ...]]:
        if len(left) < size:
            return 0, 0, ()
        first, others = left[0], left[1:]
        chosen: tuple[int, int, tuple[Group, ...]] = (0, 0, ())
        for companions in combinations(others, size - 1):
            pairs = tuple(combinations((first, *companions), 2))
            if not all(pair in weights for pair in pairs):
                continue
            count, links, groups = best(tuple(gpu for gpu in others if gpu not in companions))
            score = (count + 1, links + sum(weights[pair] for pair in pairs))
            if score > chosen[:2]:
                chosen = (*score, ((first, *companions), *groups))
        without = best(others)
        return chosen if chosen[:2] >= without[:2] else without

    return best(part)[2]
