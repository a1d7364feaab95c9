"""An inventory that remembers answers gives those of one that knows nothing yet, whatever has changed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.agent.slices import desired_slices, node_topology
from baro.allocator import DEFAULT_1_37, NodeDecision, Policy, allocate, compile_plan
from baro.allocator.cel_selectors import CelSelectors
from baro.inventory import Inventory, Snapshot
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Node, NodeSpec, Pod, PodSpec, Taint, Toleration
from baro.model.kinds.resource import (
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceSlice,
)
from baro.placement import Placement, best, place, why_excluded
from baro.placement import classes as classes_module
from baro.placement import placer as placer_module
from baro.topology.profiles import load_profile
from tests.support.cluster import DRIVER, claim, device, device_class, gpus, node_slice, request

NODES = ("n0", "n1", "n2", "n3", "n4")
NUMA = "resource.kubernetes.io/numaNode"


def _naive(
    inventory: Inventory,
    claims: Sequence[ResourceClaim],
    nodes: Iterable[str],
    policy: Policy,
    pod: Pod | None,
) -> tuple[NodeDecision | None, list[NodeDecision], tuple[tuple[str, str], ...]]:
    """Every node by itself, with an engine of its own."""
    engine = CelSelectors(inventory)
    plan = compile_plan(claims, inventory.classes, DEFAULT_1_37)
    excluded = {name: why for name in nodes if (why := why_excluded(inventory, name, pod)) is not None}
    decisions = [
        allocate(inventory, name, plan, policy=policy, selectors=engine)
        for name in sorted(set(nodes))
        if name not in excluded
    ]
    return best(decisions, policy), decisions, tuple(sorted(excluded.items()))


def _answers(decisions: Iterable[NodeDecision]) -> list[tuple[object, ...]]:
    """What must be the same of every node; devices are told for the chosen one only."""
    return [
        (d.node, d.outcome, d.error, d.score, d.free_gpus, d.island, () if d.fits else d.reasons)
        for d in decisions
    ]


def _facts(found: Placement) -> tuple[object, ...]:
    return (
        found.fits,
        found.node,
        found.allocations,
        found.score,
        found.reasons,
        found.error,
        found.excluded,
        _answers(found.per_node),
    )


# --- random life of a small cluster ------------------------------------------------------------------------


def _devices(dice: random.Random, node: str) -> list[Device]:
    kind = dice.randrange(6)
    size = dice.choice((2, 4, 4, 4))
    if kind == 0:
        return [device(f"gpu-{i}", type="gpu", numaNode=dice.randrange(2)) for i in range(size)]
    if kind == 1:
        return [device(f"gpu-{i}", type="gpu", uuid=f"{node}-{i}", memory="80Gi") for i in range(size)]
    if kind == 2:
        return [device(f"nic-{i}", numaNode=i % 2) for i in range(size)]
    if kind == 3:
        broken = msgspec.structs.replace(
            device("gpu-0", type="gpu"), taints=(DeviceTaint(key="x", effect="NoSchedule"),)
        )
        return [broken, device("gpu-1", type="gpu")]
    half = size // 2
    return list(gpus({f"{node}-a": range(half), f"{node}-b": range(half, size)}))


def _counted(node: str) -> ResourceSlice:
    """Two partitions of which the counters allow one."""
    part = DeviceCounterConsumption(counter_set="s", counters={"c": Counter(value=1)})
    devices = [
        msgspec.structs.replace(device(f"mig-{i}", type="gpu"), consumes_counters=(part,)) for i in range(2)
    ]
    item = node_slice(node, devices)
    sets = (CounterSet(name="s", counters={"c": Counter(value=1)}),)
    return msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, shared_counters=sets))


def _slice(dice: random.Random, node: str) -> ResourceSlice:
    if dice.randrange(8) == 0:
        return _counted(node)
    if dice.randrange(12) == 0:
        item = node_slice("net", [device("shared-0", type="gpu")])
        spec = msgspec.structs.replace(item.spec, node_name=None, all_nodes=True)
        return msgspec.structs.replace(item, spec=spec)
    return node_slice(node, _devices(dice, node), generation=dice.choice((1, 1, 1, 2)))


def _node(dice: random.Random, name: str) -> Node:
    taints = (Taint(key="t", effect="NoSchedule"),) if dice.randrange(4) == 0 else ()
    labels = {"zone": "x"} if dice.randrange(2) else {}
    spec = NodeSpec(unschedulable=dice.randrange(5) == 0, taints=taints)
    return Node(metadata=ObjectMeta(name=name, labels=labels), spec=spec)


def _rules(dice: random.Random) -> list[DeviceTaintRule]:
    selectors = [
        DeviceTaintSelector(driver=DRIVER, pool=dice.choice(NODES), device="gpu-0"),
        DeviceTaintSelector(device="gpu-1"),
        DeviceTaintSelector(pool=dice.choice(NODES)),
    ]
    return [
        DeviceTaintRule(
            spec=DeviceTaintRuleSpec(
                device_selector=selector, taint=DeviceTaint(key="r", effect="NoSchedule")
            )
        )
        for selector in selectors
        if dice.randrange(3) == 0
    ]


def _select(expression: str) -> tuple[DeviceSelector, ...]:
    return (DeviceSelector(cel=CELDeviceSelector(expression=expression)),)


_EXPRESSIONS = (
    f"device.attributes['{DRIVER}'].type == 'gpu'",
    f"has(device.attributes['{DRIVER}'].uuid) && device.attributes['{DRIVER}'].uuid == 'n1-0'",
    f"device.attributes['{DRIVER}'].exists(k, k == 'uuid')",
    "device.attributes['resource.kubernetes.io'].numaNode == 1",
)


def _claims(dice: random.Random, name: str) -> list[ResourceClaim]:
    count = dice.randrange(1, 5)
    kind = dice.randrange(7)
    if kind == 0:
        return [claim(request(count=count), name=name, match=NUMA)]
    if kind == 1:
        subs = tuple(DeviceSubRequest(name=f"s{n}", device_class_name=DRIVER, count=n) for n in (3, 1))
        return [claim(DeviceRequest(name="r", first_available=subs), name=name)]
    if kind == 2:
        return [claim(request(), name=name), claim(request(count=2), name=f"{name}-b")]
    if kind == 3:
        chosen = _select(dice.choice(_EXPRESSIONS))
        return [claim(request(count=min(count, 2), selectors=chosen), name=name)]
    if kind == 4:
        return [claim(request(count=count), name=name, annotations={"baro.dev/topology": "required"})]
    if kind == 5:
        return [claim(request(class_name="missing"), name=name)]
    return [claim(request(count=count), name=name)]


_PODS: tuple[Pod | None, ...] = (
    None,
    None,
    Pod(spec=PodSpec(tolerations=(Toleration(operator="Exists"),))),
    Pod(spec=PodSpec(node_selector={"zone": "x"})),
)


class Life:
    """One inventory that lives through changes, and the objects from which to make it anew."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - for repeatable examples
        self.slices = {f"{node}-{DRIVER}": node_slice(node, _devices(self.dice, node)) for node in NODES}
        self.nodes: dict[str, Node] = {}
        self.held: dict[str, ResourceClaim] = {}
        self.rules: tuple[DeviceTaintRule, ...] = ()
        self.classes = {DRIVER: device_class()}
        self.counter = 0
        self.inventory = Inventory(self.snapshot())

    def snapshot(self) -> Snapshot:
        return Snapshot(
            nodes=tuple(self.nodes.values()),
            slices=tuple(self.slices.values()),
            classes=tuple(self.classes.values()),
            claims=tuple(self.held.values()),
            taint_rules=self.rules,
        )

    def change(self) -> None:
        """One thing happens."""
        node = self.dice.choice(NODES)
        self.dice.choice(
            [
                self._hold,
                self._hold,
                self._hold,
                self._release,
                lambda: self._put_slice(_slice(self.dice, node)),
                lambda: self._drop_slice(f"{node}-{DRIVER}"),
                lambda: self._put_node(_node(self.dice, node)),
                lambda: self._drop_node(node),
                self._taint,
                self._reclass,
            ]
        )()

    def _hold(self) -> None:
        self.counter += 1
        wanted = _claims(self.dice, f"held-{self.counter}")
        found = place(self.inventory, wanted)
        for item, allocation in zip(wanted, found.allocations, strict=False):
            status = msgspec.structs.replace(item.status, allocation=allocation)
            held = msgspec.structs.replace(item, status=status)
            self.held[item.metadata.name] = held
            self.inventory.hold_claim(held)

    def _release(self) -> None:
        if self.held:
            name = self.dice.choice(sorted(self.held))
            self.inventory.release_claim(self.held.pop(name))

    def _put_slice(self, item: ResourceSlice) -> None:
        self.slices[item.metadata.name] = item
        self.inventory.set_slice(item)

    def _drop_slice(self, name: str) -> None:
        self.slices.pop(name, None)
        self.inventory.remove_slice(name)

    def _put_node(self, node: Node) -> None:
        self.nodes[node.metadata.name] = node
        self.inventory.set_node(node)

    def _drop_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.inventory.remove_node(name)

    def _taint(self) -> None:
        self.rules = tuple(_rules(self.dice))
        self.inventory.set_taint_rules(self.rules)

    def _reclass(self) -> None:
        expression = self.dice.choice(("true", f"device.driver == '{DRIVER}'", _EXPRESSIONS[0]))
        self.classes[DRIVER] = device_class(expression=expression)
        self.inventory.set_class(self.classes[DRIVER])

    def question(self) -> dict[str, Any]:
        nodes = [
            None,
            self.dice.sample(NODES, self.dice.randrange(1, 6)),
            {*self.dice.sample(NODES, 4), "unknown"},
        ]
        return {
            "policy": self.dice.choice(list(Policy)),
            "pod": self.dice.choice(_PODS),
            "nodes": self.dice.choice(nodes),
            "without": self.dice.choice([(), (), ("n0", "n3"), {"n1", "n2", "unknown"}]),
        }


@pytest.mark.parametrize(("many", "few"), [(0, 16), (1024, 0)])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_is_remembered_changes_no_answer(many: int, few: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # many 0: selectors are compared by their answers, not by the values that they read.
        # few 0: nodes that are named are looked at one by one.
        patch.setattr(classes_module, "_MANY_VALUES", many)
        patch.setattr(placer_module, "_FEW", few)
        life = Life(seed)
        for step in range(12):
            for number in range(2):
                wanted, how = _claims(life.dice, f"q-{step}-{number}"), life.question()
                found = place(life.inventory, wanted, **how)
                nodes = life.inventory.node_names() if how["nodes"] is None else how["nodes"]
                nodes = [name for name in nodes if name not in how["without"]]
                winner, decisions, excluded = _naive(life.inventory, wanted, nodes, how["policy"], how["pod"])
                assert found.node == (winner.node if winner else None)
                assert found.allocations == (winner.allocations if winner else ())
                assert found.score == (winner.score if winner else None)
                assert found.excluded == excluded
                assert _answers(found.per_node) == _answers(decisions)
                if not life.inventory.unpublished():
                    assert _facts(found) == _facts(place(Inventory(life.snapshot()), wanted, **how))
            life.change()
            assert not list(life.inventory.usage.doubly_held())


_PROFILES = ("h200-nvl-8", "h200-nvl-8-interleaved", "hgx-a100-2x4", "dgx-1v")
_GPU = "gpu.baro.dev"


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_machines_whose_graph_comes_and_goes_are_judged_as_they_are(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - for repeatable examples
    machines = {node: load_profile(dice.choice(_PROFILES)).machine() for node in (*NODES, "n5")}
    snapshot = Snapshot(
        slices=tuple(
            item for node, machine in machines.items() for item in desired_slices(machine, node=node)
        ),
        classes=(device_class(_GPU, f"device.attributes['{_GPU}'].type == 'gpu'"),),
    )
    inventory = Inventory(snapshot)
    held: dict[str, ResourceClaim] = {}
    for step in range(15):
        wanted = [claim(request(count=dice.choice((1, 2, 2, 4)), class_name=_GPU), name=f"c{step}")]
        found = place(inventory, wanted)
        winner, decisions, _ = _naive(inventory, wanted, inventory.node_names(), Policy.TOPOLOGY, None)
        assert (found.node, found.allocations) == (
            (winner.node, winner.allocations) if winner else (None, ())
        )
        assert _answers(found.per_node) == _answers(decisions)
        fresh = msgspec.structs.replace(
            snapshot,
            claims=tuple(held.values()),
            node_topologies=tuple(inventory.topologies.values()),
        )
        assert _facts(found) == _facts(place(fresh, wanted))
        node = dice.choice(NODES)
        if dice.randrange(3) == 0:
            inventory.set_topology(node_topology(machines[node], node))
        elif dice.randrange(4) == 0:
            inventory.remove_topology(node)
        if held and dice.randrange(3) == 0:
            inventory.release_claim(held.pop(dice.choice(sorted(held))))
        elif found.allocations:
            status = msgspec.structs.replace(wanted[0].status, allocation=found.allocations[0])
            held[f"c{step}"] = msgspec.structs.replace(wanted[0], status=status)
            inventory.hold_claim(held[f"c{step}"])
