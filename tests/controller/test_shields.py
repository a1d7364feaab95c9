"""kube-scheduler is kept off a device that two claims hold, before one of them gives it back."""

from __future__ import annotations

import pytest

from baro.controller.reconcile import LEFTOVER_S, Planner
from baro.controller.shields import TAINT
from baro.kube.errors import InvalidError, NotFoundError
from baro.model.errors import ForbiddenError
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import DeviceClass, DeviceTaintRule, ResourceClaim
from tests.support.controller import Cluster, first_free, judge, other_writer_allocates
from tests.support.kube import Killed, Write


def contested(cluster: Cluster, gpus: int = 1) -> None:
    """The gated pod p got devices of node a that somebody else gives to a running pod at the same time."""
    cluster.node("a", gpus)
    cluster.node("b", gpus)
    cluster.claim("ours", gpus)
    cluster.claim("theirs", gpus)
    cluster.pod("p", "ours")
    cluster.planner_killed_ahead_of_a_pod()
    other_writer_allocates(cluster, "theirs", *cluster.devices("ours"))
    pod = cluster.pod("q", "theirs", gated=False, nodeName="a")
    consumer = {"resource": "pods", "name": "q", "uid": pod.metadata.uid}
    cluster.api.patch_merge(
        ResourceClaim, "default", "theirs", {"status": {"reservedFor": [consumer]}}, "status"
    )


def rules(cluster: Cluster) -> list[str]:
    return sorted(
        f"{rule.spec.device_selector.pool}/{rule.spec.device_selector.device}"
        for rule in cluster.api.list(DeviceTaintRule).items
        if rule.spec.device_selector is not None and rule.spec.taint.key == TAINT
    )


def gone(cluster: Cluster, pod: str) -> None:
    cluster.api.delete(Pod, "default", pod)
    cluster.collect()


def test_the_devices_are_tainted_before_they_are_given_back() -> None:
    cluster = Cluster()
    contested(cluster, 2)
    api = cluster.fake.other()
    cluster.planner(api).settle()
    kinds = [write.kind for write in api.writes]
    assert kinds[:3] == [DeviceTaintRule, DeviceTaintRule, ResourceClaim]
    assert rules(cluster) == ["a/gpu-0", "a/gpu-1"]
    assert cluster.devices("theirs") == ["a/gpu-0", "a/gpu-1"]
    assert cluster.devices("ours") == ["b/gpu-0", "b/gpu-1"], "placed anew"
    cluster.schedule()
    judge(cluster)


def test_nothing_is_given_back_before_a_watch_has_shown_the_taint() -> None:
    cluster = Cluster()
    contested(cluster)
    planner = cluster.planner()
    planner.view.load(cluster.api)
    planner.round()
    planner.round()
    assert rules(cluster) == ["a/gpu-0"]
    assert cluster.devices("ours") == ["a/gpu-0"]
    planner.view.swap(DeviceTaintRule, cluster.api.list(DeviceTaintRule).items)
    planner.round()
    assert cluster.devices("ours") == []


def test_the_taint_stays_until_nobody_holds_the_device_and_a_moment_longer() -> None:
    cluster = Cluster()
    contested(cluster)
    planner = cluster.planner()
    planner.settle()
    planner.view.load(cluster.api)
    planner.round()
    assert rules(cluster) == ["a/gpu-0"]
    gone(cluster, "q")
    planner.view.load(cluster.api)
    planner.round()
    assert rules(cluster) == ["a/gpu-0"], "kube-scheduler may not have heard of it yet"
    wait_s = planner.next_try_s()
    assert wait_s is not None
    assert 0 < wait_s <= LEFTOVER_S
    cluster.clock.advance(LEFTOVER_S)
    planner.round()
    assert rules(cluster) == []
    cluster.claim("late")
    cluster.pod("r", "late")
    planner.settle()
    assert cluster.devices("late") == ["a/gpu-0"]


def test_a_device_is_tainted_also_when_the_other_claim_gave_it_back_before_baro_could() -> None:
    cluster = Cluster()
    contested(cluster)
    planner = cluster.planner()
    planner.view.load(cluster.api)
    gone(cluster, "q")
    planner.settle()
    assert cluster.devices("ours") == ["a/gpu-0"]
    assert not cluster.get_pod("p").spec.scheduling_gates
    assert rules(cluster) == ["a/gpu-0"], "kube-scheduler counts it as free"
    cluster.schedule()
    gone(cluster, "p")
    planner.settle()
    assert rules(cluster) == []


def test_a_rule_that_was_removed_does_not_come_back_by_a_watch_that_is_behind() -> None:
    cluster = Cluster()
    contested(cluster)
    planner = cluster.planner()
    planner.settle()
    (rule,) = cluster.api.list(DeviceTaintRule).items
    gone(cluster, "q")
    planner.settle()
    assert rules(cluster) == []
    planner.view.observed(rule)  # as somebody changed it before it was removed
    assert not planner.view.all(DeviceTaintRule)
    planner.view.deleted(rule)
    assert not planner.view.all(DeviceTaintRule)


def test_a_planner_that_has_just_started_removes_what_another_left() -> None:
    cluster = Cluster()
    contested(cluster)
    cluster.planner().settle()
    gone(cluster, "q")
    cluster.planner().settle()
    assert rules(cluster) == []


def test_rules_of_others_are_left_alone() -> None:
    cluster = Cluster()
    cluster.node("a", 1)
    selector = {"driver": "gpu.baro.dev", "pool": "a", "device": "gpu-0"}
    for name, key in (("broken", "example.com/broken"), ("lookalike", TAINT)):
        taint = {"key": key, "effect": "NoSchedule"}
        body = {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}
        cluster.api.create(DeviceTaintRule, "", body)
    cluster.planner().settle()
    assert len(cluster.api.list(DeviceTaintRule).items) == 2


def test_the_claim_that_keeps_the_device_does_not_lose_it_to_the_taint() -> None:
    cluster = Cluster()
    cluster.node("a", 2)
    for name in ("1", "2"):
        cluster.claim(f"c{name}", 2)
        cluster.pod(f"p{name}", f"c{name}")
    planners = [cluster.planner(), cluster.planner()]
    for planner in planners:
        planner.view.load(cluster.api)
    for planner in planners:  # each has placed p1 alone in the end
        planner.round()
    cluster.planner().settle()
    assert sorted(map(len, (cluster.devices("c1"), cluster.devices("c2")))) == [0, 2]
    cluster.schedule()
    judge(cluster)


def test_where_kube_scheduler_can_allocate_nothing_no_taint_is_needed() -> None:
    cluster = Cluster()
    selectors = [{"cel": {"expression": "false"}}]
    cluster.api.patch_merge(DeviceClass, "", "gpu", {"spec": {"selectors": selectors}})
    contested(cluster)
    cluster.planner().settle()
    assert rules(cluster) == []
    assert cluster.devices("ours") == ["b/gpu-0"]


def test_two_running_pods_with_one_device_are_told_so_and_nobody_else_gets_it() -> None:
    cluster = Cluster()
    contested(cluster)
    cluster.api.patch_merge(Pod, "default", "p", {"spec": {"schedulingGates": None}})
    cluster.schedule()
    planner = cluster.planner()
    planner.settle()
    assert {event.involved_object.name for event in cluster.events("DeviceHeldTwice")} == {"p", "q"}
    assert all("delete one of the pods" in event.message for event in cluster.events("DeviceHeldTwice"))
    assert rules(cluster) == ["a/gpu-0"]
    gone(cluster, "q")  # for kube-scheduler the device is free now
    planner.settle()
    assert rules(cluster) == ["a/gpu-0"]
    gone(cluster, "p")
    planner.settle()
    assert rules(cluster) == []


@pytest.mark.parametrize(
    "error",
    [
        ForbiddenError("you may not"),
        NotFoundError("no such kind", code=404),
        InvalidError("a webhook says no", code=422),
    ],
)
def test_without_right_or_kind_the_claim_yields_all_the_same_and_that_is_said_once(error: Exception) -> None:
    cluster = Cluster()
    contested(cluster, 2)

    api = cluster.fake.other()

    def before(write: Write) -> None:
        if write.kind is DeviceTaintRule:
            raise error

    api.before = before
    lines: list[str] = []
    planner = Planner(api, first_free, utc=cluster.clock, log=lines.append)
    planner.settle()
    assert cluster.devices("ours") == ["b/gpu-0", "b/gpu-1"]
    (said,) = [line for line in lines if "not kept off" in line]
    assert str(error) in said


def test_without_the_right_to_remove_it_the_taint_stays_and_that_is_said_once() -> None:
    cluster = Cluster()
    contested(cluster)
    cluster.planner().settle()
    gone(cluster, "q")
    api = cluster.fake.other()

    def before(write: Write) -> None:
        if write.verb == "delete":
            raise ForbiddenError("you may not delete devicetaintrules")

    api.before = before
    lines: list[str] = []
    planner = Planner(api, first_free, utc=cluster.clock, log=lines.append)
    for _ in range(3):
        planner.settle()
    assert rules(cluster) == ["a/gpu-0"]
    assert len([line for line in lines if "you may not delete" in line]) == 1


@pytest.mark.parametrize("number", range(1, 10))
def test_killed_ahead_of_any_write_the_next_planner_finishes(number: int) -> None:
    cluster = Cluster()
    contested(cluster, 2)
    api = cluster.fake.other()
    api.kill_before(number)
    with pytest.raises(Killed):
        cluster.planner(api).settle()
        raise Killed("it was through before")
    cluster.planner().settle()
    assert rules(cluster) == ["a/gpu-0", "a/gpu-1"]
    assert cluster.devices("ours") == ["b/gpu-0", "b/gpu-1"]
    cluster.schedule()
    judge(cluster)
