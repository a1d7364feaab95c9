"""The control plane itself: what it is, what it serves, how it starts and ends."""

from __future__ import annotations

import json

import pytest

from baro.kube.client import KubeClient
from baro.model.errors import ForbiddenError
from baro.model.kinds.core import Node, Pod
from tests.support.real_access import Cluster, KubectlError, eventually
from tests.support.real_build import COMPONENTS
from tests.support.real_cluster import RealCluster
from tests.support.real_objects import node


def test_the_server_answers_with_the_release_that_was_built(started_cluster: RealCluster) -> None:
    version = json.loads(started_cluster.kubectl("version", "-o", "json"))
    assert version["serverVersion"]["gitVersion"] == f"v{started_cluster.release}"
    assert version["clientVersion"]["gitVersion"].startswith("v1.")


def test_the_stable_dra_kinds_are_served_without_any_flag(cluster: Cluster) -> None:
    served = json.loads(cluster.kubectl("get", "--raw", "/apis/resource.k8s.io/v1"))
    plurals = {resource["name"] for resource in served["resources"]}
    assert {"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"} <= plurals


def test_every_component_runs_under_its_upstream_name(started_cluster: RealCluster) -> None:
    expected = {*COMPONENTS, "kwok"} - {"kubelet", "certificates"}
    assert set(started_cluster.components) == expected
    assert all(component.ready() for component in started_cluster.components.values())


def test_a_node_becomes_ready_and_loses_its_taint(own_cluster: Cluster, api: KubeClient) -> None:
    own_cluster.apply(node("ready-node"))

    def ready() -> bool:
        found = api.get(Node, "", "ready-node")
        conditions = {condition.type: condition.status for condition in found.status.conditions}
        return conditions.get("Ready") == "True" and not found.spec.taints

    try:
        eventually(ready, "node Ready without taints")
        lease = own_cluster.get("lease", "ready-node", "-n", "kube-node-lease")
        assert lease["spec"]["holderIdentity"]
    finally:
        own_cluster.kubectl("delete", "node", "ready-node")


def test_a_service_account_may_do_what_its_rules_say_and_no_more(cluster: Cluster, namespace: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    kubeconfig = cluster.service_account("reader", namespace, rules)
    with KubeClient.connect(kubeconfig_path=str(kubeconfig)) as reader:
        assert reader.list(Pod, namespace).items == ()
        with pytest.raises(ForbiddenError, match=r"list.*nodes"):
            reader.list(Node)


def test_kubectl_says_why_it_failed(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(KubectlError, match=r'pods "nobody" not found'):
        cluster.kubectl("get", "pod", "nobody", "-n", namespace)
