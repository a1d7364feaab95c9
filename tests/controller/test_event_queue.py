"""Events beside the work: in order, bounded, and never in the way."""

from __future__ import annotations

import threading

from baro.controller.event_queue import EventQueue
from baro.controller.reconcile import Planner
from baro.kube.events import EventRecorder
from baro.model.errors import ForbiddenError
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Event, Pod
from tests.support.controller import Cluster, first_free
from tests.support.kube import Write

DEADLINE_S = 20.0


class Inner:
    """Writes nothing; notes what it was given, once ``open`` is set."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()
        self.got: list[str] = []

    def record(self, about: KubeObject, *, reason: str, message: str, type_: str = "Normal") -> None:
        self.reached.set()
        assert self.open.wait(DEADLINE_S)
        if message == "forbidden":
            raise ForbiddenError("may not create events")
        self.got.append(message)


def test_events_are_written_in_order_and_all_of_them_before_the_end() -> None:
    inner, lines = Inner(), list[str]()
    events = EventQueue(inner, log=lines.append)
    for i in range(20):
        assert events.record(Pod(), reason="Placed", message=str(i))
    assert not inner.got
    inner.open.set()
    events.close()
    assert inner.got == [str(i) for i in range(20)]
    assert not lines
    events.close()  # twice is fine


def test_what_does_not_fit_is_dropped_at_once_and_counted() -> None:
    inner, lines = Inner(), list[str]()
    events = EventQueue(inner, log=lines.append, limit=2)
    assert events.record(Pod(), reason="Placed", message="under way")
    assert inner.reached.wait(DEADLINE_S)
    kept = [events.record(Pod(), reason="Placed", message=str(i)) for i in range(5)]
    assert kept == [True, True, False, False, False]
    inner.open.set()
    events.close()
    assert inner.got == ["under way", "0", "1"]
    assert lines == ["3 events not written"]


def test_an_error_is_said_once_and_the_others_go_on() -> None:
    inner, lines = Inner(), list[str]()
    inner.open.set()
    events = EventQueue(inner, log=lines.append)
    for message in ("a", "forbidden", "b", "forbidden", "c"):
        events.record(Pod(), reason="Placed", message=message)
    events.close()
    assert inner.got == ["a", "b", "c"]
    assert [line for line in lines if "may not create events" in line] == [
        "an event is not written: may not create events"
    ]


def test_a_server_that_hangs_does_not_keep_the_process_from_ending() -> None:
    inner, lines = Inner(), list[str]()
    events = EventQueue(inner, log=lines.append)
    for i in range(3):
        events.record(Pod(), reason="Placed", message=str(i))
    assert inner.reached.wait(DEADLINE_S)
    events.close(timeout_s=0.0)
    assert lines == ["2 events not written"]
    inner.open.set()


def test_several_threads_write_at_a_time_and_everything_before_the_end() -> None:
    meeting, got = threading.Barrier(3), list[str]()

    class Slow:
        def record(self, about: KubeObject, *, reason: str, message: str, type_: str = "Normal") -> None:
            meeting.wait(DEADLINE_S)  # broken when they do not overlap
            got.append(message)

    lines: list[str] = []
    events = EventQueue(Slow(), log=lines.append, threads=3)
    for i in range(9):
        events.record(Pod(), reason="Placed", message=str(i))
    events.close(timeout_s=DEADLINE_S)
    assert sorted(got) == [str(i) for i in range(9)]
    assert not lines


def test_a_planner_that_may_not_write_events_places_all_the_same() -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    cluster.claim("c", 2)
    cluster.pod("p", "c")
    cluster.claim("too-many", 5)
    cluster.pod("q", "too-many")
    api = cluster.fake.other()

    def before(write: Write) -> None:
        if write.kind is Event:
            raise ForbiddenError("you may not create events")

    api.before = before
    lines: list[str] = []
    events = EventQueue(EventRecorder(api, component="baro", utc=cluster.clock), log=lines.append)
    Planner(api, first_free, utc=cluster.clock, events=events).settle()
    events.close()
    assert not cluster.get_pod("p").spec.scheduling_gates
    assert "an event is not written: you may not create events" in lines


def test_a_dropped_explanation_is_given_again() -> None:
    cluster = Cluster()
    cluster.claim("c", 2)
    cluster.pod("p", "c")

    class Full:
        room = False

        def record(self, about: KubeObject, *, reason: str, message: str, type_: str = "Normal") -> bool:
            if self.room:
                said.append(message)
            return self.room

    said: list[str] = []
    full = Full()
    planner = Planner(cluster.fake.other(), first_free, utc=cluster.clock, events=full)
    planner.settle()
    full.room = True
    planner.retry_all()
    planner.settle()
    assert len(said) == 1
    planner.retry_all()
    planner.settle()
    assert len(said) == 1
