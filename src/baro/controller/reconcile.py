"""Plan, apply, again: the loop around the pure planner, with its memory of what need not be tried yet.

The memory is about time only (back-off, "nothing changed since it did not fit"); forgetting it costs a few
needless tries and never a wrong write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import msgspec

from baro.controller.actions import (
    Action,
    Allocate,
    DropFinalizer,
    Explain,
    Intend,
    Nominate,
    Release,
    Shield,
    Ungate,
    Unshield,
    Wait,
    Withdraw,
)
from baro.controller.effects import Done, Effects, Outcome, Recorder
from baro.controller.placer import Placer
from baro.controller.planner import plan
from baro.controller.pods import gated
from baro.controller.rivals import Rivals
from baro.controller.terms import Memory, Settings
from baro.controller.view import View
from baro.controller.writers import Writers
from baro.kube.api import KubeApi
from baro.kube.events import EventRecorder
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim

RETRY_FIRST_S = 0.5
RETRY_MAX_S = 60.0
LEFTOVER_S = 5.0
"""A claim without allocation but with finalizer is what the claim controller leaves for a moment between its
own two writes; only after this long it is taken for something that an interruption left. A taint rule whose
device nobody holds stays as long, so that kube-scheduler has heard of that as well."""
ROUNDS = 1000
"""Bound of ``settle``: more rounds mean that two writers undo each other's work."""
FRESH_S = 5.0
"""An allocation that this process wrote, and that the watch has shown, is not read again before ungating when
it is no older than this."""


class _Tries(msgspec.Struct):
    """What is remembered of one pod. ``no_fit_at`` is the view's generation when it did not fit."""

    allocations: int = 0
    not_before: datetime | None = None
    refusals: int = 0
    """How often the server refused to take the gate off."""
    gated_until: datetime | None = None
    no_fit_at: int | None = None


class Planner:
    """One planner over one server. ``log`` gets a line for everything that was written.

    ``writers`` is how many pods are written at a time. ``events`` is where events go; by default each is
    written by whoever has it to say. ``close`` ends what was started.
    """

    def __init__(
        self,
        api: KubeApi,
        placer: Placer,
        *,
        settings: Settings | None = None,
        utc: Callable[[], datetime] = lambda: datetime.now(UTC),
        log: Callable[[str], None] = lambda line: None,
        writers: int = 1,
        events: Recorder | None = None,
    ) -> None:
        self.view = View()
        self.stopping = False
        """Set by another thread: the round under way ends after the actions that have begun."""
        self._api = api
        self._placer = placer
        self._settings = settings or Settings()
        self._utc = utc
        self._log = log
        recorder = events or EventRecorder(api, component="baro", utc=utc)
        self._effects = Effects(api, recorder, utc=utc, log=log)
        self._writers = Writers(self._effects, writers)
        self._tries: dict[str, _Tries] = {}
        self._written: dict[str, tuple[str, datetime]] = {}
        self._leftovers: dict[str, datetime] = {}
        self._rivals = Rivals()
        self._look_at: datetime | None = None
        self._deferred_s: float | None = None

    def close(self) -> None:
        """Waits for the writes that are under way. The planner cannot be used afterwards."""
        self._writers.close()

    def settle(self, pause: Callable[[float], None] | None = None) -> None:
        """For ``--once`` and tests: fresh lists, plan, apply, until there is nothing more to write.

        With ``pause``, which sleeps for so many seconds, kube-scheduler goes first as it does beside a
        daemon; without it nobody waits for anybody.
        """
        for _ in range(ROUNDS):
            self.view.load(self._api)
            if self._round(patient=False, defer=pause is not None):
                continue
            if pause is None or self._deferred_s is None:
                return
            pause(self._deferred_s)

    def round(self, *, patient: bool = True) -> bool:
        """One plan on the view as it stands, and its effects. True when anything but an event was written.

        ``patient``: leftovers are given a moment to go by themselves, and kube-scheduler goes first.
        ``ForbiddenError`` and ``UnreachableError`` pass through; what was written before them stands, and is
        remembered.
        """
        return self._round(patient=patient, defer=patient)

    def _round(self, *, patient: bool, defer: bool) -> bool:
        now = self._utc()
        memory = Memory(
            self._skip(now), self._barred(now), written=self._fresh(now), shields=self._effects.may_shield
        )
        if defer:
            rivals = self._rivals
            rivals.look(self.view, now)
            memory = msgspec.structs.replace(memory, quiet_s=rivals.quiet_s, exposure=rivals.exposure)
        planned = plan(self.view, now, self._placer, self._settings, memory)
        generation = self.view.generation
        wrote, error = False, None
        with closing(planned):
            for done in self._writers.carry_out(self._due(planned, now, patient), lambda: self.stopping):
                if done.outcome is Outcome.NOT_BEGUN:
                    continue
                # Trying at once what was just refused would meet the same answer.
                wrote |= not isinstance(done.action, Explain) and done.outcome is not Outcome.REFUSED
                self._absorb(done)
                if done.error is not None:
                    error = error or done.error
                    continue
                self._remember(done.action, done.outcome, now, generation)
                if not isinstance(done.action, Explain):
                    self._log(_line(done.action, done.outcome))
        if error is not None:
            raise error
        return wrote

    def _absorb(self, done: Done) -> None:
        """What the server answered, into the view."""
        for obj in done.seen:
            self.view.ahead(obj)
        for obj in done.gone:
            self.view.removed(obj)
        if isinstance(done.action, Allocate) and done.outcome is Outcome.DONE:
            now = self._utc()
            for obj in done.seen:
                if isinstance(obj, ResourceClaim) and obj.status.allocation is not None:
                    self._written[obj.metadata.uid] = (obj.metadata.resource_version, now)

    def _fresh(self, now: datetime) -> dict[str, str]:
        """Versions of the claims that this process allocated a moment ago."""
        oldest = now - timedelta(seconds=FRESH_S)
        self._written = {uid: entry for uid, entry in self._written.items() if entry[1] >= oldest}
        return {uid: version for uid, (version, _) in self._written.items()}

    def _due(self, planned: Iterator[Action], now: datetime, patient: bool) -> Iterator[Action]:
        """What is to be carried out now; notes when to look again at the rest."""
        waits: list[Wait] = []
        leftovers: dict[str, datetime] = {}
        for action in planned:
            if isinstance(action, Wait):
                waits.append(action)
            elif patient and isinstance(action, DropFinalizer | Unshield):
                left = action.claim if isinstance(action, DropFinalizer) else action.rule
                uid = left.metadata.uid
                seen = leftovers[uid] = self._leftovers.get(uid, now)
                if (now - seen).total_seconds() >= LEFTOVER_S:
                    yield action
            else:
                yield action
        self._leftovers = leftovers
        self._look_at = now + timedelta(seconds=min(w.seconds for w in waits)) if waits else None
        deferred = [wait.seconds for wait in waits if wait.for_scheduler]
        self._deferred_s = min(deferred) if deferred else None

    def waiting(self) -> tuple[Pod, ...]:
        """Pods that still carry baro's gate, as the view has them."""
        settings, found = self._settings, self.view.all(Pod).values()
        return tuple(
            pod for pod in found if gated(pod) and settings.namespace in ("", pod.metadata.namespace)
        )

    def next_try_s(self) -> float | None:
        """Seconds until something is due without news, such as the end of a back-off. ``None``: never."""
        now = self._utc()
        moments = [moment for t in self._tries.values() for moment in (t.not_before, t.gated_until) if moment]
        waits = [(moment - now).total_seconds() for moment in moments]
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

    def _barred(self, now: datetime) -> frozenset[str]:
        for tries in self._tries.values():
            if tries.gated_until and tries.gated_until <= now:
                tries.gated_until = None
        return frozenset(uid for uid, tries in self._tries.items() if tries.gated_until)

    def _remember(self, action: Action, outcome: Outcome, now: datetime, generation: int) -> None:
        if isinstance(action, Explain) and action.reason == "NoPlacement":
            self._tries.setdefault(action.pod.metadata.uid, _Tries()).no_fit_at = generation
        elif isinstance(action, Allocate) and outcome in (Outcome.DONE, Outcome.REFUSED):
            tries = self._tries.setdefault(action.pod.metadata.uid, _Tries())
            tries.allocations += 1
            # The first placement costs nothing. Placed again and again, somebody takes it away each time.
            if tries.allocations > 1 or outcome is Outcome.REFUSED:
                tries.not_before = now + _delay(tries.allocations)
        elif isinstance(action, Ungate) and outcome is Outcome.REFUSED:
            tries = self._tries.setdefault(action.pod.metadata.uid, _Tries())
            tries.refusals += 1
            tries.gated_until = now + _delay(tries.refusals)


def _delay(times: int) -> timedelta:
    return timedelta(seconds=min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(times - 1, 16)))


def _line(action: Action, outcome: Outcome) -> str:
    match action:
        case Nominate(pod=pod, node=node):
            subject, text = pod.ref, node or "no node"
        case Allocate(pod=pod, reason=text) | Intend(pod=pod, reason=text) | Ungate(pod=pod, reason=text):
            subject = pod.ref
        case Release(claim=claim, why=text) | Withdraw(claim=claim, why=text):
            subject = claim.ref
        case DropFinalizer(claim=claim):
            subject, text = claim.ref, "nothing holds it any more"
        case Shield(device=device, why=text):
            subject = str(device)
        case Unshield(rule=rule):
            subject, text = rule.ref, "nobody holds its device any more"
        case Explain(pod=pod, message=text):
            subject = pod.ref
        case Wait(seconds=seconds):
            subject, text = "everybody", f"{seconds:.1f} s"
    return f"{type(action).__name__} {subject}: {outcome} ({text})"
