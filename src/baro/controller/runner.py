"""The planner as a daemon: one thread a watch, one queue, one reconcile loop, a clean stop.

Only the loop's thread touches the view and plans; the watch threads do nothing but put changes into the
queue. A lost server is waited for; a refused call is said once, with verb and resource, and tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from baro.controller.feed import Feed
from baro.controller.reconcile import Planner
from baro.kube.api import KubeApi
from baro.kube.lease import Elector
from baro.model.errors import BaroError

RESYNC_S = 30.0
"""Everybody who did not fit is tried again at least this often."""
ELECTION_S = 2.0
ERROR_PAUSE_S = 1.0


class Controller:
    """Runs a ``Planner`` until told to stop.

    ``clock`` is a steady clock in seconds. With an ``elector`` the loop acts only while it leads.
    """

    def __init__(
        self,
        api: KubeApi,
        planner: Planner,
        *,
        log: Callable[[str], None],
        elector: Elector | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._planner = planner
        self._log = log
        self._elector = elector
        self._clock = clock
        self._stop = threading.Event()
        self._said: set[str] = set()
        self._feed = Feed(api, planner.view, self._say)
        self._resync_at = 0.0
        self._election_at = 0.0

    def stop(self) -> None:
        """From any thread or a signal handler: ends ``run`` after the write that is under way."""
        self._stop.set()
        self._planner.stopping = True
        self._feed.wake()

    def run(self) -> None:
        """Until ``stop``. Gives the lease back at the end."""
        self._feed.start()
        try:
            while not self._stop.is_set():
                self._feed.absorb(self._until_due())
                if self._feed.synced and self._leads():
                    self._act()
        finally:
            self._feed.stop()
            if self._elector is not None:
                self._elector.release()

    def _until_due(self) -> float:
        """Seconds until something is to be done even without news."""
        due: list[float | None] = [RESYNC_S]
        if self._feed.synced and (self._elector is None or self._elector.leads):
            due.append(self._planner.next_try_s())
        if self._elector is not None:
            due.append(ELECTION_S)
        return max(0.0, min(wait for wait in due if wait is not None))

    def _leads(self) -> bool:
        if self._elector is None:
            return True
        if self._clock() >= self._election_at:
            self._election_at = self._clock() + ELECTION_S
            return self._elector.tick()
        return self._elector.leads

    def _act(self) -> None:
        if self._clock() >= self._resync_at:
            self._resync_at = self._clock() + RESYNC_S
            self._planner.retry_all()
        try:
            if self._planner.round():
                self._feed.wake()  # go on at once: more may be due, or something was overtaken
            self._said.clear()
        except BaroError as error:
            self._say(error)
            self._stop.wait(ERROR_PAUSE_S)
            self._feed.wake()  # try again although nothing new came

    def _say(self, error: BaroError) -> None:
        if str(error) not in self._said:
            self._said.add(str(error))
            self._log(str(error))
