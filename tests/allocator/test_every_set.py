"""The figures of all sets at once: as one by one, as by brute force, and exact on sixteen GPUs."""

from __future__ import annotations

from itertools import combinations, permutations
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.allocator import allocate, graph
from baro.allocator.every_set import EverySet
from baro.allocator.graph import BAND, Shape
from baro.allocator.sets import Wanted, options_of, ranked
from baro.inventory import Inventory
from baro.topology.bandwidth import Predictor
from baro.topology.links import PCIE_KINDS, nvlink_count
from baro.topology.machine import Confidence, Gpu, Link, Machine
from baro.topology.profiles import load_profile, profile_names
from tests.support.cluster import claim, request
from tests.support.machines import with_graph

KINDS = [*PCIE_KINDS, "NV1", "NV2", "NV4", "NV6"]
BUSY = st.sets(st.integers(0, 7), max_size=5)


def measured(count: int, seed: int, low: float, high: float, kind: str = "PHB") -> Machine:
    """Every path measured, no two alike."""
    random = Random(seed)  # noqa: S311
    links = {
        pair: Link(
            kind=kind,
            nvlinks=nvlink_count(kind),
            gbps=random.uniform(low, high),
            confidence=Confidence.MEASURED,
        )
        for pair in combinations(range(count), 2)
    }
    return Machine(gpus=tuple(Gpu(index=at) for at in range(count)), links=links)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Links of all kinds, some measured, some not told; through switches, direct, or not told which."""
    count = draw(st.integers(2, 7))
    links: dict[tuple[int, int], Link] = {}
    for pair in combinations(range(count), 2):
        kind = draw(st.sampled_from([*KINDS, ""]))
        gbps = draw(st.one_of(st.none(), st.floats(1, 500)))
        told = Confidence.UNKNOWN if gbps is None else Confidence.MEASURED
        if kind:
            links[pair] = Link(kind=kind, nvlinks=nvlink_count(kind), gbps=gbps, confidence=told)
    gpus = tuple(Gpu(index=2 * at) for at in range(count))
    links = {(2 * a, 2 * b): link for (a, b), link in links.items()}
    return Machine(gpus=gpus, links=links, switched=draw(st.sampled_from([True, False, None])))


def all_sets(count: int) -> list[int]:
    return list(range(1 << count))


def members(mask: int) -> tuple[int, ...]:
    return tuple(at for at in range(16) if mask >> at & 1)


def assert_as_one_by_one(machine: Machine) -> None:
    shape = Shape(machine)
    every = EverySet(shape.machine)
    masks = all_sets(shape.size)
    assert every.scores(masks) == [shape.predict(mask).score for mask in masks]
    assert every.closenesses(masks) == [shape.closeness(mask) for mask in masks]


@settings(max_examples=80, deadline=None)
@given(machines())
def test_all_at_once_gives_the_figures_that_each_set_has_by_itself(machine: Machine) -> None:
    assert_as_one_by_one(machine)


@pytest.mark.parametrize("name", [n for n in profile_names() if len(load_profile(n).machine().gpus) <= 8])
def test_all_at_once_gives_the_figures_of_every_real_machine(name: str) -> None:
    assert_as_one_by_one(load_profile(name).machine())


@pytest.mark.parametrize("name", ["dgx-2", "dgx-1v"])
def test_noisy_measurements_of_a_real_machine_are_taken_as_they_are(name: str) -> None:
    random = Random(name)  # noqa: S311
    machine = load_profile(name).machine()
    links = {
        pair: msgspec.structs.replace(
            link, gbps=(link.gbps or 10.0) * random.uniform(0.9, 1.0), confidence=Confidence.MEASURED
        )
        for pair, link in machine.links.items()
    }
    shape = Shape(msgspec.structs.replace(machine, links=links))
    masks = random.sample(all_sets(shape.size), 200)
    assert EverySet(shape.machine).scores(masks) == [shape.predict(mask).score for mask in masks]


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.lists(st.floats(1, 500), min_size=15, max_size=15))
def test_without_nvlink_the_figure_is_the_slowest_hop_of_the_best_order(
    count: int, numbers: list[float]
) -> None:
    worth = dict(zip(combinations(range(count), 2), numbers, strict=False))
    links = {p: Link(kind="PHB", gbps=w, confidence=Confidence.MEASURED) for p, w in worth.items()}
    machine = Machine(gpus=tuple(Gpu(index=at) for at in range(count)), links=links)

    def slowest(order: tuple[int, ...]) -> float:
        steps = zip(order, (*order[1:], order[0]), strict=True)
        return min(worth[min(step), max(step)] for step in steps)

    masks = all_sets(count)
    best = [max(map(slowest, permutations(members(m)))) if m.bit_count() > 1 else 0.0 for m in masks]
    assert EverySet(machine).scores(masks) == best


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 8), st.integers(1, 4), st.data())
def test_disjoint_groups_are_counted_as_by_trying_all(count: int, size: int, data: st.DataObject) -> None:
    possible = [sum(1 << at for at in chosen) for chosen in combinations(range(count), min(size, count))]
    groups = sorted(data.draw(st.sets(st.sampled_from(possible))))
    every = EverySet(measured(count, 1, 1.0, 2.0))

    def most(free: int) -> int:
        return max((1 + most(free & ~group) for group in groups if not group & ~free), default=0)

    for mask in all_sets(count):
        assert every.most_disjoint(groups, size, mask) == most(mask)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["h200-nvl-8", "a100-pcie-8-pairs", "dgx-1v", "l40s-8-switches", "b200-8-degraded"]),
    BUSY,
    st.integers(1, 6),
    st.booleans(),
)
def test_both_ways_give_the_same_sets_in_the_same_order(
    name: str, busy: set[int], count: int, noisy: bool
) -> None:
    machine = load_profile(name).machine()
    if noisy:
        links = {
            pair: msgspec.structs.replace(
                link, gbps=5.0 + (7 * a + 3 * b) % 11, confidence=Confidence.MEASURED
            )
            for (pair, link) in machine.links.items()
            for a, b in [pair]
        }
        machine = msgspec.structs.replace(machine, links=links)
    free = sum(1 << at for at in range(8) if at not in busy)
    want = Wanted(count=count, union=free, fixed=0, required=False, free=False)

    def order(shape: Shape) -> list[tuple[int, int]]:
        options = options_of(shape, want)
        return [(o.mask, o.band) for band in ranked(shape, free, want, options) for o in band]

    one_by_one = order(Shape(machine))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "_ONE_BY_ONE", 0)
        assert order(Shape(machine)) == one_by_one


@pytest.mark.parametrize(
    ("count", "wanted", "low", "high"),
    [(11, 5, 10, 100), (12, 6, 95, 100), (14, 7, 60, 100), (16, 4, 10, 100)],
)
def test_on_more_than_ten_measured_gpus_the_set_taken_is_the_best_there_is(
    count: int, wanted: int, low: float, high: float
) -> None:
    machine = measured(count, count, low, high)
    snapshot = with_graph(machine)
    decision = allocate(Inventory(snapshot), "n", [claim(request(count=wanted))])
    predictor = Predictor(machine)
    score = {chosen: predictor.predict(chosen).score for chosen in combinations(range(count), wanted)}
    mine = tuple(sorted(int(key.device.removeprefix("gpu-")) for key in decision.devices))
    best = max(score.values())
    assert decision.score is not None and decision.score.rank == score[mine]
    assert score[mine] >= best * BAND

    def closeness(chosen: tuple[int, ...]) -> float:
        return sum(machine.links[pair].gbps or 0.0 for pair in combinations(chosen, 2))

    as_fast = [closeness(chosen) for chosen, worth in score.items() if worth >= best * BAND]
    assert closeness(mine) >= max(as_fast) * BAND
    again = allocate(Inventory(snapshot), "n", [claim(request(count=wanted))])
    assert again.devices == decision.devices


@pytest.mark.parametrize("seed", range(3))
def test_half_of_sixteen_measured_gpus_no_set_has_a_clearly_faster_ring(seed: int) -> None:
    """Independent of the recursion: by what every ring needs, two hops at each GPU, and by exchange."""
    machine = measured(16, seed, 10.0, 100.0)
    decision = allocate(Inventory(with_graph(machine)), "n", [claim(request(count=8))])
    assert decision.score is not None
    mine = {int(key.device.removeprefix("gpu-")) for key in decision.devices}
    predictor = Predictor(machine)
    rank = decision.score.rank
    assert predictor.predict(mine).score == rank
    for out in mine:
        for new in set(range(16)) - mine:
            assert predictor.predict(mine - {out} | {new}).score * BAND <= rank
    # Every set of eight within hops that are clearly faster than the set taken: none has a ring.
    limit = rank / BAND
    beside = {
        a: {b for b in range(16) if b != a and (machine.links[min(a, b), max(a, b)].gbps or 0) > limit}
        for a in range(16)
    }
    for chosen in combinations(range(16), 8):
        inside = set(chosen)
        if all(len(beside[a] & inside) > 1 for a in chosen):
            assert not _ring(chosen[0], chosen[0], inside - {chosen[0]}, beside)


def _ring(first: int, last: int, left: set[int], beside: dict[int, set[int]]) -> bool:
    if not left:
        return first in beside[last]
    return any(_ring(first, step, left - {step}, beside) for step in beside[last] & left)
