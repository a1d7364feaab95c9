"""The kinds of ``resource.k8s.io/v1`` (Dynamic Resource Allocation), up to Kubernetes 1.37.

Objects of v1beta2 and v1beta1 are converted to this shape first (``baro.model.convert``).
Comments name limits and rules only where baro relies on them; the source is ``api/resource/v1/types.go``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from baro.model.kinds.base import Condition, KubeObject, RawQuantity, Wire
from baro.model.kinds.core import NodeSelector

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Must be on a claim while it is allocated; without it the device leaks when the claim goes."""


# --- ResourceSlice ---------------------------------------------------------------------------------------


class ResourcePool(Wire, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class DeviceAttribute(Wire, frozen=True):
    """Exactly one of the scalar fields, or of the list fields (gate DRAListTypeAttributes), is set."""

    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: tuple[int, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class CapacityRequestPolicyRange(Wire, frozen=True):
    min: RawQuantity | None = None
    max: RawQuantity | None = None
    step: RawQuantity | None = None


class CapacityRequestPolicy(Wire, frozen=True):
    default: RawQuantity | None = None
    valid_values: tuple[RawQuantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Wire, frozen=True):
    value: RawQuantity = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(Wire, frozen=True):
    value: RawQuantity = "0"


class CounterSet(Wire, frozen=True):
    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(Wire, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class DeviceTaint(Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Device(Wire, frozen=True):
    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resources: dict[str, Any] = {}


class ResourceSliceSpec(Wire, frozen=True):
    """Exactly one of the four node selections; ``devices`` xor ``shared_counters`` (since 1.35)."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()
    partition_type_attribute: str | None = None
    skip_node_operations: tuple[str, ...] = ()


class ResourceSlice(KubeObject, frozen=True):
    api_version: str = "resource.k8s.io/v1"
    kind: str = "ResourceSlice"
    spec: ResourceSliceSpec = ResourceSliceSpec()


# --- requests --------------------------------------------------------------------------------------------


class CELDeviceSelector(Wire, frozen=True):
    expression: str = ""


class DeviceSelector(Wire, frozen=True):
    cel: CELDeviceSelector | None = None


class DeviceToleration(Wire, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Wire, frozen=True):
    requests: dict[str, RawQuantity] = {}


class DerivedAttribute(Wire, frozen=True):
    name: str = ""
    expression: str = ""


class DeviceSubRequest(Wire, frozen=True):
    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DerivedAttribute, ...] = ()


class ExactDeviceRequest(Wire, frozen=True):
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DerivedAttribute, ...] = ()


class DeviceRequest(Wire, frozen=True):
    """Exactly one of ``exactly`` and ``first_available``."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Wire, frozen=True):
    """``requests`` empty means all; an entry is ``request`` or ``request/subrequest``."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(Wire, frozen=True):
    driver: str = ""
    parameters: Any = None


class DeviceClaimConfiguration(Wire, frozen=True):
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Wire, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


# --- allocation ------------------------------------------------------------------------------------------


class DeviceRequestAllocationResult(Wire, frozen=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, RawQuantity] = {}
    skip_node_operations: tuple[str, ...] = ()


class DeviceAllocationConfiguration(Wire, frozen=True):
    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Wire, frozen=True):
    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Wire, frozen=True):
    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(Wire, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Wire, frozen=True):
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()
    data: Any = None
    network_data: dict[str, Any] | None = None


class ResourceClaimSpec(Wire, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class ResourceClaimStatus(Wire, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(KubeObject, frozen=True):
    api_version: str = "resource.k8s.io/v1"
    kind: str = "ResourceClaim"
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Wire, frozen=True):
    metadata: dict[str, Any] = {}
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(KubeObject, frozen=True):
    api_version: str = "resource.k8s.io/v1"
    kind: str = "ResourceClaimTemplate"
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


# --- classes and taint rules -----------------------------------------------------------------------------


class DeviceClassConfiguration(Wire, frozen=True):
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Wire, frozen=True):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(KubeObject, frozen=True):
    api_version: str = "resource.k8s.io/v1"
    kind: str = "DeviceClass"
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceTaintSelector(Wire, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Wire, frozen=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(KubeObject, frozen=True):
    api_version: str = "resource.k8s.io/v1"
    kind: str = "DeviceTaintRule"
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
    status: dict[str, Any] = {}
