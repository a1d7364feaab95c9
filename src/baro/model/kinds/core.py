"""The core kinds baro reads or writes: nodes, pods, events, leases, namespaces.

Only the fields that baro uses; everything else in an object is ignored when read and never written.
"""

from __future__ import annotations

from typing import Any

import msgspec

from baro.model.kinds.base import Condition, KubeObject, ObjectReference, RawQuantity, Wire

# --- selection -------------------------------------------------------------------------------------------


class NodeSelectorRequirement(Wire, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire, frozen=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True):
    """Terms are ORed, the requirements of one term ANDed."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class Toleration(Wire, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Taint(Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity | None = None


# --- Node ------------------------------------------------------------------------------------------------


class NodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeStatus(Wire, frozen=True):
    capacity: dict[str, RawQuantity] = {}
    allocatable: dict[str, RawQuantity] = {}
    conditions: tuple[Condition, ...] = ()
    node_info: dict[str, Any] = {}
    declared_features: tuple[str, ...] = ()
    """Feature gates of the node that the control plane must ask for (gate NodeDeclaredFeatures)."""


class Node(KubeObject, frozen=True):
    api_version: str = "v1"
    kind: str = "Node"
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(KubeObject, frozen=True):
    api_version: str = "v1"
    kind: str = "Namespace"


# --- Pod -------------------------------------------------------------------------------------------------


class ContainerClaim(Wire, frozen=True):
    name: str = ""
    request: str = ""


class ResourceRequirements(Wire, frozen=True):
    limits: dict[str, RawQuantity] = {}
    requests: dict[str, RawQuantity] = {}
    claims: tuple[ContainerClaim, ...] = ()


class Container(Wire, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""


class PodResourceClaim(Wire, frozen=True):
    """Exactly one of the two names. ``source`` was removed from the API in 1.31."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGate(Wire, frozen=True):
    name: str = ""


class PodSchedulingGroup(Wire, frozen=True):
    """The ``PodGroup`` that a pod belongs to (1.36)."""

    pod_group_name: str = ""


class WorkloadReference(Wire, frozen=True):
    """The group within a ``Workload`` that a pod belongs to (1.35)."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodSpec(Wire, frozen=True):
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduler_name: str = ""
    overhead: dict[str, RawQuantity] = {}
    priority: int | None = None
    scheduling_group: PodSchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None


class PodResourceClaimStatus(Wire, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Wire, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    nominated_node_name: str = ""
    reason: str = ""
    message: str = ""


class Pod(KubeObject, frozen=True):
    api_version: str = "v1"
    kind: str = "Pod"
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# --- Event, Lease ----------------------------------------------------------------------------------------


class Event(KubeObject, frozen=True):
    """The core/v1 event: what kubectl's ``describe`` and ``get events`` show."""

    api_version: str = "v1"
    kind: str = "Event"
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    action: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""
    source: dict[str, Any] = {}


class LeaseSpec(Wire, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(KubeObject, frozen=True):
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    spec: LeaseSpec = LeaseSpec()
