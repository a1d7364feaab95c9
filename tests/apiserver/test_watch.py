"""Watches: nothing missed, nothing twice, and an end that the client understands."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from baro.apiserver import create_app, run_in_thread
from baro.apiserver.serve import RunningServer
from baro.apiserver.storage import MemoryStore
from baro.apiserver.watching import WatchState
from tests.support import apiserver as support
from tests.support.apiserver import MAPS, PODS, Api

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
def api() -> Api:
    return Api()


def brief(frames: Iterator[dict[str, Any]]) -> list[tuple[str, str]]:
    """(type, name) of each frame; bookmarks show their annotations or revision instead of a name."""
    found = []
    for frame in frames:
        metadata = frame["object"].get("metadata", {})
        found.append(
            (frame["type"], metadata.get("name") or json.dumps(metadata.get("annotations", "bookmark")))
        )
    return found


def state(api: Api, url: str, accept: str = "") -> WatchState:
    return api.watch(url, accept).state


def test_a_watch_from_a_list_continues_it_without_a_gap(api: Api) -> None:
    api.made(MAPS, support.config_map("a"))
    revision = api.get(MAPS).body["metadata"]["resourceVersion"]
    api.made(MAPS, support.config_map("b"))
    watch = state(api, f"{MAPS}?watch=true&resourceVersion={revision}")
    assert brief(watch.start()) == []
    assert brief(watch.step()) == [("ADDED", "b")]
    api.patch(f"{MAPS}/a", {"data": {"x": "y"}})
    api.delete(f"{MAPS}/b")
    assert brief(watch.step()) == [("MODIFIED", "a"), ("DELETED", "b")]
    assert brief(watch.step()) == []


def test_a_watch_without_a_revision_starts_with_the_present(api: Api) -> None:
    api.made(MAPS, support.config_map("a"))
    for query in ("watch=1", "watch=1&resourceVersion=0"):
        watch = state(api, f"{MAPS}?{query}")
        assert brief(watch.start()) == [("ADDED", "a")]
        assert brief(watch.step()) == []


def test_initial_events_end_with_an_annotated_bookmark(api: Api) -> None:
    api.made(MAPS, support.config_map("a"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    watch = state(api, f"{MAPS}?{query}")
    frames = list(watch.start())
    assert brief(iter(frames)) == [("ADDED", "a"), ("BOOKMARK", '{"k8s.io/initial-events-end": "true"}')]
    assert frames[1]["object"]["kind"] == "ConfigMap"
    assert int(frames[1]["object"]["metadata"]["resourceVersion"]) == api.registry.store.revision
    without = state(api, f"{MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
    assert brief(without.start()) == []


@pytest.mark.parametrize(
    "query",
    [
        "watch=1&sendInitialEvents=true",
        "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
        "watch=1&resourceVersionMatch=NotOlderThan",
        "watch=1&resourceVersion=x",
    ],
)
def test_watch_parameters_that_exclude_each_other_are_422(api: Api, query: str) -> None:
    assert api.get(f"{MAPS}?{query}").code == 422


def test_a_watch_from_the_future_is_told_to_wait(api: Api) -> None:
    assert api.get(f"{MAPS}?watch=1&resourceVersion=999").code == 504


def test_a_watch_that_starts_too_far_back_ends_with_410() -> None:
    api = Api(MemoryStore(log_length=4))
    for number in range(8):
        api.made(MAPS, support.config_map(f"m{number}"))
    watch = state(api, f"{MAPS}?watch=1&resourceVersion=2")
    assert brief(watch.start()) == []
    (frame,) = watch.step()
    assert (frame["type"], frame["object"]["code"], frame["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert frame["object"]["message"].startswith("too old resource version: 2 (")
    assert watch.ended


def test_an_object_that_starts_or_stops_to_match_is_added_or_deleted(api: Api) -> None:
    api.made(PODS, support.pod("p1"))
    watch = state(api, "/api/v1/pods?watch=1&fieldSelector=spec.nodeName=n1&labelSelector=!done")
    assert brief(watch.start()) == []
    api.post(f"{PODS}/p1/binding", {"target": {"kind": "Node", "name": "n1"}})
    assert brief(watch.step()) == [("ADDED", "p1")]
    api.patch(f"{PODS}/p1", {"metadata": {"annotations": {"a": "b"}}})
    assert brief(watch.step()) == [("MODIFIED", "p1")]
    api.patch(f"{PODS}/p1", {"metadata": {"labels": {"done": ""}}})
    assert brief(watch.step()) == [("DELETED", "p1")]
    api.delete(f"{PODS}/p1")
    assert brief(watch.step()) == []


def test_a_named_object_can_be_watched(api: Api) -> None:
    watch = state(api, f"{MAPS}/a?watch=1")
    assert brief(watch.start()) == []
    api.made(MAPS, support.config_map("a"))
    api.made(MAPS, support.config_map("b"))
    assert brief(watch.step()) == [("ADDED", "a")]


def test_bookmarks_move_on_with_changes_that_the_watch_does_not_show(api: Api) -> None:
    watch = state(api, f"{MAPS}?watch=1")
    assert brief(watch.start()) == []
    api.made(PODS, support.pod())
    assert brief(watch.step()) == []
    assert watch.bookmark()["object"]["metadata"]["resourceVersion"] == str(api.registry.store.revision)


def test_a_watch_of_tables_sends_the_columns_once(api: Api) -> None:
    watch = state(api, f"{MAPS}?watch=1", TABLE)
    list(watch.start())
    api.made(MAPS, support.config_map("a"))
    api.made(MAPS, support.config_map("b"))
    first, second = (frame["object"] for frame in watch.step())
    assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["columnDefinitions"] == []
    assert second["rows"][0]["cells"] == ["b", 1, "0s"]


def test_a_watch_in_an_old_version_shows_that_version(api: Api) -> None:
    watch = state(api, "/apis/resource.k8s.io/v1beta1/resourceclaims?watch=1")
    list(watch.start())
    api.made(support.CLAIMS, support.claim())
    (frame,) = watch.step()
    assert frame["object"]["apiVersion"] == "resource.k8s.io/v1beta1"
    assert "deviceClassName" in frame["object"]["spec"]["devices"]["requests"][0]


# --- over a connection ----------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with run_in_thread(create_app(bookmark_seconds=0.05)) as running:
        yield running


def test_frames_come_as_lines_while_changes_happen(server: RunningServer) -> None:
    with (
        httpx2.Client(base_url=server.url, timeout=30) as client,
        client.stream("GET", f"{MAPS}?watch=true&timeoutSeconds=30") as response,
    ):
        assert response.headers["content-type"] == "application/json"
        lines = response.iter_lines()
        seen = []
        for number in range(3):
            made = httpx2.post(f"{server.url}{MAPS}", json=support.config_map(f"m{number}"))
            assert made.status_code == 201
            frame = json.loads(next(lines))
            seen.append((frame["type"], frame["object"]["metadata"]["name"]))
        assert seen == [("ADDED", "m0"), ("ADDED", "m1"), ("ADDED", "m2")]


def test_a_quiet_watch_gets_bookmarks_and_ends_when_its_time_is_up(server: RunningServer) -> None:
    url = f"{server.url}{MAPS}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true"
    frames = [json.loads(line) for line in httpx2.get(url, timeout=30).text.splitlines()]
    assert frames
    assert {frame["type"] for frame in frames} == {"BOOKMARK"}


def test_a_watcher_sees_the_writes_of_many_threads_once_and_in_order(server: RunningServer) -> None:
    writers, rounds = 4, 25

    def write(writer: int) -> None:
        with httpx2.Client(base_url=server.url, timeout=30) as client:
            for number in range(rounds):
                name = f"w{writer}-{number}"
                assert client.post(MAPS, json=support.config_map(name)).status_code == 201
                if number % 4 == 0:
                    assert client.delete(f"{MAPS}/{name}").status_code == 200

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    revision = httpx2.get(f"{server.url}{MAPS}").json()["metadata"]["resourceVersion"]
    expected = writers * (rounds + len(range(0, rounds, 4)))
    with (
        httpx2.Client(base_url=server.url, timeout=30) as client,
        client.stream("GET", f"{MAPS}?watch=true&resourceVersion={revision}") as response,
    ):
        for thread in threads:
            thread.start()
        lines = response.iter_lines()
        frames = [json.loads(next(lines)) for _ in range(expected)]
    for thread in threads:
        thread.join()
    revisions = [int(frame["object"]["metadata"]["resourceVersion"]) for frame in frames]
    assert revisions == sorted(set(revisions))
    alive: set[str] = set()
    for frame in frames:
        name = frame["object"]["metadata"]["name"]
        (alive.discard if frame["type"] == "DELETED" else alive.add)(name)
    assert alive == {item["metadata"]["name"] for item in httpx2.get(f"{server.url}{MAPS}").json()["items"]}
