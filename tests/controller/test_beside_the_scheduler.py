"""The planner while kube-scheduler allocates from the same devices: who goes first, and what is mended."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from baro.controller.marks import allocated_at, ours
from baro.controller.reconcile import LEFTOVER_S, Planner
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import DeviceClass, ResourceClaim, ResourceSlice
from tests.support.controller import FINALIZER, Cluster, judge, other_writer_allocates


def look(planner: Planner, cluster: Cluster, seconds: float = 0.0) -> None:
    """One round of a daemon whose watches are up to date, that much later."""
    cluster.clock.now += timedelta(seconds=seconds)
    planner.view.load(cluster.api)
    planner.round()


def beside_a_plain_pod() -> tuple[Cluster, Planner]:
    cluster = Cluster()
    cluster.node("a", 4)
    cluster.claim("theirs", 2)
    cluster.pod("plain", "theirs", gated=False)
    cluster.claim("ours", 2)
    cluster.pod("gated", "ours")
    return cluster, cluster.planner()


def test_kube_scheduler_goes_first_while_it_has_something_to_allocate() -> None:
    cluster, planner = beside_a_plain_pod()
    look(planner, cluster)
    assert not cluster.devices("ours")
    assert planner.next_try_s() is not None
    other_writer_allocates(cluster, "theirs", "a/gpu-0")
    look(planner, cluster)
    assert cluster.devices("ours")


def test_baro_goes_ahead_when_kube_scheduler_has_been_quiet() -> None:
    cluster, planner = beside_a_plain_pod()
    look(planner, cluster)
    look(planner, cluster, 1.0)
    assert cluster.devices("ours")


def test_an_allocation_settles_before_the_gate_goes_while_kube_scheduler_may_have_decided() -> None:
    cluster, planner = beside_a_plain_pod()
    look(planner, cluster)
    look(planner, cluster, 1.0)
    cluster.clock.now -= timedelta(seconds=1)  # the look itself took one
    look(planner, cluster)
    assert cluster.get_pod("gated").spec.scheduling_gates
    other_writer_allocates(cluster, "theirs", cluster.devices("ours")[0])
    for _ in range(4):  # the device is tainted; the claim yields; it is placed; that settles
        look(planner, cluster, 2.0)
    assert not set(cluster.devices("ours")) & set(cluster.devices("theirs"))
    assert cluster.devices("ours")


def test_a_gate_stays_longer_while_a_pod_waits_of_which_kube_scheduler_has_said_nothing() -> None:
    cluster, planner = beside_a_plain_pod()
    look(planner, cluster)
    look(planner, cluster, 1.0)
    assert cluster.devices("ours")
    look(planner, cluster, 2.0)
    assert cluster.get_pod("gated").spec.scheduling_gates
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    cluster.api.patch_merge(Pod, "default", "plain", {"status": {"conditions": [condition]}}, "status")
    look(planner, cluster)
    assert not cluster.get_pod("gated").spec.scheduling_gates


def test_a_gate_goes_at_last_whatever_kube_scheduler_does() -> None:
    cluster, planner = beside_a_plain_pod()
    for _ in range(3):
        look(planner, cluster, 5.0)
    assert not cluster.get_pod("gated").spec.scheduling_gates


def test_where_pods_without_gates_come_an_allocation_settles_although_none_is_seen_just_now() -> None:
    cluster, planner = beside_a_plain_pod()
    look(planner, cluster)
    other_writer_allocates(cluster, "theirs", "a/gpu-0")
    cluster.clock.now = cluster.clock.now.replace(microsecond=0)
    look(planner, cluster)
    cluster.clock.now -= timedelta(seconds=1)  # the look itself took one
    look(planner, cluster)
    assert cluster.devices("ours")
    assert cluster.get_pod("gated").spec.scheduling_gates, "the next one may be there and not seen yet"
    look(planner, cluster, 2.0)
    assert not cluster.get_pod("gated").spec.scheduling_gates
    look(planner, cluster, 120.0)
    cluster.claim("late")
    cluster.pod("later", "late")
    look(planner, cluster)
    look(planner, cluster, -1.0)
    assert not cluster.get_pod("later").spec.scheduling_gates, "none came for a long time"


def test_nobody_waits_for_a_pod_that_kube_scheduler_cannot_allocate_for() -> None:
    cluster, planner = beside_a_plain_pod()
    spec = {"spec": {"selectors": [{"cel": {"expression": "false"}}]}}
    cluster.api.patch_merge(DeviceClass, "", "gpu", spec)
    look(planner, cluster)
    assert cluster.devices("ours")


def device_class(cluster: Cluster, name: str, *expressions: str) -> None:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    body = {"metadata": {"name": name}, "spec": {"selectors": selectors}}
    cluster.api.create(DeviceClass, "", body)


def claim_of(cluster: Cluster, name: str, *classes: str) -> None:
    """A claim for a device of that class, or of the first of several that has one."""
    request: dict[str, object] = {"name": "r", "exactly": {"deviceClassName": classes[0], "count": 1}}
    if len(classes) > 1:
        choices = [{"name": f"s{i}", "deviceClassName": c, "count": 1} for i, c in enumerate(classes)]
        request = {"name": "r", "firstAvailable": choices}
    body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    cluster.api.create(ResourceClaim, "default", body)


OURS = 'device.driver == "gpu.baro.dev"'
NETWORK = 'device.driver == "nic.example"'


@pytest.mark.parametrize(
    ("theirs", "waits"),
    [
        pytest.param([], True, id="a class that selects everything"),
        pytest.param([OURS], True, id="the same driver"),
        pytest.param(['device.driver.startsWith("gpu")'], True, id="other words for the same devices"),
        pytest.param(['device.attributes["gpu.baro.dev"].model == "x"'], True, id="not to be told"),
        pytest.param([NETWORK], False, id="another driver"),
        pytest.param([OURS, "false"], False, id="nothing at all"),
        pytest.param([OURS, NETWORK], False, id="selectors that no device meets together"),
    ],
)
def test_baro_stands_back_only_for_pods_that_could_get_the_same_devices(
    theirs: list[str], waits: bool
) -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    device_class(cluster, "ours", OURS)
    device_class(cluster, "theirs", *theirs)
    claim_of(cluster, "plain", "theirs")
    cluster.pod("plain", "plain", gated=False)
    claim_of(cluster, "gated", "ours")
    cluster.pod("gated", "gated")
    planner = cluster.planner()
    look(planner, cluster)
    assert bool(cluster.devices("gated")) is not waits
    look(planner, cluster, 0.0 if not waits else 5.0)
    look(planner, cluster, 0.0 if not waits else 5.0)
    assert bool(cluster.get_pod("gated").spec.scheduling_gates) is False


def test_a_slice_that_makes_two_classes_meet_makes_baro_stand_back() -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    device_class(cluster, "ours", 'device.driver.endsWith(".dev")')
    device_class(cluster, "theirs", NETWORK.replace("nic.example", "nic.dev"))
    claim_of(cluster, "plain", "theirs")
    cluster.pod("plain", "plain", gated=False)
    planner = cluster.planner()
    claim_of(cluster, "c1", "ours")
    cluster.pod("p1", "c1")
    look(planner, cluster)
    assert cluster.devices("c1")
    pool = {"name": "nics", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "nic.dev", "nodeName": "a", "pool": pool, "devices": [{"name": "nic-0"}]}
    cluster.api.create(ResourceSlice, "", {"metadata": {"name": "nics"}, "spec": spec})
    claim_of(cluster, "c2", "ours")
    cluster.pod("p2", "c2")
    look(planner, cluster)
    assert not cluster.devices("c2")


def test_one_of_several_alternatives_that_could_take_the_device_is_enough() -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    device_class(cluster, "ours", OURS)
    device_class(cluster, "elsewhere", NETWORK)
    claim_of(cluster, "plain", "elsewhere", "ours")
    cluster.pod("plain", "plain", gated=False)
    claim_of(cluster, "gated", "ours")
    cluster.pod("gated", "gated")
    look(cluster.planner(), cluster)
    assert not cluster.devices("gated")


def test_once_lets_kube_scheduler_go_first_and_settles_beside_it() -> None:
    cluster, planner = beside_a_plain_pod()
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        cluster.clock.advance(seconds)
        if len(paused) == 1:  # kube-scheduler had decided before it could see what baro writes
            assert not cluster.devices("ours")
            other_writer_allocates(cluster, "theirs", "a/gpu-0")

    planner.settle(pause)
    assert paused
    assert max(paused) <= 1.5
    assert not set(cluster.devices("ours")) & set(cluster.devices("theirs"))
    assert not cluster.get_pod("gated").spec.scheduling_gates


def test_once_waits_for_nobody_when_kube_scheduler_has_nothing_to_allocate() -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    cluster.claim("c", 2)
    cluster.pod("p", "c")
    cluster.pod("waits", "a-claim-that-is-not-there")

    def pause(seconds: float) -> None:
        raise AssertionError(f"waits for {seconds} s")

    cluster.planner().settle(pause)
    assert not cluster.get_pod("p").spec.scheduling_gates


def test_a_gated_pod_does_not_stand_back_for_ever() -> None:
    cluster, planner = beside_a_plain_pod()
    for i in range(12):  # every second another pod of theirs
        look(planner, cluster)
        cluster.pod(f"plain-{i}", "theirs", gated=False)
    assert cluster.devices("ours")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_pod_that_was_bound_while_its_allocation_was_taken_back_gets_devices_of_its_node(
    elsewhere: bool,
) -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    cluster.claim("c", 2)
    cluster.pod("p", "c")
    cluster.planner().settle()
    cluster.post_filter("c")
    if elsewhere:  # placed anew on another node before baro heard of the binding
        cluster.node("b", 4)
        cordoned = {"spec": {"unschedulable": True}}
        cluster.api.patch_merge(Node, "", "a", cordoned)
        cluster.planner().settle()
        assert cluster.devices("c") == ["b/gpu-0", "b/gpu-1"]
    cluster.api.create(
        Pod, "default", {"target": {"kind": "Node", "name": "a"}}, subresource=("p", "binding")
    )
    cluster.planner().settle()
    assert cluster.devices("c") == ["a/gpu-0", "a/gpu-1"]
    judge(cluster)


def test_a_bound_pod_whose_devices_went_to_others_is_told_to_be_deleted() -> None:
    cluster = Cluster()
    cluster.node("a", 1)
    cluster.claim("c", 1)
    cluster.pod("p", "c")
    cluster.planner().settle()
    cluster.post_filter("c")
    cluster.claim("theirs", 1)
    other_writer_allocates(cluster, "theirs", "a/gpu-0")
    cluster.api.create(
        Pod, "default", {"target": {"kind": "Node", "name": "a"}}, subresource=("p", "binding")
    )
    cluster.planner().settle()
    (event,) = cluster.events("NoPlacement")
    assert "delete the pod to have it placed anew" in event.message


def test_a_running_pod_whose_claim_lost_its_allocation_is_left_alone() -> None:
    cluster = Cluster()
    cluster.node("a", 2)
    cluster.claim("c", 2)
    cluster.pod("p", "c")
    cluster.planner().settle()
    cluster.schedule()
    cluster.api.patch_merge(Pod, "default", "p", {"status": {"phase": "Running"}}, "status")
    cluster.post_filter("c")
    cluster.planner().settle()
    assert not cluster.devices("c")


def test_the_reason_on_a_pod_is_that_of_its_last_placement() -> None:
    cluster = Cluster()
    cluster.node("a", 2)
    cluster.claim("c", 2)
    cluster.pod("p", "c")
    cluster.planner().settle()
    cluster.post_filter("c")
    cluster.api.delete(Node, "", "a")
    cluster.node("b", 2)
    cluster.planner().settle()
    assert cluster.get_pod("p").metadata.annotations["baro.dev/placement-reason"] == "2×GPU on node b"
    assert {event.message for event in cluster.events("Placed")} == {"2×GPU on node a", "2×GPU on node b"}


def test_a_claim_of_a_pod_that_no_longer_fits_does_not_keep_the_finalizer() -> None:
    cluster = Cluster()
    cluster.node("a", 2)
    cluster.claim("c", 2)
    cluster.pod("p", "c")
    cluster.planner_killed_ahead_of_a_pod()
    cluster.api.delete(Node, "", "a")
    planner = cluster.planner()
    look(planner, cluster)
    look(planner, cluster)
    assert FINALIZER in cluster.get_claim("c").metadata.finalizers
    look(planner, cluster, LEFTOVER_S)
    assert FINALIZER not in cluster.get_claim("c").metadata.finalizers
    assert cluster.events("NoPlacement")


def test_a_pod_that_waits_for_its_claims_is_looked_at_again_when_patience_ends() -> None:
    cluster = Cluster()
    cluster.pod("p", "missing")
    planner = cluster.planner()
    look(planner, cluster)
    wait = planner.next_try_s()
    assert wait is not None
    assert wait <= 10
    look(planner, cluster, wait)
    assert cluster.events("WaitingForClaims")


def test_a_back_off_that_ended_during_a_round_is_not_forgotten() -> None:
    """A round may take longer than the back-off that it set."""
    cluster = Cluster()
    cluster.node("a", 4)
    cluster.claim("c", 2)
    cluster.pod("p", "c")
    planner = cluster.planner()
    look(planner, cluster)
    for _ in range(3):  # taken away again and again
        look(planner, cluster, 60)
        cluster.post_filter("c")
    look(planner, cluster)
    cluster.clock.advance(3600)
    assert planner.next_try_s() == 0.0


def test_an_allocation_whose_time_the_server_dropped_is_still_baros() -> None:
    """Kubernetes 1.34 and 1.35 do so."""
    cluster = Cluster()
    cluster.node("a", 2)
    cluster.claim("c", 2)
    cluster.pod("p", "c")
    cluster.planner().settle()
    claim = cluster.get_claim("c")
    assert claim.status.allocation is not None
    without = msgspec.structs.replace(claim.status.allocation, allocation_timestamp=None)
    old = msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, allocation=without))
    assert ours(old)
    assert allocated_at(old) == allocated_at(claim)
    other = msgspec.structs.replace(claim.status.allocation, allocation_timestamp="2020-01-01T00:00:00Z")
    theirs = msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, allocation=other))
    assert not ours(theirs)
