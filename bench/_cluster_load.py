"""A real control plane with kwok nodes for ``bench/cluster``: nodes, pods, and a watch that takes times.

Nodes and their GPUs are simulated: eight devices in two islands of four, one slice a node, written directly.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from baro.kube.client import KubeClient
from baro.kube.events import rfc3339
from baro.kube.watch import Apply, Change, InitApply, Trouble, Watcher
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import ResourceClaim, ResourceClaimTemplate, ResourceSlice
from baro.model.names import DRIVER, PLACEMENT_GATE
from tests.support.real_cluster import RealCluster

NAMESPACE = "bench"
WRITERS = 8
SETUP_S = 400.0
CLEAR_S = 300.0
POLL_S = 1.0


class BenchCluster(RealCluster):
    """As ``RealCluster``, with settings for many nodes on two cores, the same for everybody who is measured.

    Nodes renew their lease every 5 min instead of every 10 s (5,000 of them would take the machine), and
    kube-scheduler may send 1,000 calls a second (50 by default, which alone would bound it).
    """

    def _kwok(self, port: int) -> list[str | Path]:
        flags = super()._kwok(port)
        return [
            "--node-lease-duration-seconds=1200" if str(f).startswith("--node-lease-") else f for f in flags
        ]

    def _controller_manager(self, port: int) -> list[str | Path]:
        flags = super()._controller_manager(port)
        return [*flags, "--node-monitor-grace-period=1h", "--node-startup-grace-period=1h"]

    def _scheduler(self, port: int) -> list[str | Path]:
        return [*super()._scheduler(port), "--kube-api-qps=1000", "--kube-api-burst=1000"]


def slice_body(node: str, uid: str) -> dict[str, Any]:
    """The ResourceSlice of one node."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": f"{node}-{DRIVER}",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}],
        },
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(node, index) for index in range(8)],
        },
    }


def _device(node: str, index: int) -> dict[str, Any]:
    attributes: dict[str, dict[str, Any]] = {
        "type": {"string": "gpu"},
        "index": {"int": index},
        "gpu.nvidia.com/type": {"string": "gpu"},
        "gpu.nvidia.com/model": {"string": "H200"},
        "gpu.nvidia.com/uuid": {"string": f"GPU-{node}-{index}"},
        "gpu.nvidia.com/nvlinkDomain": {"string": island(node, index)},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index:02x}"},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:{index:02x}:00.0"},
        "resource.kubernetes.io/numaNode": {"int": index // 4},
    }
    capacity = {"gpu.nvidia.com/memory": {"value": "141Gi"}}
    return {"name": f"gpu-{index}", "attributes": attributes, "capacity": capacity}


def island(node: str, index: int) -> str:
    """The value of the island attribute of one device."""
    return f"{node}-{index // 4}"


def _template_body(name: str, device_class: str) -> dict[str, Any]:
    request = {"name": "gpus", "exactly": {"deviceClassName": device_class, "count": 4}}
    same = {"requests": ["gpus"], "matchAttribute": "gpu.nvidia.com/nvlinkDomain"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [request], "constraints": [same]}}},
    }


def _pod_body(name: str, template: str, gated: bool) -> dict[str, Any]:
    gates = {"schedulingGates": [{"name": PLACEMENT_GATE}]} if gated else {}
    container = {"name": "main", "image": "bench:1", "resources": {"claims": [{"name": "gpus"}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            **gates,
            "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": template}],
            "containers": [container],
        },
    }


def _in_parallel(work: Callable[[Any], object], items: Iterable[Any]) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        for _ in pool.map(work, items):
            pass  # an error of any of them ends the benchmark


def join_nodes(api: KubeClient, count: int) -> None:
    """Creates nodes and slices in bulk; returns when all nodes are Ready and none is tainted. They are
    created as Ready: kwok, which keeps them so, would take minutes to make thousands Ready one by one.
    """

    now = rfc3339(datetime.now(UTC))

    def join(name: str) -> None:
        labels = {"kubernetes.io/hostname": name}
        room = {"cpu": "224", "memory": "2000Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        body = {
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": room, "capacity": room, "conditions": [ready]},
        }
        uid = api.create(Node, "", {"apiVersion": "v1", "kind": "Node", **body}).metadata.uid
        api.create(ResourceSlice, "", slice_body(name, uid))

    _in_parallel(join, [f"node-{index:05}" for index in range(count)])
    deadline = time.monotonic() + SETUP_S
    while True:
        ready = sum(_ready(node) for node in api.list(Node).items)
        if ready == count:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{ready} of {count} nodes are ready after {SETUP_S:.0f} s")
        time.sleep(POLL_S + count / 1000)  # a list of thousands costs a second itself


def _ready(node: Node) -> bool:
    conditions = node.status.conditions
    return not node.spec.taints and any(c.type == "Ready" and c.status == "True" for c in conditions)


class Times:
    """When each pod was sent to the server, and when a watch first showed it bound. A steady clock."""

    def __init__(self) -> None:
        self.sent: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self.created = 0.0
        """When the last creation had been answered."""
        self.troubles: list[str] = []
        """What went wrong with the watch; it goes on by itself."""


@contextmanager
def _watching(api: KubeClient, times: Times, count: int) -> Iterator[threading.Event]:
    """Notes bindings into ``times``; the event is set once ``count`` pods are bound."""
    done = threading.Event()

    def note(change: Change[Pod]) -> None:
        match change:
            case Apply(object=pod) | InitApply(object=pod):
                if pod.spec.node_name and pod.metadata.name not in times.bound:
                    times.bound[pod.metadata.name] = time.monotonic()
            case Trouble(error=error):
                times.troubles.append(str(error))
        if len(times.bound) == count:
            done.set()

    watcher = Watcher(api, Pod, note)
    thread = threading.Thread(target=watcher.run, daemon=True, name="bench-watch")
    thread.start()
    try:
        yield done
    finally:
        watcher.stop()
        thread.join(timeout=10)


def prepare(api: KubeClient, template: str, device_class: str) -> None:
    """A claim template: four devices of that class, of one island."""
    api.create(ResourceClaimTemplate, NAMESPACE, _template_body(template, device_class))


def send_pods(
    api: KubeClient, prefix: str, template: str, count: int, *, gated: bool, limit_s: float
) -> Times:
    """Creates the pods as fast as the server takes them, and waits until all are bound or time is up."""
    times = Times()

    def send(name: str) -> None:
        times.sent[name] = time.monotonic()
        api.create(Pod, NAMESPACE, _pod_body(name, template, gated))

    with _watching(api, times, count) as done:
        _in_parallel(send, [f"{prefix}-{index:05}" for index in range(count)])
        times.created = time.monotonic()
        done.wait(limit_s)
    return times


def clear(api: KubeClient) -> None:
    """Deletes all pods; returns when they are gone and the controllers have collected their claims."""
    pods = [pod.metadata.name for pod in api.list(Pod, NAMESPACE).items]
    _in_parallel(lambda name: api.delete(Pod, NAMESPACE, name, grace_period_s=0), pods)
    deadline = time.monotonic() + CLEAR_S
    while api.list(Pod, NAMESPACE).items or api.list(ResourceClaim, NAMESPACE).items:
        if time.monotonic() > deadline:
            raise TimeoutError(f"pods and claims are still there after {CLEAR_S:.0f} s")
        time.sleep(POLL_S)


_REQUESTS = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def requests(cluster: RealCluster) -> dict[str, float]:
    """Writes of all clients since the server started, by verb, resource and answer."""
    found: dict[str, float] = {}
    for labels, count in _REQUESTS.findall(cluster.kubectl("get", "--raw", "/metrics")):
        label = dict(_LABEL.findall(labels))
        if label["verb"] in ("GET", "LIST", "WATCH", "CONNECT"):
            continue
        part = f"/{label['subresource']}" if label["subresource"] else ""
        call = f"{label['verb']} {label['resource']}{part} {label['code']}"
        found[call] = found.get(call, 0.0) + float(count)
    return found


class Check(msgspec.Struct, frozen=True):
    """What the API server has in the end: pods bound, and allocated claims on more than one island."""

    bound: int
    split: int


def check(api: KubeClient) -> Check:
    """Reads everything back; ``AssertionError`` for a device in two claims."""
    held: set[tuple[str, str]] = set()
    split = 0
    for claim in api.list(ResourceClaim, NAMESPACE).items:
        results = claim.status.allocation.devices.results if claim.status.allocation else ()
        islands = {island(r.pool, int(r.device.removeprefix("gpu-"))) for r in results}
        split += len(islands) > 1
        for result in results:
            assert (result.pool, result.device) not in held, f"{result.pool}/{result.device} is held twice"
            held.add((result.pool, result.device))
    return Check(sum(bool(pod.spec.node_name) for pod in api.list(Pod, NAMESPACE).items), split)
