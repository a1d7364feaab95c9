"""What devices publish: the yardstick for selectors and constraints.

A catalogue comes from ResourceSlices that the reader gave, or, without any, from the facts of NVIDIA's
driver (names and types as its source code has them) for the products of the machine profiles. It answers
"which attributes exist" and, by evaluating a selector on a typical device, "would this ever match".
Drivers that the catalogue does not know get no judgement: unknown stays unknown.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import msgspec

from baro.cel import DeviceView, Value, view_of
from baro.model.errors import InputError, Where
from baro.model.kinds.resource import ResourceSlice
from baro.model.names import NUMA_NODE, NVIDIA_DRIVER, PCI_BUS_ID, PCIE_ROOT
from baro.model.quantity import Quantity, QuantityError
from baro.model.semver import SemVer
from baro.topology.profiles import load_profile, profile_names


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Typical devices, one for each distinct set of published values that matters."""

    title: str
    """For messages: ``NVIDIA's driver``, ``the ResourceSlices given``."""
    devices: tuple[DeviceView, ...] = ()

    def of_driver(self, driver: str) -> tuple[DeviceView, ...]:
        """The devices of one driver; empty when the catalogue knows nothing of it."""
        return tuple(device for device in self.devices if device.driver == driver)

    def knows_domain(self, domain: str) -> bool:
        """Whether some device publishes anything in that domain."""
        return any(domain in device.attributes or domain in device.capacity for device in self.devices)

    def attribute_names(self) -> frozenset[str]:
        """Every published attribute as ``domain/name``."""
        return frozenset(
            f"{domain}/{name}"
            for device in self.devices
            for domain, names in device.attributes.items()
            for name in names
        )

    def capacity_names(self) -> frozenset[str]:
        """Every published capacity as ``domain/name``."""
        return frozenset(
            f"{domain}/{name}"
            for device in self.devices
            for domain, names in device.capacity.items()
            for name in names
        )


def from_slices(slices: Iterable[ResourceSlice]) -> Catalogue:
    """The catalogue of live or dumped slices. Raises ``InputError`` for a capacity that is no quantity."""
    views: list[DeviceView] = []
    for item in slices:
        for device in item.spec.devices:
            shared = bool(device.allow_multiple_allocations)
            try:
                views.append(view_of(item.spec.driver, device.attributes, device.capacity, shared))
            except QuantityError as error:
                where = Where(object=item.ref, path=f"spec.devices[{device.name}].capacity")
                raise InputError(str(error), where=where) from error
    return Catalogue(title="the ResourceSlices given", devices=tuple(views))


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
    return Catalogue(title="NVIDIA's driver", devices=tuple(views.values()))


def _three_parts(version: str | None) -> SemVer:
    parts = [str(int(part)) for part in (version or "0").split(".") if part.isdigit()][:3]
    return SemVer.parse(".".join([*parts, "0", "0"][:3]))
