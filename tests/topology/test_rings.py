"""Ring search against brute force."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.topology import rings
from baro.topology.profiles import load_profile
from baro.topology.rings import best_ring, packed_rings
from tests.support.topology import every_ring, hops

WEIGHTS = st.integers(4, 7).flatmap(
    lambda size: st.tuples(
        st.just(size), st.lists(st.sampled_from([0.0, 6.1, 24.5, 50.0, 150.0]), min_size=21, max_size=21)
    )
)


@settings(max_examples=60)
@given(WEIGHTS)
def test_the_best_ring_has_the_fastest_slowest_hop_then_the_largest_sum(
    drawn: tuple[int, list[float]],
) -> None:
    size, numbers = drawn
    weight = dict(zip(combinations(range(size), 2), numbers, strict=False))

    def worth(ring: tuple[int, ...]) -> tuple[float, float]:
        steps = [weight[pair] for pair in hops(ring)]
        return min(steps), sum(steps)

    found = best_ring(size, lambda a, b: weight[min(a, b), max(a, b)])
    assert sorted(found) == list(range(size))
    assert found[0] == 0
    assert worth(found) == pytest.approx(max(worth(ring) for ring in every_ring(size)))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.5, 7.25]), min_size=36, max_size=36))
def test_the_slowest_hop_of_nine_positions_is_exact(numbers: list[float]) -> None:
    """By leaving hops out: a hop faster than the ring's slowest belongs to no ring of such hops."""
    weight = dict(zip(combinations(range(9), 2), numbers, strict=True))
    found = best_ring(9, lambda a, b: weight[min(a, b), max(a, b)])
    assert sorted(found) == list(range(9))
    assert found[0] == 0 and found[1] < found[-1]
    slowest = min(weight[pair] for pair in hops(found))
    faster = {pair for pair, worth in weight.items() if worth > slowest}

    def closes(last: int, left: frozenset[int]) -> bool:
        if not left:
            return (0, last) in faster
        return any((min(last, n), max(last, n)) in faster and closes(n, left - {n}) for n in left)

    assert not closes(0, frozenset(range(1, 9)))


@settings(max_examples=60)
@given(WEIGHTS)
def test_the_way_for_many_positions_finds_the_same_slowest_hop(drawn: tuple[int, list[float]]) -> None:
    size, numbers = drawn
    weight = dict(zip(combinations(range(size), 2), numbers, strict=False))

    def slowest(ring: tuple[int, ...]) -> float:
        return min(weight[pair] for pair in hops(ring))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rings, "EXACT_POSITIONS", 0)
        found = best_ring(size, lambda a, b: weight[min(a, b), max(a, b)])
    assert slowest(found) == max(slowest(ring) for ring in every_ring(size))


def test_more_than_eight_alike_positions_need_no_search() -> None:
    assert best_ring(16, lambda a, b: 150.0) == tuple(range(16))


def test_two_groups_of_eight_are_left_and_entered_once() -> None:
    ring = best_ring(16, lambda a, b: 40.0 if (a < 8) == (b < 8) else 24.5)
    assert sorted(ring) == list(range(16))
    assert sum((a < 8) != (b < 8) for a, b in hops(ring)) == 2


@pytest.mark.parametrize(
    ("size", "links", "wanted"), [(3, 6, 12), (4, 1, 3), (4, 4, 12), (4, 6, 18), (8, 1, 7)]
)
def test_a_full_mesh_uses_every_link(size: int, links: int, wanted: float) -> None:
    assert packed_rings(size, lambda a, b: links) == wanted


def test_without_a_ring_over_links_nothing_is_packed() -> None:
    path = {(0, 1), (1, 2), (2, 3)}
    assert packed_rings(4, lambda a, b: int((min(a, b), max(a, b)) in path)) == 0.0


@settings(max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_packing_four_positions_is_exact(numbers: list[int]) -> None:
    """There are three rings over four positions: try every number of half rings of each."""
    caps = dict(zip(combinations(range(4), 2), numbers, strict=True))
    pairs_of = [hops(ring) for ring in every_ring(4)]
    best = 0
    for counts in product(range(7), repeat=3):
        used = dict.fromkeys(caps, 0)
        for count, pairs in zip(counts, pairs_of, strict=True):
            for pair in pairs:
                used[pair] += count
        if all(used[pair] <= 2 * caps[pair] for pair in caps):
            best = max(best, sum(counts))
    assert packed_rings(4, lambda a, b: caps[min(a, b), max(a, b)]) == best


@settings(max_examples=40)
@given(st.integers(3, 6), st.lists(st.integers(0, 2), min_size=15, max_size=15))
def test_no_packing_beats_what_a_gpu_can_send(size: int, numbers: list[int]) -> None:
    caps = dict(zip(combinations(range(size), 2), numbers, strict=False))
    packed = packed_rings(size, lambda a, b: caps[min(a, b), max(a, b)])
    out = [sum(count for pair, count in caps.items() if position in pair) for position in range(size)]
    assert packed <= min(out)
    single = max(min(caps[pair] for pair in hops(ring)) for ring in every_ring(size))
    assert packed >= 2 * single if size > 2 else True


def test_the_search_budget_does_not_bind_on_the_cube_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_profile("dgx-1v").machine()

    def packed() -> list[float]:
        def links(group: tuple[int, ...], a: int, b: int) -> int:
            found = machine.link(group[a], group[b])
            return found.nvlinks if found else 0

        return [
            packed_rings(size, lambda a, b, group=group: links(group, a, b))  # type: ignore[misc]
            for size in (4, 6, 8)
            for group in combinations(range(8), size)
        ]

    usual = packed()
    monkeypatch.setattr(rings, "SEARCH_BUDGET", rings.SEARCH_BUDGET * 50)
    assert packed() == usual
