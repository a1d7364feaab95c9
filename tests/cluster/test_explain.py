"""``baro explain`` against kube-scheduler itself: more than fifty pending pods, one for each cause and shape.

Every message that kube-scheduler wrote must follow from what ``explain`` found, reason by reason and node by
node; and every pod that it did not even queue must be one of which ``explain`` says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pytest

from baro.diagnosis.explain import Explanation, Options, Subject, Verdict, World, explain, named
from baro.diagnosis.explain.scheduler import parse
from baro.kube.client import KubeClient
from baro.kube.reading import read_cluster
from baro.model.findings import table
from baro.model.kinds.core import Node, Pod
from tests.support import real_pending as pending
from tests.support import real_pending_rules as rules
from tests.support.real_access import Cluster, ExternalCluster, eventually

Crowd = tuple[KubeClient, str]
"""A client and the namespace of the pods."""
WAIT_S = 120.0
SCENES = (*pending.scenes(), *rules.scenes())
HOLDERS = (*pending.holders(), *rules.holders())
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def crowd(cluster: Cluster) -> Iterator[Crowd]:
    """Nodes, devices, holders that run, and then the pods that stay pending."""
    if isinstance(cluster, ExternalCluster):
        pytest.skip("kube-scheduler counts all nodes, and those of somebody else's cluster are not expected")
    fixed = [
        *pending.nodes(), *pending.slices(), *pending.classes(), *pending.rules(),
        *rules.fixed(),
    ]  # fmt: skip
    with cluster.namespace() as namespace, KubeClient.connect(kubeconfig_path=str(cluster.kubeconfig)) as api:
        if not read_cluster(api, namespace=namespace).server_version.startswith("v1.37"):
            pytest.skip("the pods use what 1.37 has by default: taint rules, counters, extended resources")
        cluster.apply(_list(fixed))
        for name in pending.NODES:
            eventually(lambda name=name: _ready(api, name), f"node {name} ready", timeout_s=WAIT_S)  # type: ignore[misc]
        holders = list(HOLDERS)
        cluster.apply(_list(_bodies(holders)), namespace=namespace)
        for scene in holders:
            name = scene.pod["metadata"]["name"]
            eventually(lambda name=name: _bound(api, namespace, name), f"{name} bound", timeout_s=WAIT_S)  # type: ignore[misc]
        cluster.kubectl("cordon", pending.CORDONED)
        cluster.kubectl("taint", "node", pending.TAINTED, "maintenance=now:NoSchedule")
        waiting = SCENES
        cluster.apply(_list(_bodies(waiting)), namespace=namespace)
        for scene in waiting:
            name = scene.pod["metadata"]["name"]
            if scene.said:
                eventually(lambda name=name: _said(api, namespace, name), f"word on {name}", timeout_s=WAIT_S)  # type: ignore[misc]
        yield api, namespace
    cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=json.dumps(_list(fixed)))


def _list(bodies: Iterable[pending.Body]) -> pending.Body:
    """All of them in one call of kubectl."""
    return {"apiVersion": "v1", "kind": "List", "items": list(bodies)}


def _bodies(scenes: Iterable[pending.Scene]) -> Iterator[pending.Body]:
    for scene in scenes:
        yield from (*scene.before, scene.pod)


def _ready(api: KubeClient, name: str) -> bool:
    node = api.get(Node, "", name)
    ready = any(item.type == "Ready" and item.status == "True" for item in node.status.conditions)
    return ready and not node.spec.taints


def _bound(api: KubeClient, namespace: str, name: str) -> bool:
    return bool(api.get(Pod, namespace, name).spec.node_name)


def _said(api: KubeClient, namespace: str, name: str) -> str | None:
    for condition in api.get(Pod, namespace, name).status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and condition.message:
            return condition.message
    return None


def _explained(crowd: Crowd) -> dict[str, Explanation]:
    api, namespace = crowd
    world = World(read_cluster(api, namespace=namespace), Options())
    names = [scene.pod["metadata"]["name"] for scene in SCENES]
    return {name: explain(world, Subject("pod", (namespace, name))) for name in names}


def test_the_verdict_for_more_than_fifty_pending_pods_is_kube_schedulers(
    crowd: Crowd,
) -> None:
    """Whoever still sees an older state is asked again: the scheduler retries on every change."""
    differing: dict[str, str] = {}

    def settled() -> bool:
        differing.clear()
        said = _explained(crowd)
        for scene in SCENES:
            name = scene.pod["metadata"]["name"]
            differing.update(_difference(name, said[name], scene.said))
        return not differing

    try:
        eventually(settled, "agreement with kube-scheduler", timeout_s=WAIT_S)
    except Exception:
        assert differing == {}
    said = _explained(crowd)
    assert len(said) >= 50
    assert sum(item.scheduler is not None for item in said.values()) >= 47


def _difference(name: str, said: Explanation, expects_word: bool) -> dict[str, str]:
    if said.verdict not in (Verdict.PENDING, Verdict.ERROR):
        return {name: f"verdict {said.verdict}: {said.headline}"}
    word = said.scheduler
    if word is None:
        return {name: "kube-scheduler said nothing"} if expects_word else {}
    if not expects_word:
        return {name: f"unexpected: {word.said}"}
    if not word.agrees:
        return {name: f"said {word.said!r}, expected {word.expected!r}"}
    if word.expected and dict(parse(word.said).reasons) != dict(parse(word.expected).reasons):
        return {name: f"other counts: said {word.said!r}, expected {word.expected!r}"}
    return {}


def test_every_pending_pod_has_a_cause_with_a_known_code(crowd: Crowd) -> None:
    for name, said in _explained(crowd).items():
        assert said.causes, name
        assert {cause.code for cause in said.causes} <= table().keys(), name
        assert said.headline, name


def test_holders_are_explained_as_placed(crowd: Crowd) -> None:
    api, namespace = crowd
    world = World(read_cluster(api, namespace=namespace), Options())
    for scene in HOLDERS:
        name = scene.pod["metadata"]["name"]
        said = explain(world, named(world, f"pod/{namespace}/{name}"))
        assert said.verdict is Verdict.PLACED, (name, said.headline)
        assert said.node in pending.NODES


def test_pods_that_ask_for_nearly_the_same_run(crowd: Crowd, cluster: Cluster) -> None:
    api, namespace = crowd
    cluster.apply(_list(_bodies(rules.fitting())), namespace=namespace)
    for scene in rules.fitting():
        name = scene.pod["metadata"]["name"]
        eventually(lambda name=name: _bound(api, namespace, name), f"{name} bound", timeout_s=WAIT_S)  # type: ignore[misc]


def test_a_port_that_is_given_back_lets_a_pod_run(crowd: Crowd, cluster: Cluster) -> None:
    """Changes the cluster, as the next test does. Who of them gets the port is up to the scheduler."""
    api, namespace = crowd
    waiting = [
        name
        for name, said in _explained(crowd).items()
        if any("hold-web" in line for cause in said.causes for line in cause.evidence)
    ]
    assert "port-taken" in waiting
    cluster.kubectl("-n", namespace, "delete", "pod", "hold-web", "--wait=false")
    _until_one_is_bound(api, namespace, waiting, "the port is free")


def test_a_release_that_is_told_really_lets_a_pod_run(crowd: Crowd, cluster: Cluster) -> None:
    """The last test of the module: it changes the cluster."""
    api, namespace = crowd
    explained = _explained(crowd)
    told = next(miss for miss in explained["all-in-use"].misses if miss.changes[0].kind.value == "release")
    claim = told.changes[0].claim
    waiting = [
        name
        for name, said in explained.items()
        if any(change.claim == claim for miss in said.misses for change in miss.changes)
    ]
    assert "all-in-use" in waiting
    cluster.kubectl("-n", namespace, "delete", "pod", claim.rpartition("/")[2], "--wait=false")
    _until_one_is_bound(api, namespace, waiting, "the release")


def _until_one_is_bound(api: KubeClient, namespace: str, names: list[str], after: str) -> None:
    what = f"one of {', '.join(names)} bound after {after}"
    eventually(lambda: any(_bound(api, namespace, name) for name in names), what, timeout_s=WAIT_S)
