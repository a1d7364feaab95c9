"""The table of the acceptance scenarios, and what they have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from tests.support.acceptance import World
from tests.support.acceptance_picture import Picture, devices
from tests.support.kube import Killed, Write

Scenario = Callable[[World], None]
SCENARIOS: dict[str, Scenario] = {}
"""By name; the name is what a reader of the test report sees."""


def scenario(run: Scenario) -> Scenario:
    SCENARIOS[run.__name__] = run
    return run


def at_ungating(write: Write) -> None:
    if write.kind is Pod:
        raise Killed("ahead of the ungating")


def held_in(seen: Picture) -> Counter[str]:
    """How many claims hold each device."""
    return Counter(device for claim in seen.all(ResourceClaim) for device in devices(claim))


def claim_in(seen: Picture, name: str) -> ResourceClaim:
    return seen.find(ResourceClaim, name) or ResourceClaim()


def node_of_claim(world: World, claim: str) -> str:
    held = devices(world.api.get(ResourceClaim, world.ns, claim))
    return held[0].partition("/")[0].removeprefix(f"{world.ns}-")
