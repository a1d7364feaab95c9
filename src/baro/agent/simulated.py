# ruff: noqa: N802 the functions bear the names that NVML gives them
"""A simulated machine: NVML answers and a sysfs tree, both made from one machine profile.

``SimulatedNvml`` has the interface of the real library, so discovery runs the same code on both; it holds
no state that a call could change. ``write_sysfs`` makes the files that discovery reads. Faults are given
as arguments. Nothing here measures or executes anything on a GPU.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, TypeVar

from baro.agent.nvml import (
    Code,
    FabricInfo,
    FabricState,
    Handle,
    NvLinkDeviceType,
    NvmlError,
    P2PIndex,
    P2PStatus,
    TopologyLevel,
    VirtualizationMode,
)
from baro.topology.links import format_ranges, parse_ranges, pcie_relation
from baro.topology.machine import Gpu, Link
from baro.topology.products import architecture_code, brand_code
from baro.topology.profiles import Profile

T = TypeVar("T")

_LEVELS: Final = {
    "PIX": TopologyLevel.SINGLE,
    "PXB": TopologyLevel.MULTIPLE,
    "PHB": TopologyLevel.HOSTBRIDGE,
    "NODE": TopologyLevel.NODE,
    "SYS": TopologyLevel.SYSTEM,
}
_NVLINK_VERSIONS: Final = {1: 1, 2: 2, 3: 4, 4: 6, 5: 7}
"""NVLink generation → ``NVML_NVLINK_VERSION_*``."""
_P2P: Final = {
    "OK": P2PStatus.OK,
    "CNS": P2PStatus.CHIPSET_NOT_SUPPORTED,
    "GNS": P2PStatus.GPU_NOT_SUPPORTED,
    "TNS": P2PStatus.TOPOLOGY_NOT_SUPPORTED,
    "DR": P2PStatus.DISABLED_BY_REGKEY,
    "NS": P2PStatus.NOT_SUPPORTED,
    "U": P2PStatus.UNKNOWN,
}
_MIB: Final = 2**20
_HIDDEN_SWITCH: Final = "FFFFFFFF:FF:FF.0"
_SPEEDS: Final = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}


class SimulatedNvml:
    """NVML of a machine that does not exist. A handle is the GPU's index.

    ``lost``: indices that answer GPU_IS_LOST to everything. ``unreachable``: indices for which not even a
    handle can be had. ``missing_functions``: names that the simulated driver lacks (FUNCTION_NOT_FOUND).
    ``mig``: indices in MIG mode. ``failing``: name → code that the function answers on every GPU.
    """

    def __init__(
        self,
        profile: Profile,
        seed: str = "",
        *,
        lost: Collection[int] = (),
        unreachable: Collection[int] = (),
        missing_functions: Collection[str] = (),
        mig: Collection[int] = (),
        failing: Mapping[str, int] | None = None,
    ) -> None:
        self.profile = profile
        self.machine = profile.machine(seed)
        self._gpus: dict[int, Gpu] = {gpu.index: gpu for gpu in self.machine.gpus}
        self._ports = {(port.gpu, port.link): port for port in profile.nvlink_wiring()}
        self._lost = frozenset(lost)
        self._unreachable = frozenset(unreachable)
        self._missing = frozenset(missing_functions)
        self._mig = frozenset(mig)
        self._failing = dict(failing or {})
        self._open = False

    def _gpu(self, function: str, device: Handle) -> Gpu:
        """The GPU behind a handle, after the faults that every call on it can meet."""
        self._system(function)
        if device not in self._gpus:
            raise NvmlError(Code.INVALID_ARGUMENT, function)
        if device in self._lost:
            raise NvmlError(Code.GPU_IS_LOST, function)
        return self._gpus[device]

    def _system(self, function: str) -> None:
        if function in self._missing:
            raise NvmlError(Code.FUNCTION_NOT_FOUND, function)
        if not self._open:
            raise NvmlError(Code.UNINITIALIZED, function)
        if function in self._failing:
            raise NvmlError(self._failing[function], function)

    def nvmlInit(self) -> None:
        if "nvmlInit" in self._failing:
            raise NvmlError(self._failing["nvmlInit"], "nvmlInit")
        self._open = True

    def nvmlShutdown(self) -> None:
        self._system("nvmlShutdown")
        self._open = False

    def nvmlSystemGetDriverVersion(self) -> str:
        self._system("nvmlSystemGetDriverVersion")
        return self.profile.driver.version

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        self._system("nvmlSystemGetCudaDriverVersion_v2")
        major, minor = self.profile.driver.cuda.split(".")[:2]
        return int(major) * 1000 + int(minor) * 10

    def nvmlDeviceGetCount(self) -> int:
        self._system("nvmlDeviceGetCount")
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle:
        self._system("nvmlDeviceGetHandleByIndex")
        if index not in self._gpus:
            raise NvmlError(Code.INVALID_ARGUMENT, "nvmlDeviceGetHandleByIndex")
        if index in self._unreachable:
            raise NvmlError(Code.GPU_IS_LOST, "nvmlDeviceGetHandleByIndex")
        return index

    def nvmlDeviceGetUUID(self, device: Handle) -> str:
        return _told(self._gpu("nvmlDeviceGetUUID", device).uuid, "nvmlDeviceGetUUID")

    def nvmlDeviceGetName(self, device: Handle) -> str:
        return _told(self._gpu("nvmlDeviceGetName", device).product_name, "nvmlDeviceGetName")

    def nvmlDeviceGetBrand(self, device: Handle) -> int:
        return brand_code(self._gpu("nvmlDeviceGetBrand", device).brand)

    def nvmlDeviceGetArchitecture(self, device: Handle) -> int:
        gpu = self._gpu("nvmlDeviceGetArchitecture", device)
        return _told(architecture_code(gpu.architecture), "nvmlDeviceGetArchitecture")

    def nvmlDeviceGetMinorNumber(self, device: Handle) -> int:
        return _told(self._gpu("nvmlDeviceGetMinorNumber", device).minor, "nvmlDeviceGetMinorNumber")

    def nvmlDeviceGetModuleId(self, device: Handle) -> int:
        return _told(self._gpu("nvmlDeviceGetModuleId", device).module_id, "nvmlDeviceGetModuleId")

    def nvmlDeviceGetCudaComputeCapability(self, device: Handle) -> tuple[int, int]:
        function = "nvmlDeviceGetCudaComputeCapability"
        major, minor = _told(self._gpu(function, device).cuda_compute_capability, function).split(".")[:2]
        return int(major), int(minor)

    def nvmlDeviceGetMemoryInfo(self, device: Handle) -> int:
        return (
            _told(self._gpu("nvmlDeviceGetMemoryInfo", device).memory_mib, "nvmlDeviceGetMemoryInfo") * _MIB
        )

    def nvmlDeviceGetPciInfo(self, device: Handle) -> str:
        return _nvml_bus_id(self._gpu("nvmlDeviceGetPciInfo", device).pci_bus_id or "")

    def nvmlDeviceGetMaxPcieLinkGeneration(self, device: Handle) -> int:
        function = "nvmlDeviceGetMaxPcieLinkGeneration"
        return _told(self._gpu(function, device).pcie_gen, function)

    def nvmlDeviceGetMaxPcieLinkWidth(self, device: Handle) -> int:
        function = "nvmlDeviceGetMaxPcieLinkWidth"
        return _told(self._gpu(function, device).pcie_width, function)

    def nvmlDeviceGetCurrPcieLinkWidth(self, device: Handle) -> int:
        function = "nvmlDeviceGetCurrPcieLinkWidth"
        return _told(self._gpu(function, device).pcie_width, function)

    def nvmlDeviceGetVirtualizationMode(self, device: Handle) -> int:
        self._gpu("nvmlDeviceGetVirtualizationMode", device)
        virtual = self.profile.virtual_machine
        return VirtualizationMode.PASSTHROUGH if virtual else VirtualizationMode.NONE

    def nvmlDeviceGetMigMode(self, device: Handle) -> tuple[int, int]:
        if not self._gpu("nvmlDeviceGetMigMode", device).mig_capable:
            raise NvmlError(Code.NOT_SUPPORTED, "nvmlDeviceGetMigMode")
        on = int(device in self._mig)
        return on, on

    def nvmlDeviceGetMemoryAffinity(self, device: Handle) -> tuple[int, ...]:
        gpu = self._gpu("nvmlDeviceGetMemoryAffinity", device)
        return gpu.numa if gpu.numa is not None else tuple(sorted(self.profile.numa))

    def nvmlDeviceGetCpuAffinity(self, device: Handle) -> tuple[int, ...]:
        return self._gpu("nvmlDeviceGetCpuAffinity", device).cpus or ()

    def nvmlDeviceGetNumaNodeId(self, device: Handle) -> int:
        return _told(self._gpu("nvmlDeviceGetNumaNodeId", device).gpu_numa_id, "nvmlDeviceGetNumaNodeId")

    def nvmlDeviceGetGpuFabricInfoV(self, device: Handle) -> FabricInfo:
        clique = self._gpu("nvmlDeviceGetGpuFabricInfoV", device).clique
        if clique is None:
            raise NvmlError(Code.NOT_SUPPORTED, "nvmlDeviceGetGpuFabricInfoV")
        cluster, _, number = clique.rpartition(".")
        return FabricInfo(
            state=FabricState.COMPLETED,
            status=0,
            cluster_uuid=uuid.UUID(cluster).bytes,
            clique_id=int(number),
        )

    def nvmlDeviceGetNvLinkState(self, device: Handle, link: int) -> int:
        self._gpu("nvmlDeviceGetNvLinkState", device)
        port = self._ports.get((device, link))
        if port is None:
            raise NvmlError(Code.NOT_SUPPORTED, "nvmlDeviceGetNvLinkState")
        return int(port.active)

    def nvmlDeviceGetNvLinkVersion(self, device: Handle, link: int) -> int:
        function = "nvmlDeviceGetNvLinkVersion"
        version = self._gpu(function, device).nvlink_version
        if (device, link) not in self._ports or version not in _NVLINK_VERSIONS:
            raise NvmlError(Code.NOT_SUPPORTED, function)
        return _NVLINK_VERSIONS[version]

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, device: Handle, link: int) -> int:
        self._gpu("nvmlDeviceGetNvLinkRemoteDeviceType", device)
        port = self._ports.get((device, link))
        if port is None or not port.active:
            raise NvmlError(Code.NOT_SUPPORTED, "nvmlDeviceGetNvLinkRemoteDeviceType")
        return NvLinkDeviceType.GPU if port.peer is not None else NvLinkDeviceType.SWITCH

    def nvmlDeviceGetNvLinkRemotePciInfo(self, device: Handle, link: int) -> str:
        self._gpu("nvmlDeviceGetNvLinkRemotePciInfo", device)
        port = self._ports.get((device, link))
        if port is None or not port.active:
            raise NvmlError(Code.NOT_SUPPORTED, "nvmlDeviceGetNvLinkRemotePciInfo")
        return _HIDDEN_SWITCH if port.peer is None else _nvml_bus_id(self._gpus[port.peer].pci_bus_id or "")

    def nvmlDeviceGetTopologyCommonAncestor(self, a: Handle, b: Handle) -> int:
        self._gpu("nvmlDeviceGetTopologyCommonAncestor", a)
        self._gpu("nvmlDeviceGetTopologyCommonAncestor", b)
        return _LEVELS[_relation(self.profile, self.machine.link(a, b), a, b)]

    def nvmlDeviceGetP2PStatus(self, a: Handle, b: Handle, index: int) -> int:
        self._gpu("nvmlDeviceGetP2PStatus", a)
        self._gpu("nvmlDeviceGetP2PStatus", b)
        link = self.machine.link(a, b)
        if index == P2PIndex.NVLINK:
            return P2PStatus.OK if link is not None and link.nvlinks else P2PStatus.NOT_SUPPORTED
        return _P2P[link.p2p or "OK"] if link is not None else P2PStatus.UNKNOWN


def _told(value: T | None, function: str) -> T:
    """What a profile does not tell, the simulated driver does not support."""
    if value is None:
        raise NvmlError(Code.NOT_SUPPORTED, function)
    return value


def _nvml_bus_id(bus_id: str) -> str:
    domain, rest = bus_id.split(":", 1)
    return f"{int(domain, 16):08X}:{rest.upper()}"


def _relation(profile: Profile, link: Link | None, a: int, b: int) -> str:
    """The PCIe relation of two GPUs, also where NVLink hides it from the matrix."""
    if link is not None and link.kind in _LEVELS:
        return link.kind
    if profile.virtual_machine:
        return "PHB"
    one, two = profile.gpus[a], profile.gpus[b]
    numa_a = None if one.numa is None else (one.numa,)
    numa_b = None if two.numa is None else (two.numa,)
    relation = pcie_relation(profile.pci_chain(one), profile.pci_chain(two), numa_a, numa_b) or "SYS"
    return profile.same_numa_relation if relation == "NODE" else relation


# --- sysfs -----------------------------------------------------------------------------------------------


def write_sysfs(profile: Profile, root: Path) -> None:
    """Makes the sysfs tree of a profile under ``root``, which stands for ``/sys`` and should be empty.

    A virtual machine gets what hypervisors show: all devices on one bus, ``numa_node`` -1.
    """
    links = root / "bus" / "pci" / "devices"
    links.mkdir(parents=True, exist_ok=True)
    for node, cpus in profile.numa.items():
        _write(root / "devices" / "system" / "node" / f"node{node}", {"cpulist": cpus})
    if profile.numa:
        nodes = ",".join(map(str, sorted(profile.numa)))
        _write(root / "devices" / "system" / "node", {"online": nodes, "has_cpu": nodes})
    machine = profile.machine()
    for gpu, spec in zip(machine.gpus, profile.gpus, strict=True):
        product = profile.product_of(gpu.index)
        device_id = f"0x{product.pci_device_id}" if product else "0x0000"
        place = _place(profile, root, spec.pci, profile.pci_chain(spec))
        _write(place, _files("0x030200", "0x10de", device_id, _numa(profile, spec.numa), gpu.cpus))
        if gpu.pcie_gen is not None and gpu.pcie_width is not None:
            speed = f"{_SPEEDS[gpu.pcie_gen]} GT/s PCIe"
            width = str(gpu.pcie_width)
            _write(place, {"max_link_speed": speed, "current_link_speed": speed})
            _write(place, {"max_link_width": width, "current_link_width": width})
    for number, nic in enumerate(profile.nics):
        place = _place(profile, root, nic.pci, profile.pci_chain(nic))
        near = None if nic.numa is None else parse_ranges(profile.numa[nic.numa])
        _write(place, _files("0x020000", "0x15b3", "0x1021", _numa(profile, nic.numa), near))
        (place / "net" / f"eth{number}").mkdir(parents=True, exist_ok=True)
        (place / "infiniband" / nic.device).mkdir(parents=True, exist_ok=True)


def _place(profile: Profile, root: Path, bus_id: str, chain: tuple[str, ...]) -> Path:
    """The directory of a device, with the directories of its bridges and the links from ``bus/pci``."""
    if profile.virtual_machine:
        chain = ("pci0000:00",)
    links = root / "bus" / "pci" / "devices"
    place = root / "devices" / chain[0]
    for name in (*chain[1:], bus_id):
        place = place / name
        place.mkdir(parents=True, exist_ok=True)
        if name != bus_id:
            _write(place, {"class": "0x060400"})
        entry = links / name
        if not entry.is_symlink():
            entry.symlink_to(Path("../../..") / place.relative_to(root))
    return place


def _numa(profile: Profile, node: int | None) -> int:
    return -1 if node is None or profile.virtual_machine else node


def _files(
    pci_class: str, vendor: str, device: str, numa: int, cpus: tuple[int, ...] | None
) -> dict[str, str]:
    return {
        "class": pci_class,
        "vendor": vendor,
        "device": device,
        "numa_node": str(numa),
        "local_cpulist": format_ranges(cpus or ()),
    }


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n", encoding="ascii")
