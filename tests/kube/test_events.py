"""Events: said once, counted after that, never in the way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from baro.kube.errors import NotFoundError
from baro.kube.events import EventRecorder
from baro.model.errors import ForbiddenError
from baro.model.kinds.core import Event, Pod
from tests.support.kube import FakeApi, Write


def recorder(api: FakeApi) -> EventRecorder:
    times = iter(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=i) for i in range(100))
    return EventRecorder(api, component="baro", utc=lambda: next(times))


def pod(api: FakeApi) -> Pod:
    return api.create(Pod, "default", {"metadata": {"name": "p"}})


def test_the_same_message_is_counted_also_by_another_process() -> None:
    api = FakeApi()
    about = pod(api)
    first = recorder(api)
    first.record(about, reason="NoPlacement", message="full", type_="Warning")
    first.record(about, reason="NoPlacement", message="full", type_="Warning")
    recorder(api).record(about, reason="NoPlacement", message="full", type_="Warning")
    [event] = api.list(Event).items
    assert (event.count, event.type, event.involved_object.uid) == (3, "Warning", about.metadata.uid)
    assert event.first_timestamp == "2026-01-01T00:00:00Z"


def test_another_warning_for_the_same_reason_takes_the_place_of_the_last_one() -> None:
    api = FakeApi()
    about = pod(api)
    for message in ("2 of 4 nodes are full", "3 of 4 nodes are full"):
        recorder(api).record(about, reason="NoPlacement", message=message, type_="Warning")
    [event] = api.list(Event).items
    assert (event.message, event.count) == ("3 of 4 nodes are full", 2)


def test_what_happened_twice_in_different_words_or_to_another_pod_is_another_event() -> None:
    api = FakeApi()
    about = pod(api)
    events = recorder(api)
    events.record(about, reason="A", message="1")
    events.record(about, reason="A", message="2")
    api.delete(Pod, "default", "p")
    events.record(pod(api), reason="A", message="1")
    assert len(api.list(Event).items) == 3


def test_a_long_message_is_cut_to_what_the_server_takes() -> None:
    api = FakeApi()
    recorder(api).record(pod(api), reason="A", message="x" * 5000)
    assert len(api.list(Event).items[0].message) == 1024


def test_a_namespace_that_goes_away_is_no_trouble_but_a_missing_right_is_said() -> None:
    api = FakeApi()
    about = pod(api)

    def gone(write: Write) -> None:
        raise NotFoundError("namespace not found", code=404)

    def forbidden(write: Write) -> None:
        raise ForbiddenError("the server does not allow to create events")

    api.before = gone
    recorder(api).record(about, reason="A", message="1")
    api.before = forbidden
    with pytest.raises(ForbiddenError):
        recorder(api).record(about, reason="A", message="1")
