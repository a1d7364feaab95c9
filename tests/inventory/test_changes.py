"""What changed since a reader looked last."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from baro.inventory import Inventory
from baro.inventory.changes import ChangeLog, Changes
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Node
from baro.model.kinds.resource import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
)
from tests.support.cluster import DRIVER, cluster, device, holding, node_slice

_EVENTS = st.lists(
    st.tuples(st.booleans(), st.one_of(st.none(), st.sampled_from("abcd"))), min_size=1, max_size=20
)


@given(events=_EVENTS, looked=st.integers(0, 20))
def test_a_reader_is_told_exactly_what_came_after_its_last_look(
    events: list[tuple[bool, str | None]], looked: int
) -> None:
    log = ChangeLog()
    for structure, node in events[:looked]:
        log.structure(node) if structure else log.use(node)
    moment = log.now
    later = events[looked:]
    for structure, node in later:
        log.structure(node) if structure else log.use(node)
    structures = [node for structure, node in later if structure]
    expected = Changes(
        nodes=None if any(node is None for _, node in later) else frozenset(n for _, n in later if n),
        structure=None if None in structures else frozenset(n for n in structures if n),
    )
    assert log.since(moment) == expected


def _inventory() -> Inventory:
    inventory = Inventory(cluster({"a": [device("gpu-0")], "b": [device("gpu-0")]}))
    for node in "ab":
        inventory.pools(node)
    return inventory


def test_a_claim_that_comes_or_goes_changes_the_use_of_its_node_only() -> None:
    inventory = _inventory()
    moment, stamp = inventory.changes.now, inventory.stamp("b")
    inventory.hold_claim(holding("a", "gpu-0"))
    inventory.release_claim("default/held")
    assert inventory.changes.since(moment) == Changes(frozenset("a"), frozenset())
    assert inventory.stamp("b") == stamp


def test_slices_and_node_objects_change_the_structure_of_their_node() -> None:
    inventory = _inventory()
    moment = inventory.changes.now
    inventory.set_slice(node_slice("b", [device("gpu-0"), device("gpu-1")]))
    inventory.set_node(Node(metadata=ObjectMeta(name="c")))
    assert inventory.changes.since(moment) == Changes(frozenset("bc"), frozenset("bc"))
    assert inventory.has_node("c") and inventory.node_names() == ("a", "b", "c")
    inventory.remove_node("c")
    assert not inventory.has_node("c") and inventory.node_names() == ("a", "b")


def _rule(**selector: str) -> DeviceTaintRule:
    return DeviceTaintRule(
        spec=DeviceTaintRuleSpec(
            device_selector=DeviceTaintSelector(**selector), taint=DeviceTaint(key="x", effect="NoSchedule")
        )
    )


def test_a_taint_rule_that_names_a_pool_concerns_the_nodes_of_that_pool_only() -> None:
    inventory = _inventory()
    other = _rule(driver=DRIVER, pool="b", device="gpu-0")
    inventory.set_taint_rules([other])
    moment = inventory.changes.now
    inventory.set_taint_rules([other, _rule(driver=DRIVER, pool="a", device="gpu-0")])
    assert inventory.changes.since(moment) == Changes(frozenset("a"), frozenset("a"))
    inventory.set_taint_rules([other, _rule(device="gpu-0")])
    assert inventory.changes.since(moment).structure is None
    moment = inventory.changes.now
    inventory.set_taint_rules([other, _rule(device="gpu-0")])
    assert inventory.changes.now == moment
