"""A cluster's life: claims come and go, slices are republished, devices vanish, taints come and go.

After every step: no device is held twice, no counter and no capacity is overdrawn, and the inventory that
lived through all of it gives the answers of one that is built afresh.
"""

from __future__ import annotations

from collections import Counter as Tally
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from baro.allocator import Policy
from baro.inventory import DeviceKey, Inventory, Snapshot
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Node
from baro.model.kinds.resource import (
    AllocationResult,
    CapacityRequirements,
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from baro.placement import Placement, place
from tests.support.cluster import DRIVER, claim, device, device_class, node_slice, request

NODES = ("n0", "n1", "n2")
SLICES_OF_MEMORY = 4
"""The counter of each GPU that is cut into partitions."""
SHARES = 10
"""The capacity of the device that claims share."""
_MIG = {
    f"mig-{size}-{start}": size
    for size, starts in ((4, (0,)), (2, (0, 2)), (1, (0, 1, 2, 3)))
    for start in starts
}


def _partition(name: str) -> Device:
    used = DeviceCounterConsumption(counter_set="gpu", counters={"slices": Counter(value=_MIG[name])})
    return msgspec.structs.replace(device(name, type="mig", size=_MIG[name]), consumes_counters=(used,))


def _whole(index: int) -> Device:
    return device(f"gpu-{index}", type="gpu", nvlinkDomain="ab"[index // 2], numaNode=index % 2)


def _shared() -> Device:
    return msgspec.structs.replace(
        device("shared", type="pool"),
        allow_multiple_allocations=True,
        capacity={"units": DeviceCapacity(value=str(SHARES))},
    )


EVERYTHING = tuple(device.name for device in (*map(_whole, range(4)), *map(_partition, _MIG), _shared()))


def _made(name: str) -> Device:
    if name == "shared":
        return _shared()
    return _partition(name) if name in _MIG else _whole(int(name.removeprefix("gpu-")))


def _selecting(kind: str, size: int | None = None) -> tuple[DeviceSelector, ...]:
    text = f"device.attributes['{DRIVER}'].type == '{kind}'"
    if size is not None:
        text += f" && device.attributes['{DRIVER}'].size == {size}"
    return (DeviceSelector(cel=CELDeviceSelector(expression=text)),)


def _wanted(kind: str, count: int, name: str) -> ResourceClaim:
    match kind:
        case "gpu":
            return claim(request(count=count, selectors=_selecting("gpu")), name=name)
        case "together":
            numa = "resource.kubernetes.io/numaNode"
            return claim(request(count=min(count, 2), selectors=_selecting("gpu")), name=name, match=numa)
        case "mig":
            cut = _selecting("mig", 1 << count % 3)
            return claim(request(count=min(count, 2), selectors=cut), name=name)
        case "share":
            capacity = CapacityRequirements(requests={"units": str(count)})
            return claim(request(selectors=_selecting("pool"), capacity=capacity), name=name)
        case "tolerant":
            anything = (DeviceToleration(operator="Exists"),)
            return claim(request(count=count, selectors=_selecting("gpu"), tolerations=anything), name=name)
        case _:
            subs = tuple(
                DeviceSubRequest(name=f"s{n}", device_class_name=DRIVER, count=n, selectors=_selecting("gpu"))
                for n in (3, 1)
            )
            return claim(DeviceRequest(name="r", first_available=subs), name=name)


KINDS = ("gpu", "together", "mig", "share", "tolerant", "ladder")


class Life(RuleBasedStateMachine):
    """One inventory through all changes, and the objects from which to build it afresh."""

    @initialize()
    def start(self) -> None:
        self.slices: dict[str, ResourceSlice] = {}
        self.held: dict[str, ResourceClaim] = {}
        self.taint_rules: tuple[DeviceTaintRule, ...] = ()
        self.nodes = {name: Node(metadata=ObjectMeta(name=name)) for name in NODES}
        self.generation = Tally[str]()
        self.number = 0
        self.inventory = Inventory(self.snapshot())
        for node in NODES:
            self.publish(node, set(), 1)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            nodes=tuple(self.nodes.values()),
            slices=tuple(self.slices.values()),
            classes=(device_class(),),
            claims=tuple(self.held.values()),
            taint_rules=self.taint_rules,
        )

    # --- what happens --------------------------------------------------------------------------------------

    @rule(
        node=st.sampled_from(NODES),
        gone=st.sets(st.sampled_from(EVERYTHING), max_size=4),
        step=st.integers(0, 1),
    )
    def publish(self, node: str, gone: set[str], step: int) -> None:
        """The node's pool anew, some devices gone; a new generation or the same one."""
        self.generation[node] += step
        devices = [_made(name) for name in EVERYTHING if name not in gone]
        sets = (CounterSet(name="gpu", counters={"slices": Counter(value=SLICES_OF_MEMORY)}),)
        parts = [
            node_slice(node, devices, name=f"{node}-devices", generation=self.generation[node], count=2),
            node_slice(node, (), name=f"{node}-counters", generation=self.generation[node], count=2),
        ]
        parts[1] = msgspec.structs.replace(
            parts[1], spec=msgspec.structs.replace(parts[1].spec, shared_counters=sets)
        )
        for part in parts:
            self.slices[part.metadata.name] = part
            self.inventory.set_slice(part)

    @rule(node=st.sampled_from(NODES), part=st.sampled_from(["devices", "counters"]))
    def lose_a_slice(self, node: str, part: str) -> None:
        if self.slices.pop(f"{node}-{part}", None) is not None:
            self.inventory.remove_slice(f"{node}-{part}")

    @rule(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=2), count=st.integers(1, 4))
    def arrive(self, kinds: list[str], count: int) -> None:
        self.number += 1
        wanted = [_wanted(kind, count, f"c{self.number}-{at}") for at, kind in enumerate(kinds)]
        for item, allocation in zip(wanted, place(self.inventory, wanted).allocations, strict=False):
            status = msgspec.structs.replace(item.status, allocation=allocation)
            held = msgspec.structs.replace(item, status=status)
            self.held[held.metadata.name] = held
            self.inventory.hold_claim(held)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.held)))
        self.inventory.release_claim(self.held.pop(name))

    @rule(
        taints=st.lists(
            st.tuples(st.sampled_from([None, *NODES]), st.sampled_from([None, "gpu-0", "mig-2-0"])),
            max_size=2,
        )
    )
    def taint(self, taints: list[tuple[str | None, str | None]]) -> None:
        self.taint_rules = tuple(
            DeviceTaintRule(
                metadata=ObjectMeta(name=f"rule-{at}"),
                spec=DeviceTaintRuleSpec(
                    device_selector=DeviceTaintSelector(driver=DRIVER, pool=pool, device=name),
                    taint=DeviceTaint(key="broken", effect="NoSchedule"),
                ),
            )
            for at, (pool, name) in enumerate(taints)
        )
        self.inventory.set_taint_rules(self.taint_rules)

    @rule(node=st.sampled_from(NODES), there=st.booleans())
    def node_comes_or_goes(self, node: str, there: bool) -> None:
        if there:
            self.nodes[node] = Node(metadata=ObjectMeta(name=node))
            self.inventory.set_node(self.nodes[node])
        else:
            self.nodes.pop(node, None)
            self.inventory.remove_node(node)

    # --- what must hold ------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_given_away_twice(self) -> None:
        whole = Tally[DeviceKey]()
        shares: dict[DeviceKey, int] = {}
        memory = Tally[str]()
        for holder in self.held.values():
            assert holder.status.allocation is not None
            for found in holder.status.allocation.devices.results:
                key = DeviceKey(found.driver, found.pool, found.device)
                if found.share_id is None:
                    whole[key] += 1
                else:
                    shares[key] = shares.get(key, 0) + int(found.consumed_capacity["units"])
                memory[found.pool] += _MIG.get(found.device, 0)
        assert all(count == 1 for count in whole.values())
        assert not whole.keys() & shares.keys()
        assert all(given <= SHARES for given in shares.values())
        assert all(used <= SLICES_OF_MEMORY for used in memory.values())
        assert list(self.inventory.usage.doubly_held()) == []

    @precondition(lambda self: not self.inventory.unpublished())
    @invariant()
    def an_inventory_built_afresh_says_the_same(self) -> None:
        """Of partitions that are published no more a fresh inventory cannot know what they consume."""
        fresh = Inventory(self.snapshot())
        assert self.inventory.node_names() == fresh.node_names()
        assert set(self.inventory.usage.holders) == set(fresh.usage.holders)
        kind = KINDS[self.number % len(KINDS)]
        for policy in (Policy.TOPOLOGY, Policy.FIRST_FIT):
            wanted = [_wanted(kind, 1 + self.number % 3, "question")]
            assert _said(place(self.inventory, wanted, policy=policy)) == _said(
                place(fresh, wanted, policy=policy)
            )


def _said(found: Placement) -> Any:
    allocations = [_without_ids(item) for item in found.allocations]
    nodes = [(d.node, d.outcome, d.error, d.score, d.free_gpus, d.island) for d in found.per_node]
    return found.fits, found.node, allocations, found.score, found.error, nodes


def _without_ids(result: AllocationResult) -> Any:
    body = msgspec.to_builtins(result)
    for item in body.get("devices", {}).get("results", ()):
        item.pop("shareID", None)
    return body


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
