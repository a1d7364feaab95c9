"""The demo on a real control plane: the same machines and manifest, upstream's scheduler and controllers.

Nodes are kwok's and their GPUs simulated; API server, scheduler, claim controller and garbage collector are
upstream's, the planner is the production one. Who starts the control plane is ``tests/cluster/demo.py``;
this module only needs a kubeconfig.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from baro.controller.placer import with_policy
from baro.controller.reconcile import Planner
from baro.controller.runner import Controller
from baro.demo.cluster import NODES, DemoCluster, DemoNode, manifest
from baro.demo.story import POLL_SECONDS, WAIT_SECONDS, Comparison, Story
from baro.diagnosis import catalogue
from baro.diagnosis.lint import lint
from baro.kube.client import KubeClient
from baro.kube.errors import NotFoundError
from baro.model.errors import InternalError
from baro.model.kinds.core import Event, Node, Pod
from baro.model.kinds.resource import ResourceClaim, ResourceClaimTemplate

SCHEDULER = "kube-scheduler alone"


class RealDemo(DemoCluster):
    """The demo's machines on a cluster that somebody else runs, empty but for ``deploy/``; a context manager.

    The namespace of the tenants (``BUSY_NAMESPACE``) is there already, with its service account.

    ``kubeconfig`` is an administrator's, ``planner_kubeconfig`` the planner's own service account. The
    planner does not run until ``start_planner``, so that kube-scheduler can be asked first.
    """

    def __init__(
        self,
        kubeconfig: Path,
        planner_kubeconfig: Path,
        nodes: Sequence[DemoNode] = NODES,
        *,
        log: Callable[[str], None],
    ) -> None:
        super().__init__(nodes, log=log)
        self.kubeconfig = kubeconfig
        self._planner_api = KubeClient.connect(kubeconfig_path=str(planner_kubeconfig))

    def __enter__(self) -> RealDemo:
        super().__enter__()
        return self

    def _start(self) -> None:
        self.api = KubeClient.connect(kubeconfig_path=str(self.kubeconfig))
        for node in self.nodes:
            self._join(node)
        until(self._nodes_ready, "not all nodes are Ready")

    def start_planner(self) -> None:
        """From here on gated pods are placed."""
        planner = Planner(self._planner_api, with_policy("topology"), log=self._log)
        self._controller = Controller(self._planner_api, planner, log=self._log)
        self._thread = threading.Thread(target=self._controller.run, name="planner", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the planner and closes connections; what was made in the cluster stays."""
        super().stop()
        self._planner_api.close()
        if hasattr(self, "api"):
            self.api.close()

    def _nodes_ready(self) -> bool:
        return all(_ready(self.api.get(Node, "", node.name)) for node in self.nodes)


class RealStory(Story):
    """Two acts: what kube-scheduler takes, and what baro takes, for the same pod on the same free GPUs."""

    def __init__(self, cluster: RealDemo) -> None:
        super().__init__(cluster, say=lambda line: None, show=lambda findings: None)
        self._real = cluster
        (document,) = manifest("mission.yaml")
        mended = lint(document, catalogue.nvidia_driver()).mended
        if mended is None:
            raise InternalError("the manifest of the demo has nothing to mend")
        self._mended = mended

    def kube_scheduler(self, node: str) -> Comparison:
        """The choice of the real kube-scheduler among the free GPUs of ``node``, read back from the API.

        The pod has no gate, so that baro never sees it, and asks for the node by its host name: which of
        several nodes kube-scheduler prefers has nothing to do with their GPUs. Pod, claim and template are
        deleted again.
        """
        self._real.create(self._mended)
        (document,) = manifest("pod.yaml")
        pod = self._real.create(_for_scheduler(document.body, node))
        try:
            bound = self._wait(pod.metadata.name)
            claim = self._claim(bound)
            return self._row(SCHEDULER, bound.spec.node_name, self._devices(claim))
        finally:
            self._remove(pod.metadata.name)

    def baro(self) -> tuple[Pod, Comparison]:
        """The choice of baro for the gated pod, on all nodes, read back from the API after the binding."""
        self._real.start_planner()
        pod, rows = self.place()
        return pod, rows[-1]

    def events(self, pod: Pod) -> list[tuple[str, str]]:
        """As ``Story.events``, without those of the earlier pod of the same name."""
        found = self._real.api.list(
            Event, pod.metadata.namespace, field_selector=f"involvedObject.uid={pod.metadata.uid}"
        )
        return [(event.reason, event.message) for event in found.items]

    def _remove(self, name: str) -> None:
        api = self._real.api
        api.delete(Pod, "default", name, grace_period_s=0)
        template = self._mended["metadata"]["name"]
        api.delete(ResourceClaimTemplate, "default", template)
        until(lambda: not api.list(ResourceClaim, "default").items, "the claim of a deleted pod stays")
        until(lambda: _absent(api, name), "a deleted pod stays")


def until(true: Callable[[], bool], otherwise: str) -> None:
    """Waits for controllers of the cluster; ``InternalError`` when they do not get there."""
    deadline = time.monotonic() + 2 * WAIT_SECONDS
    while not true():
        if time.monotonic() > deadline:
            raise InternalError(f"{otherwise} after {2 * WAIT_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def _for_scheduler(body: dict[str, Any], node: str) -> dict[str, Any]:
    spec = {key: value for key, value in body["spec"].items() if key != "schedulingGates"}
    return {**body, "spec": {**spec, "nodeSelector": {"kubernetes.io/hostname": node}}}


def _absent(api: KubeClient, name: str) -> bool:
    try:
        api.get(Pod, "default", name)
    except NotFoundError:
        return True
    return False


def _ready(node: Node) -> bool:
    """Ready and, since the node controller follows with some delay, without its taint."""
    conditions = msgspec.to_builtins(node.status.conditions)
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node.spec.taints
