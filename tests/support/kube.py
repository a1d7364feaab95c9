"""An API server in memory, for tests that stop, break or overtake a writer between any two of its writes.

It keeps the promises that the writers of baro rely on: resourceVersions with conflicts, uid and version
preconditions, the status subresource, finalizers, immutable allocations, generateName, bookmarks, 410. It is
no copy of a real server: ``baro.apiserver`` and a real control plane run the same scenarios elsewhere.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from baro.kube.api import EventType, Listed, WatchEvent
from baro.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    GoneError,
    InvalidError,
    NotFoundError,
)
from baro.kube.routes import route
from baro.model.errors import UnreachableError
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import DeviceTaintRule, ResourceClaim

T = TypeVar("T", bound=KubeObject)
Key = tuple[type[KubeObject], str, str]
WITH_STATUS = (Pod, Node, ResourceClaim, DeviceTaintRule)


class Killed(BaseException):
    """The process under test is dead. No ``except Exception`` may survive it."""


class Write(msgspec.Struct, frozen=True):
    """One write that is about to happen. ``number`` counts from 1."""

    number: int
    verb: str
    kind: type[KubeObject]
    namespace: str
    name: str
    subresource: str | None
    body: Mapping[str, Any]


class FakeApi:
    """A ``KubeApi``. ``before`` is called ahead of every write of *this handle* and may raise or interfere.

    ``other()`` gives a second handle on the same objects without the hook: the other actors of a scenario.
    """

    def __init__(self, store: FakeStore | None = None) -> None:
        self.store = store or FakeStore()
        self.before: Callable[[Write], None] | None = None
        self.after: Callable[[Write], None] | None = None
        self.down = False
        self.writes: list[Write] = []
        self.reads = 0
        self._numbering = threading.Lock()
        self._under_way = 0

    def other(self) -> FakeApi:
        return FakeApi(self.store)

    def kill_before(self, number: int) -> None:
        """The n-th write from now on never happens, and nothing after it."""
        self.writes.clear()

        def before(write: Write) -> None:
            if write.number >= number:
                raise Killed(f"before write {number}")

        self.before = before

    def conflict_on(self, number: int) -> None:
        """The n-th write from now on finds a newer object."""
        self.writes.clear()
        left = [number]

        def before(write: Write) -> None:
            if left and write.number == left[0]:
                left.clear()
                raise ConflictError("the object has been modified", code=409, reason="Conflict")

        self.before = before

    # --- KubeApi -------------------------------------------------------------------------------------------

    def get(self, kind: type[T], namespace: str, name: str) -> T:
        self._check()
        return self.store.decode(kind, self.store.read(kind, namespace, name))

    def list(
        self, kind: type[T], namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Listed[T]:
        self._check()
        with self.store.lock:
            bodies = [
                body
                for (k, ns, _), body in sorted(self.store.objects.items(), key=lambda item: item[0][1:])
                if k is kind and namespace in ("", ns) and _selected(body, field_selector, label_selector)
            ]
            items = tuple(self.store.decode(kind, body) for body in bodies)
            return Listed(items, str(self.store.version))

    def watch(
        self, kind: type[T], namespace: str = "", *, resource_version: str, timeout_s: int = 300
    ) -> FakeWatch[T]:
        self._check()
        if int(resource_version) < self.store.compacted:
            raise GoneError("too old resource version", code=410, reason="Expired")
        return FakeWatch(self.store, kind, namespace, int(resource_version))

    def create(
        self,
        kind: type[T],
        namespace: str,
        body: T | Mapping[str, Any],
        *,
        subresource: tuple[str, str] | None = None,
    ) -> T:
        plain = _plain(body)
        if subresource is not None:
            name, part = subresource
            assert (kind, part) == (Pod, "binding"), "the fake knows bindings only"
            self._about_to("create", kind, namespace, name, part, plain)
            pod = self.store.read(kind, namespace, name)
            if pod["spec"].get("nodeName"):
                raise ConflictError("pod is already assigned", code=409, reason="Conflict")
            pod["spec"]["nodeName"] = plain["target"]["name"]
            return self.store.decode(kind, self.store.put(kind, pod))
        meta = plain.setdefault("metadata", {})
        if route(kind).namespaced:
            meta.setdefault("namespace", namespace)
        if not meta.get("name"):
            meta["name"] = f"{meta['generateName']}{self.store.version:05x}"
        self._about_to("create", kind, namespace, meta["name"], None, plain)
        with self.store.lock:
            if (kind, meta.get("namespace", ""), meta["name"]) in self.store.objects:
                raise AlreadyExistsError(
                    f'{route(kind).plural} "{meta["name"]}" already exists', code=409, reason="AlreadyExists"
                )
            meta["uid"] = f"uid-{self.store.version + 1}"
            meta["creationTimestamp"] = self.store.now
            return self.store.decode(kind, self.store.put(kind, plain, EventType.ADDED))

    def replace(self, kind: type[T], namespace: str, name: str, body: T | Mapping[str, Any]) -> T:
        plain = _plain(body)
        self._about_to("update", kind, namespace, name, None, plain)
        with self.store.lock:
            old = self.store.read(kind, namespace, name)
            _precondition(old, plain.get("metadata", {}))
            plain["metadata"] = {**old["metadata"], **plain["metadata"]}
            return self.store.decode(kind, self.store.put(kind, plain))

    def patch_merge(
        self,
        kind: type[T],
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        subresource: str | None = None,
    ) -> T:
        self._about_to("patch", kind, namespace, name, subresource, body)
        with self.store.lock:
            old = self.store.read(kind, namespace, name)
            body = _wire(body)
            _precondition(old, body.get("metadata", {}))
            new = merge(old, body)
            if kind in WITH_STATUS:
                if subresource == "status":
                    new = {**old, "status": new.get("status", {})}
                else:
                    new["status"] = old.get("status", {})
            _validate(kind, old, new)
            done = self.store.decode(kind, self.store.put(kind, new) if new != old else old)
        if self.after is not None:
            self.after(self.writes[-1])
        return done

    def delete(
        self,
        kind: type[T],
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_s: int | None = None,
    ) -> None:
        self._about_to("delete", kind, namespace, name, None, {})
        with self.store.lock:
            old = self.store.read(kind, namespace, name)
            _precondition(old, {"uid": uid, "resourceVersion": resource_version})
            if old["metadata"].get("finalizers"):
                if not old["metadata"].get("deletionTimestamp"):
                    old["metadata"]["deletionTimestamp"] = self.store.now
                    self.store.put(kind, old)
            else:
                self.store.drop(kind, old)

    def _check(self) -> None:
        self.reads += 1
        if self.down:
            raise UnreachableError("the API server at fake does not answer")

    def _about_to(
        self, verb: str, kind: type[KubeObject], namespace: str, name: str, sub: str | None, body: Any
    ) -> None:
        self._check()
        with self._numbering:  # several threads may be writing: no number twice, none left out
            self._under_way += 1
            number = len(self.writes) + self._under_way
        write = Write(number, verb, kind, namespace, name, sub, _wire(body))
        try:
            if self.before is not None:
                self.before(write)
        except BaseException:
            with self._numbering:
                self._under_way -= 1
            raise
        with self._numbering:
            self._under_way -= 1
            self.writes.append(write)


class FakeStore:
    """The objects, the version counter and the log of changes that watches read."""

    def __init__(self) -> None:
        self.objects: dict[Key, dict[str, Any]] = {}
        self.log: list[tuple[int, type[KubeObject], EventType, dict[str, Any]]] = []
        self.version = 100
        self.compacted = 0
        self.now = "2026-01-01T00:00:00Z"
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)

    def read(self, kind: type[KubeObject], namespace: str, name: str) -> dict[str, Any]:
        found = self.objects.get((kind, namespace if route(kind).namespaced else "", name))
        if found is None:
            raise NotFoundError(f'{route(kind).plural} "{name}" not found', code=404, reason="NotFound")
        return copy.deepcopy(found)

    def put(
        self, kind: type[KubeObject], body: dict[str, Any], event: EventType = EventType.MODIFIED
    ) -> dict[str, Any]:
        with self.changed:
            meta = body["metadata"]
            if meta.get("deletionTimestamp") and not meta.get("finalizers"):
                return self.drop(kind, body)
            self.version += 1
            meta["resourceVersion"] = str(self.version)
            self.objects[kind, meta.get("namespace", ""), meta["name"]] = copy.deepcopy(body)
            self.log.append((self.version, kind, event, copy.deepcopy(body)))
            self.changed.notify_all()
            return body

    def drop(self, kind: type[KubeObject], body: dict[str, Any]) -> dict[str, Any]:
        with self.changed:
            meta = body["metadata"]
            del self.objects[kind, meta.get("namespace", ""), meta["name"]]
            self.version += 1
            meta["resourceVersion"] = str(self.version)
            self.log.append((self.version, kind, EventType.DELETED, copy.deepcopy(body)))
            self.changed.notify_all()
            return body

    def compact(self) -> None:
        """Forgets all changes so far, as etcd does: older watches get 410."""
        self.compacted = self.version
        self.log.clear()

    @staticmethod
    def decode(kind: type[T], body: dict[str, Any]) -> T:
        return msgspec.convert(body, kind)


class FakeWatch(Generic[T]):
    """Blocks for new changes until closed, as a real watch does."""

    def __init__(self, store: FakeStore, kind: type[T], namespace: str, version: int) -> None:
        self._store = store
        self._kind = kind
        self._namespace = namespace
        self._version = version
        self._closed = False

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        while True:
            with self._store.changed:
                while not (news := self._news()) and not self._closed:
                    self._store.changed.wait(timeout=5)
                if self._closed:
                    return
            for version, event, body in news:
                self._version = version
                yield WatchEvent(event, str(version), self._store.decode(self._kind, body))

    def _news(self) -> list[tuple[int, EventType, dict[str, Any]]]:
        return [
            (version, event, body)
            for version, kind, event, body in self._store.log
            if version > self._version
            and kind is self._kind
            and self._namespace in ("", body["metadata"].get("namespace", ""))
        ]

    def close(self) -> None:
        with self._store.changed:
            self._closed = True
            self._store.changed.notify_all()


def merge(old: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7396)."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    done = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            done.pop(key, None)
        else:
            done[key] = merge(done.get(key), value)
    return done


def _wire(body: Any) -> Any:
    """What goes over the wire: lists for tuples, as JSON has them."""
    return msgspec.json.decode(msgspec.json.encode(body))


def _plain(body: KubeObject | Mapping[str, Any]) -> dict[str, Any]:
    plain = body.to_dict() if isinstance(body, KubeObject) else copy.deepcopy(dict(body))
    return {key: value for key, value in plain.items() if value is not None}


def _precondition(old: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
    for field in ("resourceVersion", "uid"):
        if meta.get(field) and meta[field] != old["metadata"][field]:
            raise ConflictError(
                f"the object has been modified ({field}); please apply your changes to the latest version",
                code=409,
                reason="Conflict",
            )


def _validate(kind: type[KubeObject], old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    if kind is Pod:
        gates = {gate["name"] for gate in old.get("spec", {}).get("schedulingGates", [])}
        if not gates >= {gate["name"] for gate in new.get("spec", {}).get("schedulingGates", [])}:
            raise InvalidError("spec.schedulingGates: only deletion is allowed", code=422, reason="Invalid")
    if kind is ResourceClaim:
        before, after = old.get("status", {}), new.get("status", {})
        if before.get("allocation") and after.get("allocation") not in (None, before["allocation"]):
            raise InvalidError("status.allocation: field is immutable", code=422, reason="Invalid")
        if after.get("reservedFor") and not after.get("allocation"):
            raise InvalidError(
                "status.reservedFor: Forbidden: may not be specified when 'allocated' is not set",
                code=422,
                reason="Invalid",
            )
        if len(after.get("reservedFor", [])) > 256:
            raise InvalidError("status.reservedFor: Too many: must have at most 256 items", code=422)


def _selected(body: Mapping[str, Any], fields: str, labels: str) -> bool:
    for part in filter(None, fields.split(",")):
        path, _, value = part.partition("=")
        found: Any = body
        for step in path.split("."):
            found = found.get(step, "") if isinstance(found, Mapping) else ""
        if found != value:
            return False
    have = body["metadata"].get("labels", {})
    return all(have.get(k) == v for k, _, v in (p.partition("=") for p in filter(None, labels.split(","))))
