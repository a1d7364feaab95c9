"""What pods' statuses say counts as events do: events are gone after an hour, the status stays."""

from __future__ import annotations

from typing import Any

from baro.diagnosis.checks import Problem, diagnose
from baro.diagnosis.snapshot import pruned
from baro.model.findings import Severity
from tests.support.diagnosis import (
    Body,
    claim,
    device,
    device_class,
    evidence,
    gpus,
    node,
    pod,
    resource_slice,
)

LOST = (
    "Pod was rejected: Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: rpc"
    " error: code = Unknown desc = error getting list of preferred allocation devices: unable to get device"
    " link information: GPU is lost, which is unexpected"
)
CDI = (
    "failed to create containerd task: failed to create shim task: failed to inject CDI devices:"
    " unresolvable CDI devices nvidia.com/gpu=0"
)


def found(*objects: Body) -> list[Problem]:
    return [item for item in diagnose(evidence(objects)).problems if item.severity.rank < Severity.INFO.rank]


def failed(message: str, name: str = "p") -> Body:
    body = pod(name, node="node-a", phase="Failed", limits={"nvidia.com/gpu": 1})
    return {
        **body,
        "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message},
    }


def container(state: str, reason: str, message: str) -> Body:
    status = {"name": "main", "state": {state: {"reason": reason, "message": message}}}
    body = pod("p", node="node-a", limits={"nvidia.com/gpu": 1})
    return {**body, "status": {"phase": "Pending", "containerStatuses": [status]}}


def test_a_thousand_rejected_pods_are_one_problem_of_their_node() -> None:
    sick = node(capacity={"nvidia.com/gpu": 8}, allocatable={"nvidia.com/gpu": 7})
    (problem,) = found(sick, *(failed(LOST, f"p{number}") for number in range(1000)))
    assert (problem.code, problem.node) == ("lost-gpu-breaks-preferred-allocation", "node-a")
    assert "status UnexpectedAdmissionError of Pod default/p0" in problem.evidence[0]


def test_what_a_failed_pod_says_is_over_when_all_devices_are_healthy() -> None:
    assert found(node(capacity={"nvidia.com/gpu": 8}), failed(LOST)) == []


def test_a_container_that_waits_or_never_ran_tells_the_runtimes_error() -> None:
    for state, reason in (("waiting", "CreateContainerError"), ("terminated", "StartError")):
        (problem,) = found(node(), container(state, reason, CDI))
        assert (problem.code, problem.subject) == ("cdi-spec-missing", "Pod default/p")


def test_last_words_of_a_program_are_its_own_business() -> None:
    words = container("terminated", "Error", CDI)
    assert found(node(), words) == []
    state = pruned(words)["status"]["containerStatuses"][0]["state"]
    assert state == {"terminated": {"reason": "Error"}}
    kept: Any = pruned(container("terminated", "StartError", CDI))
    assert kept["status"]["containerStatuses"][0]["state"]["terminated"]["message"] == CDI


def test_a_pod_bound_by_hand_is_found_without_any_message() -> None:
    machine = (node(), resource_slice("node-a", gpus(1)), device_class())
    waiting, held = claim("c"), claim("c", ["gpu-0"], pods=["p"])
    bound = pod("p", node="node-a", claims=["c"], phase="Pending")
    (problem,) = found(*machine, bound, waiting)
    assert (problem.code, problem.facts["check"]) == ("claim-not-reserved-for-pod", "spec.nodeName")
    assert problem.code not in {item.code for item in found(*machine, bound, held)}
    assert found(*machine, pod("p", claims=["c"], phase="Pending"), waiting) == []


def test_mig_devices_that_are_counted_and_published_are_double() -> None:
    mig = resource_slice("node-a", [device("gpu-0-mig-0", {"type": "mig", "profile": "1g.10gb"})])
    (problem,) = found(node(capacity={"nvidia.com/mig-1g.10gb": 7}), mig)
    assert problem.code == "double-advertised"
    assert found(node(capacity={"nvidia.com/mig-1g.10gb": 0}), mig) == []
    assert found(node(capacity={"nvidia.com/mig-1g.10gb": 7})) == []


def test_a_class_with_a_letter_less_is_near() -> None:
    classes = [
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}}
        for name in ("gpu.nvidia.com", "mig.nvidia.com")
    ]
    (problem,) = found(node(), *classes, claim("c", device_class="gpu.nvida.com"))
    assert problem.code == "device-class-not-found"
    assert any("nearest: gpu.nvidia.com" in line for line in problem.evidence)
