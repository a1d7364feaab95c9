"""What machine is this: NVML and sysfs asked once, put together as a ``Machine``.

The same code for a real node and a simulated one. Each fact is asked for on its own: a call that fails
leaves that fact unknown, a GPU that is lost leaves the other GPUs as they are, and only a library that does
not work at all is an error. NVLink comes from NVML, PCIe and NUMA from sysfs first, since NVML tells no
NICs. GB/s and judgements follow in ``baro.topology.assess``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from baro.agent.nvml import (
    MAX_LINKS,
    Code,
    FabricState,
    Handle,
    NvLinkDeviceType,
    Nvml,
    NvmlError,
    P2PIndex,
    P2PStatus,
    TopologyLevel,
    VirtualizationMode,
)
from baro.topology import catalog, sysfs
from baro.topology.assess import complete
from baro.topology.links import natural_key
from baro.topology.machine import Gpu, Link, Machine, Nic, Pair, Warn
from baro.topology.products import ARCHITECTURES, BRANDS, model_name
from baro.topology.sysfs import PciDevice, SysfsFacts, normalise_bus_id

T = TypeVar("T")

_KINDS: Final = {
    TopologyLevel.INTERNAL: "PIX",
    TopologyLevel.SINGLE: "PIX",
    TopologyLevel.MULTIPLE: "PXB",
    TopologyLevel.HOSTBRIDGE: "PHB",
    TopologyLevel.NODE: "NODE",
    TopologyLevel.SYSTEM: "SYS",
}
_P2P: Final = {
    P2PStatus.OK: "OK",
    P2PStatus.CHIPSET_NOT_SUPPORTED: "CNS",
    P2PStatus.GPU_NOT_SUPPORTED: "GNS",
    P2PStatus.TOPOLOGY_NOT_SUPPORTED: "TNS",
    P2PStatus.DISABLED_BY_REGKEY: "DR",
    P2PStatus.NOT_SUPPORTED: "NS",
    P2PStatus.UNKNOWN: "U",
}
_NVLINK_GENERATION: Final = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5, 8: 6}
"""``NVML_NVLINK_VERSION_*`` → generation; 2.2 and 3.1 count as 2 and 3."""
_NO_SUCH_LINK: Final = frozenset({Code.INVALID_ARGUMENT, Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND})
_MIB: Final = 2**20
_VIRTUAL: Final = frozenset({VirtualizationMode.PASSTHROUGH, VirtualizationMode.VGPU})


class _Port(msgspec.Struct, frozen=True):
    """One NVLink slot of a GPU: whether it is up, and the bus id of the peer GPU or that it is a switch."""

    active: bool
    peer: str | None = None
    switch: bool = False


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU with what is needed to link it to others."""

    gpu: Gpu
    handle: Handle = None
    ports: tuple[_Port, ...] | None = None
    virtual: bool = False
    answers: bool = True
    """Not lost: what it does not tell, the driver does not tell."""


def discover(nvml: Nvml, sysfs_root: Path, source: str = "NVML") -> Machine:
    """The machine under ``sysfs_root`` (``/sys``) as an initialised NVML tells it (see ``nvml.session``).

    Raises ``NvmlError`` only when NVML cannot even count GPUs.
    """
    warnings: list[Warn] = []
    facts = sysfs.read(sysfs_root)
    seen = [_see(nvml, index, facts, warnings) for index in range(nvml.nvmlDeviceGetCount())]
    _unseen(seen, facts, warnings)
    links = _links(nvml, seen, facts, warnings)
    nics, nic_links = _nics(seen, facts, _same_node_word(nvml, seen))
    ports = [port for one in seen for port in one.ports or () if port.active]
    machine = Machine(
        gpus=tuple(one.gpu for one in seen),
        nics=nics,
        links=links,
        nic_links=nic_links,
        switched=any(port.switch for port in ports) if ports else None,
        numa_hidden=_hidden(seen, links, nic_links),
        nvlink_unknown=any(one.answers and one.ports is None for one in seen),
        driver_version=_ask(nvml.nvmlSystemGetDriverVersion),
        cuda_driver_version=_cuda(_ask(nvml.nvmlSystemGetCudaDriverVersion_v2)),
        source=source,
        warnings=(*facts.warnings, *warnings),
    )
    return _forget_hidden(complete(machine))


def _ask(call: Callable[..., T], *args: object) -> T | None:
    """The answer, or ``None`` when the driver does not tell."""
    try:
        return call(*args)
    except NvmlError:
        return None


# --- one GPU ---------------------------------------------------------------------------------------------


def _see(nvml: Nvml, index: int, facts: SysfsFacts, warnings: list[Warn]) -> _Seen:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except NvmlError as error:
        warnings.append(Warn("gpu-lost", f"GPU{index} cannot be opened ({error.what})", (index,)))
        return _Seen(gpu=Gpu(index=index), answers=False)
    answers = _answers(nvml, handle, index, warnings)
    bus_id = normalise_bus_id(_ask(nvml.nvmlDeviceGetPciInfo, handle))
    ports = _ports(nvml, handle)
    gpu = _identity(nvml, handle, index, bus_id)
    gpu = msgspec.structs.replace(
        gpu, **_place(nvml, handle, facts.find(bus_id)), **_nvlink(nvml, handle, gpu, ports)
    )
    _mode_warnings(nvml, handle, gpu, warnings)
    virtual = _ask(nvml.nvmlDeviceGetVirtualizationMode, handle) in _VIRTUAL
    return _Seen(gpu=gpu, handle=handle, ports=ports, virtual=virtual, answers=answers)


def _answers(nvml: Nvml, handle: Handle, index: int, warnings: list[Warn]) -> bool:
    """Whether the device itself answers; name and UUID come from a cache even when it does not."""
    try:
        nvml.nvmlDeviceGetMemoryInfo(handle)
    except NvmlError as error:
        if error.code in {Code.GPU_IS_LOST, Code.RESET_REQUIRED, Code.UNKNOWN}:
            warnings.append(Warn("gpu-lost", f"GPU{index} does not answer ({error.what})", (index,)))
            return False
    return True


def _identity(nvml: Nvml, handle: Handle, index: int, bus_id: str | None) -> Gpu:
    product = _ask(nvml.nvmlDeviceGetName, handle)
    memory = _ask(nvml.nvmlDeviceGetMemoryInfo, handle)
    capability = _ask(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    return Gpu(
        index=index,
        minor=_ask(nvml.nvmlDeviceGetMinorNumber, handle),
        uuid=_ask(nvml.nvmlDeviceGetUUID, handle),
        product_name=product,
        model=model_name(product),
        brand=BRANDS.get(_ask(nvml.nvmlDeviceGetBrand, handle) or 0),
        architecture=ARCHITECTURES.get(_ask(nvml.nvmlDeviceGetArchitecture, handle) or 0),
        cuda_compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        memory_mib=memory // _MIB if memory is not None else None,
        pci_bus_id=bus_id,
        pcie_gen=_ask(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        pcie_width=_ask(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        module_id=_ask(nvml.nvmlDeviceGetModuleId, handle),
        clique=_clique(nvml, handle),
        mig_capable=_mig_capable(nvml, handle),
    )


def _place(nvml: Nvml, handle: Handle, device: PciDevice | None) -> dict[str, object]:
    """PCIe and NUMA: from sysfs, and the affinity from NVML where sysfs does not tell."""
    numa: tuple[int, ...] | None = None
    if device is not None and device.numa is not None:
        numa = (device.numa,)
    else:
        numa = _ask(nvml.nvmlDeviceGetMemoryAffinity, handle) or None
    return {
        "pcie_root": device.root if device else None,
        "pcie_switch": device.switch if device else None,
        "numa": numa,
        "gpu_numa_id": _ask(nvml.nvmlDeviceGetNumaNodeId, handle),
        "cpus": (device.cpus if device else None) or _ask(nvml.nvmlDeviceGetCpuAffinity, handle) or None,
    }


def _ports(nvml: Nvml, handle: Handle) -> tuple[_Port, ...] | None:
    """All NVLink slots in order; ``None`` when the driver does not tell (an empty tuple: there are none)."""
    ports: list[_Port] = []
    for link in range(MAX_LINKS):
        try:
            active = bool(nvml.nvmlDeviceGetNvLinkState(handle, link))
        except NvmlError as error:
            if error.code == Code.FUNCTION_NOT_FOUND or error.code not in _NO_SUCH_LINK:
                return None
            break
        if not active:
            ports.append(_Port(False))
            continue
        kind = _ask(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
        peer = normalise_bus_id(_ask(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link))
        switch = kind == NvLinkDeviceType.SWITCH
        ports.append(_Port(True, None if switch else peer, switch))
    return tuple(ports)


def _nvlink(nvml: Nvml, handle: Handle, gpu: Gpu, ports: tuple[_Port, ...] | None) -> dict[str, object]:
    if ports is None:
        return {}
    versions = {_ask(nvml.nvmlDeviceGetNvLinkVersion, handle, link) for link in range(len(ports))}
    known = [_NVLINK_GENERATION[v] for v in versions if v in _NVLINK_GENERATION]
    product = catalog.find(gpu.product_name)
    # A card has slots for bridges that may never have been bought; a baseboard is cabled in full.
    cabled = any(port.switch for port in ports) or (product is not None and product.on_board)
    return {
        "nvlinks": sum(port.active for port in ports),
        "nvlinks_expected": len(ports) if cabled or not ports else None,
        "nvlink_version": max(known, default=None),
    }


def _clique(nvml: Nvml, handle: Handle) -> str | None:
    """``<clusterUUID>.<cliqueId>``; a board without a multi-node domain reports the zero UUID."""
    info = _ask(nvml.nvmlDeviceGetGpuFabricInfoV, handle)
    if info is None or info.state != FabricState.COMPLETED or info.status != 0 or not any(info.cluster_uuid):
        return None
    return f"{uuid.UUID(bytes=info.cluster_uuid)}.{info.clique_id}"


def _mig_capable(nvml: Nvml, handle: Handle) -> bool | None:
    try:
        nvml.nvmlDeviceGetMigMode(handle)
    except NvmlError as error:
        return False if error.code == Code.NOT_SUPPORTED else None
    return True


def _mode_warnings(nvml: Nvml, handle: Handle, gpu: Gpu, warnings: list[Warn]) -> None:
    mode = _ask(nvml.nvmlDeviceGetMigMode, handle)
    if mode and mode[0]:
        warnings.append(Warn("mig-enabled", f"GPU{gpu.index} is in MIG mode", (gpu.index,)))
    info = _ask(nvml.nvmlDeviceGetGpuFabricInfoV, handle)
    if info is not None and info.state in {FabricState.NOT_STARTED, FabricState.IN_PROGRESS}:
        what = f"GPU{gpu.index}: NVLink fabric state is {FabricState(info.state).name}"
        warnings.append(Warn("fabric-not-ready", what, (gpu.index,)))
    widest = _ask(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle)
    if gpu.pcie_width and widest and gpu.pcie_width < widest:
        what = f"GPU{gpu.index} runs on {gpu.pcie_width} of {widest} PCIe lanes"
        warnings.append(Warn("pcie-width-below-max", what, (gpu.index,)))


def _unseen(seen: list[_Seen], facts: SysfsFacts, warnings: list[Warn]) -> None:
    """GPUs on the bus that NVML does not show: fallen off, bound to another driver, or not yet ready."""
    shown = {one.gpu.pci_bus_id for one in seen}
    for device in facts.gpus:
        if device.bus_id not in shown:
            what = f"GPU {device.bus_id} is on the PCI bus but NVML does not show it"
            warnings.append(Warn("gpu-not-in-nvml", what))


# --- links -----------------------------------------------------------------------------------------------


def _links(nvml: Nvml, seen: list[_Seen], facts: SysfsFacts, warnings: list[Warn]) -> dict[Pair, Link]:
    links: dict[Pair, Link] = {}
    for i, a in enumerate(seen):
        for b in seen[i + 1 :]:
            link = _link(nvml, a, b, facts, warnings)
            if link is not None:
                links[a.gpu.index, b.gpu.index] = link
    return links


def _link(nvml: Nvml, a: _Seen, b: _Seen, facts: SysfsFacts, warnings: list[Warn]) -> Link | None:
    nvlinks = _bonded(a, b)
    p2p = None
    level = None
    if a.handle is not None and b.handle is not None:
        level = _ask(nvml.nvmlDeviceGetTopologyCommonAncestor, a.handle, b.handle)
        p2p = _ask(nvml.nvmlDeviceGetP2PStatus, a.handle, b.handle, P2PIndex.READ)
        over = _ask(nvml.nvmlDeviceGetP2PStatus, a.handle, b.handle, P2PIndex.NVLINK) if nvlinks else None
        if over not in {None, P2PStatus.OK, P2PStatus.UNKNOWN}:
            pair = (a.gpu.index, b.gpu.index)
            what = f"GPU{pair[0]} and GPU{pair[1]} have {nvlinks} NVLinks that the driver refuses to use"
            warnings.append(Warn("nvlink-unusable", what, pair))
            nvlinks = 0
    kind = f"NV{nvlinks}" if nvlinks else _kind(level, a, b, facts)
    if kind is None:
        return None
    return Link(kind=kind, nvlinks=nvlinks, p2p=_P2P.get(P2PStatus(p2p)) if p2p in set(P2PStatus) else None)


def _kind(level: int | None, a: _Seen, b: _Seen, facts: SysfsFacts) -> str | None:
    if level in set(TopologyLevel):
        return _KINDS[TopologyLevel(level)]
    one, two = facts.find(a.gpu.pci_bus_id), facts.find(b.gpu.pci_bus_id)
    return facts.relation(one, two) if one is not None and two is not None else None


def _bonded(a: _Seen, b: _Seen) -> int:
    """NVLinks of a pair: direct ones, or what both sides can send through the switches."""
    direct = min(
        sum(port.peer is not None and port.peer == b.gpu.pci_bus_id for port in a.ports or ()),
        sum(port.peer is not None and port.peer == a.gpu.pci_bus_id for port in b.ports or ()),
    )
    through = min(sum(port.switch for port in a.ports or ()), sum(port.switch for port in b.ports or ()))
    return direct or through


def _same_node_word(nvml: Nvml, seen: list[_Seen]) -> str:
    """What this driver calls two devices of one NUMA node under different host bridges.

    NODE by its legend, yet some machines print SYS or PHB; NVML tells GPU pairs only, so one such pair
    speaks for the NICs as well.
    """
    for i, a in enumerate(seen):
        for b in seen[i + 1 :]:
            near = a.gpu.numa is not None and a.gpu.numa == b.gpu.numa and len(a.gpu.numa) == 1
            apart = None not in {a.gpu.pcie_root, b.gpu.pcie_root} and a.gpu.pcie_root != b.gpu.pcie_root
            level = (
                _ask(nvml.nvmlDeviceGetTopologyCommonAncestor, a.handle, b.handle) if near and apart else None
            )
            if level in set(TopologyLevel):
                return _KINDS[TopologyLevel(level)]
    return "NODE"


def _nics(
    seen: list[_Seen], facts: SysfsFacts, same_node: str
) -> tuple[tuple[Nic, ...], dict[tuple[int, str], str]]:
    """RDMA devices as ``topo -m`` numbers them: in natural order of their names."""
    rdma = sorted(
        ((name, device) for device in facts.nics for name in device.rdma),
        key=lambda item: natural_key(item[0]),
    )
    nics: list[Nic] = []
    relations: dict[tuple[int, str], str] = {}
    for number, (name, device) in enumerate(rdma):
        nics.append(
            Nic(
                name=f"NIC{number}",
                device=name,
                pci_bus_id=device.bus_id,
                pcie_root=device.root,
                pcie_switch=device.switch,
                numa=None if device.numa is None else (device.numa,),
            )
        )
        for one in seen:
            gpu = facts.find(one.gpu.pci_bus_id)
            relation = facts.relation(gpu, device) if gpu is not None else None
            if relation is not None:
                relations[one.gpu.index, f"NIC{number}"] = same_node if relation == "NODE" else relation
    return tuple(nics), relations


# --- virtual machines ------------------------------------------------------------------------------------


def _hidden(seen: list[_Seen], links: dict[Pair, Link], nic_links: dict[tuple[int, str], str]) -> bool:
    """A guest that shows no NUMA node of its GPUs, or puts several devices on one bus: not to be trusted."""
    if not any(one.virtual for one in seen):
        return False
    relations = {link.kind for link in links.values() if not link.nvlinks} | set(nic_links.values())
    several = len(seen) > 1 or bool(nic_links)
    merged = all(one.gpu.numa is None or len(one.gpu.numa) > 1 for one in seen)
    return several and (relations == {"PHB"} or merged)


def _forget_hidden(machine: Machine) -> Machine:
    """Where NUMA is hidden, what the guest shows of PCIe and NUMA is made up and counts as unknown."""
    if not machine.numa_hidden:
        return machine
    unknown = {"pcie_root": None, "pcie_switch": None, "numa": None}
    return msgspec.structs.replace(
        machine,
        gpus=tuple(msgspec.structs.replace(gpu, **unknown) for gpu in machine.gpus),
        nics=tuple(msgspec.structs.replace(nic, **unknown) for nic in machine.nics),
    )


def _cuda(version: int | None) -> str | None:
    return None if version is None else f"{version // 1000}.{version % 1000 // 10}"
