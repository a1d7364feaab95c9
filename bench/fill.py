"""The planner alone, without an API: a cluster of 8-GPU nodes filled to 90 %, then claims coming and going.

Every claim is placed (``place``) and counted as held (``hold_claim``), one after the other. Prints claims per
second and milliseconds per claim for several cluster sizes, for a mix of request sizes and both policies; the
last column compares the cost per claim with that of the smallest cluster. Nothing is asserted.
Run: ``python bench/fill.py [--nodes 1000,3000,10000] [--limit CLAIMS] [--churn CLAIMS] [--cpu]``.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from baro.allocator import Policy
from baro.inventory import Inventory
from baro.model.kinds.resource import Device, ResourceClaim
from baro.placement import place
from tests.support.cluster import claim, cluster, device, request

SIZES = {1: 50, 2: 20, 4: 20, 8: 10}
"""GPUs of a claim → its share of the claims in per cent."""
FULL = 0.9


def machine(node: str) -> list[Device]:
    """Eight GPUs in two NVLink islands of four, with what a driver publishes of each."""
    return [
        device(
            f"gpu-{index}",
            memory="141Gi",
            type="gpu",
            index=index,
            uuid=f"GPU-{node}-{index}",
            productName="NVIDIA H200 NVL",
            model="H200",
            nvlinkDomain=f"{node}-{index // 4}",
            numaNode=index // 4,
            pcieRoot=f"pci0000:{index:02x}",
            pciBusID=f"0000:{index:02x}:00.0",
        )
        for index in range(8)
    ]


def wanted(seed: int) -> Iterator[ResourceClaim]:
    """Claims as a template would make them: few specs, each claim with a name of its own."""
    random_ = random.Random(seed)  # noqa: S311 - for a repeatable load
    templates = {size: claim(request(count=size)) for size in SIZES}
    number = 0
    while True:
        size = random_.choices(list(SIZES), list(SIZES.values()))[0]
        template = templates[size]
        number += 1
        meta = msgspec.structs.replace(template.metadata, name=f"claim-{number}", uid=f"uid-{number}")
        yield msgspec.structs.replace(template, metadata=meta)


class Run:
    """One cluster, filled and then churned. Times are seconds per claim."""

    def __init__(self, nodes: int, policy: Policy, clock: Callable[[], float]) -> None:
        names = [f"node-{index:05}" for index in range(nodes)]
        self.inventory = Inventory(cluster({name: machine(name) for name in names}))
        self.policy = policy
        self.clock = clock
        self.claims = wanted(seed=nodes)
        self.held: list[ResourceClaim] = []
        self.spent: list[float] = []
        self.evaluations = 0
        self.full = int(nodes * 8 * FULL)
        self.used = 0

    def one(self) -> bool:
        """Place and hold one claim; false when it fits nowhere."""
        item = next(self.claims)
        start = self.clock()
        found = place(self.inventory, [item], policy=self.policy)
        if found.fits:
            status = msgspec.structs.replace(item.status, allocation=found.allocations[0])
            item = msgspec.structs.replace(item, status=status)
            self.inventory.hold_claim(item)
        self.spent.append(self.clock() - start)
        self.evaluations += found.evaluations
        if found.fits:
            self.held.append(item)
            self.used += len(found.allocations[0].devices.results)
        return found.fits

    def fill(self, limit: int) -> None:
        """Claims until 90 % of the GPUs are held; those that fit nowhere are left waiting."""
        while self.used < self.full and len(self.spent) < limit:
            self.one()

    def churn(self, count: int) -> None:
        """Release a claim, place new ones until 90 % are held again, and so on."""
        random_ = random.Random(1)  # noqa: S311 - for a repeatable load
        self.spent, self.evaluations = [], 0
        while len(self.spent) < count:
            at = random_.randrange(len(self.held))
            self.held[at], self.held[-1] = self.held[-1], self.held[at]
            gone = self.held.pop()
            allocation = gone.status.allocation
            self.used -= len(allocation.devices.results) if allocation else 0
            start = self.clock()
            self.inventory.release_claim(gone)
            released = self.clock() - start
            self.one()
            self.spent[-1] += released


def row(what: str, nodes: int, run: Run, base: dict[tuple[str, str], float]) -> str:
    spent = sorted(run.spent)
    mean = sum(spent) / len(spent)
    first = base.setdefault((what, run.policy), mean)
    p50, p99 = (1000 * spent[int(len(spent) * part)] for part in (0.5, 0.99))
    return (
        f"{what:<6}{run.policy:>10}{nodes:>7}{len(spent):>8}{1 / mean:>10.0f}{p50:>9.2f}{p99:>9.2f}"
        f"{1000 * spent[-1]:>9.1f}{run.evaluations / len(spent):>10.3f}{mean / first:>8.2f}"
    )


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="1000,3000,10000", help="cluster sizes, separated by commas")
    parser.add_argument("--limit", type=int, default=10**9, help="stop filling after that many claims")
    parser.add_argument("--churn", type=int, default=5000, help="claims placed in the full cluster")
    parser.add_argument("--cpu", action="store_true", help="CPU time instead of wall time, on a busy machine")
    given = parser.parse_args(arguments)
    clock = time.process_time if given.cpu else time.perf_counter
    print(f"{'':<6}{'policy':>10}{'nodes':>7}{'claims':>8}{'claims/s':>10}{'p50 ms':>9}{'p99 ms':>9}", end="")
    print(f"{'max ms':>9}{'eval/claim':>11}{'ratio':>7}")
    base: dict[tuple[str, str], float] = {}
    for policy in (Policy.TOPOLOGY, Policy.FIRST_FIT):
        for nodes in map(int, given.nodes.split(",")):
            run = Run(nodes, policy, clock)
            run.fill(given.limit)
            print(row("fill", nodes, run, base), flush=True)
            if given.churn:
                run.churn(given.churn)
                print(row("churn", nodes, run, base), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
