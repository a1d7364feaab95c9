"""A node whose partitions draw on one common counter, as MIG devices do."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from baro.model.kinds.base import KubeObject
from baro.model.kinds.resource import Counter, CounterSet, Device, DeviceCounterConsumption
from tests.support.cluster import device, device_class, node_slice
from tests.support.explain import node


def partition(name: str, amount: int) -> Device:
    """A device that takes that much of the counter ``memory``."""
    uses = DeviceCounterConsumption(counter_set="gpu", counters={"memory": Counter(value=str(amount))})
    return msgspec.structs.replace(device(name, type="mig"), consumes_counters=(uses,))


def partitions(parts: Mapping[str, int], *, total: int) -> tuple[KubeObject, ...]:
    """Node ``a``, its class, the counter of ``total`` and the partitions."""
    counters = node_slice("a", [], name="a-counters", generation=2, count=2)
    spec = msgspec.structs.replace(
        counters.spec,
        shared_counters=(CounterSet(name="gpu", counters={"memory": Counter(value=str(total))}),),
    )
    devices = [partition(name, amount) for name, amount in parts.items()]
    return (
        node("a"),
        device_class(),
        msgspec.structs.replace(counters, spec=spec),
        node_slice("a", devices, name="a-parts", generation=2, count=2),
    )
