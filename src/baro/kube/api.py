"""What baro asks of an API server: one Protocol, and the values it speaks in.

Code above this package takes a ``KubeApi`` and never learns whether a real cluster, the embedded server or
a fake of a test answers. Objects are the frozen Structs of ``baro.model.kinds``; writes are merge patches
of the fields that baro owns, guarded by the resourceVersion in their body, so nothing unknown is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from baro.model.errors import BaroError
from baro.model.kinds.base import KubeObject

T = TypeVar("T", bound=KubeObject)


class Listed(msgspec.Struct, Generic[T], frozen=True):
    """A whole list, all pages, and the resourceVersion from which a watch goes on."""

    items: tuple[T, ...]
    resource_version: str


class EventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One line of a watch. ``object`` is ``None`` for BOOKMARK and ERROR, ``error`` set for ERROR only."""

    type: EventType
    resource_version: str = ""
    object: T | None = None
    error: BaroError | None = None


class WatchStream(Protocol[T]):
    """An open watch. Iteration ends when the server ends it; ``close`` may be called by any thread."""

    def __iter__(self) -> Iterator[WatchEvent[T]]: ...

    def close(self) -> None: ...


class KubeApi(Protocol):
    """Calls on one API server.

    ``namespace`` is ``""`` for cluster-scoped kinds and, in ``list`` and ``watch``, for all namespaces.
    Every call may raise ``ForbiddenError`` (names verb and resource), ``UnreachableError`` (and its
    ``BusyError``), and the errors of ``baro.kube.errors`` named below.
    """

    def get(self, kind: type[T], namespace: str, name: str) -> T:
        """One object, as new as the server has it. ``NotFoundError``."""
        ...

    def list(
        self, kind: type[T], namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Listed[T]:
        """All objects, read in pages and begun again when a continue token expires."""
        ...

    def watch(
        self, kind: type[T], namespace: str = "", *, resource_version: str, timeout_s: int = 300
    ) -> WatchStream[T]:
        """Changes after ``resource_version``, with bookmarks. ``GoneError`` here or as an ERROR event."""
        ...

    def create(
        self,
        kind: type[T],
        namespace: str,
        body: T | Mapping[str, Any],
        *,
        subresource: tuple[str, str] | None = None,
    ) -> T:
        """Creates and gives what the server stored. ``AlreadyExistsError``, ``InvalidError``.

        ``subresource`` is (object name, subresource), such as ``("pod-1", "binding")``.
        """
        ...

    def replace(self, kind: type[T], namespace: str, name: str, body: T | Mapping[str, Any]) -> T:
        """PUT of a whole object that baro alone writes. ``ConflictError``, ``NotFoundError``."""
        ...

    def patch_merge(
        self,
        kind: type[T],
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        subresource: str | None = None,
    ) -> T:
        """JSON merge patch; resourceVersion and uid in its ``metadata`` guard it: ``ConflictError``."""
        ...

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
        """Deletes, under the given preconditions. ``ConflictError``, ``NotFoundError``."""
        ...


def guard(obj: KubeObject) -> dict[str, Any]:
    """The ``metadata`` part of a patch that must meet this very object, unchanged since it was read."""
    return {"resourceVersion": obj.metadata.resource_version, "uid": obj.metadata.uid}
