"""A small cluster for the planner's tests, and the judge of what is left when everything has settled.

``judge`` shares no code with the planner: it reads the objects and says what must never be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from baro.controller.placer import Choice
from baro.controller.reconcile import Planner
from baro.controller.rooms import Openings
from baro.controller.view import KINDS, View, key_of
from baro.inventory.inventory import Inventory
from baro.inventory.usage import DeviceKey
from baro.kube.api import KubeApi
from baro.kube.errors import NotFoundError
from baro.kube.events import rfc3339
from baro.model.kinds.core import (
    Event,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
)
from baro.model.kinds.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from tests.support.kube import FakeApi, Killed, Write

FINALIZER = "resource.kubernetes.io/delete-protection"
GATE = "baro.dev/placement"


class Clock:
    """Time that moves when a test says so. Every look moves it by a second, as work takes time."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def first_free(inventory: Inventory, claims: Sequence[ResourceClaim], openings: Openings, pod: Pod) -> Choice:
    """A placer that takes the first free devices of the first node that has enough; knows counts only."""
    nodes = sorted(inventory.nodes) if openings.nodes is None else openings.nodes
    for node in [node for node in nodes if node not in openings.without]:
        free = [
            inventory.key(row)
            for record in inventory.slices()
            if record.node_name == node
            for row in record.rows
            if inventory.key(row) not in inventory.usage.holders and not inventory.taints(row)
        ]
        wanted = [claim.spec.devices.requests[0] for claim in claims]
        counts = [request.exactly.count if request.exactly else 1 for request in wanted]
        if sum(counts) > len(free):
            continue
        allocations = []
        for request, count in zip(wanted, counts, strict=True):
            taken, free = free[:count], free[count:]
            allocations.append(_allocation(node, request.name, taken))
        return Choice(node, tuple(allocations), f"{sum(counts)}×GPU on node {node}")
    return Choice(None, (), f"no node has {len(claims)} claim(s) worth of free devices")


def _allocation(node: str, request: str, devices: Sequence[DeviceKey]) -> AllocationResult:
    results = tuple(
        DeviceRequestAllocationResult(request=request, driver=d.driver, pool=d.pool, device=d.device)
        for d in devices
    )
    by_name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    return AllocationResult(
        devices=DeviceAllocationResult(results=results),
        node_selector=NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(by_name,)),)),
    )


class Cluster:
    """Objects in a ``FakeApi`` (or another server), and the other actors that a scenario needs."""

    def __init__(self, server: KubeApi | None = None) -> None:
        self.fake = FakeApi()
        self.api: KubeApi = server or self.fake
        self.clock = Clock()
        self.api.create(DeviceClass, "", {"metadata": {"name": "gpu"}, "spec": {}})

    def planner(self, api: KubeApi | None = None, *, writers: int = 1) -> Planner:
        """A planner that has just started and remembers nothing."""
        return Planner(api or self.fake.other(), first_free, utc=self.clock, writers=writers)

    def planner_killed_ahead_of_a_pod(self) -> None:
        """A planner that settles until it is about to write to a pod, and is killed there."""
        api = self.fake.other()

        def before(write: Write) -> None:
            if write.kind is Pod:
                raise Killed("ahead of the ungating")

        api.before = before
        with pytest.raises(Killed):
            self.planner(api).settle()

    # --- objects -------------------------------------------------------------------------------------------

    def node(self, name: str, gpus: int = 4, **spec: Any) -> None:
        allocatable = spec.pop("allocatable", {"cpu": "8", "memory": "32Gi", "pods": "110"})
        self.api.create(Node, "", {"metadata": {"name": name}, "spec": spec})
        self.api.patch_merge(Node, "", name, {"status": {"allocatable": allocatable}}, "status")
        self.publish(name, gpus)

    def publish(
        self, node: str, gpus: int, *, generation: int = 1, taint: dict[str, str] | None = None
    ) -> None:
        devices: list[dict[str, Any]] = [{"name": f"gpu-{i}"} for i in range(gpus)]
        if taint:
            devices = [{**device, "taints": [taint]} for device in devices]
        pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
        spec = {"driver": "gpu.baro.dev", "nodeName": node, "pool": pool, "devices": devices}
        body = {"metadata": {"name": f"slice-{node}"}, "spec": spec}
        try:
            self.api.replace(ResourceSlice, "", f"slice-{node}", body)
        except NotFoundError:
            self.api.create(ResourceSlice, "", body)

    def claim(
        self, name: str, count: int = 1, *, owner: Pod | None = None, entry: str = "gpus"
    ) -> ResourceClaim:
        request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}
        meta: dict[str, Any] = {"name": name}
        if owner is not None:
            meta["annotations"] = {"resource.kubernetes.io/pod-claim-name": entry}
            meta["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": owner.metadata.name,
                    "uid": owner.metadata.uid,
                    "controller": True,
                }
            ]
        body = {"metadata": meta, "spec": {"devices": {"requests": [request]}}}
        return self.api.create(ResourceClaim, "default", body)

    def pod(self, name: str, *claims: str, gated: bool = True, template: bool = False, **spec: Any) -> Pod:
        field = "resourceClaimTemplateName" if template else "resourceClaimName"
        entries = [{"name": f"e{i}", field: claim} for i, claim in enumerate(claims)]
        body: dict[str, Any] = {
            "metadata": {"name": name},
            "spec": {
                "containers": [
                    {"name": "main", "image": "x", "resources": {"requests": {"cpu": spec.pop("cpu", "1")}}}
                ],
                "resourceClaims": entries,
                **({"schedulingGates": [{"name": GATE}]} if gated else {}),
                **spec,
            },
        }
        self.fake.store.now = rfc3339(self.clock.now)
        return self.api.create(Pod, "default", body)

    # --- looking -------------------------------------------------------------------------------------------

    def get_pod(self, name: str) -> Pod:
        return self.api.get(Pod, "default", name)

    def get_claim(self, name: str) -> ResourceClaim:
        return self.api.get(ResourceClaim, "default", name)

    def devices(self, claim: str) -> list[str]:
        allocation = self.get_claim(claim).status.allocation
        return [f"{r.pool}/{r.device}" for r in allocation.devices.results] if allocation else []

    def events(self, reason: str) -> list[Event]:
        return [event for event in self.api.list(Event).items if event.reason == reason]

    # --- other actors --------------------------------------------------------------------------------------

    def schedule(self) -> None:
        """kube-scheduler's part: binds ungated pods whose claims are allocated, to the node they name."""
        for pod in self.api.list(Pod).items:
            if pod.spec.scheduling_gates or pod.spec.node_name or not pod.spec.resource_claims:
                continue
            claims = [self._claim_of(pod, i) for i in range(len(pod.spec.resource_claims))]
            allocations = [claim.status.allocation if claim else None for claim in claims]
            if all(allocations):
                selector = allocations[0].node_selector if allocations[0] else None
                assert selector is not None
                node = selector.node_selector_terms[0].match_fields[0].values[0]
                target = {"target": {"kind": "Node", "name": node}}
                name = pod.metadata.name
                self.api.create(Pod, "default", target, subresource=(name, "binding"))

    def _claim_of(self, pod: Pod, index: int) -> ResourceClaim | None:
        entry = pod.spec.resource_claims[index]
        if entry.resource_claim_name:
            return self.get_claim(entry.resource_claim_name)
        for status in pod.status.resource_claim_statuses:
            if status.name == entry.name and status.resource_claim_name:
                return self.get_claim(status.resource_claim_name)
        return None

    def post_filter(self, claim: str) -> None:
        """kube-scheduler found that the pod fits nowhere and takes the allocation away."""
        body = {"status": {"allocation": None, "reservedFor": None}}
        self.api.patch_merge(ResourceClaim, "default", claim, body, "status")

    def collect(self) -> None:
        """The resourceclaim controller's part: releases claims whose consumers are gone or done."""
        alive = {
            pod.metadata.uid
            for pod in self.api.list(Pod).items
            if pod.status.phase not in ("Succeeded", "Failed")
        }
        for claim in self.api.list(ResourceClaim).items:
            left = [c for c in claim.status.reserved_for if c.uid in alive]
            if len(left) == len(claim.status.reserved_for):
                continue
            status: dict[str, Any] = {"reservedFor": [msgspec.to_builtins(c) for c in left] or None}
            protected = FINALIZER in claim.metadata.finalizers
            if not left and protected:
                status["allocation"] = None
            name = claim.metadata.name
            self.api.patch_merge(ResourceClaim, "default", name, {"status": status}, "status")
            if not left and protected:
                kept = [f for f in claim.metadata.finalizers if f != FINALIZER] or None
                self.api.patch_merge(ResourceClaim, "default", name, {"metadata": {"finalizers": kept}})


def in_step(view: View) -> None:
    """What a view keeps beside its objects is what a new one makes of the same objects."""
    fresh = View()
    for kind in KINDS:
        fresh.swap(kind, view.all(kind).values())
    assert list(map(key_of, view.indexes.turns)) == list(map(key_of, fresh.indexes.turns))
    assert view.indexes.theirs == fresh.indexes.theirs
    assert view.indexes.unused == fresh.indexes.unused
    assert view.contested == fresh.contested == {key for key, _ in fresh.inventory.usage.doubly_held()}
    assert view.rooms._used == fresh.rooms._used
    assert view.rooms._where == fresh.rooms._where


def judge(cluster: Cluster) -> None:
    """What must hold whenever nothing moves any more: raises ``AssertionError`` with what is wrong."""
    claims = cluster.api.list(ResourceClaim).items
    pods = {pod.metadata.uid: pod for pod in cluster.api.list(Pod).items}
    held: Counter[str] = Counter()
    for claim in claims:
        status = claim.status
        allocation = status.allocation
        if allocation is None:
            assert not status.reserved_for, f"{claim.ref} is reserved without an allocation"
            continue
        held.update(f"{r.driver}/{r.pool}/{r.device}" for r in allocation.devices.results)
        assert FINALIZER in claim.metadata.finalizers, f"{claim.ref} holds devices without the finalizer"
        assert allocation.allocation_timestamp, f"{claim.ref} has no allocationTimestamp"
        assert status.reserved_for, f"{claim.ref} holds devices for nobody"
        for consumer in status.reserved_for:
            assert consumer.uid in pods, f"{claim.ref} is reserved for a pod that does not exist"
    twice = {device: count for device, count in held.items() if count > 1}
    assert not twice, f"devices in more than one claim: {twice}"
    told = {event.involved_object.uid for event in cluster.api.list(Event).items if event.type == "Warning"}
    for pod in pods.values():
        gated = any(gate.name == GATE for gate in pod.spec.scheduling_gates)
        ours = gated or "baro.dev/placement-reason" in pod.metadata.annotations
        if ours and not pod.spec.node_name:
            assert pod.metadata.uid in told, f"{pod.ref} waits and nobody said why"


def other_writer_allocates(cluster: Cluster, claim: str, *devices: str) -> None:
    """Somebody else gives ``node/gpu-n`` to a claim, without a mark of baro's and without asking."""
    node = devices[0].partition("/")[0]
    keys = [DeviceKey("gpu.baro.dev", node, device.partition("/")[2]) for device in devices]
    allocation = msgspec.to_builtins(_allocation(node, "r", keys))
    allocation["allocationTimestamp"] = "2026-01-01T11:00:00Z"
    cluster.api.patch_merge(ResourceClaim, "default", claim, {"metadata": {"finalizers": [FINALIZER]}})
    status = {"status": {"allocation": allocation}}
    cluster.api.patch_merge(ResourceClaim, "default", claim, status, "status")
