"""The adapter to NVIDIA's binding: structs, bytes and errors, against a stand-in for its module."""

from __future__ import annotations

import ctypes
import inspect
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pynvml
import pytest

from baro.agent import nvml
from baro.agent.nvml import Code, NvmlError
from baro.agent.simulated import SimulatedNvml

FUNCTIONS = [name for name in vars(nvml.Nvml) if name.startswith("nvml")]


def binding(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> nvml.Nvml:
    """The adapter over a module that has only these functions."""

    class Error(Exception):
        def __init__(self, value: int) -> None:
            self.value = value

    module = ModuleType("pynvml")
    vars(module).update(NVMLError=Error, **functions)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return nvml.real_nvml()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_exists_in_the_binding_and_in_the_simulation(name: str) -> None:
    assert hasattr(pynvml, name)
    real, simulated = getattr(nvml._Binding, name), getattr(SimulatedNvml, name)
    assert (
        inspect.signature(real) == inspect.signature(simulated) == inspect.signature(getattr(nvml.Nvml, name))
    )


def test_errors_of_the_binding_become_one_error_with_code_and_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost(_device: object) -> None:
        raise sys.modules["pynvml"].NVMLError(15)

    real = binding(monkeypatch, nvmlDeviceGetMinorNumber=lost)
    with pytest.raises(NvmlError, match="nvmlDeviceGetMinorNumber: GPU_IS_LOST") as caught:
        real.nvmlDeviceGetMinorNumber(0)
    assert caught.value.code == Code.GPU_IS_LOST


def test_a_code_without_a_name_is_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd() -> None:
        raise sys.modules["pynvml"].NVMLError(77)

    with pytest.raises(NvmlError, match="code 77"):
        binding(monkeypatch, nvmlDeviceGetCount=odd).nvmlDeviceGetCount()


def test_a_binding_that_lacks_a_function_says_function_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NvmlError) as caught:
        binding(monkeypatch).nvmlDeviceGetNumaNodeId(0)
    assert caught.value.code == Code.FUNCTION_NOT_FOUND


def test_bytes_and_structs_become_plain_values(monkeypatch: pytest.MonkeyPatch) -> None:
    real = binding(
        monkeypatch,
        nvmlDeviceGetName=lambda _d: b"NVIDIA H200",
        nvmlDeviceGetPciInfo=lambda _d: SimpleNamespace(busId=b"00000000:18:00.0"),
        nvmlDeviceGetMemoryInfo=lambda _d: SimpleNamespace(total=42),
        nvmlDeviceGetMigMode=lambda _d: [1, 0],
        nvmlDeviceGetMemoryAffinity=lambda _d, words, _scope: [0b10] + [0] * (words - 1),
        nvmlDeviceGetCpuAffinity=lambda _d, words: [0b101, 1] + [0] * (words - 2),
    )
    assert real.nvmlDeviceGetName(0) == "NVIDIA H200"
    assert real.nvmlDeviceGetPciInfo(0) == "00000000:18:00.0"
    assert real.nvmlDeviceGetMemoryInfo(0) == 42
    assert real.nvmlDeviceGetMigMode(0) == (1, 0)
    assert real.nvmlDeviceGetMemoryAffinity(0) == (1,)
    assert real.nvmlDeviceGetCpuAffinity(0) == (0, 2, 64)


def test_fabric_info_is_read_from_the_struct_that_the_real_binding_defines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fill(_device: object, reference: Any) -> None:
        info = reference._obj
        assert info.version == pynvml.nvmlGpuFabricInfo_v2
        info.state, info.cliqueId, info.status = 3, 7, 0
        info.clusterUuid = (ctypes.c_uint8 * 16)(*range(16))

    struct = pynvml.c_nvmlGpuFabricInfo_v2_t
    real = binding(monkeypatch, nvmlDeviceGetGpuFabricInfoV=fill, c_nvmlGpuFabricInfo_v2_t=struct)
    info = real.nvmlDeviceGetGpuFabricInfoV(0)
    assert (info.state, info.status, info.clique_id) == (3, 0, 7)
    assert info.cluster_uuid == bytes(range(16))


def test_enumerations_are_those_of_the_binding() -> None:
    for code in Code:
        assert getattr(pynvml, f"NVML_ERROR_{code.name}") == code
    assert nvml.MAX_LINKS == pynvml.NVML_NVLINK_MAX_LINKS
    assert nvml.NvLinkDeviceType.SWITCH == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
    assert nvml.TopologyLevel.SYSTEM == pynvml.NVML_TOPOLOGY_SYSTEM
    assert nvml.P2PIndex.NVLINK == pynvml.NVML_P2P_CAPS_INDEX_NVLINK
    assert nvml.FabricState.COMPLETED == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED


def test_a_session_ends_also_when_its_block_fails() -> None:
    class Counting:
        calls: list[str] = []

        def nvmlInit(self) -> None:
            self.calls.append("init")

        def nvmlShutdown(self) -> None:
            self.calls.append("shutdown")

    fake: Any = Counting()
    with pytest.raises(RuntimeError), nvml.session(fake):
        raise RuntimeError
    assert fake.calls == ["init", "shutdown"]


def test_importing_the_agent_loads_neither_numpy_nor_the_binding_nor_the_command_line() -> None:
    code = (
        "import sys, baro.agent.discovery, baro.agent.publisher, baro.agent.simulated\n"
        "heavy = ('numpy', 'pynvml', 'click', 'rich', 'lightkube', 'starlette')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
