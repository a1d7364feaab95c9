"""The agent's rounds: lost GPUs stay visible and tainted, failures are told and tried again."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest

from baro.agent.discovery import discover
from baro.agent.publisher import Published, Publisher
from baro.agent.service import Agent, Settings, remembered
from baro.model.errors import BaroError, UnreachableError
from baro.model.kinds.resource import ResourceSlice
from baro.topology.machine import Machine
from baro.topology.profiles import load_profile
from tests.support.agent import MemoryApi, discovered, simulated


def devices(api: MemoryApi) -> dict[str, list[str]]:
    """Device name → keys of its taints."""
    return {
        device.name: [taint.key for taint in device.taints]
        for item in api.slices.values()
        for device in item.spec.devices
    }


def without_taints(item: ResourceSlice) -> ResourceSlice:
    """What a server without device taints keeps of a slice."""
    bare = tuple(msgspec.structs.replace(device, taints=()) for device in item.spec.devices)
    return msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, devices=bare))


def test_a_gpu_that_gets_lost_stays_published_with_a_taint(tmp_path: Path) -> None:
    healthy = discovered("h200-nvl-8", tmp_path / "before")
    broken = discovered("h200-nvl-8", tmp_path / "after", lost={5})
    readings = iter([healthy, broken, broken, healthy])
    api = MemoryApi()
    agent = Agent(lambda: next(readings), Publisher(api), Settings(node="node-a"))
    agent.round()
    _, second = agent.round()
    assert (second.generation, second.updated) == (1, 1)
    assert devices(api) == {f"gpu-{i}": ["gpu.baro.dev/lost"] if i == 5 else [] for i in range(8)}
    assert agent.round()[1].writes == 0
    agent.round()
    assert not any(devices(api).values())


def test_a_lost_gpu_is_not_published_where_the_server_drops_taints(tmp_path: Path) -> None:
    healthy = discovered("h200-nvl-8", tmp_path / "before")
    broken = discovered("h200-nvl-8", tmp_path / "after", lost={5})
    readings = iter([healthy, broken, broken, healthy])
    api = MemoryApi()
    api.store = without_taints
    agent = Agent(lambda: next(readings), Publisher(api), Settings(node="node-a"))
    agent.round()
    agent.round()
    assert "gpu-5" not in devices(api)
    assert len(devices(api)) == 7
    assert agent.round()[1].writes == 0
    agent.round()
    assert len(devices(api)) == 8


def test_a_lost_gpu_leaves_its_island_and_keeps_its_name(tmp_path: Path) -> None:
    healthy = discovered("h200-nvl-8", tmp_path / "before")
    now = remembered(healthy, discovered("h200-nvl-8", tmp_path / "after", lost={5}))
    assert now.gpu(5).uuid == healthy.gpu(5).uuid
    assert now.gpu(5).nvlinks is None
    assert not any(5 in pair for pair in now.links)


def test_a_gpu_that_was_lost_from_the_start_is_not_invented(tmp_path: Path) -> None:
    broken = discovered("h200-nvl-8", tmp_path, lost={5})
    api = MemoryApi()
    Agent(lambda: broken, Publisher(api), Settings(node="node-a")).round()
    assert "gpu-5" not in devices(api)
    assert len(devices(api)) == 7


def test_an_identity_that_moved_to_another_index_is_not_kept_twice(tmp_path: Path) -> None:
    healthy = discovered("l40s-4", tmp_path / "before")
    broken = discovered("l40s-4", tmp_path / "after", lost={3})
    moved = Machine(gpus=(*broken.gpus[:2], healthy.gpus[3], broken.gpus[3]), warnings=broken.warnings)
    assert remembered(healthy, moved).gpus[3].uuid is None


def test_a_failing_round_is_told_and_the_next_one_tries_again(tmp_path: Path) -> None:
    stop = threading.Event()
    errors: list[BaroError] = []
    rounds: list[Published] = []
    with simulated("l40s-4", tmp_path) as nvml:
        tries = iter(range(10))

        def read() -> Machine:
            if next(tries) == 0:
                raise UnreachableError("not now")
            return discover(nvml, tmp_path)

        def done(_machine: Machine, published: Published) -> None:
            rounds.append(published)
            stop.set()

        agent = Agent(read, Publisher(MemoryApi()), Settings(node="node-a"))
        agent.run(stop, 0, done, errors.append)
    assert [error.what for error in errors] == ["not now"]
    assert [published.created for published in rounds] == [1]


def test_the_nodes_uid_is_asked_in_each_round() -> None:
    uids = iter([None, "u-1"])
    api = MemoryApi()
    machine = load_profile("l40s-4").machine()
    agent = Agent(lambda: machine, Publisher(api), Settings(node="node-a"), lambda: next(uids))
    agent.round()
    assert agent.round()[1].updated == 1
    (item,) = api.slices.values()
    assert [owner.uid for owner in item.metadata.owner_references] == ["u-1"]


@pytest.mark.parametrize("compat", [True, False])
def test_settings_reach_the_slices(compat: bool) -> None:
    api = MemoryApi()
    settings = Settings(node="node-a", driver="gpu.example.com", pool="pool-x", compat=compat)
    Agent(load_profile("l40s-4").machine, Publisher(api), settings).round()
    (item,) = api.slices.values()
    assert (item.spec.driver, item.spec.pool.name) == ("gpu.example.com", "pool-x")
    assert any("gpu.nvidia.com" in key for key in item.spec.devices[0].attributes) is compat
