"""The node that a pod is nominated to: a hint for kube-scheduler that must never be wrong for long."""

from __future__ import annotations

import pytest

from baro.controller.reconcile import Planner
from baro.kube.errors import InvalidError
from baro.model.errors import ForbiddenError
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import ResourceClaim
from tests.support.controller import Cluster, first_free, judge
from tests.support.kube import Killed, Write


def nominating(write: Write) -> bool:
    return write.kind is Pod and write.subresource == "status"


def ungating(write: Write) -> bool:
    return write.kind is Pod and write.subresource is None


def one_pod() -> Cluster:
    cluster = Cluster()
    cluster.node("a", 2)
    cluster.claim("c", 2)
    cluster.pod("p", "c")
    return cluster


def nominated(cluster: Cluster, pod: str = "p") -> str:
    return cluster.get_pod(pod).status.nominated_node_name


def killed_before_ungating(cluster: Cluster) -> None:
    api = cluster.fake.other()

    def before(write: Write) -> None:
        if ungating(write):
            raise Killed("ahead of the ungating")

    api.before = before
    with pytest.raises(Killed):
        cluster.planner(api).settle()


def test_a_pod_is_nominated_to_its_node_before_its_gate_goes() -> None:
    cluster = one_pod()
    killed_before_ungating(cluster)
    assert nominated(cluster) == "a"
    assert cluster.get_pod("p").spec.scheduling_gates
    api = cluster.fake.other()
    cluster.planner(api).settle()
    assert not any(nominating(write) for write in api.writes), "once is enough"
    assert not cluster.get_pod("p").spec.scheduling_gates


def test_a_pod_that_is_placed_elsewhere_is_nominated_to_the_new_node() -> None:
    cluster = one_pod()
    killed_before_ungating(cluster)
    cluster.api.delete(Node, "", "a")
    cluster.node("b", 2)
    cluster.planner().settle()
    assert nominated(cluster) == "b"
    assert cluster.devices("c") == ["b/gpu-0", "b/gpu-1"]


def test_a_gated_pod_that_fits_nowhere_any_more_keeps_no_room() -> None:
    cluster = one_pod()
    killed_before_ungating(cluster)
    cluster.api.patch_merge(Node, "", "a", {"spec": {"unschedulable": True}})
    cluster.planner().settle()
    assert nominated(cluster) == ""
    assert cluster.get_pod("p").spec.scheduling_gates
    judge(cluster)


def test_placement_goes_on_without_the_right_to_nominate_and_says_so_once() -> None:
    cluster = one_pod()
    cluster.node("b", 2)
    cluster.claim("d", 2)
    cluster.pod("q", "d")
    api = cluster.fake.other()

    def before(write: Write) -> None:
        if nominating(write):
            raise ForbiddenError("you may not patch pods/status")

    api.before = before
    lines: list[str] = []
    Planner(api, first_free, utc=cluster.clock, log=lines.append).settle()
    assert not any(pod.spec.scheduling_gates for pod in cluster.api.list(Pod).items)
    (said,) = [line for line in lines if "nominating" in line]
    assert "you may not patch pods/status" in said


def test_a_nomination_that_the_server_refuses_is_told_in_its_words_and_keeps_no_pod_waiting() -> None:
    cluster = one_pod()
    api = cluster.fake.other()

    def before(write: Write) -> None:
        if nominating(write):
            raise InvalidError('Pod "p" is invalid: status.nominatedNodeName: Forbidden: not now', code=422)

    api.before = before
    lines: list[str] = []
    Planner(api, first_free, utc=cluster.clock, log=lines.append).settle()
    assert not cluster.get_pod("p").spec.scheduling_gates
    assert not nominated(cluster)
    (said,) = [line for line in lines if "nominating" in line]
    assert "Pod default/p" in said
    assert "status.nominatedNodeName: Forbidden: not now" in said
    assert not cluster.events("PlacementRefused")


def test_a_pod_that_changed_before_its_nomination_is_looked_at_again() -> None:
    cluster = one_pod()
    api = cluster.fake.other()
    changed: list[str] = []

    def before(write: Write) -> None:
        if nominating(write) and not changed:
            changed.append(write.name)
            cluster.api.patch_merge(Pod, "default", "p", {"metadata": {"labels": {"a": "b"}}})

    api.before = before
    lines: list[str] = []
    Planner(api, first_free, utc=cluster.clock, log=lines.append).settle()
    assert any("Ungate Pod default/p: overtaken" in line for line in lines)
    assert nominated(cluster) == "a"
    assert not cluster.get_pod("p").spec.scheduling_gates


def test_a_write_that_the_server_refuses_is_told_in_its_words_and_not_tried_again_at_once() -> None:
    cluster = one_pod()
    killed_before_ungating(cluster)
    cluster.api.delete(Node, "", "a")  # so the allocation is to be taken back
    api = cluster.fake.other()
    tries: list[Write] = []

    def before(write: Write) -> None:
        if write.kind is ResourceClaim:
            tries.append(write)
            raise InvalidError("status.allocation: Forbidden: a webhook says no", code=422)

    api.before = before
    lines: list[str] = []
    planner = Planner(api, first_free, utc=cluster.clock, log=lines.append)
    planner.view.load(cluster.api)
    assert not planner.round()
    assert not planner.round()
    assert len(tries) == 2
    assert len([line for line in lines if "a webhook says no" in line]) == 1


def test_a_pod_without_a_gate_is_never_nominated() -> None:
    cluster = one_pod()
    cluster.planner().settle()
    cluster.post_filter("c")
    cluster.api.patch_merge(Pod, "default", "p", {"status": {"nominatedNodeName": None}}, "status")
    api = cluster.fake.other()
    cluster.planner(api).settle()
    assert cluster.devices("c")
    assert not any(nominating(write) for write in api.writes), "kube-scheduler may be binding it just now"
