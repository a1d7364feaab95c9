"""kube-scheduler's message beside the explanation: taken apart, expected, and whether the two agree."""

from __future__ import annotations

import pytest

from baro.diagnosis.explain.result import Explanation
from baro.diagnosis.explain.scheduler import parse
from baro.model.kinds.base import ObjectMeta, ObjectReference
from baro.model.kinds.core import Event, Taint
from tests.support.cluster import claim, cluster, gpus, request
from tests.support.explain import evidence, node, pod, pod_explained, selector, text

TWO_FOURS = {"a": range(4), "b": range(4, 8)}
UNFIT = "0/3 nodes are available: 1 cannot allocate all claims, 1 node(s) were unschedulable"
UNFIT += ", 1 node(s) had untolerated taint(s). still not schedulable, preemption: 0/3 nodes are available: "
UNFIT += "3 Preemption is not helpful for scheduling."


def _three(said: str, *, busy: int = 8, **pod_parts: object) -> Explanation:
    """One node with devices (``busy`` of them held), one cordoned, one tainted; the pod wants one GPU."""
    nodes = [
        node("a"),
        node("b", unschedulable=True),
        node("c", taints=(Taint(key="maint", effect="NoSchedule"),)),
    ]
    known = cluster(
        {name: gpus(TWO_FOURS) for name in "abc"},
        busy={"a": [f"gpu-{number}" for number in range(busy)]},
        nodes=nodes,
    )
    return pod_explained(evidence(known, claim(request()), pod("p", "c", said=said, **pod_parts)))  # type: ignore[arg-type]


def test_the_message_that_follows_from_the_evidence_is_kube_schedulers() -> None:
    said = _three(UNFIT)
    assert said.scheduler is not None
    assert said.scheduler.agrees is True
    assert said.scheduler.expected == UNFIT.split(" still")[0].replace(
        "1 node(s) were unschedulable, 1 node(s) had untolerated taint(s)",
        "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable",
    )
    assert "agrees" in text(said)


def test_older_versions_name_the_taint() -> None:
    said = _three(UNFIT.replace("taint(s)", "taint {maint: }"))
    assert said.scheduler is not None and said.scheduler.agrees is True


def test_other_counts_of_the_same_reasons_agree_and_say_so() -> None:
    said = _three(UNFIT.replace("0/3", "0/4").replace("1 cannot", "2 cannot"))
    assert said.scheduler is not None
    assert said.scheduler.agrees is True
    assert said.scheduler.why == "the same reasons, on other numbers of nodes"


def test_a_reason_that_the_evidence_does_not_show_is_told() -> None:
    said = _three(UNFIT.replace("1 cannot", "1 node(s) didn't match pod anti-affinity rules, 1 cannot"))
    assert said.scheduler is not None
    assert said.scheduler.agrees is False
    assert "also said: node(s) didn't match pod anti-affinity rules" in said.scheduler.why


def test_what_would_fit_now_contradicts_the_message_and_that_is_said() -> None:
    said = _three(UNFIT, busy=7)
    assert said.verdict.value == "fits"
    assert said.scheduler is not None and said.scheduler.agrees is False
    assert "differs: by the evidence it would fit now" in text(said)


def test_an_error_of_a_selector_counts_whichever_device_was_met_first() -> None:
    item = claim(request(selectors=selector("device.attributes['gpu.nvidia.com'].modle == 'x'")))
    message = (
        'running "DynamicResources" filter plugin: claim default/c: selector #0 on device'
        " gpu.nvidia.com/a/gpu-7: CEL runtime error: no such key: modle. consider using CEL optional chaining"
        " (.? followed by orValue()) or guarding the check with has() for optional fields"
    )
    known = evidence(cluster({"a": gpus(TWO_FOURS)}, nodes=[node("a")]), item, pod("p", "c", said=message))
    said = pod_explained(known)
    assert said.verdict.value == "error"
    assert said.scheduler is not None and said.scheduler.agrees is True


def test_a_missing_class_is_one_word_for_the_pod() -> None:
    message = (
        "0/1 nodes are available: request gpu: device class nope does not exist. still not schedulable, "
    )
    message += "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    item = claim(request(class_name="nope"))
    known = evidence(cluster({"a": gpus(TWO_FOURS)}, nodes=[node("a")]), item, pod("p", "c", said=message))
    said = pod_explained(known)
    assert said.scheduler is not None and said.scheduler.agrees is True
    assert (
        said.scheduler.expected == "0/1 nodes are available: request gpu: device class nope does not exist."
    )


def test_a_gate_is_what_the_condition_says() -> None:
    said = _three("Scheduling is blocked due to non-empty scheduling gates", gates=["x"], busy=0)
    assert said.scheduler is not None and said.scheduler.agrees is True


def test_the_last_event_counts_where_there_is_no_condition() -> None:
    about = ObjectReference(kind="Pod", namespace="default", name="p")

    def event(message: str, at: str) -> Event:
        return Event(
            metadata=ObjectMeta(name=f"e{at}", namespace="default"),
            involved_object=about,
            reason="FailedScheduling",
            message=message,
            last_timestamp=at,
        )

    known = evidence(
        cluster({"a": gpus(TWO_FOURS)}, busy={"a": [f"gpu-{n}" for n in range(8)]}, nodes=[node("a")]),
        claim(request()),
        event("0/1 nodes are available: 1 cannot allocate all claims.", "2026-01-02T00:00:00Z"),
        event("0/1 nodes are available: 1 Insufficient cpu.", "2026-01-01T00:00:00Z"),
        pod("p", "c"),
    )
    word = pod_explained(known).scheduler
    assert word is not None
    assert (word.source, word.at, word.agrees) == ("event", "2026-01-02T00:00:00Z", True)


@pytest.mark.parametrize(
    ("message", "nodes", "reasons"),
    [
        ("0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory.", 2,
         {"Insufficient cpu": 2, "Insufficient memory": 2}),
        ("0/5 nodes are available: 3 node(s) had untolerated taint {a/b: c}, 2 node(s) had untolerated taint"
         " {d: }.",
         5, {"node(s) had untolerated taint(s)": 5}),
        ("no nodes available to schedule pods", None, {}),
        ("", None, {}),
    ],
)  # fmt: skip
def test_messages_are_taken_apart(message: str, nodes: int | None, reasons: dict[str, int]) -> None:
    found = parse(message)
    assert (found.nodes, dict(found.reasons)) == (nodes, reasons)
