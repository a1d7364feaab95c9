"""sysfs trees: paths, relations, NUMA, and trees that are odd or broken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.topology import sysfs
from baro.topology.sysfs import PciDevice, SysfsFacts, normalise_bus_id
from tests.support.shared import case

GPU = {"class": "0x030200", "vendor": "0x10de", "numa_node": "0", "local_cpulist": "0-3,8"}
NIC = {"class": "0x020000", "vendor": "0x15b3", "numa_node": "0"}


def add(root: Path, place: str, files: dict[str, str], link: str | None = None) -> Path:
    """A device at ``devices/<place>`` with its entry in ``bus/pci/devices``."""
    folder = root / "devices" / place
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n")
    entries = root / "bus" / "pci" / "devices"
    entries.mkdir(parents=True, exist_ok=True)
    (entries / folder.name).symlink_to(link or f"../../../devices/{place}")
    return folder


def read_one(root: Path) -> tuple[PciDevice, SysfsFacts]:
    facts = sysfs.read(root)
    (gpu,) = facts.gpus
    return gpu, facts


def test_a_gpu_behind_a_switch_has_root_switch_numa_and_link(tmp_path: Path) -> None:
    place = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0"
    link = {"max_link_speed": "32.0 GT/s PCIe", "current_link_speed": "2.5 GT/s PCIe"}
    add(tmp_path, place, GPU | link | {"current_link_width": "16"})
    gpu, facts = read_one(tmp_path)
    assert (gpu.bus_id, gpu.root, gpu.switch) == ("0000:18:00.0", "pci0000:15", "0000:16:00.0")
    assert (gpu.numa, gpu.cpus) == (0, (0, 1, 2, 3, 8))
    assert (gpu.link_gen, gpu.link_width) == (5, 16)
    assert facts.warnings == ()


def test_a_gpu_in_a_root_port_has_no_switch(tmp_path: Path) -> None:
    add(tmp_path, "pci0000:c0/0000:c0:01.1/0000:c1:00.0", GPU)
    gpu, _ = read_one(tmp_path)
    assert (gpu.root, gpu.switch) == ("pci0000:c0", None)


def test_a_root_below_a_hypervisor_bus_is_found_with_a_warning(tmp_path: Path) -> None:
    inputs, expect = case("019")
    found = re.search(r"-> /sys/devices/(\S+)", inputs["sysfs-link.txt"])
    assert found is not None
    add(tmp_path, found.group(1), GPU | {"numa_node": "-1"}, link=f"/sys/devices/{found.group(1)}")
    gpu, facts = read_one(tmp_path)
    assert gpu.bus_id == expect["pci_bus_id"]
    assert gpu.root == expect["pcie_root"]
    assert gpu.numa is None
    assert any(expect["warning_contains"] in warning.message for warning in facts.warnings)


def test_a_path_without_a_root_leaves_the_root_unknown(tmp_path: Path) -> None:
    add(tmp_path, "platform/odd/0000:01:00.0", GPU)
    gpu, facts = read_one(tmp_path)
    assert gpu.root is None
    assert [w.code for w in facts.warnings] == ["pcie-root-unknown"]
    assert "pcieRoot" in facts.warnings[0].message


def test_a_domain_with_five_digits_keeps_them(tmp_path: Path) -> None:
    add(tmp_path, "pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0", GPU)
    gpu, _ = read_one(tmp_path)
    assert (gpu.bus_id, gpu.root) == ("10000:e1:00.0", "pci10000:e0")


def test_other_vendors_and_classes_are_no_gpus(tmp_path: Path) -> None:
    add(tmp_path, "pci0000:00/0000:00:02.0", GPU | {"vendor": "0x8086"})
    add(tmp_path, "pci0000:00/0000:00:03.0", GPU | {"class": "0x060400"})
    add(tmp_path, "pci0000:00/0000:00:04.0", GPU | {"class": "0x030000"})
    facts = sysfs.read(tmp_path)
    assert [gpu.bus_id for gpu in facts.gpus] == ["0000:00:04.0"]
    assert facts.nics == ()


def test_a_nic_has_its_network_and_rdma_names(tmp_path: Path) -> None:
    folder = add(tmp_path, "pci0000:00/0000:00:01.0/0000:01:00.0", NIC | {"class": "0x020700"})
    (folder / "net" / "ibs1").mkdir(parents=True)
    (folder / "infiniband" / "mlx5_0").mkdir(parents=True)
    (nic,) = sysfs.read(tmp_path).nics
    assert (nic.net, nic.rdma) == (("ibs1",), ("mlx5_0",))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0",
         "15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0", "PIX"),
        ("15/0000:15:01.0/0000:18:00.0", "15/0000:15:01.0/0000:18:00.1", "PIX"),
        ("15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:20:00.0/0000:21:00.0/0000:22:00.0",
         "15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:30:00.0/0000:31:00.0/0000:32:00.0", "PXB"),
        ("15/0000:15:01.0/0000:18:00.0", "15/0000:15:02.0/0000:19:00.0", "PHB"),
        ("15/0000:15:01.0/0000:18:00.0", "25/0000:25:01.0/0000:28:00.0", "NODE"),
    ],
)  # fmt: skip
def test_relations_follow_the_legend_of_nvidia_smi(a: str, b: str, expected: str, tmp_path: Path) -> None:
    add(tmp_path, f"pci0000:{a}", GPU)
    add(tmp_path, f"pci0000:{b}", NIC)
    facts = sysfs.read(tmp_path)
    (gpu,), (nic,) = facts.gpus, facts.nics
    assert facts.relation(gpu, nic) == facts.relation(nic, gpu) == expected


def test_devices_of_two_numa_nodes_are_sys_and_unknown_nodes_are_unknown(tmp_path: Path) -> None:
    add(tmp_path, "pci0000:10/0000:10:01.0/0000:11:00.0", GPU)
    add(tmp_path, "pci0000:20/0000:20:01.0/0000:21:00.0", NIC | {"numa_node": "1"})
    add(tmp_path, "pci0000:30/0000:30:01.0/0000:31:00.0", NIC | {"numa_node": "-1"})
    facts = sysfs.read(tmp_path)
    gpu = facts.gpus[0]
    assert [facts.relation(gpu, nic) for nic in facts.nics] == ["SYS", None]


def test_on_a_machine_with_one_numa_node_an_untold_node_is_that_one(tmp_path: Path) -> None:
    nodes = tmp_path / "devices" / "system" / "node"
    nodes.mkdir(parents=True)
    (nodes / "has_cpu").write_text("0\n")
    add(tmp_path, "pci0000:10/0000:10:01.0/0000:11:00.0", GPU | {"numa_node": "-1"})
    add(tmp_path, "pci0000:20/0000:20:01.0/0000:21:00.0", NIC | {"numa_node": "-1"})
    facts = sysfs.read(tmp_path)
    assert facts.gpus[0].numa is None
    assert facts.relation(facts.gpus[0], facts.nics[0]) == "NODE"


def test_a_link_out_of_the_tree_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "0000:01:00.0"
    outside.mkdir(parents=True)
    for name, text in GPU.items():
        (outside / name).write_text(text)
    root = tmp_path / "sys"
    (root / "bus" / "pci" / "devices").mkdir(parents=True)
    (root / "bus" / "pci" / "devices" / "0000:01:00.0").symlink_to(outside)
    (root / "bus" / "pci" / "devices" / "0000:02:00.0").symlink_to("../../../../outside/0000:01:00.0")
    assert sysfs.read(root).gpus == ()


def test_an_absent_tree_is_a_warning(tmp_path: Path) -> None:
    facts = sysfs.read(tmp_path / "nowhere")
    assert [w.code for w in facts.warnings] == ["sysfs-missing"]


def test_dangling_links_missing_files_and_directories_in_place_of_files_do_not_crash(tmp_path: Path) -> None:
    entries = tmp_path / "bus" / "pci" / "devices"
    entries.mkdir(parents=True)
    (entries / "0000:01:00.0").symlink_to("../../../devices/pci0000:00/0000:01:00.0")
    (entries / "0000:02:00.0").symlink_to("0000:02:00.0")
    (entries / "not-a-device").write_text("x")
    bare = entries / "0000:03:00.0"
    bare.mkdir()
    (bare / "class").write_text("0x030200")
    (bare / "vendor").write_text("0x10de")
    (bare / "numa_node").mkdir()
    folder = add(tmp_path, "pci0000:00/0000:00:01.0/0000:04:00.0", GPU | {"numa_node": "garbage"})
    (folder / "local_cpulist").write_bytes(b"\xff\xfe0-")
    facts = sysfs.read(tmp_path)
    assert [(g.bus_id, g.root, g.numa, g.cpus) for g in facts.gpus] == [
        ("0000:03:00.0", None, None, None),
        ("0000:04:00.0", "pci0000:00", None, None),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:18:00.0", "0000:18:00.0"),
        ("0000:1A:00.0", "0000:1a:00.0"),
        ("00010000:E1:00.0", "10000:e1:00.0"),
        ("FFFFFFFF:FF:FF.0", "ffffffff:ff:ff.0"),
        ("18:00.0", None),
        ("", None),
        (None, None),
    ],
)
def test_bus_ids_of_nvml_and_sysfs_meet(text: str | None, expected: str | None) -> None:
    assert normalise_bus_id(text) == expected


NAMES = st.sampled_from(
    ["pci0000:00", "pci0001:10", "0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "..", "x", "virtual"]
)


@settings(max_examples=60)
@given(st.lists(st.lists(NAMES, min_size=1, max_size=6), max_size=5), st.booleans())
def test_any_shape_of_links_is_read_without_an_error(
    tmp_path_factory: pytest.TempPathFactory, targets: list[list[str]], absolute: bool
) -> None:
    root = tmp_path_factory.mktemp("tree")
    entries = root / "bus" / "pci" / "devices"
    entries.mkdir(parents=True)
    for number, target in enumerate(targets):
        prefix = "/sys/devices/" if absolute else "../../../devices/"
        place = root / "devices" / "/".join(part for part in target if part != "..")
        place.mkdir(parents=True, exist_ok=True)
        (place / "class").write_text("0x030200")
        (place / "vendor").write_text("0x10de")
        (entries / f"0000:{number:02x}:00.0").symlink_to(prefix + "/".join(target))
    facts = sysfs.read(root)
    for a in facts.gpus:
        for b in facts.gpus:
            assert facts.relation(a, b) in {None, "PIX", "PXB", "PHB", "NODE", "SYS"}
            assert facts.relation(a, b) == facts.relation(b, a)
