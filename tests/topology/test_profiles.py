"""Machine profiles: every built-in one is valid, and says what its machine is known for."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from baro.model.errors import InputError, TooLargeError
from baro.topology.profiles import load_profile, parse_profile, profile_from, profile_names, profile_schema
from baro.topology.topo_m import parse, render
from tests.support.topology import golden

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "docs" / "schema" / "machine-profile.schema.json"
FILES = ROOT / "src" / "baro" / "topology" / "profiles_data"

WANTED = {
    "hgx-h100-8", "hgx-h200-8", "hgx-a100-8", "hgx-a100-8-nps4", "hgx-a100-4", "dgx-1v", "dgx-2",
    "a100-pcie-8-pairs", "azure-nc96-a100-4", "h100-nvl-8-pairs", "h200-nvl-8", "h200-nvl-8-interleaved",
    "l40s-4", "b200-8", "gb200-4", "vm-h100-8", "b200-8-degraded", "consumer-5", "hgx-h100-4",
}  # fmt: skip

SMALL = """
apiVersion: baro.dev/v1alpha1
kind: MachineProfile
name: two-cards
title: Two bridged cards
product: NVIDIA A100 80GB PCIe
numa: {0: "0-31"}
gpus:
  - {pci: "0000:01:00.0", root: "0000:00", numa: 0}
  - {pci: "0000:41:00.0", root: "0000:40", numa: 0}
nvlink:
  meshes: [{links: 12, sets: [[0, 1]]}]
"""


def small(**changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(SMALL)
    return body | changes


def test_the_machines_that_people_ask_for_are_built_in() -> None:
    assert set(profile_names()) >= WANTED


def test_the_committed_schema_is_current() -> None:
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == json.loads(json.dumps(profile_schema())), (
        "write docs/schema/machine-profile.schema.json anew from profile_schema()"
    )


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_is_valid_against_the_schema(name: str) -> None:
    body = json.loads(json.dumps(yaml.safe_load((FILES / f"{name}.yaml").read_text(encoding="utf-8"))))
    jsonschema.validate(body, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert body["name"] == name
    assert body["sources"]


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_gives_a_whole_machine(name: str) -> None:
    profile = load_profile(name)
    machine = profile.machine("node-a")
    assert len(machine.links) == len(machine.gpus) * (len(machine.gpus) - 1) // 2
    assert len({gpu.uuid for gpu in machine.gpus}) == len(machine.gpus)
    assert len({gpu.pci_bus_id for gpu in machine.gpus}) == len(machine.gpus)
    for gpu in machine.gpus:
        assert gpu.memory_mib and gpu.architecture and gpu.cuda_compute_capability and gpu.cpus
        assert (gpu.numa is None) == profile.virtual_machine
    assert all(link.gbps is not None for link in machine.links.values()) or profile.virtual_machine


@pytest.mark.parametrize("name", profile_names())
def test_the_wiring_of_every_profile_agrees_with_its_matrix(name: str) -> None:
    profile = load_profile(name)
    machine = profile.machine()
    ports = profile.nvlink_wiring()
    ends = {(port.gpu, port.link): port for port in ports}
    assert len(ends) == len(ports)
    for gpu in machine.gpus:
        own = [port for port in ports if port.gpu == gpu.index]
        assert [port.link for port in own] == list(range(len(own)))
        assert (gpu.nvlinks, gpu.nvlinks_expected) == (sum(p.active for p in own), len(own))
    for port in ports:
        assert (port.peer is None) != (port.switch is None)
        if port.peer is not None and port.peer_link is not None:
            other = ends[port.peer, port.peer_link]
            assert (other.peer, other.peer_link, other.active) == (port.gpu, port.link, port.active)
    for (a, b), link in machine.links.items():
        if not machine.switched:
            assert link.nvlinks == sum(p.active for p in ports if (p.gpu, p.peer) == (a, b))


@pytest.mark.parametrize("name", profile_names())
def test_the_sysfs_paths_of_every_profile_are_a_tree(name: str) -> None:
    profile = load_profile(name)
    parent: dict[str, str] = {}
    chains = [(*profile.pci_chain(gpu), gpu.pci) for gpu in profile.gpus]
    chains += [(*profile.pci_chain(nic), nic.pci) for nic in profile.nics]
    for chain in chains:
        for above, below in pairwise(chain):
            assert parent.setdefault(below, above) == above
    assert len(parent) == len(set(parent))


@pytest.mark.parametrize("name", ["h200-nvl-8", "dgx-1v", "gb200-4", "vm-h100-8", "consumer-5"])
def test_profiles_print_as_the_committed_matrices(name: str) -> None:
    text = render(load_profile(name).machine())
    assert text == golden(f"{name}.topo-m.txt", text)


@pytest.mark.parametrize("name", profile_names())
def test_what_a_profile_prints_reads_back_as_the_same_graph(name: str) -> None:
    machine = load_profile(name).machine()
    again = parse(render(machine))
    assert {p: l.kind for p, l in again.links.items()} == {p: l.kind for p, l in machine.links.items()}  # noqa: E741
    assert again.nic_links == machine.nic_links
    assert [gpu.cpus for gpu in again.gpus] == [gpu.cpus for gpu in machine.gpus]
    assert [gpu.numa for gpu in again.gpus] == [gpu.numa for gpu in machine.gpus]
    assert again.numa_hidden == machine.numa_hidden
    assert {w.gpus for w in again.warnings} == {w.gpus for w in machine.warnings}


def test_two_nodes_of_one_profile_differ_and_one_node_stays_itself() -> None:
    profile = load_profile("hgx-h100-8")
    a, b = profile.machine("a"), profile.machine("b")
    assert a.gpus[0].uuid != b.gpus[0].uuid
    assert a == profile.machine("a")


def test_h100_has_less_than_80_gib() -> None:
    assert load_profile("hgx-h100-8").machine().gpus[0].memory_mib == 81559


def test_an_azure_root_bus_has_no_port_above_its_gpu() -> None:
    profile = load_profile("azure-nc96-a100-4")
    assert profile.pci_chain(profile.gpus[0]) == ("pci0001:00",)


def test_a_profile_of_ones_own_is_read_from_text_and_file(tmp_path: Path) -> None:
    profile = parse_profile(SMALL, "mine.yaml")
    assert profile.machine().links[0, 1].gbps == 300.0
    file = tmp_path / "mine.yaml"
    file.write_text(SMALL, encoding="utf-8")
    assert load_profile(file) == profile
    assert load_profile(str(file)) == profile


def test_an_unknown_product_leaves_its_facts_unknown() -> None:
    gpu = profile_from(small(product="NVIDIA X1"), "x").machine().gpus[0]
    assert (gpu.product_name, gpu.memory_mib, gpu.architecture, gpu.mig_capable) == (
        "NVIDIA X1",
        None,
        None,
        None,
    )


def test_links_that_are_down_degrade_both_ends() -> None:
    body = small(nvlink={"meshes": [{"links": 12, "sets": [[0, 1]]}], "inactive": {"0-1": 4}})
    machine = profile_from(body, "x").machine()
    assert machine.links[0, 1].kind == "NV8"
    assert [(w.code, w.gpus) for w in machine.warnings] == [
        ("nvlink-degraded", (0,)),
        ("nvlink-degraded", (1,)),
    ]


GPU0 = {"pci": "0000:01:00.0", "root": "0000:00"}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"gpus": []}, "gpus"),
        ({"gpus": [{"pci": "01:00"}]}, "gpus[0].pci"),
        ({"gpus": [GPU0, GPU0], "nvlink": {}}, "gpus[1].pci"),
        ({"gpus": [{"pci": "0000:01:00.0"}], "nvlink": {}}, "gpus[0]"),
        ({"gpus": [{"pci": "0000:01:00.0", "switch": "0000:02:00.0"}], "nvlink": {}}, "gpus[0].switch"),
        ({"gpus": [GPU0 | {"numa": 7}], "nvlink": {}}, "gpus[0].numa"),
        ({"gpus": [GPU0 | {"cpus": "all"}], "nvlink": {}}, "gpus[0].cpus"),
        ({"numa": {0: "x"}}, "numa[0]"),
        ({"switches": {"0000:02:00.0": {}}}, "switches[0000:02:00.0]"),
        ({"switches": {"0000:02:00.0": {"parent": "0000:03:00.0"}}}, "switches[0000:02:00.0].parent"),
        ({"switches": {"0000:02:00.0": {"parent": "0000:02:00.0"}}}, "switches[0000:02:00.0].parent"),
        ({"nvlink": {"switched": 18, "pairs": {"0-1": 1}}}, "nvlink"),
        ({"nvlink": {"meshes": [{"links": 4, "sets": [[0, 9]]}]}}, "nvlink.meshes[0].sets"),
        ({"nvlink": {"pairs": {"1-0": 1}}}, "nvlink"),
        ({"nvlink": {"switched": 18, "inactive": {"9": 1}}}, "nvlink.inactive"),
        ({"nvlink": {"inactive": {"0": 1}}}, "nvlink.inactive"),
        ({"colour": "red"}, None),
        ({"kind": "Pod"}, "kind"),
    ],
)
def test_a_wrong_profile_is_an_error_that_names_the_field(changes: dict[str, Any], path: str | None) -> None:
    with pytest.raises(InputError) as caught:
        profile_from(small(**changes), "mine.yaml")
    assert caught.value.where.file == "mine.yaml"
    assert caught.value.where.path == path


@pytest.mark.parametrize("text", ["", "- a\n", "a: [1\n", "\x00\x01", SMALL + "---\n" + SMALL])
def test_text_that_is_no_profile_is_one_error(text: str) -> None:
    with pytest.raises(InputError):
        parse_profile(text, "mine.yaml")


def test_missing_names_and_files_and_huge_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no machine profile"):
        load_profile("hgx-x900-8")
    with pytest.raises(InputError, match="cannot read"):
        load_profile(tmp_path / "none.yaml")
    with pytest.raises(TooLargeError):
        parse_profile(b"#" * 300_000, "x")
