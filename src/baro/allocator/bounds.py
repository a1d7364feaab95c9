"""Necessary conditions by counting: a state that fails one of them has no solution below it.

Each is decidable in microseconds where upstream's search takes time exponential in the number of devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, combinations

from baro.allocator.constraints import ConstraintData, State
from baro.allocator.problem import CounterName, NodeProblem, bits

_MAX_GROUPS = 8
"""Up to this many distinct candidate sets all 2^n subsets are tried, beyond it singles and the whole."""


def can_match(needs: Sequence[tuple[int, int]]) -> bool:
    """Hall's condition: ``needs`` are (devices wanted, mask of candidates), each device given once.

    Exact for up to eight distinct candidate sets; beyond that it may say true too often, never false.
    """
    grouped: dict[int, int] = {}
    for count, mask in needs:
        if count:
            grouped[mask] = grouped.get(mask, 0) + count
    groups = list(grouped.items())
    if any(count > mask.bit_count() for mask, count in groups):
        return False
    if len(groups) <= 1:
        return True
    sizes = range(2, len(groups) + 1) if len(groups) <= _MAX_GROUPS else (len(groups),)
    for size in sizes:
        for chosen in combinations(groups, size):
            union = total = 0
            for mask, count in chosen:
                union |= mask
                total += count
            if total > union.bit_count():
                return False
    return True


def takeable(need: int, candidates: int, constraints: Sequence[tuple[ConstraintData, State]]) -> int:
    """Those candidates that may be taken next when ``need`` of them must satisfy each constraint; 0 when so
    many cannot, looked at constraint by constraint."""
    for data, state in constraints:
        candidates &= data.compatible(state)
    for data, state in constraints:
        if data.distinct:
            left = data.distinct_left(state, candidates)
            if left is not None and left < need:
                return 0
        elif state is None:
            # Later on the candidates are all of the value that the state holds.
            candidates = _large_groups(data, candidates, need)
    return candidates if candidates.bit_count() >= need else 0


def _large_groups(data: ConstraintData, candidates: int, need: int) -> int:
    """Those candidates that have enough others of their value beside them."""
    groups = data.groups(None)
    if groups is None or need < 2:
        return candidates
    found = 0
    for mask in groups:
        members = mask & candidates
        if members.bit_count() >= need:
            found |= members
    return found


def one_group(needs: Sequence[tuple[int, int, ConstraintData]], state: State) -> bool:
    """Whether some value of a match constraint has room for all requests that it covers.

    ``needs`` are (devices wanted, mask of candidates, the constraint's values as that request sees them).
    """
    first = needs[0][2]
    if first.distinct or first.set_valued:
        return True
    values = first.masks if state is None else (state,)
    return any(
        can_match([(count, mask & data.masks.get(value, 0)) for count, mask, data in needs])  # type: ignore[call-overload]
        for value in values
    )


def most_by_counters(problem: NodeProblem, devices: int) -> int:
    """No fewer than the counters allow of these devices, each counter of a pool looked at by itself."""
    consumption = problem.frame.consumption
    most = 0
    by_pool: dict[int, list[dict[CounterName, int]]] = {}
    for device in bits(devices):
        # Of shareable devices some shares may be paid for already.
        if device in consumption and not problem.shareable >> device & 1:
            by_pool.setdefault(problem.frame.pool_of[device], []).append(consumption[device])
        else:
            most += 1
    for pool, wanted in by_pool.items():
        room = len(wanted)
        for name, left in problem.counters(pool).items():
            cheapest_first = accumulate(sorted(one.get(name, 0) for one in wanted))
            room = min(room, sum(together <= left for together in cheapest_first))
        most += room
    return most
