"""A cluster on this machine: embedded API server, simulated nodes, some GPUs busy, planner, stand-ins.

Each node runs the production path: simulated NVML and sysfs → discovery → ResourceSlices → publisher. The
stand-ins for upstream components are simulated too and say so; the planner is the production one.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2
import msgspec

from baro.agent.cluster import ClusterSlices
from baro.agent.discovery import discover
from baro.agent.nvml import session
from baro.agent.publisher import Publisher
from baro.agent.simulated import SimulatedNvml, write_sysfs
from baro.agent.slices import desired_slices, device_name, node_topology
from baro.apiserver import RunningServer, create_app, run_in_thread
from baro.controller.placer import with_policy
from baro.controller.reconcile import Planner
from baro.controller.runner import Controller
from baro.controller.standins import SimulatedCluster
from baro.kube.client import KubeClient
from baro.kube.events import rfc3339
from baro.model.decode import to_kind
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Namespace, Node, Pod
from baro.model.kinds.resource import FINALIZER, DeviceClass, ResourceClaim, ResourceClaimTemplate
from baro.model.load import Loaded, load_bytes
from baro.model.names import DRIVER
from baro.model.schema import find_kind
from baro.topology.machine import Machine
from baro.topology.profiles import load_profile

BUSY_NAMESPACE = "tenants"


class DemoNode(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated node: a machine profile, and the GPU indices that other tenants hold."""

    name: str
    profile: str
    busy: tuple[int, ...] = ()


NODES = (
    DemoNode(name="a", profile="hgx-h100-2x4", busy=(2, 3)),
    DemoNode(name="b", profile="h100-nvl-8-pairs", busy=(0, 1)),
    DemoNode(name="c", profile="hgx-h100-8", busy=(0, 1, 2, 3, 4)),
    DemoNode(name="d", profile="h200-nvl-8", busy=(2, 3)),
)
"""Four machines on which "4 free GPUs" means four different things."""


class DemoCluster:
    """The running cluster; a context manager that stops everything it started."""

    def __init__(
        self, nodes: Sequence[DemoNode] = NODES, *, port: int = 0, log: Callable[[str], None]
    ) -> None:
        self.nodes = nodes
        self.machines: dict[str, Machine] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="baro-demo-")
        self.kubeconfig = Path(self._folder.name) / "kubeconfig"
        self._port = port
        self._log = log
        self._server: RunningServer | None = None
        self._standins: SimulatedCluster | None = None
        self._controller: Controller | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> DemoCluster:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        self._server = run_in_thread(create_app(), port=self._port)
        self._server.write_kubeconfig(self.kubeconfig)
        self.api = KubeClient.connect(url=self._server.url)
        for document in manifest("deviceclasses.yaml"):
            self.create(document.body)
        self.api.create(Namespace, "", {"metadata": {"name": BUSY_NAMESPACE}})
        for node in self.nodes:
            self._join(node)
        self._standins = SimulatedCluster(self.api, with_policy("first-fit"), log=self._log)
        self._standins.start()
        planner = Planner(self.api, with_policy("topology"), log=self._log)
        self._controller = Controller(self.api, planner, log=self._log)
        self._thread = threading.Thread(target=self._controller.run, name="planner", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops planner, stand-ins and server, in this order. Calling it twice is fine."""
        if self._controller is not None and self._thread is not None:
            self._controller.stop()
            self._thread.join(timeout=5)
        if self._standins is not None:
            self._standins.stop()
        if self._server is not None:
            self.api.close()
            self._server.stop()
        self._folder.cleanup()
        self._controller = self._standins = self._server = None

    @property
    def url(self) -> str:
        """Where the embedded API server listens (loopback)."""
        if self._server is None:
            raise RuntimeError("the demo cluster is not running")
        return self._server.url

    # --- nodes -----------------------------------------------------------------------------------------

    def _join(self, node: DemoNode) -> None:
        """What happens when a machine joins a real cluster: a Node, discovery, slices; then its tenants."""
        profile = load_profile(node.profile)
        created = self.api.create(Node, "", _node_body(node))
        root = Path(self._folder.name) / node.name
        write_sysfs(profile, root)
        with session(SimulatedNvml(profile, seed=node.name)) as nvml:
            machine = discover(nvml, root, source=f"simulated {profile.name}")
        self.machines[node.name] = machine
        slices = desired_slices(machine, node=node.name, driver=DRIVER, node_uid=created.metadata.uid)
        graph = node_topology(machine, node=node.name, driver=DRIVER, node_uid=created.metadata.uid)
        Publisher(ClusterSlices(self.api)).publish(slices, graph)
        if node.busy:
            self._occupy(node, machine)

    def _occupy(self, node: DemoNode, machine: Machine) -> None:
        """A running pod of another tenant that holds the busy GPUs through an allocated claim."""
        name = f"training-{node.name}"
        claim = self.api.create(
            ResourceClaim,
            BUSY_NAMESPACE,
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": BUSY_NAMESPACE, "finalizers": [FINALIZER]},
                "spec": {
                    "devices": {
                        "requests": [
                            {
                                "name": "gpus",
                                "exactly": {"deviceClassName": "gpu.nvidia.com", "count": len(node.busy)},
                            }
                        ]
                    }
                },
            },
        )
        pod = self.api.create(Pod, BUSY_NAMESPACE, _tenant_body(name, node.name))
        devices = [device_name(machine.gpu(index)) for index in node.busy]
        status = {
            "allocation": {
                "devices": {
                    "results": [
                        {"request": "gpus", "driver": DRIVER, "pool": node.name, "device": device}
                        for device in devices
                    ]
                },
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node.name]}]}
                    ]
                },
                # Without it a later reservation would count as a change of the allocation.
                "allocationTimestamp": rfc3339(datetime.now(UTC)),
            },
            "reservedFor": [{"resource": "pods", "name": name, "uid": pod.metadata.uid}],
        }
        guard = {"resourceVersion": claim.metadata.resource_version, "uid": claim.metadata.uid}
        self.api.patch_merge(
            ResourceClaim, BUSY_NAMESPACE, name, {"metadata": guard, "status": status}, "status"
        )

    # --- objects ---------------------------------------------------------------------------------------

    def create(self, body: dict[str, Any]) -> KubeObject:
        """Create any object of a manifest, in ``default`` when it names no namespace."""
        kinds: dict[str, type[KubeObject]] = {
            "DeviceClass": DeviceClass,
            "Pod": Pod,
            "ResourceClaim": ResourceClaim,
            "ResourceClaimTemplate": ResourceClaimTemplate,
        }
        obj = to_kind(body)
        if obj is None or obj.kind not in kinds:
            raise TypeError(f"the demo does not create {body.get('kind')}")
        cluster_scoped = obj.kind == "DeviceClass"
        namespace = "" if cluster_scoped else obj.metadata.namespace or "default"
        return self.api.create(kinds[obj.kind], namespace, body)

    def refusal(self, body: dict[str, Any]) -> str | None:
        """What the API server says when the object is sent as it is written, in its own API version.

        ``None`` when it would be accepted; nothing is stored (dry run).
        """
        kind = find_kind(body["apiVersion"], body["kind"])
        if kind is None:
            raise TypeError(f"{body['kind']} of {body['apiVersion']} is not served")
        path = f"/apis/{body['apiVersion']}/namespaces/default/{kind.plural}?dryRun=All"
        answer = httpx2.post(self.url + path, json=body)
        return None if answer.is_success else str(answer.json()["message"])


def manifest(name: str) -> tuple[Loaded, ...]:
    """The documents of one of the demo's own manifests."""
    data = resources.files("baro.demo").joinpath("manifests", name).read_bytes()
    return load_bytes(data, name)


def _node_body(node: DemoNode) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {"kubernetes.io/hostname": node.name, "baro.dev/profile": node.profile},
        },
        "status": {
            "allocatable": {"cpu": "224", "memory": "2000Gi", "pods": "110"},
            "capacity": {"cpu": "224", "memory": "2000Gi", "pods": "110"},
        },
    }


def _tenant_body(name: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": BUSY_NAMESPACE},
        "spec": {
            "nodeName": node,
            "resourceClaims": [{"name": "gpus", "resourceClaimName": name}],
            "containers": [
                {
                    "name": "train",
                    "image": "train:1",
                    "resources": {"claims": [{"name": "gpus"}]},
                }
            ],
        },
    }
