"""Published NVLink groups: disjoint, linked, nested, and as many and as strong as can be."""

from __future__ import annotations

from itertools import combinations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from baro.agent.groups import aligned_groups, domains, peers
from baro.topology.machine import Gpu, Link, Machine, Pair
from baro.topology.profiles import load_profile

Counts = dict[Pair, int]


def machine_of(size: int, counts: Counts) -> Machine:
    links = {
        pair: Link(kind=f"NV{n}" if (n := counts.get(pair, 0)) else "SYS", nvlinks=n)
        for pair in combinations(range(size), 2)
    }
    return Machine(gpus=tuple(Gpu(index=i, minor=i) for i in range(size)), links=links)


@st.composite
def meshes(draw: st.DrawFn, most: int = 8) -> tuple[int, Counts]:
    size = draw(st.integers(1, most))
    pairs = list(combinations(range(size), 2))
    counts = {pair: draw(st.sampled_from([0, 0, 1, 2])) for pair in pairs}
    return size, {pair: n for pair, n in counts.items() if n}


@given(meshes())
def test_groups_are_disjoint_linked_and_nested(mesh: tuple[int, Counts]) -> None:
    size, counts = mesh
    found = aligned_groups(machine_of(size, counts))
    for wanted, groups in found.items():
        members = [gpu for group in groups for gpu in group]
        assert len(members) == len(set(members))
        assert list(groups) == sorted(groups)
        for group in groups:
            assert len(group) == wanted
            assert all(pair in counts for pair in combinations(group, 2))
    for small, large in combinations(sorted(found), 2):
        inside = {gpu for group in found[large] for gpu in group}
        for group in found[small]:
            holders = [other for other in found[large] if set(group) <= set(other)]
            assert len(holders) == 1 or not set(group) & inside


def strongest(left: frozenset[int], counts: Counts) -> tuple[int, int]:
    """(pairs, links) of the best matching, by trying all: an independent, slower way."""
    best = (0, 0)
    for a, b in combinations(sorted(left), 2):
        if (a, b) in counts:
            pairs, links = strongest(left - {a, b}, counts)
            best = max(best, (pairs + 1, links + counts[a, b]))
    return best


@given(meshes(most=6))
def test_without_larger_groups_pairs_are_the_strongest_matching(mesh: tuple[int, Counts]) -> None:
    size, counts = mesh
    found = aligned_groups(machine_of(size, counts))
    if 4 in found:
        return
    groups = found.get(2, ())
    score = (len(groups), sum(counts[a, b] for a, b in groups))
    assert score == strongest(frozenset(range(size)), counts)


@given(meshes())
def test_peers_are_the_linked_gpus(mesh: tuple[int, Counts]) -> None:
    size, counts = mesh
    expected = {i: sum(i in pair for pair in counts) for i in range(size)} if size > 1 else {}
    assert peers(machine_of(size, counts)) == expected


def test_a_lost_gpu_breaks_only_the_groups_it_was_in() -> None:
    whole = load_profile("dgx-2").machine()
    links = {pair: link for pair, link in whole.links.items() if 5 not in pair}
    found = aligned_groups(msgspec.structs.replace(whole, links=links))
    assert found[8][0] == tuple(range(8, 16))
    assert (0, 1, 2, 3) in found[4]
    assert (12, 13, 14, 15) in found[4]
    assert (8, 9) in found[2]


def test_links_that_are_not_told_give_nothing() -> None:
    machine = Machine(gpus=tuple(Gpu(index=i, minor=i) for i in range(8)))
    assert (domains(machine), peers(machine), aligned_groups(machine)) == ((), {}, {})
    hidden = msgspec.structs.replace(load_profile("l40s-4").machine(), nvlink_unknown=True)
    assert peers(hidden) == {}


def test_sixteen_uneven_gpus_take_no_time() -> None:
    counts = {(a, b): 1 + (a * b) % 3 for a, b in combinations(range(16), 2) if (a + b) % 5}
    found = aligned_groups(machine_of(16, counts))
    assert found[2]
