"""The allocator on the recipes for which upstream's search needs exponential time, and on a typical claim.

Prints milliseconds (medians of several runs) and the work counter; then what questions about a large cluster
cost, each asked once. *Cold*: the inventory and its pools exist, nothing of the node or of claims of this
kind is remembered. *Again*: a further claim of the same kind on the same node.
Run: ``python bench/allocator.py [--k 8,16,32] [--nodes 10000]``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from baro.allocator import NodeDecision, Policy, allocate
from baro.inventory import Inventory
from baro.model.kinds.resource import (
    CELDeviceSelector,
    Device,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ResourceClaim,
)
from baro.placement import place
from bench.fill import machine
from tests.support.cluster import DRIVER, claim, cluster, device, gpus, request

NUMA = "resource.kubernetes.io/numaNode"
RECIPES = {
    "A": "one request for k devices, k-1 free",
    "B": "k claims for one device each, k-1 free",
    "C": "one claim with k requests for one device, k-1 free",
    "D": "k devices with one NUMA node, two nodes with k-1 each",
    "E": "k devices with one value, only the last of 8 groups is large enough",
    "F": "k requests, each two devices or else one, k-1 free",
}


def recipe(letter: str, k: int) -> tuple[list[Device], list[ResourceClaim]]:
    """Devices and claims of one recipe."""
    few = [device(f"gpu-{index:02}", numaNode=0) for index in range(k - 1)]
    match letter:
        case "A":
            return few, [claim(request(count=k))]
        case "B":
            return few, [claim(request(), name=f"c{index}") for index in range(k)]
        case "C":
            return few, [claim(*(request(f"r{index}") for index in range(k)))]
        case "D":
            halves = [device(f"gpu-{index:02}", numaNode=index % 2) for index in range(2 * (k - 1))]
            return halves, [claim(request(count=k), match=NUMA)]
        case "E":
            sizes = [k if group == 7 else k - 1 for group in range(8)]
            eight = [
                device(f"gpu-{g}-{i:02}", numaNode=g) for g, size in enumerate(sizes) for i in range(size)
            ]
            return eight, [claim(request(count=k), match=NUMA)]
        case _:
            both = tuple(
                DeviceSubRequest(name=name, device_class_name=DRIVER, count=count)
                for name, count in (("two", 2), ("one", 1))
            )
            return few, [
                claim(*(DeviceRequest(name=f"r{index}", first_available=both) for index in range(k)))
            ]


def timed(
    inventory: Inventory, claims: Sequence[ResourceClaim], policy: Policy, times: int = 7
) -> tuple[float, float, NodeDecision]:
    """(median milliseconds cold, again, the last answer)."""
    cold: list[float] = []
    again: list[float] = []
    for _ in range(times):
        inventory.derived.clear()
        for spent in (cold, again):
            start = time.perf_counter()
            decision = allocate(inventory, "n", claims, policy=policy)
            spent.append((time.perf_counter() - start) * 1000)
    return statistics.median(cold), statistics.median(again), decision


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--k", default="8,16,24,32", help="sizes, separated by commas")
    parser.add_argument("--nodes", type=int, default=10_000, help="nodes of the cluster of questions")
    given = parser.parse_args(arguments)
    sizes = [int(part) for part in given.k.split(",")]
    print(f"{'recipe':<8}{'k':>4}{'policy':>13}{'cold ms':>9}{'again ms':>9}{'work':>7}  outcome")
    for letter, what in RECIPES.items():
        for k in sizes:
            devices, claims = recipe(letter, k)
            inventory = Inventory(cluster({"n": devices}))
            for policy in Policy:
                cold, again, decision = timed(inventory, claims, policy)
                times = f"{cold:>9.2f}{again:>9.2f}{decision.work:>7}"
                print(f"{letter:<8}{k:>4}{policy:>13}{times}  {decision.outcome}")
        print(f"  {letter}: {what}")
    inventory = Inventory(cluster({"n": gpus({"a": range(4), "b": range(4, 8)})}))
    for count in (1, 2, 4):
        for policy in Policy:
            wanted = [claim(request(count=count))]
            cold, again, decision = timed(inventory, wanted, policy, 50)
            print(f"{count} of 8{policy:>19}{cold:>9.3f}{again:>9.3f}{decision.work:>7}  {decision.outcome}")
    questions(given.nodes)


def questions(nodes: int) -> None:
    """What one question costs about a cluster of nodes that are alike, in milliseconds of CPU."""
    names = [f"node-{index:05}" for index in range(nodes)]
    inventory = Inventory(cluster({name: machine(name) for name in names}))
    values = "device.attributes['gpu.nvidia.com']"
    asked: dict[str, dict[str, Any]] = {
        "the first one": {},
        "the same, by another name": {},
        "another number of GPUs": {"count": 4},
        "a selector on an attribute not looked at so far": {"selectors": selecting(f"{values}.index < 4")},
        "the same with another constant": {"selectors": selecting(f"{values}.index < 6")},
        "a selector on a unique attribute": {"selectors": selecting(f"{values}.uuid == 'GPU-{names[-1]}-3'")},
        "more GPUs than a node has": {"count": 9},
    }
    print(f"\n{'question':<50}{'ms':>9}{'us/node':>9}{'evaluated':>11}")
    for number, (what, wish) in enumerate(asked.items()):
        wanted = [claim(request(**wish), name=f"claim-{number}")]
        start = time.process_time()
        found = place(inventory, wanted)
        ms = (time.process_time() - start) * 1000
        print(f"{what:<50}{ms:>9.2f}{1000 * ms / nodes:>9.2f}{found.evaluations:>11}")


def selecting(expression: str) -> tuple[DeviceSelector, ...]:
    return (DeviceSelector(cel=CELDeviceSelector(expression=expression)),)


if __name__ == "__main__":
    main(sys.argv[1:])
