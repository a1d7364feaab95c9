"""Gangs in the planner: all members get devices or none, and no gate comes off before."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from baro.model.names import GANG_LABEL, GANG_SIZE_ANNOTATION
from tests.support.controller import Cluster, judge, other_writer_allocates
from tests.support.kube import Killed, Write


def member(
    cluster: Cluster, name: str, *claims: str, gang: str = "g", size: int | str = 2, **spec: Any
) -> Pod:
    cluster.pod(name, *claims, **spec)
    meta = {"labels": {GANG_LABEL: gang}, "annotations": {GANG_SIZE_ANNOTATION: str(size)}}
    return cluster.api.patch_merge(Pod, "default", name, {"metadata": meta})


def two_of_four(nodes: int = 2) -> Cluster:
    """A gang of two pods with four GPUs each."""
    cluster = Cluster()
    for index in range(nodes):
        cluster.node("ab"[index])
    for name in ("p", "q"):
        cluster.claim(f"c-{name}", 4)
        member(cluster, name, f"c-{name}")
    return cluster


def gates(cluster: Cluster) -> list[bool]:
    return [bool(pod.spec.scheduling_gates) for pod in cluster.api.list(Pod).items]


def test_all_members_get_devices_on_nodes_of_their_own_and_lose_their_gates() -> None:
    cluster = two_of_four()
    cluster.planner().settle()
    assert {cluster.devices("c-p")[0][0], cluster.devices("c-q")[0][0]} == {"a", "b"}
    assert gates(cluster) == [False, False]
    cluster.schedule()
    judge(cluster)


def test_a_gang_that_does_not_fit_holds_nothing_and_is_told_why() -> None:
    cluster = two_of_four(nodes=1)
    cluster.planner().settle()
    assert not cluster.devices("c-p") and not cluster.devices("c-q")
    assert gates(cluster) == [True, True]
    assert "1 of 2 pods fit at the same time" in cluster.events("NoPlacement")[0].message
    cluster.node("b")
    cluster.clock.advance(60)
    cluster.planner().settle()
    assert gates(cluster) == [False, False]


def test_nothing_happens_before_there_are_enough_members() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.node("b")
    cluster.claim("c-p", 4)
    member(cluster, "p", "c-p")
    cluster.planner().settle()
    assert not cluster.devices("c-p")
    assert "needs 2 pods, there are 1" in cluster.events("WaitingForGang")[0].message
    cluster.claim("c-q", 4)
    member(cluster, "q", "c-q")
    cluster.planner().settle()
    assert gates(cluster) == [False, False]


@pytest.mark.parametrize("size", ["two", "", "0"])
def test_a_gang_must_say_how_many_it_needs(size: str) -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.claim("c", 1)
    member(cluster, "p", "c", size=size)
    cluster.planner().settle()
    assert not cluster.devices("c")
    assert GANG_SIZE_ANNOTATION in cluster.events("WaitingForGang")[0].message


def test_room_for_the_pods_counts() -> None:
    cluster = Cluster()
    cluster.node("a", 8)
    cluster.node("b", 8, allocatable={"cpu": "3", "memory": "8Gi", "pods": "10"})
    for name in ("p", "q", "r", "s"):
        cluster.claim(f"c-{name}", 1)
        member(cluster, name, f"c-{name}", size=4, cpu="3")
    cluster.planner().settle()
    nodes = sorted(
        cluster.devices(f"c-{name}")[0][0] for name in ("p", "q", "r", "s") if cluster.devices(f"c-{name}")
    )
    assert nodes == []  # two fit on a, one on b
    cluster.node("c", 8)
    cluster.clock.advance(60)
    cluster.planner().settle()
    assert gates(cluster) == [False] * 4


@pytest.mark.parametrize("name", ["c-p", "c-q"])
def test_an_overtaken_write_ends_with_all_or_none(name: str) -> None:
    cluster = two_of_four()
    cluster.claim("x", 1)
    done: list[Write] = []

    def meddle(write: Write) -> None:
        if write.name == name and write.subresource == "status" and not done:
            done.append(write)
            other_writer_allocates(cluster, "x", "b/gpu-0")

    api = cluster.fake.other()
    api.before = meddle
    cluster.planner(api).settle()
    assert done
    for _ in range(3):
        cluster.clock.advance(60)
        cluster.planner().settle()
    assert not cluster.devices("c-p") and not cluster.devices("c-q")
    assert gates(cluster) == [True, True]
    cluster.api.patch_merge(ResourceClaim, "default", "x", {"status": {"allocation": None}}, "status")
    cluster.clock.advance(60)
    cluster.planner().settle()
    assert gates(cluster) == [False, False]


@pytest.mark.parametrize("number", range(1, 9))
def test_a_planner_that_is_killed_between_writes_is_finished_by_the_next(number: int) -> None:
    cluster = two_of_four()
    api = cluster.fake.other()
    api.kill_before(number)
    with suppress(Killed):
        cluster.planner(api).settle()
    halves = [bool(cluster.devices(f"c-{name}")) for name in ("p", "q")]
    assert all(halves) or gates(cluster) == [True, True]  # nobody starts before all can
    cluster.planner().settle()
    assert gates(cluster) == [False, False]
    cluster.schedule()
    judge(cluster)


def test_a_member_that_goes_before_the_gates_are_off_frees_the_others() -> None:
    cluster = two_of_four()
    planner = cluster.planner()
    planner.view.load(cluster.api)
    planner.round()
    assert cluster.devices("c-p") and cluster.devices("c-q")
    assert gates(cluster) == [True, True]
    cluster.api.delete(Pod, "default", "q")
    cluster.collect()
    cluster.clock.advance(60)
    cluster.planner().settle()
    assert not cluster.devices("c-p") and not cluster.devices("c-q")
    assert gates(cluster) == [True]


def test_more_members_than_needed_are_placed_as_far_as_they_fit() -> None:
    cluster = two_of_four()
    cluster.claim("c-r", 4)
    member(cluster, "r", "c-r")
    cluster.planner().settle()
    assert sorted(gates(cluster)) == [False, False, True]


def test_two_gangs_that_want_the_same_devices_do_not_keep_each_other_waiting() -> None:
    cluster = two_of_four()
    for name in ("x", "y"):
        cluster.claim(f"c-{name}", 4)
        member(cluster, name, f"c-{name}", gang="other")
    cluster.planner().settle()
    placed = sorted(pod.metadata.name for pod in cluster.api.list(Pod).items if not pod.spec.scheduling_gates)
    assert placed in (["p", "q"], ["x", "y"])
    assert sum(len(cluster.devices(f"c-{name}")) for name in ("p", "q", "x", "y")) == 8


def test_members_may_share_a_claim() -> None:
    cluster = Cluster()
    cluster.node("a", 8)
    cluster.claim("shared", 2)
    for name in ("p", "q"):
        cluster.claim(f"c-{name}", 3)
        member(cluster, name, f"c-{name}", "shared")
    cluster.planner().settle()
    assert gates(cluster) == [False, False]
    assert len(cluster.get_claim("shared").status.reserved_for) == 2
    cluster.schedule()
    judge(cluster)
