"""The evidence, indexed once: what every check asks of it. Answers facts and judges nothing.

Pods are gone through one time; graphs of nodes are made when first asked for and shared by nodes of one
shape. Whole GPUs are counted in one way for all checks: published devices that are whole GPUs, else the
physical GPUs behind a counted resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import msgspec

from baro.allocator import DEFAULT_1_37, Plan, cel_engine
from baro.allocator.graph import NodeGraph, graph_of
from baro.allocator.infer import AttributeFinder, finder_of, is_gpu
from baro.allocator.problem import Fatal, NodeProblem
from baro.diagnosis.checks.resources import gpu_resources, physical_gpus, whole_gpu_resource
from baro.diagnosis.evidence import Evidence
from baro.inventory import DeviceKey, Inventory, NodePools
from baro.inventory.taints import BLOCKING_EFFECTS
from baro.model.errors import BaroError
from baro.model.kinds.base import Condition
from baro.model.kinds.core import Container, Node, Pod
from baro.model.kinds.resource import ResourceClaim
from baro.model.load import Loaded

DONE = frozenset({"Succeeded", "Failed"})
STARTING_HOURS = 0.25
"""A node or a driver's pod that is younger than this may still be starting."""


class PodView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod that asks for GPUs by count, or uses claims. ``counted`` maps resource names to numbers."""

    pod: Pod
    name: str
    """``namespace/name``."""
    counted: Mapping[str, int] = {}
    claims: tuple[tuple[str, str], ...] = ()

    @property
    def done(self) -> bool:
        """The pod has ended and holds nothing any more."""
        return self.pod.status.phase in DONE

    @property
    def gpus(self) -> int:
        """Whole GPUs asked for by count."""
        return sum(number for name, number in self.counted.items() if whole_gpu_resource(name))


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """Published GPUs of one node: keys in the order of the graph's GPUs, masks over them."""

    name: str
    graph: NodeGraph
    keys: tuple[DeviceKey, ...]
    """Per GPU position of the shape; a position that nobody publishes has an empty key."""
    taken: int
    """Held by a claim."""
    blocked: int
    """Carries a device taint that keeps pods away."""

    @property
    def published(self) -> int:
        """All positions that are published."""
        mask = 0
        for at, key in enumerate(self.keys):
            mask |= bool(key.device) << at
        return mask

    @property
    def free(self) -> int:
        """Published, held by nobody, not blocked."""
        return self.published & ~self.taken & ~self.blocked


NO_DEVICE = DeviceKey("", "", "")


class Board:
    """Indexes over one ``Evidence``. Everything is worked out when first asked for."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.snapshot = evidence.snapshot
        self.now = moment(evidence.taken_at)
        self.nodes: dict[str, Node] = {item.metadata.name: item for item in self.snapshot.nodes}
        self.inventory = Inventory(self.snapshot)
        self.derived: dict[str, Any] = {}
        """What readers have worked out from this board; it lives as long as the board."""
        self._views: dict[str, NodeView | None] = {}

    @cached_property
    def latest(self) -> datetime | None:
        """The moment of the evidence: when it was taken or, where nobody says so, its latest time stamp, so
        that something may be older than it looks, and never younger."""
        if self.now is not None:
            return self.now
        told = [
            stamp
            for node in self.snapshot.nodes
            for item in node.status.conditions
            for stamp in (item.last_heartbeat_time, item.last_transition_time)
        ]
        told += [pod.metadata.creation_timestamp for pod in self.snapshot.pods]
        told += [event.last_timestamp or event.event_time for event in self.evidence.events]
        return max((then for stamp in told if stamp and (then := moment(stamp))), default=None)

    def starting(self, created: str | None) -> bool:
        """Whether something of that age may still be starting; False where nothing tells its age, as in a
        dump whose time stamps are all the same."""
        then = moment(created or "")
        if then is None or self.latest is None or (self.now is None and self.latest <= then):
            return False
        return (self.latest - then).total_seconds() / 3600 < STARTING_HOURS

    # --- claims and pods -----------------------------------------------------------------------------------

    @cached_property
    def claims(self) -> dict[tuple[str, str], ResourceClaim]:
        """By namespace and name."""
        return {(item.metadata.namespace, item.metadata.name): item for item in self.snapshot.claims}

    @cached_property
    def pods(self) -> tuple[PodView, ...]:
        """Pods that ask for GPUs or use claims, in the order read."""
        reserved = self._reserved
        return tuple(
            view
            for pod in self.snapshot.pods
            if (view := _view(pod, reserved.get(pod.metadata.uid, ()))) is not None
        )

    @cached_property
    def _reserved(self) -> dict[str, list[tuple[str, str]]]:
        """UID of a pod → claims reserved for it. The scheduler makes claims for extended resources that no
        field of the pod's spec names."""
        found: dict[str, list[tuple[str, str]]] = {}
        for key, item in self.claims.items():
            for consumer in item.status.reserved_for:
                found.setdefault(consumer.uid, []).append(key)
        return found

    @cached_property
    def pods_by_uid(self) -> dict[str, Pod]:
        """All pods."""
        return {pod.metadata.uid: pod for pod in self.snapshot.pods if pod.metadata.uid}

    @cached_property
    def pods_on(self) -> dict[str, list[PodView]]:
        """Node → its GPU pods that have not ended."""
        found: dict[str, list[PodView]] = {}
        for view in self.pods:
            if view.pod.spec.node_name and not view.done:
                found.setdefault(view.pod.spec.node_name, []).append(view)
        return found

    @cached_property
    def users(self) -> dict[tuple[str, str], list[PodView]]:
        """Claim → the pods that use it and have not ended."""
        found: dict[tuple[str, str], list[PodView]] = {}
        for view in self.pods:
            if not view.done:
                for key in view.claims:
                    found.setdefault(key, []).append(view)
        return found

    @cached_property
    def documents(self) -> dict[tuple[str, str], Loaded]:
        """(kind, ``namespace/name`` or name) → document, for the few that are looked at raw."""
        found = {}
        for item in self.evidence.documents:
            kind, _, name = (item.where.object or "").partition(" ")
            found[kind, name] = item
        return found

    # --- devices -------------------------------------------------------------------------------------------

    @cached_property
    def finder(self) -> AttributeFinder:
        """Attributes by id, whichever domain publishes them."""
        return finder_of(self.inventory.table)

    def pools(self, node: str) -> NodePools:
        """The pools of a node."""
        return self.inventory.pools(node)

    @cached_property
    def published_gpus(self) -> dict[str, tuple[tuple[DeviceKey, int], ...]]:
        """Node → (key, row) of whole GPUs that pools of the node publish, usable or not."""
        found = {}
        for node in self.inventory.node_names():
            keys = []
            for pool in self.pools(node).pools:
                names = self.inventory.table.device_names(pool.rows)
                for row, name in zip(pool.rows, names, strict=True):
                    if is_gpu(self.finder, pool.driver, row):
                        keys.append((DeviceKey(pool.driver, pool.name, name), row))
            if keys:
                found[node] = tuple(keys)
        return found

    @cached_property
    def gpu_pools(self) -> frozenset[tuple[str, str]]:
        """(driver, pool) of the pools that publish whole GPUs."""
        return frozenset((k.driver, k.pool) for found in self.published_gpus.values() for k, _ in found)

    @cached_property
    def _published(self) -> frozenset[DeviceKey]:
        """Every device of every slice, old generations included."""
        names = self.inventory.table.device_names
        return frozenset(
            DeviceKey(record.driver, record.pool, name)
            for record in self.inventory.slices()
            for name in names(record.rows)
        )

    @cached_property
    def _held(self) -> dict[tuple[str, str], list[DeviceKey]]:
        found: dict[tuple[str, str], list[DeviceKey]] = {}
        for key in self.inventory.usage.holders:
            found.setdefault((key.driver, key.pool), []).append(key)
        return found

    def held_of_pool(self, driver: str, pool: str) -> list[DeviceKey]:
        """Devices of a pool that claims hold."""
        return self._held.get((driver, pool), [])

    def is_published(self, key: DeviceKey) -> bool:
        """Whether some slice has the device."""
        return key in self._published

    def sees(self, namespace: str) -> bool:
        """Whether all pods of a namespace are in the evidence.

        Not when only another namespace could be read. Of files without a snapshot's record it is believed
        when they hold pods of this namespace, or of several.
        """
        if any(item.source == "pods" and item.partial for item in self.evidence.missing):
            return namespace == self.evidence.namespace
        whole = bool(self.evidence.taken_at) or len(self._namespaces) > 1
        return whole or namespace in self._namespaces

    @cached_property
    def _namespaces(self) -> frozenset[str]:
        return frozenset(pod.metadata.namespace for pod in self.snapshot.pods)

    @cached_property
    def _pool_nodes(self) -> dict[tuple[str, str], str]:
        return {record.pool_key: record.node_name for record in self.inventory.slices() if record.node_name}

    def node_of(self, driver: str, pool: str) -> str:
        """The node of a node-local pool, else the pool's name."""
        return self._pool_nodes.get((driver, pool), pool)

    @cached_property
    def physical(self) -> dict[str, int]:
        """Node → how many physical GPUs it has, as far as labels, slices and counts tell."""
        found = {}
        for name in dict.fromkeys((*self.nodes, *self.published_gpus)):
            number = physical_gpus(self.nodes.get(name), len(self._distinct(name)))
            if number:
                found[name] = number
        return found

    def _distinct(self, node: str) -> set[str]:
        """Identities of the published GPUs of a node: two drivers may publish one and the same GPU."""
        uuids = set()
        for key, row in self.published_gpus.get(node, ()):
            uuids.add(self.finder.text("uuid", row) or str(key))
        return uuids

    def blocking_taints(self, row: int) -> list[str]:
        """``key=value:effect`` of the taints that keep pods off a device."""
        return [
            f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
            for taint in self.inventory.taints(row)
            if taint.effect in BLOCKING_EFFECTS
        ]

    def view(self, node: str) -> NodeView | None:
        """The node's GPUs as a graph; None without published GPUs, and where nothing is told of links."""
        if node not in self._views:
            self._views[node] = self._view(node)
        return self._views[node]

    def _view(self, node: str) -> NodeView | None:
        if node not in self.published_gpus:
            return None
        try:
            problem = NodeProblem(self.inventory, node, Plan(()), DEFAULT_1_37, cel_engine(self.inventory))
            graph = graph_of(problem)
        except (Fatal, BaroError):
            return None
        if graph is None:
            return None
        keys, taken, blocked = [], 0, 0
        holders = self.inventory.usage.holders
        for at, device in enumerate(graph.devices):
            key = problem.keys[device] if device >= 0 else NO_DEVICE
            keys.append(key)
            taken |= (key in holders) << at
            if device >= 0 and self.blocking_taints(problem.rows[device]):
                blocked |= 1 << at
        return NodeView(name=node, graph=graph, keys=tuple(keys), taken=taken, blocked=blocked)

    # --- nodes ---------------------------------------------------------------------------------------------

    def usable(self, node: str) -> bool:
        """Pods may go to the node: it exists (or nodes were not read), is Ready and not cordoned."""
        item = self.nodes.get(node)
        if item is None:
            return not self.nodes
        ready = condition(item.status.conditions, "Ready")
        return not item.spec.unschedulable and (ready is None or ready.status == "True")

    def hours_since(self, text: str | None) -> float | None:
        """Hours between a timestamp and the moment of the evidence; None when one of them is unknown."""
        then = moment(text or "")
        if then is None or self.now is None:
            return None
        return max(0.0, (self.now - then).total_seconds() / 3600)


# --- small things that several checks need ----------------------------------------------------------------


def moment(text: str) -> datetime | None:
    """An RFC 3339 timestamp; None for anything else."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of a type."""
    return next((item for item in conditions if item.type == kind), None)


def _view(pod: Pod, reserved: Sequence[tuple[str, str]]) -> PodView | None:
    counted: dict[str, int] = {}
    for container in pod.spec.containers:
        for name, units in _asked(container).items():
            counted[name] = counted.get(name, 0) + units
    for container in pod.spec.init_containers:  # they run before the others, one at a time
        for name, units in _asked(container).items():
            counted[name] = max(counted.get(name, 0), units)
    claims = tuple(dict.fromkeys((*_claims(pod), *reserved)))
    if not counted and not claims:
        return None
    meta = pod.metadata
    return PodView(pod=pod, name=f"{meta.namespace}/{meta.name}", counted=counted, claims=claims)


def _asked(container: Container) -> dict[str, int]:
    return gpu_resources(container.resources.limits or container.resources.requests)


def _claims(pod: Pod) -> Iterator[tuple[str, str]]:
    made = {item.name: item.resource_claim_name for item in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or made.get(entry.name)
        if name:
            yield pod.metadata.namespace, name
