"""Pools, rows, use and taints; changes one by one give what a fresh inventory gives."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.allocator import allocate
from baro.inventory import DeviceKey, Inventory, Snapshot
from baro.model.kinds.base import KubeObject, ObjectMeta
from baro.model.kinds.core import Namespace, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from baro.model.kinds.resource import (
    Counter,
    CounterSet,
    Device,
    DeviceCounterConsumption,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from tests.support import shared
from tests.support.cluster import claim, cluster, device, device_class, gpus, holding, node_slice, request

KEY = DeviceKey("gpu.nvidia.com", "n", "gpu-0")


def _pool_slice(
    name: str, *, generation: int = 1, count: int = 1, pool: str = "p", **spec: Any
) -> ResourceSlice:
    """A slice of driver ``d``, for node ``n`` unless told otherwise."""
    where = {} if spec.keys() & {"node_name", "node_selector"} else {"node_name": "n"}
    of = ResourcePool(name=pool, generation=generation, resource_slice_count=count)
    body: dict[str, Any] = {"driver": "d", "pool": of, **where, **spec}
    return ResourceSlice(metadata=ObjectMeta(name=name), spec=ResourceSliceSpec(**body))


def _devices(*names: str) -> tuple[Device, ...]:
    return tuple(Device(name=name) for name in names)


def test_a_snapshot_sorts_objects_by_kind_and_leaves_out_the_rest() -> None:
    objects: list[KubeObject] = [
        Namespace(metadata=ObjectMeta(name="x")),
        Node(metadata=ObjectMeta(name="n")),
        *gpus_slice(),
        claim(),
        device_class(),
    ]
    found = Snapshot.from_objects(objects)
    assert [len(part) for part in (found.nodes, found.slices, found.claims, found.classes)] == [1, 1, 1, 1]


def gpus_slice() -> list[ResourceSlice]:
    return [node_slice("n", gpus({"a": range(2)}))]


def test_rows_name_devices_and_are_kept_when_a_slice_is_updated() -> None:
    inventory = Inventory(cluster({"n": gpus({"a": range(3)})}))
    before = {index: inventory.row(DeviceKey("gpu.nvidia.com", "n", f"gpu-{index}")) for index in range(3)}
    inventory.set_slice(node_slice("n", gpus({"b": [0, 2, 3]})))
    assert inventory.row(KEY) == before[0]
    assert inventory.row(DeviceKey("gpu.nvidia.com", "n", "gpu-1")) is None
    row = inventory.row(DeviceKey("gpu.nvidia.com", "n", "gpu-2"))
    assert row == before[2] and row is not None
    assert inventory.key(row).device == "gpu-2"
    assert inventory.table.attributes["gpu.nvidia.com", "nvlinkDomain"].value(row) == ("string", "b")


def test_a_column_keeps_codes_not_objects() -> None:
    inventory = Inventory(cluster({f"n{i}": gpus({"a": range(4), "b": range(4, 8)}) for i in range(20)}))
    column = inventory.table.attributes["gpu.nvidia.com", "nvlinkDomain"]
    assert column.codes.itemsize == 4 and len(column.codes) == 160
    assert column.vocabulary == [None, ("string", "a"), ("string", "b")]


def test_the_freed_row_of_a_removed_device_is_empty_for_the_next_one() -> None:
    inventory = Inventory(cluster({"n": gpus({"a": range(2)})}))
    inventory.remove_slice("n-gpu.nvidia.com")
    inventory.set_slice(node_slice("m", [Device(name="bare")]))
    row = inventory.row(DeviceKey("gpu.nvidia.com", "m", "bare"))
    assert row is not None and row < 2
    assert list(inventory.table.attributes_of(row)) == []


# --- pools -----------------------------------------------------------------------------------------------


def _pools(*slices: ResourceSlice, node: str = "n", labels: dict[str, str] | None = None) -> Inventory:
    owner = Node(metadata=ObjectMeta(name=node, labels=labels or {}))
    return Inventory(Snapshot(nodes=(owner,), slices=slices))


def test_an_incomplete_pool_is_marked() -> None:
    inventory = _pools(_pool_slice("s1", count=2, devices=_devices("a")))
    assert inventory.pools("n").pools[0].incomplete
    inventory.set_slice(_pool_slice("s2", count=2, devices=_devices("b")))
    assert not inventory.pools("n").pools[0].incomplete
    assert [inventory.table.device_name(row) for row in inventory.pools("n").pools[0].rows] == ["a", "b"]


def test_a_pool_with_a_newer_generation_elsewhere_is_ignored() -> None:
    inventory = _pools(
        _pool_slice("s1", count=2, devices=_devices("a")),
        _pool_slice("s2", generation=2, node_name="other", devices=_devices("b")),
    )
    assert inventory.pools("n").pools == () and inventory.pools("n").obsolete == ("d/p",)


def test_duplicate_devices_and_unknown_counters_make_a_pool_invalid() -> None:
    twice = _pools(_pool_slice("s1", devices=_devices("a", "a")))
    assert twice.pools("n").pools[0].invalid == "duplicate device name a"
    uses = DeviceCounterConsumption(counter_set="c", counters={"x": Counter(value=1)})
    unknown = _pools(_pool_slice("s1", devices=(Device(name="a", consumes_counters=(uses,)),)))
    assert unknown.pools("n").pools[0].invalid == "device a uses unknown counter set c"
    wrong = _pools(
        _pool_slice("s1", count=2, devices=(Device(name="a", consumes_counters=(uses,)),)),
        _pool_slice("s2", count=2, shared_counters=(CounterSet(name="c", counters={"y": Counter(value=1)}),)),
    )
    assert wrong.pools("n").pools[0].invalid == "device a uses unknown counter x of counter set c"


def test_028_slices_that_disagree_on_their_number_are_reported() -> None:
    _, expect = shared.case("028")
    inventory = _pools(
        _pool_slice("a", generation=5, count=2, devices=_devices("x")),
        _pool_slice("b", generation=5, count=3, devices=_devices("y")),
    )
    assert inventory.pools("n").pools[0].inconsistent_count
    assert any("is invalid" in text and expect["reason"] in text for text in inventory.problems())


def test_slices_are_ordered_by_name_and_pools_by_driver_and_name_with_binding_conditions_last() -> None:
    binding = Device(name="z", binding_conditions=("x",), binding_failure_conditions=("y",))
    inventory = _pools(
        _pool_slice("s2", pool="a", devices=(binding,)),
        _pool_slice("s9", pool="c", count=2, devices=_devices("c9")),
        _pool_slice("s1", pool="c", count=2, devices=_devices("c1")),
        _pool_slice("s3", pool="b", devices=_devices("b")),
    )
    found = [[inventory.table.device_name(row) for row in pool.rows] for pool in inventory.pools("n").pools]
    assert found == [["b"], ["c1", "c9"], ["z"]]


# --- selection, taints, use ------------------------------------------------------------------------------


def _selector(operator: str, *values: str, field: bool = False, key: str = "zone") -> NodeSelector:
    requirement = NodeSelectorRequirement(key=key, operator=operator, values=values)
    term = (
        NodeSelectorTerm(match_fields=(requirement,))
        if field
        else NodeSelectorTerm(match_expressions=(requirement,))
    )
    return NodeSelector(node_selector_terms=(term,))


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (_selector("In", "x", "5"), True),
        (_selector("In", "y"), False),
        (_selector("NotIn", "y"), True),
        (_selector("NotIn", "y", key="absent"), True),
        (_selector("Exists"), True),
        (_selector("DoesNotExist"), False),
        (_selector("DoesNotExist", key="absent"), True),
        (_selector("Gt", "4"), True),
        (_selector("Lt", "4"), False),
        (_selector("Gt", "4", key="absent"), False),
        (_selector("In", "n", field=True, key="metadata.name"), True),
        (_selector("NotIn", "n", field=True, key="metadata.name"), False),
        (NodeSelector(node_selector_terms=(NodeSelectorTerm(),)), False),
    ],
)
def test_slices_reach_nodes_by_selector(selector: NodeSelector, selected: bool) -> None:
    item = _pool_slice("s", node_selector=selector, devices=_devices("a"))
    assert bool(_pools(item, labels={"zone": "5"}).pools("n").pools) is selected


@pytest.mark.parametrize(
    "selector", [_selector("In"), _selector("Gt", "x"), _selector("Near", "x"), _selector("Exists", "x")]
)
def test_a_selector_that_cannot_be_parsed_is_an_error_of_the_node(selector: NodeSelector) -> None:
    item = _pool_slice("s", node_selector=selector, devices=_devices("a"))
    assert "node selection for slice s: failed to parse node selector" in str(_pools(item).pools("n").error)


def test_taint_rules_are_merged_into_the_devices_they_name() -> None:
    own = DeviceTaint(key="own", effect="NoSchedule")
    rule = DeviceTaintRule(
        spec=DeviceTaintRuleSpec(
            device_selector=DeviceTaintSelector(driver="gpu.nvidia.com", device="gpu-0"),
            taint=DeviceTaint(key="rule", effect="NoExecute"),
        )
    )
    devices = [Device(name="gpu-0", taints=(own,)), Device(name="gpu-1")]
    inventory = Inventory(msgspec.structs.replace(cluster({"n": devices}), taint_rules=(rule,)))
    rows = inventory.pools("n").pools[0].rows
    assert [[taint.key for taint in inventory.taints(row)] for row in rows] == [["own", "rule"], []]


def test_admin_access_does_not_hold_a_device_and_double_holding_is_reported() -> None:
    held = holding("n", "gpu-0", name="one")
    allocation = held.status.allocation
    assert allocation is not None
    (result,) = allocation.devices.results
    admin = msgspec.structs.replace(
        held,
        status=msgspec.structs.replace(
            held.status,
            allocation=msgspec.structs.replace(
                allocation,
                devices=msgspec.structs.replace(
                    allocation.devices, results=(msgspec.structs.replace(result, admin_access=True),)
                ),
            ),
        ),
    )
    inventory = Inventory(cluster({"n": gpus({"a": range(2)})}))
    inventory.hold_claim(admin)
    assert KEY not in inventory.usage.holders
    inventory.hold_claim(held).hold_claim(holding("n", "gpu-0", name="two"))
    assert any("held by more than one claim: default/one, default/two" in p for p in inventory.problems())
    inventory.release_claim(held).release_claim("default/two")
    assert inventory.usage.holders == {} and inventory.problems() == ()


# --- incremental equals fresh ------------------------------------------------------------------------------


@st.composite
def _changes(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    node = st.sampled_from(["n0", "n1", "n2"])
    names = st.lists(st.sampled_from(["gpu-0", "gpu-1", "gpu-2"]), unique=True)
    step = st.one_of(
        st.tuples(st.just("publish"), node, names, st.integers(1, 3)),
        st.tuples(st.just("hold"), node, names, st.sampled_from(["x", "y"])),
        st.tuples(st.just("release"), st.sampled_from(["x", "y"])),
        st.tuples(st.just("network"), names),
    )
    return draw(st.lists(step, max_size=12))


def _network(names: list[str]) -> ResourceSlice:
    return ResourceSlice(
        metadata=ObjectMeta(name="network"),
        spec=ResourceSliceSpec(
            driver="gpu.nvidia.com",
            pool=ResourcePool(name="net", generation=1, resource_slice_count=1),
            all_nodes=True,
            devices=_devices(*names),
        ),
    )


def _apply(inventory: Inventory, step: tuple[Any, ...], state: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """One change, to the inventory and to the plain record of what there is."""
    slices, claims = state
    match step:
        case ("publish", node, names, generation):
            item = node_slice(node, [device(name, at=generation) for name in names], generation=generation)
            slices[node] = item
            inventory.replace_slices(node, [item])
        case ("network", names):
            slices["network"] = _network(names)
            inventory.set_slice(slices["network"])
        case ("hold", node, names, who):
            claims[who] = holding(node, *names, name=who)
            inventory.hold_claim(claims[who])
        case ("release", who):
            claims.pop(who, None)
            inventory.release_claim(f"default/{who}")


@settings(max_examples=150)
@given(_changes())
def test_changes_one_by_one_give_the_inventory_that_is_built_afresh(steps: list[tuple[Any, ...]]) -> None:
    inventory = Inventory(Snapshot(classes=(device_class(),)))
    state: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for step in steps:
        _apply(inventory, step, state)
        inventory.pools("n0")  # fills the memory that a later change must forget
    fresh = Inventory(
        Snapshot(slices=tuple(state[0].values()), claims=tuple(state[1].values()), classes=(device_class(),))
    )
    assert inventory.node_names() == fresh.node_names()
    assert set(inventory.usage.holders) == set(fresh.usage.holders)
    assert inventory.unpublished() == fresh.unpublished()
    for node in ("n0", "n1", "n2"):
        assert _seen(inventory, node) == _seen(fresh, node)
        wanted = [claim(request(count=2))]
        assert allocate(inventory, node, wanted).devices == allocate(fresh, node, wanted).devices


def _seen(inventory: Inventory, node: str) -> object:
    return [
        (
            pool.id,
            pool.generation,
            [(inventory.key(row), list(inventory.table.attributes_of(row))) for row in pool.rows],
        )
        for pool in inventory.pools(node).pools
    ]
