"""Builders for explanations: pods, nodes with room, holders, and the answer for one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from baro.diagnosis.evidence import Capture, Evidence
from baro.diagnosis.explain import Explanation, Options, Subject, World, explain, lines, named
from baro.inventory import Snapshot
from baro.model.kinds.base import Condition, KubeObject, ObjectMeta, OwnerReference
from baro.model.kinds.core import (
    Container,
    Event,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodResourceClaim,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Taint,
)
from baro.model.kinds.resource import (
    CELDeviceSelector,
    DeviceSelector,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimTemplate,
)

ROOM = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    allocatable: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    **spec: Any,
) -> Node:
    """A node with 64 CPUs. ``allocatable`` comes on top; ``capacity`` is the same where it is not given."""
    has = {**ROOM, **(allocatable or {})}
    return Node(
        metadata=ObjectMeta(name=name, labels=dict(labels or {})),
        spec=NodeSpec(taints=tuple(taints), **spec),
        status=NodeStatus(allocatable=dict(has), capacity={**has, **(capacity or {})}),
    )


def pod(
    name: str,
    *claims: str,
    templates: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    gates: Iterable[str] = (),
    annotations: Mapping[str, str] | None = None,
    said: str = "",
    phase: str = "Pending",
    **spec: Any,
) -> Pod:
    """A pod in ``default`` with one container. ``templates`` maps entries to template names; ``said`` is what
    kube-scheduler wrote into its condition."""
    entries = [PodResourceClaim(name=item, resource_claim_name=item) for item in claims]
    entries += [
        PodResourceClaim(name=entry, resource_claim_template_name=template)
        for entry, template in (templates or {}).items()
    ]
    container = Container(name="c", image="x", resources=ResourceRequirements(requests=dict(requests or {})))
    conditions = (Condition(type="PodScheduled", status="False", reason="Unschedulable", message=said),)
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=f"uid-{name}", annotations=dict(annotations or {})
        ),
        spec=PodSpec(
            containers=(container,),
            resource_claims=tuple(entries),
            scheduling_gates=tuple(PodSchedulingGate(name=gate) for gate in gates),
            **spec,
        ),
        status=PodStatus(phase=phase, conditions=conditions if said else ()),
    )


def selector(*expressions: str) -> tuple[DeviceSelector, ...]:
    """CEL selectors of a request."""
    return tuple(DeviceSelector(cel=CELDeviceSelector(expression=item)) for item in expressions)


def reserved(claim: ResourceClaim, *pods: str) -> ResourceClaim:
    """The claim reserved for these pods."""
    consumers = tuple(
        ResourceClaimConsumerReference(resource="pods", name=name, uid=f"uid-{name}") for name in pods
    )
    return msgspec.structs.replace(
        claim, status=msgspec.structs.replace(claim.status, reserved_for=consumers)
    )


def owned(claim: ResourceClaim, by: str, uid: str | None = None) -> ResourceClaim:
    """The claim as the controller makes it for a pod."""
    owner = OwnerReference(kind="Pod", name=by, uid=uid or f"uid-{by}", controller=True)
    return msgspec.structs.replace(
        claim, metadata=msgspec.structs.replace(claim.metadata, owner_references=(owner,))
    )


def evidence(*parts: Snapshot | KubeObject, captures: Iterable[Capture] = (), **more: Any) -> Evidence:
    """Snapshots and single objects as one evidence, in order."""
    objects: list[KubeObject] = []
    for part in parts:
        if isinstance(part, Snapshot):
            objects += [
                *part.nodes,
                *part.slices,
                *part.classes,
                *part.claims,
                *part.taint_rules,
                *part.node_topologies,
                *part.pods,
            ]
        else:
            objects.append(part)
    return Evidence(
        snapshot=Snapshot.from_objects(objects),
        templates=tuple(item for item in objects if isinstance(item, ResourceClaimTemplate)),
        events=tuple(item for item in objects if isinstance(item, Event)),
        captures=tuple(captures),
        **more,
    )


def explained(known: Evidence, name: str, **options: Any) -> Explanation:
    """The explanation of a name as given on the command line."""
    world = World(known, Options(**options))
    return explain(world, named(world, name))


def pod_explained(known: Evidence, name: str = "p", **options: Any) -> Explanation:
    """The explanation of a pod in ``default``."""
    return explain(World(known, Options(**options)), Subject("pod", ("default", name)))


def text(said: Explanation, *, wide: bool = False) -> str:
    """What the terminal shows."""
    return "\n".join(lines(said, wide=wide))
