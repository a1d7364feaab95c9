"""Objects that no API server lets through, as files may hold them: one clear error, never a traceback."""

from __future__ import annotations

import msgspec
import pytest

from baro.allocator import Outcome, Policy, allocate, predict_set
from baro.inventory import Inventory, Snapshot
from baro.model.kinds.resource import (
    CapacityRequirements,
    Counter,
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceCounterConsumption,
    ResourceClaim,
)
from tests.support.cluster import claim, cluster, device, holding, request

NO_QUANTITY = "an amount is no quantity: quantities must match the regular expression"


def _changed(item: Device, **fields: object) -> Device:
    return msgspec.structs.replace(item, **fields)


def _counter() -> tuple[Snapshot, ResourceClaim]:
    used = DeviceCounterConsumption(counter_set="s", counters={"c": Counter(value="xx")})
    snapshot = cluster({"n": [_changed(device("gpu-0", type="gpu"), consumes_counters=(used,))]})
    item = snapshot.slices[0]
    sets = (CounterSet(name="s", counters={"c": Counter(value="1")}),)
    item = msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, shared_counters=sets))
    return msgspec.structs.replace(snapshot, slices=(item,)), claim()


def _shared() -> Device:
    capacity = {"m": DeviceCapacity(value="4")}
    return _changed(device("gpu-0", type="gpu"), allow_multiple_allocations=True, capacity=capacity)


def _held_amount() -> tuple[Snapshot, ResourceClaim]:
    held = holding("n", "gpu-0")
    allocation = held.status.allocation
    assert allocation is not None
    result = msgspec.structs.replace(
        allocation.devices.results[0], share_id="x", consumed_capacity={"m": "zz"}
    )
    devices = msgspec.structs.replace(allocation.devices, results=(result,))
    status = msgspec.structs.replace(
        held.status, allocation=msgspec.structs.replace(allocation, devices=devices)
    )
    snapshot = cluster({"n": [_shared()]})
    return msgspec.structs.replace(snapshot, claims=(msgspec.structs.replace(held, status=status),)), claim()


def _asked_amount() -> tuple[Snapshot, ResourceClaim]:
    wanted = request(capacity=CapacityRequirements(requests={"m": "much"}))
    return cluster({"n": [_shared()]}), claim(wanted)


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("case", [_counter, _held_amount, _asked_amount])
def test_an_amount_that_is_no_quantity_is_an_error_of_the_node(case: object, policy: Policy) -> None:
    snapshot, wanted = case()  # type: ignore[operator]
    inventory = Inventory(snapshot)
    decision = allocate(inventory, "n", [wanted], policy=policy)
    assert decision.outcome is Outcome.ERROR and str(decision.error).startswith(NO_QUANTITY)
    assert predict_set(inventory, "n", []) is None


def test_a_capacity_that_is_no_quantity_fails_every_selector_on_its_device() -> None:
    broken = _changed(device("gpu-0", type="gpu"), capacity={"m": DeviceCapacity(value="??")})
    inventory = Inventory(cluster({"n": [broken, device("gpu-1", type="gpu")]}))
    first = allocate(inventory, "n", [claim()], policy=Policy.FIRST_FIT)
    assert first.outcome is Outcome.ERROR and "on device gpu.nvidia.com/n/gpu-0: CEL runtime" in str(
        first.error
    )
    assert [key.device for key in allocate(inventory, "n", [claim()]).devices] == ["gpu-1"]
