"""What devices publish: the yardstick for selectors and constraints.

A catalogue comes from ResourceSlices that the reader gave, or, without any, from the facts of NVIDIA's
driver (names and types as its source code has them) for the products of the machine profiles. It answers
"which attributes exist" and, by evaluating a selector on a typical device, "would this ever match".
Drivers that the catalogue does not know get no judgement: unknown stays unknown.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping

import msgspec

from baro.cel import DeviceView, Value, view_of
from baro.model.decode import to_kind
from baro.model.errors import InputError
from baro.model.kinds.resource import ResourceSlice
from baro.model.load import Loaded
from baro.model.names import NUMA_NODE, NVIDIA_DRIVER, PCI_BUS_ID, PCIE_ROOT
from baro.model.quantity import Quantity, QuantityError
from baro.model.semver import SemVer
from baro.topology.profiles import load_profile, profile_names


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Typical devices, one for each distinct set of published values that matters."""

    title: str
    """For messages: ``NVIDIA's driver``, ``the ResourceSlices given``."""
    devices: tuple[DeviceView, ...] = ()
    conditional_attributes: frozenset[str] = frozenset()
    """``domain/name`` published only for other device types, or with a feature gate or newer hardware."""
    conditional_capacities: frozenset[str] = frozenset()

    def knows_domain(self, domain: str) -> bool:
        """Whether some device publishes anything in that domain."""
        return any(domain in device.attributes or domain in device.capacity for device in self.devices)

    def attribute_names(self) -> frozenset[str]:
        """Every attribute as ``domain/name`` that is or may be published."""
        return self.conditional_attributes | frozenset(
            f"{domain}/{name}"
            for device in self.devices
            for domain, names in device.attributes.items()
            for name in names
        )

    def capacity_names(self) -> frozenset[str]:
        """Every capacity as ``domain/name`` that is or may be published."""
        return self.conditional_capacities | frozenset(
            f"{domain}/{name}"
            for device in self.devices
            for domain, names in device.capacity.items()
            for name in names
        )


def of_documents(documents: Iterable[Loaded]) -> Catalogue:
    """The catalogue of the slices among the documents, or NVIDIA's driver when there are none.

    A slice that the API server would refuse tells nothing; what is wrong with it is for lint to say.
    """
    slices: list[ResourceSlice] = []
    for document in documents:
        if document.kind != "ResourceSlice":
            continue
        try:
            item = to_kind(document.body, document.where)
        except InputError:
            continue
        if isinstance(item, ResourceSlice):
            slices.append(item)
    return from_slices(slices) if slices else nvidia_driver()


def from_slices(slices: Iterable[ResourceSlice]) -> Catalogue:
    """The catalogue of live or dumped slices; devices with a capacity that is no quantity are left out."""
    views: list[DeviceView] = []
    for item in slices:
        for device in item.spec.devices:
            shared = bool(device.allow_multiple_allocations)
            with contextlib.suppress(QuantityError):
                views.append(view_of(item.spec.driver, device.attributes, device.capacity, shared))
    return Catalogue(title="the ResourceSlices given", devices=tuple(views))


_CONDITIONAL = (
    # MIG devices
    "profile", "parentUUID",
    # where NVML answers; with the gates FabricManagerPartitioning and PassthroughSupport
    "addressingMode", "gpuModuleID", "partition1", "partition2", "partition4", "partition8",
    "deviceID", "vendorID", "iommuFDEnabled",
)  # fmt: skip
_ENGINES = ("multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines")
_SLICES = tuple(f"memorySlice{number}" for number in range(8))


@functools.cache
def nvidia_driver() -> Catalogue:
    """What NVIDIA's DRA driver publishes for the products of baro's machine profiles.

    Names and types: kubernetes-sigs/dra-driver-nvidia-gpu, ``cmd/gpu-kubelet-plugin/deviceinfo.go``. There
    is no ``model``, no ``index`` and no NVLink attribute of any kind.
    """
    views: dict[str, DeviceView] = {}
    for name in profile_names():
        machine = load_profile(name).machine()
        for gpu in machine.gpus:
            if gpu.product_name is None or gpu.memory_mib is None or gpu.product_name in views:
                continue
            standard: Mapping[str, Value] = {
                PCI_BUS_ID.rpartition("/")[2]: gpu.pci_bus_id or "0000:00:00.0",
                PCIE_ROOT.rpartition("/")[2]: gpu.pcie_root or "pci0000:00",
                NUMA_NODE.rpartition("/")[2]: gpu.numa[0] if gpu.numa else 0,
            }
            own: Mapping[str, Value] = {
                "type": "gpu",
                "uuid": gpu.uuid or "",
                "productName": gpu.product_name,
                "brand": gpu.brand or "Nvidia",
                "architecture": gpu.architecture or "",
                "cudaComputeCapability": _three_parts(gpu.cuda_compute_capability),
                "driverVersion": _three_parts(machine.driver_version),
                "cudaDriverVersion": _three_parts(machine.cuda_driver_version),
            }
            views[gpu.product_name] = DeviceView(
                driver=NVIDIA_DRIVER,
                attributes={NVIDIA_DRIVER: own, PCIE_ROOT.partition("/")[0]: standard},
                capacity={NVIDIA_DRIVER: {"memory": Quantity.parse(f"{gpu.memory_mib}Mi")}},
                allow_multiple_allocations=False,
            )
    return Catalogue(
        title="NVIDIA's driver",
        devices=tuple(views.values()),
        conditional_attributes=frozenset(f"{NVIDIA_DRIVER}/{name}" for name in _CONDITIONAL),
        conditional_capacities=frozenset(
            f"{NVIDIA_DRIVER}/{name}" for name in (*_ENGINES, *_SLICES, "addressableMemory")
        ),
    )


def _three_parts(version: str | None) -> SemVer:
    parts = [str(int(part)) for part in (version or "0").split(".") if part.isdigit()][:3]
    return SemVer.parse(".".join([*parts, "0", "0"][:3]))
