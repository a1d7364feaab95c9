"""Rings over a handful of GPUs: the best one, and how many fit side by side.

Pure combinatorics on positions 0 … k-1; GB/s and GPU indices are the caller's. A ring is a cyclic order of
all positions, written from 0 with the smaller neighbour second. The slowest hop of the best ring is exact at
any size; of rings with that hop the one with the largest sum is found for up to eight positions, above that a
good one. Packing is exact for up to eight positions as long as the budget lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

EXACT_POSITIONS = 8
SEARCH_BUDGET = 20_000
"""Steps after which a search returns the best so far. No machine that exists reaches it."""

Ring = tuple[int, ...]
Weight = Callable[[int, int], float]


def best_ring(size: int, weight: Weight) -> Ring:
    """The ring with the largest smallest hop; then the largest sum of hops; then first in order.

    Above eight positions strong hops are preferred one by one instead of by their sum. ``weight(a, b)`` is
    symmetric and at least 0. Sizes below three have one ring only.
    """
    if size <= 3:
        return tuple(range(size))
    matrix = [[weight(a, b) if a != b else 0.0 for b in range(size)] for a in range(size)]
    first = matrix[0][1]
    if all(matrix[a][b] == first for a, b in combinations(range(size), 2)):
        return tuple(range(size))
    if size <= EXACT_POSITIONS:
        return _exact_ring(size, matrix)
    return _wide_ring(size, matrix)


def _exact_ring(size: int, matrix: list[list[float]]) -> Ring:
    """Branch and bound over all (k-1)!/2 rings."""
    best: tuple[float, float] = (-1.0, -1.0)
    chosen: Ring = tuple(range(size))
    path = [0]
    strongest = max(max(row) for row in matrix)

    def extend(left: int, hop: float, total: float) -> None:
        nonlocal best, chosen
        last = path[-1]
        if not left:
            hop, total = min(hop, matrix[last][0]), total + matrix[last][0]
            if path[1] < last and (hop, total) > best:
                best, chosen = (hop, total), tuple(path)
            return
        for step in range(1, size):
            if not left >> step & 1:
                continue
            weakest = min(hop, matrix[last][step])
            reach = total + matrix[last][step] + strongest * left.bit_count()
            if (weakest, reach) <= best:
                continue
            path.append(step)
            extend(left & ~(1 << step), weakest, total + matrix[last][step])
            path.pop()

    extend((1 << size) - 2, float("inf"), 0.0)
    return chosen


def _wide_ring(size: int, matrix: list[list[float]]) -> Ring:
    """By halving among the hops that occur: the largest for which a ring over such hops exists."""
    at_best = min(sorted(row[:at] + row[at + 1 :])[-2] for at, row in enumerate(matrix))
    limits = sorted({value for row in matrix for value in row if value <= at_best} | {0.0}, reverse=True)
    low, high = 0, len(limits) - 1
    best: list[int] | None = None
    while low < high:
        middle = 0 if low == 0 and high == len(limits) - 1 else (low + high) // 2
        paths = _paths(size, matrix, limits[middle])
        if _last_of(paths, matrix, limits[middle]):
            high, best = middle, paths
        else:
            low = middle + 1
    return _walk_back(size, matrix, limits[high], best or _paths(size, matrix, limits[high]))


def _paths(size: int, matrix: list[list[float]], limit: float) -> list[int]:
    """Per position, which sets of positions a path over hops of at least ``limit`` can visit from 0 to it.

    Held and Karp's recursion with one bit per set: bit ``mask`` of entry ``last`` is set when such a path
    visits exactly the positions of ``mask`` (bit p - 1 for position p) and ends at ``last``.
    """
    everything = (1 << (1 << (size - 1))) - 1
    lacking = [everything]
    for at in range(size - 1):
        width = 1 << at
        # The sets without a position: runs of 2^at bits, every other one.
        lacking.append(everything // ((1 << 2 * width) - 1) * ((1 << width) - 1))
    beside = [[b for b in range(1, size) if b != a and matrix[a][b] >= limit] for a in range(size)]
    found = [0] * size
    layer = [0] * size
    for at in beside[0]:
        layer[at] = 1 << (1 << (at - 1))
    for _ in range(size - 1):
        found = [old | new for old, new in zip(found, layer, strict=True)]
        longer = [0] * size
        for at in range(1, size):
            before = 0
            for other in beside[at]:
                before |= layer[other]
            longer[at] = (before & lacking[at]) << (1 << (at - 1))
        layer = longer
    return found


def _last_of(paths: list[int], matrix: list[list[float]], limit: float) -> list[int]:
    """The positions at which a path through everything may end to close the ring."""
    full = (1 << (len(paths) - 1)) - 1
    return [at for at in range(1, len(paths)) if paths[at] >> full & 1 and matrix[at][0] >= limit]


def _walk_back(size: int, matrix: list[list[float]], limit: float, paths: list[int]) -> Ring:
    """One of the rings, from its end; the strongest hop first, then the lowest position."""
    left = (1 << (size - 1)) - 1
    ring: list[int] = []
    choices, after = _last_of(paths, matrix, limit), 0
    while choices:
        chosen = min(choices, key=lambda at: (-matrix[at][after], at))
        ring.append(chosen)
        left ^= 1 << (chosen - 1)
        choices = [at for at in range(1, size) if paths[at] >> left & 1 and matrix[at][chosen] >= limit]
        after = chosen
    return (0, *(ring if ring[0] < ring[-1] else reversed(ring)))


def hamiltonian_rings(size: int, allowed: Sequence[Sequence[int]]) -> Iterator[Ring]:
    """All rings over allowed hops, within the budget."""
    steps = 0

    def extend(path: list[int], left: int) -> Iterator[Ring]:
        nonlocal steps
        steps += 1
        if steps > SEARCH_BUDGET:
            return
        if not left:
            if path[1] < path[-1] and 0 in allowed[path[-1]]:
                yield tuple(path)
            return
        for step in allowed[path[-1]]:
            if left >> step & 1:
                path.append(step)
                yield from extend(path, left & ~(1 << step))
                path.pop()

    yield from extend([0], (1 << size) - 2)


def packed_rings(size: int, links: Callable[[int, int], int]) -> float:
    """How many rings of one link run side by side in both directions: GPU traffic in units of one link.

    Every pair has ``links(a, b)`` links, each usable once in each direction. A full mesh of k positions with
    n links a pair gives (k-1)·n: every link works. In general, rings over linked pairs are packed so that no
    link is used twice; half links are allowed, as a library may put two channels on one. 0 when no ring
    runs over links alone.
    """
    caps = {(a, b): links(a, b) for a, b in combinations(range(size), 2)}
    values = set(caps.values())
    if len(values) == 1:
        return float((size - 1) * values.pop())
    allowed = [[b for b in range(size) if b != a and caps[min(a, b), max(a, b)] > 0] for a in range(size)]
    if any(len(others) < 2 for others in allowed):
        return 0.0
    rings = [_edges(ring) for ring in hamiltonian_rings(size, allowed)]
    if not rings:
        return 0.0
    # Twice the links: units are half links. One undirected ring carries traffic both ways, so the count of
    # half rings is the count of directed rings of a whole link.
    doubled = {pair: 2 * count for pair, count in caps.items() if count}
    return float(_pack(rings, doubled, _cut_bound(size, doubled)))


def _edges(ring: Ring) -> tuple[tuple[int, int], ...]:
    hops = zip(ring, (*ring[1:], ring[0]), strict=True)
    return tuple((a, b) if a < b else (b, a) for a, b in hops)


def _cut_bound(size: int, caps: dict[tuple[int, int], int]) -> int:
    """Every ring crosses every division of the set at least twice."""
    bound = sum(caps.values()) // size
    sides = range(1, 1 << (size - 1)) if size <= EXACT_POSITIONS else (1 << side for side in range(size))
    for side in sides:
        across = sum(count for (a, b), count in caps.items() if (side >> a & 1) != (side >> b & 1))
        bound = min(bound, across // 2)
    return bound


def _pack(rings: list[tuple[tuple[int, int], ...]], caps: dict[tuple[int, int], int], bound: int) -> int:
    """The largest number of rings, repetition allowed, within the capacities: depth first with bounds."""
    best = 0
    steps = 0

    def extend(start: int, left: int) -> None:
        """Adds rings from ``start`` on; ``left`` is how many the remaining degrees allow at most."""
        nonlocal best, steps
        for number in range(start, len(rings)):
            steps += 1
            if best >= bound or steps > SEARCH_BUDGET or taken + left <= best:
                return
            if all(caps[edge] for edge in rings[number]):
                take(number, left)

    taken = 0

    def take(number: int, left: int) -> None:
        nonlocal best, taken
        for edge in rings[number]:
            caps[edge] -= 1
        taken += 1
        best = max(best, taken)
        extend(number, left - 1)
        taken -= 1
        for edge in rings[number]:
            caps[edge] += 1

    extend(0, bound)
    return best
