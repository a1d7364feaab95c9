"""Every code of the checks is found in the smallest cluster that has it, and not in the same one without."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from baro.diagnosis.checks import diagnose
from baro.diagnosis.evidence import Evidence
from tests.support.diagnosis import NOW, Body, claim, evidence, gpus, node, pod, resource_slice

CHECKS = Path(__file__).resolve().parents[3] / "src" / "baro" / "diagnosis" / "checks"
COUNTED = {"nvidia.com/gpu": 8}
Build = Callable[[bool], Evidence]


def _gpu_missing(sick: bool) -> Evidence:
    labels = {"nvidia.com/gpu.count": "8"}
    return evidence([node(labels=labels), resource_slice("node-a", gpus(7 if sick else 8))])


def _cordoned(sick: bool) -> Evidence:
    return evidence([node(capacity=COUNTED, unschedulable=sick)])


def _stuck_pod(sick: bool) -> Evidence:
    leaving: dict[str, Any] = {"deletionTimestamp": "2026-01-02T10:00:00Z"} if sick else {}
    held = claim("c", ["gpu-0", "gpu-1"], pods=["p"])
    return evidence(
        [node(), resource_slice("node-a", gpus(2)), pod("p", node="node-a", claims=["c"], **leaving), held],
        taken_at=NOW,
    )


def _homeless(sick: bool) -> Evidence:
    return evidence([node("node-a"), resource_slice("node-b" if sick else "node-a", gpus(1))])


def _invalid_pool(sick: bool) -> Evidence:
    devices = gpus(2)
    devices[1]["name"] = "gpu-0" if sick else "gpu-1"
    return evidence([node(), resource_slice("node-a", devices)])


def _no_finalizer(sick: bool) -> Evidence:
    finalizers = [] if sick else ["resource.kubernetes.io/delete-protection"]
    held = claim("c", ["gpu-0"], pods=["p"], finalizers=finalizers)
    return evidence([node(), resource_slice("node-a", gpus(1)), pod("p", node="node-a", claims=["c"]), held])


def _old_api(sick: bool) -> Evidence:
    return evidence([node()], served={"resource.k8s.io": ("v1beta1",) if sick else ("v1", "v1beta1")})


def _unclear_xid(sick: bool) -> Evidence:
    code = 74 if sick else 43
    return evidence([node()], {"node-a.log": f"NVRM: Xid (PCI:0000:12:00): {code}, x\n"})


def _nvlink5_fatal(sick: bool) -> Evidence:
    word = "Fatal" if sick else "Nonfatal"
    return evidence(
        [node()], {"node-a.log": f"NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  {word}   XC0 i0\n"}
    )


def _stale_library(sick: bool) -> Evidence:
    """The loaded driver is known from the node's slices alone."""
    devices: list[Body] = gpus(1, driverVersion={"version": "580.65.6"})
    version = "535.161.07" if sick else "580.65.6"
    spec = (
        "cdiVersion: 0.6.0\nkind: nvidia.com/gpu\ndevices:\n- name: '0'\n  containerEdits:\n"
        "    deviceNodes: [{path: /dev/nvidia0}]\ncontainerEdits:\n  mounts:\n"
        f"  - hostPath: /usr/lib/libnvidia-ml.so.{version}\n    containerPath: /x\n"
    )
    return evidence([node(), resource_slice("node-a", devices)], {"node-a/nvidia.yaml": spec})


CASES: dict[str, Build] = {
    "gpu-missing": _gpu_missing,
    "node-cordoned-with-gpus": _cordoned,
    "pod-stuck-terminating": _stuck_pod,
    "slice-without-node": _homeless,
    "pool-invalid": _invalid_pool,
    "claim-without-finalizer": _no_finalizer,
    "old-resource-api": _old_api,
    "xid-unclear": _unclear_xid,
    "xid-fatal": _nvlink5_fatal,
    "cdi-spec-stale": _stale_library,
}


@pytest.mark.parametrize("code", CASES)
def test_a_code_is_found_where_it_is_and_not_where_it_is_not(code: str) -> None:
    sick, well = (diagnose(CASES[code](state)).problems for state in (True, False))
    assert code in {item.code for item in sick}
    assert code not in {item.code for item in well}


def test_every_code_of_the_checks_is_found_in_some_test() -> None:
    used = {
        code
        for file in CHECKS.glob("*.py")
        for code in re.findall(
            r'^\s+(?:code(?:, \w+)* = )?"([a-z0-9]+(?:-[a-z0-9]+)+)",?', file.read_text(), re.M
        )
    }
    tests = Path(__file__).resolve().parents[2]
    text = "\n".join(
        file.read_text()
        for folder in ("diagnosis", "support", "cli", "kube", "cluster")
        for file in (tests / folder).rglob("*.py")
    )
    from baro.model.findings import table

    codes = used & set(table())
    assert len(codes) > 50
    assert [code for code in sorted(codes) if f'"{code}"' not in text] == []
