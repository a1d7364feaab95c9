"""A churn on the embedded API server with its objects on disk, while it and the planner are killed.

Both are processes of their own and get SIGKILL. The simulated stand-ins run in the test and are spared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.support.acceptance import world
from tests.support.acceptance_planner import COMMAND
from tests.support.churn import GATED, PLAIN, Churn, Settings, kills, timed
from tests.support.embedded_site import EmbeddedSite
from tests.support.real_process import Component, free_ports

NODES = {GATED: 3, PLAIN: 1}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Component, str]]:
    """``baro apiserver --data-dir`` on a port that it keeps over restarts."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [*COMMAND, "apiserver", "--port", str(port), "--data-dir", str(tmp_path / "data")]
    component = Component("baro apiserver", command, tmp_path / "log", health=f"{url}/readyz")
    component.start()
    component.wait_ready(30)
    yield component, url
    component.kill()


@pytest.mark.timeout(0)  # every wait in it has a deadline of its own
def test_after_any_kill_no_device_is_held_twice_and_nothing_leaks(
    server: tuple[Component, str], capsys: pytest.CaptureFixture[str]
) -> None:
    def say(line: str) -> None:
        with capsys.disabled():
            sys.stderr.write(f"\nchurn: {line}")

    component, url = server
    site = EmbeddedSite(url, outages=True)
    site.wait_s = 120.0
    settings = Settings.from_environment(pods=60, alive=12, kills=2)
    with world(site, site.namespace("w")) as made:
        for zone, count in NODES.items():
            for index in range(count):
                made.node(f"{zone}-{index}", "hgx-h100-8", zone=zone)
        churn = Churn(made, settings, {"server": component}, servers=frozenset({"server"}), say=timed(say))
        churn.run()
        made.check()
        made.drain()
        made.check()
        churn.finish()
    site.close()


def test_a_seed_decides_who_is_killed_when() -> None:
    victims = {"server": Never(), "planner": Never()}
    settings = Settings(pods=200, alive=10, kills=5, seed=3)
    plan = kills(settings, victims)
    assert plan == kills(settings, victims)
    assert plan != kills(msgspec.structs.replace(settings, seed=4), victims)
    steps = [kill.at for kill in plan]
    assert steps == sorted(set(steps))
    assert all(10 <= step < 190 for step in steps)
    for name in victims:
        assert sum(name in kill.victims for kill in plan) >= 5


class Never:
    """A victim of a plan that is not carried out."""

    def kill(self) -> object:
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def wait_ready(self, timeout_s: float) -> None:
        raise NotImplementedError
