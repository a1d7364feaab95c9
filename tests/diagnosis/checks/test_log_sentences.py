"""Sentences of kubelets, drivers, plugins and runtimes: each gives its cause, its healthy twin gives none."""

from __future__ import annotations

import pytest

from baro.diagnosis.checks import Problem, diagnose
from baro.diagnosis.evidence import Evidence
from baro.model.findings import Severity
from tests.support.diagnosis import Body, claim, event, evidence, gpus, node, pod, resource_slice
from tests.support.sentences import KLOG, SENTENCES


def above_info(found: Evidence) -> list[Problem]:
    return [item for item in diagnose(found).problems if item.severity.rank < Severity.INFO.rank]


@pytest.mark.parametrize("name", SENTENCES)
def test_a_sentence_alone_gives_its_cause_and_nothing_else(name: str) -> None:
    said = SENTENCES[name]
    (found,) = above_info(evidence([], {"some.txt": said.text}))
    assert (found.code, found.severity) == (said.code, said.severity)
    assert {key: found.facts.get(key) for key in said.facts} == said.facts
    assert found.evidence
    assert found.next


NODE = node(capacity={"nvidia.com/gpu": 8}, labels={"nvidia.com/gpu.count": "8"})
CPU_NODE = node("node-c")


def _running(code: str = "w-0") -> list[Body]:
    held = claim("w-0-gpu-x", ["gpu-0"], namespace="ml", pods=[code])
    return [
        node(),
        resource_slice("node-a", gpus(1)),
        pod(code, namespace="ml", node="node-a", claims=["w-0-gpu-x"]),
        held,
    ]


HEALTHY: dict[str, Evidence] = {
    "the version is served by now": evidence(
        [], {"x.log": SENTENCES["old API"].text}, served={"resource.k8s.io": ("v1", "v1beta1")}
    ),
    "the pod runs by now": evidence(
        _running(),
        {
            "a.log": SENTENCES["registered, since 1.34"].text,
            "b.log": SENTENCES["prepare"].text,
        },
    ),
    "the node offers its GPUs by now": evidence([NODE], {"node-a.log": SENTENCES["no strategy"].text}),
    "a machine without GPUs among machines with labels": evidence(
        [NODE, CPU_NODE], {"node-c.log": SENTENCES["no strategy"].text}
    ),
    "the kubelet has all devices again": evidence(
        [NODE, event(SENTENCES["devices gone"].text.split("kubelet  ")[1], pod="x")]
    ),
    "a switch that is on, and one that is a comment": evidence(
        [], {"config.toml": "# enable_cdi = false\nenable_cdi = true\ncdi_spec_dirs = ['/etc/cdi']\n"}
    ),
    "another resource is forbidden": evidence(
        [], {"x.log": KLOG + 'pods is forbidden: User "a" cannot list resource "pods" in API group ""'}
    ),
    "another file is missing": evidence(
        [], {"x.log": KLOG + 'open /etc/resolv.conf: no such file or directory"'}
    ),
    "an unknown error of something else": evidence([], {"x.log": KLOG + "volume: Unknown Error"}),
    "the pod has ended": evidence(
        [node(), pod("w-0", namespace="ml", node="node-a", claims=["c"], phase="Succeeded")],
        {"x.log": SENTENCES["unprepare"].text},
    ),
    "the pod is gone": evidence(
        [node(), pod("other", namespace="ml", node="node-a")], {"x.log": SENTENCES["unprepare"].text}
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_twin_gives_nothing_above_info(name: str) -> None:
    assert above_info(HEALTHY[name]) == []


def test_several_logs_without_a_node_are_several_problems() -> None:
    names = ("a lost GPU stops the plugin", "MIG layouts differ", "no NVML, of today")
    found = above_info(evidence([], {f"{i}.log": SENTENCES[name].text for i, name in enumerate(names)}))
    assert {item.code for item in found} == {SENTENCES[name].code for name in names}


def test_what_a_log_explains_is_not_counted_again() -> None:
    sick = node(capacity={"nvidia.com/gpu": 8}, allocatable={"nvidia.com/gpu": 0})
    (found,) = above_info(evidence([sick], {"node-a.log": SENTENCES["mark without an Xid"].text}))
    assert (found.code, found.node) == ("device-marked-unhealthy", "node-a")


def test_a_plugin_that_waits_without_labels_anywhere_is_an_error() -> None:
    """Plain device plugins label no node, so that no label means nothing."""
    (found,) = above_info(evidence([CPU_NODE], {"node-c.log": SENTENCES["no strategy"].text}))
    assert (found.code, found.node) == ("plugin-finds-no-gpus", "node-c")
