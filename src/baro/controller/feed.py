"""From watches into a view: one thread a kind, one queue, taken in by the thread that owns the view."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from baro.controller.view import KINDS, OPTIONAL, View
from baro.kube.api import KubeApi
from baro.kube.errors import NotFoundError
from baro.kube.watch import Apply, Change, Delete, Init, InitApply, InitDone, Trouble, Watcher
from baro.model.errors import BaroError
from baro.model.kinds.base import KubeObject

News = tuple[type[KubeObject], Change[KubeObject]]


class Feed:
    """Keeps a ``View`` up to date. ``trouble`` hears what goes wrong; the watches go on by themselves."""

    def __init__(self, api: KubeApi, view: View, trouble: Callable[[BaroError], None]) -> None:
        self._view = view
        self._trouble = trouble
        self._news: queue.SimpleQueue[News | None] = queue.SimpleQueue()
        self._lists: dict[type[KubeObject], list[KubeObject]] = {}
        self._synced: set[type[KubeObject]] = set()
        self._watchers = [Watcher(api, kind, self._reporter(kind)) for kind in KINDS]
        self._threads: list[threading.Thread] = []

    def _reporter(self, kind: type[KubeObject]) -> Callable[[Change[KubeObject]], None]:
        return lambda change: self._news.put((kind, change))

    @property
    def synced(self) -> bool:
        """Whether every kind was listed at least once: before that, nothing may be decided."""
        return len(self._synced) == len(KINDS)

    def start(self) -> None:
        """Starts the watch threads."""
        for watcher in self._watchers:
            thread = threading.Thread(target=watcher.run, daemon=True, name="baro-watch")
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Ends the watch threads, also in the middle of a read, and waits for them."""
        for watcher in self._watchers:
            watcher.stop()
        for thread in self._threads:
            thread.join(timeout=5)

    def wake(self) -> None:
        """From any thread: makes ``absorb`` return although there is no news."""
        self._news.put(None)

    def absorb(self, timeout_s: float) -> None:
        """Waits for news, at most ``timeout_s``, and takes in all there is."""
        try:
            item = self._news.get(timeout=timeout_s)
            while True:
                if item is not None:
                    self._take(*item)
                item = self._news.get_nowait()
        except queue.Empty:
            return

    def _take(self, kind: type[KubeObject], change: Change[KubeObject]) -> None:
        match change:
            case Init():
                self._lists[kind] = []
            case InitApply(object=obj):
                self._lists[kind].append(obj)
            case InitDone():
                self._view.swap(kind, self._lists.pop(kind, []))
                self._synced.add(kind)
            case Apply(object=obj):
                self._view.observed(obj)
            case Delete(object=obj):
                self._view.deleted(obj)
            case Trouble(error=error):
                if isinstance(error, NotFoundError) and kind in OPTIONAL:
                    self._view.swap(kind, [])  # not served here: none exist
                    self._synced.add(kind)
                else:
                    self._trouble(error)
