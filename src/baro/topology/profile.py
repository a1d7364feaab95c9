"""One machine type as a value, and the ``Machine`` that discovery would find on it.

Everything that a profile does not say follows from the product (``catalog``) and from the place of each
device in the PCIe tree. The files and the built-in names are in ``profiles``.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta

from baro.topology import catalog
from baro.topology.assess import complete
from baro.topology.catalog import Product
from baro.topology.links import nvlink_count, parse_ranges, pcie_relation
from baro.topology.machine import MAX_GPUS, Gpu, Link, Machine, Nic, Pair
from baro.topology.profile_parts import (
    BusId,
    Driver,
    GpuSpec,
    NicSpec,
    Nvlink,
    NvlinkPort,
    Spec,
    Switch,
    active_pairs,
    wiring,
)


class Profile(Spec, frozen=True, kw_only=True):
    """One machine type. ``machine()`` is what discovery would find on it."""

    api_version: Literal["baro.dev/v1alpha1"] = "baro.dev/v1alpha1"
    kind: Literal["MachineProfile"] = "MachineProfile"
    name: Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
    title: str
    description: str = ""
    sources: tuple[str, ...] = ()
    product: str
    """Product name as ``nvidia-smi`` prints it, for all GPUs that do not say otherwise."""
    driver: Driver = Driver()
    numa: dict[int, str] = {}
    """CPU list of each NUMA node: ``0: 0-55,112-167``."""
    switches: dict[BusId, Switch] = {}
    gpus: Annotated[tuple[GpuSpec, ...], Meta(min_length=1, max_length=MAX_GPUS)]
    nics: tuple[NicSpec, ...] = ()
    nvlink: Nvlink = Nvlink()
    same_numa_relation: Literal["NODE", "SYS", "PHB"] = "NODE"
    """Relation of devices in one NUMA node under different host bridges; some machines print SYS."""
    clique: str | None = None
    """``<clusterUUID>.<cliqueId>`` when NVLink goes beyond the machine."""
    virtual_machine: bool = False
    """The hypervisor flattens PCIe to PHB and hides NUMA."""

    def product_of(self, index: int) -> Product | None:
        """The facts of the product of one GPU, or ``None`` for a product that baro does not know."""
        return catalog.find(self.gpus[index].product or self.product)

    def uuid_of(self, index: int, seed: str = "") -> str:
        """``GPU-…`` of one GPU: the same for the same seed, different for different seeds."""
        digest = hashlib.sha256(f"{self.name}/{seed}/{index}".encode()).digest()
        return f"GPU-{uuid.UUID(bytes=digest[:16])}"

    def pci_chain(self, device: GpuSpec | NicSpec) -> tuple[str, ...]:
        """Path from the host bridge to the port above a device, as the directories of sysfs name it.

        ``("pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:00.0")`` for a device behind a switch;
        root ports and downstream ports are made up in the order of the file.
        """
        return _chain(self, device)

    def nvlink_wiring(self) -> tuple[NvlinkPort, ...]:
        """Every NVLink of every GPU, active or not, ordered by GPU and link number."""
        return wiring(self.nvlink, len(self.gpus))

    def machine(self, seed: str = "") -> Machine:
        """The machine, with UUIDs made from ``seed`` (a node's name)."""
        return _machine(self, seed)


def _chain(profile: Profile, device: GpuSpec | NicSpec) -> tuple[str, ...]:
    """See ``Profile.pci_chain``."""
    above: list[str] = []
    child, switch, root = device.pci, device.switch, device.root
    while switch is not None:
        domain, bus, _ = switch.split(":")
        siblings = _children(profile, switch=switch)
        above += [f"{domain}:{int(bus, 16) + 1:02x}:{siblings.index(child):02x}.0", switch]
        child, root = switch, profile.switches[switch].root
        switch = profile.switches[switch].parent
    if root is not None and child.rpartition(":")[0] != root:
        # A device on the root bus itself, as virtual machines show it, has no port above it.
        above.append(f"{root}:{_children(profile, root=root).index(child) + 1:02x}.0")
    return (f"pci{root}", *reversed(above))


def _children(profile: Profile, *, root: str | None = None, switch: str | None = None) -> list[str]:
    """What hangs directly under a host bridge or a switch, in the order of the file."""
    switches = [
        port
        for port, spec in profile.switches.items()
        if (switch is not None and spec.parent == switch) or (root is not None and spec.root == root)
    ]
    all_devices: Iterable[GpuSpec | NicSpec] = (*profile.gpus, *profile.nics)
    devices = [
        device.pci
        for device in all_devices
        if (switch is not None and device.switch == switch) or (root is not None and device.root == root)
    ]
    return [*switches, *devices]


def _cpus(profile: Profile, spec: GpuSpec) -> tuple[int, ...] | None:
    """CPUs near a GPU; a virtual machine names all of them."""
    if profile.virtual_machine:
        return parse_ranges(",".join(profile.numa[node] for node in sorted(profile.numa)))
    near = profile.numa.get(spec.numa) if spec.numa is not None else None
    return parse_ranges(spec.cpus or near or "")


def _gpu(profile: Profile, index: int, seed: str) -> Gpu:
    spec, product = profile.gpus[index], profile.product_of(index)
    ports = [port for port in profile.nvlink_wiring() if port.gpu == index]
    hidden = profile.virtual_machine
    return Gpu(
        index=index,
        minor=index if spec.minor is None else spec.minor,
        uuid=profile.uuid_of(index, seed),
        product_name=spec.product or profile.product,
        model=product.model if product else None,
        brand=product.brand if product else None,
        architecture=product.architecture if product else None,
        cuda_compute_capability=product.compute_capability if product else None,
        memory_mib=spec.memory_mib or (product.memory_mib if product else None),
        pci_bus_id=spec.pci,
        pcie_root=None if hidden else profile.pci_chain(spec)[0],
        pcie_switch=None if hidden else spec.switch,
        pcie_gen=spec.pcie_gen or (product.pcie_gen if product else None),
        pcie_width=spec.pcie_width or (product.pcie_width if product else None),
        numa=None if hidden or spec.numa is None else (spec.numa,),
        gpu_numa_id=spec.gpu_numa_id,
        cpus=_cpus(profile, spec),
        nvlinks=sum(port.active for port in ports),
        nvlinks_expected=len(ports),
        nvlink_version=product.nvlink_version if product and ports else None,
        module_id=spec.module_id,
        clique=profile.clique,
        mig_capable=product.mig_family is not None if product else None,
    )


def _relation(profile: Profile, a: GpuSpec | NicSpec, b: GpuSpec | NicSpec) -> str:
    if profile.virtual_machine:
        return "PHB"
    numa_a = None if a.numa is None else (a.numa,)
    numa_b = None if b.numa is None else (b.numa,)
    relation = pcie_relation(profile.pci_chain(a), profile.pci_chain(b), numa_a, numa_b) or "SYS"
    return profile.same_numa_relation if relation == "NODE" else relation


def _machine(profile: Profile, seed: str) -> Machine:
    gpus = tuple(_gpu(profile, index, seed) for index in range(len(profile.gpus)))
    nvlinks = active_pairs(profile.nvlink, len(gpus))
    links: dict[Pair, Link] = {}
    for a in range(len(gpus)):
        for b in range(a + 1, len(gpus)):
            count = nvlinks.get((a, b), 0)
            kind = f"NV{count}" if count else _relation(profile, profile.gpus[a], profile.gpus[b])
            links[a, b] = Link(kind=kind, nvlinks=nvlink_count(kind))
    hidden = profile.virtual_machine
    nics = tuple(
        Nic(
            name=f"NIC{i}",
            device=nic.device,
            pci_bus_id=nic.pci,
            pcie_root=None if hidden else profile.pci_chain(nic)[0],
            pcie_switch=None if hidden else nic.switch,
            numa=None if hidden or nic.numa is None else (nic.numa,),
        )
        for i, nic in enumerate(profile.nics)
    )
    nic_links = {
        (index, f"NIC{i}"): _relation(profile, gpu, nic)
        for index, gpu in enumerate(profile.gpus)
        for i, nic in enumerate(profile.nics)
    }
    return complete(
        Machine(
            gpus=gpus,
            nics=nics,
            links=links,
            nic_links=nic_links,
            switched=bool(profile.nvlink.switched) if nvlinks else None,
            numa_hidden=hidden,
            driver_version=profile.driver.version,
            cuda_driver_version=profile.driver.cuda,
            source=f"profile {profile.name}",
        )
    )
