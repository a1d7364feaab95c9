"""The acceptance scenarios on a real control plane: real kube-scheduler, real controllers, kwok's nodes.

The planner and the publishers run as the service accounts of ``deploy/rbac`` and may do no more than that.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator

import pytest
import yaml

from baro.kube.api import KubeApi
from baro.kube.client import KubeClient
from baro.kube.errors import NotFoundError
from baro.kube.lease import Elector, LeaseSettings
from baro.model.kinds.core import Lease, Pod
from baro.model.kinds.resource import DeviceTaintRule
from tests.support.acceptance import World, world
from tests.support.acceptance_cuts import CUTS, cut
from tests.support.acceptance_planner import Right, RunningPlanner, Tapped
from tests.support.acceptance_scenarios import SCENARIOS
from tests.support.real_access import DEPLOY, Cluster
from tests.support.real_objects import pod as pod_body

SYSTEM = "baro-system"
SAMPLED_CUTS = (1, 2, 3, 4, 6, 8, 10)
"""Writes ahead of which a planner is killed here; the embedded server has all of them tried."""


class RealSite:
    """The real control plane. Agents' tokens are bound to a pod on their node, as a DaemonSet's are."""

    wait_s = 60.0
    simulated = False

    def __init__(self, cluster: Cluster) -> None:
        self.rights: set[Right] = set()
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
        return self._agents[node]

    def close(self) -> None:
        admin = self.admin()
        for node, client in self._agents.items():
            client.close()
            with contextlib.suppress(Exception):
                admin.delete(Pod, SYSTEM, f"agent-{node}", grace_period_s=0)
        admin.close()
        self._agents.clear()


@pytest.fixture(scope="module")
def used() -> set[Right]:
    """The rights that all planners of this module needed."""
    return set()


@pytest.fixture
def site(own_cluster: Cluster, used: set[Right]) -> Iterator[RealSite]:
    made = RealSite(own_cluster)
    yield made
    used |= made.rights
    made.close()


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(site: RealSite, namespace: str, name: str) -> None:
    with world(site, namespace) as made:
        SCENARIOS[name](made)


@pytest.mark.parametrize("number", SAMPLED_CUTS)
@pytest.mark.parametrize("which", CUTS)
def test_a_planner_killed_ahead_of_a_write_leaves_work_that_the_next_one_finishes(
    site: RealSite, namespace: str, which: str, number: int
) -> None:
    with world(site, namespace) as made:
        cut(made, which, number)


def elector(api: KubeApi) -> Elector:
    """As ``--leader-elect`` makes it in the pod of ``deploy``."""

    settings = LeaseSettings(identity=str(uuid.uuid4()), namespace=SYSTEM)
    return Elector(api, settings, clock=time.monotonic)


def test_of_two_planners_that_elect_a_leader_the_second_takes_over(site: RealSite, namespace: str) -> None:
    with world(site, namespace) as made:
        made.node("a")
        made.template("one")
        first = made.planner(elector=elector)
        made.pod("p", templates=["one"])
        made.until_bound("p")
        second = made.planner(elector=elector)
        first.stop()  # gives the lease back
        made.pod("q", templates=["one"])
        made.until_bound("q")
        assert second.tapped.writes
        assert made.api.get(Lease, SYSTEM, "baro-controller").spec.holder_identity


def granted(name: str) -> set[Right]:
    """What a file of ``deploy/rbac`` allows."""
    documents = yaml.safe_load_all((DEPLOY / "rbac" / name).read_text(encoding="utf-8"))
    return {
        (verb, f"{group}/{resource}")
        for document in documents
        if document["kind"] in ("Role", "ClusterRole")
        for rule in document["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_planners_of_this_module_used_every_right_that_they_have(
    used: set[Right], api: KubeClient
) -> None:
    """A right that no call of the scenarios used is one that ``deploy/rbac/planner.yaml`` need not give."""
    if len(used) < 10:
        pytest.skip("only together with the scenarios of this module")
    unused = granted("planner.yaml") - used
    try:
        api.list(DeviceTaintRule)
    except NotFoundError:  # before 1.37: a kind that is not served is listed in vain and never watched
        unused.discard(("watch", "resource.k8s.io/devicetaintrules"))
    assert not unused, f"rights that no call used: {sorted(unused)}"
    assert not used - granted("planner.yaml")


@pytest.mark.parametrize(
    ("verb", "resource", "said"),
    [
        ("list", "resource.k8s.io/resourceslices", "list resourceslices.resource.k8s.io"),
        ("patch", "resource.k8s.io/resourceclaims/status", "patch resourceclaims.resource.k8s.io"),
        ("patch", "/pods", "patch pods"),
        ("create", "/events", "create events"),
    ],
)
def test_a_missing_right_gives_one_message_with_verb_and_resource(
    site: RealSite, own_cluster: Cluster, namespace: str, verb: str, resource: str, said: str
) -> None:
    rules = [
        {"apiGroups": [r.partition("/")[0]], "resources": [r.partition("/")[2]], "verbs": [v]}
        for v, r in sorted(granted("planner.yaml"))
        if (v, r) != (verb, resource)
    ]
    account = own_cluster.service_account(f"without-{verb}", namespace, rules)
    made = World(site, namespace)
    try:
        made.node("a")
        made.template("one")
        client = KubeClient.connect(kubeconfig_path=str(account))
        poor = RunningPlanner(client, Tapped(client, set(), None), namespace=namespace, heard=made.seen.wake)
        made.planners.append(poor)
        made.pod("p", templates=["one"])
        made.wait(lambda seen: any("does not allow" in line for line in poor.log), "the missing right told")
        made.planner()  # one that may: the pod is placed all the same
        made.until_bound("p")
        told = {line for line in poor.log if "does not allow" in line}
        assert len(told) == 1, poor.log
        (line,) = told
        assert f"the server does not allow to {said}" in line
        assert poor.alive
    finally:
        made.close()
        own_cluster.kubectl("delete", f"clusterrole/{namespace}-without-{verb}")
        own_cluster.kubectl("delete", f"clusterrolebinding/{namespace}-without-{verb}")
