"""Planner and stand-ins as daemons over HTTP against the embedded API server. First fit for placer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from baro.apiserver import create_app, run_in_thread
from baro.controller.placer import Placer, with_policy
from baro.controller.reconcile import Planner
from baro.controller.runner import Controller
from baro.controller.standins import SimulatedCluster
from baro.kube.client import KubeClient
from baro.kube.lease import Elector, LeaseSettings
from baro.kube.watch import Watcher
from baro.model.errors import UnreachableError
from baro.model.kinds.core import Lease, Pod
from baro.model.kinds.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from tests.support.controller import Cluster, first_free, judge
from tests.support.real_process import free_ports


@pytest.fixture
def url() -> Iterator[str]:
    with run_in_thread(create_app()) as server:
        yield server.url


class Running:
    """A planner daemon in a thread."""

    def __init__(self, url: str, identity: str = "", placer: Placer = first_free) -> None:
        self.api = KubeClient.connect(url=url)
        self.log: list[str] = []
        settings = LeaseSettings(identity=identity or "x", namespace="default")
        elector = Elector(self.api, settings, clock=time.monotonic) if identity else None
        planner = Planner(self.api, placer, log=self.log.append)
        self.controller = Controller(self.api, planner, log=self.log.append, elector=elector)
        self.thread = threading.Thread(target=self.controller.run, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.controller.stop()
        self.thread.join(timeout=20)
        assert not self.thread.is_alive()
        self.api.close()


def until(cluster: Cluster, content: Callable[[], bool]) -> None:
    """Waits on the server's news of pods and claims, not on a clock."""
    woken = threading.Event()
    watchers = [Watcher(cluster.api, kind, lambda change: woken.set()) for kind in (Pod, ResourceClaim)]
    threads = [threading.Thread(target=watcher.run, daemon=True) for watcher in watchers]
    for thread in threads:
        thread.start()
    try:
        for _ in range(1000):
            if content():
                return
            woken.wait(timeout=2)  # events and leases are not watched
            woken.clear()
        raise AssertionError("nothing but news, and never what was waited for")
    finally:
        for watcher in watchers:
            watcher.stop()
        for thread in threads:
            thread.join(timeout=20)


def phase(cluster: Cluster, pod: str) -> str:
    return cluster.get_pod(pod).status.phase


def template(cluster: Cluster, count: int) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "template"},
        "spec": spec,
    }
    cluster.api.create(ResourceClaimTemplate, "default", body)


def test_pods_of_a_template_are_placed_run_and_make_room_when_they_go(url: str) -> None:
    with KubeClient.connect(url=url) as api:
        cluster = Cluster(api)
        cluster.node("a", 4)
        template(cluster, 4)
        simulated = SimulatedCluster(api, first_free)
        simulated.start()
        planner = Running(url)
        cluster.pod("p", "template", template=True)
        until(cluster, lambda: phase(cluster, "p") == "Running")
        cluster.pod("q", "template", template=True)
        until(cluster, lambda: bool(cluster.events("NoPlacement")))
        api.delete(Pod, "default", "p")
        until(cluster, lambda: phase(cluster, "q") == "Running")
        until(cluster, lambda: len(api.list(ResourceClaim).items) == 1)
        planner.stop()
        simulated.stop()
        judge(cluster)
        [placed, _] = sorted(cluster.events("Placed"), key=lambda event: event.involved_object.name)
        assert placed.message == "4×GPU on node a"


def island_node(cluster: Cluster, name: str, domains: str) -> None:
    """A node whose GPU ``i`` is in the NVLink domain that the ``i``-th letter names."""
    devices = [
        {
            "name": f"gpu-{i}",
            "attributes": {
                "type": {"string": "gpu"},
                "productName": {"string": "NVIDIA H200"},
                "model": {"string": "H200"},
                "nvlinkDomain": {"string": f"{name}-{domain}"},
                "nvlinkPeers": {"int": domains.count(domain) - 1},
            },
        }
        for i, domain in enumerate(domains)
    ]
    cluster.node(name, 0)
    pool = {"name": name, "generation": 2, "resourceSliceCount": 1}
    spec = {"driver": "gpu.baro.dev", "nodeName": name, "pool": pool, "devices": devices}
    old = cluster.api.get(ResourceSlice, "", f"slice-{name}")
    meta = {"name": f"slice-{name}", "resourceVersion": old.metadata.resource_version}
    body = {"metadata": meta, "spec": spec}
    cluster.api.replace(ResourceSlice, "", f"slice-{name}", body)


def test_the_topology_policy_puts_four_gpus_on_an_island_where_first_fit_cannot(url: str) -> None:
    with KubeClient.connect(url=url) as api:
        cluster = Cluster(api)
        exclusive = {
            "metadata": {
                "name": "exclusive",
                "annotations": {"baro.dev/selector": "device.driver == 'gpu.baro.dev'"},
            },
            "spec": {"selectors": [{"cel": {"expression": "false"}}]},
        }
        api.create(DeviceClass, "", exclusive)
        island_node(cluster, "a", "xxxxyyyy")
        simulated = SimulatedCluster(api, with_policy("first-fit"))
        simulated.start()
        for name, count in (("two", 2), ("four", 4), ("other", 1)):
            request = {"name": "r", "exactly": {"deviceClassName": "exclusive", "count": count}}
            claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
            api.create(ResourceClaim, "default", claim)
        cluster.pod("other", "other", gated=False)
        until(cluster, lambda: bool(cluster.events("FailedScheduling")))  # not without baro
        planner = Running(url, placer=with_policy("topology"))
        cluster.pod("two", "two")
        until(cluster, lambda: phase(cluster, "two") == "Running")
        cluster.pod("four", "four")
        until(cluster, lambda: phase(cluster, "four") == "Running")
        planner.stop()
        simulated.stop()
        judge(cluster)
        two, four = ({int(device[-1]) // 4 for device in cluster.devices(c)} for c in ("two", "four"))
        assert len(two) == len(four) == 1
        assert two != four
        reason = cluster.get_pod("four").metadata.annotations["baro.dev/placement-reason"]
        assert reason.startswith("4×H200 on node a: island ")
        assert phase(cluster, "other") == "Pending"


def test_two_planners_that_elect_a_leader_hand_over_when_one_stops(url: str) -> None:
    with KubeClient.connect(url=url) as api:
        cluster = Cluster(api)
        cluster.node("a", 4)
        one = Running(url, "one")
        until(cluster, lambda: any(lease.spec.holder_identity == "one" for lease in api.list(Lease).items))
        two = Running(url, "two")
        one.stop()
        cluster.claim("c", 2)
        cluster.pod("p", "c")
        until(cluster, lambda: not cluster.get_pod("p").spec.scheduling_gates)
        assert api.get(Lease, "default", "baro-controller").spec.holder_identity == "two"
        two.stop()


def test_many_pods_and_two_planners_without_election_leave_no_device_in_two_claims(url: str) -> None:
    with KubeClient.connect(url=url) as api:
        cluster = Cluster(api)
        for name in ("a", "b", "c"):
            cluster.node(name, 4, allocatable={})
        planners = [Running(url), Running(url)]
        simulated = SimulatedCluster(api, first_free)
        simulated.start()
        for i in range(6):
            cluster.claim(f"c{i}", 2)
            cluster.pod(f"p{i}", f"c{i}")
        until(cluster, lambda: all(phase(cluster, f"p{i}") == "Running" for i in range(6)))
        for planner in planners:
            planner.stop()
        simulated.stop()
        judge(cluster)


def test_a_controller_without_a_server_says_so_once_and_stops_when_told() -> None:
    with run_in_thread(create_app()) as server:
        url = server.url
    running = Running(url)
    for _ in range(200):
        if running.log:
            break
        running.thread.join(timeout=0.05)
    running.stop()
    assert running.log
    assert all(url in line for line in running.log)


def test_a_server_that_went_away_and_came_back_is_picked_up_again() -> None:
    app = create_app()
    (port,) = free_ports(1)  # one that no client is given while the server is away
    with run_in_thread(app, port=port) as server, KubeClient.connect(url=server.url) as api:
        cluster = Cluster(api)
        cluster.node("a", 4)
        running = Running(server.url)
        cluster.claim("c", 2)
        cluster.pod("p", "c")
        until(cluster, lambda: not cluster.get_pod("p").spec.scheduling_gates)
        server.stop()
        with pytest.raises(UnreachableError):
            api.list(Pod)
        with run_in_thread(app, port=port):
            cluster.claim("d", 2)
            cluster.pod("q", "d")
            until(cluster, lambda: not cluster.get_pod("q").spec.scheduling_gates)
            running.stop()
