"""The store on disk: nothing acknowledged is lost, whenever the server dies."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.apiserver.persistence import FILE, FORMAT, SqliteStore
from baro.apiserver.storage import CompactedError, Index, Key, KeyTakenError, MemoryStore, ResourceKey
from baro.kube.client import KubeClient
from baro.kube.watch import Apply, Change, InitApply, Trouble, Watcher
from baro.model.errors import InputError
from baro.model.kinds.core import Node
from tests.support import apiserver as support
from tests.support.apiserver import MAPS, NODES, Api, config_map, definition, widget
from tests.support.real_process import free_ports

MAP_KEY = ResourceKey("", "configmaps")


def test_objects_indexes_and_revisions_are_there_after_a_restart(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path)
    api = Api(first)
    owner = api.made(NODES, support.node())["metadata"]["uid"]
    owners = [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": owner}]
    kept = api.made(MAPS, config_map(labels={"app": "a"}, ownerReferences=owners))
    api.made(MAPS, config_map("gone"))
    api.delete(f"{MAPS}/gone")
    revision = first.revision
    first.close()
    second = SqliteStore(tmp_path)
    again = Api(second)
    assert second.revision == revision
    assert again.get(f"{MAPS}/m1").body == kept
    assert [item["metadata"]["name"] for item in again.get(f"{MAPS}?labelSelector=app").body["items"]] == [
        "m1"
    ]
    assert again.get(f"{MAPS}/gone").code == 404
    assert int(again.made(MAPS, config_map("new"))["metadata"]["resourceVersion"]) == revision + 1
    again.delete(f"{NODES}/n1")
    assert again.get(f"{MAPS}/m1").code == 404
    second.close()


def test_custom_kinds_are_served_after_a_restart(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path)
    api = Api(first)
    api.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    place = "/apis/example.com/v1/namespaces/default/widgets"
    api.made(place, widget(size=1))
    first.close()
    second = SqliteStore(tmp_path)
    assert Api(second).get(f"{place}/w1").body["spec"] == {"size": 1}
    second.close()


def test_a_watch_goes_on_across_a_restart_where_it_was(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path)
    api = Api(first)
    seen = first.revision
    api.made(MAPS, config_map())
    api.patch(f"{MAPS}/m1", {"data": {"a": "c"}})
    api.delete(f"{MAPS}/m1")
    told = first.changes_since(MAP_KEY, None, seen)
    assert [change.type for change in told] == ["ADDED", "MODIFIED", "DELETED"]
    first.close()
    second = SqliteStore(tmp_path)
    assert second.changes_since(MAP_KEY, None, seen) == told
    assert second.listing(MAP_KEY, at=told[1].revision).records == (told[1].record,)
    second.close()


def test_only_the_newest_changes_are_kept_and_older_watches_list_again(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path, log_length=3)
    api = Api(first)
    for number in range(6):
        api.made(MAPS, config_map(f"m{number}"))
    newest = first.revision
    first.close()
    second = SqliteStore(tmp_path, log_length=10)
    assert len(second.changes_since(MAP_KEY, None, newest - 3)) == 3
    with pytest.raises(CompactedError):
        second.changes_since(MAP_KEY, None, newest - 4)
    second.close()


def test_a_file_of_the_first_format_is_read_and_keeps_changes_from_then_on(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path)
    Api(first).made(MAPS, config_map())
    first.close()
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as database, database:
        database.execute("DROP TABLE changes")
        database.execute("PRAGMA user_version = 1")
    second = SqliteStore(tmp_path)
    old = second.revision
    with pytest.raises(CompactedError):
        second.changes_since(MAP_KEY, None, old - 1)
    Api(second).made(MAPS, config_map("m2"))
    second.close()
    third = SqliteStore(tmp_path)
    assert [change.record.key.name for change in third.changes_since(MAP_KEY, None, old)] == ["m2"]
    third.close()


def test_a_write_that_cannot_be_kept_changes_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    api = Api(store)
    revision = store.revision
    store.close()
    with pytest.raises(sqlite3.ProgrammingError):
        api.post(MAPS, config_map())
    assert store.revision == revision
    assert api.get(f"{MAPS}/m1").code == 404


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            f"PRAGMA user_version = {FORMAT + 1}",
            f"has format {FORMAT + 1}, and this program knows formats up to",
        ),
        ("PRAGMA application_id = 7", "is no database of `baro apiserver`"),
        ("DROP TABLE objects", "is damaged"),
        ("INSERT INTO objects VALUES ('', 'pods', '', 'x', 3, '{}', 'no json')", "is damaged"),
    ],
)
def test_a_file_that_cannot_be_read_gives_one_clear_error(
    tmp_path: Path, statement: str, message: str
) -> None:
    SqliteStore(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute(statement)
    database.close()
    with pytest.raises(InputError) as caught:
        SqliteStore(tmp_path)
    assert message in caught.value.what
    assert caught.value.next_step


def test_other_files_and_folders_in_use_are_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("no database at all, but long enough to look at")
    with pytest.raises(InputError, match="is no database"):
        SqliteStore(tmp_path)
    store = SqliteStore(tmp_path / "other")
    with pytest.raises(InputError, match="is in use by another server"):
        SqliteStore(tmp_path / "other")
    store.close()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot open"):
        SqliteStore(tmp_path / "file")


STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "replace", "delete", "reopen"]), st.sampled_from("abc")), max_size=20
)


@settings(deadline=None, max_examples=40)
@given(STEPS)
def test_it_behaves_as_the_store_in_memory_does(steps: list[tuple[str, str]]) -> None:
    memory = MemoryStore()
    with tempfile.TemporaryDirectory() as folder:
        disk = SqliteStore(folder)
        for number, (action, name) in enumerate(steps):
            if action == "reopen":
                disk.close()
                disk = SqliteStore(folder)
                continue
            results = [_apply(store, action, name, number) for store in (memory, disk)]
            assert results[0] == results[1]
            assert memory.listing(MAP_KEY) == disk.listing(MAP_KEY)
            assert memory.owned_by("o") == disk.owned_by("o")
            assert memory.changes_since(MAP_KEY, None, 1) == disk.changes_since(MAP_KEY, None, 1)
        disk.close()


def _apply(store: MemoryStore, action: str, name: str, number: int) -> Any:
    key = Key(MAP_KEY, "default", name)
    body = {"metadata": {"name": name}, "data": {"n": str(number)}}
    index = Index(uid=name, labels={"n": str(number)}, owners=("o",) if number % 2 else ())
    found = store.get(key)
    if action == "create":
        try:
            return store.create(key, body, index)
        except KeyTakenError:
            return "taken"
    if found is None:
        return None
    return (
        store.replace(key, body, index, found.revision)
        if action == "replace"
        else store.delete(key, found.revision)
    )


# --- kill -9 ----------------------------------------------------------------------------------------------


class Served:
    """``baro apiserver`` as a process of its own."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        program = [sys.executable, "-m", "baro", "apiserver"]
        command = [*program, "--port", str(port), "--data-dir", str(folder)]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http"), self.process.communicate()

    def kill(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.communicate(timeout=30)


def _write_until_killed(server: Served, round_: int, kill_at: int) -> dict[str, int]:
    """Writes from three threads; kills at the given acknowledgement. Returns name → acknowledged revision."""
    acknowledged: dict[str, int] = {}
    lock = threading.Lock()

    def write(thread: int) -> None:
        with httpx2.Client(base_url=server.url) as client:
            for number in range(10_000):
                name = f"r{round_}-t{thread}-{number}"
                try:
                    answer = client.post(MAPS, json=config_map(name))
                except httpx2.HTTPError:
                    return
                with lock:
                    acknowledged[name] = int(answer.json()["metadata"]["resourceVersion"])
                    if len(acknowledged) == kill_at:
                        server.process.send_signal(signal.SIGKILL)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.process.communicate(timeout=30)
    return acknowledged


def test_nothing_acknowledged_is_lost_when_the_server_is_killed_while_writing(tmp_path: Path) -> None:
    everything: dict[str, int] = {}
    for round_, kill_at in enumerate((7, 23, 41)):
        written = _write_until_killed(Served(tmp_path), round_, kill_at)
        assert len(written) >= kill_at
        assert min(written.values()) > max(everything.values(), default=0)
        everything |= written
    server = Served(tmp_path)
    listing = httpx2.get(f"{server.url}{MAPS}").json()
    found = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in listing["items"]}
    assert found.items() >= everything.items()
    assert len(set(found.values())) == len(found)
    assert int(listing["metadata"]["resourceVersion"]) >= max(found.values())
    server.kill(signal.SIGTERM)
    assert server.process.returncode == 0


@pytest.mark.filterwarnings("ignore")
def test_the_official_client_resumes_after_a_kill_and_misses_nothing(tmp_path: Path) -> None:
    client = pytest.importorskip("kubernetes.client")
    watch = pytest.importorskip("kubernetes.watch")
    server = Served(tmp_path)
    httpx2.post(f"{server.url}{MAPS}", json=config_map("before"))
    known = httpx2.get(f"{server.url}{MAPS}").json()["metadata"]["resourceVersion"]
    httpx2.post(f"{server.url}{MAPS}", json=config_map("missed"))
    server.kill(signal.SIGKILL)
    server = Served(tmp_path)
    with client.ApiClient(client.Configuration(host=server.url)) as api:
        maps = client.CoreV1Api(api)
        httpx2.post(f"{server.url}{MAPS}", json=config_map("after"))
        stream = watch.Watch().stream(
            maps.list_namespaced_config_map, "default", resource_version=known, timeout_seconds=30
        )
        assert [next(stream)["object"].metadata.name for _ in range(2)] == ["missed", "after"]
        stream.close()
    server.kill(signal.SIGTERM)


def test_our_own_watcher_survives_a_kill_without_losing_anything(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    server = Served(tmp_path, port)
    seen: dict[str, threading.Event] = {"before": threading.Event(), "after": threading.Event()}
    lost = threading.Event()

    def take(change: Change[Node]) -> None:
        match change:
            case InitApply(object=node) | Apply(object=node):
                seen[node.metadata.name].set()
            case Trouble():
                lost.set()

    with KubeClient.connect(url=server.url) as api:
        watcher = Watcher(api, Node, take)
        thread = threading.Thread(target=watcher.run, daemon=True)
        thread.start()
        httpx2.post(f"{server.url}{NODES}", json=support.node("before"))
        assert seen["before"].wait(30)
        server.kill(signal.SIGKILL)
        assert lost.wait(30)
        server = Served(tmp_path, port)
        httpx2.post(f"{server.url}{NODES}", json=support.node("after"))
        assert seen["after"].wait(60)
        watcher.stop()
        thread.join(30)
    server.kill(signal.SIGTERM)
