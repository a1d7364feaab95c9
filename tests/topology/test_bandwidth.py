"""Predicted GB/s of sets, and the rates behind them."""

from __future__ import annotations

from itertools import combinations, permutations
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.topology import bandwidth, rates
from baro.topology.assess import complete
from baro.topology.bandwidth import Predictor, predict
from baro.topology.links import nvlink_count
from baro.topology.machine import Confidence, Gpu, Link, Machine
from baro.topology.profiles import load_profile
from tests.support.topology import KINDS, machine_of, mesh

SETS = [
    # profile, set, GB/s, slowest hop's kind
    ("h200-nvl-8", (0, 1), 150.0, "NV6"),
    ("h200-nvl-8", (0, 1, 2), 300.0, "NV6"),
    ("h200-nvl-8", (0, 1, 2, 3), 450.0, "NV6"),
    ("h200-nvl-8", (4, 5, 6, 7), 450.0, "NV6"),
    ("h200-nvl-8", (0, 1, 4, 5), 24.5, "SYS"),
    ("h200-nvl-8", (0, 1, 2, 3, 4, 5, 6, 7), 24.5, "SYS"),
    ("h200-nvl-8-interleaved", (0, 2, 4, 6), 450.0, "NV6"),
    ("h200-nvl-8-interleaved", (0, 1, 2, 3), 36.7, "NODE"),
    ("hgx-h100-8", (2, 5), 450.0, "NV18"),
    ("hgx-h100-8", (0, 1, 2, 3, 4, 5, 6, 7), 450.0, "NV18"),
    ("hgx-a100-8", (0, 3, 5, 6), 300.0, "NV12"),
    ("hgx-h100-4", (0, 1, 2, 3), 450.0, "NV6"),
    ("hgx-a100-4", (0, 1, 2, 3), 300.0, "NV4"),
    ("dgx-1v", (0, 3), 50.0, "NV2"),
    ("dgx-1v", (0, 1), 25.0, "NV1"),
    ("dgx-1v", (0, 5), 6.1, "SYS"),
    ("dgx-1v", (0, 1, 2, 3), 100.0, "NV1"),
    ("dgx-1v", (0, 1, 2, 3, 4, 5, 6, 7), 150.0, "NV2"),
    ("dgx-2", tuple(range(16)), 150.0, "NV6"),
    ("a100-pcie-8-pairs", (0, 2), 300.0, "NV12"),
    ("a100-pcie-8-pairs", (0, 1), 12.2, "SYS"),
    ("h100-nvl-8-pairs", (0, 1, 2, 3), 36.7, "NODE"),
    ("l40s-4", (0, 1), 20.4, "PIX"),
    ("b200-8", (0, 1, 2, 3), 900.0, "NV18"),
    ("b200-8-degraded", (0, 1, 2, 3), 36.7, "NODE"),
    ("gb200-4", (0, 1, 2, 3), 900.0, "NV18"),
    ("consumer-4-bridged", (0, 2), 56.25, "NV4"),
]


@pytest.mark.parametrize(("profile", "gpus", "gbps", "kind"), SETS)
def test_the_model_gives_the_figures_of_the_documentation(
    profile: str, gpus: tuple[int, ...], gbps: float, kind: str
) -> None:
    found = predict(load_profile(profile).machine(), gpus)
    assert (found.gbps, found.slowest_kind) == (gbps, kind)
    assert set(found.ring) == set(gpus)
    assert found.ring[0] == min(gpus)


def test_first_fit_on_the_two_islands_loses_nineteen_twentieths() -> None:
    predictor = Predictor(load_profile("h200-nvl-8").machine())
    first_fit = predictor.predict((0, 1, 4, 5))
    best = predictor.best_sets((0, 1, 4, 5, 6, 7), 4)[0]
    assert best.gpus == (4, 5, 6, 7)
    assert first_fit.gbps is not None and best.gbps is not None
    assert first_fit.gbps < best.gbps / 18
    assert (first_fit.confidence, best.confidence) == (Confidence.INFERRED, Confidence.REPORTED)


def test_one_gpu_and_no_gpu_have_no_ring() -> None:
    machine = load_profile("h200-nvl-8").machine()
    assert predict(machine, [3]).gbps is None
    assert predict(machine, []).gpus == ()


def test_an_unknown_index_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        predict(load_profile("l40s-4").machine(), [0, 9])


def test_pairs_without_the_degraded_gpu_come_first() -> None:
    cells = mesh(range(4), "NV18") | {(0, 2): "NV16", (1, 2): "NV16", (2, 3): "NV16"}
    ranked = Predictor(machine_of(cells, 4)).best_sets(range(4), 2, limit=6)
    assert [found.gpus for found in ranked] == [(0, 1), (0, 3), (1, 3), (0, 2), (1, 2), (2, 3)]
    assert [found.gbps for found in ranked[2:4]] == [450.0, 400.0]


def test_of_two_sets_with_one_bottleneck_the_better_linked_one_wins() -> None:
    predictor = Predictor(load_profile("a100-pcie-8-pairs").machine())
    assert predictor.best_sets((2, 3, 4, 5, 6, 7), 4)[0].gpus == (4, 5, 6, 7)


def test_required_gpus_are_in_every_set_and_impossible_sizes_give_none() -> None:
    predictor = Predictor(load_profile("h200-nvl-8").machine())
    assert predictor.best_sets((0, 1, 5, 6, 7), 4, required=(4,))[0].gpus == (4, 5, 6, 7)
    assert predictor.best_sets((0, 1), 3) == ()
    assert predictor.best_sets((0, 1), 0) == ()
    assert predictor.best_sets((0, 1), 1, required=(0, 1)) == ()


def test_a_measured_pair_overrides_the_model() -> None:
    machine = load_profile("h200-nvl-8").machine()
    slow = Link(kind="NV6", nvlinks=6, gbps=90.0, confidence=Confidence.MEASURED)
    measured = msgspec.structs.replace(machine, links={**machine.links, (0, 1): slow})
    assert predict(measured, (0, 1)).gbps == 90.0
    assert predict(measured, (0, 1)).confidence is Confidence.MEASURED
    # Rings use all pairs of the mesh; the slowest link sets the pace of each ring.
    assert predict(measured, (0, 1, 2, 3)).gbps == 270.0
    assert Predictor(measured).best_sets(range(8), 4)[0].gpus == (4, 5, 6, 7)


def test_refused_peer_access_makes_the_figure_unknown_and_says_why() -> None:
    cells = {(0, 1): "PHB"}
    machine = machine_of(cells, 2, product="NVIDIA GeForce RTX 5090")
    refused = msgspec.structs.replace(machine, links={(0, 1): Link(kind="PHB", p2p="GNS")})
    found = predict(refused, (0, 1))
    assert found.gbps is None
    assert found.confidence is Confidence.UNKNOWN
    assert "host memory" in found.notes[0]
    assert predict(machine, (0, 1)).gbps == 38.8


def test_without_a_product_pcie_figures_are_unknown_but_sets_are_ranked() -> None:
    cells = {(0, 1): "PIX", (2, 3): "PXB"}
    ranked = Predictor(machine_of(cells, 4)).best_sets(range(4), 2, limit=3)
    assert [found.gpus for found in ranked] == [(0, 1), (2, 3), (0, 2)]
    assert {found.gbps for found in ranked} == {None}


def test_on_a_flat_virtual_machine_pcie_figures_are_unknown() -> None:
    machine = complete(machine_of(mesh(range(8), "PHB") | {(0, 1): "NV2"}, 8, "Tesla V100-SXM2-16GB"))
    hidden = msgspec.structs.replace(
        machine,
        numa_hidden=True,
        links={k: Link(kind=v.kind, nvlinks=v.nvlinks) for k, v in machine.links.items()},
    )
    assert predict(hidden, (0, 1)).gbps == 50.0
    assert predict(hidden, (2, 3)).gbps is None


@pytest.mark.parametrize(
    ("gpu", "cells", "count", "wanted"),
    [
        (Gpu(index=0), mesh(range(8), "NV18"), 8, 25.0),
        (Gpu(index=0), mesh(range(8), "NV12"), 8, 25.0),
        (Gpu(index=0), mesh(range(4), "NV4"), 4, 25.0),
        (Gpu(index=0), {(0, 1): "NV4"}, 2, 14.0625),
        (Gpu(index=0), mesh(range(5), "NV1"), 5, 20.0),
        (Gpu(index=0, architecture="Blackwell"), mesh(range(8), "NV18"), 8, 50.0),
        (Gpu(index=0, cuda_compute_capability="10.0"), mesh(range(8), "NV18"), 8, 50.0),
        (Gpu(index=0, cuda_compute_capability="8.6"), {(0, 1): "NV4"}, 2, 14.0625),
        (Gpu(index=0, nvlink_version=1), mesh(range(4), "NV1"), 4, 20.0),
        (Gpu(index=0, product_name="NVIDIA GB200"), mesh(range(4), "NV18"), 4, 50.0),
    ],
)
def test_the_link_rate_comes_from_the_product_or_else_the_count(
    gpu: Gpu, cells: dict[tuple[int, int], str], count: int, wanted: float
) -> None:
    machine = machine_of(cells, count)
    machine = msgspec.structs.replace(machine, gpus=(gpu, *machine.gpus[1:]))
    assert rates.nvlink_rate(complete(machine))[0].gbps == wanted


def test_a_rate_from_the_count_alone_is_inferred() -> None:
    machine = complete(machine_of(mesh(range(4), "NV6"), 4))
    assert machine.links[0, 1].confidence is Confidence.INFERRED


def test_cells_that_add_up_to_more_links_than_a_gpu_has_mean_switches() -> None:
    assert rates.is_switched(machine_of(mesh(range(8), "NV12"), 8)) is True
    assert rates.is_switched(machine_of(mesh(range(4), "NV6"), 4)) is False
    assert rates.is_switched(machine_of(mesh(range(4), "NV6"), 4, "Tesla V100-SXM3-32GB")) is True
    assert rates.is_switched(machine_of({(0, 1): "NV12"}, 2)) is None
    assert rates.is_switched(machine_of({}, 2)) is None


@pytest.mark.parametrize(
    ("gen", "width", "kind", "wanted"),
    [
        (5, 16, "SYS", 24.5),
        (4, 8, "PIX", 10.2),
        (3, 16, "NODE", 9.2),
        (9, 16, "PIX", None),
        (5, 16, "?", None),
    ],
)
def test_pcie_paths_follow_generation_width_and_relation(
    gen: int, width: int, kind: str, wanted: float | None
) -> None:
    assert rates.pcie_gbps(gen, width, kind) == wanted


@settings(max_examples=50)
@given(st.integers(2, 6), st.lists(KINDS, min_size=15, max_size=15), st.randoms(use_true_random=False))
def test_the_figure_does_not_depend_on_how_gpus_are_numbered(
    count: int, kinds: list[str], random: Random
) -> None:
    cells = dict(zip(combinations(range(count), 2), kinds, strict=False))
    order = list(range(count))
    random.shuffle(order)
    moved = {(min(order[a], order[b]), max(order[a], order[b])): kind for (a, b), kind in cells.items()}
    plain = predict(machine_of(cells, count), range(count))
    shuffled = predict(machine_of(moved, count), range(count))
    assert shuffled.gbps == plain.gbps
    assert shuffled.score == plain.score
    assert shuffled.slowest_hop_gbps == plain.slowest_hop_gbps


@settings(max_examples=40)
@given(st.lists(KINDS, min_size=15, max_size=15), st.sets(st.integers(0, 5), min_size=2), st.integers(1, 6))
def test_the_best_set_is_the_best_of_all_sets(kinds: list[str], free: set[int], count: int) -> None:
    machine = machine_of(dict(zip(combinations(range(6), 2), kinds, strict=True)), 6)
    predictor = Predictor(machine)
    every = [predict(machine, group) for group in combinations(sorted(free), count)]
    best = predictor.best_sets(free, count, limit=3)
    assert [found.score for found in best] == sorted((found.score for found in every), reverse=True)[:3]
    assert list(best) == sorted(best, key=lambda found: (-found.score, -found.hops_gbps, found.gpus))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(KINDS, st.one_of(st.none(), st.floats(1, 500))), min_size=15, max_size=15),
    st.sampled_from([True, False, None]),
    st.integers(1, 6),
    st.integers(1, 4),
)
def test_leaving_out_sets_by_their_bound_changes_nothing(
    cells: list[tuple[str, float | None]], switched: bool | None, count: int, limit: int
) -> None:
    links = {
        pair: Link(
            kind=kind,
            nvlinks=nvlink_count(kind),
            gbps=gbps,
            confidence=Confidence.UNKNOWN if gbps is None else Confidence.MEASURED,
        )
        for pair, (kind, gbps) in zip(combinations(range(6), 2), cells, strict=True)
    }
    machine = Machine(gpus=tuple(Gpu(index=at) for at in range(6)), links=links, switched=switched)
    every = Predictor(machine).best_sets(range(6), count, limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bandwidth, "_FEW_SETS", 0)
        assert Predictor(machine).best_sets(range(6), count, limit) == every


@settings(max_examples=40)
@given(st.lists(KINDS, min_size=10, max_size=10))
def test_no_ring_beats_the_reported_one(kinds: list[str]) -> None:
    """By trying every order: the slowest hop of the reported ring is the fastest possible."""
    machine = complete(machine_of(dict(zip(combinations(range(5), 2), kinds, strict=True)), 5))
    found = predict(machine, range(5))

    def slowest(order: tuple[int, ...]) -> float:
        pairs = zip(order, (*order[1:], order[0]), strict=True)
        return min(rates.floor(machine.link(a, b)) for a, b in pairs)

    fastest = max(slowest((0, *rest)) for rest in permutations(range(1, 5)))
    assert found.slowest_hop is not None
    assert rates.floor(machine.links[found.slowest_hop]) == slowest(found.ring)
    assert found.score >= fastest
    if found.slowest_kind and not nvlink_count(found.slowest_kind):
        assert found.score == slowest(found.ring) == fastest


def test_on_more_than_sixteen_gpus_islands_are_found_without_trying_every_set() -> None:
    cells = mesh(range(0, 32, 2), "NV6") | mesh(range(1, 32, 2), "NV6")
    machine = msgspec.structs.replace(machine_of(cells, 32), switched=True)
    (best,) = Predictor(machine).best_sets(range(3, 32), 10)
    assert best.gpus == tuple(range(3, 22, 2))
    assert best.gbps == 150.0


def test_machines_of_one_shape_share_their_predictions() -> None:
    profile = load_profile("dgx-1v")
    a, b = Predictor(profile.machine("a")), Predictor(profile.machine("b"))
    assert a.predict((0, 1, 2)) is b.predict((2, 1, 0))


def test_a_pair_that_the_source_does_not_tell_counts_as_the_slowest() -> None:
    machine = Machine(gpus=(Gpu(index=0), Gpu(index=1)))
    found = predict(machine, (0, 1))
    assert (found.gbps, found.slowest_kind) == (None, "?")
    assert found.score > 0
