"""Objects that need a feature gate are a problem only where the cluster tells that the gate is off."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from baro.diagnosis.checks import diagnose
from baro.diagnosis.report.document import document
from baro.diagnosis.report.summary import summarise
from tests.support.diagnosis import Body, evidence, gpus, node, resource_slice

RULE: Body = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "drain"},
    "spec": {"deviceSelector": {"pool": "node-a"}, "taint": {"key": "drain", "effect": "NoSchedule"}},
}
CLASS: Body = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"extendedResourceName": "nvidia.com/gpu"},
}


def _slice(**more: object) -> Body:
    body = resource_slice("node-a", gpus(1))
    body["spec"]["devices"][0].update(more)
    return body


CASES: dict[str, tuple[Body, str]] = {
    "DRADeviceTaintRules": (RULE, "1 DeviceTaintRule there"),
    "DRAExtendedResource": (CLASS, "1 DeviceClass with extendedResourceName"),
    "DRAPartitionableDevices": (
        _slice(consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "1"}}}]),
        "1 ResourceSlice with shared counters",
    ),
    "DRAConsumableCapacity": (
        _slice(allowMultipleAllocations=True),
        "1 ResourceSlice with devices for several",
    ),
}


def _found(body: Body, gates: Mapping[str, bool]) -> list[str]:
    known = msgspec.structs.replace(evidence([node(), body]), feature_gates=gates)
    return [item.message for item in diagnose(known, ["dra"]).problems if item.code == "gate-off"]


@pytest.mark.parametrize("gate", CASES)
def test_a_gate_that_is_off_is_told_with_what_needs_it(gate: str) -> None:
    body, words = CASES[gate]
    (message,) = _found(body, {gate: False})
    assert message.startswith(words)
    assert f"the feature gate {gate} is off" in message


@pytest.mark.parametrize("gate", CASES)
def test_a_gate_that_is_on_or_not_known_is_no_problem_nor_is_one_that_nothing_needs(gate: str) -> None:
    body, _ = CASES[gate]
    assert _found(body, {gate: True}) == _found(body, {}) == _found(body, {"DRAAdminAccess": False}) == []
    assert _found(resource_slice("node-a", gpus(1)), dict.fromkeys(CASES, False)) == []


def test_it_is_in_the_report() -> None:
    known = msgspec.structs.replace(evidence([node(), RULE]), feature_gates={"DRADeviceTaintRules": False})
    found = diagnose(known)
    assert "gate-off" in {item["code"] for item in document(found, summarise(found))["problems"]}
