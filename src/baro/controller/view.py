"""The planner's picture of the cluster: what the watches told, ahead of it only baro's own writes.

One ``View`` belongs to one thread. A claim that baro wrote is *pending* until a watch (or a fresh list) shows
it at that version or a later one: from then on every write that other clients made before ours has been
seen too, which is what makes the check for double holding sound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from baro.controller import marks, pods
from baro.controller.indexes import Indexes, Key
from baro.controller.rooms import Openings, Rooms
from baro.inventory.inventory import Inventory
from baro.inventory.snapshot import Snapshot
from baro.inventory.usage import DeviceKey, claim_name
from baro.kube.api import KubeApi
from baro.kube.errors import NotFoundError
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import (
    AllocationResult,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)

T = TypeVar("T", bound=KubeObject)

KINDS: tuple[type[KubeObject], ...] = (
    Node,
    ResourceSlice,
    DeviceClass,
    DeviceTaintRule,
    NodeTopology,
    ResourceClaim,
    Pod,
)
OPTIONAL: tuple[type[KubeObject], ...] = (DeviceTaintRule, NodeTopology)
"""Kinds that a cluster need not serve: an older version, or baro's CRD not installed."""


def key_of(obj: KubeObject) -> Key:
    """The object's place in a ``View``: namespace (empty for cluster scope) and name."""
    return obj.metadata.namespace, obj.metadata.name


class View:
    """Objects by kind and key, the device inventory kept in step with them, and what is pending."""

    def __init__(self) -> None:
        self._objects: dict[type[KubeObject], dict[Key, KubeObject]] = {kind: {} for kind in KINDS}
        self.inventory = Inventory(Snapshot())
        self.pending: dict[Key, str] = {}
        self.generation = 0
        """Counts changes to anything that can make a pod fit which did not fit before."""
        self.catalogue = 0
        """Counts changes to what devices and classes there are."""
        self.rooms = Rooms()
        self.indexes = Indexes()
        self.contested: set[DeviceKey] = set()
        """Devices that more than one claim holds."""
        self.outlived: set[DeviceKey] = set()
        """Devices that one of several holders gave back and another still holds, as far as this view has seen
        it: kube-scheduler takes them for free."""
        self._removed: set[str] = set()
        """Uids of taint rules that baro has deleted and whose end no watch has told yet."""
        self._requests: dict[str, dict[str, int]] = {}
        self._owned: dict[str, dict[Key, ResourceClaim]] = {}

    # --- questions -----------------------------------------------------------------------------------------

    def all(self, kind: type[T]) -> Mapping[Key, T]:
        """All objects of a kind. Not to be changed, nor kept over a change of the view."""
        return self._objects[kind]  # type: ignore[return-value]

    def find(self, kind: type[T], namespace: str, name: str) -> T | None:
        """One object, or ``None``."""
        return self._objects[kind].get((namespace, name))  # type: ignore[return-value]

    def owned(self, pod: Pod) -> Iterable[ResourceClaim]:
        """Claims whose controlling owner is this pod."""
        return self._owned.get(pod.metadata.uid, {}).values()

    def requests(self, pod: Pod) -> dict[str, int]:
        """``pods.requests``, remembered."""
        found = self._requests.get(pod.metadata.uid)
        if found is None:
            found = self._requests[pod.metadata.uid] = pods.requests(pod)
        return found

    def openings(self, pod: Pod, fixed: Iterable[AllocationResult] = ()) -> Openings:
        """See ``Rooms.openings``."""
        return self.rooms.openings(pod, self.requests(pod), fixed)

    def names(self, openings: Openings) -> tuple[str, ...]:
        """The names of the nodes, sorted. Costs a look at every node; ``Openings`` itself does not."""
        if openings.nodes is not None:
            return openings.nodes
        return tuple(sorted(name for _, name in self.all(Node) if name not in openings.without))

    # --- changes -------------------------------------------------------------------------------------------

    def load(self, api: KubeApi) -> None:
        """Fresh lists of everything, in place of watches."""
        for kind in KINDS:
            try:
                self.swap(kind, api.list(kind).items)
            except NotFoundError:
                if kind not in OPTIONAL:
                    raise

    def swap(self, kind: type[KubeObject], items: Iterable[KubeObject]) -> None:
        """The complete list of a kind, as of now: what is not in it is gone."""
        fresh = {key_of(item): item for item in items}
        for key in [key for key in self._objects[kind] if key not in fresh]:
            self._forget(kind, key)
        for item in fresh.values():
            self.observed(item)

    def observed(self, obj: KubeObject) -> None:
        """News of a watch or list. Older than what baro wrote itself: skipped."""
        key, kind = key_of(obj), type(obj)
        if obj.metadata.uid in self._removed:
            return
        held = self._objects[kind].get(key)
        if held is not None and held.metadata.uid == obj.metadata.uid and _newer(held, obj):
            return
        if held is None or held.metadata.resource_version != obj.metadata.resource_version:
            self._put(obj)
        if kind is ResourceClaim or kind is DeviceTaintRule:
            self.pending.pop(key, None)

    def ahead(self, obj: KubeObject) -> None:
        """What the server answered to a call of baro's own, a write or a GET: ahead of the watch.

        A claim stays pending: the answer does not prove that the watch has told of earlier writes to others.
        So does a taint rule: kube-scheduler can know of it when the watch has told.
        """
        held = self._objects[type(obj)].get(key_of(obj))
        if held is not None and _newer(held, obj):
            return  # the watch was quicker
        if held is not None and held.metadata.resource_version == obj.metadata.resource_version:
            return
        self._put(obj)
        if isinstance(obj, ResourceClaim | DeviceTaintRule):
            self.pending[key_of(obj)] = obj.metadata.resource_version

    def removed(self, obj: KubeObject) -> None:
        """The server said that the object is gone: ahead of the watch, which may still tell of before."""
        if isinstance(obj, DeviceTaintRule):
            self._removed.add(obj.metadata.uid)
        self._drop(obj)

    def deleted(self, obj: KubeObject) -> None:
        """A watch told that the object is gone. A newer one of the same name stays."""
        self._removed.discard(obj.metadata.uid)
        self._drop(obj)

    def _drop(self, obj: KubeObject) -> None:
        held = self._objects[type(obj)].get(key_of(obj))
        if held is not None and held.metadata.uid == obj.metadata.uid:
            self._forget(type(obj), key_of(obj))

    def seat(self, pod: Pod) -> None:
        """Count the pod where it runs, or where its allocations send it."""
        node = None if pods.done(pod) else pod.spec.node_name or self._will_go(pod)
        self.rooms.count(pod.metadata.uid, node, self.requests(pod) if node else {})

    def _put(self, obj: KubeObject) -> None:
        key, inventory = key_of(obj), self.inventory
        old = self._objects[type(obj)].get(key)
        self._objects[type(obj)][key] = obj
        match obj:
            case Node():
                if not (isinstance(old, Node) and _same_node(old, obj)):  # heartbeats change nothing here
                    inventory.set_node(obj)
                    self.rooms.set_node(obj)
                    self.generation += 1
            case ResourceSlice():
                inventory.set_slice(obj)
                self._restocked()
            case DeviceClass():
                inventory.set_class(obj)
                self._restocked()
            case NodeTopology():
                inventory.set_topology(obj)
                self.generation += 1
            case DeviceTaintRule():
                self._taint_rules()
            case ResourceClaim():
                self._put_claim(key, old if isinstance(old, ResourceClaim) else None, obj)
            case Pod():
                self._put_pod(key, old if isinstance(old, Pod) else None, obj)

    def _put_claim(self, key: Key, old: ResourceClaim | None, claim: ResourceClaim) -> None:
        self.inventory.hold_claim(marks.counted(claim))
        self.indexes.put_claim(key, claim)
        if old is not None:
            self._disown(old)
            if _holds(old) and not _holds(claim):
                self.generation += 1
        for owner in claim.metadata.owner_references:
            if owner.controller:
                self._owned.setdefault(owner.uid, {})[key] = claim
        self._after_claim(old, claim)

    def _after_claim(self, *versions: ResourceClaim | None) -> None:
        """What follows from a claim's change: whose devices are held twice, and where its pods will go."""
        usage = self.inventory.usage
        for claim in versions:
            if claim is None:
                continue
            allocation = marks.counted(claim).status.allocation
            for result in allocation.devices.results if allocation else ():
                device = DeviceKey(result.driver, result.pool, result.device)
                whole = {share.claim for share in usage.holders.get(device, ()) if share.share_id is None}
                if len(whole) > 1:
                    self.contested.add(device)
                else:
                    self.contested.discard(device)
                if not whole:
                    self.outlived.discard(device)
                elif claim.status.allocation is not None and claim_name(claim) not in whole:
                    self.outlived.add(device)
            for consumer in claim.status.reserved_for:
                pod = self.find(Pod, claim.metadata.namespace, consumer.name)
                if pod is not None and pod.metadata.uid == consumer.uid:
                    self.seat(pod)

    def _put_pod(self, key: Key, old: Pod | None, pod: Pod) -> None:
        self.indexes.put_pod(key, pod)
        if old is not None and old.metadata.uid != pod.metadata.uid:
            self._leave(old)
        elif old is not None and old.spec != pod.spec:
            self._requests.pop(pod.metadata.uid, None)
        if old is not None and pods.done(pod) and not pods.done(old):
            self.generation += 1
        self.seat(pod)

    def _leave(self, pod: Pod) -> None:
        """The pod is gone and takes up no room any more."""
        self._requests.pop(pod.metadata.uid, None)
        self.rooms.count(pod.metadata.uid, None, {})

    def _forget(self, kind: type[KubeObject], key: Key) -> None:
        old = self._objects[kind].pop(key)
        self.generation += 1
        match old:
            case Node():
                self.inventory.remove_node(key[1])
                self.rooms.remove_node(key[1])
            case ResourceSlice():
                self.inventory.remove_slice(key[1])
                self._restocked()
            case DeviceClass():
                self.inventory.remove_class(key[1])
                self._restocked()
            case NodeTopology():
                self.inventory.remove_topology(key[1])
            case DeviceTaintRule():
                self.pending.pop(key, None)
                self._taint_rules()
            case ResourceClaim():
                self.inventory.release_claim(old)
                self.indexes.drop_claim(key)
                self.pending.pop(key, None)
                self._disown(old)
                self._after_claim(old)
            case Pod():
                self.indexes.drop_pod(key)
                self._leave(old)

    def _will_go(self, pod: Pod) -> str | None:
        """The node that the allocations of an unbound pod name."""
        for ref in pods.claim_refs(pod, self.owned(pod)):
            claim = self.find(ResourceClaim, pod.metadata.namespace, ref.name or "")
            if claim is not None and claim.status.allocation is not None:
                node = pods.pinned(claim.status.allocation.node_selector)
                if node is not None and marks.reserved_for(claim, pod):
                    return node
        return None

    def _restocked(self) -> None:
        self.generation += 1
        self.catalogue += 1

    def _disown(self, claim: ResourceClaim) -> None:
        for owner in claim.metadata.owner_references:
            held = self._owned.get(owner.uid)
            if held is not None:
                held.pop(key_of(claim), None)
                if not held:
                    del self._owned[owner.uid]

    def _taint_rules(self) -> None:
        self.inventory.set_taint_rules(self.all(DeviceTaintRule).values())
        self.generation += 1


def _holds(claim: ResourceClaim) -> bool:
    return claim.status.allocation is not None or marks.intent(claim) is not None


def _newer(one: KubeObject, other: KubeObject) -> bool:
    """Whether the first has the higher resourceVersion; comparable as numbers since Kubernetes 1.35."""
    a, b = one.metadata.resource_version, other.metadata.resource_version
    return a.isdigit() and b.isdigit() and int(a) > int(b)


def _same_node(old: Node, new: Node) -> bool:
    def ready(node: Node) -> list[str]:
        return [condition.status for condition in node.status.conditions if condition.type == "Ready"]

    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.status.allocatable == new.status.allocatable
        and ready(old) == ready(new)
    )
