"""The planner's protocol written out call by call, against the real scheduler and claim controller.

It shows that the writes alone are enough; what decides on them is tested elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from baro.kube.client import KubeClient
from baro.kube.errors import InvalidError, NotFoundError
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import FINALIZER, ResourceClaim
from tests.support.real_access import Cluster, eventually
from tests.support.real_objects import allocation, claim_template, node, pod, resource_slice

NODE = "protocol-node"
EXCLUSIVE = "gpu.baro.dev"


@pytest.fixture(autouse=True)
def gpus(own_cluster: Cluster) -> Iterator[None]:
    """A node with eight simulated GPUs."""
    own_cluster.apply(node(NODE, own=True), resource_slice(NODE, 8))
    yield
    own_cluster.kubectl("delete", "resourceslice", f"gpu.baro.dev-{NODE}")
    own_cluster.kubectl("delete", "node", NODE)


def gated(cluster: Cluster, api: KubeClient, namespace: str) -> tuple[Pod, ResourceClaim]:
    """A gated pod and the claim that the controller makes for it while it is gated."""
    cluster.apply(
        claim_template("four", namespace, device_class=EXCLUSIVE, count=4), pod("tp4", namespace, "four")
    )

    def claim() -> ResourceClaim | None:
        found = api.get(Pod, namespace, "tp4")
        names = [status.resource_claim_name for status in found.status.resource_claim_statuses]
        return api.get(ResourceClaim, namespace, names[0]) if names and names[0] else None

    made = eventually(claim, "claim of a gated pod")
    return api.get(Pod, namespace, "tp4"), made


def allocate(api: KubeClient, owner: Pod, claim: ResourceClaim) -> None:
    """Finalizer, then allocation and reservation in one write."""
    namespace, name = claim.metadata.namespace, claim.metadata.name
    api.patch_merge(ResourceClaim, namespace, name, {"metadata": {"finalizers": [FINALIZER]}})
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    chosen = allocation(NODE, [f"gpu-{i}" for i in (4, 5, 6, 7)], timestamp=now)
    consumer = {"resource": "pods", "name": owner.metadata.name, "uid": owner.metadata.uid}
    status = {"allocation": chosen, "reservedFor": [consumer]}
    api.patch_merge(ResourceClaim, namespace, name, {"status": status}, "status")


def test_finalizer_status_and_ungating_bind_the_pod_to_our_node_and_devices(
    own_cluster: Cluster, api: KubeClient, namespace: str
) -> None:
    owner, claim = gated(own_cluster, api, namespace)
    allocate(api, owner, claim)
    api.patch_merge(Pod, namespace, "tp4", {"spec": {"schedulingGates": None}})

    def running() -> Pod | None:
        found = api.get(Pod, namespace, "tp4")
        return found if found.status.phase == "Running" else None

    bound = eventually(running, "pod Running")
    assert bound.spec.node_name == NODE
    kept = api.get(ResourceClaim, namespace, claim.metadata.name)
    assert kept.status.allocation is not None
    devices = [result.device for result in kept.status.allocation.devices.results]
    assert devices == ["gpu-4", "gpu-5", "gpu-6", "gpu-7"]


def test_the_claim_is_collected_when_its_pod_is_deleted(
    own_cluster: Cluster, api: KubeClient, namespace: str
) -> None:
    owner, claim = gated(own_cluster, api, namespace)
    allocate(api, owner, claim)
    api.delete(Pod, namespace, "tp4", grace_period_s=0)

    def gone() -> bool:
        try:
            api.get(ResourceClaim, namespace, claim.metadata.name)
        except NotFoundError:
            return True
        return False

    eventually(gone, "claim collected")


def test_an_allocation_cannot_be_changed_once_it_is_written(
    own_cluster: Cluster, api: KubeClient, namespace: str
) -> None:
    owner, claim = gated(own_cluster, api, namespace)
    allocate(api, owner, claim)
    other = allocation(NODE, [f"gpu-{i}" for i in range(4)], timestamp="2026-01-02T12:00:00Z")
    with pytest.raises(InvalidError, match=r"immutable|modified once set"):
        api.patch_merge(
            ResourceClaim, namespace, claim.metadata.name, {"status": {"allocation": other}}, "status"
        )
