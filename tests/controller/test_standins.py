"""The simulated control plane beside the planner, on an API server in memory."""

from __future__ import annotations

from baro.controller.standins import SimulatedCluster
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import ResourceClaim, ResourceClaimTemplate
from tests.support.controller import Cluster, first_free, judge


def template(cluster: Cluster, name: str = "template", count: int = 4) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}
    body = {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    cluster.api.create(ResourceClaimTemplate, "default", body)


def run(cluster: Cluster, *, planner: bool = True) -> SimulatedCluster:
    """Planner and stand-ins in turn until neither writes."""
    simulated = SimulatedCluster(cluster.fake.other(), first_free, utc=cluster.clock)
    planners = cluster.planner()
    for _ in range(20):
        before = cluster.fake.store.version
        if planner:
            planners.settle()
        for _ in range(50):
            if not simulated.step():
                break
        cluster.clock.now = cluster.clock.now.replace(minute=0, second=0)  # no heartbeat is ever due
        if cluster.fake.store.version == before:
            return simulated
    raise AssertionError("planner and stand-ins never came to rest")


def test_a_gated_pod_with_a_template_gets_its_claim_its_devices_its_node_and_runs() -> None:
    cluster = Cluster()
    cluster.node("a")
    template(cluster)
    cluster.pod("p", "template", template=True)
    run(cluster)
    pod = cluster.get_pod("p")
    assert (pod.spec.node_name, pod.status.phase) == ("a", "Running")
    [status] = pod.status.resource_claim_statuses
    assert status.resource_claim_name is not None
    claim = cluster.get_claim(status.resource_claim_name)
    assert claim.metadata.name.startswith("p-e0-")
    assert claim.metadata.annotations["resource.kubernetes.io/pod-claim-name"] == "e0"
    assert claim.metadata.owner_references[0].uid == pod.metadata.uid
    judge(cluster)


def test_the_claim_of_a_template_goes_with_its_pod_and_the_next_pod_is_placed() -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    template(cluster)
    cluster.pod("p", "template", template=True)
    cluster.pod("q", "template", template=True)
    run(cluster)
    assert cluster.get_pod("q").status.conditions[0].reason == "SchedulingGated"
    cluster.api.delete(Pod, "default", "p")
    run(cluster)
    assert cluster.get_pod("q").status.phase == "Running"
    assert len(cluster.api.list(ResourceClaim).items) == 1
    judge(cluster)


def test_a_pod_that_ended_gives_its_devices_back_and_keeps_its_object() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.claim("c", 4)
    cluster.pod("p", "c")
    run(cluster)
    cluster.api.patch_merge(Pod, "default", "p", {"status": {"phase": "Succeeded"}}, "status")
    run(cluster)
    claim = cluster.get_claim("c")
    assert (claim.status.allocation, claim.metadata.finalizers) == (None, ())
    assert cluster.get_pod("p").status.phase == "Succeeded"


def test_without_the_finalizer_the_allocation_leaks_as_it_does_upstream() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.claim("c", 4)
    cluster.pod("p", "c")
    run(cluster)
    cluster.api.patch_merge(ResourceClaim, "default", "c", {"metadata": {"finalizers": None}})
    cluster.api.delete(Pod, "default", "p")
    run(cluster, planner=False)
    claim = cluster.get_claim("c")
    assert claim.status.reserved_for == ()
    assert claim.status.allocation is not None


def test_a_pod_that_is_not_gated_gets_the_first_fit() -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    cluster.claim("c", 2)
    cluster.pod("p", "c", gated=False)
    run(cluster)
    assert cluster.get_pod("p").status.phase == "Running"
    assert cluster.devices("c") == ["a/gpu-0", "a/gpu-1"]
    judge(cluster)


def test_gated_and_ungated_pods_side_by_side_share_no_device() -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    cluster.node("b", 4)
    for i in range(6):
        cluster.claim(f"c{i}", 2)
        cluster.pod(f"p{i}", f"c{i}", gated=i % 2 == 0)
    run(cluster)
    phases = [cluster.get_pod(f"p{i}").status.phase for i in range(6)]
    assert sorted(phases) == ["Pending", "Pending", *["Running"] * 4]
    judge(cluster)


def test_a_pod_that_fits_nowhere_is_told_so_by_the_simulated_scheduler() -> None:
    cluster = Cluster()
    cluster.node("a", 1)
    cluster.claim("c", 2)
    cluster.pod("p", "c", gated=False)
    run(cluster)
    [condition] = cluster.get_pod("p").status.conditions
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
    assert "0/1 nodes are available" in condition.message
    assert len(cluster.events("FailedScheduling")) == 1


def test_a_missing_template_is_reported_and_its_pod_waits() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.pod("p", "nothing", template=True, gated=False)
    run(cluster)
    [event] = cluster.events("FailedResourceClaimCreation")
    assert 'resource claim template "nothing": not found' in event.message


def test_nodes_become_ready_unless_somebody_says_otherwise() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.node("b")
    sick = {"conditions": [{"type": "Ready", "status": "False", "reason": "Test"}]}
    cluster.api.patch_merge(Node, "", "b", {"status": sick}, "status")
    run(cluster)
    ready = {
        node.metadata.name: [c.status for c in node.status.conditions if c.type == "Ready"]
        for node in cluster.api.list(Node).items
    }
    assert ready == {"a": ["True"], "b": ["False"]}


def test_the_threads_bring_a_pod_up_and_stop_when_told() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.claim("c", 2)
    cluster.pod("p", "c", gated=False)
    simulated = SimulatedCluster(cluster.fake.other(), first_free, utc=cluster.clock)
    simulated.start()
    store = cluster.fake.store
    with store.changed:
        store.changed.wait_for(lambda: cluster.get_pod("p").status.phase == "Running", timeout=20)
    simulated.stop()
    assert cluster.get_pod("p").status.phase == "Running"
