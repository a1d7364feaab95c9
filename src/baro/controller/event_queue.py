"""Events written beside the work: threads of their own, a bounded queue, and a count of what was dropped.

Events explain; nothing waits for one, and a server that is slow or refuses them must not keep pods waiting.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from baro.model.errors import BaroError
from baro.model.kinds.base import KubeObject

LIMIT = 1000
"""Events that may wait to be written."""
FLUSH_S = 5.0


class Inner(Protocol):
    """What writes the events, such as ``EventRecorder``."""

    def record(self, about: KubeObject, *, reason: str, message: str, type_: str = "Normal") -> object: ...


class _Event(msgspec.Struct, frozen=True):
    about: KubeObject
    reason: str
    message: str
    type: str


class EventQueue:
    """Takes events at once and hands them to ``inner``: in order with one thread, nearly so with more.

    ``log`` hears what went wrong, each error once, and how many events were dropped.
    """

    def __init__(
        self, inner: Inner, *, log: Callable[[str], None], limit: int = LIMIT, threads: int = 1
    ) -> None:
        self._inner = inner
        self._log = log
        self._limit = limit
        self._waiting: deque[_Event] = deque()
        self._said: set[str] = set()
        self._dropped = 0
        self._closing = False
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, daemon=True, name="baro-events") for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def record(self, about: KubeObject, *, reason: str, message: str, type_: str = "Normal") -> bool:
        """Queues the event; ``False`` when the queue is full, and the event is dropped. From any thread."""
        with self._changed:
            if len(self._waiting) >= self._limit or self._closing:
                self._dropped += 1
                return False
            self._waiting.append(_Event(about, reason, message, type_))
            self._changed.notify()
            return True

    def close(self, timeout_s: float = FLUSH_S) -> None:
        """Writes what is queued, for at most ``timeout_s``, and ends the threads. Twice is fine."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        with self._changed:
            self._dropped += len(self._waiting)
            self._waiting.clear()
        self._report()

    def _run(self) -> None:
        while (event := self._next()) is not None:
            try:
                self._inner.record(event.about, reason=event.reason, message=event.message, type_=event.type)
            except BaroError as error:
                self._failed(error)
            if not self._waiting:
                self._report()

    def _next(self) -> _Event | None:
        """The next event; ``None`` when there will be no more."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            return self._waiting.popleft() if self._waiting else None

    def _failed(self, error: BaroError) -> None:
        with self._changed:
            self._dropped += 1
            known = str(error) in self._said
            self._said.add(str(error))
        if not known:
            self._log(f"an event is not written: {error}")

    def _report(self) -> None:
        with self._changed:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            self._log(f"{dropped} event{'s' if dropped > 1 else ''} not written")
