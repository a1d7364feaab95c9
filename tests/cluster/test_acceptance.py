"""The acceptance scenarios on a real control plane: real kube-scheduler, real controllers, kwok's nodes.

The planner and the publishers run as the service accounts of ``deploy/rbac`` and may do no more than that.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from baro.kube.api import KubeApi
from baro.kube.client import KubeClient
from baro.kube.errors import NotFoundError
from baro.kube.lease import Elector, LeaseSettings
from baro.model.errors import ForbiddenError
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.core import Lease
from baro.model.kinds.resource import DeviceTaintRule, ResourceSlice
from tests.support.acceptance import World, world
from tests.support.acceptance_cuts import CUTS, cut
from tests.support.acceptance_machine import SimulatedMachine
from tests.support.acceptance_planner import Right, RunningPlanner, Tapped
from tests.support.acceptance_scenarios import SCENARIOS
from tests.support.real_access import DEPLOY, Cluster
from tests.support.real_objects import resource_slice
from tests.support.real_site import SYSTEM, RealSite

SAMPLED_CUTS = (1, 2, 3, 4, 6, 8, 10)
"""Writes ahead of which a planner is killed here; the embedded server has all of them tried."""


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
        cut(made, which, number, writers=1 if number % 2 else 4)


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
    except NotFoundError:  # before 1.37: a kind that is not served is listed and created in vain, no more
        unused -= {(verb, "resource.k8s.io/devicetaintrules") for verb in ("watch", "delete")}
    assert not unused, f"rights that no call used: {sorted(unused)}"
    assert not used - granted("planner.yaml")


def test_an_agent_uses_every_right_that_it_has(site: RealSite, namespace: str) -> None:
    with world(site, namespace) as made:
        name = made.node("a")
        made.publish("a", profile="hgx-h200-8")  # another machine: slices and graph are replaced
        left = resource_slice(name, 1)
        left["metadata"]["name"] = f"{name}-left-over"
        made.api.create(ResourceSlice, "", left)
        made.publish("a")
        made.wait(lambda seen: seen.find(ResourceSlice, f"{name}-left-over") is None, "the left-over gone")
        assert site.agents_rights == granted("publisher.yaml")


@pytest.mark.parametrize(
    ("verb", "resource", "said"),
    [
        ("get", "/nodes", "get nodes"),
        ("list", "resource.k8s.io/resourceslices", "list resourceslices.resource.k8s.io"),
        ("create", "resource.k8s.io/resourceslices", "create resourceslices.resource.k8s.io"),
        ("create", "baro.dev/nodetopologies", "create nodetopologies.baro.dev"),
    ],
)
def test_an_agent_without_a_right_says_which(
    site: RealSite, own_cluster: Cluster, namespace: str, verb: str, resource: str, said: str
) -> None:
    account = account_without(own_cluster, namespace, "publisher.yaml", (verb, resource))
    made = World(site, namespace)
    try:
        name = made.node("a")
        admin = made.api
        for kind, names in ((NodeTopology, [name]), (ResourceSlice, slices_on(admin, name))):
            for each in names:
                admin.delete(kind, "", each)
        with KubeClient.connect(kubeconfig_path=str(account)) as poor:
            agent = SimulatedMachine(poor, name, "hgx-h100-4")
            with pytest.raises(ForbiddenError, match=f"the server does not allow to {said}: "):
                agent.publish(None, ())
    finally:
        made.close()


def slices_on(api: KubeClient, node: str) -> list[str]:
    return [
        item.metadata.name for item in api.list(ResourceSlice, field_selector=f"spec.nodeName={node}").items
    ]


def account_without(cluster: Cluster, namespace: str, name: str, right: Right) -> Path:
    """A service account with all rights of a file of ``deploy/rbac`` but one."""
    rules = [
        {"apiGroups": [r.partition("/")[0]], "resources": [r.partition("/")[2]], "verbs": [v]}
        for v, r in sorted(granted(name) - {right})
    ]
    return cluster.service_account(f"without-{right[0]}", namespace, rules)


@pytest.mark.parametrize(
    ("verb", "resource", "said"),
    [
        ("list", "resource.k8s.io/resourceslices", "list resourceslices.resource.k8s.io"),
        ("patch", "resource.k8s.io/resourceclaims/status", "patch resourceclaims.resource.k8s.io/status"),
        ("patch", "/pods", "patch pods"),
        ("patch", "/pods/status", "patch pods/status"),
        ("create", "/events", "create events"),
    ],
)
def test_a_missing_right_gives_one_message_with_verb_and_resource(
    site: RealSite, own_cluster: Cluster, namespace: str, verb: str, resource: str, said: str
) -> None:
    account = account_without(own_cluster, namespace, "planner.yaml", (verb, resource))
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
