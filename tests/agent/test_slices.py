"""Desired slices: names, attributes, limits; what is unknown is left out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baro.agent.slices import (
    desired_slices,
    domain_name,
    node_topology,
    reconcile,
    semver_of,
    slice_name,
)
from baro.model.errors import InputError
from baro.model.kinds.resource import Device, DeviceAttribute, DeviceTaint, ResourceSlice
from baro.model.semver import SemVer
from baro.model.validation import validate_create
from baro.topology.machine import Gpu, Link, Machine, Warn
from baro.topology.profiles import load_profile, profile_names
from tests.support.shared import case


def machine_of(count: int, **facts: Any) -> Machine:
    return Machine(gpus=tuple(Gpu(index=i, minor=i, uuid=f"GPU-{i}", **facts) for i in range(count)))


def devices_of(slices: tuple[ResourceSlice, ...]) -> list[Device]:
    return [device for item in slices for device in item.spec.devices]


def values(device: Device) -> dict[str, object]:
    """Attribute → its value, whatever its type."""
    return {
        key: next(v for v in (a.string, a.int_, a.version, a.bool_) if v is not None)
        for key, a in device.attributes.items()
    }


def published(name: str, node: str = "node-a") -> dict[int, dict[str, object]]:
    """GPU index → attributes, for a profile whose minors are its indices."""
    return dict(
        enumerate(map(values, devices_of(desired_slices(load_profile(name).machine(node), node=node))))
    )


@pytest.mark.parametrize("name", profile_names())
@pytest.mark.parametrize("compat", [True, False])
def test_the_slices_of_every_profile_are_valid_for_the_api_server(name: str, compat: bool) -> None:
    node = "gpu-worker-0123456789.europe-west4.example.internal"
    taints = {0: (DeviceTaint(key="gpu.baro.dev/xid", value="79", effect="NoSchedule"),)}
    machine = load_profile(name).machine(node)
    desired = desired_slices(machine, node=node, compat=compat, taints=taints, node_uid="u-1")
    for item in reconcile((), desired).create:
        assert validate_create(item.to_dict()) == ()
        for device in item.spec.devices:
            assert len(device.attributes) + len(device.capacity) <= 32
    assert [d.name for d in devices_of(desired)] == [f"gpu-{gpu.minor}" for gpu in machine.gpus]


def test_two_islands_of_four_get_two_domains_and_peers_and_aligned_groups() -> None:
    found = published("h200-nvl-8")
    assert [found[i]["nvlinkDomain"] for i in range(8)] == ["node-a-nvl0"] * 4 + ["node-a-nvl1"] * 4
    assert {found[i]["nvlinkPeers"] for i in range(8)} == {3}
    assert [found[i]["nvlink4"] for i in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [found[i]["nvlink2"] for i in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert "nvlink8" not in found[0]


def test_interleaved_islands_follow_the_links_and_not_the_index() -> None:
    found = published("h200-nvl-8-interleaved")
    assert [found[i]["nvlinkDomain"] for i in range(8)] == ["node-a-nvl0", "node-a-nvl1"] * 4
    assert [found[i]["nvlink4"] for i in range(8)] == [0, 1] * 4


def test_pairs_of_a_cube_mesh_take_the_double_links() -> None:
    found = published("dgx-1v")
    pairs = {frozenset(j for j in range(8) if found[j]["nvlink2"] == found[i]["nvlink2"]) for i in range(8)}
    assert pairs == {frozenset(p) for p in ((0, 3), (1, 2), (4, 7), (5, 6))}


def test_a_machine_without_nvlink_has_no_domain_and_no_peers() -> None:
    found = published("l40s-4")
    assert all("nvlinkDomain" not in found[i] and "nvlink2" not in found[i] for i in range(4))
    assert {found[i]["nvlinkPeers"] for i in range(4)} == {0}


def test_overlapping_islands_give_no_domain() -> None:
    ring = {(0, 1): 4, (1, 2): 4, (2, 3): 4, (0, 3): 4, (0, 2): 0, (1, 3): 0}
    links = {p: Link(kind=f"NV{n}" if n else "PHB", nvlinks=n) for p, n in ring.items()}
    machine = msgspec.structs.replace(machine_of(4), links=links)
    found = [values(d) for d in devices_of(desired_slices(machine, node="n"))]
    assert all("nvlinkDomain" not in attributes for attributes in found)
    assert [attributes["nvlink2"] for attributes in found] == [0, 0, 1, 1]
    assert [attributes["nvlinkPeers"] for attributes in found] == [2, 2, 2, 2]


def test_a_gpu_without_its_links_is_in_no_domain() -> None:
    found = published("b200-8-degraded")
    assert "nvlinkDomain" not in found[2]
    assert found[2]["nvlinkPeers"] == 0
    assert {found[i]["nvlinkPeers"] for i in (0, 1, 3, 4, 5, 6, 7)} == {6}
    assert [found[i].get("nvlink4") for i in range(8)] == [None, None, None, None, 0, 0, 0, 0]


def test_what_a_virtual_machine_hides_is_not_published() -> None:
    found = published("vm-h100-8")
    hidden = {"resource.kubernetes.io/numaNode", "resource.kubernetes.io/pcieRoot", "pcieSwitch"}
    assert not any(hidden & set(attributes) for attributes in found.values())
    assert found[0]["nvlinkDomain"] == "node-a-nvl0"


def test_a_list_of_numa_nodes_is_not_a_numa_node() -> None:
    (device,) = devices_of(desired_slices(machine_of(1, numa=(0, 1)), node="n"))
    assert "resource.kubernetes.io/numaNode" not in device.attributes


def test_unknown_values_are_left_out() -> None:
    (device,) = devices_of(desired_slices(machine_of(1), node="n"))
    own = {"type": "gpu", "uuid": "GPU-0", "minor": 0}
    assert values(device) == own | {"gpu.nvidia.com/type": "gpu", "gpu.nvidia.com/uuid": "GPU-0"}
    assert device.capacity == {}


def test_a_value_that_is_too_long_costs_one_attribute_and_not_the_slice() -> None:
    (device,) = devices_of(desired_slices(machine_of(1, product_name="N" * 65, model="H100"), node="n"))
    assert "productName" not in device.attributes
    assert values(device)["model"] == "H100"


def test_compatibility_attributes_repeat_the_own_ones() -> None:
    machine = load_profile("hgx-h100-8").machine()
    (device, *_) = devices_of(desired_slices(machine, node="n"))
    found = values(device)
    for key in ("productName", "model", "nvlinkDomain", "uuid", "type"):
        assert found[f"gpu.nvidia.com/{key}"] == found[key]
    assert device.capacity["gpu.nvidia.com/memory"] == device.capacity["memory"]
    assert str(device.capacity["memory"].value) == "81559Mi"
    (bare, *_) = devices_of(desired_slices(machine, node="n", compat=False))
    assert not any("gpu.nvidia.com" in key for key in (*bare.attributes, *bare.capacity))


def test_under_the_name_of_nvidias_driver_nothing_is_repeated() -> None:
    (device,) = devices_of(desired_slices(machine_of(1), node="n", driver="gpu.nvidia.com"))
    assert set(device.attributes) == {"type", "uuid", "minor"}


def test_memory_is_canonical_as_the_server_gives_it_back() -> None:
    (device,) = devices_of(desired_slices(machine_of(1, memory_mib=81920), node="n"))
    assert device.capacity["memory"].value == "80Gi"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("550.163.01", ("550.163.1", None)),
        ("580.65.06", ("580.65.6", None)),
        ("390.48", ("390.48.0", None)),
        ("13.0", ("13.0.0", None)),
        ("535.104.05-grid", ("535.104.5", "535.104.05-grid")),
        ("unknown", (None, "unknown")),
        ("", (None, None)),
        (None, (None, None)),
    ],
)
def test_driver_versions_become_semantic_versions(
    text: str | None, expected: tuple[str | None, str | None]
) -> None:
    assert semver_of(text) == expected


@given(st.text(max_size=40) | st.from_regex(r"[0-9]{1,12}(\.[0-9]{1,12}){0,5}[-a-z]{0,3}", fullmatch=True))
def test_every_version_that_comes_out_is_one(text: str) -> None:
    version, _ = semver_of(text)
    assert version is None or str(SemVer.parse(version)) == version


def test_a_version_of_four_numbers_is_cut_and_kept_as_text() -> None:
    inputs, expect = case("021")
    raw = inputs["slice.yaml"].split('"')[1]
    machine = msgspec.structs.replace(machine_of(1), driver_version=raw)
    (device,) = devices_of(desired_slices(machine, node="n"))
    fix = expect["fix"]
    assert device.attributes["driverVersion"] == DeviceAttribute(**fix["driverVersion"])
    assert device.attributes["driverVersionFull"] == DeviceAttribute(**fix["driverVersionFull"])


def test_an_empty_driver_version_is_left_out() -> None:
    _, expect = case("022")
    assert expect["fix"] == "omit driverVersion"
    (device,) = devices_of(
        desired_slices(msgspec.structs.replace(machine_of(1), driver_version=""), node="n")
    )
    assert not {"driverVersion", "driverVersionFull"} & set(device.attributes)


def test_more_devices_than_fit_are_split_and_counted() -> None:
    _, expect = case("024")
    plain = desired_slices(machine_of(129), node="n")
    taint = DeviceTaint(key="gpu.baro.dev/xid", value="79", effect="NoSchedule")
    tainted = desired_slices(machine_of(65), node="n", taints={0: (taint,)})
    assert (len(plain), len(tainted)) == (expect["A"]["slices_needed"], expect["B"]["slices_needed"])
    assert [len(s.spec.devices) for s in plain] == [128, 1]
    assert [len(s.spec.devices) for s in tainted] == [expect["B"]["limit"], 1]
    for slices in (plain, tainted):
        assert {s.spec.pool.resource_slice_count for s in slices} == {2}
        assert [s.metadata.name for s in slices] == sorted(s.metadata.name for s in slices)


def test_a_node_without_gpus_still_publishes_one_empty_slice() -> None:
    (item,) = desired_slices(Machine(), node="n")
    assert item.spec.devices == ()
    assert item.spec.pool.resource_slice_count == 1


def test_gpus_in_mig_mode_and_gpus_without_a_minor_number_are_not_handed_out() -> None:
    gpus = (Gpu(index=0, minor=0), Gpu(index=1, minor=1), Gpu(index=2))
    machine = Machine(gpus=gpus, warnings=(Warn("mig-enabled", "GPU1 is in MIG mode", (1,)),))
    assert [d.name for d in devices_of(desired_slices(machine, node="n"))] == ["gpu-0"]


def test_two_gpus_with_one_minor_number_are_an_error() -> None:
    machine = Machine(gpus=(Gpu(index=0, minor=1), Gpu(index=1, minor=1)))
    with pytest.raises(InputError, match="minor number 1"):
        desired_slices(machine, node="n")


@given(
    node=st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", fullmatch=True),
    other=st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", fullmatch=True),
)
def test_names_stay_short_and_unique_for_any_node(node: str, other: str) -> None:
    assert len(domain_name(node, 15)) <= 64
    assert len(slice_name(99999, "gpu.baro.dev", node, node)) <= 253
    if node != other:
        assert domain_name(node, 0) != domain_name(other, 0)
        assert slice_name(0, "gpu.baro.dev", node, node) != slice_name(0, "gpu.baro.dev", other, other)
    assert slice_name(0, "d", node, node) < slice_name(1, "d", node, node)


def test_the_node_topology_maps_devices_to_gpu_indices() -> None:
    machine = load_profile("h200-nvl-8").machine()
    topology = node_topology(machine, "node-a", pool="pool-x", node_uid="u-1")
    assert topology.metadata.name == "node-a"
    assert topology.metadata.owner_references[0].uid == "u-1"
    assert topology.spec["devices"]["gpu.baro.dev/pool-x/gpu-5"] == 5
    assert topology.spec["islands"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert not {"apiVersion", "kind"} & set(topology.spec)


def test_the_node_owns_the_slices_when_its_uid_is_known() -> None:
    (with_uid,) = desired_slices(machine_of(1), node="n", node_uid="u-1")
    (without,) = desired_slices(machine_of(1), node="n")
    (owner,) = with_uid.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid) == ("Node", "n", "u-1")
    assert without.metadata.owner_references == ()
