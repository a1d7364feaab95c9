"""GPUs and NICs of two drivers in one claim, aligned by PCIe root or NUMA node, on machines with NICs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baro.agent.slices import desired_slices, device_name, node_topology
from baro.inventory import Snapshot
from baro.model.kinds.resource import Device, DeviceConstraint, ResourceClaim
from baro.placement import Placement, place
from baro.placement.gang import GangMember, place_gang
from baro.topology.machine import Machine
from baro.topology.profiles import load_profile, profile_names
from tests.support import shared
from tests.support.cluster import claim, device, device_class, holding, node_slice, request

GPU, NIC = "gpu.baro.dev", "dra.net"
ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"
Place = dict[str, tuple[str | None, int | None]]
"""Device → PCIe root and NUMA node, ``None`` where not known."""


def nic_devices(machine: Machine) -> list[Device]:
    """What a NIC driver publishes: the standard attributes, where they are known."""
    devices = []
    for number, nic in enumerate(machine.nics):
        facts: dict[str, Any] = {}
        if nic.pcie_root is not None:
            facts["pcieRoot"] = nic.pcie_root
        if nic.numa is not None and len(nic.numa) == 1:
            facts["numaNode"] = nic.numa[0]
        devices.append(device(f"nic-{number}", **facts))
    return devices


def machine_cluster(
    profile: str, busy: Sequence[str] = (), busy_nics: Sequence[str] = ()
) -> tuple[Snapshot, Place]:
    machine = load_profile(profile).machine()
    nics = nic_devices(machine)
    slices = (*desired_slices(machine, node="n"), node_slice("n", nics, driver=NIC))
    where: Place = {}
    for gpu in machine.gpus:
        numa = gpu.numa[0] if gpu.numa is not None and len(gpu.numa) == 1 else None
        where[device_name(gpu) or ""] = (gpu.pcie_root, numa)
    for number, nic in enumerate(machine.nics):
        numa = nic.numa[0] if nic.numa is not None and len(nic.numa) == 1 else None
        where[f"nic-{number}"] = (nic.pcie_root, numa)
    held = [
        holding("n", *busy, name="gpus", driver=GPU),
        holding("n", *busy_nics, name="nics", driver=NIC),
    ]
    snapshot = Snapshot(
        slices=slices,
        node_topologies=(node_topology(machine, "n"),),
        classes=(
            device_class(GPU, f"device.driver == '{GPU}' && device.attributes['{GPU}'].type == 'gpu'"),
            device_class(NIC),
        ),
        claims=tuple(item for item, used in zip(held, (busy, busy_nics), strict=True) if used),
    )
    return snapshot, where


def pairs(count: int, attribute: str, name: str = "c") -> ResourceClaim:
    """``count`` GPUs, each with a NIC of its own that has the same attribute."""
    requests = [
        request(f"{kind}{index}", class_name=driver)
        for index in range(count)
        for kind, driver in (("gpu", GPU), ("nic", NIC))
    ]
    constraints = tuple(
        DeviceConstraint(requests=(f"gpu{index}", f"nic{index}"), match_attribute=attribute)
        for index in range(count)
    )
    plain = claim(*requests, name=name)
    devices = msgspec.structs.replace(plain.spec.devices, constraints=constraints)
    return msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, devices=devices))


def chosen(found: Placement) -> dict[str, str]:
    """Request → device."""
    return {r.request: r.device for item in found.allocations for r in item.devices.results}


def possible(where: Place, count: int, at: int, taken: Sequence[str] = ()) -> bool:
    """Whether ``count`` disjoint GPU-NIC pairs share a value, by trying everything."""
    gpus = [name for name in where if name.startswith("gpu") and name not in taken]
    nics = [name for name in where if name.startswith("nic") and name not in taken]
    fits = {
        (gpu, nic): where[gpu][at] is not None and where[gpu][at] == where[nic][at]
        for gpu, nic in product(gpus, nics)
    }
    able = [gpu for gpu in gpus if any(fits[gpu, nic] for nic in nics)]
    return any(
        all(fits[gpu, nic] for gpu, nic in zip(some, others, strict=True))
        for some in _choose(able, count)
        for others in permutations(nics, count)
    )


def _choose(items: Sequence[str], count: int) -> list[tuple[str, ...]]:
    if count == 0:
        return [()]
    return [(item, *rest) for at, item in enumerate(items) for rest in _choose(items[at + 1 :], count - 1)]


WITH_NICS = [name for name in profile_names() if load_profile(name).machine().nics]


@pytest.mark.parametrize("at", [0, 1], ids=["pcieRoot", "numaNode"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("profile", WITH_NICS)
def test_pairs_share_the_attribute_exactly_where_the_machine_has_such_pairs(
    profile: str, count: int, at: int
) -> None:
    snapshot, where = machine_cluster(profile)
    found = place(snapshot, [pairs(count, (ROOT, NUMA)[at])])
    assert found.fits == possible(where, count, at)
    devices = chosen(found)
    assert len(set(devices.values())) == len(devices) == (2 * count if found.fits else 0)
    for index in range(count if found.fits else 0):
        gpu, nic = devices[f"gpu{index}"], devices[f"nic{index}"]
        assert where[gpu][at] is not None and where[gpu][at] == where[nic][at]


@pytest.mark.parametrize("profile", ["hgx-h100-8", "hgx-h200-8", "b200-8"])
def test_eight_gpus_each_get_the_nic_of_their_own_root(profile: str) -> None:
    snapshot, where = machine_cluster(profile)
    devices = chosen(place(snapshot, [pairs(8, ROOT)]))
    assert len(set(devices.values())) == 16
    assert all(where[devices[f"gpu{index}"]][0] == where[devices[f"nic{index}"]][0] for index in range(8))


@given(
    st.sampled_from(["hgx-h100-8", "h200-nvl-8", "dgx-1v", "hgx-a100-8-nps4"]),
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 3)),
    st.integers(1, 3),
)
def test_with_devices_in_use_pairs_are_found_exactly_when_there_are_some(
    profile: str, gpus: set[int], nics: set[int], count: int
) -> None:
    busy = [f"gpu-{index}" for index in sorted(gpus)]
    busy_nics = [f"nic-{index}" for index in sorted(nics)]
    snapshot, where = machine_cluster(profile, busy, busy_nics)
    found = place(snapshot, [pairs(count, ROOT)])
    assert found.fits == possible(where, count, 0, [*busy, *busy_nics])
    devices = chosen(found)
    assert not {*busy, *busy_nics} & set(devices.values())
    for index in range(count if found.fits else 0):
        assert where[devices[f"gpu{index}"]][0] == where[devices[f"nic{index}"]][0]


def test_what_a_virtual_machine_hides_never_counts_as_equal() -> None:
    snapshot, _ = machine_cluster("vm-h100-8")
    found = place(snapshot, [pairs(1, NUMA)])
    assert not found.fits
    assert any(NUMA in reason for reason in found.reasons)


def test_pods_of_a_gang_with_gpu_and_nic_share_nodes_without_sharing_devices() -> None:
    snapshot, where = machine_cluster("hgx-h100-8")
    members = [GangMember(claims=(pairs(2, ROOT, name=f"c{index}"),)) for index in range(4)]
    found = place_gang(snapshot, members)
    assert found.fits
    results = [r for seat in found.seated for r in seat.allocations[0].devices.results]
    assert len({r.device for r in results}) == 16
    for seat in found.seated:
        devices = {r.request: r.device for r in seat.allocations[0].devices.results}
        assert all(where[devices[f"gpu{i}"]][0] == where[devices[f"nic{i}"]][0] for i in range(2))


def unequal() -> Snapshot:
    """Four GPUs on one switch fabric, of which only two have a NIC on their own PCIe root."""
    roots = {0: "pci0000:10", 2: "pci0000:40"}
    gpu = [
        device(f"gpu-{index}", type="gpu", nvlinkDomain="n", **_root(roots.get(index))) for index in range(4)
    ]
    nics = [device(f"nic-{index}", **_root(roots.get(2 * index))) for index in range(6)]
    return Snapshot(
        slices=(node_slice("n", gpu, driver=GPU), node_slice("n", nics, driver=NIC)),
        classes=(device_class(GPU), device_class(NIC)),
    )


def _root(value: str | None) -> dict[str, Any]:
    return {} if value is None else {"pcieRoot": value}


def test_018_a_gpu_with_a_nic_is_one_that_has_a_near_one() -> None:
    _, expect = shared.case("018")
    both = request("gpu0", class_name=GPU), request("nic0", class_name=NIC)
    wanted = [[int(gpu), f"NIC{nic[3:]}"] for gpu, nic in expect["allocate_1_gpu_1_nic_same_pcie"]]
    for item in (claim(*both, match=ROOT), claim(*both)):
        devices = chosen(place(unequal(), [item]))
        assert [[int(devices["gpu0"][4:]), f"NIC{devices['nic0'][4:]}"]] == wanted
    near = {index: nic for index, nic in expect["nearest_nic"].items() if nic is not None}
    found = place(unequal(), [pairs(2, ROOT)])
    assert {int(chosen(found)[f"gpu{index}"][4:]) for index in range(2)} == set(near)
    assert not place(unequal(), [pairs(3, ROOT)]).fits
