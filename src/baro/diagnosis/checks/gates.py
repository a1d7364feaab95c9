"""Check *DRA broken*, part eight: objects that ask for a feature whose gate is off.

Silent by nature: kube-scheduler passes over a rule or a device that needs a gate, and says nothing. Judged
only by gates that the cluster's API server (or a page of metrics) told; a gate that is not known is not off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from baro.diagnosis.checks.board import Board
from baro.diagnosis.checks.problem import Problem, count, named, problem

NAME = "dra"


def check(board: Board) -> Iterator[Problem]:
    """A problem for each gate that is off and asked for."""
    gates = board.evidence.feature_gates
    for gate, (objects, what, then) in _asked(board).items():
        if objects and gates.get(gate) is False:
            kind = objects[0].partition(" ")[0]
            yield problem(
                NAME,
                "gate-off",
                f"{count(len(objects), kind)} {what}, and the feature gate {gate} is off: {then}",
                subject=objects[0],
                evidence=(named(objects), f"the API server tells {gate}=false"),
                next=("kubectl get --raw /metrics | grep kubernetes_feature_enabled | grep DRA",),
                facts={"gate": gate, "objects": len(objects)},
            )


def _asked(board: Board) -> Mapping[str, tuple[list[str], str, str]]:
    """Gate → the objects that need it, what they have, and what happens without it."""
    snapshot = board.evidence.snapshot
    slices = [(f"ResourceSlice {item.metadata.name}", item.spec) for item in snapshot.slices]
    passed_over = "kube-scheduler passes over the devices"
    return {
        "DRADeviceTaintRules": (
            [f"DeviceTaintRule {item.metadata.name}" for item in snapshot.taint_rules],
            "there",
            "no device is tainted by it, and pods get the devices all the same",
        ),
        "DRAExtendedResource": (
            [
                f"DeviceClass {item.metadata.name}"
                for item in snapshot.classes
                if item.spec.extended_resource_name
            ],
            "with extendedResourceName",
            "pods that ask for the extended resource wait for a device plugin",
        ),
        "DRAPartitionableDevices": (
            [
                name
                for name, spec in slices
                if spec.shared_counters or any(device.consumes_counters for device in spec.devices)
            ],
            "with shared counters",
            passed_over,
        ),
        "DRAConsumableCapacity": (
            [
                name
                for name, spec in slices
                if any(device.allow_multiple_allocations for device in spec.devices)
            ],
            "with devices for several claims at once",
            "each of them goes to one claim only",
        ),
    }
