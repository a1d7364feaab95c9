"""Sets of GPUs of one shape in order of the objective: bandwidth, closeness, what is left for others.

All masks are over positions of the shape, so nodes of one shape share what is found out here: which sets
there are, in which bands they lie, and their order for a given set of free GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, groupby
from typing import TypeVar

import msgspec

from baro.allocator.frame import bits
from baro.allocator.graph import BAND, Shape

_MOST_REMEMBERED = 200_000
"""Sets and scores remembered per shape."""

K = TypeVar("K")


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
    """One candidate set of a claim; ``band`` 0 is the fastest and closest. ``fast``: by bandwidth alone."""

    mask: int
    band: int
    fast: int = 0


_NO_CHOICE = (Option(0, 0),)


def options_of(shape: Shape, want: Wanted) -> tuple[Option, ...]:
    """All candidate sets of a claim, fastest band first."""
    if want.free:
        return _NO_CHOICE
    key = (want.union, want.count, want.fixed, want.required)
    found = shape.remembered.get(key)
    if found is None:
        options = _find_options(shape, want)
        found = remember(shape, key, options, len(options) + 1)
    return found


def ranked(
    shape: Shape, free: int, want: Wanted, options: tuple[Option, ...]
) -> Iterator[tuple[Option, ...]]:
    """The sets of one claim, which alone has a choice, band by band in order of the objective.

    ``free`` are the GPUs that nobody has. A band is put in order only when it is asked for.
    """
    for band, members in groupby(options, key=lambda option: option.band):
        key = (free, want.union, want.count, want.fixed, want.required, band)
        found = shape.remembered.get(key)
        if found is None:
            ordered = _in_order(shape, free, tuple(members))
            found = remember(shape, key, ordered, len(ordered) + 1)
        yield found


def _in_order(shape: Shape, free: int, options: tuple[Option, ...]) -> tuple[Option, ...]:
    """As sorted by ``remainder``: options of a band are in device order already."""
    if len(options) == 1:
        return options
    spread = shape.closenesses([option.mask for option in options])
    keys = [(*_lost(shape, free & ~option.mask), -near) for option, near in zip(options, spread, strict=True)]
    return tuple(options[at] for at in sorted(range(len(options)), key=keys.__getitem__))


def remainder(shape: Shape, free: int, masks: Sequence[int]) -> tuple[object, ...]:
    """Sort key: what is lost to others, then how far apart each set lies, then device order."""
    left = free
    spread = 0.0
    for mask in masks:
        left &= ~mask
        spread -= shape.closeness(mask)
    return (*_lost(shape, left), spread, tuple(tuple(bits(mask)) for mask in masks))


def _lost(shape: Shape, left: int) -> tuple[object, ...]:
    """What others can no longer have when these GPUs are left."""
    return (tuple(-groups for groups in shape.placeable(left)), -shape.concentration(left))


def remember(shape: Shape, key: tuple[object, ...], found: K, weight: int) -> K:
    """Keep what was found out about a shape; ``weight`` is how many entries it has."""
    shape.weight += weight
    if shape.weight > _MOST_REMEMBERED:
        shape.remembered.clear()
        shape.weight = weight
    shape.remembered[key] = found
    return found


def _find_options(shape: Shape, want: Wanted) -> tuple[Option, ...]:
    # At most C(16, 8) = 12,870: shapes have no more than sixteen GPUs.
    masks = [sum(chosen) for chosen in combinations([1 << at for at in bits(want.union)], want.count)]
    if want.required:
        masks = [mask for mask in masks if any(not (mask | want.fixed) & ~i for i in shape.islands)]
    options: list[Option] = []
    band = -1
    by_speed = _bands(masks, shape.scores([mask | want.fixed for mask in masks]))
    for fast, as_fast in enumerate(by_speed):
        for as_close in _bands(as_fast, shape.closenesses([mask | want.fixed for mask in as_fast])):
            band += 1
            options += [Option(mask, band, fast) for mask in as_close]
    return tuple(options)


def _bands(masks: Sequence[int], worth: Sequence[float]) -> Iterator[list[int]]:
    """The masks best first, cut where one is clearly worse than the best of its band; within a band in the
    order in which they come."""
    order = sorted(range(len(masks)), key=lambda at: -worth[at])
    first = 0
    for at in range(1, len(order) + 1):
        if at == len(order) or worth[order[at]] < worth[order[first]] * BAND:
            yield [masks[position] for position in sorted(order[first:at])]
            first = at
