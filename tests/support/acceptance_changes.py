"""Acceptance scenarios in which something changes under the planner. See ``acceptance_scenarios``."""

from __future__ import annotations

from collections import Counter

from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from tests.support.acceptance import World
from tests.support.acceptance_picture import devices
from tests.support.acceptance_table import at_ungating, held_in, node_of_claim, scenario
from tests.support.kube import Write


@scenario
def a_pod_that_does_not_fit_is_placed_when_another_goes(world: World) -> None:
    world.node("a")
    world.template("three", 3)
    world.planner()
    world.pod("p", templates=["three"])
    world.until_bound("p")
    world.pod("q", templates=["three"])
    said = world.until_told("q", "NoPlacement")
    assert "3" in said
    assert "node" in said
    world.delete_pod("p")
    world.until_bound("q")
    assert len(world.devices_of("q")) == 3


@scenario
def a_gang_takes_nothing_until_all_of_it_fits(world: World) -> None:
    world.node("a")
    world.template("four", 4)
    world.planner()
    for name in ("p", "q"):
        world.pod(name, templates=["four"], gang=("g", 2))
    world.until_told("p", "NoPlacement")
    assert world.devices_of("p") == world.devices_of("q") == []
    world.node("b")
    world.until_bound("p", "q")
    assert {world.node_of("p"), world.node_of("q")} == {"a", "b"}


@scenario
def a_pod_that_waits_for_its_template_is_told_so(world: World) -> None:
    world.node("a")
    world.planner()
    world.pod("p", templates=["late"])
    world.until_told("p", "WaitingForClaims")
    world.template("late")
    if world.site.simulated:
        world.touch(Pod, "p", "look again")  # the stand-in hears of pods only
    world.until_bound("p")


@scenario
def two_planners_without_election_do_each_others_work_once(world: World) -> None:
    for node in ("a", "b"):
        world.node(node, "hgx-h100-8")
    world.template("four", 4, island=True)
    for _ in range(2):
        world.planner()
    names = [f"p{i}" for i in range(6)]
    for name in names:
        world.pod(name, templates=["four"])
    world.until_count_bound(4)
    world.wait(
        lambda seen: all(
            pod.spec.node_name or any(e.reason == "NoPlacement" for e in seen.told(pod))
            for pod in seen.all(Pod)
        ),
        "the others told that there is no room",
    )
    held = held_in(world.until_settled("nobody has what another has"))
    assert len(held) == 16
    assert set(held.values()) == {1}


@scenario
def every_write_meets_a_conflict_first(world: World) -> None:
    for node in ("a", "b"):
        world.node(node)
    world.claim("shared", 1)
    world.template("two", 2, island=True)
    overtaken: Counter[tuple[type[KubeObject], str, str | None]] = Counter()

    def interfere(write: Write) -> None:
        """Somebody else writes the same object just before: three times for each place to write to."""
        place = (write.kind, write.name, write.subresource)
        if write.kind in (Pod, ResourceClaim) and overtaken[place] < 3:
            overtaken[place] += 1
            world.touch(write.kind, write.name, f"{write.subresource}-{overtaken[place]}")

    world.planner(interfere)
    names = ["p", "q", "r"]
    for name in names:
        world.pod(name, claims=["shared"], templates=["two"])
    world.until_count_bound(1)  # no more fit beside the shared claim
    left = [pod.metadata.name for pod in world.seen.picture.all(Pod) if not pod.spec.node_name]
    for name in left:
        world.until_told(name, "NoPlacement")
    assert sum(overtaken.values()) > 6


@scenario
def an_allocation_that_post_filter_cleared_is_planned_again(world: World) -> None:
    """Between baro's look and the ungating the node fills up, and the pod fits nowhere with its claim."""
    for node in ("a", "b"):
        world.node(node, cpu="8")
    world.claim("c", 2)
    first: list[str] = []

    def fill(write: Write) -> None:
        if write.kind is Pod and not first:
            claim = world.api.get(ResourceClaim, world.ns, "c")
            first.append(devices(claim)[0].partition("/")[0].removeprefix(f"{world.ns}-"))
            world.pod("hog", cpu="7", gated=False, node=first[0])

    world.planner(fill)
    world.pod("p", claims=["c"], cpu="4")
    if world.site.simulated:
        world.until_told("p", "FailedScheduling")
        world.clear_allocation("c")
    world.until_bound("p")
    other = "b" if first == ["a"] else "a"
    assert world.node_of("p") == other
    assert {device[0] for device in world.devices_of("p")} == {other}


@scenario
def an_allocation_whose_pod_went_before_it_was_ungated_is_given_back(world: World) -> None:
    world.node("a")
    world.claim("kept", 2)
    world.template("two", 2)
    world.pod("p", claims=["kept"], templates=["two"])
    world.killed_planner(at_ungating)
    world.delete_pod("p")
    world.wait(lambda seen: len(seen.all(ResourceClaim)) == 1, "the claim of the template goes with the pod")
    world.planner()
    world.pod("q", claims=["kept"], templates=["two"])
    world.until_bound("q")
    assert len(world.devices_of("q")) == 4


@scenario
def an_allocation_without_any_consumer_is_collected(world: World) -> None:
    """Nobody in Kubernetes ever collects it: the reservation went while the claim had no finalizer's help."""
    world.node("a")
    world.claim("orphan", 4)
    world.pod("p", claims=["orphan"])
    world.killed_planner(at_ungating)
    # As if a predecessor had been killed after a write of the allocation alone.
    body = {"status": {"reservedFor": None}}
    world.api.patch_merge(ResourceClaim, world.ns, "orphan", body, "status")
    world.delete_pod("p")
    world.wait(lambda seen: not seen.all(Pod), "p is gone")
    world.planner()
    world.template("four", 4)
    world.pod("q", templates=["four"])
    world.until_bound("q")


@scenario
def a_device_that_vanished_between_allocation_and_ungating_is_given_back(world: World) -> None:
    world.node("a", "hgx-h100-8")
    world.occupy("a", [0, 1, 2, 3])  # so the pod gets some of those that go
    world.claim("c", 2)
    world.pod("p", claims=["c"])
    world.killed_planner(at_ungating)
    world.publish("a", profile="hgx-h100-4")
    world.planner()
    world.until_told("p", "NoPlacement")
    assert not devices(world.api.get(ResourceClaim, world.ns, "c"))
    world.publish("a", profile="hgx-h100-8")
    world.until_bound("p")


@scenario
def slices_are_republished_all_the_time_while_pods_are_placed(world: World) -> None:
    world.node("a", "hgx-h100-8")
    world.template("one")
    profiles = ["hgx-h200-8", "hgx-h100-8"]

    def republish(write: Write) -> None:
        if write.kind is ResourceClaim and write.subresource == "status":
            profiles.reverse()
            world.publish("a", profile=profiles[0])  # other attributes, a new generation, the same names

    world.planner(republish)
    names = [f"p{i}" for i in range(6)]
    for name in names:
        world.pod(name, templates=["one"])
    world.until_bound(*names)
    assert len({device for name in names for device in world.devices_of(name)}) == 6


@scenario
def a_gpu_that_is_lost_gets_a_taint_and_no_more_pods(world: World) -> None:
    world.node("a")
    world.publish("a", lost=[1])
    world.template("one")
    world.planner()
    names = ["p", "q", "r"]
    for name in names:
        world.pod(name, templates=["one"])
    world.until_bound(*names)
    assert "a/gpu-1" not in {device for name in names for device in world.devices_of(name)}
    world.pod("s", templates=["one"])
    world.until_told("s", "NoPlacement")
    world.publish("a")
    world.until_bound("s")


@scenario
def a_node_that_goes_before_the_pod_is_ungated_is_replaced(world: World) -> None:
    for node in ("a", "b"):
        world.node(node)
    world.claim("c", 2)
    world.pod("p", claims=["c"])
    world.killed_planner(at_ungating)
    gone = node_of_claim(world, "c")
    world.delete_node(gone)
    world.planner()
    world.until_bound("p")
    assert world.node_of("p") != gone


@scenario
def a_node_that_goes_and_leaves_no_other_is_explained(world: World) -> None:
    world.node("a")
    world.claim("c", 2)
    world.pod("p", claims=["c"])
    world.killed_planner(at_ungating)
    world.delete_node("a")
    world.planner()
    world.until_told("p", "NoPlacement")
    world.check()
    world.node("b")
    world.until_bound("p")
    assert world.node_of("p") == "b"


@scenario
def a_taint_that_comes_before_the_pod_is_ungated_moves_it(world: World) -> None:
    for node in ("a", "b"):
        world.node(node)
    world.claim("c", 2)
    world.pod("p", claims=["c"])
    world.killed_planner(at_ungating)
    tainted = node_of_claim(world, "c")
    world.taint(tainted)
    world.planner()
    world.until_bound("p")
    assert world.node_of("p") != tainted


@scenario
def a_taint_rule_keeps_pods_off_a_device_until_it_goes(world: World) -> None:
    world.node("a")
    rule = world.rule("a", "gpu-2")
    world.template("one")
    world.planner()
    names = ["p", "q", "r"]
    for name in names:
        world.pod(name, templates=["one"])
    world.until_bound(*names)
    assert "a/gpu-2" not in {device for name in names for device in world.devices_of(name)}
    world.pod("s", templates=["one"])
    world.until_told("s", "NoPlacement")
    world.drop_rule(rule)
    world.until_bound("s")


@scenario
def the_command_killed_in_the_middle_of_many_pods_is_finished_by_the_next(world: World) -> None:
    for node in ("a", "b"):
        world.node(node, "hgx-h100-8")
    world.template("two", 2, island=True)
    names = [f"p{i}" for i in range(10)]
    for name in names:
        world.pod(name, templates=["two"])
    for enough in (1, 4):
        process = world.command()
        world.until_count_bound(enough)
        process.kill()
    last = world.command()
    world.until_count_bound(8)
    for pod in world.api.list(Pod, world.ns).items:
        if not pod.spec.node_name:
            world.until_told(pod.metadata.name, "NoPlacement")
    last.stop()
