"""Extended resources that DRA serves (KEP-5004): the claim that kube-scheduler makes for a pod on a node.

A resource such as ``nvidia.com/gpu`` is served by a device plugin on nodes that have it in their
allocatable, and by the DeviceClass that names it on all others. The rules are those of
``dynamicresources/extendeddynamicresources.go`` of 1.37, request names included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from baro.diagnosis.explain.world import World, key_of
from baro.model import pods
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Container, Pod
from baro.model.kinds.resource import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)

EXACT = "ExactCount"


def served(world: World, pod: Pod) -> tuple[str, ...]:
    """The pod's extended resources that some class serves, sorted."""
    return tuple(name for name in pods.extended(world.asked(pod)) if name in world.class_of_resource)


def on_node(world: World, node: str, resources: Sequence[str]) -> tuple[str, ...]:
    """Those of the resources that DRA must serve on the node, since no device plugin does there."""
    found = world.inventory.nodes.get(node)
    allocatable = found.status.allocatable if found is not None else {}
    return tuple(name for name in resources if not pods.scaled(allocatable.get(name)))


def claim_for(pod: Pod, resources: Sequence[str], classes: Mapping[str, DeviceClass]) -> ResourceClaim:
    """The claim that kube-scheduler would make for these resources."""
    namespace, name = key_of(pod)
    requests = [
        request for resource in sorted(resources) for request in _requests(pod, resource, classes[resource])
    ]
    return ResourceClaim(
        metadata=ObjectMeta(namespace=namespace, name=f"{name}-extended-resources"),
        spec=ResourceClaimSpec(
            devices=DeviceClaim(requests=tuple(sorted(requests, key=lambda item: item.name)))
        ),
    )


def _requests(pod: Pod, resource: str, device_class: DeviceClass) -> list[DeviceRequest]:
    """Containers and sidecars each get their own; init containers share what comes later, and of what they
    need beyond that the largest counts."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    initial = len(pod.spec.init_containers)
    lasting: dict[int, DeviceRequest] = {}
    for index, container in enumerate(containers):
        count = _count(container, resource)
        if count and (index >= initial or pods.is_sidecar(container)):
            lasting[index] = _request(index, container, resource, device_class, count)
    largest: DeviceRequest | None = None
    for index, container in enumerate(containers[:initial]):
        if pods.is_sidecar(container):
            continue
        later = sum(_asked(item) for at, item in lasting.items() if at >= index)
        extra = _count(container, resource) - later
        if extra > 0 and (largest is None or extra > _asked(largest)):
            largest = _request(index, container, resource, device_class, extra)
    return [*([largest] if largest else []), *lasting.values()]


def _request(
    index: int, container: Container, resource: str, device_class: DeviceClass, count: int
) -> DeviceRequest:
    position = sorted(pods.asked(container)).index(resource)
    exactly = ExactDeviceRequest(
        device_class_name=device_class.metadata.name, allocation_mode=EXACT, count=count
    )
    return DeviceRequest(name=f"container-{index}-request-{position}", exactly=exactly)


def _asked(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


def _count(container: Container, resource: str) -> int:
    return pods.asked(container).get(resource, 0) // pods.UNIT


def variants(
    world: World, pod: Pod, claims: Sequence[ResourceClaim], names: Iterable[str]
) -> dict[tuple[str, ...], tuple[ResourceClaim, ...]]:
    """Per set of resources that DRA must serve on some node, the pod's claims to allocate there."""
    resources = served(world, pod)
    sets = {on_node(world, node, resources) for node in names} if resources else set()
    found: dict[tuple[str, ...], tuple[ResourceClaim, ...]] = {}
    for needed in sorted(sets | {()}):
        more = (claim_for(pod, needed, world.class_of_resource),) if needed else ()
        found[needed] = (*claims, *more)
    return found
