"""Public reports of wrong placements, each with what a good tool must answer."""

from __future__ import annotations

import msgspec
import pytest

from baro.allocator import Outcome, Policy, allocate
from baro.inventory import Inventory, Snapshot
from baro.model.kinds.resource import (
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ResourceSlice,
)
from baro.placement import Placement, first_fit, place
from tests.support import shared
from tests.support.cluster import (
    claim,
    cluster,
    device,
    device_class,
    gpus,
    holding,
    node_slice,
    request,
)

TWO_FOURS = {"a": range(4), "b": range(4, 8)}
DOMAIN = "gpu.nvidia.com/nvlinkDomain"


def _names(placement: Placement) -> list[str]:
    return [r.device for allocation in placement.allocations for r in allocation.devices.results]


def _one_machine(free: list[int]) -> Snapshot:
    devices = gpus(TWO_FOURS)
    busy = [f"gpu-{index}" for index in range(8) if index not in free]
    return cluster({"a": devices}, busy={"a": busy})


def _gpu_names(indexes: list[int]) -> list[str]:
    return [f"gpu-{index}" for index in indexes]


def test_034_four_gpus_are_taken_from_one_group_of_four() -> None:
    _, expect = shared.case("034")
    wanted = expect["allocate"]
    found = place(_one_machine(wanted["free"]), [claim(request(count=wanted["count"]))])
    assert sorted(_names(found)) == _gpu_names(wanted["result"])
    assert found.reasons[0] == "4×H200 on node a: island b, 450 GB/s ring"


def test_034_a_hard_requirement_says_how_large_the_largest_group_is() -> None:
    _, expect = shared.case("034")
    wanted = expect["allocate_hard"]
    snapshot = _one_machine(wanted["free"])
    required = claim(request(count=wanted["count"]), annotations={"baro.dev/topology": "required"})
    found = place(snapshot, [required])
    assert not found.fits
    assert f"5 free GPUs, largest island has {wanted['largest_group']}" in found.reasons[0]
    matched = place(snapshot, [claim(request(count=wanted["count"]), match=DOMAIN)])
    assert not matched.fits
    assert any("largest group has 3" in reason for reason in matched.reasons)


def test_034_a_soft_wish_states_the_crossing() -> None:
    _, expect = shared.case("034")
    found = place(_one_machine(expect["allocate_hard"]["free"]), [claim(request(count=4))])
    assert found.fits
    assert "across islands (1 in a, 3 in b)" in found.reasons[0]


def test_034_first_fit_takes_the_crossing_set_that_the_report_saw() -> None:
    _, expect = shared.case("034")
    snapshot = _one_machine(expect["allocate"]["free"])
    (found,) = first_fit(snapshot, [claim(request(count=4))], nodes=["a"])
    assert [key.device for key in found.decision.devices] == _gpu_names(
        expect["diagnose_existing_pod"]["gpus"]
    )
    best = place(snapshot, [claim(request(count=4))])
    assert best.score is not None and best.score.gbps is not None
    assert found.gbps is None or found.gbps < best.score.gbps


def _pairs(busy: list[str]) -> Snapshot:
    islands = {"a": [0, 2], "b": [1, 3], "c": [4, 5], "d": [6, 7]}
    return cluster({"n": gpus(islands, product="NVIDIA A100 80GB PCIe")}, busy={"n": busy})


@pytest.mark.parametrize(
    ("count", "match", "busy", "field"),
    [
        (2, None, [], "no_constraint"),
        (2, DOMAIN, [], "with_constraint"),
        (2, DOMAIN, ["gpu-0"], "with_constraint_gpu0_used"),
        (4, DOMAIN, [], "count_4"),
    ],
)
def test_035_pairs_that_are_not_adjacent(count: int, match: str | None, busy: list[str], field: str) -> None:
    _, expect = shared.case("035")
    found = place(_pairs(busy), [claim(request(count=count), match=match)], policy=Policy.FIRST_FIT)
    assert (_names(found) if found.fits else "unsatisfiable") == expect[field]


def test_035_topology_finds_a_linked_pair_without_any_constraint() -> None:
    found = place(_pairs(["gpu-0"]), [claim(request(count=2))])
    assert _names(found) == ["gpu-1", "gpu-3"]


@pytest.mark.parametrize("count", [1, 2])
def test_038_an_attribute_that_nobody_publishes_never_satisfies_a_constraint(count: int) -> None:
    _, expect = shared.case("038")
    devices = [device(f"gpu-{index}", type="gpu", uuid=f"GPU-{index}") for index in range(2)]
    found = place(cluster({"n": devices}), [claim(request(count=count), match=DOMAIN)])
    assert expect[f"allocate_count_{count}"] == "unsatisfiable" and not found.fits
    assert any(f"matchAttribute {DOMAIN}: no device has it" in reason for reason in found.reasons)


def _gpu_and_nic(nics: list[Device], gpu: Device, gpu_driver: str = "gpu.nvidia.com") -> Snapshot:
    return Snapshot(
        slices=(
            node_slice("n", [gpu], driver=gpu_driver, name="g"),
            node_slice("n", nics, driver="dra.net", name="x"),
        ),
        classes=(device_class(gpu_driver), device_class("dra.net")),
    )


def test_039_int_and_string_never_match_and_the_reason_says_so() -> None:
    _, expect = shared.case("039")
    both = claim(
        request("gpu"),
        request("nic", class_name="dra.net"),
        match="resource.kubernetes.io/numaNode",
    )
    mixed = place(_gpu_and_nic([device("eth1", numaNode="0")], device("gpu-0", numaNode=0)), [both])
    assert not mixed.fits and expect["mixed_types"] == "unsatisfiable"
    assert any(expect["mixed_types_reason"] in reason for reason in mixed.reasons)
    same = _gpu_and_nic([device("eth0", numaNode=1), device("eth1", numaNode=0)], device("gpu-0", numaNode=0))
    assert _names(place(same, [both])) == expect["same_types"]


def test_040_the_near_miss_of_an_attribute_name_is_named() -> None:
    _, expect = shared.case("040")
    both = claim(
        request("gpu", class_name="gpu.intel.com"),
        request("nic", class_name="dra.net"),
        match="resource.kubernetes.io/pcieRoot",
    )
    gpu = device("gpu-0", pciRoot="pci0000:15")
    found = place(_gpu_and_nic([device("eth1", pcieRoot="pci0000:15")], gpu, "gpu.intel.com"), [both])
    assert not found.fits and expect["allocate"] == "unsatisfiable"
    assert any(expect["hint_contains"] in reason for reason in found.reasons)


def test_042_two_of_three_gpus_are_those_of_one_numa_node() -> None:
    _, expect = shared.case("042")
    where = {"0000:25:00.0": 0, "0000:81:00.0": 1, "0000:e2:00.0": 1}
    devices = [
        device(f"gpu-{index}", type="gpu", numaNode=numa, pciBusID=bus)
        for index, (bus, numa) in enumerate(where.items())
    ]
    snapshot = cluster({"n": devices})
    bus_of = {f"gpu-{index}": bus for index, bus in enumerate(where)}
    two = place(snapshot, [claim(request(count=2))])
    assert [bus_of[name] for name in _names(two)] == expect["allocate_2"]
    assert len(_names(place(snapshot, [claim(request(count=3))]))) == 3


def _mig(name: str) -> Device:
    part = DeviceCounterConsumption(counter_set="gpu-0", counters={"memory-slices": Counter(value=4)})
    return Device(name=name, consumes_counters=(part,))


def _partitioned(generation: int, letters: str) -> tuple[ResourceSlice, ...]:
    """A pool of eight memory slices and devices of four each."""
    counters = CounterSet(name="gpu-0", counters={"memory-slices": Counter(value=8)})
    empty = node_slice("n", [], name="counters", generation=generation, count=2)
    spec = msgspec.structs.replace(empty.spec, shared_counters=(counters,))
    devices = [_mig(f"mig-{letter}") for letter in letters]
    return (
        msgspec.structs.replace(empty, spec=spec),
        node_slice("n", devices, name="devices", generation=generation, count=2),
    )


def test_045_an_allocated_device_that_vanishes_keeps_its_counters() -> None:
    _, expect = shared.case("045")
    inventory = Inventory(Snapshot(slices=_partitioned(1, "ab"), classes=(device_class(),)))
    inventory.hold_claim(holding("n", "mig-a", name="first"))
    inventory.replace_slices("n", _partitioned(2, "bcd"))

    def outcome() -> Outcome:
        return allocate(inventory, "n", [claim()]).outcome

    assert expect["allocate_mig_c"] == "ok" and outcome() is Outcome.FIT
    inventory.hold_claim(holding("n", "mig-c", name="second"))
    assert expect["allocate_mig_d"] == "unsatisfiable" and outcome() is Outcome.NO_FIT
    assert any("mig-a is no longer published" in problem for problem in inventory.problems())
    inventory.release_claim("default/first")
    assert outcome() is Outcome.FIT


def test_046_an_error_on_one_node_does_not_spoil_the_other() -> None:
    _, expect = shared.case("046")
    expression = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
    snapshot = cluster(
        {"good": [device("gpu-0", type="gpu")], "kwok": [device("gpu-0", model="H100", uuid="x")]},
        classes=[device_class("gpu.nvidia.com", expression)],
    )
    found = place(snapshot, [claim()])
    assert found.node == "good" and _names(found) == expect["good"]
    (kwok,) = (decision for decision in found.per_node if decision.node == "kwok")
    assert kwok.outcome is Outcome.ERROR and kwok.error is not None
    blamed = "class gpu.nvidia.com: selector #0 on device gpu.nvidia.com/kwok/gpu-0"
    assert kwok.error.startswith(f"{blamed}: CEL runtime error: no such key: type")


def test_048_first_available_falls_back_and_names_the_subrequest() -> None:
    _, expect = shared.case("048")
    big = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('79Gi')) >= 0"
    wanted = DeviceRequest(
        name="gpu",
        first_available=(
            DeviceSubRequest(
                name="big",
                device_class_name="gpu.nvidia.com",
                selectors=(DeviceSelector(cel=CELDeviceSelector(expression=big)),),
            ),
            DeviceSubRequest(name="two-small", device_class_name="gpu.nvidia.com", count=2),
        ),
    )
    snapshot = cluster({"n": [device(f"gpu-{index}", memory="40960Mi", type="gpu") for index in range(2)]})
    found = place(snapshot, [claim(wanted)])
    results = found.allocations[0].devices.results
    assert {results[0].request: [result.device for result in results]} == expect["result"]


def test_026_only_the_newest_generation_counts() -> None:
    _, expect = shared.case("026")
    snapshot = Snapshot(
        slices=(
            node_slice("n1", [device(f"gpu-{index}") for index in range(3)], name="a", generation=1),
            node_slice("n1", [device("gpu-0")], name="b", generation=2),
        ),
        classes=(device_class(),),
    )
    inventory = Inventory(snapshot)
    pools = inventory.pools("n1")
    assert [inventory.key(row).device for row in pools.pools[0].rows] == expect["usable_devices"]
    assert list(pools.stale_slices) == expect["stale_slices"]
    assert _names(place(inventory, [claim()])) == expect["claim_count_1"]
    assert not place(inventory, [claim(request(count=2))]).fits
