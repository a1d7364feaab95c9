"""What a node should publish, and which writes get it there. Pure: no API, no clock.

``desired_slices`` turns a machine into ResourceSlices (names: ``docs/device-attributes.md``);
``reconcile`` compares them with what is in the cluster. A value that is not known is left out, never
written as 0 or "unknown", so that it cannot satisfy a constraint. Who writes is ``publisher``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from baro.agent.groups import aligned_groups, domains, peers
from baro.model.errors import InputError
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.base import ObjectMeta, OwnerReference, RawQuantity
from baro.model.kinds.resource import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceTaint,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from baro.model.names import DRIVER, NUMA_NODE, NVIDIA_DRIVER, PCI_BUS_ID, PCIE_ROOT
from baro.model.quantity import Quantity, QuantityError
from baro.topology.document import to_document
from baro.topology.machine import Gpu, Machine

MAX_DEVICES: Final = 128
"""Per slice (``ResourceSliceMaxDevices``)."""
MAX_DEVICES_ADVANCED: Final = 64
"""Per slice as soon as one of its devices has taints (``ResourceSliceMaxDevicesWithAdvancedFeatures``)."""
MAX_STRING: Final = 64
"""Length of string and version attributes (``DeviceAttributeMaxValueLength``)."""

Taints = Mapping[int, Sequence[DeviceTaint]]
"""GPU index → taints."""

_COMPATIBLE: Final = ("productName", "model", "nvlinkDomain", "uuid", "type")
_VERSION: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,9}")


def device_name(gpu: Gpu) -> str | None:
    """``gpu-<minor>``; the minor number, not the index, since the index changes when a GPU is lost."""
    return None if gpu.minor is None else f"gpu-{gpu.minor}"


def desired_slices(
    machine: Machine,
    *,
    node: str,
    driver: str = DRIVER,
    pool: str | None = None,
    compat: bool = True,
    taints: Taints | None = None,
    node_uid: str | None = None,
) -> tuple[ResourceSlice, ...]:
    """The slices of one pool (named as the node unless told), at least one, in publishing order.

    Devices keep NVML's order. GPUs without a minor number cannot be named, and GPUs in MIG mode cannot be
    handed out whole: both are left out. ``compat`` repeats some attributes in the domain
    ``gpu.nvidia.com``. The generation is 0: ``reconcile`` decides it.
    Raises ``InputError`` when two GPUs have one minor number.
    """
    devices = _devices(machine, node, driver, compat, taints or {})
    size = MAX_DEVICES_ADVANCED if any(device.taints for device in devices) else MAX_DEVICES
    parts = [devices[at : at + size] for at in range(0, len(devices), size)] or [()]
    owners = () if node_uid is None else (_owner(node, node_uid),)
    return tuple(
        ResourceSlice(
            metadata=ObjectMeta(name=slice_name(i, driver, node, pool or node), owner_references=owners),
            spec=ResourceSliceSpec(
                driver=driver,
                pool=ResourcePool(name=pool or node, resource_slice_count=len(parts)),
                node_name=node,
                devices=part,
            ),
        )
        for i, part in enumerate(parts)
    )


def slice_name(index: int, driver: str, node: str, pool: str) -> str:
    """``00000-<driver>-<node>-<hash>``: the allocator reads a pool's slices in the order of their names.

    The hash keeps names unique when the node's part is shortened to the 253 characters of an object name;
    names are fixed so that a create that is repeated meets itself.
    """
    digest = hashlib.sha256(f"{driver}/{node}/{pool}".encode()).hexdigest()[:8]
    start = f"{index:05d}-{driver}-"
    return f"{start}{node[: 253 - len(start) - 9].rstrip('-.')}-{digest}"


def node_topology(
    machine: Machine, node: str, driver: str = DRIVER, pool: str | None = None, node_uid: str | None = None
) -> NodeTopology:
    """The graph of a node beside its slices: the machine's document, and which device is which GPU."""
    document = to_document(machine)
    spec = {key: value for key, value in document.items() if key not in {"apiVersion", "kind"}}
    spec["devices"] = {
        f"{driver}/{pool or node}/{name}": gpu.index
        for gpu in machine.gpus
        if (name := device_name(gpu)) is not None
    }
    owners = () if node_uid is None else (_owner(node, node_uid),)
    return NodeTopology(metadata=ObjectMeta(name=node, owner_references=owners), spec=spec)


def semver_of(text: str | None) -> tuple[str | None, str | None]:
    """A driver's version as (semantic version, full text where the version lost something).

    ``550.163.01`` → ``550.163.1``; ``6.19.14.31400000`` → ``6.19.14`` and the full text; text without a
    leading number has no version. The API server refuses a whole slice for one bad version.
    """
    raw = (text or "").strip()
    found = _VERSION.match(raw)
    if not found:
        return None, raw or None
    numbers = [int(part) for part in found.group().split(".")]
    version = ".".join(str(number) for number in [*numbers, 0, 0][:3])
    lost = len(numbers) > 3 or found.end() < len(raw)
    return version, raw if lost else None


def lost_taints(machine: Machine, driver: str = DRIVER) -> Taints:
    """A ``<driver>/lost`` taint (NoSchedule) for each GPU that does not answer."""
    taint = DeviceTaint(key=f"{driver}/lost", effect="NoSchedule")
    return {
        index: (taint,)
        for warning in machine.warnings
        if warning.code == "gpu-lost"
        for index in warning.gpus
    }


# --- devices ---------------------------------------------------------------------------------------------


def _devices(machine: Machine, node: str, driver: str, compat: bool, taints: Taints) -> tuple[Device, ...]:
    mig = {index for warning in machine.warnings if warning.code == "mig-enabled" for index in warning.gpus}
    links = _link_attributes(machine, node)
    devices: dict[str, Device] = {}
    for gpu in machine.gpus:
        name = device_name(gpu)
        if name is None or gpu.index in mig:
            continue
        if name in devices:
            raise InputError(f"two GPUs have minor number {gpu.minor}", next_step="check nvidia-smi -q")
        attributes = _attributes(machine, gpu) | links.get(gpu.index, {})
        capacity = _capacity(gpu)
        if compat and driver != NVIDIA_DRIVER:
            attributes |= {
                f"{NVIDIA_DRIVER}/{key}": attributes[key] for key in _COMPATIBLE if key in attributes
            }
            capacity |= {f"{NVIDIA_DRIVER}/{key}": value for key, value in capacity.items()}
        devices[name] = Device(
            name=name, attributes=attributes, capacity=capacity, taints=tuple(taints.get(gpu.index, ()))
        )
    return tuple(devices.values())


def _attributes(machine: Machine, gpu: Gpu) -> dict[str, DeviceAttribute]:
    driver_version, driver_text = semver_of(machine.driver_version)
    strings = {
        "type": "gpu",
        "uuid": gpu.uuid,
        "productName": gpu.product_name,
        "model": gpu.model,
        "brand": gpu.brand,
        "architecture": gpu.architecture,
        "driverVersionFull": driver_text,
        "clique": gpu.clique,
        PCI_BUS_ID: gpu.pci_bus_id,
    }
    versions = {
        "cudaComputeCapability": semver_of(gpu.cuda_compute_capability)[0],
        "cudaDriverVersion": semver_of(machine.cuda_driver_version)[0],
        "driverVersion": driver_version,
    }
    numbers = {"minor": gpu.minor}
    if not machine.numa_hidden:  # what a hypervisor made up must not pair a GPU with a NIC
        strings |= {"pcieSwitch": gpu.pcie_switch, PCIE_ROOT: gpu.pcie_root}
        numbers[NUMA_NODE] = gpu.numa[0] if gpu.numa is not None and len(gpu.numa) == 1 else None
    return (
        {key: DeviceAttribute(string=value) for key, value in strings.items() if _fits(value)}
        | {key: DeviceAttribute(version=value) for key, value in versions.items() if _fits(value)}
        | {key: DeviceAttribute(int_=value) for key, value in numbers.items() if value is not None}
    )


def _fits(value: str | None) -> bool:
    return value is not None and 0 < len(value.encode()) <= MAX_STRING


def _link_attributes(machine: Machine, node: str) -> dict[int, dict[str, DeviceAttribute]]:
    """``nvlinkDomain``, ``nvlinkPeers``, ``nvlink2``, ``nvlink4``, ``nvlink8`` by GPU index."""
    found: dict[int, dict[str, DeviceAttribute]] = {gpu.index: {} for gpu in machine.gpus}
    for number, island in enumerate(domains(machine)):
        for index in island:
            found[index]["nvlinkDomain"] = DeviceAttribute(string=domain_name(node, number))
    for index, count in peers(machine).items():
        found[index]["nvlinkPeers"] = DeviceAttribute(int_=count)
    for size, groups in aligned_groups(machine).items():
        for number, group in enumerate(groups):
            for index in group:
                found[index][f"nvlink{size}"] = DeviceAttribute(int_=number)
    return found


def domain_name(node: str, number: int) -> str:
    """``<node>-nvl<i>``, unique in the cluster; a long node name is shortened and hashed."""
    name = f"{node}-nvl{number}"
    if len(name) <= MAX_STRING:
        return name
    ending = f"-{hashlib.sha256(node.encode()).hexdigest()[:12]}-nvl{number}"
    return node[: MAX_STRING - len(ending)] + ending


def _capacity(gpu: Gpu) -> dict[str, DeviceCapacity]:
    if gpu.memory_mib is None:
        return {}
    # canonical, as the server will give it back: 143771Mi stays, 81920Mi becomes 80Gi
    return {"memory": DeviceCapacity(value=str(Quantity.parse(f"{gpu.memory_mib}Mi")))}


def _owner(node: str, uid: str) -> OwnerReference:
    return OwnerReference(api_version="v1", kind="Node", name=node, uid=uid, controller=True)


# --- reconcile -------------------------------------------------------------------------------------------


class SliceChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Writes in the order they must happen: ``delete``, then ``update``, then ``create``.

    Updates carry the name, uid and resourceVersion of the object they replace.
    """

    generation: int
    delete: tuple[ResourceSlice, ...] = ()
    update: tuple[ResourceSlice, ...] = ()
    create: tuple[ResourceSlice, ...] = ()

    @property
    def none(self) -> bool:
        """Nothing to write."""
        return not (self.delete or self.update or self.create)


def reconcile(existing: Sequence[ResourceSlice], desired: Sequence[ResourceSlice]) -> SliceChanges:
    """The writes that turn ``existing`` into ``desired``, whatever earlier writes were cut off.

    Readers use the highest generation of a pool, and only when it holds as many slices as each of its
    slices says (``resourceSliceCount``). So a generation must never be complete with a mixture of old and
    new: the generation is kept when the pool is as it should be but for missing slices, or when exactly
    one slice of a whole pool differs (one write changes all); otherwise all slices move to the next
    generation, and until the last is written the pool is incomplete, which readers ignore.
    Slices of this driver and node that are not wanted go first, oldest generation first, so that an old
    generation never becomes the highest. Slices of other drivers or nodes are not touched.
    """
    driver, node = desired[0].spec.driver, desired[0].spec.node_name
    pool = desired[0].spec.pool.name
    ours = [s for s in existing if s.spec.driver == driver and s.spec.node_name == node]
    wanted = {item.metadata.name: item for item in desired}
    kept = {s.metadata.name: s for s in ours if s.metadata.name in wanted and s.spec.pool.name == pool}
    delete = [s for s in ours if s.metadata.name not in kept]
    highest = max((s.spec.pool.generation for s in ours if s.spec.pool.name == pool), default=0)
    generation = _generation(kept, delete, wanted, highest, pool)
    final = [_at(item, generation) for item in desired]
    return SliceChanges(
        generation=generation,
        delete=tuple(sorted(delete, key=lambda s: (s.spec.pool.generation, s.metadata.name))),
        update=tuple(
            _onto(kept[item.metadata.name], item)
            for item in final
            if item.metadata.name in kept and not same(kept[item.metadata.name], item)
        ),
        create=tuple(item for item in final if item.metadata.name not in kept),
    )


def _generation(
    kept: Mapping[str, ResourceSlice],
    delete: Sequence[ResourceSlice],
    wanted: Mapping[str, ResourceSlice],
    highest: int,
    pool: str,
) -> int:
    if highest == 0:
        return 1
    at_top = [s for s in delete if s.spec.pool.name == pool and s.spec.pool.generation == highest]
    current = {name: s for name, s in kept.items() if s.spec.pool.generation == highest}
    changed = [name for name, s in current.items() if not same(s, _at(wanted[name], highest))]
    whole = len(current) == len(wanted)
    keep = not at_top and current and (not changed or (len(changed) == 1 and whole))
    return highest if keep else highest + 1


def same(stored: ResourceSlice, wanted: ResourceSlice) -> bool:
    """Whether a stored slice says what is wanted.

    Quantities compare by value, and ``timeAdded`` of a taint counts only when wanted: the server fills it
    in. Owners that others added are left alone.
    """
    owners = set(map(_owner_key, stored.metadata.owner_references))
    if not owners.issuperset(map(_owner_key, wanted.metadata.owner_references)):
        return False
    if len(stored.spec.devices) != len(wanted.spec.devices):
        return False
    devices = tuple(map(_comparable, stored.spec.devices, wanted.spec.devices))
    return msgspec.structs.replace(stored.spec, devices=devices) == msgspec.structs.replace(
        wanted.spec, devices=tuple(map(_comparable, wanted.spec.devices, wanted.spec.devices))
    )


def _owner_key(owner: OwnerReference) -> tuple[str, str, str]:
    return owner.kind, owner.name, owner.uid


def _comparable(device: Device, wanted: Device) -> Device:
    times = {(taint.key, taint.value, taint.effect): taint.time_added for taint in wanted.taints}
    return msgspec.structs.replace(
        device,
        capacity={
            key: msgspec.structs.replace(item, value=_canonical(item.value))
            for key, item in device.capacity.items()
        },
        taints=tuple(
            msgspec.structs.replace(taint, time_added=None)
            if times.get((taint.key, taint.value, taint.effect)) is None
            else taint
            for taint in device.taints
        ),
    )


def _canonical(value: RawQuantity) -> RawQuantity:
    try:
        return str(Quantity.parse(value))
    except QuantityError:
        return value


def _at(item: ResourceSlice, generation: int) -> ResourceSlice:
    pool = msgspec.structs.replace(item.spec.pool, generation=generation)
    return msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, pool=pool))


def _onto(stored: ResourceSlice, wanted: ResourceSlice) -> ResourceSlice:
    """The wanted content under the identity of the stored object; foreign labels and owners survive."""
    mine = set(map(_owner_key, wanted.metadata.owner_references))
    others = tuple(o for o in stored.metadata.owner_references if _owner_key(o) not in mine)
    owners = (*wanted.metadata.owner_references, *others)
    metadata = msgspec.structs.replace(stored.metadata, owner_references=owners)
    return msgspec.structs.replace(wanted, metadata=metadata)
