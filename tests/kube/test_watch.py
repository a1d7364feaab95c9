"""The watch machine, step by step, and the watcher on a server that fails in every way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baro.kube.api import EventType, Listed, WatchEvent
from baro.kube.errors import BusyError, GoneError, NotFoundError
from baro.kube.watch import (
    BACKOFF_MAX_S,
    HEALTHY_S,
    Apply,
    Begin,
    Change,
    Command,
    Delete,
    DoList,
    DoRead,
    DoWait,
    DoWatch,
    Ended,
    Failed,
    Got,
    Init,
    InitApply,
    InitDone,
    Input,
    ListDone,
    Opened,
    State,
    Transition,
    Trouble,
    Waited,
    Watcher,
    step,
)
from baro.model.errors import BaroError, UnreachableError
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Node
from tests.support.kube import FakeApi

GONE = GoneError("too old", code=410, reason="Expired")


def node(name: str, version: str = "1") -> Node:
    return Node(metadata=ObjectMeta(name=name, resource_version=version))


def go(state: State, happened: Input[Node], now: float = 0.0, jitter: float = 0.0) -> Transition[Node]:
    return step(state, happened, now=now, jitter=jitter)


def test_it_begins_with_a_list() -> None:
    assert go(State(), Begin()).command == DoList()


def test_a_list_is_reported_between_init_and_init_done_and_watched_from_its_version() -> None:
    done = go(State(), ListDone(Listed((node("a"), node("b")), "7")))
    assert done.changes == (Init(), InitApply(node("a")), InitApply(node("b")), InitDone())
    assert done.command == DoWatch("7")


def test_changes_and_bookmarks_move_the_version_on() -> None:
    state = go(State("7"), Opened()).state
    done = go(state, Got(WatchEvent(EventType.MODIFIED, "8", node("a", "8"))))
    assert (done.changes, done.command, done.state.resource_version) == (
        (Apply(node("a", "8")),),
        DoRead(),
        "8",
    )
    done = go(done.state, Got(WatchEvent(EventType.BOOKMARK, "20")))
    assert (done.changes, done.state.resource_version) == ((), "20")
    done = go(done.state, Got(WatchEvent(EventType.DELETED, "21", node("a", "21"))))
    assert done.changes == (Delete(node("a", "21")),)


def test_a_watch_that_the_server_ended_in_good_time_goes_on_at_once() -> None:
    done = go(State("8", since=0.0), Ended(), now=HEALTHY_S)
    assert done.command == DoWatch("8")


def test_a_watch_that_ends_at_once_is_not_asked_in_a_tight_loop() -> None:
    done = go(State("8", since=0.0), Ended(), now=0.1)
    assert isinstance(done.command, DoWait)
    assert go(done.state, Waited()).command == DoWatch("8")


@pytest.mark.parametrize("happened", [Failed(GONE), Got(WatchEvent(EventType.ERROR, error=GONE))])
def test_an_expired_version_means_a_new_list_at_once(happened: Input[Node]) -> None:
    done = go(State("8", since=0.0), happened, now=60.0)
    assert done.command == DoList()
    assert done.changes == ()  # nothing to worry anybody with


def test_expired_again_and_again_backs_off() -> None:
    done = go(State("8", failures=1), Failed(GONE))
    assert isinstance(done.command, DoWait)
    assert go(done.state, Waited()).command == DoList()


def test_an_error_is_reported_and_the_watch_resumes_where_it_was() -> None:
    error = UnreachableError("down")
    done = go(State("8"), Failed(error))
    assert done.changes == (Trouble(error),)
    assert isinstance(done.command, DoWait)
    assert go(done.state, Waited()).command == DoWatch("8")


def test_a_resource_that_is_not_served_is_listed_anew_later() -> None:
    done = go(State("8"), Failed(NotFoundError("no", code=404)))
    assert go(done.state, Waited()).command == DoList()


def test_delays_grow_are_jittered_and_start_small_again_after_a_healthy_watch() -> None:
    error = Failed(UnreachableError("down"))
    state, delays = State("8"), []
    for _ in range(12):
        done = go(state, error, jitter=0.5)
        assert isinstance(done.command, DoWait)
        delays.append(done.command.seconds)
        state = done.state
    assert delays == sorted(delays)
    assert delays[-1] <= BACKOFF_MAX_S
    low, high = (go(State("8"), error, jitter=j).command for j in (0.0, 0.999))
    assert isinstance(low, DoWait) and isinstance(high, DoWait)
    assert low.seconds < high.seconds
    state = go(state, Opened(), now=100.0).state
    done = go(state, error, now=100.0 + HEALTHY_S, jitter=0.5)
    assert done.command == DoWait(delays[0])


def test_a_busy_server_is_given_the_time_it_asked_for() -> None:
    done = go(State("8"), Failed(BusyError("busy", retry_after=7.0)))
    assert done.command == DoWait(7.0)


INPUTS: st.SearchStrategy[Input[Node]] = st.one_of(
    st.just(Begin()),
    st.just(ListDone(Listed((node("a"),), "7"))),
    st.just(Opened()),
    st.just(Ended()),
    st.just(Waited()),
    st.sampled_from([Failed(GONE), Failed(UnreachableError("x")), Failed(NotFoundError("x", code=404))]),
    st.just(Got(WatchEvent(EventType.ADDED, "9", node("a", "9")))),
    st.just(Got(WatchEvent(EventType.ERROR, error=GONE))),
)


@given(st.lists(st.tuples(INPUTS, st.floats(0, 100), st.floats(0, 0.999)), max_size=30))
def test_whatever_happens_in_whatever_order_there_is_always_a_next_thing_and_a_bounded_delay(
    script: list[tuple[Input[Node], float, float]],
) -> None:
    state, now = State(), 0.0
    for happened, later, jitter in script:
        now += later
        done = go(state, happened, now, jitter)
        state = done.state
        command: Command = done.command
        if isinstance(command, DoWait):
            assert 0 < command.seconds <= BACKOFF_MAX_S
        if isinstance(command, DoWatch):
            assert command.resource_version
        opened = [isinstance(change, Init) for change in done.changes].count(True)
        assert opened == [isinstance(change, InitDone) for change in done.changes].count(True)


class Mirror:
    """A store that swaps at InitDone, as a user of the watcher would; stops the watcher when content."""

    def __init__(self, api: FakeApi) -> None:
        self.names: set[str] = set()
        self.fresh: set[str] = set()
        self.troubles: list[BaroError] = []
        self.changed = threading.Condition()
        self.watcher: Watcher[Node] = Watcher(api, Node, self.report, jitter=lambda: 0.0)

    def report(self, change: Change[Node]) -> None:
        with self.changed:
            match change:
                case Init():
                    self.fresh = set()
                case InitApply(object=obj):
                    self.fresh.add(obj.metadata.name)
                case InitDone():
                    self.names = self.fresh
                case Apply(object=obj):
                    self.names.add(obj.metadata.name)
                case Delete(object=obj):
                    self.names.discard(obj.metadata.name)
                case Trouble(error=error):
                    self.troubles.append(error)
            self.changed.notify_all()

    def until(self, names: set[str]) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.names == names, timeout=20), self.names


class Scripted(FakeApi):
    """Fails each call of list or watch as the script says before it serves."""

    def __init__(self, script: list[BaroError | None]) -> None:
        super().__init__()
        self.script = script

    def _maybe_fail(self) -> None:
        error = self.script.pop(0) if self.script else None
        if error is not None:
            raise error

    def list(self, *args: Any, **kwargs: Any) -> Any:
        self._maybe_fail()
        return super().list(*args, **kwargs)

    def watch(self, *args: Any, **kwargs: Any) -> Any:
        self._maybe_fail()
        return super().watch(*args, **kwargs)


def running(mirror: Mirror) -> Iterator[None]:
    thread = threading.Thread(target=mirror.watcher.run, daemon=True)
    thread.start()
    yield
    mirror.watcher.stop()
    thread.join(timeout=20)
    assert not thread.is_alive()


def test_the_watcher_follows_a_server_through_faults_and_stops_in_the_middle_of_a_read() -> None:
    down = UnreachableError("down")
    api = Scripted([down, None, GONE, None, down, None])
    api.create(Node, "", {"metadata": {"name": "a"}})
    mirror = Mirror(api)
    for _ in running(mirror):
        mirror.until({"a"})
        api.create(Node, "", {"metadata": {"name": "b"}})
        mirror.until({"a", "b"})
        api.delete(Node, "", "a")
        mirror.until({"b"})
    assert mirror.troubles == [down, down]


def test_an_object_deleted_while_the_watcher_was_away_is_gone_after_the_new_list() -> None:
    api = FakeApi()
    for name in ("a", "b"):
        api.create(Node, "", {"metadata": {"name": name}})
    state = go(State(), ListDone(api.list(Node))).state
    api.delete(Node, "", "a")
    api.store.compact()
    with pytest.raises(GoneError) as gone:
        api.watch(Node, resource_version=state.resource_version)
    done = go(state, Failed(gone.value), now=1.0)
    assert done.command == DoList()
    again = go(done.state, ListDone(api.list(Node)))
    assert [type(change) for change in again.changes] == [Init, InitApply, InitDone]
