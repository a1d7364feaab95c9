"""SIMULATED stand-ins for kube-scheduler, kube-controller-manager and kubelet. For the embedded server only.

The embedded API server has no controllers, so these do the few things that a demo and the fast tests need:

* ``claim_maker``: claims from templates, named in the pod's status (the resourceclaim controller);
* ``claim_keeper``: takes back reservations of ended pods, deallocates, deletes template claims with the pod;
* ``scheduler``: binds ungated pods; allocated claims are honoured, others get kube-scheduler's first fit;
* ``kubelet``: bound pods run at once, deleted pods go, nodes are Ready.

They are honest about what upstream does where baro depends on it (finalizers, reservations, the order of
writes, a selector ``false`` never matches) and simple everywhere else: no preemption, no scoring, no volumes,
no containers. On a real cluster never run them; a real control plane runs the same acceptance scenarios.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from baro.controller import pods, standins_status
from baro.controller.feed import Feed
from baro.controller.placer import Placer
from baro.controller.view import View
from baro.kube.api import KubeApi, guard
from baro.kube.errors import ApiError, ConflictError, NotFoundError
from baro.kube.events import EventRecorder, rfc3339
from baro.model.errors import BaroError
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import (
    FINALIZER,
    AllocationResult,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
)
from baro.model.pods import POD_CLAIM_ANNOTATION

HEARTBEAT_S = 10.0


class SimulatedCluster:
    """All stand-ins over one server. ``step`` does whatever is due; ``start`` runs it in a thread.

    ``first_fit`` is the placer of the simulated kube-scheduler.
    """

    def __init__(
        self,
        api: KubeApi,
        first_fit: Placer,
        *,
        utc: Callable[[], datetime] = lambda: datetime.now(UTC),
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._api = api
        self._first_fit = first_fit
        self._utc = utc
        self._log = log
        self._view = View()
        self._scheduler_events = EventRecorder(api, component="default-scheduler", utc=utc)
        self._claim_events = EventRecorder(api, component="resource_claim", utc=utc)
        self._told: set[tuple[str, str]] = set()
        self._stop = threading.Event()
        self._feed = Feed(api, self._view, lambda error: log(f"simulated control plane: {error}"))
        self._thread = threading.Thread(target=self._run, daemon=True, name="simulated")

    # --- running -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the thread; returns at once."""
        self._feed.start()
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and waits for it."""
        self._stop.set()
        self._feed.wake()
        self._thread.join(timeout=5)
        self._feed.stop()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._feed.absorb(HEARTBEAT_S)
            if not self._feed.synced:
                continue
            try:
                if self._step():
                    self._feed.wake()
            except BaroError as error:
                self._log(f"simulated control plane: {error}")
                self._stop.wait(1.0)
                self._feed.wake()

    def step(self) -> bool:
        """One pass of every stand-in over fresh lists. True when something was written."""
        self._view.load(self._api)
        return self._step()

    def _step(self) -> bool:
        self._blind_the_scheduler()
        wrote = False
        for part in (self.kubelet, self.claim_maker, self.claim_keeper, self.scheduler):
            wrote |= part()
        return wrote

    def _blind_the_scheduler(self) -> None:
        """kube-scheduler knows nothing of baro's annotation: for it the exclusive class selects nothing."""
        for item in self._view.all(DeviceClass).values():
            bare = msgspec.structs.replace(item.metadata, annotations={})
            self._view.inventory.set_class(msgspec.structs.replace(item, metadata=bare))

    def _attempts(self, items: Iterable[Any], act: Callable[[Any], bool]) -> bool:
        """Each item by itself: one that was overtaken is seen again in the next pass."""
        wrote = False
        for item in list(items):
            try:
                wrote |= act(item)
            except (ConflictError, NotFoundError):
                continue  # news of it is on the way, and brings the next pass
        return wrote

    # --- resourceclaim controller --------------------------------------------------------------------------

    def claim_maker(self) -> bool:
        """Claims from templates, also for gated pods."""
        waiting = [p for p in self._view.all(Pod).values() if not p.metadata.deletion_timestamp]
        return self._attempts((p for p in waiting if not pods.done(p)), self._make_claims)

    def _make_claims(self, pod: Pod) -> bool:
        known = {status.name for status in pod.status.resource_claim_statuses}
        names: list[dict[str, Any]] = []
        for entry in pod.spec.resource_claims:
            if not entry.resource_claim_template_name or entry.name in known:
                continue
            owned = [c for c in self._view.owned(pod) if _entry(c) == entry.name]
            claim = (
                owned[0]
                if owned
                else self._from_template(pod, entry.name, entry.resource_claim_template_name)
            )
            if claim is not None:
                names.append({"name": entry.name, "resourceClaimName": claim.metadata.name})
        if not names:
            return False
        before = [msgspec.to_builtins(status) for status in pod.status.resource_claim_statuses]
        self._pod_status(pod, {"resourceClaimStatuses": [*before, *names]})
        return True

    def _from_template(self, pod: Pod, entry: str, template_name: str) -> ResourceClaim | None:
        namespace = pod.metadata.namespace
        try:
            template = self._api.get(ResourceClaimTemplate, namespace, template_name)
        except NotFoundError:
            text = f'PodResourceClaim {entry}: resource claim template "{template_name}": not found'
            if (pod.metadata.uid, text) not in self._told:
                self._told.add((pod.metadata.uid, text))
                reason = "FailedResourceClaimCreation"
                self._claim_events.record(pod, reason=reason, message=text, type_="Warning")
            return None
        meta = template.spec.metadata
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "generateName": f"{pod.metadata.name}-{entry}-",
                "namespace": namespace,
                "labels": dict(meta.get("labels") or {}),
                "annotations": {**(meta.get("annotations") or {}), POD_CLAIM_ANNOTATION: entry},
                "ownerReferences": [owner],
            },
            "spec": msgspec.to_builtins(template.spec.spec),
        }
        done = self._api.create(ResourceClaim, namespace, body)
        self._view.ahead(done)
        return done

    def claim_keeper(self) -> bool:
        """Reservations, allocations and claims that outlived their pods."""
        alive = {pod.metadata.uid: pod for pod in self._view.all(Pod).values() if not pods.done(pod)}
        claims = self._view.all(ResourceClaim).values()
        return self._attempts(claims, lambda claim: self._keep(claim, alive))

    def _keep(self, claim: ResourceClaim, alive: dict[str, Pod]) -> bool:
        meta, status = claim.metadata, claim.status
        left = [c for c in status.reserved_for if c.resource != "pods" or c.uid in alive]
        protected = FINALIZER in meta.finalizers
        ended = len(left) < len(status.reserved_for)
        if ended or (protected and meta.deletion_timestamp and not left):
            change: dict[str, Any] = {"reservedFor": [msgspec.to_builtins(c) for c in left] or None}
            if not left and protected:
                # Only on the change from used to unused, and only with the finalizer: as upstream.
                change |= {"allocation": None, "devices": None}
            body = {"metadata": guard(claim), "status": change}
            claim = self._api.patch_merge(ResourceClaim, meta.namespace, meta.name, body, "status")
            if not left and protected:
                kept = [finalizer for finalizer in meta.finalizers if finalizer != FINALIZER] or None
                body = {"metadata": {**guard(claim), "finalizers": kept}}
                self._api.patch_merge(ResourceClaim, meta.namespace, meta.name, body)
            return True
        owner = next(
            (owner for owner in meta.owner_references if owner.controller and owner.kind == "Pod"), None
        )
        if owner is None or owner.uid in alive or meta.deletion_timestamp:
            return False
        self._api.delete(ResourceClaim, meta.namespace, meta.name, uid=meta.uid)
        return True

    # --- kube-scheduler ------------------------------------------------------------------------------------

    def scheduler(self) -> bool:
        """Gated pods are told so; the others are bound, or told why not."""
        waiting = [
            pod
            for pod in self._view.all(Pod).values()
            if not pod.spec.node_name and not pods.done(pod) and not pod.metadata.deletion_timestamp
        ]
        waiting.sort(
            key=lambda p: (-(p.spec.priority or 0), p.metadata.creation_timestamp or "", p.metadata.name)
        )
        return self._attempts(waiting, self._schedule)

    def _schedule(self, pod: Pod) -> bool:
        if pod.spec.scheduling_gates:
            text = "Scheduling is blocked due to non-empty scheduling gates"
            return self._not_scheduled(pod, "SchedulingGated", text)
        claims = []
        for ref in pods.claim_refs(pod, self._view.owned(pod)):
            if not ref.needed:
                continue
            claim = self._view.find(ResourceClaim, pod.metadata.namespace, ref.name) if ref.name else None
            if claim is None:
                text = f'pod "{pod.metadata.name}": claim of {ref.entry} does not exist yet'
                return self._unschedulable(pod, text)
            claims.append(claim)
        fixed = [claim.status.allocation for claim in claims if claim.status.allocation]
        openings = self._view.openings(pod, fixed)
        nodes, left_out = self._view.names(openings), openings.left_out
        wanted = [claim for claim in claims if claim.status.allocation is None]
        try:
            choice = (
                self._first_fit(self._view.inventory, wanted, openings, pod) if wanted and nodes else None
            )
        except BaroError as error:
            return self._unschedulable(pod, str(error))
        node = choice.node if choice else (nodes[0] if nodes else None)
        if node is None or (wanted and choice is None):
            total = len(self._view.all(Node))
            why = [f"{count} node(s) {text}" for text, count in sorted(left_out.items())]
            why += [f"{len(nodes)} cannot allocate all claims"] if nodes else []
            return self._unschedulable(pod, f"0/{total} nodes are available: {', '.join(why) or 'no nodes'}.")
        decided = dict(
            zip((id(claim) for claim in wanted), choice.allocations if choice else (), strict=True)
        )
        for claim in claims:
            self._bind_claim(pod, claim, decided.get(id(claim)))
        self._bind(pod, node)
        return True

    def _bind_claim(self, pod: Pod, claim: ResourceClaim, allocation: AllocationResult | None) -> None:
        """kube-scheduler's PreBind: finalizer, then allocation and reservation in one write."""
        meta = claim.metadata
        consumers = [msgspec.to_builtins(c) for c in claim.status.reserved_for if c.uid != pod.metadata.uid]
        if allocation is None and len(consumers) < len(claim.status.reserved_for):
            return
        status: dict[str, Any] = {}
        if allocation is not None:
            if FINALIZER not in meta.finalizers:
                body = {"metadata": {**guard(claim), "finalizers": [*meta.finalizers, FINALIZER]}}
                claim = self._api.patch_merge(ResourceClaim, meta.namespace, meta.name, body)
                self._view.ahead(claim)
            allocation = msgspec.structs.replace(allocation, allocation_timestamp=rfc3339(self._utc()))
            status["allocation"] = msgspec.to_builtins(allocation)
        mine = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
        body = {"metadata": guard(claim), "status": {**status, "reservedFor": [*consumers, mine]}}
        self._view.ahead(self._api.patch_merge(ResourceClaim, meta.namespace, meta.name, body, "status"))

    def _bind(self, pod: Pod, node: str) -> None:
        namespace, name = pod.metadata.namespace, pod.metadata.name
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod.metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._api.create(Pod, namespace, body, subresource=(name, "binding"))
        text = f"Successfully assigned {namespace}/{name} to {node}"
        self._scheduler_events.record(pod, reason="Scheduled", message=text)
        self._view.observed(self._api.get(Pod, namespace, name))

    def _unschedulable(self, pod: Pod, text: str) -> bool:
        if not self._not_scheduled(pod, "Unschedulable", text):
            return False
        self._scheduler_events.record(pod, reason="FailedScheduling", message=text, type_="Warning")
        return True

    def _not_scheduled(self, pod: Pod, reason: str, text: str) -> bool:
        condition = standins_status.condition(
            "PodScheduled", "False", self._utc(), reason=reason, message=text
        )
        held = [c for c in pod.status.conditions if c.type == "PodScheduled"]
        if held and (held[0].reason, held[0].message) == (reason, text):
            return False
        self._pod_status(pod, {"phase": "Pending", "conditions": [condition]})
        return True

    # --- kubelet and node controller -----------------------------------------------------------------------

    def kubelet(self) -> bool:
        """Bound pods run, deleted pods go, nodes are Ready and say so every few seconds."""
        wrote = self._attempts(self._view.all(Node).values(), self._heartbeat)
        return self._attempts(self._view.all(Pod).values(), self._run_pod) or wrote

    def _run_pod(self, pod: Pod) -> bool:
        meta = pod.metadata
        if meta.deletion_timestamp and not meta.finalizers:
            self._api.delete(Pod, meta.namespace, meta.name, uid=meta.uid, grace_period_s=0)
            return True
        node = pod.spec.node_name
        if not node or pod.status.phase not in ("", "Pending") or not self._prepared(pod):
            return False
        if self._view.find(Node, "", node) is None:
            return False
        self._pod_status(pod, standins_status.running(pod, self._utc()))
        return True

    def _prepared(self, pod: Pod) -> bool:
        """Whether every claim is allocated and reserved for this pod: kubelet starts nothing before."""
        for ref in pods.claim_refs(pod, self._view.owned(pod)):
            claim = self._view.find(ResourceClaim, pod.metadata.namespace, ref.name or "")
            if ref.needed and (
                claim is None or all(c.uid != pod.metadata.uid for c in claim.status.reserved_for)
            ):
                return False
        return True

    def _heartbeat(self, node: Node) -> bool:
        """Writes the node's conditions when they are missing or old. Never counts as news."""
        conditions = standins_status.node_conditions(node, self._utc(), HEARTBEAT_S)
        if conditions is not None:
            body = {"metadata": guard(node), "status": {"conditions": conditions}}
            self._api.patch_merge(Node, "", node.metadata.name, body, "status")
        return False

    def _pod_status(self, pod: Pod, status: dict[str, Any]) -> None:
        body = {"metadata": guard(pod), "status": status}
        try:
            done = self._api.patch_merge(Pod, pod.metadata.namespace, pod.metadata.name, body, "status")
        except ApiError as error:
            if isinstance(error, ConflictError | NotFoundError):
                raise
            self._log(f"simulated control plane: {pod.ref}: {error}")
            return
        self._view.ahead(done)


def _entry(claim: ResourceClaim) -> str | None:
    return claim.metadata.annotations.get(POD_CLAIM_ANNOTATION)
