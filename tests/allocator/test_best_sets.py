"""The best set by brute force: broken islands, pairs, PCIe trees, unknown links, several claims, MIG, NIC."""

from __future__ import annotations

from itertools import combinations, permutations, product
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.allocator import NodeDecision, Outcome, allocate
from baro.allocator.validity import violations
from baro.inventory import Inventory, Snapshot
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Node
from baro.model.kinds.resource import (
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceCounterConsumption,
    DeviceSelector,
    ResourceClaim,
)
from baro.topology.bandwidth import Predictor
from baro.topology.machine import Machine
from baro.topology.profiles import load_profile
from tests.support.cluster import DRIVER, claim, cluster, device, device_class, node_slice, request
from tests.support.machines import with_graph
from tests.support.random_instances import selects

BAND = 0.93
MACHINES = ("h200-nvl-8", "h200-nvl-8-interleaved", "a100-pcie-8-pairs", "dgx-1v", "l40s-8-switches")


def _indexes(decision: NodeDecision, claim_number: int = 0, kind: str = "gpu") -> list[int]:
    found = decision.allocations[claim_number].devices.results
    return sorted(int(d.device.removeprefix("gpu-")) for d in found if d.device.startswith(f"{kind}-"))


def _judge(snapshot: Snapshot, claims: list[ResourceClaim], decision: NodeDecision) -> list[str]:
    node = Node(metadata=ObjectMeta(name="n"))
    return violations(
        snapshot.slices,
        snapshot.classes,
        node,
        claims,
        snapshot.claims,
        decision.allocations,
        selects=selects,
    )


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """A real machine, some of whose links nobody tells."""
    machine = load_profile(draw(st.sampled_from(MACHINES))).machine()
    hidden = draw(st.sets(st.sampled_from(sorted(machine.links)), max_size=3))
    links = {pair: link for pair, link in machine.links.items() if pair not in hidden}
    return msgspec.structs.replace(machine, links=links)


@settings(max_examples=60, deadline=None)
@given(machine=machines(), busy=st.sets(st.integers(0, 7), max_size=5), count=st.integers(2, 4))
def test_the_fastest_set_is_taken_and_of_those_the_closest(
    machine: Machine, busy: set[int], count: int
) -> None:
    free = [index for index in range(8) if index not in busy]
    snapshot = with_graph(machine, busy)
    wanted = [claim(request(count=count))]
    decision = allocate(Inventory(snapshot), "n", wanted)
    assert decision.fits is (len(free) >= count)
    if not decision.fits:
        return
    assert _judge(snapshot, wanted, decision) == []
    predictor = Predictor(machine)
    score = {chosen: predictor.predict(chosen).score for chosen in combinations(free, count)}
    mine = tuple(_indexes(decision))
    best = max(score.values())
    assert score[mine] >= best * BAND

    def closeness(chosen: tuple[int, ...]) -> float:
        return sum(predictor.predict(pair).score for pair in combinations(chosen, 2))

    as_fast = [closeness(chosen) for chosen in score if score[chosen] >= best * BAND]
    assert closeness(mine) >= max(as_fast) * BAND


@settings(max_examples=40, deadline=None)
@given(
    machine=machines(),
    busy=st.sets(st.integers(0, 7), max_size=4),
    counts=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_of_two_claims_no_other_sets_are_clearly_faster_for_both(
    machine: Machine, busy: set[int], counts: tuple[int, int]
) -> None:
    free = [index for index in range(8) if index not in busy]
    snapshot = with_graph(machine, busy)
    wanted = [claim(request(count=count), name=f"c{at}") for at, count in enumerate(counts)]
    decision = allocate(Inventory(snapshot), "n", wanted)
    assert decision.fits is (len(free) >= sum(counts))
    if not decision.fits:
        return
    assert _judge(snapshot, wanted, decision) == []
    predictor = Predictor(machine)

    def worth(chosen: Any) -> float:
        return predictor.predict(chosen).score if len(chosen) > 1 else float("inf")

    mine = [worth(tuple(_indexes(decision, at))) for at in (0, 1)]
    for first in combinations(free, counts[0]):
        for second in combinations([i for i in free if i not in first], counts[1]):
            pair = (worth(first), worth(second))
            at_least = all(new >= old for new, old in zip(pair, mine, strict=True))
            clearly = any(new * BAND > old for new, old in zip(pair, mine, strict=True))
            assert not (at_least and clearly), (first, second)


def test_of_two_claims_on_a_cube_mesh_one_is_not_slowed_down_to_bring_the_other_closer() -> None:
    """One of two sets of three must cross PCIe whatever is done; 5, 6 and 7 need not."""
    machine = load_profile("dgx-1v").machine()
    wanted = [claim(request(count=3), name=name) for name in "ab"]
    decision = allocate(Inventory(with_graph(machine, {2, 3})), "n", wanted)
    predictor = Predictor(machine)
    rates = sorted(predictor.predict(_indexes(decision, at)).score for at in (0, 1))
    assert rates == [6.1, 50.0]


def test_two_whole_pairs_are_closer_than_a_pair_and_two_single_gpus() -> None:
    machine = load_profile("a100-pcie-8-pairs").machine()
    pairs = sorted(pair for pair, link in machine.links.items() if link.nvlinks)
    (broken, other) = pairs[0]
    decision = allocate(Inventory(with_graph(machine, {broken})), "n", [claim(request(count=4))])
    assert other not in _indexes(decision)
    taken = set(_indexes(decision))
    assert sum(set(pair) <= taken for pair in pairs) == 2


# --- MIG beside whole GPUs ---------------------------------------------------------------------------------


def _cut(gpu: int, *, whole: bool) -> Device:
    slices = 2 if whole else 1
    used = DeviceCounterConsumption(counter_set=f"set-{gpu}", counters={"slices": Counter(value=slices)})
    kind = "gpu" if whole else "mig"
    item = device(f"{kind}-{gpu}", type=kind, nvlinkDomain="ab"[gpu // 4])
    return msgspec.structs.replace(item, consumes_counters=(used,))


def _mixed(busy: set[int]) -> Snapshot:
    """Eight GPUs in two islands, each of which may be had whole or as one partition of half of it."""
    sets = tuple(CounterSet(name=f"set-{g}", counters={"slices": Counter(value=2)}) for g in range(8))
    devices = [_cut(gpu, whole=whole) for whole in (True, False) for gpu in range(8)]
    counters = node_slice("n", (), name="counters", count=2)
    counters = msgspec.structs.replace(
        counters, spec=msgspec.structs.replace(counters.spec, shared_counters=sets)
    )
    base = cluster({"n": ()}, busy={"n": [f"mig-{gpu}" for gpu in sorted(busy)]})
    return msgspec.structs.replace(base, slices=(counters, node_slice("n", devices, name="devices", count=2)))


def _of(kind: str) -> tuple[DeviceSelector, ...]:
    text = f"device.attributes['{DRIVER}'].type == '{kind}'"
    return (DeviceSelector(cel=CELDeviceSelector(expression=text)),)


@settings(max_examples=30, deadline=None)
@given(busy=st.sets(st.integers(0, 7), max_size=5), count=st.integers(1, 4))
def test_whole_gpus_stay_in_one_island_and_partitions_go_where_gpus_are_broken(
    busy: set[int], count: int
) -> None:
    snapshot = _mixed(busy)
    whole, part = request("whole", count, selectors=_of("gpu")), request("part", selectors=_of("mig"))
    wanted = [claim(whole, part)]
    decision = allocate(Inventory(snapshot), "n", wanted)
    free = [gpu for gpu in range(8) if gpu not in busy]
    # One partition is left if a GPU is not taken whole and has no partition in use.
    fits = len(free) > count
    assert decision.fits is fits
    if not fits:
        return
    assert _judge(snapshot, wanted, decision) == []
    largest = max(sum(gpu // 4 == island for gpu in free) for island in (0, 1))
    feasible = any(
        len({gpu // 4 for gpu in chosen}) == 1 and len(free) > count for chosen in combinations(free, count)
    )
    if count <= largest and feasible:
        assert len({gpu // 4 for gpu in _indexes(decision)}) == 1


# --- NICs --------------------------------------------------------------------------------------------------

NIC = "nic.example.com"


def _nics(places: list[tuple[str | None, str | None, int | None]]) -> list[Device]:
    """(switch, root, NUMA node) of each; ``None`` is not told."""
    return [
        device(f"nic-{at}", **_told(switch, root, numa)) for at, (switch, root, numa) in enumerate(places)
    ]


def _told(switch: str | None, root: str | None, numa: int | None) -> dict[str, Any]:
    told = {"pcieSwitch": switch, "pcieRoot": root, "numaNode": numa}
    return {name: value for name, value in told.items() if value is not None}


def _with_nics(gpus: list[Device], nics: list[Device], busy: dict[str, list[str]] | None = None) -> Snapshot:
    base = cluster({"n": gpus}, busy=busy, classes=(device_class(), device_class(NIC)))
    return msgspec.structs.replace(base, slices=(*base.slices, node_slice("n", nics, driver=NIC)))


def _gpus() -> list[Device]:
    """Two GPUs to a switch, four to a root, in two NUMA nodes."""
    return [
        device(f"gpu-{i}", type="gpu", pcieSwitch=f"s{i // 2}", pcieRoot=f"r{i // 4}", numaNode=i // 4)
        for i in range(8)
    ]


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([("s9", "r9", 1), ("s9", "r9", 0)], "nic-1"),  # the GPU's NUMA node
        ([("s9", "r9", 0), ("s9", "r0", 0)], "nic-1"),  # its root
        ([("s9", "r0", 0), ("s0", "r0", 0)], "nic-1"),  # its switch
        ([(None, None, None), (None, None, 0)], "nic-1"),  # what is not told is far
    ],
)
def test_the_nearest_nic_is_taken(
    places: list[tuple[str | None, str | None, int | None]], expected: str
) -> None:
    snapshot = _with_nics(_gpus(), _nics(places), {"n": [f"gpu-{i}" for i in range(1, 8)]})
    for claims in (
        [claim(request("g"), request("n", class_name=NIC))],
        [claim(request("g"), name="a"), claim(request("n", class_name=NIC), name="b")],
    ):
        decision = allocate(Inventory(snapshot), "n", claims)
        assert [key.device for key in decision.devices] == ["gpu-0", expected]


def test_of_equal_gpus_the_one_beside_the_free_nic_is_taken() -> None:
    snapshot = _with_nics(_gpus(), _nics([("s3", "r1", 1), ("s9", "r9", 0)]))
    decision = allocate(Inventory(snapshot), "n", [claim(request("g"), request("n", class_name=NIC))])
    assert decision.score is not None and decision.score.nic == 0
    assert [key.device for key in decision.devices] in (["gpu-6", "nic-0"], ["gpu-7", "nic-0"])


def test_bandwidth_comes_before_the_nearest_nic() -> None:
    gpus = [device(f"gpu-{i}", type="gpu", nvlinkDomain="ab"[i // 2], pcieSwitch=f"s{i}") for i in range(4)]
    snapshot = _with_nics(gpus, _nics([("s0", None, None), ("s3", None, None)]), {"n": ["gpu-1"]})
    wanted = claim(request("g", 2), request("n", class_name=NIC))
    decision = allocate(Inventory(snapshot), "n", [wanted])
    assert [key.device for key in decision.devices] == ["gpu-2", "gpu-3", "nic-1"]


def test_the_claims_own_constraint_comes_before_the_nearest_nic() -> None:
    snapshot = _with_nics(_gpus(), _nics([("s0", "r0", 1), ("s9", "r1", 0)]))
    root = "resource.kubernetes.io/pcieRoot"
    wanted = claim(request("g"), request("n", class_name=NIC), match=root)
    decision = allocate(Inventory(snapshot), "n", [wanted])
    assert decision.fits and _judge(snapshot, [wanted], decision) == []
    assert [key.device for key in decision.devices] == ["gpu-0", "nic-0"]


@settings(max_examples=50, deadline=None)
@given(
    places=st.lists(
        st.tuples(
            st.sampled_from(["s0", "s1", "s2", "s3", None]),
            st.sampled_from(["r0", "r1", None]),
            st.sampled_from([0, 1, None]),
        ),
        min_size=1,
        max_size=4,
    ),
    busy=st.sets(st.integers(0, 7), max_size=6),
    count=st.integers(1, 2),
)
def test_no_other_choice_of_equal_bandwidth_has_nearer_nics(
    places: list[tuple[str | None, str | None, int | None]], busy: set[int], count: int
) -> None:
    # What hangs on a switch hangs on its root, as on a real machine.
    places = [
        (switch, root if switch is None else f"r{int(switch[1]) // 2}", numa) for switch, root, numa in places
    ]
    gpus, nics = _gpus(), _nics(places)
    snapshot = _with_nics(gpus, nics, {"n": [f"gpu-{i}" for i in sorted(busy)]})
    wanted = claim(request("g"), request("n", count, class_name=NIC))
    decision = allocate(Inventory(snapshot), "n", [wanted])
    free = [i for i in range(8) if i not in busy]
    if not decision.fits:
        assert len(nics) < count
        return
    assert decision.score is not None
    least = min(
        _distance((gpu,), picked, places)
        for gpu, picked in product(free, combinations(range(len(nics)), count))
    )
    mine = tuple(_indexes(decision))
    picked = tuple(int(k.device.removeprefix("nic-")) for k in decision.devices if k.driver == NIC)
    if any(place != (None, None, None) for place in places):
        assert decision.score.nic == _distance(mine, picked, places) == least


def _distance(
    gpus: tuple[int, ...], nics: tuple[int, ...], places: list[tuple[str | None, str | None, int | None]]
) -> int:
    """The least sum when each NIC lies beside a GPU of its own as long as there are any."""

    def far(gpu: int, nic: int) -> int:
        switch, root, numa = places[nic]
        if switch == f"s{gpu // 2}":
            return 0
        return 1 if root == f"r{gpu // 4}" else 2 if numa == gpu // 4 else 3

    most = -(-len(nics) // len(gpus))
    seats = [gpu for gpu in gpus for _ in range(most)]
    return min(
        sum(far(gpu, nic) for gpu, nic in zip(order, nics, strict=False))
        for order in permutations(seats, len(nics))
    )


def test_without_work_left_to_look_for_a_better_set_the_first_one_is_taken() -> None:
    snapshot = with_graph(load_profile("h200-nvl-8-interleaved").machine())
    wanted = claim(request(count=4))
    assert _indexes(allocate(Inventory(snapshot), "n", [wanted])) == [0, 2, 4, 6]
    first = allocate(Inventory(snapshot), "n", [wanted], work_limit=4)
    assert _indexes(first) == [0, 1, 2, 3]
    assert first.score is not None and first.score.rank == 36.7


def test_without_work_left_a_claim_that_requires_an_island_gets_no_other_set() -> None:
    snapshot = with_graph(load_profile("h200-nvl-8-interleaved").machine())
    wanted = claim(request(count=4), annotations={"baro.dev/topology": "required"})
    assert allocate(Inventory(snapshot), "n", [wanted]).fits
    assert allocate(Inventory(snapshot), "n", [wanted], work_limit=4).outcome is Outcome.GAVE_UP
