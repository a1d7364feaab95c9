"""Necessary conditions by counting: a state that fails one of them has no solution below it.

Each is decidable in microseconds where upstream's search takes time exponential in the number of devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from baro.allocator.constraints import ConstraintData, State

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


def can_take(need: int, candidates: int, constraints: Sequence[tuple[ConstraintData, State]]) -> bool:
    """Whether ``need`` devices of the candidates can satisfy each constraint, looked at one by one."""
    if need <= 0:
        return True
    for data, state in constraints:
        candidates &= data.compatible(state)
    if candidates.bit_count() < need:
        return False
    for data, state in constraints:
        groups = data.groups(state)
        if groups is not None and not any((mask & candidates).bit_count() >= need for mask in groups):
            return False
        left = data.distinct_left(state, candidates)
        if left is not None and left < need:
            return False
    return True


def large_groups(data: ConstraintData, state: State, candidates: int, need: int) -> int:
    """Those candidates that have enough others of their value beside them; only before the first choice."""
    if state is not None or need < 2:
        return candidates
    groups = data.groups(state)
    if groups is None:
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
