"""The allocator on the recipes for which upstream's search needs exponential time, and on a typical claim.

Prints milliseconds (median of several runs, cold: inventory and indexes exist, nothing about the claims is
remembered) and the work counter. Run: ``python bench/allocator.py [--k 8,16,32]``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from baro.allocator import NodeDecision, Policy, allocate
from baro.inventory import Inventory
from baro.model.kinds.resource import Device, DeviceRequest, DeviceSubRequest, ResourceClaim
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


def timed(run: Callable[[], NodeDecision], times: int = 7) -> tuple[float, NodeDecision]:
    """(median milliseconds, the last answer)."""
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        decision = run()
        spent.append((time.perf_counter() - start) * 1000)
    return statistics.median(spent), decision


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--k", default="8,16,24,32", help="sizes, separated by commas")
    sizes = [int(part) for part in parser.parse_args(arguments).k.split(",")]
    print(f"{'recipe':<8}{'k':>4}{'policy':>11}{'ms':>9}{'work':>7}  outcome")
    for letter, what in RECIPES.items():
        for k in sizes:
            devices, claims = recipe(letter, k)
            inventory = Inventory(cluster({"n": devices}))
            for policy in Policy:
                ms, decision = timed(lambda i=inventory, c=claims, p=policy: allocate(i, "n", c, policy=p))  # type: ignore[misc]
                print(f"{letter:<8}{k:>4}{policy:>11}{ms:>9.2f}{decision.work:>7}  {decision.outcome}")
        print(f"  {letter}: {what}")
    inventory = Inventory(cluster({"n": gpus({"a": range(4), "b": range(4, 8)})}))
    for count in (1, 2, 4):
        for policy in Policy:
            wanted = [claim(request(count=count))]
            ms, decision = timed(lambda c=wanted, p=policy: allocate(inventory, "n", c, policy=p), 50)  # type: ignore[misc]
            print(f"{count} of 8  {policy:>15}{ms:>9.3f}{decision.work:>7}  {decision.outcome}")


if __name__ == "__main__":
    main(sys.argv[1:])
