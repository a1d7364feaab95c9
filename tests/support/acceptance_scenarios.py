"""The acceptance scenarios, written once for every server. ``SCENARIOS`` is the table.

Each takes an empty ``World`` and brings it to an end that it asserts; that no device is in two claims,
nothing leaked and every pod is explained is checked by ``acceptance.world`` after it, and again when all pods
are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from baro.demo.cluster import NODES, manifest
from baro.diagnosis import catalogue
from baro.diagnosis.lint import lint
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim, ResourceClaimTemplate
from tests.support.acceptance import LABEL, SHARED, TOLERATION, World
from tests.support.acceptance_picture import Picture, devices
from tests.support.kube import Killed, Write

Scenario = Callable[[World], None]
SCENARIOS: dict[str, Scenario] = {}
"""By name; the name is what a reader of the test report sees."""


def scenario(run: Scenario) -> Scenario:
    SCENARIOS[run.__name__] = run
    return run


# --- who gets what -----------------------------------------------------------------------------------------


@scenario
def the_demo_places_four_gpus_on_a_free_island(world: World) -> None:
    for node in NODES:
        world.node(node.name, node.profile)
        world.occupy(node.name, node.busy)
    (mission,) = manifest("mission.yaml")
    mended = lint(mission, catalogue.nvidia_driver()).mended
    assert mended is not None
    world.api.create(ResourceClaimTemplate, world.ns, mended)
    (document,) = manifest("pod.yaml")
    body = document.body
    body["metadata"]["namespace"] = world.ns
    body["spec"]["nodeSelector"] = {LABEL: world.ns}
    body["spec"]["tolerations"] = [TOLERATION]
    world.planner()
    world.api.create(Pod, world.ns, body)
    world.until_bound("llm-tp4")
    assert world.devices_of("llm-tp4") == ["a/gpu-4", "a/gpu-5", "a/gpu-6", "a/gpu-7"]
    reason = world.api.get(Pod, world.ns, "llm-tp4").metadata.annotations["baro.dev/placement-reason"]
    assert f"on node {world.name('a')}: island " in reason
    assert reason in world.until_told("llm-tp4", "Placed")


@scenario
def pods_of_one_template_get_claims_of_their_own(world: World) -> None:
    world.node("a")
    world.template("two", 2, island=True)
    world.planner()
    for name in ("p", "q"):
        world.pod(name, templates=["two"])
    world.until_bound("p", "q")
    held = world.devices_of("p") + world.devices_of("q")
    assert sorted(held) == ["a/gpu-0", "a/gpu-1", "a/gpu-2", "a/gpu-3"]


@scenario
def pods_that_share_a_claim_share_its_node_and_devices(world: World) -> None:
    for node in ("a", "b"):
        world.node(node)
    world.claim("shared", 2)
    world.planner()
    for name in ("p", "q", "r"):
        world.pod(name, claims=["shared"])
    world.until_bound("p", "q", "r")
    assert len({world.node_of(name) for name in ("p", "q", "r")}) == 1
    claim = world.api.get(ResourceClaim, world.ns, "shared")
    assert {consumer.name for consumer in claim.status.reserved_for} == {"p", "q", "r"}
    world.delete_pod("p")  # the others go on
    world.wait(lambda seen: len(claim_in(seen, "shared").status.reserved_for) == 2, "p's reservation is gone")
    assert len(devices(world.api.get(ResourceClaim, world.ns, "shared"))) == 2


@scenario
def several_claims_of_a_pod_go_to_one_node(world: World) -> None:
    world.node("a")
    world.node("b")
    world.occupy("a", [0, 1])  # room for one or two of the claims, not for all three
    world.claim("named", 1)
    world.template("one", 1)
    world.template("two", 2, island=True)
    world.planner()
    world.pod("p", claims=["named"], templates=["one", "two"])
    world.until_bound("p")
    assert world.devices_of("p") == ["b/gpu-0", "b/gpu-1", "b/gpu-2", "b/gpu-3"]


@scenario
def gated_and_ungated_pods_compete_for_the_same_devices(world: World) -> None:
    for node in ("a", "b"):
        world.node(node, "hgx-h100-8")
    world.template("two", 2, cls=SHARED)
    world.planner()
    names = [f"{'gated' if i % 2 else 'plain'}-{i}" for i in range(8)]
    for i, name in enumerate(names):
        world.pod(name, templates=["two"], gated=bool(i % 2))
    world.until_bound(*names)
    held = Counter(device for name in names for device in world.devices_of(name))
    assert len(held) == 16, held


@scenario
def kube_scheduler_allocates_nothing_of_the_exclusive_class(world: World) -> None:
    world.node("a")
    world.template("one")
    world.planner()
    world.pod("plain", templates=["one"], gated=False)
    world.until_told("plain", "FailedScheduling")
    world.pod("gated", templates=["one"])
    world.until_bound("gated")
    pod = world.api.get(Pod, world.ns, "plain")
    assert not pod.spec.node_name


# --- what changes under the planner ------------------------------------------------------------------------


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
    held = Counter(device for name in names for device in world.devices_of(name))
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
            world.wait(lambda seen: seen.find(Pod, "hog") is not None, "hog is known")

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


# --- small change ------------------------------------------------------------------------------------------


def at_ungating(write: Write) -> None:
    if write.kind is Pod:
        raise Killed("ahead of the ungating")


def claim_in(seen: Picture, name: str) -> ResourceClaim:
    return seen.find(ResourceClaim, name) or ResourceClaim()


def node_of_claim(world: World, claim: str) -> str:
    held = devices(world.api.get(ResourceClaim, world.ns, claim))
    return held[0].partition("/")[0].removeprefix(f"{world.ns}-")
