"""The outcome that a report gives for a placement over several nodes."""

from __future__ import annotations

import pytest

from baro.allocator import NodeDecision, Outcome
from baro.inventory import Inventory
from baro.placement import Placement, place
from baro.placement.report import outcome, report
from tests.support.cluster import claim, cluster, device, request


def _placement(*outcomes: Outcome, error: str | None = None) -> Placement:
    decisions = [NodeDecision(node=f"n{index}", outcome=each) for index, each in enumerate(outcomes)]
    return Placement(fits=False, per_node=decisions, error=error)


@pytest.mark.parametrize(
    ("outcomes", "error", "expected"),
    [
        ((Outcome.NO_FIT, Outcome.NO_FIT), None, Outcome.NO_FIT),
        ((), None, Outcome.NO_FIT),
        ((Outcome.NO_FIT, Outcome.GAVE_UP), None, Outcome.GAVE_UP),
        ((Outcome.ERROR, Outcome.GAVE_UP), None, Outcome.GAVE_UP),
        ((Outcome.NO_FIT, Outcome.ERROR), None, Outcome.NO_FIT),
        ((Outcome.ERROR, Outcome.ERROR), "no such class", Outcome.ERROR),
        ((Outcome.GAVE_UP, Outcome.ERROR), "no such class", Outcome.ERROR),
    ],
)
def test_no_fit_is_said_only_when_every_node_was_decided(
    outcomes: tuple[Outcome, ...], error: str | None, expected: Outcome
) -> None:
    assert outcome(_placement(*outcomes, error=error)) is expected


def test_a_search_that_was_cut_short_is_reported_as_given_up() -> None:
    inventory = Inventory(cluster({"n": [device(f"gpu-{index}") for index in range(4)]}))
    claims = [claim(request(count=2))]
    assert report(claims, place(inventory, claims))["outcome"] == "fits"
    cut = report(claims, place(inventory, claims, work_limit=0))
    assert (cut["outcome"], cut["fits"], cut["error"]) == ("gave-up", False, None)
