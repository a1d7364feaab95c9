"""The calls of NVML that discovery needs, as one interface, and the adapter to the real library.

Functions are spelled as in NVIDIA's Python binding (module ``pynvml`` of package nvidia-ml-py); they
return plain values instead of ctypes structs, and every failure is one ``NvmlError``. Two things
implement ``Nvml``: ``real_nvml()`` here, which loads the binding only when called, and
``baro.agent.simulated``. What the answers mean is decided in ``discovery``, not here.
"""

# ruff: noqa: N802 the functions bear the names that NVML gives them
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import ModuleType
from typing import Any, Final, Protocol

import msgspec

from baro.model.errors import BaroError

Handle = Any
"""A device handle; opaque, valid until ``nvmlShutdown``."""

MAX_LINKS: Final = 36
"""``NVML_NVLINK_MAX_LINKS``. Asking for a link that a GPU lacks is INVALID_ARGUMENT or NOT_SUPPORTED."""


class Code(IntEnum):
    """``nvmlReturn_t``, the values that discovery tells apart."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18
    NO_DATA = 21
    UNKNOWN = 999


class NvLinkDeviceType(IntEnum):
    GPU = 0
    IBMNPU = 1
    SWITCH = 2
    UNKNOWN = 255


class TopologyLevel(IntEnum):
    """``nvmlGpuTopologyLevel_t``."""

    INTERNAL = 0
    SINGLE = 10
    MULTIPLE = 20
    HOSTBRIDGE = 30
    NODE = 40
    SYSTEM = 50


class P2PIndex(IntEnum):
    """``nvmlGpuP2PCapsIndex_t``. (In the binding ``NVML_P2P_CAPS_INDEX_READ`` is a tuple by mistake.)"""

    READ = 0
    WRITE = 1
    NVLINK = 2


class P2PStatus(IntEnum):
    OK = 0
    CHIPSET_NOT_SUPPORTED = 1
    GPU_NOT_SUPPORTED = 2
    TOPOLOGY_NOT_SUPPORTED = 3
    DISABLED_BY_REGKEY = 4
    NOT_SUPPORTED = 5
    UNKNOWN = 6


class FabricState(IntEnum):
    NOT_SUPPORTED = 0
    NOT_STARTED = 1
    IN_PROGRESS = 2
    COMPLETED = 3


class VirtualizationMode(IntEnum):
    NONE = 0
    PASSTHROUGH = 1
    VGPU = 2
    HOST_VGPU = 3
    HOST_VSGA = 4


class FabricInfo(msgspec.Struct, frozen=True, kw_only=True):
    """``nvmlGpuFabricInfoV_t``: ``cluster_uuid`` is 16 bytes, zero for a board without a domain."""

    state: int
    status: int
    cluster_uuid: bytes
    clique_id: int


class NvmlError(BaroError):
    """A call of NVML failed. ``code`` is an ``nvmlReturn_t`` (``Code`` names some), ``function`` the call."""

    def __init__(self, code: int, function: str, detail: str = "") -> None:
        name = Code(code).name if code in set(Code) else f"code {code}"
        hint = _HINTS.get(Code(code)) if code in set(Code) else None
        super().__init__(f"{function}: {name}{f' ({detail})' if detail else ''}", next_step=hint)
        self.code = code
        self.function = function


_HINTS: Final = {
    Code.LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 is not here: is this a GPU node, is the driver root mounted?",
    Code.DRIVER_NOT_LOADED: "load the kernel driver: see lsmod and dmesg",
    Code.LIB_RM_VERSION_MISMATCH: "user space and kernel driver differ: reload the driver or reboot",
    Code.GPU_IS_LOST: "the GPU fell off the bus: reset or power-cycle it",
    Code.NO_PERMISSION: "run as a user that may open /dev/nvidiactl",
}


class Nvml(Protocol):
    """What discovery calls. All functions raise ``NvmlError``; bus ids and texts are as NVML gives them."""

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlSystemGetDriverVersion(self) -> str: ...
    def nvmlSystemGetCudaDriverVersion_v2(self) -> int: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle: ...
    def nvmlDeviceGetUUID(self, device: Handle) -> str: ...
    def nvmlDeviceGetName(self, device: Handle) -> str: ...
    def nvmlDeviceGetBrand(self, device: Handle) -> int: ...
    def nvmlDeviceGetArchitecture(self, device: Handle) -> int: ...
    def nvmlDeviceGetMinorNumber(self, device: Handle) -> int: ...
    def nvmlDeviceGetModuleId(self, device: Handle) -> int: ...
    def nvmlDeviceGetCudaComputeCapability(self, device: Handle) -> tuple[int, int]: ...
    def nvmlDeviceGetMemoryInfo(self, device: Handle) -> int:
        """Total memory in bytes."""

    def nvmlDeviceGetPciInfo(self, device: Handle) -> str:
        """Bus id with an eight-digit domain."""

    def nvmlDeviceGetMaxPcieLinkGeneration(self, device: Handle) -> int: ...
    def nvmlDeviceGetMaxPcieLinkWidth(self, device: Handle) -> int: ...
    def nvmlDeviceGetCurrPcieLinkWidth(self, device: Handle) -> int: ...
    def nvmlDeviceGetVirtualizationMode(self, device: Handle) -> int: ...
    def nvmlDeviceGetMigMode(self, device: Handle) -> tuple[int, int]: ...
    def nvmlDeviceGetMemoryAffinity(self, device: Handle) -> tuple[int, ...]:
        """NUMA nodes of the CPUs nearest to the device (scope NODE)."""

    def nvmlDeviceGetCpuAffinity(self, device: Handle) -> tuple[int, ...]:
        """CPU numbers nearest to the device."""

    def nvmlDeviceGetNumaNodeId(self, device: Handle) -> int:
        """NUMA node of the GPU's own memory on coherent machines."""

    def nvmlDeviceGetGpuFabricInfoV(self, device: Handle) -> FabricInfo: ...
    def nvmlDeviceGetNvLinkState(self, device: Handle, link: int) -> int: ...
    def nvmlDeviceGetNvLinkVersion(self, device: Handle, link: int) -> int: ...
    def nvmlDeviceGetNvLinkRemoteDeviceType(self, device: Handle, link: int) -> int: ...
    def nvmlDeviceGetNvLinkRemotePciInfo(self, device: Handle, link: int) -> str:
        """Bus id of the peer, of a switch, or ``FFFFFFFF:FF:FF.0`` when the driver hides the switch."""

    def nvmlDeviceGetTopologyCommonAncestor(self, a: Handle, b: Handle) -> int: ...
    def nvmlDeviceGetP2PStatus(self, a: Handle, b: Handle, index: int) -> int: ...


@contextmanager
def session(nvml: Nvml) -> Iterator[Nvml]:
    """NVML initialised for the length of the block. Keep one long session: each start takes seconds."""
    nvml.nvmlInit()
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def real_nvml() -> Nvml:
    """The library of this machine's driver. Raises ``NvmlError`` (LIBRARY_NOT_FOUND) without the binding."""
    try:
        import pynvml  # noqa: PLC0415 0.1 s and 13 MiB, only for a real node
    except ImportError as error:
        raise NvmlError(Code.LIBRARY_NOT_FOUND, "import pynvml", str(error)) from None
    return _Binding(pynvml)


class _Binding:
    """``Nvml`` over the module ``pynvml``: unpacks structs, maps its errors."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def _call(self, function: str, *args: Any) -> Any:
        call: Callable[..., Any] | None = getattr(self._module, function, None)
        if call is None:  # a binding older than the function
            raise NvmlError(Code.FUNCTION_NOT_FOUND, function)
        try:
            return call(*args)
        except self._module.NVMLError as error:
            raise NvmlError(int(error.value), function) from None

    def _text(self, function: str, *args: Any) -> str:
        answer = self._call(function, *args)
        return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)

    def _bits(self, function: str, device: Handle, words: int, *args: Any) -> tuple[int, ...]:
        mask = self._call(function, device, words, *args)
        return tuple(i * 64 + bit for i, word in enumerate(mask) for bit in range(64) if word >> bit & 1)

    def _bus_id(self, function: str, *args: Any) -> str:
        raw = self._call(function, *args).busId
        return raw.decode("ascii", "replace") if isinstance(raw, bytes) else str(raw)

    def nvmlInit(self) -> None:
        self._call("nvmlInit")

    def nvmlShutdown(self) -> None:
        self._call("nvmlShutdown")

    def nvmlSystemGetDriverVersion(self) -> str:
        return self._text("nvmlSystemGetDriverVersion")

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return int(self._call("nvmlSystemGetCudaDriverVersion_v2"))

    def nvmlDeviceGetCount(self) -> int:
        return int(self._call("nvmlDeviceGetCount"))

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle:
        return self._call("nvmlDeviceGetHandleByIndex", index)

    def nvmlDeviceGetUUID(self, device: Handle) -> str:
        return self._text("nvmlDeviceGetUUID", device)

    def nvmlDeviceGetName(self, device: Handle) -> str:
        return self._text("nvmlDeviceGetName", device)

    def nvmlDeviceGetBrand(self, device: Handle) -> int:
        return int(self._call("nvmlDeviceGetBrand", device))

    def nvmlDeviceGetArchitecture(self, device: Handle) -> int:
        return int(self._call("nvmlDeviceGetArchitecture", device))

    def nvmlDeviceGetMinorNumber(self, device: Handle) -> int:
        return int(self._call("nvmlDeviceGetMinorNumber", device))

    def nvmlDeviceGetModuleId(self, device: Handle) -> int:
        return int(self._call("nvmlDeviceGetModuleId", device))

    def nvmlDeviceGetCudaComputeCapability(self, device: Handle) -> tuple[int, int]:
        major, minor = self._call("nvmlDeviceGetCudaComputeCapability", device)
        return int(major), int(minor)

    def nvmlDeviceGetMemoryInfo(self, device: Handle) -> int:
        return int(self._call("nvmlDeviceGetMemoryInfo", device).total)

    def nvmlDeviceGetPciInfo(self, device: Handle) -> str:
        return self._bus_id("nvmlDeviceGetPciInfo", device)

    def nvmlDeviceGetMaxPcieLinkGeneration(self, device: Handle) -> int:
        return int(self._call("nvmlDeviceGetMaxPcieLinkGeneration", device))

    def nvmlDeviceGetMaxPcieLinkWidth(self, device: Handle) -> int:
        return int(self._call("nvmlDeviceGetMaxPcieLinkWidth", device))

    def nvmlDeviceGetCurrPcieLinkWidth(self, device: Handle) -> int:
        return int(self._call("nvmlDeviceGetCurrPcieLinkWidth", device))

    def nvmlDeviceGetVirtualizationMode(self, device: Handle) -> int:
        return int(self._call("nvmlDeviceGetVirtualizationMode", device))

    def nvmlDeviceGetMigMode(self, device: Handle) -> tuple[int, int]:
        current, pending = self._call("nvmlDeviceGetMigMode", device)
        return int(current), int(pending)

    def nvmlDeviceGetMemoryAffinity(self, device: Handle) -> tuple[int, ...]:
        return self._bits("nvmlDeviceGetMemoryAffinity", device, 16, 0)  # up to 1024 nodes, scope NODE

    def nvmlDeviceGetCpuAffinity(self, device: Handle) -> tuple[int, ...]:
        return self._bits("nvmlDeviceGetCpuAffinity", device, 64)  # up to 4096 CPUs

    def nvmlDeviceGetNumaNodeId(self, device: Handle) -> int:
        return int(self._call("nvmlDeviceGetNumaNodeId", device))

    def nvmlDeviceGetGpuFabricInfoV(self, device: Handle) -> FabricInfo:
        import ctypes  # noqa: PLC0415 the binding has loaded it by now

        new = getattr(self._module, "c_nvmlGpuFabricInfo_v2_t", None)
        if new is None:
            raise NvmlError(Code.FUNCTION_NOT_FOUND, "nvmlDeviceGetGpuFabricInfoV")
        info = new()
        self._call("nvmlDeviceGetGpuFabricInfoV", device, ctypes.byref(info))
        return FabricInfo(
            state=int(info.state),
            status=int(info.status),
            cluster_uuid=bytes(info.clusterUuid),
            clique_id=int(info.cliqueId),
        )

    def nvmlDeviceGetNvLinkState(self, device: Handle, link: int) -> int:
        return int(self._call("nvmlDeviceGetNvLinkState", device, link))

    def nvmlDeviceGetNvLinkVersion(self, device: Handle, link: int) -> int:
        return int(self._call("nvmlDeviceGetNvLinkVersion", device, link))

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, device: Handle, link: int) -> int:
        return int(self._call("nvmlDeviceGetNvLinkRemoteDeviceType", device, link))

    def nvmlDeviceGetNvLinkRemotePciInfo(self, device: Handle, link: int) -> str:
        return self._bus_id("nvmlDeviceGetNvLinkRemotePciInfo", device, link)

    def nvmlDeviceGetTopologyCommonAncestor(self, a: Handle, b: Handle) -> int:
        return int(self._call("nvmlDeviceGetTopologyCommonAncestor", a, b))

    def nvmlDeviceGetP2PStatus(self, a: Handle, b: Handle, index: int) -> int:
        return int(self._call("nvmlDeviceGetP2PStatus", a, b, index))
