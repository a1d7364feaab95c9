"""A planner killed ahead of its n-th write, and the end that the next must reach: ``CUTS`` and ``cut``."""

from __future__ import annotations

from baro.model.kinds.core import Event, Pod
from tests.support.acceptance import World
from tests.support.acceptance_picture import devices
from tests.support.acceptance_table import Scenario, at_ungating, claim_in, node_of_claim
from tests.support.kube import Killed, Write


def placing(world: World) -> None:
    """Work of nearly all kinds: two claims of a pod, a reservation on a shared one, an explanation."""
    world.node("a")
    world.claim("shared", 1)
    world.template("one")
    world.template("three", 3)
    world.pod("p", claims=["shared"], templates=["one"])
    world.pod("q", claims=["shared"], templates=["one"])
    world.until_claims(2)


def placed(world: World) -> None:
    world.until_bound("p", "q")
    assert len(set(world.devices_of("p") + world.devices_of("q"))) == 3


def moving(world: World) -> None:
    """An allocation is taken back from a node that has gone, and made elsewhere."""
    for node in ("a", "b"):
        world.node(node)
    world.claim("c", 2)
    world.pod("p", claims=["c"])
    world.killed_planner(at_ungating)
    world.delete_node(node_of_claim(world, "c"))


def moved(world: World) -> None:
    world.until_bound("p")
    assert len(world.devices_of("p")) == 2


def cleared(world: World) -> None:
    """A pod without a gate whose allocation was cleared: announced first, then written."""
    world.node("a", cpu="8")
    world.node("b", cpu="8")
    world.claim("c", 2)

    def fill(write: Write) -> None:
        if write.kind is Pod and write.subresource is None:
            world.pod("hog", cpu="7", gated=False, node=node_of_claim(world, "c"))
        if write.kind is Event:
            raise Killed("after the ungating")

    world.pod("p", claims=["c"], cpu="4")
    world.killed_planner(fill)
    if world.site.simulated:
        world.until_told("p", "FailedScheduling")
        world.clear_allocation("c")
    world.wait(lambda seen: not devices(claim_in(seen, "c")), "the allocation is cleared")


CUTS: dict[str, tuple[Scenario, Scenario]] = {
    "while it places": (placing, placed),
    "while it moves an allocation": (moving, moved),
    "while it repairs a cleared allocation": (cleared, moved),
}
"""Name → what comes before the planner that is killed, and the end that the next one must reach."""


def cut(world: World, which: str, number: int, *, writers: int = 1) -> bool:
    """Kills a planner ahead of its write ``number``; the next one finishes. False: no such write."""
    before, after = CUTS[which]
    before(world)

    def kill(write: Write) -> None:
        if write.number >= number:
            raise Killed(f"ahead of write {number}: {write.verb} {write.kind.__name__} {write.name}")

    first = world.planner(kill, writers=writers)
    world.until_over(first)
    reached = first.killed.is_set()
    if reached:
        world.planner(writers=writers)
    after(world)
    return reached
