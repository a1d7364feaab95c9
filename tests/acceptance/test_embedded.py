"""The acceptance scenarios on the embedded API server with simulated stand-ins, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from baro.apiserver import create_app, run_in_thread
from tests.support.acceptance import world
from tests.support.acceptance_cuts import CUTS, cut
from tests.support.acceptance_scenarios import SCENARIOS
from tests.support.embedded_site import EmbeddedSite


@pytest.fixture
def site() -> Iterator[EmbeddedSite]:
    with run_in_thread(create_app()) as server:
        made = EmbeddedSite(server.url)
        yield made
        made.close()


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(site: EmbeddedSite, name: str) -> None:
    with world(site, site.namespace("w")) as made:
        SCENARIOS[name](made)


@pytest.mark.parametrize("writers", [1, 4])
@pytest.mark.parametrize("which", CUTS)
def test_a_planner_killed_ahead_of_any_write_leaves_work_that_the_next_one_finishes(
    site: EmbeddedSite, which: str, writers: int
) -> None:
    number = 0
    reached = True
    while reached:
        number += 1
        with world(site, site.namespace(f"w{number}")) as made:
            reached = cut(made, which, number, writers=writers)
    assert number > 2
