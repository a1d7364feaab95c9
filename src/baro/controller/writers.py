"""Several actions at a time: API servers answer in milliseconds, and a queue of pods waits for each of them.

Actions of one round concern different pods and different claims, so they may overlap in any way; within an
action the order of writes stays. One writer carries out one action after the other in the calling thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from baro.controller.actions import Action
from baro.controller.effects import Done, Effects


class Writers:
    """``count`` threads over one ``Effects``. ``close`` ends them."""

    def __init__(self, effects: Effects, count: int = 1) -> None:
        self._effects = effects
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="baro-write") if count > 1 else None

    def carry_out(self, actions: Iterable[Action], stopping: Callable[[], bool]) -> Iterator[Done]:
        """What became of each action, in their order. ``actions`` is used up before the first comes back;
        with several writers they begin while it still is.

        After ``stopping`` or an error no further action begins, those under way end, and every one of them
        comes back: an error loses nothing that others wrote. An error of ``actions`` itself is raised last.
        """
        if self._pool is None:
            yield from self._one_by_one(actions, stopping)
        else:
            yield from self._at_once(self._pool, actions, stopping)

    def _one_by_one(self, actions: Iterable[Action], stopping: Callable[[], bool]) -> Iterator[Done]:
        halted = False
        for action in tuple(actions):
            halted = halted or stopping()
            done = Done(action) if halted else self._effects.apply(action)
            halted = halted or done.error is not None
            yield done

    def _at_once(
        self, pool: ThreadPoolExecutor, actions: Iterable[Action], stopping: Callable[[], bool]
    ) -> Iterator[Done]:
        halt = threading.Event()

        def carry_out(action: Action) -> Done:
            if halt.is_set() or stopping():
                return Done(action)
            done = self._effects.apply(action)
            if done.error is not None:
                halt.set()
            return done

        begun: list[Future[Done]] = []
        broken: Exception | None = None
        try:
            try:
                for action in actions:
                    begun.append(pool.submit(carry_out, action))
            except Exception as error:
                halt.set()
                broken = error
            for future in begun:
                yield future.result()
        finally:
            halt.set()  # the caller was interrupted: what has not begun must not begin any more
        if broken is not None:
            raise broken

    def close(self) -> None:
        """Waits for what is under way. Nothing can be carried out afterwards."""
        if self._pool is not None:
            self._pool.shutdown()
