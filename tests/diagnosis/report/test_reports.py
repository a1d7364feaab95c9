"""Reports: the head counts no GPU twice, text and document say the same, the page is safe and whole."""

from __future__ import annotations

import html.parser
import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baro.diagnosis.checks import CHECKS, Diagnosis, Lost, diagnose
from baro.diagnosis.checks.problem import Problem, problem
from baro.diagnosis.evidence import Missing
from baro.diagnosis.report import summary as summaries
from baro.diagnosis.report.document import document
from baro.diagnosis.report.page import page
from baro.diagnosis.report.summary import quantity, summarise
from baro.diagnosis.report.text import SHOWN, lines
from tests.support.diagnosis import NOW, evidence, node, pod, resource_slice
from tests.support.faulty_cluster import Planted, dump

GPUS = 8


@pytest.fixture(scope="module")
def faulty() -> tuple[Diagnosis, list[Planted]]:
    pieces, planted = dump(150, 1)
    items = json.loads("".join(pieces))["items"]
    return diagnose(evidence(items[1:], taken_at=NOW, server_version="v1.37.1")), planted


def _text(diagnosis: Diagnosis, *, wide: bool = False) -> str:
    return "\n".join(text for _, text in lines(diagnosis, summarise(diagnosis), wide=wide))


# --- the head ---------------------------------------------------------------------------------------------


def test_a_gpu_with_several_problems_counts_once() -> None:
    conditions = [{"type": "Ready", "status": "False"}]
    objects = [
        node(capacity={"nvidia.com/gpu": GPUS}, allocatable={"nvidia.com/gpu": 2}, conditions=conditions)
    ]
    found = diagnose(evidence(objects))
    assert len(found.problems) == 2
    assert summarise(found).sentence == "8 of 8 GPUs wasted: 8 not ready"


def test_a_healthy_cluster_wastes_nothing_and_an_empty_one_says_that_it_is_empty() -> None:
    healthy = diagnose(evidence([node(capacity={"nvidia.com/gpu": GPUS})]))
    assert summarise(healthy).sentence == "0 of 8 GPUs wasted"
    assert summarise(diagnose(evidence([node()]))).sentence == "no GPU in the evidence"


_LOST = st.builds(
    lambda node, first, number, share: Lost(
        gpus=frozenset(f"{node}/gpu#{i}" for i in range(first, first + number)), share=share
    ),
    st.sampled_from(["a", "b"]),
    st.integers(0, 6),
    st.integers(0, 12),
    st.one_of(st.none(), st.floats(0, 1)),
)


@given(st.lists(st.tuples(st.sampled_from([item.name for item in CHECKS]), _LOST), max_size=8))
def test_a_node_never_loses_more_gpus_than_it_has_and_never_less_than_its_worst_problem(
    costs: list[tuple[str, Lost]],
) -> None:
    problems = [problem(check, "gpu-condition", "x", lost=lost) for check, lost in costs]
    physical = {"a": GPUS, "b": GPUS}
    found = summaries._wasted(problems, physical)
    total = sum(found.values())
    assert -1e-9 <= total <= sum(physical.values()) + 1e-9
    worst = max((min(lost.now or 0.0, GPUS) for _, lost in costs), default=0.0)
    assert total >= worst - 1e-9


@pytest.mark.parametrize(("number", "shown"), [(13, "13"), (1.4, "1.4"), (1234.0, "1,234"), (0.04, "0")])
def test_quantities_are_short(number: float, shown: str) -> None:
    assert quantity(number) == shown


# --- text and document ------------------------------------------------------------------------------------


def test_the_first_line_is_the_answer_and_every_problem_names_a_next_command(
    faulty: tuple[Diagnosis, list[Planted]],
) -> None:
    diagnosis, _ = faulty
    text = _text(diagnosis, wide=True)
    assert re.match(r"[\d.,]+ of [\d,]+ GPUs wasted: ", text)
    assert text.count("   next: ") >= len(diagnosis.problems)
    assert all(item.next for item in diagnosis.problems)


def test_next_commands_only_read(faulty: tuple[Diagnosis, list[Planted]]) -> None:
    writing = re.compile(
        r"kubectl (apply|create|delete|patch|edit|drain|cordon|uncordon|taint|label|replace|scale)"
    )
    for item in faulty[0].problems:
        for command in item.next:
            assert not writing.search(command), command


def test_the_short_form_shows_some_and_says_how_many_more(faulty: tuple[Diagnosis, list[Planted]]) -> None:
    more = len(faulty[0].problems) - SHOWN
    assert more >= 0
    text = _text(faulty[0])
    assert (f"and {more} more problem" in text) == (more > 0)


def test_the_document_holds_every_problem_in_order_and_unknown_is_null(
    faulty: tuple[Diagnosis, list[Planted]],
) -> None:
    diagnosis, planted = faulty
    body = json.loads(json.dumps(document(diagnosis, summarise(diagnosis))))
    assert body["kind"] == "Diagnosis"
    assert body["apiVersion"] == "baro.dev/v1alpha1"
    assert [item["code"] for item in body["problems"]] == [item.code for item in diagnosis.problems]
    assert {item.code for item in planted} <= {item["code"] for item in body["problems"]}
    unknown = next(item for item in body["problems"] if item["code"] == "all-devices-unhealthy")
    assert unknown["lost"]["hours"] is None
    assert unknown["lost"]["gpuHours"] is None


def test_what_is_missing_stands_at_the_end() -> None:
    import msgspec

    found = msgspec.structs.replace(
        evidence([node()]), missing=(Missing("pods", "no right", "kubectl auth can-i list pods"),)
    )
    diagnosis = diagnose(found)
    text = _text(diagnosis)
    assert "not read: pods: no right (next: kubectl auth can-i list pods)" in text
    assert "not judged: split: needs pods: no right" in text
    assert "no right" in page(diagnosis, summarise(diagnosis))


# --- the page ---------------------------------------------------------------------------------------------


class _Page(html.parser.HTMLParser):
    """Tags and attributes of a page; complains about what does not close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def values(self, *names: str) -> Iterator[str]:
        return (value for _, name, value in self.attributes if name in names)


def test_the_page_is_well_formed_and_loads_nothing(faulty: tuple[Diagnosis, list[Planted]]) -> None:
    text = page(faulty[0], summarise(faulty[0]))
    parsed = _Page(text)
    assert not list(parsed.values("src", "href", "onclick", "onload"))
    tags = {tag for tag, _, _ in parsed.attributes} | set(re.findall(r"<(\w+)", text))
    assert not tags & {"script", "link", "iframe", "img", "object", "embed"}
    assert "url(" not in text
    assert "@import" not in text
    for item in faulty[0].problems:
        assert item.code in text


def test_the_page_has_a_picture_of_each_machine_with_split_or_stranded_gpus(
    faulty: tuple[Diagnosis, list[Planted]],
) -> None:
    text = page(faulty[0], summarise(faulty[0]))
    assert text.count("<svg") == 2
    assert "in use by a split pod" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_names_from_a_cluster_cannot_become_markup() -> None:
    evil = "<script>alert(1)</script>"
    conditions = [{"type": "GPUReady", "status": "False", "reason": evil, "message": f'"{evil}`{evil}`'}]
    slices = resource_slice(
        "node-a",
        [
            {
                "name": evil,
                "taints": [{"key": evil, "effect": "NoSchedule"}],
                "attributes": {"type": {"string": "gpu"}},
            }
        ],
    )
    objects = [node(capacity={"nvidia.com/gpu": 2}, conditions=conditions), slices, pod(evil, node="node-a")]
    diagnosis = diagnose(evidence(objects))
    assert diagnosis.problems
    text = page(diagnosis, summarise(diagnosis))
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    _Page(text)


def test_problems_beyond_the_limit_are_counted_on_the_page() -> None:
    diagnosis = diagnose(evidence([node()]))
    many: tuple[Problem, ...] = tuple(
        problem("ready", "gpu-condition", f"node n{i}", subject=f"Node n{i}") for i in range(501)
    )
    import msgspec

    diagnosis = msgspec.structs.replace(diagnosis, problems=many)
    assert "And 1 more" in page(diagnosis, summarise(diagnosis))
