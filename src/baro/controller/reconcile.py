"""Plan, apply, again: the loop around the pure planner, with its memory of what need not be tried yet.

The memory is about time only (back-off, "nothing changed since it did not fit"); forgetting it costs a few
needless tries and never a wrong write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from baro.controller.actions import (
    Action,
    Allocate,
    DropFinalizer,
    Explain,
    Intend,
    Release,
    Ungate,
    Wait,
    Withdraw,
)
from baro.controller.effects import Effects, Outcome
from baro.controller.placer import Placer
from baro.controller.planner import Settings, plan
from baro.controller.pods import gated
from baro.controller.rivals import Rivals
from baro.controller.view import View
from baro.kube.api import KubeApi
from baro.model.kinds.core import Pod

RETRY_FIRST_S = 0.5
RETRY_MAX_S = 60.0
LEFTOVER_S = 5.0
"""A claim without allocation but with finalizer is what the claim controller leaves for a moment between its
own two writes; only after this long it is taken for something that an interruption left."""
ROUNDS = 1000
"""Bound of ``settle``: more rounds mean that two writers undo each other's work."""


class _Tries(msgspec.Struct):
    """What is remembered of one pod. ``no_fit_at`` is the view's generation when it did not fit."""

    allocations: int = 0
    not_before: datetime | None = None
    no_fit_at: int | None = None


class Planner:
    """One planner over one server. ``log`` gets a line for everything that was written."""

    def __init__(
        self,
        api: KubeApi,
        placer: Placer,
        *,
        settings: Settings | None = None,
        utc: Callable[[], datetime] = lambda: datetime.now(UTC),
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.view = View()
        self.stopping = False
        """Set by another thread: the round under way ends after the present action."""
        self._api = api
        self._placer = placer
        self._settings = settings or Settings()
        self._utc = utc
        self._log = log
        self._effects = Effects(api, self.view, utc=utc)
        self._tries: dict[str, _Tries] = {}
        self._leftovers: dict[str, datetime] = {}
        self._rivals = Rivals()
        self._look_at: datetime | None = None

    def settle(self) -> None:
        """For ``--once`` and tests: fresh lists, plan, apply, until there is nothing more to write."""
        for _ in range(ROUNDS):
            self.view.load(self._api)
            if not self.round(patient=False):
                return

    def round(self, *, patient: bool = True) -> bool:
        """One plan on the view as it stands, and its effects. True when anything but an event was written.

        ``patient``: leftovers are given a moment to go by themselves, and kube-scheduler goes first.
        ``ForbiddenError`` and ``UnreachableError`` pass through; what was written before them stands.
        """
        now = self._utc()
        quiet_s = self._rivals.quiet_s(self.view, now) if patient else math.inf
        planned = plan(self.view, now, self._placer, self._settings, self._skip(now), quiet_s)
        waits = [action.seconds for action in planned if isinstance(action, Wait)]
        self._look_at = now + timedelta(seconds=min(waits)) if waits else None
        actions: tuple[Action, ...] = tuple(action for action in planned if not isinstance(action, Wait))
        if patient:
            actions = self._ripe(actions, now)
        generation = self.view.generation
        for action in actions:
            if self.stopping:
                break
            outcome = self._effects.apply(action)
            self._remember(action, outcome, now, generation)
            if not isinstance(action, Explain):
                self._log(_line(action, outcome))
        return any(not isinstance(action, Explain) for action in actions)

    def _ripe(self, actions: Sequence[Action], now: datetime) -> tuple[Action, ...]:
        """Without the leftovers that were first seen a moment ago."""
        leftovers = {a.claim.metadata.uid for a in actions if isinstance(a, DropFinalizer)}
        self._leftovers = {uid: self._leftovers.get(uid, now) for uid in leftovers}
        old = {uid for uid, seen in self._leftovers.items() if (now - seen).total_seconds() >= LEFTOVER_S}
        return tuple(a for a in actions if not isinstance(a, DropFinalizer) or a.claim.metadata.uid in old)

    def waiting(self) -> tuple[Pod, ...]:
        """Pods that still carry baro's gate, as the view has them."""
        settings, found = self._settings, self.view.all(Pod).values()
        return tuple(
            pod for pod in found if gated(pod) and settings.namespace in ("", pod.metadata.namespace)
        )

    def next_try_s(self) -> float | None:
        """Seconds until something is due without news, such as the end of a back-off. ``None``: never."""
        now = self._utc()
        waits = [(t.not_before - now).total_seconds() for t in self._tries.values() if t.not_before]
        waits += [(self._look_at - now).total_seconds()] if self._look_at else []
        waits += [LEFTOVER_S - (now - seen).total_seconds() for seen in self._leftovers.values()]
        return max(0.0, min(waits)) if waits else None

    def retry_all(self) -> None:
        """Forgets who did not fit, so that the next round tries everybody (the periodic resync)."""
        live = {pod.metadata.uid for pod in self.view.all(Pod).values()}
        self._tries = {uid: tries for uid, tries in self._tries.items() if uid in live}
        for tries in self._tries.values():
            tries.no_fit_at = None
        self._effects.forget(live)

    def _skip(self, now: datetime) -> frozenset[str]:
        for tries in self._tries.values():
            if tries.not_before and tries.not_before <= now:
                tries.not_before = None
        return frozenset(
            uid
            for uid, tries in self._tries.items()
            if tries.no_fit_at == self.view.generation or tries.not_before
        )

    def _remember(self, action: Action, outcome: Outcome, now: datetime, generation: int) -> None:
        if isinstance(action, Explain) and action.reason == "NoPlacement":
            self._tries.setdefault(action.pod.metadata.uid, _Tries()).no_fit_at = generation
        elif isinstance(action, Allocate) and outcome is not Outcome.OVERTAKEN:
            tries = self._tries.setdefault(action.pod.metadata.uid, _Tries())
            tries.allocations += 1
            # The first placement costs nothing. Placed again and again, somebody takes it away each time.
            if tries.allocations > 1 or outcome is Outcome.REFUSED:
                delay = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(tries.allocations - 1, 16))
                tries.not_before = now + timedelta(seconds=delay)


def _line(action: Action, outcome: Outcome) -> str:
    match action:
        case Allocate(pod=pod, reason=text) | Intend(pod=pod, reason=text) | Ungate(pod=pod, reason=text):
            subject = pod.ref
        case Release(claim=claim, why=text) | Withdraw(claim=claim, why=text):
            subject = claim.ref
        case DropFinalizer(claim=claim):
            subject, text = claim.ref, "nothing holds it any more"
        case Explain(pod=pod, message=text):
            subject = pod.ref
        case Wait(seconds=seconds):
            subject, text = "everybody", f"{seconds:.1f} s"
    return f"{type(action).__name__} {subject}: {outcome} ({text})"
