"""A node's agent, as in production, over a machine that is simulated from a profile."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from functools import cache
from pathlib import Path

import pytest

from baro.agent.cluster import ClusterSlices, node_uid
from baro.agent.discovery import discover
from baro.agent.nvml import session
from baro.agent.publisher import DroppedFieldsError, Publisher
from baro.agent.service import Agent
from baro.agent.service import Settings as AgentSettings
from baro.agent.simulated import SimulatedNvml, write_sysfs
from baro.kube.api import KubeApi
from baro.topology.machine import Machine
from baro.topology.profiles import load_profile


class SimulatedMachine:
    """A node's agent over a simulated machine."""

    def __init__(self, api: KubeApi, node: str, profile: str) -> None:
        self._state = (profile, frozenset[int]())
        self._node = node
        settings = AgentSettings(node=node)
        publisher = Publisher(ClusterSlices(api))
        self._agent = Agent(self._read, publisher, settings, lambda: node_uid(api, node))

    def _read(self) -> Machine:
        return _machine(self._state[0], self._node, self._state[1])

    def publish(self, profile: str | None, lost: Collection[int]) -> None:
        """Discovers and publishes. Skips the test when it needs device taints and the server drops them."""
        self._state = (profile or self._state[0], frozenset(lost))
        try:
            self._agent.round()
        except DroppedFieldsError as error:
            if lost:
                pytest.skip(f"this server has no device taints: {error.what}")
            raise


@cache
def _machine(profile: str, node: str, lost: frozenset[int]) -> Machine:
    loaded = load_profile(profile)
    with tempfile.TemporaryDirectory() as folder:
        write_sysfs(loaded, Path(folder))
        with session(SimulatedNvml(loaded, seed=node, lost=lost)) as nvml:
            return discover(nvml, Path(folder), source=f"simulated {profile}")
