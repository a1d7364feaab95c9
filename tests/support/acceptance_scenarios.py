"""The acceptance scenarios, written once for every server. ``SCENARIOS`` is the table.

Each takes an empty ``World`` and brings it to an end that it asserts; that no device is in two claims,
nothing leaked and every pod is explained is checked by ``acceptance.world`` after it, and again when all pods
are gone. Here is who gets what; what changes meanwhile is in ``acceptance_changes``.
"""

from __future__ import annotations

from baro.demo.cluster import NODES, manifest
from baro.diagnosis import catalogue
from baro.diagnosis.lint import lint
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim, ResourceClaimTemplate
from tests.support import acceptance_changes
from tests.support.acceptance import World
from tests.support.acceptance_objects import LABEL, SHARED, TOLERATION
from tests.support.acceptance_picture import devices
from tests.support.acceptance_table import (
    SCENARIOS,
    at_ungating,
    claim_in,
    held_in,
    node_of_claim,
    scenario,
)

__all__ = ["SCENARIOS", "acceptance_changes"]


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
    plain, gated = [f"plain-{i}" for i in range(4)], [f"gated-{i}" for i in range(4)]
    for name in plain:
        world.pod(name, templates=["two"], gated=False)
    if not world.serves_taint_rules():
        world.until_bound(*plain)  # there no planner can help when both decide at one moment
    for name in gated:
        world.pod(name, templates=["two"])
    world.until_bound(*plain, *gated)
    held = held_in(world.until_settled("all have their devices"))
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


@scenario
def a_device_that_two_claims_hold_is_kept_from_kube_scheduler(world: World) -> None:
    """It was decided on twice at one moment. baro's claim yields; the other one keeps the device alone."""
    for node in ("a", "b"):
        world.node(node)
    world.claim("c", cls=SHARED)
    world.pod("p", claims=["c"])
    world.killed_planner(at_ungating)
    (device,) = devices(world.api.get(ResourceClaim, world.ns, "c"))
    node = node_of_claim(world, "c")
    tenant = f"tenant-{node}"
    world.occupy(node, [int(device[-1])])
    world.planner()
    world.until_bound("p")
    assert world.devices_of("p") != world.devices_of(tenant)
    if not world.serves_taint_rules():
        return  # there kube-scheduler takes the device for free now
    assert len(world.shields()) == 1
    world.template("one", cls=SHARED)
    names = [f"plain-{i}" for i in range(7)]  # of eight GPUs two are held
    for name in names:
        world.pod(name, templates=["one"], gated=False)
    world.until_count_bound(8)
    (left,) = [
        pod.metadata.name for pod in world.until_settled("one waits").all(Pod) if not pod.spec.node_name
    ]
    world.until_told(left, "FailedScheduling")
    world.delete_pod(tenant)
    world.until_bound(left)
    assert world.devices_of(left) == [device.removeprefix(f"{world.ns}-")]
