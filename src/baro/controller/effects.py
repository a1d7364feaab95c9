"""Carries out what the planner decided: the writes, their order, and what each failure means.

The order within ``Allocate`` is the protocol's: finalizer first (without it the device leaks), then
allocation and reservation in one write (an allocation without the live pod's reservation is never
collected, a reservation without an allocation is refused). Each write is guarded by the version that was
planned on. Stopping anywhere in between loses nothing: see ``planner``.

Nothing here reads or changes the view, so actions about different pods may be carried out by different
threads; what the server answered is in ``Done``, for the thread that owns the view.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from baro.controller.actions import (
    Action,
    Allocate,
    ClaimWrite,
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
from baro.controller.marks import announced, intent, mark, reservation, reserved_for
from baro.controller.pods import gated
from baro.controller.shields import body as taint_rule
from baro.kube.api import KubeApi, guard
from baro.kube.errors import AlreadyExistsError, ConflictError, InvalidError, NotFoundError
from baro.model.errors import ForbiddenError
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import FINALIZER, AllocationResult, DeviceTaintRule, ResourceClaim
from baro.model.names import ALLOCATED_BY, INTENT, PLACEMENT_GATE, REASON_ANNOTATION

REPEAT_S = 300.0
"""The same explanation is counted again on its event at most this often."""
SAID = 32
"""So many refusals are remembered, not to be logged again and again."""


class Outcome(StrEnum):
    DONE = "done"
    OVERTAKEN = "overtaken"
    """Somebody else changed or removed the object: plan again from fresh state."""
    REFUSED = "refused"
    """The server's validation refuses the write: baro's or the claim's fault; retried with back-off."""
    NOT_BEGUN = "not begun"
    """The planner is being stopped, or another action of the round failed."""
    FAILED = "failed"
    """Broken off by ``Done.error``. What was written before it stands and is in ``Done.seen``."""


class Done(msgspec.Struct):
    """What became of one action: also what the server answered on the way, oldest first."""

    action: Action
    outcome: Outcome = Outcome.NOT_BEGUN
    seen: list[KubeObject] = msgspec.field(default_factory=list)
    """Objects as the server gave them."""
    gone: list[KubeObject] = msgspec.field(default_factory=list)
    """Objects that are there no more, as they were last known."""
    error: BaseException | None = None


class Recorder(Protocol):
    """Where events go: ``baro.kube.events.EventRecorder``, or a queue before it."""

    def record(self, about: KubeObject, *, reason: str, message: str, type_: str = "Normal") -> object:
        """Says ``message`` about the object. ``False``: it was dropped, and may be said again later."""
        ...


class Effects:
    """Applies actions over one ``KubeApi``. ``log`` hears what goes on without, such as a missing right."""

    def __init__(
        self,
        api: KubeApi,
        events: Recorder,
        *,
        utc: Callable[[], datetime],
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._api = api
        self._events = events
        self._utc = utc
        self._log = log
        self._told: dict[tuple[str, str], tuple[str, datetime]] = {}
        self._said: list[str] = []
        self._may_nominate = True
        self.may_shield = True
        """Whether the server takes taint rules of baro's, as far as is known."""

    def apply(self, action: Action) -> Done:
        """One action. Never raises: what breaks it off is ``Done.error``, even ``BaseException``."""
        done = Done(action)
        try:
            done.outcome = self._attempt(action, done)
        except BaseException as error:
            done.outcome, done.error = Outcome.FAILED, error
        return done

    def _attempt(self, action: Action, done: Done) -> Outcome:
        try:
            return self._apply(action, done)
        except (ConflictError, NotFoundError):
            self._refresh(action, done)
            return Outcome.OVERTAKEN
        except InvalidError as error:
            self._say(f"the server refuses {type(action).__name__}: {error}")
            if isinstance(action, Allocate | Ungate):
                self._explain(Explain(action.pod, "PlacementRefused", str(error)))
            return Outcome.REFUSED

    def _apply(self, action: Action, done: Done) -> Outcome:
        match action:
            case Allocate():
                for write in action.writes:
                    self._allocate(action.pod, write, action.reason, done)
            case Intend():
                for write in action.writes:
                    self._intend(write, action.reason, done)
            case Withdraw():
                self._patch(action.claim, {"annotations": {INTENT: None}}, done)
            case Ungate():
                return self._ungate(action, done)
            case Nominate():
                self._nominate(action.pod, action.node, done)
            case Release():
                if self._ungated_meanwhile(action.while_gated, done):
                    return Outcome.OVERTAKEN
                claim = self._release(action.claim, done)
                if action.drop_finalizer:
                    self._drop_finalizer(claim, done)
            case DropFinalizer():
                self._drop_finalizer(action.claim, done)
            case Shield() | Unshield():
                return self._taint(action, done)
            case Explain():
                self._explain(action)
            case Wait():
                pass
        return Outcome.DONE

    def _refresh(self, action: Action, done: Done) -> None:
        """Reads anew what an overtaken action was about, so that the next plan need not wait for a watch."""
        match action:
            case Allocate() | Intend():
                stale: list[KubeObject] = [action.pod, *(write.claim for write in action.writes)]
            case Ungate():
                stale = [action.pod, *action.verify]
            case Release() | DropFinalizer() | Withdraw():
                stale = [action.claim]
            case Explain() | Nominate():
                stale = [action.pod]
            case Unshield():
                stale = []
                done.gone.append(action.rule)  # deleted, or replaced, which a watch will tell
            case Shield() | Wait():
                stale = []
        for old in stale:
            try:
                done.seen.append(self._api.get(type(old), old.metadata.namespace, old.metadata.name))
            except NotFoundError:
                done.gone.append(old)

    # --- claims --------------------------------------------------------------------------------------------

    def _allocate(self, pod: Pod, write: ClaimWrite, reason: str, done: Done) -> None:
        claim = write.claim
        consumers = (*claim.status.reserved_for, reservation(pod))
        status: dict[str, Any] = {"reservedFor": [msgspec.to_builtins(consumer) for consumer in consumers]}
        if write.allocation is not None:
            if intent(claim) != write.allocation:
                claim = self._prepare(claim, write.allocation, reason, None, done)
            status["allocation"] = msgspec.to_builtins(write.allocation)
        self._patch_status(claim, status, done)

    def _intend(self, write: ClaimWrite, reason: str, done: Done) -> None:
        if write.allocation is not None:
            self._prepare(write.claim, write.allocation, reason, announced(write.allocation), done)

    def _prepare(
        self, claim: ResourceClaim, allocation: AllocationResult, reason: str, meant: str | None, done: Done
    ) -> ResourceClaim:
        """Finalizer and annotations, unless they are all there already."""
        annotations = {ALLOCATED_BY: mark(allocation), REASON_ANNOTATION: reason, INTENT: meant}
        have = claim.metadata.annotations
        if FINALIZER in claim.metadata.finalizers and all(have.get(k) == v for k, v in annotations.items()):
            return claim
        finalizers = [*(f for f in claim.metadata.finalizers if f != FINALIZER), FINALIZER]
        return self._patch(claim, {"annotations": annotations, "finalizers": finalizers}, done)

    def _release(self, claim: ResourceClaim, done: Done) -> ResourceClaim:
        status: dict[str, Any] = {"allocation": None, "reservedFor": None}
        if claim.status.devices:  # only of allocated devices; drivers write it, so it is rarely there
            status["devices"] = None
        return self._patch_status(claim, status, done)

    def _ungated_meanwhile(self, consumers: tuple[Pod, ...], done: Done) -> bool:
        """Whether a consumer that was held for gated no longer is: it then has the better right."""
        for pod in consumers:
            live = self._api.get(Pod, pod.metadata.namespace, pod.metadata.name)
            if not gated(live):
                done.seen.append(live)
        return bool(done.seen)

    def _drop_finalizer(self, claim: ResourceClaim, done: Done) -> None:
        left = [finalizer for finalizer in claim.metadata.finalizers if finalizer != FINALIZER]
        annotations = {ALLOCATED_BY: None, REASON_ANNOTATION: None, INTENT: None}
        self._patch(claim, {"annotations": annotations, "finalizers": left or None}, done)

    def _patch(self, claim: ResourceClaim, metadata: dict[str, Any], done: Done) -> ResourceClaim:
        body = {"metadata": {**guard(claim), **metadata}}
        meta = claim.metadata
        answer = self._api.patch_merge(ResourceClaim, meta.namespace, meta.name, body)
        done.seen.append(answer)
        return answer

    def _patch_status(self, claim: ResourceClaim, status: dict[str, Any], done: Done) -> ResourceClaim:
        body = {"metadata": guard(claim), "status": status}
        meta = claim.metadata
        answer = self._api.patch_merge(ResourceClaim, meta.namespace, meta.name, body, "status")
        done.seen.append(answer)
        return answer

    # --- devices -------------------------------------------------------------------------------------------

    def _taint(self, action: Shield | Unshield, done: Done) -> Outcome:
        """Without the right to it, or on a server that takes no such rules, conflicts are settled without."""
        try:
            if isinstance(action, Unshield):
                meta = action.rule.metadata
                self._api.delete(DeviceTaintRule, "", meta.name, uid=meta.uid)
                done.gone.append(action.rule)
            else:
                body = taint_rule(action.device, action.why)
                done.seen.append(self._api.create(DeviceTaintRule, "", body))
        except AlreadyExistsError:
            pass  # another planner's, which the watch will show
        except (ForbiddenError, NotFoundError, InvalidError) as error:
            if isinstance(action, Shield):
                self.may_shield = False
                self._say(f"kube-scheduler is not kept off devices that are held twice: {error}")
            elif isinstance(error, ForbiddenError):
                self._say(f"the taint of a device that was held twice stays: {error}")
                return Outcome.REFUSED
            else:
                raise
        return Outcome.DONE

    # --- pods ----------------------------------------------------------------------------------------------

    def _ungate(self, action: Ungate, done: Done) -> Outcome:
        pod = action.pod
        for planned in action.verify:
            meta = planned.metadata
            live = self._api.get(ResourceClaim, meta.namespace, meta.name)
            done.seen.append(live)
            same = live.metadata.uid == meta.uid and live.status.allocation == planned.status.allocation
            if not same or not reserved_for(live, pod):
                return Outcome.OVERTAKEN  # the controller or the scheduler took it back
        if action.node is not None and pod.status.nominated_node_name != action.node:
            pod = self._nominate(pod, action.node, done)
        gates = [{"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != PLACEMENT_GATE]
        body = {
            "metadata": {**guard(pod), "annotations": {REASON_ANNOTATION: action.reason}},
            "spec": {"schedulingGates": gates or None},
        }
        answer = self._api.patch_merge(Pod, pod.metadata.namespace, pod.metadata.name, body)
        done.seen.append(answer)
        self._events.record(answer, reason="Placed", message=action.reason)
        return Outcome.DONE

    def _nominate(self, pod: Pod, node: str, done: Done) -> Pod:
        """A hint that saves kube-scheduler a look at every node. Placement works without the right to it, and
        for a pod whose nomination the server refuses.
        """
        if not self._may_nominate:
            return pod
        body = {"metadata": guard(pod), "status": {"nominatedNodeName": node or None}}
        try:
            answer = self._api.patch_merge(Pod, pod.metadata.namespace, pod.metadata.name, body, "status")
        except ForbiddenError as error:
            self._may_nominate = False
            self._log(f"pods are placed without nominating their node to kube-scheduler: {error}")
            return pod
        except InvalidError as error:
            # The version is compared before anything is judged, so the pod has not been bound in between.
            self._say(f"{pod.ref} is placed without nominating its node to kube-scheduler: {error}")
            return pod
        done.seen.append(answer)
        return answer

    def _explain(self, action: Explain) -> None:
        key, text, now = (action.pod.metadata.uid, action.reason), action.message, self._utc()
        told = self._told.get(key)
        if told is not None and told[0] == text and (now - told[1]).total_seconds() < REPEAT_S:
            return
        kept = self._events.record(action.pod, reason=action.reason, message=text, type_=action.type)
        if kept is not False:
            self._told[key] = (text, now)

    def _say(self, line: str) -> None:
        """Into the log, the same only once while it is among the latest."""
        if line not in self._said:
            self._said = [*self._said[1 - SAID :], line]
            self._log(line)

    def forget(self, live: set[str]) -> None:
        """Drops what was told to pods that are gone. ``live`` are the uids there are."""
        self._told = {key: told for key, told in self._told.items() if key[0] in live}
