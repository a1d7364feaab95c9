"""Who may still come to a node: told of changes, ``Rooms`` answers as one would that looks at everything."""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from baro.controller import pods
from baro.controller.rooms import MOST_KINDS, Rooms
from baro.controller.view import View
from baro.model.kinds.base import Condition, ObjectMeta
from baro.model.kinds.core import (
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    ResourceRequirements,
    Taint,
    Toleration,
)
from baro.model.kinds.resource import ResourceClaim
from tests.support.controller import Cluster

NODES = ("a", "b", "c")


def node(name: str, *, cpu: int = 4, zone: str = "x", tainted: bool = False, ready: bool = True) -> Node:
    status = NodeStatus(allocatable={"cpu": str(cpu), "pods": "10"})
    meta = ObjectMeta(name=name, labels={"zone": zone})
    taints = (Taint(key="t", effect="NoSchedule"),) if tainted else ()
    made = Node(metadata=meta, spec=NodeSpec(taints=taints), status=status)
    not_ready = (Condition(type="Ready", status="False"),)
    return (
        made
        if ready
        else msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, conditions=not_ready))
    )


def pod(name: str, cpu: str = "1", *, zone: str = "", tolerates: bool = False) -> Pod:
    spec = PodSpec(
        containers=(Container(name="c", resources=ResourceRequirements(requests={"cpu": cpu})),),
        node_selector={"zone": zone} if zone else {},
        tolerations=(Toleration(operator="Exists"),) if tolerates else (),
    )
    return Pod(metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"), spec=spec)


def names(rooms: Rooms, asked: Pod, there: tuple[str, ...] = ("a",)) -> list[str]:
    openings = rooms.openings(asked, pods.requests(asked))
    found = [n for n in there if n not in openings.without] if openings.nodes is None else openings.nodes
    return list(found)


class Comings(RuleBasedStateMachine):
    """Nodes and pods come, change and go; the model is a dictionary that is looked at as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.rooms = Rooms()
        self.nodes: dict[str, tuple[int, str, bool, bool]] = {}
        self.runs: dict[str, tuple[str, int]] = {}

    @rule(
        name=st.sampled_from(NODES),
        cpu=st.integers(1, 4),
        zone=st.sampled_from("xy"),
        tainted=st.booleans(),
        ready=st.booleans(),
    )
    def node_is(self, name: str, cpu: int, zone: str, tainted: bool, ready: bool) -> None:
        self.nodes[name] = (cpu, zone, tainted, ready)
        self.rooms.set_node(node(name, cpu=cpu, zone=zone, tainted=tainted, ready=ready))

    @rule(name=st.sampled_from(NODES))
    def node_goes(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.rooms.remove_node(name)

    @rule(uid=st.sampled_from("pqrs"), where=st.sampled_from(("", *NODES)), cpu=st.integers(1, 3))
    def pod_runs(self, uid: str, where: str, cpu: int) -> None:
        if where:
            self.runs[uid] = (where, cpu)
        else:
            self.runs.pop(uid, None)
        self.rooms.count(uid, where or None, {"cpu": cpu * 10**9, "pods": 10**9} if where else {})

    @rule(cpu=st.integers(1, 4), zone=st.sampled_from(("", "x", "y")), tolerates=st.booleans())
    def somebody_asks(self, cpu: int, zone: str, tolerates: bool) -> None:
        self.compare(cpu, zone, tolerates)

    @invariant()
    def a_kind_that_is_asked_about_all_the_time(self) -> None:
        self.compare(2, "x", False)

    def compare(self, cpu: int, zone: str, tolerates: bool) -> None:
        asked = pod("new", str(cpu), zone=zone, tolerates=tolerates)
        expected = [
            name
            for name, (size, where, tainted, ready) in sorted(self.nodes.items())
            if ready
            and zone in ("", where)
            and (tolerates or not tainted)
            and size - sum(used for at, used in self.runs.values() if at == name) >= cpu
        ]
        openings = self.rooms.openings(asked, pods.requests(asked))
        assert openings.nodes is None
        assert sorted(set(self.nodes) - set(openings.without)) == expected
        assert openings.count == len(expected)
        assert sum(openings.left_out.values()) == len(self.nodes) - len(expected)


Comings.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestComings = Comings.TestCase


def test_a_change_is_judged_once_and_nodes_that_stayed_are_not_looked_at_again() -> None:
    rooms = Rooms()
    for name in NODES:
        rooms.set_node(node(name))
    looked: list[str] = []
    against = rooms._against

    def noted(pod: Pod, node: Node, asked: pods.Amounts) -> str | None:
        looked.append(node.metadata.name)
        return against(pod, node, asked)

    rooms._against = noted  # type: ignore[method-assign]
    names(rooms, pod("p"))
    assert sorted(looked) == ["a", "b", "c"]
    looked.clear()
    names(rooms, pod("another, of the same needs"))
    assert not looked
    rooms.count("uid-p", "b", pods.requests(pod("p")))
    names(rooms, pod("third"))
    assert looked == ["b"]


def test_a_pod_does_not_stand_in_its_own_way() -> None:
    rooms = Rooms()
    rooms.set_node(node("a", cpu=1))
    big = pod("p", "1")
    rooms.count("uid-p", "a", pods.requests(big))
    assert names(rooms, big) == ["a"]
    assert names(rooms, pod("q", "1")) == []


def test_more_kinds_of_pods_than_are_remembered_are_all_answered() -> None:
    rooms = Rooms()
    rooms.set_node(node("a", cpu=4))
    for milli in (*range(1, MOST_KINDS + 20), 1, 2, 4001):
        assert names(rooms, pod("p", f"{milli}m")) == (["a"] if milli <= 4000 else [])
    assert len(rooms._kinds) == MOST_KINDS


def test_a_view_counts_a_pod_where_its_allocation_sends_it_and_no_longer_when_it_is_gone() -> None:
    made = Cluster()
    made.node("a", 4, allocatable={"cpu": "1"})
    made.claim("c", 1)
    made.pod("p", "c", cpu="1")
    made.planner().settle()
    view = View()
    view.load(made.api)
    other = made.pod("q", cpu="1")
    assert view.openings(other).count == 0
    view.deleted(made.get_pod("p"))
    assert view.openings(other).count == 1
    view.observed(made.get_pod("p"))
    assert view.openings(other).count == 0
    made.post_filter("c")
    view.observed(made.get_claim("c"))
    assert view.openings(other).count == 1
    assert view.names(view.openings(other)) == ("a",)


def test_a_deleted_claim_no_longer_sends_its_pod_anywhere() -> None:
    made = Cluster()
    made.node("a", 4, allocatable={"cpu": "1"})
    made.claim("c", 1)
    made.pod("p", "c", cpu="1")
    made.planner().settle()
    view = View()
    view.load(made.api)
    view.swap(ResourceClaim, [])
    assert view.openings(made.pod("q", cpu="1")).count == 1
