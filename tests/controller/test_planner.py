"""The planner's protocol on an API server in memory: every scenario once undisturbed, then disturbed.

Left out on purpose: which devices are chosen (``baro.placement``), real servers (the acceptance suite).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from baro.kube.errors import InvalidError
from baro.model.errors import ForbiddenError, UnreachableError
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import ResourceClaim, ResourceSlice
from tests.support.controller import Cluster, judge, other_writer_allocates
from tests.support.kube import FakeApi, Killed, Write


def settle(cluster: Cluster) -> None:
    """A fresh planner, kube-scheduler and the claim controller until nothing moves."""
    for _ in range(3):
        cluster.planner().settle()
        cluster.schedule()
        cluster.collect()
        cluster.clock.advance(120)
    cluster.planner().settle()
    judge(cluster)


# --- scenarios: each builds a cluster in which one planner has work to do ----------------------------------


def one_pod() -> Cluster:
    cluster = Cluster()
    cluster.node("a")
    cluster.claim("c", 2)
    cluster.pod("p", "c")
    return cluster


def two_claims() -> Cluster:
    cluster = Cluster()
    cluster.node("a", 2)
    cluster.node("b", 4)
    cluster.claim("c", 2)
    cluster.claim("d", 2)
    cluster.pod("p", "c", "d")
    return cluster


def shared_claim() -> Cluster:
    cluster = Cluster()
    cluster.node("a")
    cluster.claim("c", 2)
    cluster.pod("p", "c")
    cluster.pod("q", "c")
    return cluster


def template_claim() -> Cluster:
    cluster = Cluster()
    cluster.node("a")
    pod = cluster.pod("p", "template", template=True)
    cluster.claim("p-e0-abcde", 4, owner=pod, entry="e0")
    body = {"status": {"resourceClaimStatuses": [{"name": "e0", "resourceClaimName": "p-e0-abcde"}]}}
    cluster.api.patch_merge(Pod, "default", "p", body, "status")
    return cluster


def no_room_for_the_second() -> Cluster:
    cluster = Cluster()
    cluster.node("a", 4)
    for name in ("1", "2"):
        cluster.claim(f"c{name}", 3)
        cluster.pod(f"p{name}", f"c{name}")
    return cluster


def allocation_cleared() -> Cluster:
    cluster = one_pod()
    cluster.planner().settle()
    cluster.post_filter("c")
    return cluster


def orphan() -> Cluster:
    cluster = one_pod()
    cluster.planner().settle()
    cluster.api.patch_merge(ResourceClaim, "default", "c", {"status": {"reservedFor": None}}, "status")
    cluster.api.delete(Pod, "default", "p")
    cluster.clock.advance(120)
    return cluster


SCENARIOS = [
    one_pod,
    two_claims,
    shared_claim,
    template_claim,
    no_room_for_the_second,
    allocation_cleared,
    orphan,
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_planner_left_alone_leaves_a_clean_cluster(scenario: Callable[[], Cluster]) -> None:
    cluster = scenario()
    settle(cluster)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_planner_killed_before_any_of_its_writes_is_finished_by_the_next(
    scenario: Callable[[], Cluster],
) -> None:
    undisturbed = scenario()
    settle(undisturbed)
    for number in range(1, 100):
        cluster = scenario()
        api = cluster.fake.other()
        api.kill_before(number)
        try:
            cluster.planner(api).settle()
        except Killed:
            settle(cluster)
            assert placements(cluster) == placements(undisturbed)
        else:
            assert number > 1
            return
    pytest.fail("the planner never came to an end")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_conflict_on_any_write_leads_to_the_same_end(scenario: Callable[[], Cluster]) -> None:
    undisturbed = scenario()
    settle(undisturbed)
    for number in range(1, 100):
        cluster = scenario()
        api = cluster.fake.other()
        api.conflict_on(number)
        cluster.planner(api).settle()
        settle(cluster)
        assert placements(cluster) == placements(undisturbed)
        if len(api.writes) < number:
            return
    pytest.fail("the planner never came to an end")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_two_planners_of_which_one_acts_between_any_two_writes_of_the_other_do_no_harm(
    scenario: Callable[[], Cluster],
) -> None:
    for number in range(1, 100):
        cluster = scenario()
        api = cluster.fake.other()
        interfered: list[int] = []

        def before(
            write: Write, number: int = number, cluster: Cluster = cluster, seen: list[int] = interfered
        ) -> None:
            if write.number == number and not seen:
                seen.append(number)
                cluster.planner().settle()

        api.before = before
        cluster.planner(api).settle()
        settle(cluster)
        if not interfered:
            return
    pytest.fail("the planner never came to an end")


def placements(cluster: Cluster) -> dict[str, list[str]]:
    claims = cluster.api.list(ResourceClaim).items
    return {claim.metadata.name: cluster.devices(claim.metadata.name) for claim in claims}


# --- the protocol ------------------------------------------------------------------------------------------


def test_the_writes_are_finalizer_then_status_then_gate_and_nothing_else() -> None:
    cluster = one_pod()
    api = cluster.fake.other()
    cluster.planner(api).settle()
    finalizer, status, nominated, gate, event = api.writes
    assert finalizer.body["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert (status.subresource, set(status.body["status"])) == ("status", {"allocation", "reservedFor"})
    allocation = status.body["status"]["allocation"]
    assert allocation["allocationTimestamp"].endswith("Z")
    fields = allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"]
    assert fields == [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    pod = cluster.get_pod("p")
    reserved = {"resource": "pods", "name": "p", "uid": pod.metadata.uid}
    assert status.body["status"]["reservedFor"] == [reserved]
    assert (nominated.kind, nominated.subresource) == (Pod, "status")
    assert nominated.body["status"] == {"nominatedNodeName": "a"}
    for write in (finalizer, status, nominated, gate):
        assert write.body["metadata"]["resourceVersion"] and write.body["metadata"]["uid"]
    assert gate.body["spec"] == {"schedulingGates": None}
    assert pod.metadata.annotations["baro.dev/placement-reason"] == "2×GPU on node a"
    assert (event.verb, event.body["reason"], event.body["message"]) == (
        "create",
        "Placed",
        "2×GPU on node a",
    )


def test_other_gates_stay_on_the_pod() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.claim("c")
    cluster.pod("p", "c", gated=False, schedulingGates=[{"name": "x/y"}, {"name": "baro.dev/placement"}])
    cluster.planner().settle()
    assert [gate.name for gate in cluster.get_pod("p").spec.scheduling_gates] == ["x/y"]


def test_a_pod_release_claims_is_let_through() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.pod("p")
    cluster.planner().settle()
    assert not cluster.get_pod("p").spec.scheduling_gates


def test_pods_that_are_not_gated_are_left_to_kube_scheduler() -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    cluster.claim("free", 1)
    cluster.pod("free", "free", gated=False)
    cluster.claim("c", 2)
    cluster.pod("p", "c")
    other_writer_allocates(cluster, "free", "a/gpu-0")
    cluster.planner().settle()
    assert cluster.devices("c") == ["a/gpu-1", "a/gpu-2"]
    assert not cluster.get_claim("free").status.reserved_for


def test_a_claim_is_never_reserved_before_its_pod_exists() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.claim("c")
    api = cluster.fake.other()
    cluster.planner(api).settle()
    assert api.writes == []


def test_a_template_claim_is_found_by_its_owner_before_the_status_names_it() -> None:
    cluster = Cluster()
    cluster.node("a")
    pod = cluster.pod("p", "template", template=True)
    cluster.planner().settle()
    assert cluster.events("WaitingForClaims") == []  # a moment ago; no reason to say anything
    cluster.claim("p-e0-abcde", 4, owner=pod, entry="e0")
    cluster.planner().settle()
    assert len(cluster.devices("p-e0-abcde")) == 4


def test_a_pod_that_waits_long_for_its_claim_is_told_which() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.pod("p", "missing")
    cluster.clock.advance(20)
    cluster.planner().settle()
    [event] = cluster.events("WaitingForClaims")
    assert "default/missing" in event.message


def test_a_claim_made_for_an_earlier_pod_of_the_same_name_is_not_used() -> None:
    cluster = Cluster()
    cluster.node("a")
    old = cluster.pod("p", "template", template=True)
    cluster.claim("p-e0-abcde", 1, owner=old, entry="e0")
    cluster.api.delete(Pod, "default", "p")
    cluster.pod("p", "template", template=True)
    body = {"status": {"resourceClaimStatuses": [{"name": "e0", "resourceClaimName": "p-e0-abcde"}]}}
    cluster.api.patch_merge(Pod, "default", "p", body, "status")
    cluster.planner().settle()
    assert cluster.devices("p-e0-abcde") == []


@pytest.mark.parametrize("restarted", [True, False])
def test_a_claim_taken_back_between_planning_and_ungating_is_planned_again(restarted: bool) -> None:
    cluster = one_pod()
    api = cluster.fake.other()
    planner = cluster.planner(api)
    planner.view.load(api)
    planner.round()
    if restarted:
        planner = cluster.planner(api)
    planner.view.load(api)
    cluster.post_filter("c")  # after the list, before the pod is written
    planner.round()
    # A process that did not write the claim itself looks at it once more. One that did, and has just been
    # shown its own write, saves that call: the pod is then placed as one that lost its allocation.
    assert bool(cluster.get_pod("p").spec.scheduling_gates) is restarted
    settle(cluster)
    assert cluster.get_pod("p").spec.node_name == "a"


def test_what_this_process_has_just_written_is_not_read_again_before_ungating() -> None:
    cluster = one_pod()
    api = cluster.fake.other()
    reads = []
    get = api.get
    api.get = lambda *args: reads.append(args) or get(*args)  # type: ignore[method-assign,func-returns-value]
    cluster.planner(api).settle()
    assert not reads
    late = allocated_but_gated("a")
    api = late.fake.other()
    get = api.get
    api.get = lambda *args: reads.append(args) or get(*args)  # type: ignore[method-assign,func-returns-value]
    late.planner(api).settle()
    assert [args[0] for args in reads] == [ResourceClaim]
    assert not late.get_pod("p").spec.scheduling_gates


def test_an_allocation_that_is_no_longer_fresh_is_read_again_before_ungating() -> None:
    cluster = one_pod()
    api = cluster.fake.other()
    planner = cluster.planner(api)
    planner.view.load(api)
    planner.round()
    planner.view.load(api)
    cluster.clock.advance(60)
    cluster.post_filter("c")
    planner.round()
    assert cluster.get_pod("p").spec.scheduling_gates


def test_an_allocation_that_no_watch_has_confirmed_ungates_nobody() -> None:
    cluster = one_pod()
    planner = cluster.planner()
    planner.view.load(cluster.api)
    assert planner.round()
    assert not planner.round()  # nothing to do until the write comes back
    planner.view.load(cluster.api)
    assert planner.round()
    assert not cluster.get_pod("p").spec.scheduling_gates


# --- no fit ------------------------------------------------------------------------------------------------


def test_a_pod_that_fits_nowhere_is_told_why_once_and_placed_when_something_goes() -> None:
    cluster = no_room_for_the_second()
    api = cluster.fake.other()
    planner = cluster.planner(api)
    planner.settle()
    [event] = cluster.events("NoPlacement")
    assert event.involved_object.name == "p2"
    api.writes.clear()
    planner.settle()
    assert api.writes == []
    cluster.schedule()
    cluster.api.delete(Pod, "default", "p1")
    cluster.collect()
    planner.settle()
    assert cluster.devices("c2") == ["a/gpu-0", "a/gpu-1", "a/gpu-2"]
    assert not cluster.get_pod("p2").spec.scheduling_gates


def test_a_restarted_planner_counts_on_the_same_event() -> None:
    cluster = no_room_for_the_second()
    cluster.planner().settle()
    cluster.planner().settle()
    [event] = cluster.events("NoPlacement")
    assert event.count == 2


def test_a_full_node_is_not_chosen_although_its_devices_are_free() -> None:
    cluster = Cluster()
    cluster.node("a", 4, allocatable={"cpu": "2"})
    cluster.node("b", 4, allocatable={"cpu": "8"})
    cluster.pod("busy", gated=False, nodeName="a", cpu="1500m")
    cluster.claim("c")
    cluster.pod("p", "c", cpu="1")
    cluster.planner().settle()
    assert cluster.devices("c") == ["b/gpu-0"]


def test_room_is_counted_for_pods_that_are_placed_but_not_bound() -> None:
    cluster = Cluster()
    cluster.node("a", 4, allocatable={"cpu": "2"})
    for name in ("1", "2", "3"):
        cluster.claim(f"c{name}")
        cluster.pod(f"p{name}", f"c{name}", cpu="1")
    cluster.planner().settle()
    [event] = cluster.events("NoPlacement")
    assert event.involved_object.name == "p3"
    assert "1 node had too little cpu" in event.message


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"unschedulable": True}, "were unschedulable"),
        ({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}, "had untolerated taint {k: v}"),
    ],
)
def test_a_node_that_refuses_the_pod_is_not_chosen_and_the_event_says_so(
    spec: dict[str, Any], message: str
) -> None:
    cluster = Cluster()
    cluster.node("a", **spec)
    cluster.claim("c")
    cluster.pod("p", "c")
    cluster.planner().settle()
    [event] = cluster.events("NoPlacement")
    assert message in event.message
    cluster.node("b")
    cluster.planner().settle()
    assert cluster.devices("c") == ["b/gpu-0"]


def test_node_selector_and_tolerations_of_the_pod_are_respected() -> None:
    cluster = Cluster()
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    cluster.node("a", taints=[taint])
    cluster.node("b")
    cluster.api.patch_merge(Node, "", "a", {"metadata": {"labels": {"zone": "z"}}})
    cluster.claim("c")
    tolerations = [{"key": "k", "operator": "Exists"}]
    cluster.pod("p", "c", nodeSelector={"zone": "z"}, tolerations=tolerations)
    cluster.planner().settle()
    assert cluster.devices("c") == ["a/gpu-0"]


# --- allocations that went bad -----------------------------------------------------------------------------


def allocated_but_gated(*nodes: str) -> Cluster:
    """A planner died after it allocated and before it ungated."""
    cluster = Cluster()
    for node in nodes:
        cluster.node(node)
    cluster.claim("c", 2)
    cluster.pod("p", "c")
    planner = cluster.planner()
    planner.view.load(cluster.api)
    planner.round()
    assert cluster.devices("c") == ["a/gpu-0", "a/gpu-1"]
    return cluster


def test_a_node_deleted_before_ungating_is_planned_around() -> None:
    cluster = allocated_but_gated("a", "b")
    cluster.api.delete(Node, "", "a")
    cluster.api.delete(ResourceSlice, "", "slice-a")
    settle(cluster)
    assert cluster.devices("c") == ["b/gpu-0", "b/gpu-1"]


def test_a_node_deleted_after_ungating_and_before_binding_is_planned_around() -> None:
    cluster = allocated_but_gated("a", "b")
    cluster.planner().settle()
    cluster.api.delete(Node, "", "a")
    cluster.api.delete(ResourceSlice, "", "slice-a")
    settle(cluster)
    assert cluster.get_pod("p").spec.node_name == "b"


def test_slices_republished_without_the_device_before_ungating_are_planned_around() -> None:
    cluster = allocated_but_gated("a", "b")
    cluster.publish("a", 1, generation=2)
    settle(cluster)
    assert cluster.devices("c") == ["b/gpu-0", "b/gpu-1"]


def test_slices_republished_with_the_device_change_nothing() -> None:
    cluster = allocated_but_gated("a", "b")
    cluster.publish("a", 8, generation=2)
    settle(cluster)
    assert cluster.devices("c") == ["a/gpu-0", "a/gpu-1"]


def test_a_taint_that_comes_before_ungating_is_planned_around() -> None:
    cluster = allocated_but_gated("a", "b")
    cluster.publish("a", 4, taint={"key": "k", "effect": "NoExecute"})
    settle(cluster)
    assert cluster.devices("c") == ["b/gpu-0", "b/gpu-1"]


def test_a_pod_deleted_before_ungating_leaves_nothing_behind() -> None:
    cluster = allocated_but_gated("a")
    cluster.api.delete(Pod, "default", "p")
    settle(cluster)
    claim = cluster.get_claim("c")
    assert claim.status.allocation is None
    assert claim.metadata.finalizers == ()


def test_a_half_written_pod_that_no_longer_fits_is_started_afresh_elsewhere() -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    cluster.node("b", 4)
    cluster.claim("c", 2)
    cluster.claim("d", 2)
    cluster.pod("p", "c", "d")
    api = cluster.fake.other()
    api.kill_before(3)  # c is written, d is not
    with pytest.raises(Killed):
        cluster.planner(api).settle()
    cluster.publish("a", 3, generation=2)
    settle(cluster)
    assert cluster.devices("c") + cluster.devices("d") == ["b/gpu-0", "b/gpu-1", "b/gpu-2", "b/gpu-3"]


# --- one device, two claims --------------------------------------------------------------------------------


def test_baro_yields_to_a_claim_that_somebody_else_allocated() -> None:
    cluster = allocated_but_gated("a")
    cluster.claim("theirs")
    pod = cluster.pod("other", "theirs", gated=False, nodeName="a")
    other_writer_allocates(cluster, "theirs", "a/gpu-1")
    consumer = {"resource": "pods", "name": "other", "uid": pod.metadata.uid}
    body = {"status": {"reservedFor": [consumer]}}
    cluster.api.patch_merge(ResourceClaim, "default", "theirs", body, "status")
    settle(cluster)
    assert cluster.devices("theirs") == ["a/gpu-1"]
    assert cluster.devices("c") == ["a/gpu-0", "a/gpu-2"]


def test_of_two_planners_that_chose_the_same_device_at_once_the_later_yields() -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    for name in ("1", "2"):
        cluster.claim(f"c{name}", 2)
        cluster.pod(f"p{name}", f"c{name}")
    first, second = cluster.planner(), cluster.planner()
    only_first, only_second = hide(cluster, "p2"), hide(cluster, "p1")
    first.view.load(only_first)
    second.view.load(only_second)
    first.round()
    second.round()
    assert cluster.devices("c1") == cluster.devices("c2")
    for _ in range(2):  # the devices are tainted, then the claim yields
        second.view.load(cluster.api)
        second.round()
    assert (bool(cluster.devices("c1")), bool(cluster.devices("c2"))) == (True, False)
    settle(cluster)
    assert cluster.devices("c1") == ["a/gpu-0", "a/gpu-1"]
    assert cluster.devices("c2") == ["a/gpu-2", "a/gpu-3"]


def test_two_planners_that_place_ungated_pods_again_at_once_never_give_one_device_to_both() -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    for name in ("1", "2"):
        cluster.claim(f"c{name}", 2)
        cluster.pod(f"p{name}", f"c{name}")
    cluster.planner().settle()
    for name in ("1", "2"):
        cluster.post_filter(f"c{name}")
    planners = [cluster.planner(), cluster.planner()]
    for planner, not_mine in zip(planners, ("p2", "p1"), strict=True):
        uid = cluster.get_pod(not_mine).metadata.uid
        planner._skip = lambda now, uid=uid: frozenset({uid})  # type: ignore[method-assign,misc]
        planner.view.load(cluster.api)
    for planner in planners:
        planner.round()  # neither has heard of the other
        cluster.schedule()  # and kube-scheduler binds whatever is allocated
    for planner in planners:
        planner.view.load(cluster.api)
        planner.round()
        cluster.schedule()
    settle(cluster)
    assert sorted(cluster.devices("c1") + cluster.devices("c2")) == [f"a/gpu-{i}" for i in range(4)]
    assert all(cluster.get_pod(pod).spec.node_name == "a" for pod in ("p1", "p2"))


def test_a_placement_that_was_only_announced_is_carried_out_by_the_next_planner() -> None:
    cluster = allocation_cleared()
    api = cluster.fake.other()
    api.kill_before(2)  # announced, not written
    with pytest.raises(Killed):
        cluster.planner(api).settle()
    claim = cluster.get_claim("c")
    assert "baro.dev/intended-allocation" in claim.metadata.annotations
    assert claim.status.allocation is None
    settle(cluster)
    assert cluster.get_pod("p").spec.node_name == "a"


def test_an_announcement_of_a_pod_that_went_away_holds_nothing() -> None:
    cluster = allocation_cleared()
    api = cluster.fake.other()
    api.kill_before(2)
    with pytest.raises(Killed):
        cluster.planner(api).settle()
    cluster.api.delete(Pod, "default", "p")
    cluster.claim("d", 4)
    cluster.pod("q", "d")
    settle(cluster)
    assert len(cluster.devices("d")) == 4
    assert cluster.get_claim("c").metadata.annotations == {}


def test_an_annotation_that_is_no_announcement_is_ignored() -> None:
    cluster = one_pod()
    meta = {
        "annotations": {"baro.dev/intended-allocation": "{"},
        "finalizers": ["resource.kubernetes.io/delete-protection"],
    }
    cluster.api.patch_merge(ResourceClaim, "default", "c", {"metadata": meta})
    settle(cluster)
    assert cluster.get_pod("p").spec.node_name == "a"


def test_devices_that_two_running_pods_hold_are_reported_on_both_once() -> None:
    cluster = Cluster()
    cluster.node("a", 2)
    for name in ("1", "2"):
        cluster.claim(f"c{name}", 2)
        pod = cluster.pod(f"p{name}", f"c{name}", gated=False, nodeName="a")
        other_writer_allocates(cluster, f"c{name}", "a/gpu-0", "a/gpu-1")
        consumer = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
        body = {"status": {"reservedFor": [consumer]}}
        cluster.api.patch_merge(ResourceClaim, "default", f"c{name}", body, "status")
    planner = cluster.planner()
    for _ in range(5):
        planner.settle()
    events = cluster.events("DeviceHeldTwice")
    assert sorted((event.involved_object.name, event.count) for event in events) == [("p1", 1), ("p2", 1)]
    assert all("gpu-0" in event.message and "gpu-1" in event.message for event in events)


def hide(cluster: Cluster, pod: str) -> FakeApi:
    """The same objects, but without one pod: a planner whose watch has not told of it yet."""

    class Hiding(FakeApi):
        def list(self, kind, namespace="", **selectors):  # type: ignore[no-untyped-def]
            listed = super().list(kind, namespace, **selectors)
            kept = tuple(item for item in listed.items if item.metadata.name != pod)
            return type(listed)(kept, listed.resource_version)

    return Hiding(cluster.fake.store)


# --- orphans -----------------------------------------------------------------------------------------------


def test_an_orphan_is_collected_only_after_the_grace_period() -> None:
    cluster = one_pod()
    cluster.planner().settle()
    cluster.api.patch_merge(ResourceClaim, "default", "c", {"status": {"reservedFor": None}}, "status")
    cluster.api.delete(Pod, "default", "p")
    cluster.planner().settle()
    assert cluster.devices("c")
    cluster.clock.advance(120)
    cluster.planner().settle()
    claim = cluster.get_claim("c")
    assert (claim.status.allocation, claim.metadata.finalizers, claim.metadata.annotations) == (None, (), {})


def test_an_allocation_that_somebody_else_made_is_never_collected() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.claim("c")
    other_writer_allocates(cluster, "c", "a/gpu-0")
    cluster.clock.advance(10_000)
    cluster.planner().settle()
    assert cluster.devices("c") == ["a/gpu-0"]


def test_a_mark_from_an_earlier_allocation_makes_nothing_baros() -> None:
    cluster = orphan()
    cluster.post_filter("c")
    other_writer_allocates(cluster, "c", "a/gpu-3")
    cluster.clock.advance(10_000)
    cluster.planner().settle()
    assert cluster.devices("c") == ["a/gpu-3"]


# --- limits and failures -----------------------------------------------------------------------------------


def test_a_shared_claim_takes_no_more_than_256_consumers() -> None:
    cluster = one_pod()
    cluster.planner().settle()
    consumers = [{"resource": "pods", "name": f"x{i}", "uid": f"x{i}"} for i in range(256)]
    body = {"status": {"reservedFor": consumers}}
    cluster.api.patch_merge(ResourceClaim, "default", "c", body, "status")
    cluster.pod("q", "c")
    cluster.planner().settle()
    [event] = cluster.events("NoPlacement")
    assert "256 consumers" in event.message


def test_a_server_that_does_not_answer_stops_the_round_with_its_error() -> None:
    cluster = one_pod()
    api = cluster.fake.other()
    api.down = True
    with pytest.raises(UnreachableError):
        cluster.planner(api).settle()


def test_a_forbidden_write_stops_the_round_and_names_verb_and_resource() -> None:
    cluster = one_pod()
    api = cluster.fake.other()

    def before(write: Write) -> None:
        if write.subresource == "status":
            raise ForbiddenError("the server does not allow to patch resourceclaims/status")

    api.before = before
    with pytest.raises(ForbiddenError, match="patch resourceclaims/status"):
        cluster.planner(api).settle()
    settle(cluster)


def test_a_gate_that_the_server_refuses_to_take_off_is_tried_less_and_less_often_and_the_pod_is_told() -> (
    None
):
    cluster = one_pod()
    api = cluster.fake.other()
    tries: list[Write] = []

    def before(write: Write) -> None:
        if write.kind is Pod and write.subresource is None:
            tries.append(write)
            raise InvalidError("policy says no", code=422, reason="Invalid")

    api.before = before
    planner = cluster.planner(api)
    for _ in range(20):  # each look takes a second
        planner.view.load(api)
        planner.round()
    assert 4 <= len(tries) <= 6
    assert planner.next_try_s()
    assert "policy says no" in cluster.events("PlacementRefused")[0].message
    api.before = None
    cluster.clock.advance(60)
    planner.view.load(api)
    planner.round()
    assert not cluster.get_pod("p").spec.scheduling_gates


def test_a_placement_that_is_taken_away_each_time_is_tried_less_and_less_often() -> None:
    cluster = one_pod()
    planner = cluster.planner()
    placed = 0
    for _ in range(30):
        planner.settle()
        if cluster.devices("c"):
            placed += 1
            cluster.post_filter("c")
    assert 2 <= placed < 10
    wait = planner.next_try_s()
    assert wait is None or wait <= 60
