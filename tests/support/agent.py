"""An API server's memory for ResourceSlices, and simulated nodes, for the tests of the agent."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from baro.agent.discovery import discover
from baro.agent.nvml import session
from baro.agent.simulated import SimulatedNvml, write_sysfs
from baro.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.resource import Device, ResourceSlice
from baro.topology.machine import Machine
from baro.topology.profiles import load_profile


class KilledError(Exception):
    """The publisher's process ended here."""


class MemoryApi:
    """Keeps slices as a server does: uid, resourceVersion, preconditions.

    ``writes_left``: writes until the caller is killed (before the write happens). ``store`` changes what is
    kept of an object, as disabled feature gates do. ``history`` has the state after each write.
    """

    def __init__(self, slices: Sequence[ResourceSlice] = (), writes_left: int | None = None) -> None:
        self._numbers = itertools.count(1)
        self.slices: dict[str, ResourceSlice] = {}
        self.topologies: dict[str, NodeTopology] = {}
        self.history: list[tuple[ResourceSlice, ...]] = []
        self.log: list[str] = []
        self.store: Callable[[ResourceSlice], ResourceSlice] = lambda item: item
        self.before_write: Callable[[], None] = lambda: None
        self.writes_left: int | None = None
        for item in slices:
            self.create_slice(item)
        self.log.clear()
        self.history.clear()
        self.writes_left = writes_left

    def list_slices(self, driver: str, node: str) -> list[ResourceSlice]:
        found = [s for s in self.slices.values() if s.spec.driver == driver and s.spec.node_name == node]
        return sorted(found, key=lambda s: s.metadata.name)

    def create_slice(self, item: ResourceSlice) -> ResourceSlice:
        self._begin()
        if item.metadata.name in self.slices:
            raise AlreadyExistsError(f"{item.metadata.name} exists", code=409, reason="AlreadyExists")
        uid = f"uid-{next(self._numbers)}"
        return self._put("create", item, uid)

    def update_slice(self, item: ResourceSlice) -> ResourceSlice:
        self._begin()
        self._match(item)
        return self._put("update", item, item.metadata.uid)

    def delete_slice(self, item: ResourceSlice) -> None:
        self._begin()
        self._match(item)
        del self.slices[item.metadata.name]
        self._end(f"delete {item.metadata.name}")

    def apply_node_topology(self, topology: NodeTopology) -> bool:
        self.topologies[topology.metadata.name] = topology
        return True

    def touch(self, name: str) -> None:
        """Somebody else writes the object without changing its content."""
        item = self.slices[name]
        metadata = msgspec.structs.replace(item.metadata, resource_version=str(next(self._numbers)))
        self.slices[name] = msgspec.structs.replace(item, metadata=metadata)

    def _begin(self) -> None:
        if self.writes_left == 0:
            raise KilledError
        if self.writes_left is not None:
            self.writes_left -= 1
        self.before_write()

    def _match(self, item: ResourceSlice) -> None:
        stored = self.slices.get(item.metadata.name)
        if stored is None:
            raise NotFoundError(f"{item.metadata.name} not found", code=404, reason="NotFound")
        same = stored.metadata.uid == item.metadata.uid
        if not same or stored.metadata.resource_version != item.metadata.resource_version:
            raise ConflictError(f"{item.metadata.name} has been modified", code=409, reason="Conflict")

    def _put(self, verb: str, item: ResourceSlice, uid: str) -> ResourceSlice:
        version = str(next(self._numbers))
        metadata = msgspec.structs.replace(item.metadata, uid=uid, resource_version=version)
        stored = msgspec.structs.replace(self.store(item), metadata=metadata)
        self.slices[item.metadata.name] = stored
        self._end(f"{verb} {item.metadata.name}")
        return stored

    def _end(self, what: str) -> None:
        self.log.append(what)
        self.history.append(tuple(self.slices.values()))


def usable_devices(slices: Sequence[ResourceSlice], pool: str) -> tuple[Device, ...] | None:
    """What an allocator sees of a pool: devices of the highest generation, ``None`` while incomplete.

    Written apart from the code under test, from the rules of the API's documentation.
    """
    members = [s for s in slices if s.spec.pool.name == pool]
    if not members:
        return None
    top = max(s.spec.pool.generation for s in members)
    current = sorted((s for s in members if s.spec.pool.generation == top), key=lambda s: s.metadata.name)
    if any(s.spec.pool.resource_slice_count != len(current) for s in current):
        return None
    return tuple(device for s in current for device in s.spec.devices)


@contextmanager
def simulated(profile: str, root: Path, seed: str = "node-a", **faults: Any) -> Iterator[SimulatedNvml]:
    """An open simulated NVML with its sysfs tree under ``root``."""
    loaded = load_profile(profile)
    write_sysfs(loaded, root)
    nvml = SimulatedNvml(loaded, seed, **faults)
    with session(nvml):
        yield nvml


def discovered(profile: str, root: Path, seed: str = "node-a", **faults: Any) -> Machine:
    """What discovery finds on a simulated machine."""
    with simulated(profile, root, seed, **faults) as nvml:
        return discover(nvml, root)
