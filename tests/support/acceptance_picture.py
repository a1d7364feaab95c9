"""What is in a namespace of a cluster, live or listed, and what must never be found there.

Shares no code with the planner: it reads objects and says what is wrong. ``problems`` holds whenever nothing
moves any more; ``running_twice`` holds at every moment.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

from baro.kube.api import KubeApi
from baro.kube.watch import Apply, Change, Delete, Init, InitApply, InitDone, Trouble, Watcher
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Event, Node, Pod
from baro.model.kinds.resource import ResourceClaim, ResourceSlice
from tests.support.acceptance_uses import Uses, exclusive_devices

T = TypeVar("T", bound=KubeObject)
FINALIZER = "resource.kubernetes.io/delete-protection"
GATE = "baro.dev/placement"
ALLOCATED_BY = "baro.dev/allocated-by"
DRIVER = "gpu.baro.dev"
NAMESPACED: tuple[type[KubeObject], ...] = (Pod, ResourceClaim, Event)
CLUSTER: tuple[type[KubeObject], ...] = (Node, ResourceSlice)
KINDS = NAMESPACED + CLUSTER


class Picture:
    """Objects by kind and name; namespaced kinds of one namespace only."""

    def __init__(self) -> None:
        self.objects: dict[type[KubeObject], dict[str, KubeObject]] = {kind: {} for kind in KINDS}

    @classmethod
    def listed(cls, api: KubeApi, namespace: str) -> Picture:
        """Fresh lists, without any watch."""
        picture = cls()
        for kind in KINDS:
            found = api.list(kind, namespace if kind in NAMESPACED else "").items
            picture.objects[kind] = {obj.metadata.name: obj for obj in found}
        return picture

    def all(self, kind: type[T]) -> list[T]:
        return list(self.objects[kind].values())  # type: ignore[arg-type]

    def find(self, kind: type[T], name: str) -> T | None:
        return self.objects[kind].get(name)  # type: ignore[return-value]

    def told(self, pod: Pod) -> list[Event]:
        return [event for event in self.all(Event) if event.involved_object.uid == pod.metadata.uid]

    def describe(self) -> str:
        """Everything that a failed test needs to be understood."""
        lines = [f"node {node.metadata.name} taints={node.spec.taints}" for node in self.all(Node)]
        for pod in self.all(Pod):
            gates = [gate.name for gate in pod.spec.scheduling_gates]
            state = f"on {pod.spec.node_name or '-'} {pod.status.phase} gates={gates}"
            lines.append(f"pod {pod.metadata.name} {state} notes={pod.metadata.annotations}")
            lines += [
                f"    {event.type} {event.reason} x{event.count}: {event.message}" for event in self.told(pod)
            ]
        for claim in self.all(ResourceClaim):
            meta, uses = claim.metadata, [consumer.name for consumer in claim.status.reserved_for]
            lines.append(
                f"claim {meta.name} {devices(claim)} for {uses} finalizers={meta.finalizers}"
                f" deleted={meta.deletion_timestamp} notes={meta.annotations}"
            )
        return "\n".join(lines)


def devices(claim: ResourceClaim) -> list[str]:
    """``pool/device`` of everything the claim holds, in the order of the results."""
    allocation = claim.status.allocation
    return [f"{r.pool}/{r.device}" for r in allocation.devices.results] if allocation else []


def ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _holders(picture: Picture) -> dict[str, list[ResourceClaim]]:
    held: dict[str, list[ResourceClaim]] = defaultdict(list)
    for claim in picture.all(ResourceClaim):
        for device in exclusive_devices(claim):
            held[device].append(claim)
    return held


def running_twice(picture: Picture) -> list[str]:
    """Devices that two claims hold whose pods are both bound to a node: must not be for one moment.

    For lists, in which claims are read after pods. A picture of watches tells nothing of the kind: ``Uses``.
    """
    bound = {pod.metadata.uid for pod in picture.all(Pod) if pod.spec.node_name and not ended(pod)}
    found = []
    for device, claims in _holders(picture).items():
        used = [c.metadata.name for c in claims if any(r.uid in bound for r in c.status.reserved_for)]
        if len(used) > 1:
            found.append(f"{device} is in use through {' and '.join(sorted(used))}")
    return found


def problems(picture: Picture) -> list[str]:
    """What is wrong with a namespace in which nothing moves any more."""
    found = [
        f"{device} is in {len(claims)} claims: {sorted(c.metadata.name for c in claims)}"
        for device, claims in _holders(picture).items()
        if len(claims) > 1
    ]
    pods = {pod.metadata.uid: pod for pod in picture.all(Pod)}
    claims = picture.all(ResourceClaim)
    # Kubernetes 1.34 drops the time of every allocation, and the kube-scheduler of 1.35 writes none.
    stamps = any(c.status.allocation.allocation_timestamp for c in claims if c.status.allocation)
    for claim in claims:
        found += [f"{claim.ref} {what}" for what in _of_claim(claim, pods, stamps)]
    for pod in pods.values():
        found += [f"{pod.ref} {what}" for what in _of_pod(pod, picture)]
    return found


def _of_claim(claim: ResourceClaim, pods: dict[str, Pod], stamps: bool) -> list[str]:
    found = []
    status, protected = claim.status, FINALIZER in claim.metadata.finalizers
    live = [c for c in status.reserved_for if c.uid in pods and not ended(pods[c.uid])]
    if len(live) < len(status.reserved_for):
        found.append("is reserved for a pod that is gone or has ended")
    owners = [owner.uid for owner in claim.metadata.owner_references if owner.kind == "Pod"]
    if any(uid not in pods for uid in owners):
        found.append("outlives the pod that it was made for")
    if status.allocation is None:
        if protected:
            found.append("keeps the finalizer although it holds nothing")
        if status.reserved_for:
            found.append("is reserved although it holds nothing")
        return found
    if not protected:
        found.append("holds devices without the finalizer: they leak when its pod ends")
    if not status.reserved_for:
        found.append("holds devices for nobody")
    if stamps and ALLOCATED_BY in claim.metadata.annotations and not status.allocation.allocation_timestamp:
        found.append("has no allocationTimestamp: no further pod can be added")
    return found


def _of_pod(pod: Pod, picture: Picture) -> list[str]:
    if ended(pod):
        return []
    if pod.spec.node_name:
        return _of_bound(pod, picture)
    told = [event for event in picture.told(pod) if event.type == "Warning" and event.message]
    if any(gate.name == GATE for gate in pod.spec.scheduling_gates):
        told = [event for event in told if event.source.get("component") == "baro"]
        return [] if told else ["waits at baro's gate and nobody says why"]
    said = any(
        c.type == "PodScheduled" and c.reason == "Unschedulable" and c.message for c in pod.status.conditions
    )
    return [] if said or told else ["waits and nobody says why"]


def _of_bound(pod: Pod, picture: Picture) -> list[str]:
    """A bound pod: all its claims are allocated on its node and reserved for it."""
    names = [entry.resource_claim_name for entry in pod.spec.resource_claims if entry.resource_claim_name]
    names += [s.resource_claim_name for s in pod.status.resource_claim_statuses if s.resource_claim_name]
    found = []
    for name in names:
        claim = picture.find(ResourceClaim, name)
        if claim is None or claim.status.allocation is None:
            found.append(f"is bound and its claim {name} holds nothing")
        elif all(c.uid != pod.metadata.uid for c in claim.status.reserved_for):
            found.append(f"is bound and its claim {name} is not reserved for it")
        else:
            pools = {r.pool for r in claim.status.allocation.devices.results if r.driver == DRIVER}
            if pools - {pod.spec.node_name}:
                found.append(
                    f"is bound to {pod.spec.node_name} and its claim {name} holds devices of {pools}"
                )
    return found


class Observer:
    """A live ``Picture``: one watch a kind, so its kinds are not of one moment. ``uses`` looks for devices in
    use twice at every change.
    """

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self.picture = Picture()
        self.uses = Uses()
        self._known: set[str] = set()
        self.trouble: list[str] = []
        self._changed = threading.Condition()
        self._lists: dict[type[KubeObject], dict[str, KubeObject]] = {}
        self._synced: set[type[KubeObject]] = set()
        self._watchers = [
            Watcher(api, kind, self._reporter(kind), namespace=namespace if kind in NAMESPACED else "")
            for kind in KINDS
        ]
        self._threads = [threading.Thread(target=w.run, daemon=True, name="observer") for w in self._watchers]
        for thread in self._threads:
            thread.start()
        self.wait(lambda picture: len(self._synced) == len(KINDS), "the first lists", 30.0)

    def stop(self) -> None:
        for watcher in self._watchers:
            watcher.stop()
        for thread in self._threads:
            thread.join(timeout=10)

    def wake(self) -> None:
        """From any thread: whoever waits looks again."""
        with self._changed:
            self._changed.notify_all()

    def knew(self, obj: KubeObject) -> bool:
        """Whether the object was ever seen, though it may be gone by now."""
        return obj.metadata.uid in self._known

    def pause(self, at_most_s: float) -> None:
        """Until there is any news."""
        with self._changed:
            self._changed.wait(at_most_s)

    def wait(self, holds: Callable[[Picture], bool], what: str, deadline_s: float) -> None:
        """Returns when it holds. ``AssertionError`` with the whole picture when the time is over."""
        until = time.monotonic() + deadline_s
        with self._changed:
            while not holds(self.picture):
                left = until - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"after {deadline_s:.0f} s not yet: {what}")
                self._changed.wait(left)

    def _reporter(self, kind: type[KubeObject]) -> Callable[[Change[KubeObject]], None]:
        return lambda change: self._take(kind, change)

    def _take(self, kind: type[KubeObject], change: Change[KubeObject]) -> None:
        with self._changed:
            objects = self.picture.objects[kind]
            match change:
                case Init():
                    self._lists[kind] = {}
                case InitApply(object=obj):
                    self._lists[kind][obj.metadata.name] = obj
                    self._known.add(obj.metadata.uid)
                case InitDone():
                    self.picture.objects[kind] = self._lists.pop(kind)
                    self._synced.add(kind)
                    if kind in (Pod, ResourceClaim):
                        self.uses.listed(kind, self.picture.objects[kind].values())
                case Apply(object=obj):
                    objects[obj.metadata.name] = obj
                    self._known.add(obj.metadata.uid)
                    self.uses.told(obj)
                case Delete(object=obj):
                    objects.pop(obj.metadata.name, None)
                    self.uses.told(obj, gone=True)
                case Trouble(error=error):
                    self.trouble.append(str(error))
            self._changed.notify_all()
