"""Several pods written at a time: the same end as one after the other, whatever fails in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from baro.controller.actions import Action, Explain
from baro.controller.effects import Done, Effects, Outcome
from baro.controller.reconcile import Planner
from baro.controller.writers import Writers
from baro.kube.events import EventRecorder
from baro.model.errors import ForbiddenError, UnreachableError
from baro.model.kinds.core import Event, Pod
from baro.model.kinds.resource import ResourceClaim
from tests.support.controller import Cluster, first_free, judge
from tests.support.kube import FakeApi, Killed, Write

DEADLINE_S = 20.0
AT_ONCE = 4


def many(pods: int = 8, gpus: int = 2) -> Cluster:
    cluster = Cluster()
    for name in ("a", "b", "c", "d"):
        cluster.node(name, 4)
    for i in range(pods):
        cluster.claim(f"c{i}", gpus)
        cluster.pod(f"p{i}", f"c{i}")
    return cluster


def planner(cluster: Cluster, api: FakeApi, writers: int = AT_ONCE) -> Planner:
    return Planner(api, first_free, utc=cluster.clock, writers=writers)


def finish(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.planner().settle()
        cluster.schedule()
        cluster.collect()
        cluster.clock.advance(120)
    judge(cluster)


class Meeting:
    """A hook that holds each write of a kind until so many are under way at the same time."""

    def __init__(self, parties: int, concerns: Callable[[Write], bool]) -> None:
        self._barrier = threading.Barrier(parties)
        self._concerns = concerns

    def __call__(self, write: Write) -> None:
        if self._concerns(write):
            self._barrier.wait(DEADLINE_S)  # broken when they do not overlap


def test_writes_for_different_pods_overlap() -> None:
    cluster = many()
    api = cluster.fake.other()
    api.before = Meeting(AT_ONCE, lambda write: write.kind is ResourceClaim)
    working = planner(cluster, api)
    working.view.load(cluster.api)
    working.round()
    assert all(cluster.devices(f"c{i}") for i in range(8))
    working.close()


def test_one_writer_writes_one_pod_after_the_other_in_the_order_of_the_queue() -> None:
    cluster = many()
    api = cluster.fake.other()
    working = planner(cluster, api, writers=1)
    working.view.load(cluster.api)
    working.round()
    names = [write.name for write in api.writes]
    assert names == [f"c{i}" for i in range(8) for _ in range(2)]


def test_the_log_is_in_the_order_of_the_queue_although_the_writes_are_not() -> None:
    cluster = many(4)
    api = cluster.fake.other()
    last_is_through = threading.Event()

    def first_waits(write: Write) -> None:
        if write.name == "c0":
            assert last_is_through.wait(DEADLINE_S)

    def after(write: Write) -> None:
        if write.name == "c3" and write.subresource == "status":
            last_is_through.set()

    api.before, api.after = first_waits, after
    lines: list[str] = []
    working = Planner(api, first_free, utc=cluster.clock, writers=AT_ONCE, log=lines.append)
    working.view.load(cluster.api)
    working.round()
    working.close()
    assert [line.partition(":")[0] for line in lines] == [f"Allocate Pod default/p{i}" for i in range(4)]


@pytest.mark.parametrize("number", range(1, 46, 3))
def test_killed_at_any_write_with_several_under_way_the_next_planner_finishes(number: int) -> None:
    cluster = many()
    api = cluster.fake.other()
    api.kill_before(number)
    working = planner(cluster, api)
    with pytest.raises(Killed):
        for _ in range(4):
            working.view.load(cluster.api)
            working.round(patient=False)
        raise Killed("it was through before")
    working.close()
    finish(cluster)
    held = {claim: len(cluster.devices(claim)) for claim in (f"c{i}" for i in range(8))}
    assert held == dict.fromkeys(held, 2)


@pytest.mark.parametrize("error", [ForbiddenError("no"), UnreachableError("gone")])
def test_an_error_in_one_writer_loses_nothing_that_the_others_wrote(error: Exception) -> None:
    cluster = many(AT_ONCE)
    api = cluster.fake.other()
    others = threading.Barrier(AT_ONCE)

    def before(write: Write) -> None:
        if write.subresource is None:
            others.wait(DEADLINE_S)  # all have begun
            if write.name == "c1":
                raise error

    api.before = before
    working = planner(cluster, api)
    working.view.load(cluster.api)
    with pytest.raises(type(error)):
        working.round()
    assert [bool(cluster.devices(f"c{i}")) for i in range(4)] == [True, False, True, True]
    # Remembered: the view is ahead of the watch, so nothing is planned for them until it has caught up.
    assert {key[1] for key in working.view.pending} == {"c0", "c2", "c3"}
    api.before = None
    working.round()
    assert cluster.devices("c1")
    assert {write.name for write in api.writes[-2:]} == {"c1"}
    working.close()
    finish(cluster)


def test_after_an_error_no_further_action_begins() -> None:
    cluster = many(8)
    api = cluster.fake.other()

    tries: list[Write] = []

    def before(write: Write) -> None:
        tries.append(write)
        raise UnreachableError("the API server at fake does not answer")

    api.before = before
    working = planner(cluster, api, writers=2)
    working.view.load(cluster.api)
    with pytest.raises(UnreachableError):
        working.round()
    assert len(tries) <= 2
    working.close()


def test_stop_lets_those_under_way_end_and_begins_no_other() -> None:
    cluster = many(8)
    api = cluster.fake.other()
    working = planner(cluster, api, writers=2)
    begun = threading.Barrier(2)

    def before(write: Write) -> None:
        if write.subresource is None:
            begun.wait(DEADLINE_S)
            working.stopping = True

    api.before = before
    working.view.load(cluster.api)
    working.round()
    assert sum(bool(cluster.devices(f"c{i}")) for i in range(8)) == 2
    working.close()
    finish(cluster)


def test_an_error_while_planning_is_raised_after_what_had_begun_is_remembered() -> None:
    cluster = many(2)
    api = cluster.fake.other()
    recorder = EventRecorder(api, component="baro", utc=cluster.clock)
    writers = Writers(Effects(api, recorder, utc=cluster.clock), 2)

    def broken() -> Iterator[Action]:
        yield Explain(cluster.get_pod("p0"), "NoPlacement", "full")
        raise RuntimeError("a bug")

    found: list[Done] = []
    with pytest.raises(RuntimeError, match="a bug"):
        for done in writers.carry_out(broken(), lambda: False):
            found.append(done)
    assert [done.outcome for done in found] in ([Outcome.DONE], [Outcome.NOT_BEGUN])
    writers.close()


@pytest.mark.parametrize("writers", [1, AT_ONCE])
def test_two_planners_at_once_with_several_writers_give_no_device_to_two(writers: int) -> None:
    cluster = many(10)
    apis = [cluster.fake.other(), cluster.fake.other()]
    both = [planner(cluster, api, writers) for api in apis]
    for each in both:
        each.view.load(cluster.api)
    threads = [threading.Thread(target=each.round, kwargs={"patient": False}) for each in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    for each in both:
        each.close()
    finish(cluster)
    held = [device for i in range(10) for device in cluster.devices(f"c{i}")]
    assert len(held) == len(set(held)) == 16
    assert sum(bool(pod.spec.node_name) for pod in cluster.api.list(Pod).items) == 8


def test_a_conflict_in_one_of_several_writers_concerns_its_pod_only() -> None:
    cluster = many(4)
    api = cluster.fake.other()
    api.conflict_on(3)
    working = planner(cluster, api)
    for _ in range(4):
        working.view.load(cluster.api)
        working.round(patient=False)
    assert all(not pod.spec.scheduling_gates for pod in cluster.api.list(Pod).items)
    assert len(cluster.events("Placed")) == 4
    assert len(cluster.api.list(Event).items) == 4
    working.close()
