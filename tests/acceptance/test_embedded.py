"""The acceptance scenarios on the embedded API server with simulated stand-ins, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from baro.apiserver import RunningServer, create_app, run_in_thread
from baro.controller.placer import with_policy
from baro.controller.standins import SimulatedCluster
from baro.kube.api import KubeApi
from baro.kube.client import KubeClient
from baro.model.kinds.core import Namespace
from baro.model.kinds.resource import DeviceClass
from baro.model.load import load_paths
from tests.support.acceptance import DEVICE_CLASSES, world
from tests.support.acceptance_cuts import CUTS, cut
from tests.support.acceptance_planner import Right
from tests.support.acceptance_scenarios import SCENARIOS


class EmbeddedSite:
    """A fresh embedded server. Nobody checks rights here: every client may do everything."""

    wait_s = 30.0
    simulated = True

    def __init__(self, server: RunningServer) -> None:
        self.rights: set[Right] = set()
        self._url = server.url
        self._publisher = self.admin()
        for loaded in load_paths([DEVICE_CLASSES]):
            self._publisher.create(DeviceClass, "", loaded.body)
        self.log: list[str] = []
        self._clients = [self._publisher, self.admin()]
        self._standins = SimulatedCluster(self._clients[1], with_policy("first-fit"), log=self.log.append)
        self._standins.start()

    def admin(self) -> KubeClient:
        return KubeClient.connect(url=self._url)

    def planner(self) -> KubeClient:
        return self.admin()

    def planner_flags(self) -> list[str]:
        return ["--server", self._url]

    def publisher(self, node: str) -> KubeApi:
        return self._publisher

    def namespace(self, name: str) -> str:
        self._publisher.create(Namespace, "", {"metadata": {"name": name}})
        return name

    def close(self) -> None:
        self._standins.stop()
        for client in self._clients:
            client.close()
        assert not self.log, self.log


@pytest.fixture
def site() -> Iterator[EmbeddedSite]:
    with run_in_thread(create_app()) as server:
        made = EmbeddedSite(server)
        yield made
        made.close()


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(site: EmbeddedSite, name: str) -> None:
    with world(site, site.namespace("w")) as made:
        SCENARIOS[name](made)


@pytest.mark.parametrize("which", CUTS)
def test_a_planner_killed_ahead_of_any_write_leaves_work_that_the_next_one_finishes(
    site: EmbeddedSite, which: str
) -> None:
    number = 0
    reached = True
    while reached:
        number += 1
        with world(site, site.namespace(f"w{number}")) as made:
            reached = cut(made, which, number)
    assert number > 2
