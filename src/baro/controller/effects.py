"""Carries out what the planner decided: the writes, their order, and what each failure means.

The order within ``Allocate`` is the protocol's: finalizer first (without it the device leaks), then
allocation and reservation in one write (an allocation without the live pod's reservation is never
collected, a reservation without an allocation is refused). Each write is guarded by the version that was
planned on; each answer goes into the view. Stopping anywhere in between loses nothing: see ``planner``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from baro.controller.actions import (
    Action,
    Allocate,
    ClaimWrite,
    DropFinalizer,
    Explain,
    Intend,
    Release,
    Ungate,
    Withdraw,
)
from baro.controller.marks import announced, intent, mark, reserved_for
from baro.controller.planner import reservation
from baro.controller.pods import gated
from baro.controller.view import View
from baro.kube.api import KubeApi, guard
from baro.kube.errors import ConflictError, InvalidError, NotFoundError
from baro.kube.events import EventRecorder
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import FINALIZER, AllocationResult, ResourceClaim
from baro.model.names import ALLOCATED_BY, INTENT, PLACEMENT_GATE, REASON_ANNOTATION

REPEAT_S = 300.0
"""The same explanation is counted again on its event at most this often."""


class Outcome(StrEnum):
    DONE = "done"
    OVERTAKEN = "overtaken"
    """Somebody else changed or removed the object: plan again from fresh state."""
    REFUSED = "refused"
    """The server's validation refuses the write: baro's or the claim's fault; retried with back-off."""


class Effects:
    """Applies actions over one ``KubeApi`` and keeps the view in step."""

    def __init__(self, api: KubeApi, view: View, *, utc: Callable[[], datetime]) -> None:
        self._api = api
        self._view = view
        self._utc = utc
        self._events = EventRecorder(api, component="baro", utc=utc)
        self._told: dict[str, tuple[str, datetime]] = {}

    def apply(self, action: Action) -> Outcome:
        """One action. ``ForbiddenError`` and ``UnreachableError`` pass through to the caller."""
        try:
            match action:
                case Allocate():
                    for write in action.writes:
                        self._allocate(action.pod, write, action.reason)
                case Intend():
                    for write in action.writes:
                        self._intend(write, action.reason)
                case Withdraw():
                    self._patch(action.claim, {"annotations": {INTENT: None}})
                case Ungate():
                    return self._ungate(action)
                case Release():
                    if action.contested and self._ungated_meanwhile(action.claim):
                        return Outcome.OVERTAKEN
                    claim = self._release(action.claim)
                    if action.drop_finalizer:
                        self._drop_finalizer(claim)
                case DropFinalizer():
                    self._drop_finalizer(action.claim)
                case Explain():
                    self._explain(action)
        except (ConflictError, NotFoundError):
            self._refresh(action)
            return Outcome.OVERTAKEN
        except InvalidError as error:
            if isinstance(action, Allocate):
                self._explain(Explain(action.pod, "PlacementRefused", str(error)))
            return Outcome.REFUSED
        return Outcome.DONE

    def _refresh(self, action: Action) -> None:
        """Reads anew what an overtaken action was about, so that the next plan need not wait for a watch."""
        match action:
            case Allocate() | Intend():
                stale: list[KubeObject] = [action.pod, *(write.claim for write in action.writes)]
            case Ungate():
                stale = [action.pod, *action.claims]
            case Release() | DropFinalizer() | Withdraw():
                stale = [action.claim]
            case Explain():
                stale = [action.pod]
        for old in stale:
            try:
                self._view.ahead(self._api.get(type(old), old.metadata.namespace, old.metadata.name))
            except NotFoundError:
                self._view.deleted(old)

    # --- claims --------------------------------------------------------------------------------------------

    def _allocate(self, pod: Pod, write: ClaimWrite, reason: str) -> None:
        claim = write.claim
        consumers = (*claim.status.reserved_for, reservation(pod))
        status: dict[str, Any] = {"reservedFor": [msgspec.to_builtins(consumer) for consumer in consumers]}
        if write.allocation is not None:
            if intent(claim) != write.allocation:
                claim = self._prepare(claim, write.allocation, reason, None)
            status["allocation"] = msgspec.to_builtins(write.allocation)
        self._patch_status(claim, status)

    def _intend(self, write: ClaimWrite, reason: str) -> None:
        if write.allocation is not None:
            self._prepare(write.claim, write.allocation, reason, announced(write.allocation))

    def _prepare(
        self, claim: ResourceClaim, allocation: AllocationResult, reason: str, meant: str | None
    ) -> ResourceClaim:
        """Finalizer and annotations, unless they are all there already."""
        annotations = {ALLOCATED_BY: mark(allocation), REASON_ANNOTATION: reason, INTENT: meant}
        have = claim.metadata.annotations
        if FINALIZER in claim.metadata.finalizers and all(have.get(k) == v for k, v in annotations.items()):
            return claim
        finalizers = [*(f for f in claim.metadata.finalizers if f != FINALIZER), FINALIZER]
        return self._patch(claim, {"annotations": annotations, "finalizers": finalizers})

    def _release(self, claim: ResourceClaim) -> ResourceClaim:
        status: dict[str, Any] = {"allocation": None, "reservedFor": None}
        if claim.status.devices:  # only of allocated devices; drivers write it, so it is rarely there
            status["devices"] = None
        return self._patch_status(claim, status)

    def _ungated_meanwhile(self, claim: ResourceClaim) -> bool:
        """Whether a consumer that the view holds for gated no longer is: it then has the better right."""
        changed = False
        for consumer in claim.status.reserved_for:
            held = self._view.find(Pod, claim.metadata.namespace, consumer.name)
            live = self._api.get(Pod, claim.metadata.namespace, consumer.name) if held is not None else None
            if held is not None and live is not None and gated(held) and not gated(live):
                self._view.ahead(live)
                changed = True
        return changed

    def _drop_finalizer(self, claim: ResourceClaim) -> None:
        left = [finalizer for finalizer in claim.metadata.finalizers if finalizer != FINALIZER]
        annotations = {ALLOCATED_BY: None, REASON_ANNOTATION: None, INTENT: None}
        self._patch(claim, {"annotations": annotations, "finalizers": left or None})

    def _patch(self, claim: ResourceClaim, metadata: dict[str, Any]) -> ResourceClaim:
        body = {"metadata": {**guard(claim), **metadata}}
        meta = claim.metadata
        done = self._api.patch_merge(ResourceClaim, meta.namespace, meta.name, body)
        self._view.ahead(done)
        return done

    def _patch_status(self, claim: ResourceClaim, status: dict[str, Any]) -> ResourceClaim:
        body = {"metadata": guard(claim), "status": status}
        meta = claim.metadata
        done = self._api.patch_merge(ResourceClaim, meta.namespace, meta.name, body, "status")
        self._view.ahead(done)
        return done

    # --- pods ----------------------------------------------------------------------------------------------

    def _ungate(self, action: Ungate) -> Outcome:
        pod = action.pod
        for planned in action.claims:
            meta = planned.metadata
            live = self._api.get(ResourceClaim, meta.namespace, meta.name)
            self._view.ahead(live)
            same = live.metadata.uid == meta.uid and live.status.allocation == planned.status.allocation
            if not same or not reserved_for(live, pod):
                return Outcome.OVERTAKEN  # the controller or the scheduler took it back
        gates = [{"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != PLACEMENT_GATE]
        body = {
            "metadata": {**guard(pod), "annotations": {REASON_ANNOTATION: action.reason}},
            "spec": {"schedulingGates": gates or None},
        }
        done = self._api.patch_merge(Pod, pod.metadata.namespace, pod.metadata.name, body)
        self._view.ahead(done)
        self._events.record(done, reason="Placed", message=action.reason)
        return Outcome.DONE

    def _explain(self, action: Explain) -> None:
        uid, text, now = action.pod.metadata.uid, f"{action.reason}: {action.message}", self._utc()
        told = self._told.get(uid)
        if told is not None and told[0] == text and (now - told[1]).total_seconds() < REPEAT_S:
            return
        self._events.record(action.pod, reason=action.reason, message=action.message, type_=action.type)
        self._told[uid] = (text, now)

    def forget(self, live: set[str]) -> None:
        """Drops what was told to pods that are gone. ``live`` are the uids there are."""
        self._told = {uid: told for uid, told in self._told.items() if uid in live}
