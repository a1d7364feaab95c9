"""Instances for comparing allocators: recipes, typical claims, a pod before many nodes, all as JSON objects.

Both sides read the same objects; upstream's through ``bench._peers``. Nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from baro.inventory import Inventory, Snapshot
from baro.model.decode import to_kind
from baro.model.kinds.base import KubeObject
from baro.model.kinds.resource import (
    Counter,
    CounterSet,
    Device,
    DeviceCounterConsumption,
    DeviceSelector,
    ResourceClaim,
    ResourceSlice,
)
from bench.allocator import NUMA, recipe
from tests.support.cluster import DRIVER, claim, cluster, device, holding, node_slice, request

GATES = (
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus",
    "DRADeviceTaints",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
)
"""On by default in Kubernetes 1.37.2 as far as they concern the allocator; its channel is *incubating*."""
MOST_PER_SLICE = 128
MIG = "g GPUs cut by MIG: g of 1g.20gb, one 7g.80gb, g of 7g.80gb; g + 1 whole GPUs are never there"
NODE = "node-1"


class Instance(msgspec.Struct, frozen=True):
    """What both sides get: ``body`` holds JSON objects as an API server would return them. Claims are for
    ``node``, or for any of ``nodes``."""

    name: str
    body: dict[str, Any]

    def task(self, repeats: int, cap: float) -> dict[str, Any]:
        """The instance as the peer reads it."""
        return {
            "task": "filter" if len(self.body["nodes"]) > 1 else "allocate",
            "name": self.name,
            "repeats": repeats,
            "capSeconds": cap,
            "features": GATES,
            **self.body,
        }

    def objects(self, key: str) -> tuple[Any, ...]:
        """The objects under a key of the body as our side reads them."""
        return tuple(found for found in map(to_kind, self.body[key]) if found is not None)

    def inventory(self) -> Inventory:
        return Inventory(
            Snapshot(
                nodes=self.objects("nodes"),
                slices=self.objects("resourceSlices"),
                classes=self.objects("deviceClasses"),
                claims=self.objects("held"),
            )
        )


def instance(
    name: str,
    slices: Iterable[ResourceSlice],
    claims: Iterable[ResourceClaim],
    held: Iterable[ResourceClaim] = (),
    nodes: Sequence[str] = (NODE,),
) -> Instance:
    """Objects of some nodes as JSON, with what an API server would have filled in."""
    frame = cluster(dict.fromkeys(nodes, ()))
    body: dict[str, Any] = {
        "node": frame.nodes[0].to_dict(),
        "nodes": _dicts(frame.nodes),
        "deviceClasses": _dicts(frame.classes),
        "resourceSlices": _dicts(slices),
        "claims": _dicts(claims),
        "held": _dicts(held),
    }
    for item in body["claims"]:
        for wanted in item["spec"]["devices"]["requests"]:
            for part in (*wanted.get("firstAvailable", ()), *filter(None, [wanted.get("exactly")])):
                part.setdefault("allocationMode", "ExactCount")
                part.setdefault("count", 1)
    return Instance(name, body)


def _dicts(objects: Iterable[KubeObject]) -> list[dict[str, Any]]:
    return [item.to_dict() for item in objects]


# --- instances -------------------------------------------------------------------------------------------


def worst(letter: str, k: int) -> Instance:
    """One of the recipes; ``k`` is the number of devices wanted (J: of results, 2g + 1)."""
    if letter == "J":
        slices, claims = mig((k - 1) // 2)
    else:
        devices, claims = recipe(letter, k)
        slices = published(devices)
    return instance(f"{letter}-{k}", slices, claims)


def published(devices: Sequence[Device]) -> list[ResourceSlice]:
    """The node's pool, in slices no larger than the API allows."""
    parts = [devices[start : start + MOST_PER_SLICE] for start in range(0, len(devices), MOST_PER_SLICE)]
    return [
        node_slice(NODE, part, name=f"{NODE}-{index}", count=len(parts)) for index, part in enumerate(parts)
    ]


def mig(g: int) -> tuple[list[ResourceSlice], list[ResourceClaim]]:
    """Recipe J: each GPU is offered as four 1g.20gb at memory slices 0, 2, 4, 6 and as one 7g.80gb."""
    counts = {f"memorySlice{index}": Counter(value="1") for index in range(8)}
    sets, cuts = [], []
    for gpu in range(g):
        name = f"gpu-{gpu:02}"
        sets.append(CounterSet(name=name, counters=counts | {"multiprocessors": Counter(value="132")}))
        for start in (0, 2, 4, 6):
            cuts.append(_cut(name, "1g.20gb", range(start, start + 2), 16))
        cuts.append(_cut(name, "7g.80gb", range(8), 132))
    # At most 8 counter sets and 64 devices with counters in a slice.
    groups = [sets[start : start + 8] for start in range(0, g, 8)]
    parts = [cuts[start : start + 60] for start in range(0, len(cuts), 60)]
    count = len(groups) + len(parts)
    slices = [
        msgspec.structs.replace(
            counters := node_slice(NODE, (), name=f"counters-{index}", count=count),
            spec=msgspec.structs.replace(counters.spec, shared_counters=tuple(group)),
        )
        for index, group in enumerate(groups)
    ]
    slices += [
        node_slice(NODE, part, name=f"devices-{index}", count=count) for index, part in enumerate(parts)
    ]
    wanted = (("small", "1g.20gb", g), ("one", "7g.80gb", 1), ("all", "7g.80gb", g))
    requests = (request(name, count=count, selectors=_profile(cut)) for name, cut, count in wanted)
    return slices, [claim(*requests)]


def _cut(gpu: str, profile: str, memory: range, multiprocessors: int) -> Device:
    taken = {f"memorySlice{index}": Counter(value="1") for index in memory}
    taken["multiprocessors"] = Counter(value=str(multiprocessors))
    return msgspec.structs.replace(
        device(f"{gpu}-{profile.replace('.', '-')}-{memory.start}", profile=profile),
        consumes_counters=(DeviceCounterConsumption(counter_set=gpu, counters=taken),),
    )


def _profile(name: str) -> tuple[DeviceSelector, ...]:
    expression = f"device.attributes['{DRIVER}'].profile == '{name}'"
    return (msgspec.convert({"cel": {"expression": expression}}, DeviceSelector),)


def typical() -> list[Instance]:
    """Claims as users write them, on a node with 8 GPUs in two NUMA nodes: empty, half in use, full."""
    h200 = (
        f"device.attributes['{DRIVER}'].model == 'H200'"
        f" && device.capacity['{DRIVER}'].memory.compareTo(quantity('80Gi')) >= 0"
    )
    selector = (msgspec.convert({"cel": {"expression": h200}}, DeviceSelector),)
    wanted = {
        "1 of 8": claim(request()),
        "1 of 8, by selector": claim(request(selectors=selector)),
        "2 of 8": claim(request(count=2)),
        "4 of 8, one NUMA node": claim(request(count=4), match=NUMA),
        "8 of 8": claim(request(count=8)),
    }
    slices = published(_eight())
    half = holding(NODE, *(f"gpu-{index}" for index in (0, 1, 4)))
    full = holding(NODE, *(f"gpu-{index}" for index in range(8)))
    return [
        *(instance(name, slices, [item]) for name, item in wanted.items()),
        instance("2 of 5 free, one NUMA node", slices, [claim(request(count=2), match=NUMA)], [half]),
        instance("4 of 5 free, one NUMA node", slices, [claim(request(count=4), match=NUMA)], [half]),
        instance("1 of a full node", slices, [claim(request())], [full]),
    ]


def _eight() -> list[Device]:
    return [
        device(f"gpu-{index}", memory="141Gi", type="gpu", index=index, model="H200", numaNode=index // 4)
        for index in range(8)
    ]


def crowd(nodes: int) -> Instance:
    """A pod that wants four GPUs of one NUMA node, before nodes with 8 GPUs of which 0 to 8 are in use."""
    names = [f"node-{index:05}" for index in range(nodes)]
    devices = _eight()
    held = [
        holding(name, *(f"gpu-{gpu}" for gpu in range(index % 9)), name=f"held-{name}")
        for index, name in enumerate(names)
        if index % 9
    ]
    slices = (node_slice(name, devices) for name in names)
    return instance(f"{nodes} nodes", slices, [claim(request(count=4), match=NUMA)], held, names)
