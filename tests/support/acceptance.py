"""The small world of the acceptance scenarios: one interface, whichever server is behind it.

A ``Site`` is a server with everything that acts on it besides baro: the embedded one with simulated
stand-ins, or a real control plane. A ``World`` is one namespace of it with nodes of its own. Nodes publish
and planners plan by production code; pods carry a node selector, so worlds of one site do not meet.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from baro.kube.api import KubeApi
from baro.kube.client import KubeClient
from baro.kube.errors import ConflictError, NotFoundError
from baro.kube.lease import Elector
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from baro.model.names import GANG_LABEL, GANG_SIZE_ANNOTATION
from tests.support.acceptance_machine import SimulatedMachine
from tests.support.acceptance_picture import (
    FINALIZER,
    GATE,
    Observer,
    Picture,
    devices,
    problems,
    running_twice,
)
from tests.support.acceptance_planner import PlannerProcess, Right, RunningPlanner, Tapped
from tests.support.kube import Write

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


class World:
    """One namespace with its own nodes. ``close`` removes all of it and checks that nothing stays behind."""

    def __init__(self, site: Site, namespace: str, *, node_notes: Mapping[str, str] | None = None) -> None:
        self.site = site
        self.ns = namespace
        self.api: KubeClient = site.admin()
        self.seen = Observer(self.api, namespace)
        self.planners: list[RunningPlanner] = []
        self._processes: list[PlannerProcess] = []
        self._rules: set[str] = set()
        self._agents: dict[str, SimulatedMachine] = {}
        self._notes = dict(node_notes or {})

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
        """A pod with these named and template claims. ``node`` binds it there past kube-scheduler.

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
        return self.api.create(
            Pod, self.ns, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        )

    def delete_pod(self, name: str) -> None:
        self.api.delete(Pod, self.ns, name, grace_period_s=0)

    def occupy(self, short: str, gpus: Sequence[int]) -> None:
        """Another tenant's running pod holds these GPUs, allocated by somebody else than baro."""
        name, node = f"tenant-{short}", self.name(short)
        self.claim(name, len(gpus), cls=SHARED)
        pod = self.pod(name, claims=[name], node=short)
        results = [{"request": "gpus", "driver": EXCLUSIVE, "pool": node, "device": f"gpu-{i}"} for i in gpus]
        here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        status = {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [here]},
                "allocationTimestamp": pod.metadata.creation_timestamp,
            },
            "reservedFor": [{"resource": "pods", "name": name, "uid": pod.metadata.uid}],
        }
        self.api.patch_merge(ResourceClaim, self.ns, name, {"metadata": {"finalizers": [FINALIZER]}})
        self.api.patch_merge(ResourceClaim, self.ns, name, {"status": status}, "status")

    def touch(self, kind: type[KubeObject], name: str, value: str) -> None:
        """Somebody else changes the object, in a way that means nothing to anybody."""
        body = {"metadata": {"annotations": {"example.com/touched": value}}}
        self.api.patch_merge(kind, self.ns, name, body)

    def clear_allocation(self, claim: str) -> None:
        """What kube-scheduler's PostFilter does to a claim of a pod that fits nowhere."""
        body = {"status": {"allocation": None, "reservedFor": None}}
        self.api.patch_merge(ResourceClaim, self.ns, claim, body, "status")

    # --- planners ------------------------------------------------------------------------------------------

    def planner(
        self,
        before: Callable[[Write], None] | None = None,
        *,
        elector: Callable[[KubeApi], Elector] | None = None,
        writers: int = 1,
    ) -> RunningPlanner:
        """Starts one. ``before`` is called ahead of each of its writes, in the thread that writes."""
        client = self.site.planner()
        tapped = Tapped(client, self.site.rights, before)
        running = RunningPlanner(
            client, tapped, namespace=self.ns, elector=elector, writers=writers, heard=self.seen.wake
        )
        self.planners.append(running)
        return running

    def killed_planner(self, before: Callable[[Write], None]) -> None:
        """One that works until ``before`` raises ``Killed``."""
        self.planner(before).wait_killed(self.site.wait_s)

    def command(self) -> PlannerProcess:
        """Starts ``baro controller`` as a process of its own."""
        process = PlannerProcess(self.site.planner_flags(), self.ns)
        self._processes.append(process)
        return process

    def is_planned(self) -> bool:
        """Whether any planner runs."""
        running = [planner.alive for planner in self.planners]
        return any(running + [process.alive for process in self._processes])

    # --- waiting and judging -------------------------------------------------------------------------------

    def wait(self, holds: Callable[[Picture], bool], what: str) -> None:
        """Until it holds, woken by the server's news, at most ``site.wait_s``."""
        self.seen.wait(holds, what, self.site.wait_s)

    def report(self) -> str:
        """What a failed scenario left, and what the planners said."""
        lines = [*(f"wrong: {what}" for what in problems(self.seen.picture)), self.seen.picture.describe()]
        lines += self.seen.trouble
        lines += [f"planner {i}: {line}" for i, planner in enumerate(self.planners) for line in planner.log]
        for i, process in enumerate(self._processes):
            state = "runs" if process.alive else "has ended"
            lines += [f"process {i} {state}: {line}" for line in process.said().splitlines()[-40:]]
        return "\n".join(lines)

    def until_bound(self, *pods: str) -> None:
        self.wait(lambda seen: all(self._bound(seen, pod) for pod in pods), f"{', '.join(pods)} bound")

    def until_count_bound(self, count: int) -> None:
        """Until at least so many pods are bound."""
        self.wait(
            lambda seen: sum(bool(pod.spec.node_name) for pod in seen.all(Pod)) >= count,
            f"{count} pods bound",
        )

    def until_told(self, pod: str, reason: str) -> str:
        """Until the pod has an event of that reason; gives the last message."""
        found: list[str] = []

        def told(seen: Picture) -> bool:
            held = seen.find(Pod, pod)
            found[:] = [e.message for e in seen.told(held) if e.reason == reason] if held else []
            return bool(found)

        self.wait(told, f"{pod} is told {reason}")
        return found[-1]

    def until_claims(self, count: int) -> None:
        """Until so many claims of templates were made and named in their pods' status."""
        self.wait(
            lambda seen: sum(len(pod.status.resource_claim_statuses) for pod in seen.all(Pod)) == count,
            f"{count} claims of templates",
        )

    def until_over(self, planner: RunningPlanner) -> None:
        """Until the planner was killed, or nothing is left for it to do."""
        self.wait(
            lambda seen: planner.killed.is_set() or all(pod.spec.node_name for pod in seen.all(Pod)),
            "the planner killed, or all pods bound",
        )

    def node_of(self, pod: str) -> str:
        return self.api.get(Pod, self.ns, pod).spec.node_name.removeprefix(f"{self.ns}-")

    def devices_of(self, pod: str) -> list[str]:
        """``node/gpu-n`` of all claims of the pod, sorted, node names short."""
        found: list[str] = []
        pod_ = self.api.get(Pod, self.ns, pod)
        names = [e.resource_claim_name for e in pod_.spec.resource_claims if e.resource_claim_name]
        names += [s.resource_claim_name for s in pod_.status.resource_claim_statuses if s.resource_claim_name]
        for name in names:
            found += devices(self.api.get(ResourceClaim, self.ns, name))
        return sorted(device.removeprefix(f"{self.ns}-") for device in found)

    def check(self) -> None:
        """The invariants: once everything has settled, in the watches and in fresh lists."""
        self._settled("nothing wrong any more", lambda seen: True)
        assert not self.seen.violations, self.seen.violations
        assert not [planner.failed for planner in self.planners if planner.failed]

    def _settled(self, what: str, holds: Callable[[Picture], bool]) -> None:
        """Until nothing is wrong and it holds: in the watches, and in fresh lists while no planner acts.

        A planner in the middle of its writes has a claim look wrong for a moment, and a watch may have shown
        the moment before: so a list that looks wrong is taken again, until the watches say that it stays so.
        A device in use twice is a fault at every moment.
        """
        until = time.monotonic() + self.site.wait_s
        while True:
            self.wait(lambda seen: not problems(seen) and holds(seen) and not self._acting(), what)
            writes = self._writes()
            fresh = Picture.listed(self.api, self.ns)
            assert not running_twice(fresh), fresh.describe()
            if not problems(fresh) and holds(fresh) and not self._acting() and writes == self._writes():
                return
            assert time.monotonic() < until, f"the watches do not show what lists show\n{fresh.describe()}"

    def _acting(self) -> bool:
        return any(planner.acting for planner in self.planners)

    def _writes(self) -> int:
        return sum(len(planner.tapped.writes) for planner in self.planners)

    def drain(self) -> None:
        """All pods go: so must every allocation, reservation and finalizer. Named claims stay."""
        for pod in self.api.list(Pod, self.ns).items:
            with contextlib.suppress(NotFoundError):
                self.delete_pod(pod.metadata.name)
        self.wait(lambda seen: not seen.all(Pod), "all pods are gone")
        self._settled(
            "nothing is held any more",
            lambda seen: not any(c.status.allocation for c in seen.all(ResourceClaim)),
        )

    def close(self) -> None:
        """Stops planners, removes nodes and namespaced objects that this world made."""
        for process in self._processes:
            process.kill()
        for planner in self.planners:
            planner.stop()
        for rule in list(self._rules):
            self.drop_rule(rule)
        for kind in (Pod, ResourceClaim, ResourceClaimTemplate):
            for item in self.api.list(kind, self.ns).items:
                with contextlib.suppress(NotFoundError, ConflictError):
                    self.api.delete(kind, self.ns, item.metadata.name, grace_period_s=0)
        for short in list(self._agents):
            self.api.delete(Node, "", self.name(short))
        self.seen.stop()
        self.api.close()

    def _bound(self, seen: Picture, name: str) -> bool:
        pod = seen.find(Pod, name)
        return pod is not None and bool(pod.spec.node_name)


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


@contextlib.contextmanager
def world(site: Site, namespace: str, **options: Any) -> Iterator[World]:
    """A world for one scenario; it is checked, drained and checked again unless the scenario failed."""
    made = World(site, namespace, **options)
    try:
        yield made
        made.check()
        if not made.is_planned():
            made.planner()  # what a dead planner left behind is a living one's work
        made.drain()
        made.check()
    except AssertionError as error:
        raise AssertionError(f"{error}\n{made.report()}") from error
    finally:
        made.close()
