"""Discovery on simulated machines: what it finds, and what stays unknown when the driver does not tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from baro.agent.discovery import discover
from baro.agent.nvml import Code, NvmlError
from baro.agent.simulated import SimulatedNvml
from baro.topology.machine import Gpu, Machine
from baro.topology.profiles import load_profile, profile_names
from tests.support.agent import discovered, simulated


def comparable(machine: Machine, known: Machine) -> Machine:
    """Without what a profile does not say (P2P, source) and what no interface tells.

    A card has slots for bridges, and NVML does not tell which bridges should be there; a NIC without a
    NUMA node is printed SYS by ``topo -m``, but how far it is from a GPU is not known.
    """
    gpus = tuple(
        gpu if other.nvlinks_expected is not None else msgspec.structs.replace(gpu, nvlinks_expected=None)
        for gpu, other in zip(machine.gpus, known.gpus, strict=True)
    )
    links = {pair: msgspec.structs.replace(link, p2p=None) for pair, link in machine.links.items()}
    nowhere = {nic.name for nic in machine.nics if nic.numa is None and not machine.numa_hidden}
    nic_links = {(gpu, nic): kind for (gpu, nic), kind in machine.nic_links.items() if nic not in nowhere}
    return msgspec.structs.replace(machine, gpus=gpus, links=links, nic_links=nic_links, source="")


@pytest.mark.parametrize("name", profile_names())
def test_discovery_finds_the_machine_that_the_profile_describes(name: str, tmp_path: Path) -> None:
    found = discovered(name, tmp_path, seed="node-a")
    expected = load_profile(name).machine("node-a")
    assert comparable(found, found) == comparable(expected, found)


@pytest.mark.parametrize("name", profile_names())
def test_one_lost_gpu_never_hides_the_others(name: str, tmp_path: Path) -> None:
    whole = load_profile(name).machine("node-a")
    last = whole.gpus[-1].index
    fault: Any
    for fault in ("lost", "unreachable"):
        found = discovered(name, tmp_path / fault, "node-a", **{fault: {last}})
        assert [gpu.uuid for gpu in found.gpus] == [*(gpu.uuid for gpu in whole.gpus[:-1]), None]
        assert ("gpu-lost", (last,)) in [(w.code, w.gpus) for w in found.warnings]
        others = {pair for pair in whole.links if last not in pair}
        assert {pair: found.links[pair].kind for pair in others} == {
            pair: whole.links[pair].kind for pair in others
        }
        assert not any(last in pair for pair in found.links)


def test_a_lost_gpu_is_still_seen_on_the_pci_bus(tmp_path: Path) -> None:
    found = discovered("hgx-h100-8", tmp_path, unreachable={3})
    (warning,) = [w for w in found.warnings if w.code == "gpu-not-in-nvml"]
    assert load_profile("hgx-h100-8").gpus[3].pci in warning.message


@pytest.mark.parametrize(
    ("function", "fields"),
    [
        ("nvmlDeviceGetGpuFabricInfoV", {"clique"}),
        ("nvmlDeviceGetModuleId", {"module_id"}),
        ("nvmlDeviceGetNumaNodeId", {"gpu_numa_id"}),
        ("nvmlDeviceGetMigMode", {"mig_capable"}),
        ("nvmlDeviceGetCudaComputeCapability", {"cuda_compute_capability"}),
        ("nvmlDeviceGetMinorNumber", {"minor"}),
        ("nvmlDeviceGetMaxPcieLinkGeneration", {"pcie_gen"}),
        ("nvmlDeviceGetNvLinkVersion", {"nvlink_version"}),
    ],
)
def test_a_driver_without_a_function_leaves_only_that_fact_unknown(
    function: str, fields: set[str], tmp_path: Path
) -> None:
    whole = discovered("gb200-4", tmp_path / "whole")
    found = discovered("gb200-4", tmp_path / "old", missing_functions={function})
    for gpu, other in zip(found.gpus, whole.gpus, strict=True):
        changed = {name for name in Gpu.__struct_fields__ if getattr(gpu, name) != getattr(other, name)}
        assert changed == fields
        assert all(getattr(gpu, name) is None for name in fields)
    assert {p: x.kind for p, x in found.links.items()} == {p: x.kind for p, x in whole.links.items()}


def test_a_driver_that_cannot_tell_nvlinks_leaves_them_unknown(tmp_path: Path) -> None:
    found = discovered("hgx-h100-8", tmp_path, missing_functions={"nvmlDeviceGetNvLinkState"})
    assert found.nvlink_unknown
    assert [gpu.nvlinks for gpu in found.gpus] == [None] * 8


def test_without_a_common_ancestor_the_relation_comes_from_sysfs(tmp_path: Path) -> None:
    missing = {"nvmlDeviceGetTopologyCommonAncestor"}
    found = discovered("l40s-8-switches", tmp_path, missing_functions=missing)
    expected = load_profile("l40s-8-switches").machine()
    assert {p: link.kind for p, link in found.links.items()} == {
        p: link.kind for p, link in expected.links.items()
    }


def test_nvlinks_that_the_driver_refuses_to_use_do_not_count(tmp_path: Path) -> None:
    class Refusing(SimulatedNvml):
        def nvmlDeviceGetP2PStatus(self, a: int, b: int, index: int) -> int:
            return 5 if 0 in (a, b) else super().nvmlDeviceGetP2PStatus(a, b, index)

    with simulated("hgx-h100-4", tmp_path):
        nvml = Refusing(load_profile("hgx-h100-4"))
        nvml.nvmlInit()
        found = discover(nvml, tmp_path)
    assert [found.links[0, other].nvlinks for other in (1, 2, 3)] == [0, 0, 0]
    assert found.links[1, 2].nvlinks > 0
    assert "nvlink-unusable" in [w.code for w in found.warnings]


def test_a_virtual_machine_that_hides_numa_stays_unknown(tmp_path: Path) -> None:
    found = discovered("vm-h100-8", tmp_path)
    assert found.numa_hidden
    assert {(gpu.numa, gpu.pcie_root, gpu.pcie_switch) for gpu in found.gpus} == {(None, None, None)}
    assert {nic.numa for nic in found.nics} == {None}
    assert {link.kind for link in found.links.values()} == {"NV18"}


def test_a_virtual_machine_that_shows_numa_keeps_it(tmp_path: Path) -> None:
    found = discovered("azure-nc96-a100-4", tmp_path)
    assert not found.numa_hidden
    assert [gpu.numa for gpu in found.gpus] == [(0,), (1,), (2,), (3,)]


def test_gpu_memory_nodes_are_never_taken_for_cpu_nodes(tmp_path: Path) -> None:
    found = discovered("gb200-4", tmp_path)
    assert [gpu.numa for gpu in found.gpus] == [(0,), (0,), (1,), (1,)]
    assert [gpu.gpu_numa_id for gpu in found.gpus] == [2, 10, 18, 26]


def test_without_sysfs_identity_and_nvlinks_are_still_found(tmp_path: Path) -> None:
    with simulated("h200-nvl-8", tmp_path / "sys") as nvml:
        found = discover(nvml, tmp_path / "nowhere")
    assert [gpu.pcie_root for gpu in found.gpus] == [None] * 8
    assert found.links[0, 1].kind == "NV6"
    assert found.nics == ()
    assert "sysfs-missing" in [w.code for w in found.warnings]


def test_mig_mode_is_a_warning(tmp_path: Path) -> None:
    found = discovered("hgx-h100-8", tmp_path, mig={2})
    assert ("mig-enabled", (2,)) in [(w.code, w.gpus) for w in found.warnings]


def test_a_library_that_does_not_work_at_all_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    nvml = SimulatedNvml(
        load_profile("hgx-h100-8"), failing={"nvmlDeviceGetCount": Code.LIB_RM_VERSION_MISMATCH}
    )
    nvml.nvmlInit()
    with pytest.raises(NvmlError, match="LIB_RM_VERSION_MISMATCH") as caught:
        discover(nvml, tmp_path)
    assert (caught.value.code, caught.value.function) == (18, "nvmlDeviceGetCount")
    assert caught.value.next_step is not None
    assert "reboot" in caught.value.next_step


def test_calls_before_init_are_refused_as_the_library_does(tmp_path: Path) -> None:
    with pytest.raises(NvmlError, match="UNINITIALIZED"):
        discover(SimulatedNvml(load_profile("l40s-4")), tmp_path)


def test_two_nodes_of_one_profile_have_different_uuids(tmp_path: Path) -> None:
    a, b = (discovered("l40s-4", tmp_path / node, seed=node) for node in ("node-a", "node-b"))
    assert not {gpu.uuid for gpu in a.gpus} & {gpu.uuid for gpu in b.gpus}
    assert [gpu.pci_bus_id for gpu in a.gpus] == [gpu.pci_bus_id for gpu in b.gpus]
