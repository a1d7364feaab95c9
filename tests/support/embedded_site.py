"""The embedded API server with simulated stand-ins as a site of the acceptance scenarios, over HTTP."""

from __future__ import annotations

from baro.controller.placer import with_policy
from baro.controller.standins import SimulatedCluster
from baro.kube.api import KubeApi
from baro.kube.client import KubeClient
from baro.model.kinds.core import Namespace
from baro.model.kinds.resource import DeviceClass
from baro.model.load import load_paths
from tests.support.acceptance_objects import DEVICE_CLASSES
from tests.support.acceptance_planner import Right


class EmbeddedSite:
    """A fresh embedded server. Nobody checks rights here: every client may do everything.

    ``outages``: the server is going to be away at times, and the stand-ins may say so.
    """

    wait_s = 120.0
    simulated = True

    def __init__(self, url: str, *, outages: bool = False) -> None:
        self.rights: set[Right] = set()
        self._url = url
        self._outages = outages
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
        assert self._outages or not self.log, self.log
