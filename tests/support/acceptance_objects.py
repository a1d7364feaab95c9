"""What an acceptance scenario has to do with: a server and its actors, nodes, claims, pods.

A ``Site`` is a server with everything that acts on it besides baro: the embedded one with simulated
stand-ins, or a real control plane. ``Objects`` are in one namespace of it, on nodes of their own that publish
by production code; pods carry a node selector, so those of several namespaces do not meet. Judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from baro.kube.api import KubeApi
from baro.kube.client import KubeClient
from baro.kube.errors import NotFoundError
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from baro.model.names import GANG_LABEL, GANG_SIZE_ANNOTATION
from tests.support.acceptance_machine import SimulatedMachine
from tests.support.acceptance_picture import FINALIZER, GATE, Observer, Picture
from tests.support.acceptance_planner import Right

EXCLUSIVE = "gpu.baro.dev"
SHARED = "gpu.nvidia.com"
LABEL = "baro.dev/acceptance"
ZONE = "baro.dev/acceptance-zone"
TOLERATION = {"key": LABEL, "operator": "Exists", "effect": "NoSchedule"}
"""What lets a pod onto the nodes of a world."""
DEVICE_CLASSES = Path(__file__).resolve().parents[2] / "deploy" / "deviceclasses.yaml"


class Site(Protocol):
    """A server and its actors. ``wait_s`` is how long anything may take here."""

    wait_s: float
    simulated: bool
    """Whether stand-ins act for kube-scheduler and the controllers."""
    rights: set[Right]
    """What the planners' calls needed so far."""

    def admin(self) -> KubeClient: ...

    def planner(self) -> KubeClient:
        """A new client with the planner's rights and nothing else."""
        ...

    def planner_flags(self) -> Sequence[str]:
        """How ``baro controller`` finds this server, with the planner's rights."""
        ...

    def publisher(self, node: str) -> KubeApi:
        """With the rights of the agent on that node."""
        ...


class Objects:
    """One namespace, nodes of its own, and what is put there. The watches on all of it are ``seen``."""

    def __init__(self, site: Site, namespace: str, *, node_notes: Mapping[str, str] | None = None) -> None:
        self.site = site
        self.ns = namespace
        self.api: KubeClient = site.admin()
        self.seen = Observer(self.api, namespace)
        self._rules: set[str] = set()
        self._agents: dict[str, SimulatedMachine] = {}
        self._notes = dict(node_notes or {})

    def wait(self, holds: Callable[[Picture], bool], what: str) -> None:
        """Until it holds, woken by the server's news, at most ``site.wait_s``."""
        self.seen.wait(holds, what, self.site.wait_s)

    # --- nodes ---------------------------------------------------------------------------------------------

    def name(self, node: str) -> str:
        """The full name of a node of this world."""
        return f"{self.ns}-{node}"

    def node(
        self, short: str, profile: str = "hgx-h100-4", *, cpu: str = "64", zone: str | None = None
    ) -> str:
        """A machine joins: Node, discovery, slices. Returns its full name once it is Ready."""
        name = self.name(short)
        amounts = {"cpu": cpu, "memory": "1000Gi", "pods": "110"}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {LABEL: self.ns, "kubernetes.io/hostname": name} | ({ZONE: zone} if zone else {}),
                "annotations": self._notes,
            },
            # Pods of others stay away: they would go with the node.
            "spec": {"taints": [{"key": LABEL, "value": self.ns, "effect": "NoSchedule"}]},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
        self.api.create(Node, "", body)
        self._agents[short] = SimulatedMachine(self.site.publisher(name), name, profile)
        self.publish(short)
        self.wait(lambda seen: _ready(seen.find(Node, name)), f"{name} is Ready")
        return name

    def publish(self, short: str, *, profile: str | None = None, lost: Collection[int] = ()) -> None:
        """The node's agent looks again: at another machine, or at one that has lost GPUs."""
        self._agents[short].publish(profile, lost)

    def delete_node(self, short: str) -> None:
        """The Node goes; its slices with it, as they are owned by it."""
        name = self.name(short)
        self.api.delete(Node, "", name)
        self._agents.pop(short)
        self.wait(
            lambda seen: not any(s.spec.node_name == name for s in seen.all(ResourceSlice)),
            f"the slices of {name} go with it",
        )

    def taint(self, short: str, key: str = "example.com/maintenance") -> None:
        node = self.api.get(Node, "", self.name(short))
        taints = [t for t in node.to_dict().get("spec", {}).get("taints", []) if t["key"] != key]
        body = {"spec": {"taints": [*taints, {"key": key, "effect": "NoSchedule"}]}}
        self.api.patch_merge(Node, "", self.name(short), body)

    def rule(self, short: str, device: str) -> str:
        """Taints one device by a DeviceTaintRule. Skips the test on a server without that kind."""
        name = f"{self.name(short)}-{device}"
        selector = {"driver": EXCLUSIVE, "pool": self.name(short), "device": device}
        taint = {"key": "example.com/broken", "effect": "NoSchedule"}
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceTaintRule",
            "metadata": {"name": name},
            "spec": {"deviceSelector": selector, "taint": taint},
        }
        try:
            self.api.create(DeviceTaintRule, "", body)
        except NotFoundError:
            pytest.skip("this server serves no DeviceTaintRule of resource.k8s.io/v1")
        self._rules.add(name)
        return name

    def drop_rule(self, name: str) -> None:
        self.api.delete(DeviceTaintRule, "", name)
        self._rules.remove(name)

    # --- claims and pods -----------------------------------------------------------------------------------

    def claim(self, name: str, count: int = 1, **spec: Any) -> ResourceClaim:
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": claim_spec(count, **spec),
        }
        return self.api.create(ResourceClaim, self.ns, body)

    def template(self, name: str, count: int = 1, **spec: Any) -> None:
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name},
            "spec": {"spec": claim_spec(count, **spec)},
        }
        self.api.create(ResourceClaimTemplate, self.ns, body)

    def pod(
        self,
        name: str,
        *,
        claims: Sequence[str] = (),
        templates: Sequence[str] = (),
        gated: bool = True,
        cpu: str = "1",
        node: str | None = None,
        zone: str | None = None,
        gang: tuple[str, int] | None = None,
    ) -> Pod:
        """A pod with these named and template claims, once the watches know it. ``node`` binds it there past
        kube-scheduler.

        ``zone`` keeps it to the nodes of that zone; ``gang`` is the name of its gang and how many it needs.
        """
        entries: list[dict[str, str]] = [
            {"name": f"c{i}", "resourceClaimName": c} for i, c in enumerate(claims)
        ]
        entries += [{"name": f"t{i}", "resourceClaimTemplateName": t} for i, t in enumerate(templates)]
        main = {
            "name": "main",
            "image": "registry.example/train:1",
            "resources": {
                "requests": {"cpu": cpu},
                "claims": [{"name": entry["name"]} for entry in entries],
            },
        }
        spec: dict[str, Any] = {
            "containers": [main],
            "resourceClaims": entries,
            "tolerations": [TOLERATION],
        }
        if node is not None:
            spec["nodeName"] = self.name(node)
        else:
            spec["nodeSelector"] = {LABEL: self.ns} | ({ZONE: zone} if zone else {})
        if gated and node is None:
            spec["schedulingGates"] = [{"name": GATE}]
        metadata: dict[str, Any] = {"name": name}
        if gang is not None:
            metadata |= {"labels": {GANG_LABEL: gang[0]}, "annotations": {GANG_SIZE_ANNOTATION: str(gang[1])}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        made = self.api.create(Pod, self.ns, body)
        self.wait(lambda seen: self.seen.knew(made), f"pod {name} is known")
        return made

    def delete_pod(self, name: str) -> None:
        self.api.delete(Pod, self.ns, name, grace_period_s=0)

    def occupy(self, short: str, gpus: Sequence[int]) -> None:
        """Another tenant's running pod holds these GPUs, allocated by somebody else than baro."""
        name = f"tenant-{short}"
        self.claim(name, len(gpus), cls=SHARED)
        self.allocate(name, short, gpus, self.pod(name, claims=[name], node=short))

    def allocate(self, claim: str, short: str, gpus: Sequence[int], pod: Pod) -> None:
        """Somebody who is neither baro nor kube-scheduler gives the claim these GPUs, and reserves it."""
        node, uid = self.name(short), pod.metadata.uid
        results = [{"request": "gpus", "driver": EXCLUSIVE, "pool": node, "device": f"gpu-{i}"} for i in gpus]
        here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        status = {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [here]},
                "allocationTimestamp": pod.metadata.creation_timestamp,
            },
            "reservedFor": [{"resource": "pods", "name": pod.metadata.name, "uid": uid}],
        }
        self.api.patch_merge(ResourceClaim, self.ns, claim, {"metadata": {"finalizers": [FINALIZER]}})
        self.api.patch_merge(ResourceClaim, self.ns, claim, {"status": status}, "status")

    def touch(self, kind: type[KubeObject], name: str, value: str) -> None:
        """Somebody else changes the object, in a way that means nothing to anybody."""
        body = {"metadata": {"annotations": {"example.com/touched": value}}}
        self.api.patch_merge(kind, self.ns, name, body)

    def clear_allocation(self, claim: str) -> None:
        """What kube-scheduler's PostFilter does to a claim of a pod that fits nowhere."""
        body = {"status": {"allocation": None, "reservedFor": None}}
        self.api.patch_merge(ResourceClaim, self.ns, claim, body, "status")


def claim_spec(count: int, *, cls: str = EXCLUSIVE, island: bool = False) -> dict[str, Any]:
    """A claim of ``count`` GPUs, on one NVLink island when asked."""
    request = {"name": "gpus", "exactly": {"deviceClassName": cls, "count": count}}
    devices: dict[str, Any] = {"requests": [request]}
    if island:
        devices["constraints"] = [{"requests": ["gpus"], "matchAttribute": "gpu.baro.dev/nvlinkDomain"}]
    return {"devices": devices}


def _ready(node: Node | None) -> bool:
    if node is None or any(taint.key.startswith("node.kubernetes.io/") for taint in node.spec.taints):
        return False
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
