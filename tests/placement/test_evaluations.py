"""How much of a cluster is looked at again for the next question."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from baro.allocator import Outcome
from baro.inventory import Inventory
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Node, NodeSpec
from baro.model.kinds.resource import (
    CapacityRequirements,
    CELDeviceSelector,
    DeviceSelector,
    ResourceClaim,
)
from baro.placement import Placement, place
from baro.placement import classes as classes_module
from tests.support.cluster import DRIVER, claim, cluster, device, device_class, gpus, node_slice, request


def selecting(expression: str) -> tuple[DeviceSelector, ...]:
    return (DeviceSelector(cel=CELDeviceSelector(expression=expression)),)


def _hundred(busy: Callable[[int], list[str]] = lambda _: []) -> Inventory:
    names = [f"n{index:03}" for index in range(100)]
    devices = {name: gpus({f"{name}-a": range(4), f"{name}-b": range(4, 8)}) for name in names}
    return Inventory(cluster(devices, busy={name: busy(at) for at, name in enumerate(names)}))


def _held(item: ResourceClaim, found: Placement) -> ResourceClaim:
    status = msgspec.structs.replace(item.status, allocation=found.allocations[0])
    return msgspec.structs.replace(item, status=status)


def test_a_claim_that_differs_only_in_name_from_an_earlier_one_costs_nothing() -> None:
    inventory = _hundred()
    first = place(inventory, [claim(request(count=4), name="a")])
    again = place(inventory, [claim(request(count=4), name="b")])
    assert (first.evaluations, again.evaluations) == (1, 0)
    assert (first.node, first.allocations, first.reasons) == (again.node, again.allocations, again.reasons)
    assert first.per_node == again.per_node


def test_filling_a_cluster_costs_about_one_evaluation_a_claim() -> None:
    inventory = _hundred()
    spent = []
    for number in range(300):
        item = claim(request(count=(1, 2, 4)[number % 3]), name=f"c{number}")
        found = place(inventory, [item])
        inventory.hold_claim(_held(item, found))
        spent.append(found.evaluations)
    # The node that is chosen, and each new kind of node once per kind of claim.
    assert sum(spent) < 400 and max(spent) <= 8


def test_a_change_of_one_node_asks_about_that_node_only() -> None:
    inventory = _hundred()
    wanted = [claim(request(count=8))]
    place(inventory, wanted)
    inventory.set_slice(node_slice("n050", gpus({"x": range(4)})))
    assert place(inventory, wanted).evaluations == 1
    inventory.set_node(Node(metadata=ObjectMeta(name="n000"), spec=NodeSpec(unschedulable=True)))
    found = place(inventory, wanted)
    assert (found.node, found.evaluations) == ("n001", 1) and found.excluded[0][0] == "n000"


def test_refused_claims_get_their_own_names_in_the_reasons() -> None:
    inventory = _hundred()
    for name in ("one", "two"):
        missing = place(inventory, [claim(request(class_name="missing"), name=name)])
        assert missing.error is not None and f"claim default/{name}, request gpu" in missing.error
        assert all(decision.error == missing.error for decision in missing.per_node)
        many = place(inventory, [claim(request(count=9), name=name)])
        assert many.reasons[0].startswith(f"100 nodes: claim default/{name}, request gpu: 9 devices needed")
        assert many.per_node[7].reasons[0].startswith(f"claim default/{name}")


def test_the_answers_of_all_nodes_are_those_of_the_moment_of_the_question() -> None:
    inventory = _hundred(lambda at: ["gpu-0"] if at % 2 else [])
    item = claim(request(count=8))
    found = place(inventory, [item])
    inventory.hold_claim(_held(item, found))
    inventory.remove_slice(f"n004-{DRIVER}")
    inventory.remove_node("n004")
    later = place(inventory, [item])
    fits = [decision.node for decision in found.per_node if decision.fits]
    assert fits == [f"n{index:03}" for index in range(0, 100, 2)] and len(found.per_node) == 100
    assert [decision.node for decision in later.per_node if decision.fits] == [
        name for name in fits if name not in ("n000", "n004")
    ]
    assert len(later.per_node) == 99


@pytest.mark.parametrize(
    "expression", [f"device.attributes['{DRIVER}'].uuid == 'n7'", "device.attributes.exists(d, d == 'x')"]
)
def test_selectors_over_unique_values_or_whole_maps_do_not_make_every_node_a_class_of_its_own(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classes_module, "_MANY_VALUES", 8)
    inventory = Inventory(cluster({f"n{i}": [device("gpu-0", uuid=f"n{i}")] for i in range(50)}))
    wanted = [claim(request(selectors=selecting(expression)))]
    found = place(inventory, wanted)
    assert found.evaluations <= 2 and found.node == ("n7" if "uuid" in expression else None)
    inventory.set_slice(node_slice("n3", [device("gpu-0", uuid="n7")]))
    inventory.remove_slice(f"n7-{DRIVER}")
    assert place(inventory, wanted).node == ("n3" if "uuid" in expression else None)


def test_a_device_that_cannot_be_converted_is_not_taken_for_its_twin() -> None:
    bad = msgspec.structs.replace(
        device("gpu-0", type="gpu"),
        attributes={
            "type": device("x", type="gpu").attributes["type"],
            "v": msgspec.structs.replace(device("x", v="1").attributes["v"], string=None, version="no"),
        },
    )
    found = place(cluster({"a": [device("gpu-0", type="gpu")], "b": [bad]}), [claim()])
    outcomes = {decision.node: decision.outcome for decision in found.per_node}
    assert found.node == "a" and outcomes["b"] is Outcome.ERROR


def test_an_error_about_the_claims_themselves_is_found_once_and_not_on_every_node() -> None:
    inventory = _hundred()
    found = place(inventory, [claim(request(class_name="missing"))])
    assert found.evaluations == 1 and found.error is not None
    assert {decision.outcome for decision in found.per_node} == {Outcome.ERROR}


def test_a_class_that_comes_later_changes_the_answer() -> None:
    inventory = _hundred()
    wanted = [claim(request(class_name="late"))]
    assert place(inventory, wanted).error is not None
    inventory.set_class(device_class("late", "true"))
    assert place(inventory, wanted).node == "n000"
    inventory.remove_class("late")
    assert place(inventory, wanted).error is not None


def test_a_few_named_nodes_are_judged_as_in_a_cluster_of_their_own() -> None:
    inventory = _hundred(lambda at: ["gpu-0"] if at % 2 else [])
    inventory.set_node(Node(metadata=ObjectMeta(name="n010"), spec=NodeSpec(unschedulable=True)))
    wanted = [claim(request(count=8))]
    place(inventory, wanted)
    found = place(inventory, wanted, nodes=iter(["n012", "n011", "n010", "n012"]))
    assert (found.node, found.evaluations) == ("n012", 1)
    assert [decision.node for decision in found.per_node] == ["n011", "n012"]
    assert found.excluded == (("n010", "node n010 is cordoned (unschedulable)"),)
    assert place(inventory, wanted, nodes=["n012"], without={"n012"}).reasons == (
        "no node publishes devices",
    )


def test_a_share_is_never_given_out_twice_under_one_id() -> None:
    shared = msgspec.structs.replace(device("gpu-0", memory="80Gi"), allow_multiple_allocations=True)
    inventory = Inventory(cluster({"a": [shared]}))
    wanted = [claim(request(capacity=CapacityRequirements(requests={"memory": "8Gi"})))]
    ids = [place(inventory, wanted).allocations[0].devices.results[0].share_id for _ in range(3)]
    assert None not in ids and len(set(ids)) == 3
