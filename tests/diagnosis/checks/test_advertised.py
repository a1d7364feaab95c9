"""What a node advertises: unhealthy, lost, absent, and all the zeros that mean nothing."""

from __future__ import annotations

import io
from typing import Any

import pytest

from baro.diagnosis.checks import Problem, diagnose
from baro.diagnosis.evidence import Evidence
from baro.diagnosis.files import read_files
from baro.model.findings import Severity
from tests.support.diagnosis import Body, device, evidence, gpus, node, pod, resource_slice

MOUNT = ["/var/lib/kubelet/device-plugins"]
REGISTRY = ["/var/lib/kubelet/plugins_registry"]
EIGHT = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "8"}


def plugin(on: str = "node-a", *, phase: str = "Running", mounts: list[str] = MOUNT, **metadata: Any) -> Body:
    return pod(
        f"nvidia-device-plugin-{on}",
        namespace="gpu",
        node=on,
        owner=("DaemonSet", "nvidia-device-plugin"),
        mounts=mounts,
        image="nvcr.io/nvidia/k8s-device-plugin:v0.18.0",
        phase=phase,
        **metadata,
    )


def ready(status: str, since: str, seen: str = "2026-01-02T12:00:00Z") -> Body:
    return {"type": "Ready", "status": status, "lastTransitionTime": since, "lastHeartbeatTime": seen}


def found(evidence: Evidence) -> list[Problem]:
    return [item for item in diagnose(evidence).problems if item.severity.rank < Severity.INFO.rank]


def _young(created: str, status: str = "False") -> Body:
    body = node(
        capacity={"nvidia.com/gpu": 0}, labels=EIGHT, conditions=[ready(status, "2026-01-02T11:59:00Z")]
    )
    body["metadata"]["creationTimestamp"] = created
    return body


HEALTHY: dict[str, Evidence] = {
    "all GPUs of the node are divided (mixed)": evidence(
        [node(capacity={"nvidia.com/gpu": 0, "nvidia.com/mig-1g.10gb": 14, "nvidia.com/mig-2g.20gb": 0},
              labels={"nvidia.com/gpu.count": "2", "nvidia.com/mig.strategy": "mixed"}), plugin()]
    ),
    "some GPUs are divided": evidence(
        [node(capacity={"nvidia.com/gpu": 6, "nvidia.com/mig-3g.40gb": 4},
              labels={"nvidia.com/gpu.count": "8", "nvidia.com/mig.strategy": "mixed"}), plugin()]
    ),
    "one kind of MIG device counts as GPUs (single)": evidence(
        [node(capacity={"nvidia.com/gpu": 14},
              labels={"nvidia.com/gpu.count": "14", "nvidia.com/mig.strategy": "single"}), plugin()]
    ),
    "GPUs are shared under another name": evidence(
        [node(capacity={"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 16},
              labels={"nvidia.com/gpu.count": "4", "nvidia.com/gpu.replicas": "4"}), plugin()]
    ),
    "GPUs are shared under their own name": evidence(
        [node(capacity={"nvidia.com/gpu": 24},
              labels={"nvidia.com/gpu.count": "6", "nvidia.com/gpu.replicas": "4"}), plugin()]
    ),
    "a driver publishes the GPUs, the plugin's count stays at 0": evidence(
        [node(capacity={"nvidia.com/gpu": 0}, labels=EIGHT), resource_slice("node-a", gpus(8)),
         plugin(), plugin(mounts=REGISTRY) | {"metadata": {"name": "dra", "namespace": "gpu", "uid": "dra"}}]
    ),
    "a driver publishes only MIG devices": evidence(
        [node(capacity={"nvidia.com/gpu": 0}, labels=EIGHT), plugin(),
         resource_slice("node-a", [device("gpu-0-mig-1", {"type": "mig", "profile": "1g.10gb"})])]
    ),
    "two of eight GPUs are divided by a driver": evidence(
        [node(labels=EIGHT), resource_slice("node-a", [
            *gpus(6), device("gpu-6-mig-1", {"type": "mig", "profile": "1g.10gb"})])]
    ),
    "a control-plane node without GPUs": evidence(
        [node("cp", labels={"node-role.kubernetes.io/control-plane": ""}),
         node(capacity={"nvidia.com/gpu": 8}, labels=EIGHT),
         plugin("cp", phase="Pending"), plugin()]
    ),
    "GPUs are passed through to virtual machines": evidence(
        [node(capacity={"nvidia.com/GA102GL_A10": 2}, labels=EIGHT), plugin()]
    ),
    "the plugin is not meant to run there": evidence(
        [node(labels={**EIGHT, "nvidia.com/gpu.deploy.device-plugin": "false"}), node("node-b"),
         plugin("node-b")]
    ),
    "only nodes are in the dump": evidence([node(labels=EIGHT)]),
    "a node that joined a minute ago": evidence(
        [_young("2026-01-02T11:58:30Z"),
         plugin(phase="Pending", creationTimestamp="2026-01-02T11:59:00Z")]
    ),
    "a node that joined a minute ago, by the snapshot's clock": evidence(
        [_young("2026-01-02T11:58:30Z"), plugin(phase="Pending", creationTimestamp="2026-01-02T11:59:00Z")],
        taken_at="2026-01-02T12:00:00Z",
    ),
    "the plugin of a new node has not registered yet": evidence(
        [_young("2026-01-02T11:58:30Z", "True"), plugin(creationTimestamp="2026-01-02T11:59:00Z")]
    ),
    "the first driver pod of a node is being pulled": evidence(
        [node(capacity={"nvidia.com/gpu": 8}, conditions=[ready("True", "2026-01-01T00:00:00Z")]),
         plugin(phase="Pending", creationTimestamp="2026-01-02T11:55:00Z")]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_node_gives_nothing_above_info(name: str) -> None:
    assert found(HEALTHY[name]) == []


def test_a_node_that_joined_a_minute_ago_is_mentioned() -> None:
    codes = [item.code for item in diagnose(HEALTHY["a node that joined a minute ago"]).problems]
    assert codes == ["node-starting-with-gpus"]


SICK: dict[str, tuple[Evidence, str]] = {
    "everything of the vendor is 0": (
        evidence([node(capacity={"nvidia.com/gpu": 0, "nvidia.com/mig-1g.10gb": 0}, labels=EIGHT), plugin()]),
        "plugin-endpoint-lost",
    ),
    "another vendor's count does not help": (
        evidence([node(capacity={"nvidia.com/gpu": 0, "amd.com/gpu": 2}, labels=EIGHT), plugin()]),
        "plugin-endpoint-lost",
    ),
    "AMD": (
        evidence([node(capacity={"amd.com/gpu": 8}, allocatable={"amd.com/gpu": 7})]),
        "some-devices-unhealthy",
    ),
    "MIG devices": (
        evidence([node(capacity={"nvidia.com/mig-1g.10gb": 7}, allocatable={"nvidia.com/mig-1g.10gb": 0})]),
        "all-devices-unhealthy",
    ),
    "no entry at all, and the plugin is there": (
        evidence([node(labels=EIGHT), plugin()]),
        "gpu-resource-absent",
    ),
    "no entry at all, and the plugin is elsewhere": (
        evidence([node(labels=EIGHT), node("node-b"), plugin("node-b")]),
        "gpu-resource-absent",
    ),
    "a node that is not Ready for an hour": (
        evidence([_young("2026-01-02T11:00:00Z")]),
        "node-not-ready-with-gpus",
    ),
    "a dump whose time stamps are all the same": (
        evidence(
            [
                node(
                    capacity={"nvidia.com/gpu": 8},
                    conditions=[ready("False", "2026-01-02T12:00:00Z")],
                )
                | {"metadata": {"name": "node-a", "creationTimestamp": "2026-01-02T12:00:00Z"}}
            ]
        ),
        "node-not-ready-with-gpus",
    ),
    "a node whose age nobody tells": (
        evidence([node(capacity={"nvidia.com/gpu": 8}, conditions=[{"type": "Ready", "status": "False"}])]),
        "node-not-ready-with-gpus",
    ),
    "a driver pod that is pending for an hour": (
        evidence(
            [
                node(capacity={"nvidia.com/gpu": 8}, conditions=[ready("True", "2026-01-01T00:00:00Z")]),
                plugin(phase="Pending", creationTimestamp="2026-01-02T11:00:00Z"),
            ]
        ),
        "driver-pod-not-running",
    ),
}


@pytest.mark.parametrize("name", SICK)
def test_a_sick_node_has_one_problem(name: str) -> None:
    given, code = SICK[name]
    assert [item.code for item in found(given)] == [code]


def test_a_piece_of_a_description_without_a_name_is_a_node() -> None:
    for text in (
        "Capacity:\n nvidia.com/gpu: 3\nAllocatable:\n nvidia.com/gpu: 2\n",
        'allocatable:\n  nvidia.com/gpu: "2"\ncapacity:\n  nvidia.com/gpu: "3"\n',
        'allocatable: {cpu: "48", nvidia.com/gpu: "2"}\ncapacity: {cpu: "48", nvidia.com/gpu: "3"}\n',
        "Capacity: nvidia.com/gpu: 3\nAllocatable: nvidia.com/gpu: 2\n",
    ):
        (problem,) = found(read_files(["-"], stdin=io.BytesIO(text.encode())))
        assert problem.code == "some-devices-unhealthy", text
        assert problem.facts["total"] == 3


def test_one_of_the_two_amounts_alone_says_nothing() -> None:
    text = "Allocatable:\n  nvidia.com/gpu: 1\nAllocated resources:\n  nvidia.com/gpu  1  1\n"
    assert found(read_files(["-"], stdin=io.BytesIO(text.encode()))) == []


def test_zeros_and_the_log_of_a_plugin_that_runs_tell_of_a_lost_endpoint() -> None:
    """Without any pod among the files: the log says that the plugin is there."""
    zeros = node(capacity={"nvidia.com/gpu": 0})
    log = "I0409 06:34:15.971461       1 main.go:260] Starting FS watcher for /var/lib/x/device-plugins\n"
    (problem,) = found(evidence([zeros], {"node-a.log": log}))
    assert problem.code == "plugin-endpoint-lost"
    assert found(evidence([zeros])) == []
    assert found(evidence([zeros], {"node-a.log": "I0409 06:34:15.971461       1 x.go:1] hello\n"})) == []
