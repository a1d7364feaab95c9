"""A real control plane as a site of the acceptance scenarios: real scheduler and controllers, kwok's nodes.

The planner and the publishers run as the service accounts of ``deploy/rbac`` and may do no more than that.
"""

from __future__ import annotations

import contextlib

from baro.kube.api import KubeApi
from baro.kube.client import KubeClient
from baro.model.kinds.core import Pod
from tests.support.acceptance_planner import Right, Tapped
from tests.support.real_access import Cluster
from tests.support.real_objects import pod as pod_body

SYSTEM = "baro-system"


class RealSite:
    """The real control plane. Agents' tokens are bound to a pod on their node, as a DaemonSet's are."""

    wait_s = 120.0
    simulated = False

    def __init__(self, cluster: Cluster) -> None:
        self.rights: set[Right] = set()
        self.agents_rights: set[Right] = set()
        self._cluster = cluster
        self._agents: dict[str, KubeClient] = {}

    def admin(self) -> KubeClient:
        return KubeClient.connect(kubeconfig_path=str(self._cluster.kubeconfig))

    def planner(self) -> KubeClient:
        account = self._cluster.account_kubeconfig("baro-controller", SYSTEM)
        return KubeClient.connect(kubeconfig_path=str(account))

    def planner_flags(self) -> list[str]:
        return ["--kubeconfig", str(self._cluster.account_kubeconfig("baro-controller", SYSTEM))]

    def publisher(self, node: str) -> KubeApi:
        body = pod_body(f"agent-{node}", SYSTEM, "")
        body["spec"] = {
            "serviceAccountName": "baro-agent",
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "agent", "image": "none"}],
        }
        self._cluster.apply(body)
        account = self._cluster.account_kubeconfig("baro-agent", SYSTEM, pod=f"agent-{node}")
        self._agents[node] = KubeClient.connect(kubeconfig_path=str(account))
        return Tapped(self._agents[node], self.agents_rights, None)

    def close(self) -> None:
        """The agents' pods go; planners are the scenarios' own."""
        admin = self.admin()
        for node, client in self._agents.items():
            client.close()
            with contextlib.suppress(Exception):
                admin.delete(Pod, SYSTEM, f"agent-{node}", grace_period_s=0)
        admin.close()
        self._agents.clear()
