"""The topology policy against brute force, and its rules one by one."""

from __future__ import annotations

from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.allocator import NodeDecision, Outcome, Policy, allocate
from baro.allocator.validity import violations
from baro.inventory import Inventory, Snapshot
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Node
from baro.model.kinds.resource import ResourceClaim
from baro.topology.bandwidth import Predictor
from baro.topology.document import to_document
from baro.topology.machine import Confidence, Link, Machine
from baro.topology.profiles import load_profile
from tests.support.cluster import claim, cluster, device, device_class, gpus, request

TWO_FOURS = {"a": range(4), "b": range(4, 8)}


def _with_graph(machine: Machine, busy: set[int], *, numa: dict[int, int] | None = None) -> Snapshot:
    """A node ``n`` whose graph is published and whose devices tell nothing else but a NUMA node."""
    count = len(machine.gpus)
    where = numa or {}
    devices = [device(f"gpu-{i}", type="gpu", numaNode=where.get(i, 0)) for i in range(count)]
    snapshot = cluster({"n": devices}, busy={"n": [f"gpu-{index}" for index in sorted(busy)]})
    spec = {name: part for name, part in to_document(machine).items() if name not in ("apiVersion", "kind")}
    keys = {f"gpu.nvidia.com/n/gpu-{gpu.index}": gpu.index for gpu in machine.gpus}
    spec["devices"] = {**spec["devices"], **keys}
    topology = NodeTopology(metadata=ObjectMeta(name="n"), spec=spec)
    return msgspec.structs.replace(snapshot, node_topologies=(topology,))


def _indexes(decision: NodeDecision) -> list[int]:
    return sorted(int(key.device.removeprefix("gpu-")) for key in decision.devices)


def _measured(gbps: list[float], size: int) -> Machine:
    """A machine of which every pair was measured."""
    base = load_profile("l40s-8-switches").machine()
    links = {
        pair: Link(kind="SYS", gbps=value, confidence=Confidence.MEASURED)
        for pair, value in zip(combinations(range(size), 2), gbps, strict=False)
    }
    return msgspec.structs.replace(base, gpus=base.gpus[:size], links=links, nics=(), nic_links={})


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    size = draw(st.integers(2, 8))
    pairs = size * (size - 1) // 2
    rates = st.sampled_from([10.0, 20.0, 22.0, 100.0, 150.0, 160.0, 300.0])
    return _measured(draw(st.lists(rates, min_size=pairs, max_size=pairs)), size)


@settings(max_examples=120)
@given(data=st.data())
def test_no_valid_set_has_a_higher_bandwidth_than_the_chosen_one(data: st.DataObject) -> None:
    machine = data.draw(machines())
    size = len(machine.gpus)
    busy = data.draw(st.sets(st.integers(0, size - 1), max_size=size - 1))
    count = data.draw(st.integers(1, size))
    numa = {index: data.draw(st.integers(0, 1)) for index in range(size)}
    match = data.draw(st.sampled_from([None, "resource.kubernetes.io/numaNode"]))
    snapshot = _with_graph(machine, busy, numa=numa)
    wanted = claim(request(count=count), match=match)
    decision = allocate(Inventory(snapshot), "n", [wanted])
    valid = [
        chosen
        for chosen in combinations([i for i in range(size) if i not in busy], count)
        if match is None or len({numa[i] for i in chosen}) == 1
    ]
    assert decision.fits is bool(valid)
    if not valid:
        return
    predictor = Predictor(machine)
    best = max(predictor.predict(chosen).score for chosen in valid)
    assert predictor.predict(_indexes(decision)).score >= best * 0.93
    assert _judge(snapshot, [wanted], decision) == []


@settings(max_examples=60)
@given(
    busy=st.sets(st.integers(0, 7), max_size=6),
    counts=st.lists(st.integers(1, 4), min_size=2, max_size=3),
    name=st.sampled_from(["h200-nvl-8-interleaved", "dgx-1v", "a100-pcie-8-pairs", "hgx-h100-8"]),
)
def test_several_claims_fit_whenever_the_first_fit_finds_room_and_never_overlap(
    busy: set[int], counts: list[int], name: str
) -> None:
    snapshot = _with_graph(load_profile(name).machine(), busy)
    wanted = [claim(request(count=count), name=f"c{index}") for index, count in enumerate(counts)]
    inventory = Inventory(snapshot)
    decision = allocate(inventory, "n", wanted)
    assert decision.outcome is allocate(inventory, "n", wanted, policy=Policy.FIRST_FIT).outcome
    if decision.fits:
        assert _judge(snapshot, wanted, decision) == []


def _judge(snapshot: Snapshot, claims: list[ResourceClaim], decision: NodeDecision) -> list[str]:
    return violations(
        snapshot.slices,
        snapshot.classes,
        Node(metadata=ObjectMeta(name="n")),
        claims,
        snapshot.claims,
        decision.allocations,
        selects=lambda expression, item, device: True,
    )


@pytest.mark.parametrize(
    ("busy", "count", "expected"),
    [
        ({1, 2, 3}, 1, [0]),  # the broken island gives, the whole one stays
        ({1, 2, 3}, 2, [4, 5]),
        ({2, 3}, 2, [0, 1]),  # a pair is taken from the island that has only a pair left
        ({0}, 3, [1, 2, 3]),
        (set(), 4, [0, 1, 2, 3]),
        ({0, 5}, 2, [1, 2]),
    ],
)
def test_whole_islands_are_kept_and_broken_ones_are_used_up(
    busy: set[int], count: int, expected: list[int]
) -> None:
    snapshot = _with_graph(load_profile("h200-nvl-8").machine(), busy)
    assert _indexes(allocate(Inventory(snapshot), "n", [claim(request(count=count))])) == expected


def test_one_gpu_claims_take_a_degraded_gpu_first() -> None:
    snapshot = _with_graph(load_profile("b200-8-degraded").machine(), set())
    assert _indexes(allocate(Inventory(snapshot), "n", [claim()])) == [2]


def test_the_published_graph_beats_what_attributes_suggest() -> None:
    interleaved = _with_graph(load_profile("h200-nvl-8-interleaved").machine(), set())
    assert _indexes(allocate(Inventory(interleaved), "n", [claim(request(count=4))])) == [0, 2, 4, 6]


def test_without_a_graph_the_islands_come_from_attributes_and_gbps_from_the_product() -> None:
    snapshot = cluster({"n": gpus(TWO_FOURS)}, busy={"n": ["gpu-2", "gpu-3"]})
    decision = allocate(Inventory(snapshot), "n", [claim(request(count=4))])
    assert _indexes(decision) == [4, 5, 6, 7]
    assert decision.score is not None and decision.score.gbps == 450.0


def test_an_unknown_product_gives_an_island_but_no_gbps() -> None:
    devices = [device(f"gpu-{index}", nvlinkDomain="ab"[index // 4]) for index in range(8)]
    snapshot = cluster({"n": devices}, busy={"n": ["gpu-2", "gpu-3"]})
    decision = allocate(Inventory(snapshot), "n", [claim(request(count=4))])
    assert _indexes(decision) == [4, 5, 6, 7]
    assert decision.reasons == ("4×GPU on node n: island b",)


@pytest.mark.parametrize(("annotation", "expected"), [("none", [0, 1, 4, 5]), ("preferred", [4, 5, 6, 7])])
def test_the_annotation_decides_whether_topology_matters(annotation: str, expected: list[int]) -> None:
    snapshot = cluster({"n": gpus(TWO_FOURS)}, busy={"n": ["gpu-2", "gpu-3"]})
    wanted = claim(request(count=4), annotations={"baro.dev/topology": annotation})
    assert _indexes(allocate(Inventory(snapshot), "n", [wanted])) == expected


def test_a_required_island_is_refused_where_no_topology_is_known() -> None:
    devices = [device(f"gpu-{index}") for index in range(8)]
    wanted = claim(request(count=2), annotations={"baro.dev/topology": "required"})
    decision = allocate(Inventory(cluster({"n": devices})), "n", [wanted])
    assert decision.outcome is Outcome.NO_FIT
    assert decision.reasons == ("claim default/c requires one island: 8 free GPUs, no island is known here",)


def test_a_required_island_for_a_single_gpu_is_no_demand() -> None:
    wanted = claim(annotations={"baro.dev/topology": "required"})
    assert allocate(Inventory(cluster({"n": [device("gpu-0")]})), "n", [wanted]).fits


def test_the_annotation_of_an_exclusive_class_replaces_its_false() -> None:
    hidden = {"baro.dev/selector": "device.driver == 'gpu.nvidia.com'"}
    for notes, fits in ((hidden, True), ({}, False)):
        exclusive = device_class("gpu.baro.dev", "false", notes)
        snapshot = cluster({"n": gpus(TWO_FOURS)}, classes=[exclusive])
        decision = allocate(Inventory(snapshot), "n", [claim(request(class_name="gpu.baro.dev"))])
        assert decision.fits is fits


def test_a_device_whose_selector_fails_is_passed_over_and_reported_when_nothing_fits() -> None:
    needs_type = device_class(expression="device.attributes['gpu.nvidia.com'].type == 'gpu'")
    devices = [device("gpu-0"), device("gpu-1", type="gpu")]
    inventory = Inventory(cluster({"n": devices}, classes=[needs_type]))
    assert _indexes(allocate(inventory, "n", [claim()])) == [1]
    both = allocate(inventory, "n", [claim(request(count=2))])
    assert both.outcome is Outcome.ERROR and both.error is not None and "no such key: type" in both.error
    assert allocate(inventory, "n", [claim()], policy=Policy.FIRST_FIT).outcome is Outcome.ERROR
