"""Evidence from files: what a text is, whose it is, and what happens to the ones that are nothing."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path

import pytest

from baro.apiserver import create_app, run_in_thread
from baro.apiserver.loading import load_files
from baro.diagnosis.evidence import CaptureKind, Missing, from_documents
from baro.diagnosis.files import capture, read_files, with_nodes
from baro.model.errors import InputError
from baro.model.load import load_bytes
from baro.topology.profiles import load_profile
from baro.topology.topo_m_render import render
from tests.support import shared
from tests.support.diagnosis import Body, node, pod, resource_slice
from tests.support.real_access import kubectl_path


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("x.json", '{"podResources": []}', CaptureKind.POD_RESOURCES),
        ("x.json", '{"pod_resources": []}', CaptureKind.POD_RESOURCES),
        ("x.json", '{"cdiVersion": "0.6.0", "kind": "a/b", "devices": []}', CaptureKind.CDI_SPEC),
        ("x.yaml", "cdiVersion: 0.6.0\nkind: a/b\ndevices: []\n", CaptureKind.CDI_SPEC),
        ("dmesg", "[1.000000] NVRM: Xid (PCI:0000:01:00): 31\n", CaptureKind.LOG),
        ("k", "I0102 10:00:00.1 1 x.go:1] hello\n", CaptureKind.LOG),
        ("k", "Jan  2 10:00:00 host kubelet[1]: hello\n", CaptureKind.LOG),
        ("p", "2026/01/02 10:00:00 hello\n", CaptureKind.LOG),
        ("d", "Capacity:\n  nvidia.com/gpu: 8\n", CaptureKind.DESCRIBE),
        ("e", "  Warning  Failed  kubelet  no\n", CaptureKind.DESCRIBE),
        ("t", render(load_profile("hgx-h100-8").machine()), CaptureKind.TOPO),
        ("c", "unresolvable CDI devices a.com/b=c\n", CaptureKind.TEXT),
    ],
)
def test_a_text_is_known_by_its_content(name: str, text: str, kind: CaptureKind) -> None:
    assert capture(text.encode(), name).kind is kind


def test_real_captures_are_known_by_their_content() -> None:
    kinds = {
        "01-dmesg-xid119-gsp-timeout.log": CaptureKind.LOG,
        "06-dmesg-xid13-burst-iso.log": CaptureKind.LOG,
        "28-nvidia-smi-qx-h100.xml": CaptureKind.SMI_XML,
        "38-nvrm-line-variants-nvsentinel.txt": CaptureKind.LOG,
    }
    for name, kind in kinds.items():
        assert capture(shared.path(f"data/gpu-captures/{name}").read_bytes(), name).kind is kind, name
    for file in shared.listing("data/topo-captures", "*.txt"):
        assert capture(file.read_bytes(), file.name).kind is CaptureKind.TOPO, file.name


@pytest.mark.parametrize(
    ("file", "nodes", "found"),
    [
        ("dump/node-a/dmesg.log", ["node-a", "node-b"], "node-a"),
        ("dump/node-a.topo.txt", ["node-a", "node-b"], "node-a"),
        ("dump/node-a-dmesg.log", ["node-a", "node"], "node-a"),
        ("dump/dmesg.log", ["node-a", "node-b"], None),
        ("dump/dmesg.log", ["node-a"], "node-a"),
        ("dump/node-abc.log", ["node-a", "node-b"], None),
    ],
)
def test_whose_capture_it_is_is_told_by_path_or_by_there_being_one_node(
    file: str, nodes: list[str], found: str | None
) -> None:
    taken = capture(b"[1.000000] NVRM: hello\n", file)
    assert with_nodes([taken], nodes)[0].node == found


def test_the_host_in_a_log_comes_before_the_path_and_may_lack_the_domain() -> None:
    log = b"Jan  2 10:00:00 gpu7 kernel: NVRM: Xid (PCI:0000:01:00): 79\n" * 2
    taken = capture(log, "node-a/dmesg.log")
    assert with_nodes([taken], ["node-a", "gpu7.corp.example"])[0].node == "gpu7.corp.example"
    mixed = capture(log + log.replace(b"gpu7", b"gpu8"), "x.log")
    assert with_nodes([mixed], ["gpu7", "gpu8"])[0].node is None


def _list(bodies: list[Body]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}).encode()


def test_folders_files_and_standard_input_come_together(tmp_path: Path) -> None:
    (tmp_path / "sub" / "node-a").mkdir(parents=True)
    (tmp_path / "sub" / "nodes.json").write_bytes(_list([node("node-a"), node("node-b")]))
    (tmp_path / "sub" / "node-a" / "dmesg.txt").write_text("[1.000000] NVRM: hello\n")
    (tmp_path / "sub" / ".hidden.json").write_text("not read")
    (tmp_path / "slices.yaml").write_bytes(_list([resource_slice("node-a")]))
    found = read_files([tmp_path / "sub", tmp_path / "slices.yaml", "-"], stdin=io.BytesIO(_list([pod("p")])))
    assert (len(found.snapshot.nodes), len(found.snapshot.slices), len(found.snapshot.pods)) == (2, 1, 1)
    assert [(item.kind, item.node) for item in found.captures] == [(CaptureKind.LOG, "node-a")]
    assert found.missing == ()


def test_what_kubectl_describe_prints_of_a_node_is_a_node(tmp_path: Path) -> None:
    """The text is that of a real kubectl, made of a node with everything that is read."""
    conditions = [
        {
            "type": "GPUReady",
            "status": "False",
            "reason": "XidError",
            "message": "GPU 3 is lost",
            "lastTransitionTime": "2026-01-02T00:00:00Z",
            "lastHeartbeatTime": "2026-01-02T00:00:00Z",
        },
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"},
    ]
    body = node(
        "gpu7",
        capacity={"cpu": 96, "nvidia.com/gpu": 8},
        allocatable={"cpu": 95, "nvidia.com/gpu": 7},
        labels={"nvidia.com/gpu.count": "8", "zone": "a"},
        conditions=conditions,
        unschedulable=True,
    )
    file = tmp_path / "describe.txt"
    (tmp_path / "kubectl").mkdir()
    file.write_text(described(body, tmp_path / "kubectl"))
    (found,) = read_files([file]).snapshot.nodes
    assert found.metadata.name == "gpu7"
    assert found.metadata.labels == {"nvidia.com/gpu.count": "8", "zone": "a"}
    assert found.status.capacity == {"cpu": "96", "nvidia.com/gpu": "8"}
    assert found.status.allocatable == {"cpu": "95", "nvidia.com/gpu": "7"}
    assert [(item.type, item.status, item.reason, item.message) for item in found.status.conditions] == [
        ("GPUReady", "False", "XidError", "GPU 3 is lost"),
        ("Ready", "True", "KubeletReady", "kubelet is ready"),
    ]
    assert found.status.conditions[0].last_transition_time == "2026-01-02T00:00:00Z"
    assert found.status.conditions[1].last_transition_time is None
    assert found.spec.unschedulable
    assert found.status.node_info["kubeletVersion"] == "v1.37.1"


def described(body: Body, folder: Path) -> str:
    """What ``kubectl describe node`` prints of a node on the embedded server."""
    app = create_app()
    file = folder / "node.json"
    file.write_text(json.dumps(body))
    load_files(app.state.registry, [file])
    with run_in_thread(app) as server:
        config = folder / "kubeconfig"
        server.write_kubeconfig(config)
        done = subprocess.run(
            [kubectl_path(), "--kubeconfig", str(config), "describe", "node"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env={**os.environ, "HOME": str(folder)},
        )
        return done.stdout


def test_an_object_in_two_dumps_counts_once_and_the_last_one_wins() -> None:
    old, new = node("a", unschedulable=True), node("a")
    found = from_documents([*load_bytes(_list([old])), *load_bytes(_list([new]))])
    assert [item.spec.unschedulable for item in found.snapshot.nodes] == [False]


def test_a_broken_nvidia_smi_dump_is_an_error_and_in_a_folder_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<nvidia_smi_log><gpu></nvidia_smi_log>")
    (tmp_path / "n.json").write_bytes(_list([node("a")]))
    with pytest.raises(InputError):
        read_files([tmp_path / "a.xml"])
    assert [Path(item.source).name for item in read_files([tmp_path]).missing] == ["a.xml"]


def test_what_is_missing_in_part_is_not_lacking() -> None:
    import msgspec

    found = msgspec.structs.replace(
        from_documents(()), missing=(Missing("events", "many", partial=True), Missing("pods", "no right"))
    )
    assert [item.source for item in found.lacks("events", "pods", "nodes")] == ["pods"]
