"""Where objects live: encoded bytes plus a small index, one revision counter, and a log of changes.

What may live here: keeping, finding and ordering objects. What may not: any rule about what an object may
hold. The store knows ``metadata.resourceVersion`` only because the revision is part of what it encodes.

:class:`Store` is the interface that the registry works against; :class:`MemoryStore` is the one that
tests and the demo use, ``persistence`` has one that also writes to disk.

*One revision counter.* Every write, a delete included, takes the next revision, and the change log holds
the changes in that order without gaps. So a list at revision R followed by a watch from R misses nothing
and repeats nothing; a list *at* an earlier R is the present undone back to R.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from baro.model.errors import InternalError

LOG_LENGTH = 20_000
"""Changes kept for watches that resume and lists that continue; older ones answer 410."""


class ResourceKey(NamedTuple):
    """A stored resource: all served versions of a group's resource share one."""

    group: str
    plural: str


class Key(NamedTuple):
    """Cluster-scoped objects have the namespace ``""``."""

    resource: ResourceKey
    namespace: str
    name: str


class Index(msgspec.Struct, frozen=True):
    """What selectors and garbage collection ask about an object, so that its bytes stay encoded."""

    uid: str = ""
    labels: Mapping[str, str] = {}
    fields: Mapping[str, str] = {}
    owners: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True):
    """One version of one object. ``data`` is its JSON in the storage version, revision included."""

    key: Key
    revision: int
    data: bytes
    index: Index

    def body(self) -> dict[str, Any]:
        """A fresh decoded copy, the caller's to change."""
        decoded: dict[str, Any] = msgspec.json.decode(self.data)
        return decoded


class Change(msgspec.Struct, frozen=True):
    """One entry of the log: ``record`` is the state after it (DELETED: the last one)."""

    revision: int
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    record: Record
    previous: Record | None


class Listing(msgspec.Struct, frozen=True):
    """Records ordered by (namespace, name), all as they stood at ``revision``."""

    records: tuple[Record, ...]
    revision: int


class KeyTakenError(Exception):
    """An object of that key exists."""


class NoSuchKeyError(Exception):
    """No object of that key exists."""


class StaleError(Exception):
    """The object is not at the expected revision any more."""


class CompactedError(Exception):
    """The change log does not reach back that far."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} is older than {oldest}")
        self.revision = revision
        self.oldest = oldest


class Store(Protocol):
    """Thread-safe. Bodies are JSON-shaped and taken over by the store, which sets their resourceVersion."""

    @property
    def revision(self) -> int:
        """Revision of the newest write; 1 when there was none."""

    def get(self, key: Key) -> Record | None: ...

    def create(self, key: Key, body: dict[str, Any], index: Index) -> Record:
        """Raises :class:`KeyTakenError`."""

    def replace(self, key: Key, body: dict[str, Any], index: Index, expected: int) -> Record:
        """Raises :class:`NoSuchKeyError`, or :class:`StaleError` when the revision is not ``expected``."""

    def delete(self, key: Key, expected: int) -> Record:
        """The last state, under the revision of the delete. Raises as :meth:`replace` does."""

    def listing(self, resource: ResourceKey, namespace: str | None = None, at: int | None = None) -> Listing:
        """``namespace=None`` is all of them. ``at`` is a past revision; raises :class:`CompactedError`."""

    def changes_since(self, resource: ResourceKey, namespace: str | None, after: int) -> tuple[Change, ...]:
        """Changes with a revision above ``after``, oldest first. Raises :class:`CompactedError`."""

    def owned_by(self, uid: str) -> tuple[Key, ...]:
        """Objects that name ``uid`` as an owner."""

    def in_namespace(self, namespace: str) -> tuple[Key, ...]:
        """Every object of a namespace, of any resource."""

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """``wake`` is called after every write, from the writing thread. Returns what ends it."""


class MemoryStore:
    """A :class:`Store` in this process's memory."""

    def __init__(self, log_length: int = LOG_LENGTH) -> None:
        self._lock = threading.RLock()
        self._revision = 1
        self._records: dict[ResourceKey, dict[tuple[str, str], Record]] = {}
        self._order: dict[ResourceKey, list[tuple[str, str]]] = {}
        self._log: deque[Change] = deque(maxlen=log_length)
        self._owned: dict[str, set[Key]] = {}
        self._wakers: dict[object, Callable[[], None]] = {}

    @property
    def revision(self) -> int:
        with self._lock:
            return self._revision

    def get(self, key: Key) -> Record | None:
        with self._lock:
            return self._records.get(key.resource, {}).get((key.namespace, key.name))

    def create(self, key: Key, body: dict[str, Any], index: Index) -> Record:
        with self._lock:
            if self.get(key) is not None:
                raise KeyTakenError(str(key))
            record = self._put("ADDED", key, body, index, None)
        self._wake()
        return record

    def replace(self, key: Key, body: dict[str, Any], index: Index, expected: int) -> Record:
        with self._lock:
            record = self._put("MODIFIED", key, body, index, self._at(key, expected))
        self._wake()
        return record

    def delete(self, key: Key, expected: int) -> Record:
        with self._lock:
            previous = self._at(key, expected)
            revision = self._revision + 1
            last = Record(key, revision, _encode(previous.body(), revision), previous.index)
            change = Change(revision, "DELETED", last, previous)
            self._commit(change)
            self._revision = revision
            del self._records[key.resource][(key.namespace, key.name)]
            order = self._order[key.resource]
            del order[bisect_left(order, (key.namespace, key.name))]
            self._disown(previous)
            self._log.append(change)
        self._wake()
        return last

    def listing(self, resource: ResourceKey, namespace: str | None = None, at: int | None = None) -> Listing:
        with self._lock:
            records = self._records.get(resource, {})
            order = self._order.get(resource, [])
            if namespace is not None:
                order = order[
                    bisect_left(order, (namespace, "")) : bisect_left(order, (namespace + "\0", ""))
                ]
            present = tuple([records[name] for name in order])
            if at is None or at >= self._revision:
                return Listing(present, self._revision)
            return Listing(self._undo(present, self._since(resource, namespace, at)), at)

    def changes_since(self, resource: ResourceKey, namespace: str | None, after: int) -> tuple[Change, ...]:
        with self._lock:
            return tuple(self._since(resource, namespace, after))

    def owned_by(self, uid: str) -> tuple[Key, ...]:
        with self._lock:
            return tuple(sorted(self._owned.get(uid, ())))

    def in_namespace(self, namespace: str) -> tuple[Key, ...]:
        with self._lock:
            return tuple(
                Key(resource, *name)
                for resource, order in self._order.items()
                for name in order[
                    bisect_left(order, (namespace, "")) : bisect_left(order, (namespace + "\0", ""))
                ]
            )

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        token = object()
        with self._lock:
            self._wakers[token] = wake

        def end() -> None:
            with self._lock:
                self._wakers.pop(token, None)

        return end

    # --- inside, under the lock ---------------------------------------------------------------------------

    def _put(
        self,
        what: Literal["ADDED", "MODIFIED"],
        key: Key,
        body: dict[str, Any],
        index: Index,
        previous: Record | None,
    ) -> Record:
        revision = self._revision + 1
        record = Record(key, revision, _encode(body, revision), index)
        change = Change(revision, what, record, previous)
        self._commit(change)
        self._revision = revision
        if previous is not None:
            self._disown(previous)
        self._keep(record)
        self._log.append(change)
        return record

    def _commit(self, change: Change) -> None:
        """Makes a change last, before anybody sees it. What this raises leaves the store as it was."""

    def _keep(self, record: Record) -> None:
        """Puts a record into the tables of this process."""
        key, name = record.key, (record.key.namespace, record.key.name)
        records = self._records.setdefault(key.resource, {})
        if name not in records:
            insort(self._order.setdefault(key.resource, []), name)
        records[name] = record
        for owner in record.index.owners:
            self._owned.setdefault(owner, set()).add(key)

    def _at(self, key: Key, expected: int) -> Record:
        found = self.get(key)
        if found is None:
            raise NoSuchKeyError(str(key))
        if found.revision != expected:
            raise StaleError(str(key))
        return found

    def _disown(self, record: Record) -> None:
        for owner in record.index.owners:
            keys = self._owned.get(owner, set())
            keys.discard(record.key)
            if not keys:
                self._owned.pop(owner, None)

    def _since(self, resource: ResourceKey, namespace: str | None, after: int) -> list[Change]:
        oldest = self._log[0].revision if self._log else self._revision + 1
        if after < oldest - 1:
            raise CompactedError(after, oldest - 1)
        found: list[Change] = []
        for change in reversed(self._log):
            if change.revision <= after:
                break
            key = change.record.key
            if key.resource == resource and namespace in (None, key.namespace):
                found.append(change)
        found.reverse()
        return found

    @staticmethod
    def _undo(present: tuple[Record, ...], changes: list[Change]) -> tuple[Record, ...]:
        records = {(r.key.namespace, r.key.name): r for r in present}
        for change in reversed(changes):
            name = (change.record.key.namespace, change.record.key.name)
            if change.previous is None:
                records.pop(name, None)
            else:
                records[name] = change.previous
        return tuple(records[name] for name in sorted(records))

    def _wake(self) -> None:
        with self._lock:
            wakers = tuple(self._wakers.values())
        for wake in wakers:
            wake()


def _encode(body: dict[str, Any], revision: int) -> bytes:
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        raise InternalError("an object without metadata reached the store")
    metadata["resourceVersion"] = str(revision)
    return msgspec.json.encode(body)
