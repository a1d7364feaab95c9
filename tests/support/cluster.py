"""Builders for small clusters: nodes with GPUs, classes, claims. Shared by allocator and placement tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from baro.inventory import Snapshot
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Node
from baro.model.kinds.resource import (
    AllocationResult,
    CELDeviceSelector,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)

DRIVER = "gpu.nvidia.com"
H200_NVL = "NVIDIA H200 NVL"


def attribute(value: Any) -> DeviceAttribute:
    """A DRA attribute from a Python value."""
    if isinstance(value, bool):
        return DeviceAttribute(bool_=value)
    if isinstance(value, int):
        return DeviceAttribute(int_=value)
    return DeviceAttribute(string=value)


def device(name: str, *, memory: str | None = None, **attributes: Any) -> Device:
    """A device; ``numaNode`` and ``pcieRoot`` go to the standard domain, the rest to the driver's."""
    standard = {"numaNode", "pcieRoot", "pciBusID"}
    return Device(
        name=name,
        attributes={
            (f"resource.kubernetes.io/{key}" if key in standard else key): attribute(value)
            for key, value in attributes.items()
        },
        capacity={"memory": DeviceCapacity(value=memory)} if memory else {},
    )


def gpus(islands: Mapping[str, Iterable[int]], *, product: str = H200_NVL) -> tuple[Device, ...]:
    """GPUs ``gpu-<index>`` in index order, each with its island as ``nvlinkDomain``."""
    of = {index: name for name, members in islands.items() for index in members}
    return tuple(
        device(f"gpu-{index}", type="gpu", nvlinkDomain=of[index], productName=product, model="H200")
        for index in sorted(of)
    )


def node_slice(
    node: str,
    devices: Iterable[Device],
    *,
    name: str = "",
    driver: str = DRIVER,
    generation: int = 1,
    count: int = 1,
) -> ResourceSlice:
    """A slice of the pool that is named as its node."""
    return ResourceSlice(
        metadata=ObjectMeta(name=name or f"{node}-{driver}"),
        spec=ResourceSliceSpec(
            driver=driver,
            pool=ResourcePool(name=node, generation=generation, resource_slice_count=count),
            node_name=node,
            devices=tuple(devices),
        ),
    )


def device_class(
    name: str = DRIVER, expression: str = "", annotations: Mapping[str, str] | None = None
) -> DeviceClass:
    expression = expression or f"device.driver == '{name}'"
    return DeviceClass(
        metadata=ObjectMeta(name=name, annotations=dict(annotations or {})),
        spec=DeviceClassSpec(selectors=(DeviceSelector(cel=CELDeviceSelector(expression=expression)),)),
    )


def request(name: str = "gpu", count: int = 1, class_name: str = DRIVER, **more: Any) -> DeviceRequest:
    return DeviceRequest(
        name=name, exactly=ExactDeviceRequest(device_class_name=class_name, count=count, **more)
    )


def claim(
    *requests: DeviceRequest,
    name: str = "c",
    match: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> ResourceClaim:
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace="default", annotations=dict(annotations or {})),
        spec=ResourceClaimSpec(
            devices=DeviceClaim(
                requests=requests or (request(),),
                constraints=(DeviceConstraint(match_attribute=match),) if match else (),
            )
        ),
    )


def holding(node: str, *devices: str, name: str = "held", driver: str = DRIVER) -> ResourceClaim:
    """A claim that holds these devices of the node's pool."""
    results = tuple(
        DeviceRequestAllocationResult(request="gpu", driver=driver, pool=node, device=item)
        for item in devices
    )
    allocation = AllocationResult(devices=DeviceAllocationResult(results=results))
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace="default"),
        status=ResourceClaimStatus(allocation=allocation),
    )


def cluster(
    devices: Mapping[str, Iterable[Device]],
    *,
    busy: Mapping[str, Iterable[str]] | None = None,
    classes: Iterable[DeviceClass] = (),
    nodes: Iterable[Node] = (),
) -> Snapshot:
    """Nodes with one pool each, and claims that hold what is busy."""
    given = {node.metadata.name: node for node in nodes}
    return Snapshot(
        nodes=tuple(given.get(name, Node(metadata=ObjectMeta(name=name))) for name in devices),
        slices=tuple(node_slice(name, items) for name, items in devices.items()),
        classes=tuple(classes) or (device_class(),),
        claims=tuple(
            holding(name, *items, name=f"held-{name}") for name, items in (busy or {}).items() if items
        ),
    )
