"""What no file has is said beside "nothing found": a dump of pods alone proves nothing about slices."""

from __future__ import annotations

from typing import Any

import pytest

from baro.diagnosis.checks import diagnose
from baro.diagnosis.report.document import document
from baro.diagnosis.report.page import page
from baro.diagnosis.report.summary import summarise
from baro.diagnosis.report.text import lines
from tests.support.diagnosis import NOW, claim, evidence, gpus, node, pod, resource_slice

NODE, POD = node(), pod("p", node="node-a")
SLICE, CLAIM = resource_slice("node-a", gpus(2)), claim("c")


def lacking(objects: list[dict[str, Any]], **told: Any) -> dict[str, tuple[str, ...]]:
    summary = summarise(diagnose(evidence(objects, **told)))
    return {part.check: part.lacking for part in summary.parts if part.lacking}


@pytest.mark.parametrize(
    ("objects", "checks"),
    [
        ([POD], {"split", "counted", "stranded", "ready", "dra"}),
        ([NODE], {"split", "counted", "stranded", "ready", "dra"}),
        ([SLICE], {"split", "counted", "stranded", "ready", "dra"}),
        ([NODE, POD], {"split", "stranded", "dra"}),
        ([NODE, POD, SLICE, CLAIM], set()),
    ],
)
def test_a_check_names_what_no_file_has(objects: list[dict[str, Any]], checks: set[str]) -> None:
    assert set(lacking(objects)) == checks


def test_a_snapshot_says_itself_what_could_not_be_read() -> None:
    assert lacking([NODE], taken_at=NOW) == {}


def test_logs_alone_are_not_held_against_their_lack_of_objects() -> None:
    summary = summarise(diagnose(evidence([], {"x.log": "NVRM: Xid (PCI:0000:01:00): 79, x\n"})))
    assert all(not part.lacking for part in summary.parts)


def test_every_form_of_the_report_says_it() -> None:
    found = diagnose(evidence([NODE, POD]))
    summary = summarise(found)
    text = "\n".join(line for _, line in lines(found, summary))
    assert "nothing found (no resourceslices, no resourceclaims among the files)" in text
    assert "(no resourceslices, no resourceclaims among the files)" in page(found, summary).replace("\n", " ")
    checks = {one["name"]: one["lacking"] for one in document(found, summary)["summary"]["checks"]}
    assert checks["split"] == ["resourceslices", "resourceclaims"]
    assert checks["counted"] == []
