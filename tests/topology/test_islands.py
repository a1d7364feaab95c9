"""Islands and PCIe groups of machines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baro.topology.islands import Grade, islands, pcie_groups
from baro.topology.machine import Machine
from baro.topology.profiles import load_profile
from tests.support.topology import every_maximal_set, machine_of, mesh

EIGHT = (0, 1, 2, 3, 4, 5, 6, 7)
QUADS = ((0, 1, 2, 3), (4, 5, 6, 7))

OF_PROFILE: dict[str, tuple[tuple[int, ...], ...]] = {
    "hgx-h100-8": (EIGHT,),
    "hgx-h200-8": (EIGHT,),
    "hgx-h20-8": (EIGHT,),
    "hgx-a100-8": (EIGHT,),
    "hgx-a100-8-nps4": (EIGHT,),
    "hgx-a100-4": ((0, 1, 2, 3),),
    "hgx-a100-2x4": QUADS,
    "hgx-h100-4": ((0, 1, 2, 3),),
    "hgx-h100-2x4": QUADS,
    "dgx-1v": QUADS,
    "dgx-2": (tuple(range(16)),),
    "a100-pcie-8-pairs": ((0, 2), (1, 3), (4, 5), (6, 7)),
    "azure-nc96-a100-4": ((0, 1), (2, 3)),
    "h100-nvl-8-pairs": ((0, 1), (2, 3), (4, 5), (6, 7)),
    "h200-nvl-8": QUADS,
    "h200-nvl-8-interleaved": ((0, 2, 4, 6), (1, 3, 5, 7)),
    "l40s-4": (),
    "l40s-8-switches": (),
    "b200-8": (EIGHT,),
    "b200-8-degraded": ((0, 1, 3, 4, 5, 6, 7),),
    "b300-8": (EIGHT,),
    "gb200-4": ((0, 1, 2, 3),),
    "vm-h100-8": (EIGHT,),
    "consumer-5": (),
    "consumer-4-bridged": ((0, 2), (1, 3)),
}


@pytest.mark.parametrize("name", sorted(OF_PROFILE))
def test_each_profile_has_the_islands_its_wiring_gives(name: str) -> None:
    assert islands(load_profile(name).machine()).best == OF_PROFILE[name]


def test_a_dgx_1_is_two_quads_and_its_grades_overlap() -> None:
    found = islands(load_profile("dgx-1v").machine())
    ring_of_double_links = ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))
    assert found.grades == (
        Grade(2, ring_of_double_links),
        Grade(1, (*QUADS, (0, 4), (1, 5), (2, 6), (3, 7))),
    )
    assert found.of(5) == (4, 5, 6, 7)


def test_one_weak_gpu_does_not_split_a_board() -> None:
    cells = mesh(range(4), "NV18") | {(0, 2): "NV16", (1, 2): "NV16", (2, 3): "NV16"}
    found = islands(machine_of(cells, 4))
    assert found.best == ((0, 1, 2, 3),)
    assert found.grades == (Grade(18, ((0, 1, 3),)), Grade(16, ((0, 1, 2, 3),)))


def test_a_weak_bridge_is_still_an_island() -> None:
    found = islands(machine_of({(0, 1): "NV12", (2, 3): "NV8"}, 4))
    assert found.best == ((0, 1), (2, 3))


def test_sets_that_share_a_gpu_are_both_kept_when_each_adds_one() -> None:
    assert islands(machine_of({(0, 1): "NV4", (1, 2): "NV4"}, 3)).best == ((0, 1), (1, 2))


def test_a_machine_without_nvlink_has_no_islands_but_pcie_groups() -> None:
    machine = load_profile("l40s-8-switches").machine()
    assert islands(machine).grades == ()
    pairs, fours = pcie_groups(machine)
    assert (pairs.kind, pairs.groups) == ("PIX", ((0, 1), (2, 3), (4, 5), (6, 7)))
    assert (fours.kind, fours.groups) == ("PXB", QUADS)


def test_the_known_switch_shows_pcie_groups_that_nvlink_cells_hide() -> None:
    (pairs,) = pcie_groups(load_profile("dgx-1v").machine())
    assert pairs.groups == ((0, 1), (2, 3), (4, 5), (6, 7))


def test_a_hypervisor_that_hides_the_tree_leaves_no_pcie_groups() -> None:
    assert pcie_groups(load_profile("vm-h100-8").machine()) == ()


def test_no_gpus_at_all_are_no_islands() -> None:
    assert islands(Machine()).best == ()


@given(
    st.integers(1, 7).flatmap(
        lambda n: st.tuples(
            st.just(n), st.lists(st.sampled_from([0, 1, 2, 6]), min_size=n * n, max_size=n * n)
        )
    )
)
def test_every_grade_holds_exactly_the_maximal_linked_sets(drawn: tuple[int, list[int]]) -> None:
    count, numbers = drawn
    links = {(a, b): numbers[a * count + b] for a in range(count) for b in range(a + 1, count)}
    found = islands(machine_of({pair: f"NV{n}" for pair, n in links.items() if n}, count))
    assert [grade.nvlinks for grade in found.grades] == sorted({n for n in links.values() if n}, reverse=True)
    for grade in found.grades:
        wanted = every_maximal_set(count, lambda a, b, n=grade.nvlinks: links[min(a, b), max(a, b)] >= n)  # type: ignore[misc]
        assert set(grade.islands) == wanted
        assert list(grade.islands) == sorted(grade.islands, key=lambda group: (-len(group), group))
    linked = {gpu for pair, n in links.items() if n for gpu in pair}
    if found.grades:
        assert {gpu for group in found.best for gpu in group} <= linked
        assert len(found.best[0]) == max(len(grade.islands[0]) for grade in found.grades)
