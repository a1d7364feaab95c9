"""Watches: the changes of a resource, from a revision on, as JSON lines that end only when they must.

A watch is a small state machine. :class:`WatchState` holds where it stands and turns new changes into
frames, without waiting and without HTTP; ``serving`` waits and sends. A watch from the past replays the
change log, so list-then-watch misses nothing; one that starts before the log's reach ends with an ERROR
frame that carries 410.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from baro.apiserver.catalogue import Served
from baro.apiserver.registry.reading import selects
from baro.apiserver.selectors import Selector
from baro.apiserver.status import Cause, invalid, too_new, too_old
from baro.apiserver.storage import Change, CompactedError, Record, Store

Body = dict[str, Any]

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class WatchOptions(msgspec.Struct, frozen=True):
    """What a client asked for. ``revision`` None: from now on, with the present state as ADDED first."""

    selector: Selector = Selector()
    revision: int | None = None
    match: str = ""
    send_initial_events: bool | None = None
    bookmarks: bool = False
    timeout: float = 1800.0


def check_options(options: WatchOptions, store: Store) -> None:
    """Raises 422 for parameters that exclude each other, 504 for a revision of the future."""
    wrong = ""
    if options.send_initial_events is not None and options.match != "NotOlderThan":
        wrong = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        if not options.match:
            wrong = "resourceVersionMatch is required to be set to NotOlderThan when sendInitialEvents is set"
    elif options.match and options.send_initial_events is None:
        wrong = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    if wrong:
        cause = Cause("FieldValueForbidden", "resourceVersionMatch", f"Forbidden: {wrong}")
        raise invalid("meta.k8s.io", "ListOptions", "", [cause])
    if options.revision is not None and options.revision > store.revision:
        raise too_new(options.revision, store.revision)


class WatchState:
    """Where one watch stands. ``render`` turns a record into the object that the client gets."""

    def __init__(
        self,
        store: Store,
        served: Served,
        namespace: str | None,
        options: WatchOptions,
        render: Callable[[Record], Body],
    ) -> None:
        self._store = store
        self._served = served
        self._namespace = namespace
        self._options = options
        self._render = render
        self._position = 0
        self.ended = False

    def start(self) -> Iterator[Body]:
        """The frames that come before any new change: the present state, where it was asked for."""
        options = self._options
        from_scratch = options.revision in (None, 0)
        initial = from_scratch if options.send_initial_events is None else options.send_initial_events
        if not initial:
            self._position = self._store.revision if from_scratch else options.revision or 0
            return
        listing = self._store.listing(self._served.key, self._namespace)
        self._position = listing.revision
        for record in listing.records:
            if selects(options.selector, record):
                yield self._frame("ADDED", record)
        if options.send_initial_events:
            yield self.bookmark(initial_end=True)

    def step(self) -> Iterator[Body]:
        """The frames of all changes since the last step."""
        current = self._store.revision
        try:
            changes = self._store.changes_since(self._served.key, self._namespace, self._position)
        except CompactedError as error:
            self.ended = True
            yield {"type": "ERROR", "object": too_old(error.revision, error.oldest).to_dict()}
            return
        for change in changes:
            self._position = change.revision
            frame = self._changed(change)
            if frame is not None:
                yield frame
        self._position = max(self._position, current)

    def bookmark(self, *, initial_end: bool = False) -> Body:
        """A BOOKMARK frame: everything up to its revision has been sent."""
        metadata: Body = {"resourceVersion": str(self._position), "creationTimestamp": None}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        kind = self._served.kind
        body = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        return {"type": "BOOKMARK", "object": body}

    def _changed(self, change: Change) -> Body | None:
        """An object that starts or stops to match the selector is added or deleted for this client."""
        selector = self._options.selector
        before = change.previous is not None and selects(selector, change.previous)
        after = change.type != "DELETED" and selects(selector, change.record)
        if after:
            return self._frame("MODIFIED" if before else "ADDED", change.record)
        return self._frame("DELETED", change.record) if before else None

    def _frame(self, what: str, record: Record) -> Body:
        return {"type": what, "object": self._render(record)}
