"""The store: one revision counter, a gapless log, lists at any revision that the log reaches."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.apiserver.storage import (
    CompactedError,
    Index,
    Key,
    KeyTakenError,
    MemoryStore,
    NoSuchKeyError,
    ResourceKey,
    StaleError,
)

PODS = ResourceKey("", "pods")
NODES = ResourceKey("", "nodes")


def key(name: str, namespace: str = "default", resource: ResourceKey = PODS) -> Key:
    return Key(resource, namespace, name)


def body(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


def test_every_write_takes_the_next_revision_and_the_object_carries_it() -> None:
    store = MemoryStore()
    first = store.create(key("a"), body("a"), Index())
    second = store.replace(key("a"), body("a", x=1), Index(), first.revision)
    last = store.delete(key("a"), second.revision)
    assert [first.revision, second.revision, last.revision] == [2, 3, 4]
    assert last.body() == {"metadata": {"name": "a", "resourceVersion": "4"}, "x": 1}
    assert store.revision == 4


def test_a_write_on_a_stale_revision_is_refused_and_changes_nothing() -> None:
    store = MemoryStore()
    first = store.create(key("a"), body("a"), Index())
    store.replace(key("a"), body("a", x=1), Index(), first.revision)
    with pytest.raises(StaleError):
        store.replace(key("a"), body("a", x=2), Index(), first.revision)
    with pytest.raises(StaleError):
        store.delete(key("a"), first.revision)
    record = store.get(key("a"))
    assert record is not None
    assert record.body()["x"] == 1
    assert store.revision == 3


def test_missing_and_taken_keys_are_told_apart() -> None:
    store = MemoryStore()
    store.create(key("a"), body("a"), Index())
    with pytest.raises(KeyTakenError):
        store.create(key("a"), body("a"), Index())
    with pytest.raises(NoSuchKeyError):
        store.replace(key("b"), body("b"), Index(), 1)
    with pytest.raises(NoSuchKeyError):
        store.delete(key("b"), 1)


def test_a_namespace_is_not_mistaken_for_one_whose_name_it_begins() -> None:
    store = MemoryStore()
    for namespace in ("a", "a-b", "ab", "b"):
        store.create(key("x", namespace), body("x"), Index())
    assert [r.key.namespace for r in store.listing(PODS, "a").records] == ["a"]
    assert [r.key.namespace for r in store.listing(PODS).records] == ["a", "a-b", "ab", "b"]
    assert store.in_namespace("ab") == (key("x", "ab"),)


def test_owned_objects_are_found_by_the_uid_of_their_owner() -> None:
    store = MemoryStore()
    record = store.create(key("a"), body("a"), Index(owners=("u1", "u2")))
    store.create(key("b"), body("b"), Index(owners=("u1",)))
    assert store.owned_by("u1") == (key("a"), key("b"))
    store.replace(key("a"), body("a"), Index(owners=("u2",)), record.revision)
    assert store.owned_by("u1") == (key("b"),)
    assert store.owned_by("u2") == (key("a"),)


def test_a_revision_that_the_log_has_dropped_is_compacted() -> None:
    store = MemoryStore(log_length=3)
    for number in range(6):
        store.create(key(f"p{number}"), body("p"), Index())
    assert [c.revision for c in store.changes_since(PODS, None, 4)] == [5, 6, 7]
    with pytest.raises(CompactedError) as raised:
        store.changes_since(PODS, None, 3)
    assert (raised.value.revision, raised.value.oldest) == (3, 4)
    with pytest.raises(CompactedError):
        store.listing(PODS, at=3)


operations = st.lists(
    st.tuples(
        st.sampled_from(["create", "replace", "delete"]), st.sampled_from("abc"), st.sampled_from("xy")
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=100)
@given(operations)
def test_a_list_at_a_past_revision_is_what_a_list_at_that_time_was(steps: list[tuple[str, str, str]]) -> None:
    store = MemoryStore()
    seen: dict[int, list[bytes]] = {}
    for number, (operation, name, namespace) in enumerate(steps):
        target, record = key(name, namespace), store.get(key(name, namespace))
        if operation == "create" and record is None:
            store.create(target, body(name, n=number), Index())
        elif operation == "replace" and record is not None:
            store.replace(target, body(name, n=number), Index(), record.revision)
        elif operation == "delete" and record is not None:
            store.delete(target, record.revision)
        seen[store.revision] = [r.data for r in store.listing(PODS).records]
    for revision, records in seen.items():
        listing = store.listing(PODS, at=revision)
        assert [r.data for r in listing.records] == records
        assert listing.revision == revision
    replayed: dict[Key, bytes] = {}
    for change in store.changes_since(PODS, None, 1):
        if change.type == "DELETED":
            del replayed[change.record.key]
        else:
            replayed[change.record.key] = change.record.data
    assert [replayed[k] for k in sorted(replayed, key=lambda k: (k.namespace, k.name))] == [
        r.data for r in store.listing(PODS).records
    ]


def test_concurrent_writers_get_unique_revisions_and_a_watcher_sees_each_change_once_in_order() -> None:
    store = MemoryStore()
    writers, rounds = 6, 60
    woken = threading.Event()
    seen: list[int] = []
    done = threading.Event()

    def watch() -> None:
        position = 1
        while True:
            finished = done.is_set()
            changes = store.changes_since(PODS, None, position)
            seen.extend(change.revision for change in changes)
            position = changes[-1].revision if changes else position
            if finished and not changes:
                return
            woken.wait(0.05)
            woken.clear()

    def write(writer: int) -> None:
        for number in range(rounds):
            name = f"w{writer}-{number}"
            record = store.create(key(name), body(name), Index())
            if number % 3 == 0:
                record = store.replace(key(name), body(name, x=1), Index(), record.revision)
            if number % 5 == 0:
                store.delete(key(name), record.revision)
            shared = key("shared", resource=NODES)
            current = store.get(shared)
            try:
                if current is None:
                    store.create(shared, body("shared"), Index())
                else:
                    store.replace(shared, body("shared", by=writer), Index(), current.revision)
            except (StaleError, KeyTakenError):
                continue

    end = store.subscribe(woken.set)
    watcher = threading.Thread(target=watch)
    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    watcher.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    watcher.join()
    end()
    everything = [*store.changes_since(PODS, None, 1), *store.changes_since(NODES, None, 1)]
    assert sorted(change.revision for change in everything) == list(range(2, store.revision + 1))
    assert seen == [change.revision for change in store.changes_since(PODS, None, 1)]
