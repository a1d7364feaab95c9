"""Sets of GPUs of one shape in order of the objective: bandwidth, closeness, what is left for others.

All masks are over positions of the shape, so nodes of one shape share what is found out here: which sets
there are, in which bands they lie, and their order for a given set of free GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import comb

import msgspec

from baro.allocator.frame import bits
from baro.allocator.graph import BAND, EXACT_SETS, Shape

_MAX_SETS = 20_000
"""More candidate sets than this for one claim are not all looked at: a good one is grown instead."""
_MOST_REMEMBERED = 200_000
"""Sets remembered per shape."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim wants of the graph."""

    count: int
    union: int
    """GPUs that any of its requests may take."""
    fixed: int
    """GPUs it takes in any case (mode All)."""
    required: bool
    free: bool
    """The set does not matter: annotation ``none``, or no GPUs wanted."""


class Option(msgspec.Struct, frozen=True):
    """One candidate set of a claim; ``band`` 0 is the fastest and closest."""

    mask: int
    band: int


_NO_CHOICE = (Option(0, 0),)


def options_of(shape: Shape, want: Wanted) -> tuple[Option, ...]:
    """Candidate sets of a claim, all of them where that is feasible, fastest band first."""
    if want.free:
        return _NO_CHOICE
    key = (want.union, want.count, want.fixed, want.required)
    found = shape.remembered.get(key)
    if found is None:
        found = _remember(shape, key, _find_options(shape, want))
    return found


def ranked(shape: Shape, free: int, want: Wanted, options: tuple[Option, ...]) -> tuple[Option, ...]:
    """The sets of one claim, which alone has a choice, in order of the objective.

    ``free`` are the GPUs that nobody has.
    """
    if len(options) <= 1:
        return options
    key = (free, want.union, want.count, want.fixed, want.required)
    found = shape.remembered.get(key)
    if found is None:
        ordered = sorted(options, key=lambda o: (o.band, *remainder(shape, free, (o.mask,))))
        found = _remember(shape, key, tuple(ordered))
    return found


def remainder(shape: Shape, free: int, masks: Sequence[int]) -> tuple[object, ...]:
    """Sort key: what is lost to others, then how far apart each set lies, then device order."""
    left = free
    spread = 0.0
    for mask in masks:
        left &= ~mask
        spread -= shape.closeness(mask)
    return (
        tuple(-groups for groups in shape.placeable(left)),
        -shape.concentration(left),
        spread,
        tuple(tuple(bits(mask)) for mask in masks),
    )


def _remember(shape: Shape, key: tuple[int, ...], found: tuple[Option, ...]) -> tuple[Option, ...]:
    shape.weight += len(found) + 1
    if shape.weight > _MOST_REMEMBERED:
        shape.remembered.clear()
        shape.weight = len(found) + 1
    shape.remembered[key] = found
    return found


def _find_options(shape: Shape, want: Wanted) -> tuple[Option, ...]:
    masks = list(_sets(shape, want))
    if want.required:
        masks = [mask for mask in masks if any(not (mask | want.fixed) & ~i for i in shape.islands)]
    options: list[Option] = []
    band = -1
    predict = shape.predict if len(masks) <= EXACT_SETS else shape.predict_roughly
    for as_fast in _bands(masks, lambda mask: predict(mask | want.fixed).score):
        for as_close in _bands(as_fast, lambda mask: shape.closeness(mask | want.fixed)):
            band += 1
            options += [Option(mask, band) for mask in as_close]
    return tuple(options)


def _bands(masks: Sequence[int], worth: Callable[[int], float]) -> Iterator[list[int]]:
    """The masks best first, cut where one is clearly worse than the best of its band."""
    ordered = sorted(((worth(mask), mask) for mask in masks), key=lambda item: -item[0])
    band: list[int] = []
    top = 0.0
    for score, mask in ordered:
        if band and score < top * BAND:
            yield band
            band = []
        if not band:
            top = score
        band.append(mask)
    if band:
        yield band


def _sets(shape: Shape, want: Wanted) -> Iterator[int]:
    positions = tuple(bits(want.union))
    if comb(len(positions), want.count) <= _MAX_SETS:
        for chosen in combinations(positions, want.count):
            yield sum(1 << at for at in chosen)
        return
    seen: set[int] = set()
    for seed in positions:
        mask = 1 << seed
        while mask.bit_count() < want.count:
            mask |= _next(shape, mask, positions)
        if mask not in seen:
            seen.add(mask)
            yield mask


def _next(shape: Shape, mask: int, positions: Sequence[int]) -> int:
    """The GPU that does a set most good."""
    others = (1 << at for at in positions if not mask >> at & 1)
    return max(others, key=lambda bit: (shape.predict(mask | bit).score, -bit))
