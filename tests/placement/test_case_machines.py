"""Public reports about machines: what a claim gets on the machine that the report shows."""

from __future__ import annotations

import msgspec
import pytest

from baro.agent.slices import desired_slices, node_topology
from baro.inventory import Snapshot
from baro.model.kinds.resource import DeviceTaint, ExactDeviceRequest
from baro.placement import Placement, place
from baro.topology import topo_m
from baro.topology.machine import Machine
from tests.support import shared
from tests.support.cluster import claim, cluster, device, device_class, holding, request

DRIVER = "gpu.baro.dev"
NUMA = "resource.kubernetes.io/numaNode"


def machine(number: str) -> tuple[Machine, dict[str, object]]:
    inputs, expect = shared.case(number)
    found = topo_m.parse(inputs["topo.txt"])
    gpus = tuple(msgspec.structs.replace(gpu, minor=gpu.index) for gpu in found.gpus)
    return msgspec.structs.replace(found, gpus=gpus), expect


def snapshot(found: Machine, busy: tuple[int, ...] = ()) -> Snapshot:
    return Snapshot(
        slices=desired_slices(found, node="n"),
        node_topologies=(node_topology(found, "n"),),
        classes=(device_class(DRIVER),),
        claims=(holding("n", *(f"gpu-{index}" for index in busy), driver=DRIVER),) if busy else (),
    )


def indexes(found: Placement) -> list[int]:
    return sorted(int(r.device[4:]) for a in found.allocations for r in a.devices.results)


@pytest.mark.parametrize(
    ("number", "field", "count"),
    [("006", "allocate_2", 2), ("012", "allocate_2", 2), ("014", "allocate_2", 2), ("014", "allocate_4", 4)],
)
def test_the_machine_gives_the_set_that_the_report_wants(number: str, field: str, count: int) -> None:
    found, expect = machine(number)
    wanted = claim(request(count=count, class_name=DRIVER))
    assert indexes(place(snapshot(found), [wanted])) == expect[field]


def test_006_two_gpus_of_one_numa_node_are_impossible_there() -> None:
    found, expect = machine("006")
    wanted = claim(request(count=2, class_name=DRIVER), match=NUMA)
    assert expect["allocate_2_with_same_numa"] == "unsatisfiable"
    assert not place(snapshot(found), [wanted]).fits


def test_014_four_gpus_are_said_to_be_not_fully_linked() -> None:
    found, expect = machine("014")
    answer = place(snapshot(found), [claim(request(count=4, class_name=DRIVER))])
    assert expect["allocate_4_fully_linked"] is False
    assert "across islands" in answer.reasons[0]


@pytest.mark.parametrize("busy", [0, 4, 7])
def test_001_a_pair_is_always_one_that_is_linked(busy: int) -> None:
    found, expect = machine("001")
    answer = place(snapshot(found, (busy,)), [claim(request(count=2, class_name=DRIVER))])
    assert indexes(answer) in expect["nvlink_groups"]  # type: ignore[operator]


def test_009_a_pair_without_the_degraded_gpu_is_preferred() -> None:
    found, expect = machine("009")
    pair = indexes(place(snapshot(found), [claim(request(count=2, class_name=DRIVER))]))
    assert pair in expect["preferred_pairs"]  # type: ignore[operator]


def test_032_all_devices_of_an_empty_pool_are_none() -> None:
    _, expect = shared.case("032")
    everything = msgspec.structs.replace(
        request(), exactly=ExactDeviceRequest(device_class_name="gpu.nvidia.com", allocation_mode="All")
    )
    assert expect["allocationMode_All"] == "unsatisfiable"
    assert not place(cluster({"n1": []}), [claim(everything)]).fits


def test_033_a_taint_without_effect_keeps_nobody_away() -> None:
    _, expect = shared.case("033")
    taints = {
        "gpu-0": ("xid", "31", "None"),
        "gpu-1": ("xid", "79", "NoSchedule"),
        "gpu-2": ("un", "", "None"),
    }
    devices = [
        msgspec.structs.replace(
            device(name), taints=(DeviceTaint(key=f"gpu.nvidia.com/{key}", value=value, effect=effect),)
        )
        for name, (key, value, effect) in taints.items()
    ]
    snapshot_ = cluster({"n": devices})
    found = place(snapshot_, [claim(request(count=2))])
    assert [r.device for a in found.allocations for r in a.devices.results] == expect["allocatable"]
    assert not place(snapshot_, [claim(request(count=3))]).fits
