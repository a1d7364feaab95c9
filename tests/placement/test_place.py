"""Node and set chosen together, and the words about it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.allocator import Outcome, Policy, allocate
from baro.inventory import Inventory, Snapshot
from baro.model.kinds.base import Condition, ObjectMeta
from baro.model.kinds.core import Node, NodeSpec, NodeStatus, Pod, PodSpec, Taint, Toleration
from baro.model.kinds.resource import (
    CapacityRequirements,
    DeviceRequest,
    DeviceSubRequest,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
)
from baro.placement import Placement, first_fit, place
from tests.support.cluster import claim, cluster, device, device_class, gpus, request

TWO_FOURS = {"a": range(4), "b": range(4, 8)}
CROSSING = ["gpu-2", "gpu-3", "gpu-6", "gpu-7"]
"""Busy GPUs that leave two free in each island."""


def _names(placement: Placement) -> list[str]:
    return [r.device for allocation in placement.allocations for r in allocation.devices.results]


def test_the_node_with_an_island_wins_over_nodes_that_only_have_enough_gpus() -> None:
    busy = {"a": ["gpu-2", "gpu-3"], "b": CROSSING, "c": CROSSING, "d": CROSSING}
    snapshot = cluster({name: gpus(TWO_FOURS) for name in "abcd"}, busy=busy)
    found = place(snapshot, [claim(request(count=4))])
    assert found.node == "a" and _names(found) == ["gpu-4", "gpu-5", "gpu-6", "gpu-7"]
    assert found.reasons == (
        "4×H200 on node a: island b, 450 GB/s ring; 3 other nodes had 4 free GPUs but no island",
    )
    assert found.score is not None and found.score.gbps == 450.0


def test_a_single_gpu_goes_where_its_loss_hurts_least() -> None:
    busy = {"a": [], "b": ["gpu-0", "gpu-1", "gpu-2"], "c": ["gpu-0", "gpu-1"]}
    snapshot = cluster({name: gpus(TWO_FOURS) for name in "abc"}, busy=busy)
    found = place(snapshot, [claim()])
    assert (found.node, _names(found)) == ("b", ["gpu-3"])


def test_four_gpus_go_to_a_broken_node_with_one_whole_island_rather_than_to_an_empty_node() -> None:
    snapshot = cluster(
        {name: gpus(TWO_FOURS) for name in "ab"}, busy={"b": [f"gpu-{index}" for index in range(4)]}
    )
    assert place(snapshot, [claim(request(count=4))]).node == "b"


def test_first_fit_is_what_kube_scheduler_would_take_and_what_that_is_worth() -> None:
    snapshot = cluster({"a": gpus(TWO_FOURS)}, busy={"a": ["gpu-2", "gpu-3"]})
    (found,) = first_fit(snapshot, [claim(request(count=4))], nodes=["a"])
    assert [key.device for key in found.decision.devices] == ["gpu-0", "gpu-1", "gpu-4", "gpu-5"]
    by_policy = place(snapshot, [claim(request(count=4))], policy="first-fit")
    assert by_policy.allocations == found.decision.allocations


def _node(name: str, **spec: object) -> Node:
    return Node(metadata=ObjectMeta(name=name), spec=NodeSpec(**spec))  # type: ignore[arg-type]


_TAINT = Taint(key="baro.dev/gpu-not-ready", effect="NoSchedule")


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (_node("a", unschedulable=True), "cordoned"),
        (_node("a", taints=(_TAINT,)), "has the taint baro.dev/gpu-not-ready:NoSchedule"),
        (
            Node(
                metadata=ObjectMeta(name="a"),
                status=NodeStatus(
                    conditions=(Condition(type="GPUReady", status="False", reason="XidFatal"),)
                ),
            ),
            "has GPUReady=False: XidFatal",
        ),
        (
            Node(
                metadata=ObjectMeta(name="a"),
                status=NodeStatus(conditions=(Condition(type="GPUReady", status="Unknown"),)),
            ),
            "has GPUReady=Unknown",
        ),
    ],
)
def test_nodes_that_must_not_be_used_are_left_out_with_a_reason(node: Node, why: str) -> None:
    snapshot = cluster({"a": gpus(TWO_FOURS), "b": gpus(TWO_FOURS)}, nodes=[node])
    found = place(snapshot, [claim()])
    assert found.node == "b"
    assert found.excluded == (("a", found.excluded[0][1]),) and why in found.excluded[0][1]
    alone = place(snapshot, [claim()], nodes=["a"])
    assert not alone.fits and why in alone.reasons[0]


def test_the_pods_tolerations_and_node_selector_count() -> None:
    tainted = _node("a", taints=(_TAINT,))
    snapshot = cluster({"a": gpus(TWO_FOURS), "b": gpus(TWO_FOURS)}, nodes=[tainted])
    tolerant = Pod(spec=PodSpec(tolerations=(Toleration(operator="Exists"),)))
    assert place(snapshot, [claim()], pod=tolerant).node == "a"
    picky = Pod(spec=PodSpec(node_selector={"zone": "x"}))
    assert not place(snapshot, [claim()], pod=picky).fits


def test_the_pods_topology_annotation_holds_for_claims_without_one() -> None:
    snapshot = cluster({"a": gpus(TWO_FOURS)}, busy={"a": CROSSING})
    strict = Pod(metadata=ObjectMeta(annotations={"baro.dev/topology": "required"}))
    assert place(snapshot, [claim(request(count=4))]).fits
    assert not place(snapshot, [claim(request(count=4))], pod=strict).fits
    own = claim(request(count=4), annotations={"baro.dev/topology": "preferred"})
    assert place(snapshot, [own], pod=strict).fits


def test_more_gpus_than_any_machine_has_are_placed_in_device_order() -> None:
    snapshot = cluster({"a": gpus({"x": range(40)})})
    assert _names(place(snapshot, [claim(request(count=3))])) == ["gpu-0", "gpu-1", "gpu-2"]


def test_claims_of_one_pod_go_to_one_node_together() -> None:
    snapshot = cluster(
        {"a": gpus(TWO_FOURS), "b": gpus(TWO_FOURS)},
        busy={"a": ["gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4"]},
    )
    pair = [claim(request(count=2), name="x"), claim(request(count=2), name="y")]
    found = place(snapshot, pair)
    assert found.node == "b" and len(found.allocations) == 2
    assert len(set(_names(found))) == 4


def test_the_more_preferred_alternative_beats_the_better_island() -> None:
    wanted = DeviceRequest(
        name="gpu",
        first_available=(
            DeviceSubRequest(name="two", device_class_name="gpu.nvidia.com", count=2),
            DeviceSubRequest(name="one", device_class_name="gpu.nvidia.com", count=1),
        ),
    )
    snapshot = cluster(
        {"a": gpus({"x": [0]}), "b": gpus({"x": [0], "y": [1]})},
    )
    found = place(snapshot, [claim(wanted)])
    assert found.node == "b" and _names(found) == ["gpu-0", "gpu-1"]


def test_nothing_fits_gives_the_reason_per_group_of_nodes() -> None:
    snapshot = cluster({name: gpus({"a": range(2)}) for name in "abc"})
    found = place(snapshot, [claim(request(count=4))])
    assert not found.fits and found.allocations == ()
    expected = (
        "3 nodes: claim default/c, request gpu: 4 devices needed, 2 on the node, 2 match, 2 of them free"
    )
    assert found.reasons == (expected,)


def test_no_nodes_at_all_is_said() -> None:
    assert place(Snapshot(classes=(device_class(),)), [claim()]).reasons == ("no node publishes devices",)


def test_identical_nodes_are_judged_once() -> None:
    devices = {f"n{index}": gpus({f"n{index}-a": range(4), f"n{index}-b": range(4, 8)}) for index in range(9)}
    found = place(cluster(devices, busy={"n3": ["gpu-0"]}), [claim(request(count=4))])
    assert found.evaluations <= 3
    assert len(found.per_node) == 9
    assert found.node == "n3" and found.reasons[0].startswith("4×H200 on node n3: island b")


@settings(max_examples=60)
@given(
    busy=st.lists(st.sets(st.integers(0, 3)), min_size=3, max_size=5),
    numa=st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), min_size=5, max_size=5),
    count=st.integers(1, 4),
    tainted=st.sampled_from([None, "n0", "n1"]),
)
def test_judging_nodes_by_class_changes_no_answer(
    busy: list[set[int]], numa: list[list[int]], count: int, tainted: str | None
) -> None:
    devices = {
        f"n{at}": [device(f"gpu-{i}", type="gpu", numaNode=numa[at][i]) for i in range(4)]
        for at in range(len(busy))
    }
    held = {f"n{at}": [f"gpu-{index}" for index in sorted(used)] for at, used in enumerate(busy)}
    snapshot = cluster(devices, busy=held)
    if tainted is not None:
        rule = DeviceTaintRule(
            spec=DeviceTaintRuleSpec(
                device_selector=DeviceTaintSelector(pool=tainted),
                taint=DeviceTaint(key="x", effect="NoSchedule"),
            )
        )
        snapshot = msgspec.structs.replace(snapshot, taint_rules=(rule,))
    inventory = Inventory(snapshot)
    wanted = [claim(request(count=count), match="resource.kubernetes.io/numaNode")]
    found = place(inventory, wanted)
    for decision in found.per_node:
        alone = allocate(inventory, decision.node, wanted)
        assert (decision.outcome, decision.score) == (alone.outcome, alone.score)
    assert found.fits is any(decision.fits for decision in found.per_node)
    if found.node is not None:
        assert found.allocations == allocate(inventory, found.node, wanted).allocations


def test_a_tainted_device_is_no_candidate_unless_tolerated() -> None:
    rule = DeviceTaintRule(
        spec=DeviceTaintRuleSpec(
            device_selector=DeviceTaintSelector(device="gpu-0"),
            taint=DeviceTaint(key="gpu.baro.dev/xid", effect="NoSchedule"),
        )
    )
    snapshot = cluster({"a": gpus({"x": [0, 1]})})
    snapshot = msgspec.structs.replace(snapshot, taint_rules=(rule,))
    found = place(snapshot, [claim(request(count=2))])
    assert not found.fits and "1 of those tainted" in found.reasons[0]
    assert _names(place(snapshot, [claim()])) == ["gpu-1"]


def test_a_work_limit_gives_up_instead_of_saying_no() -> None:
    decision = allocate(
        Inventory(cluster({"a": gpus(TWO_FOURS)})), "a", [claim(request(count=4))], work_limit=2
    )
    assert decision.outcome is Outcome.GAVE_UP and "gave up" in decision.reasons[0]


def test_the_policy_may_be_named_by_text_and_a_wrong_name_is_refused() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        place(Snapshot(), [], policy="nonsense")
    assert Policy("topology") is Policy.TOPOLOGY


def test_an_amount_that_is_no_quantity_is_an_error_and_no_traceback() -> None:
    for expression in ("device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('1'))", "true"):
        snapshot = cluster(
            {"a": [device("gpu-0", memory="lots")]}, classes=[device_class(expression=expression)]
        )
        found = place(snapshot, [claim(request(capacity=CapacityRequirements(requests={"memory": 1})))])
        assert not found.fits and found.error is not None and "quantit" in found.error


def test_the_answer_in_one_line_speaks_of_every_claim() -> None:
    snapshot = cluster({"a": gpus(TWO_FOURS)})
    found = place(snapshot, [claim(request()), claim(request(count=2), name="two")])
    assert found.reasons[0].startswith("1×H200 on node a; 2×H200 on node a: island ")
