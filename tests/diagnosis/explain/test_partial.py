"""Evidence with holes: what could not be read is named, and nothing is guessed in its place."""

from __future__ import annotations

from typing import Any

import pytest

from baro.diagnosis.evidence import Missing
from baro.diagnosis.explain import Verdict
from baro.model.errors import InputError
from tests.support.cluster import claim, cluster, gpus, request
from tests.support.explain import evidence, explained, node, pod, pod_explained, text

HOLES: dict[str, list[Any]] = {
    "resourceclaims": [cluster({"a": gpus({"i": range(2)})}, nodes=[node("a")]), pod("p", "c")],
    "deviceclasses": [claim(request(class_name="secret")), pod("p", "c"), node("a")],
    "resourceslices": [node("a"), claim(request()), pod("p", "c"), *cluster({}).classes],
    "resourceclaimtemplates": [node("a"), pod("p", templates={"gpu": "t"})],
}


@pytest.mark.parametrize("source", HOLES)
def test_an_answer_that_depends_on_what_was_not_read_is_unknown(source: str) -> None:
    missing = (Missing(source, "forbidden", "ask for the right to list it"),)
    said = pod_explained(evidence(*HOLES[source], missing=missing))
    assert said.verdict is Verdict.UNKNOWN
    assert not said.settled
    assert said.causes[0].code == "pending-no-evidence"
    assert said.headline == f"{source} could not be read: forbidden"


def test_pods_that_were_not_read_are_told_beside_the_answer() -> None:
    known = cluster({"a": gpus({"i": range(2)})}, nodes=[node("a")])
    missing = (Missing("pods", "timed out", partial=True),)
    said = pod_explained(evidence(known, claim(request()), pod("p", "c"), missing=missing))
    assert said.verdict is Verdict.FITS
    assert "note: pods: timed out" in text(said)


def test_a_name_that_may_be_among_what_was_not_read_says_so() -> None:
    with pytest.raises(InputError) as error:
        explained(evidence(node("a"), missing=(Missing("pods", "forbidden"),)), "p")
    assert "pods could not be read: forbidden" in str(error.value)


def test_nodes_without_a_status_are_not_judged_by_room() -> None:
    """A dump of slices and classes alone has no nodes at all; devices still count."""
    known = cluster({"a": gpus({"i": range(2)})})
    said = pod_explained(evidence(known, claim(request()), pod("p", "c", requests={"cpu": "1000"})))
    assert said.verdict is Verdict.FITS
