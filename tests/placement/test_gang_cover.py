"""Distributing loads over nodes: exact by counting and search, against trying everything."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baro.placement.gang.cover import Bin, Chosen, Counts, Load, Meter, OutOfWork, cover, least_nodes


def closed(maximal: Counts, cost: float = 0.0) -> tuple[Load, ...]:
    """All loads up to a largest one, as a node carries them."""
    parts = product(*(range(count + 1) for count in maximal))
    return tuple(Load(counts, (cost * sum(counts),)) for counts in parts if any(counts))


def carried(chosen: Chosen) -> Counts:
    return tuple(map(sum, zip(*(load.counts for _, load in chosen), strict=True)))


def fewest(maxima: list[tuple[Counts, ...]], wanted: Counts) -> int | None:
    """The least number of nodes by trying every load on every node; each node has its maximal loads."""
    best: int | None = None
    choices = []
    for of_node in maxima:
        loads = {load.counts for maximal in of_node for load in closed(maximal)}
        choices.append([tuple(0 for _ in wanted), *sorted(loads)])
    for taken in product(*choices):
        if tuple(map(sum, zip(*taken, strict=True))) == wanted:
            used = sum(any(load) for load in taken)
            best = used if best is None else min(best, used)
    return best


@st.composite
def instances(draw: st.DrawFn) -> tuple[list[tuple[Counts, ...]], Counts]:
    kinds = draw(st.integers(1, 2))
    counts = st.tuples(*(st.integers(0, 3) for _ in range(kinds)))
    nodes = draw(st.lists(st.lists(counts, min_size=1, max_size=2).map(tuple), min_size=1, max_size=4))
    wanted = draw(st.tuples(*(st.integers(1, 5) for _ in range(kinds))))
    return nodes, wanted


@given(instances())
def test_a_way_is_found_exactly_when_there_is_one_and_with_the_fewest_nodes(
    instance: tuple[list[tuple[Counts, ...]], Counts],
) -> None:
    maxima, wanted = instance
    alike: dict[tuple[Counts, ...], list[str]] = {}
    for index, of_node in enumerate(maxima):
        alike.setdefault(of_node, []).append(f"n{index}")
    bins = []
    for of_node, names in alike.items():
        loads = {load.counts: load for maximal in of_node for load in closed(maximal)}
        bins.append(Bin(tuple(names), tuple(loads.values())))
    bins = [item for item in bins if item.loads]
    found = cover(bins, wanted, Meter(100_000))
    truth = fewest(maxima, wanted)
    if found is None:
        assert truth is None
        return
    assert carried(found) == wanted
    assert len({node for node, _ in found}) == len(found) == truth
    for node, load in found:
        of_node = maxima[int(node[1:])]
        assert any(all(c <= m for c, m in zip(load.counts, top, strict=True)) for top in of_node)
    bound = least_nodes(bins, wanted)
    assert bound is not None and bound <= len(found)


def test_the_remainder_goes_where_it_costs_least() -> None:
    bins = [Bin(("a", "b"), closed((4,), cost=5.0)), Bin(("broken",), closed((1,), cost=0.0))]
    found = cover(bins, (5,), Meter(100))
    assert found is not None
    assert [(node, load.counts) for node, load in found] == [("a", (4,)), ("broken", (1,))]


def test_a_search_without_work_to_spend_proves_nothing() -> None:
    # Two kinds that exclude each other on a node: counting alone allows what is impossible.
    loads = tuple(map(Load, ((1, 0), (2, 0), (0, 1), (0, 2))))
    bins = [Bin(("a", "b", "c"), loads)]
    assert cover(bins, (4, 2), Meter(10_000)) is not None
    assert least_nodes(bins, (3, 3)) == 3
    assert cover(bins, (3, 3), Meter(10_000)) is None
    with pytest.raises(OutOfWork):
        cover(bins, (3, 3), Meter(0))


def test_a_gang_of_thousands_is_distributed_by_counting() -> None:
    bins = [Bin(tuple(f"n{index}" for index in range(1000)), closed((8,)))]
    found = cover(bins, (7999,), Meter(10))
    assert found is not None and len(found) == 1000 and carried(found) == (7999,)
    assert cover(bins, (8001,), Meter(10)) is None
