"""The publisher and the command against the embedded API server over HTTP."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml
from click.testing import CliRunner

from baro.agent.cluster import ClusterSlices, node_uid
from baro.agent.publisher import Publisher
from baro.agent.slices import desired_slices, node_topology
from baro.apiserver import create_app, run_in_thread
from baro.cli.agent import command
from baro.kube.client import KubeClient
from baro.kube.errors import ConflictError, NotFoundError
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Node
from baro.model.kinds.resource import DeviceTaint, ResourceSlice
from baro.topology.profiles import load_profile

TAINT = DeviceTaint(key="gpu.baro.dev/xid", value="79", effect="NoSchedule")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_in_thread(create_app(), port=0) as server:
        yield server.url


@pytest.fixture
def client(url: str) -> Iterator[KubeClient]:
    with KubeClient.connect(url=url) as client:
        yield client


def test_publishing_over_http_is_idempotent_and_keeps_the_generation(client: KubeClient) -> None:
    machine = load_profile("hgx-a100-8").machine("node-a")
    publisher = Publisher(ClusterSlices(client))
    topology = node_topology(machine, "node-a")
    first = publisher.publish(desired_slices(machine, node="node-a"), topology)
    again = Publisher(ClusterSlices(client)).publish(desired_slices(machine, node="node-a"), topology)
    tainted = publisher.publish(desired_slices(machine, node="node-a", taints={1: (TAINT,)}), topology)
    assert [(r.generation, r.writes) for r in (first, again, tainted)] == [(1, 1), (1, 0), (1, 1)]
    assert client.get(NodeTopology, "", "node-a").spec["islands"] == [list(range(8))]


def test_slices_are_found_by_driver_and_node_only(client: KubeClient) -> None:
    api = ClusterSlices(client)
    machine = load_profile("l40s-4").machine()
    for node in ("node-x", "node-y"):
        Publisher(api).publish(desired_slices(machine, node=node))
    Publisher(api).publish(desired_slices(machine, node="node-x", driver="gpu.nvidia.com"))
    assert [s.spec.node_name for s in api.list_slices("gpu.baro.dev", "node-x")] == ["node-x"]


def test_writes_are_guarded_by_what_was_read(client: KubeClient) -> None:
    api = ClusterSlices(client)
    machine = load_profile("l40s-4").machine()
    Publisher(api).publish(desired_slices(machine, node="node-g"))
    (stale,) = api.list_slices("gpu.baro.dev", "node-g")
    Publisher(api).publish(desired_slices(machine, node="node-g", taints={0: (TAINT,)}))
    with pytest.raises(ConflictError):
        api.update_slice(stale)
    with pytest.raises(ConflictError):
        api.delete_slice(stale)
    (current,) = api.list_slices("gpu.baro.dev", "node-g")
    api.delete_slice(current)
    with pytest.raises(NotFoundError):
        api.delete_slice(current)


def test_the_owner_is_the_node_once_it_exists(client: KubeClient) -> None:
    assert node_uid(client, "node-o") is None
    client.create(Node, "", Node(metadata=ObjectMeta(name="node-o")))
    uid = node_uid(client, "node-o")
    assert uid
    machine = load_profile("l40s-4").machine()
    Publisher(ClusterSlices(client)).publish(desired_slices(machine, node="node-o", node_uid=uid))
    (item,) = ClusterSlices(client).list_slices("gpu.baro.dev", "node-o")
    assert [owner.uid for owner in item.metadata.owner_references] == [uid]


def test_the_command_publishes_a_simulated_machine_once(url: str, client: KubeClient) -> None:
    arguments = ["--simulate", "h200-nvl-8", "--node", "node-c", "--once", "--server", url]
    first = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert first.stdout == ""
    assert "8 GPUs, generation 1: 1 created" in first.stderr
    assert "simulated h200-nvl-8" in first.stderr
    second = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert second.stderr == ""
    (item,) = client.list(ResourceSlice, field_selector="spec.nodeName=node-c").items
    assert len(item.spec.devices) == 8


def test_the_command_prints_slices_without_a_cluster() -> None:
    result = CliRunner().invoke(command, ["--simulate", "l40s-4", "--node", "node-p", "--print"])
    (body,) = yaml.safe_load_all(result.stdout)
    assert body["kind"] == "ResourceSlice"
    assert [device["name"] for device in body["spec"]["devices"]] == [f"gpu-{i}" for i in range(4)]


def test_a_machine_without_a_gpu_driver_is_one_clear_error() -> None:
    code = "import sys; from baro.cli import main; sys.exit(main(['agent', '--print']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        pytest.skip("this machine has an NVIDIA driver")
    assert done.returncode == 3
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "next:" in done.stderr
