"""baro's parts with the permissions of ``deploy/rbac`` and no others, against the real authorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from baro.agent.cluster import ClusterSlices, node_uid
from baro.agent.publisher import Publisher
from baro.agent.slices import desired_slices, node_topology
from baro.controller.placer import with_policy
from baro.controller.reconcile import Planner
from baro.controller.terms import Settings
from baro.kube.client import KubeClient
from baro.model.errors import BaroError, ForbiddenError
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim, ResourceSlice
from baro.topology.profiles import load_profile
from tests.support.real_access import Cluster, eventually
from tests.support.real_objects import claim_template, node, pod

SYSTEM = "baro-system"
NODES = ("agent-a", "agent-b")


@pytest.fixture
def nodes(own_cluster: Cluster) -> Iterator[None]:
    """Two nodes, on each a pod of the agent's service account, as the DaemonSet makes them."""
    for name in NODES:
        own_cluster.apply(node(name, own=True), agent_pod(name))
    yield
    for name in NODES:
        own_cluster.kubectl("delete", "pod", f"agent-{name}", "-n", SYSTEM, "--force", "--grace-period=0")
        own_cluster.kubectl("delete", "node", name)
        own_cluster.kubectl("delete", "resourceslice", "--field-selector", f"spec.nodeName={name}")
        own_cluster.kubectl("delete", "nodetopology", name, "--ignore-not-found")


def agent_pod(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"agent-{name}", "namespace": SYSTEM},
        "spec": {
            "serviceAccountName": "baro-agent",
            "nodeName": name,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "agent", "image": "none"}],
        },
    }


def publish(cluster: Cluster, account_node: str, target: str) -> None:
    """Publishes the GPUs of ``target`` with the token of the agent on ``account_node``."""
    kubeconfig = cluster.account_kubeconfig("baro-agent", SYSTEM, pod=f"agent-{account_node}")
    machine = load_profile("hgx-h100-2x4").machine()
    with KubeClient.connect(kubeconfig_path=str(kubeconfig)) as api:
        uid = node_uid(api, target)
        slices = desired_slices(machine, node=target, node_uid=uid)
        graph = node_topology(machine, node=target, node_uid=uid)
        Publisher(ClusterSlices(api)).publish(slices, graph)


@pytest.mark.usefixtures("nodes")
def test_an_agent_publishes_its_own_node(own_cluster: Cluster, api: KubeClient) -> None:
    publish(own_cluster, "agent-a", "agent-a")
    slices = api.list(ResourceSlice, field_selector="spec.nodeName=agent-a").items
    assert [len(found.spec.devices) for found in slices] == [8]
    graph = api.get(NodeTopology, "", "agent-a")
    assert graph.spec["islands"]
    publish(own_cluster, "agent-a", "agent-a")
    again = api.list(ResourceSlice, field_selector="spec.nodeName=agent-a").items
    assert again == slices, "publishing the same again writes nothing"


@pytest.mark.usefixtures("nodes")
def test_an_agent_may_not_publish_another_node(own_cluster: Cluster, api: KubeClient) -> None:
    with pytest.raises(BaroError, match="an agent on node agent-a may not write objects of node 'agent-b'"):
        publish(own_cluster, "agent-a", "agent-b")
    assert api.list(ResourceSlice, field_selector="spec.nodeName=agent-b").items == ()


@pytest.mark.usefixtures("nodes")
def test_the_planner_places_a_pod_with_its_own_permissions(
    own_cluster: Cluster, api: KubeClient, namespace: str
) -> None:
    publish(own_cluster, "agent-a", "agent-a")
    kubeconfig = own_cluster.account_kubeconfig("baro-controller", SYSTEM)
    with KubeClient.connect(kubeconfig_path=str(kubeconfig)) as own:
        planner = Planner(own, with_policy("topology"), settings=Settings(namespace=namespace))
        own_cluster.apply(
            claim_template("four", namespace, device_class="gpu.baro.dev", count=4),
            pod("tp4", namespace, "four"),
        )

        def running() -> Pod | None:
            planner.settle()
            found = api.get(Pod, namespace, "tp4")
            return found if found.status.phase == "Running" else None

        placed = eventually(running, "pod Running")
        assert placed.spec.node_name == "agent-a"
        with pytest.raises(ForbiddenError, match=r"delete.*pods"):
            own.delete(Pod, namespace, "tp4")
    (status,) = placed.status.resource_claim_statuses
    claim = api.get(ResourceClaim, namespace, status.resource_claim_name or "")
    assert claim.status.allocation is not None
    devices = sorted(result.device for result in claim.status.allocation.devices.results)
    assert devices in ([f"gpu-{i}" for i in range(4)], [f"gpu-{i}" for i in range(4, 8)])
