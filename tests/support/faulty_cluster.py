"""A generated (simulated) cluster dump of any size with planted faults, and the list of what was planted.

Four nodes of five publish eight GPUs in two NVLink islands through DRA, the others count eight GPUs through a
device plugin. Without faults ``baro diagnose`` finds nothing above info in it. Every kind of fault is put on
nodes of its own, so each is found by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tests.support.diagnosis import NOW, Body, claim, device, node, pod, resource_slice

DRIVER = "gpu.baro.dev"
GPUS = 8
_AGENT_MOUNT = "/var/lib/kubelet/plugins_registry"
_PLUGIN_MOUNT = "/var/lib/kubelet/device-plugins"
_THEN = "2026-01-01T12:00:00Z"


class Planted(msgspec.Struct, frozen=True):
    """One fault: the code that must be found, and the node or object that it is about."""

    code: str
    subject: str


class Machine(msgspec.Struct):
    """The objects of one node while faults are put in."""

    number: int
    node: Body
    slices: list[Body]
    pods: list[Body]
    claims: list[Body]

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def devices(self) -> list[Body]:
        found: list[Body] = self.slices[0]["spec"]["devices"]
        return found

    def use(self, name: str, gpus: list[int], **fields: Any) -> None:
        """A running pod with a claim on these GPUs."""
        full = f"{name}-{self.number}"
        names = [f"gpu-{gpu}" for gpu in gpus]
        made = claim(
            full, names, node=self.name, driver=DRIVER, device_class=DRIVER, pods=[full], allocated_at=_THEN,
            namespace="work", **fields,
        )  # fmt: skip
        self.claims.append(made)
        self.pods.append(pod(full, namespace="work", node=self.name, claims=[full], creationTimestamp=_THEN))


Plant = Callable[[Machine], str]
"""Puts a fault into a machine and gives the subject under which it is found."""


def dra_machine(number: int) -> Machine:
    """Two islands of four H100; a pod of four on the first island, one of one on the second."""
    name = f"node-{number:05d}"
    found = [
        device(
            f"gpu-{i}",
            {
                "type": "gpu",
                "uuid": f"GPU-{number:06d}-{i}",
                "productName": "NVIDIA H100 NVL",
                "model": "H100",
                "architecture": "Hopper",
                "nvlinkDomain": f"{name}-{i // 4}",
                "nvlinkPeers": 3,
                "pcieSwitch": f"0000:{i // 2:02x}:00.0",
                "minor": i,
                "resource.kubernetes.io/numaNode": i // 4,
                "resource.kubernetes.io/pciBusID": f"0000:{16 + i:02x}:00.0",
                "resource.kubernetes.io/pcieRoot": f"pci0000:{i // 2:02x}",
                "driverVersion": {"version": "580.65.6"},
            },
            capacity={"memory": {"value": "95830Mi"}},
        )
        for i in range(GPUS)
    ]
    agent = pod(
        f"baro-agent-{number}", namespace="baro-system", node=name, owner=("DaemonSet", "baro-agent"),
        mounts=[_AGENT_MOUNT], image=f"baro-agent {DRIVER}",
    )  # fmt: skip
    machine = Machine(number, node(name), [resource_slice(name, found, driver=DRIVER)], [agent], [])
    machine.use("train", [0, 1, 2, 3])
    machine.use("serve", [7])
    return machine


def counted_machine(number: int) -> Machine:
    """Eight counted GPUs, two of them in use."""
    name = f"node-{number:05d}"
    plugin = pod(
        f"nvidia-device-plugin-{number}", namespace="gpu-operator", node=name,
        owner=("DaemonSet", "nvidia-device-plugin"), mounts=[_PLUGIN_MOUNT],
    )  # fmt: skip
    users = [
        pod(f"batch-{number}-{i}", namespace="work", node=name, limits={"nvidia.com/gpu": 1})
        for i in range(2)
    ]
    labels = {"nvidia.com/gpu.count": str(GPUS), "nvidia.com/gpu.product": "NVIDIA-L40S"}
    return Machine(
        number, node(name, capacity={"nvidia.com/gpu": GPUS}, labels=labels), [], [plugin, *users], []
    )


# --- faults of counted nodes ------------------------------------------------------------------------------


def _all_unhealthy(machine: Machine) -> str:
    machine.node["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    machine.pods = machine.pods[:1]
    return f"Node {machine.name}"


def _some_unhealthy(machine: Machine) -> str:
    machine.node["status"]["allocatable"]["nvidia.com/gpu"] = "7"
    return f"Node {machine.name}"


def _endpoint_lost(machine: Machine) -> str:
    for field in ("capacity", "allocatable"):
        machine.node["status"][field]["nvidia.com/gpu"] = "0"
    machine.pods = machine.pods[:1]
    return f"Node {machine.name}"


# --- faults of nodes with DRA -----------------------------------------------------------------------------


def _not_ready(machine: Machine) -> str:
    machine.node["status"]["conditions"] = [_condition("Ready", "Unknown", "NodeStatusUnknown")]
    return f"Node {machine.name}"


def _gpu_condition(machine: Machine) -> str:
    machine.node["status"]["conditions"].append(_condition("GPUReady", "False", "XidError"))
    return f"Node {machine.name}"


def _gpu_unknown(machine: Machine) -> str:
    machine.node["status"]["conditions"].append(_condition("GPUReady", "Unknown", "AgentSilent"))
    return f"Node {machine.name}"


def _condition(kind: str, status: str, reason: str) -> Body:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": _THEN}


def _tainted(machine: Machine) -> str:
    machine.devices[6]["taints"] = [
        {"key": f"{DRIVER}/xid", "value": "79", "effect": "NoSchedule", "timeAdded": _THEN}
    ]
    return f"Node {machine.name}"


def _driverless(machine: Machine) -> str:
    machine.pods = machine.pods[1:]
    return f"Node {machine.name}"


def _incomplete(machine: Machine) -> str:
    machine.slices[0]["spec"]["pool"]["resourceSliceCount"] = 2
    return f"Node {machine.name}"


def _inconsistent(machine: Machine) -> str:
    first = machine.slices[0]
    second = resource_slice(
        machine.name, machine.devices[4:], driver=DRIVER, name=f"00001-{DRIVER}-{machine.name}", count=3
    )
    first["spec"]["devices"] = machine.devices[:4]
    first["spec"]["pool"]["resourceSliceCount"] = 2
    machine.slices.append(second)
    return f"Node {machine.name}"


def _old_generation(machine: Machine) -> str:
    name = f"00009-{DRIVER}-{machine.name}"
    machine.slices.append(
        resource_slice(machine.name, machine.devices[:1], driver=DRIVER, name=name, generation=0)
    )
    return f"ResourceSlice {name}"


def _empty(machine: Machine) -> str:
    machine.slices[0]["spec"]["devices"] = []
    machine.pods, machine.claims = machine.pods[:1], []
    return f"ResourceSlice {machine.slices[0]['metadata']['name']}"


def _stuck_claim(machine: Machine) -> str:
    machine.claims[0]["metadata"]["deletionTimestamp"] = _THEN
    return f"ResourceClaim work/{machine.claims[0]['metadata']['name']}"


def _unreserved(machine: Machine) -> str:
    machine.claims[1]["status"]["reservedFor"] = []
    machine.pods.pop()
    return f"ResourceClaim work/{machine.claims[1]['metadata']['name']}"


def _gone_pod(machine: Machine) -> str:
    machine.pods.pop()
    return f"ResourceClaim work/{machine.claims[1]['metadata']['name']}"


def _twice(machine: Machine) -> str:
    machine.use("again", [7])
    return f"ResourceClaim work/again-{machine.number}"


def _gone_device(machine: Machine) -> str:
    machine.use("ghost", [9])
    return f"ResourceClaim work/ghost-{machine.number}"


def _double(machine: Machine) -> str:
    for field in ("capacity", "allocatable"):
        machine.node["status"][field]["nvidia.com/gpu"] = str(GPUS)
    return f"Node {machine.name}"


def _split(machine: Machine) -> str:
    machine.claims, machine.pods = [], machine.pods[:1]
    machine.use("split", [0, 1, 4, 5])
    for gpu in (2, 3, 6, 7):
        machine.use(f"small{gpu}", [gpu])
    return f"Pod work/split-{machine.number}"


def _stranded(machine: Machine) -> str:
    machine.claims, machine.pods = [], machine.pods[:1]
    machine.use("left", [0])
    machine.use("right", [4])
    return f"Node {machine.name}"


COUNTED: dict[str, Plant] = {
    "all-devices-unhealthy": _all_unhealthy,
    "some-devices-unhealthy": _some_unhealthy,
    "plugin-endpoint-lost": _endpoint_lost,
}
DRA: dict[str, Plant] = {
    "node-not-ready-with-gpus": _not_ready,
    "gpu-condition": _gpu_condition,
    "gpu-ready-unknown": _gpu_unknown,
    "gpu-tainted": _tainted,
    "slice-without-driver": _driverless,
    "pool-incomplete": _incomplete,
    "pool-inconsistent": _inconsistent,
    "slice-old-generation": _old_generation,
    "empty-slice": _empty,
    "claim-stuck-terminating": _stuck_claim,
    "claim-allocated-unreserved": _unreserved,
    "claim-reserved-for-gone-pod": _gone_pod,
    "duplicate-allocation": _twice,
    "allocated-device-gone": _gone_device,
    "double-advertised": _double,
    "gpu-set-split": _split,
    "stranded-gpus": _stranded,
}
KINDS = (*COUNTED, *DRA)
"""The kinds of faults, by the code that finds them."""


def machines(nodes: int, each: int) -> Iterator[tuple[Machine, Planted | None]]:
    """The machines of a cluster, ``each`` faults of every kind spread over them; the same every time."""
    todo: dict[bool, list[tuple[str, Plant]]] = {
        counted: [(code, plant) for _ in range(each) for code, plant in plants.items()]
        for counted, plants in ((True, COUNTED), (False, DRA))
    }
    for number in range(nodes):
        counted = number % 5 == 4
        machine = counted_machine(number) if counted else dra_machine(number)
        waiting = todo[counted]
        ahead = (nodes - number) // 5 if counted else (nodes - number) * 4 // 5
        if waiting and (number % 7 == 3 or ahead <= len(waiting)):
            code, plant = waiting.pop(0)
            yield machine, Planted(code, plant(machine))
        else:
            yield machine, None


def dump(nodes: int, each: int) -> tuple[Iterator[str], list[Planted]]:
    """A dump as pieces of one JSON text, and the faults in it: complete when the pieces are used up."""
    planted: list[Planted] = []

    def pieces() -> Iterator[str]:
        record = {
            "apiVersion": "baro.dev/v1alpha1", "kind": "SnapshotRecord",
            "takenAt": NOW, "serverVersion": "v1.37.1",
            "served": {"resource.k8s.io": ["v1"]},
        }  # fmt: skip
        yield '{"apiVersion":"v1","kind":"List","items":[' + json.dumps(record)
        for machine, fault in machines(nodes, each):
            if fault is not None:
                planted.append(fault)
            for body in (machine.node, *machine.slices, *machine.pods, *machine.claims):
                yield ",\n" + json.dumps(body)
        yield "]}"

    return pieces(), planted
