"""A watch that never ends: list, watch from there, resume, and list anew when the server forgot.

The machine is the pure function ``step``: a state and what just happened give the next state, the changes
to report and the one thing to do next. ``Watcher`` does that thing. After every (re)list the changes are
``Init``, one ``InitApply`` for each object, ``InitDone``: a store that swaps at ``InitDone`` also sees what
was deleted while the connection was down. The shape is that of kube-rs' watcher.

::

    Starting ──list──> Resuming ──watch──> Watching ──events──┐
       ^                  ^  │                 │  ^───────────┘
       │ 410              │  └── fails ──> Waiting (then Resuming or Starting again)
       └──────────────────┴─────── stream ends ┘
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeAlias, TypeVar

import msgspec

from baro.kube.api import EventType, KubeApi, Listed, WatchEvent, WatchStream
from baro.kube.errors import BusyError, GoneError, NotFoundError
from baro.model.errors import BaroError
from baro.model.kinds.base import KubeObject

T = TypeVar("T", bound=KubeObject)

BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 30.0
HEALTHY_S = 10.0
"""A watch that lived this long clears the count of failures."""

# --- what happened -----------------------------------------------------------------------------------------


class Begin(msgspec.Struct, frozen=True):
    """The watcher starts."""


class ListDone(msgspec.Struct, Generic[T], frozen=True):
    listed: Listed[T]


class Opened(msgspec.Struct, frozen=True):
    """The watch stands."""


class Got(msgspec.Struct, Generic[T], frozen=True):
    event: WatchEvent[T]


class Ended(msgspec.Struct, frozen=True):
    """The server ended the watch in good order, as it does every few minutes."""


class Failed(msgspec.Struct, frozen=True):
    error: BaroError


class Waited(msgspec.Struct, frozen=True):
    """The delay is over."""


Input: TypeAlias = Begin | ListDone[T] | Opened | Got[T] | Ended | Failed | Waited

# --- what to report ----------------------------------------------------------------------------------------


class Init(msgspec.Struct, frozen=True):
    """A full list follows."""


class InitApply(msgspec.Struct, Generic[T], frozen=True):
    object: T


class InitDone(msgspec.Struct, frozen=True):
    """The list is complete: what was not in it is gone."""


class Apply(msgspec.Struct, Generic[T], frozen=True):
    object: T


class Delete(msgspec.Struct, Generic[T], frozen=True):
    object: T


class Trouble(msgspec.Struct, frozen=True):
    """For the log. The watcher goes on by itself."""

    error: BaroError


Change: TypeAlias = Init | InitApply[T] | InitDone | Apply[T] | Delete[T] | Trouble

# --- what to do next ---------------------------------------------------------------------------------------


class DoList(msgspec.Struct, frozen=True):
    pass


class DoWatch(msgspec.Struct, frozen=True):
    resource_version: str


class DoRead(msgspec.Struct, frozen=True):
    pass


class DoWait(msgspec.Struct, frozen=True):
    seconds: float


Command: TypeAlias = DoList | DoWatch | DoRead | DoWait

# --- states ------------------------------------------------------------------------------------------------


class State(msgspec.Struct, frozen=True):
    """``resource_version`` is where a watch may go on; empty means that only a new list helps.

    ``failures`` in a row decide the delay; ``since`` is when the present watch was opened, on the clock of
    ``step``'s ``now``.
    """

    resource_version: str = ""
    failures: int = 0
    since: float | None = None


class Transition(msgspec.Struct, Generic[T], frozen=True):
    state: State
    command: Command
    changes: tuple[Change[T], ...] = ()


def step(state: State, happened: Input[T], *, now: float, jitter: float) -> Transition[T]:
    """The next state. ``now`` in seconds on any steady clock, ``jitter`` in [0, 1). Pure."""
    match happened:
        case Begin() | Waited():
            return _go(state)
        case ListDone(listed):
            changes: tuple[Change[T], ...] = (Init(), *(InitApply(i) for i in listed.items), InitDone())
            return _go(State(listed.resource_version, state.failures), changes)
        case Opened():
            return Transition(msgspec.structs.replace(state, since=now), DoRead())
        case Got(event):
            return _got(state, event, now, jitter)
        case Ended():
            if _healthy(state, now):
                return _go(State(state.resource_version))
            # A server that ends watches at once would otherwise be asked in a tight loop.
            return _wait(State(state.resource_version, state.failures + 1), jitter)
        case Failed(error):
            return _failed(state, error, now, jitter)


def _go(state: State, changes: tuple[Change[T], ...] = ()) -> Transition[T]:
    command = DoWatch(state.resource_version) if state.resource_version else DoList()
    return Transition(msgspec.structs.replace(state, since=None), command, changes)


def _got(state: State, event: WatchEvent[T], now: float, jitter: float) -> Transition[T]:
    if event.type is EventType.ERROR:
        return _failed(state, event.error or BaroError("the watch failed"), now, jitter)
    state = msgspec.structs.replace(state, resource_version=event.resource_version or state.resource_version)
    if event.object is None:  # a bookmark: only the version moves on
        return Transition(state, DoRead())
    change = Delete(event.object) if event.type is EventType.DELETED else Apply(event.object)
    return Transition(state, DoRead(), (change,))


def _failed(state: State, error: BaroError, now: float, jitter: float) -> Transition[T]:
    failures = 1 if _healthy(state, now) else state.failures + 1
    if isinstance(error, GoneError):
        # Not a fault: the version is too old, list anew. Repeated at once it would be one.
        if failures == 1:
            return _go(State("", failures))
        return _wait(State("", failures), jitter)
    version = state.resource_version
    if isinstance(error, NotFoundError):  # the resource itself is not served (any more)
        version = ""
    at_least = error.retry_after if isinstance(error, BusyError) else None
    return _wait(State(version, failures), jitter, (Trouble(error),), at_least)


def _wait(
    state: State, jitter: float, changes: tuple[Change[T], ...] = (), at_least: float | None = None
) -> Transition[T]:
    full = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(state.failures - 1, 16))
    delay = max(full * (0.5 + jitter / 2), at_least or 0.0)
    return Transition(state, DoWait(delay), changes)


def _healthy(state: State, now: float) -> bool:
    return state.since is not None and now - state.since >= HEALTHY_S


# --- the one that acts -------------------------------------------------------------------------------------


class Watcher(Generic[T]):
    """Runs the machine for one kind in the calling thread and hands every change to ``report``."""

    def __init__(
        self,
        api: KubeApi,
        kind: type[T],
        report: Callable[[Change[T]], None],
        *,
        namespace: str = "",
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._api = api
        self._kind = kind
        self._report = report
        self._namespace = namespace
        self._clock = clock
        self._jitter = jitter
        self._stop = threading.Event()
        self._stream: WatchStream[T] | None = None
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Ends ``run`` soon, also from another thread and in the middle of a read."""
        self._stop.set()
        with self._lock:
            if self._stream is not None:
                self._stream.close()

    def run(self) -> None:
        """Until ``stop``. Raises nothing that a server can cause."""
        state = State()
        happened: Input[T] = Begin()
        events: Iterator[WatchEvent[T]] = iter(())
        while not self._stop.is_set():
            done: Transition[T] = step(state, happened, now=self._clock(), jitter=self._jitter())
            state = done.state
            for change in done.changes:
                self._report(change)
            happened, events = self._do(done.command, events)

    def _do(
        self, command: Command, events: Iterator[WatchEvent[T]]
    ) -> tuple[Input[T], Iterator[WatchEvent[T]]]:
        try:
            match command:
                case DoList():
                    return ListDone(self._api.list(self._kind, self._namespace)), events
                case DoWatch(version):
                    stream = self._api.watch(self._kind, self._namespace, resource_version=version)
                    self._hold(stream)
                    return Opened(), iter(stream)
                case DoRead():
                    event = next(events, None)
                    return (Ended() if event is None else Got(event)), events
                case DoWait(seconds):
                    self._stop.wait(seconds)
                    return Waited(), events
        except BaroError as error:
            return Failed(error), iter(())

    def _hold(self, stream: WatchStream[T]) -> None:
        with self._lock:
            self._stream = stream
        if self._stop.is_set():
            stream.close()
