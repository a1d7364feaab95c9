"""The planner alone, without an API: a cluster of 8-GPU nodes filled to 90 %, then claims coming and going.

Every claim is placed (``place``) and counted as held (``hold_claim``), one after the other. Prints claims per
second and milliseconds per claim for several cluster sizes, for a mix of request sizes and both policies; the
last column compares the cost per claim with that of the smallest cluster. Nothing is asserted. Clusters:

- *plain*: one type of machine, two islands of four GPUs;
- *mixed*: five types of machine, one of them with four GPUs only; a third of the claims names a model;
- *mig*: GPUs offered whole and cut (shared counters); claims for slices and for whole GPUs;
- *taints*: as plain; during churn every tenth claim meets a device that is newly tainted, or no longer.

Run: ``python bench/fill.py [--nodes 1000,3000,10000] [--clusters plain,mixed,mig,taints] [--limit CLAIMS]
[--churn CLAIMS] [--cpu]``.
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
from baro.model.kinds.resource import (
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceCounterConsumption,
    DeviceSelector,
    DeviceTaint,
    ResourceClaim,
    ResourceSlice,
)
from baro.placement import place
from tests.support.cluster import DRIVER, claim, cluster, device, node_slice, request

SIZES = {1: 50, 2: 20, 4: 20, 8: 10}
"""GPUs of a claim → its share of the claims in per cent."""
FULL = 0.9
MODELS = {"H200": 2, "H100": 1, "A100": 4, "B200": 1, "L40S": 4}
"""Model → GPUs per island is 8 divided by this. L40S machines have four GPUs, each by itself."""
CUTS = {"1g.18gb": 1, "3g.71gb": 4, "whole": 8}
"""Device of a MIG-capable GPU → memory slices that it takes."""


def machine(node: str, model: str = "H200") -> list[Device]:
    """GPUs in NVLink islands, with what a driver publishes of each. H200: eight in two islands of four."""
    size = 8 // MODELS[model]
    return [
        device(
            f"gpu-{index}",
            memory="141Gi",
            type="gpu",
            index=index,
            uuid=f"GPU-{node}-{index}",
            productName=f"NVIDIA {model} NVL",
            model=model,
            numaNode=index // 4,
            pcieRoot=f"pci0000:{index:02x}",
            pciBusID=f"0000:{index:02x}:00.0",
            **({} if model == "L40S" else {"nvlinkDomain": f"{node}-{index // size}"}),
        )
        for index in range(4 if model == "L40S" else 8)
    ]


def cut_machine(node: str) -> tuple[ResourceSlice, ...]:
    """A node of two GPUs, each offered whole, as two 3g and as seven 1g, in terms of shared counters."""
    counters = node_slice(node, (), name=f"{node}-counters", count=2)
    slices = {f"memorySlice{index}": Counter(value="1") for index in range(8)}
    sets = tuple(CounterSet(name=f"gpu-{gpu}", counters=slices) for gpu in range(2))
    devices = []
    for gpu in range(2):
        for profile, size in CUTS.items():
            for start in range(0, 8 - size + 1, size):
                taken = {f"memorySlice{index}": Counter(value="1") for index in range(start, start + size)}
                cut = device(f"gpu-{gpu}-{profile.replace('.', '-')}-{start}", type="gpu", profile=profile)
                consumed = DeviceCounterConsumption(counter_set=f"gpu-{gpu}", counters=taken)
                devices.append(msgspec.structs.replace(cut, consumes_counters=(consumed,)))
    return (
        msgspec.structs.replace(counters, spec=msgspec.structs.replace(counters.spec, shared_counters=sets)),
        node_slice(node, devices, name=f"{node}-devices", count=2),
    )


def selecting(name: str, value: str) -> tuple[DeviceSelector, ...]:
    expression = f"device.attributes['{DRIVER}'].{name} == '{value}'"
    return (DeviceSelector(cel=CELDeviceSelector(expression=expression)),)


def templates(kind: str) -> list[tuple[ResourceClaim, int, int]]:
    """Claims of a cluster, with their share and the units that one takes of what is counted as used."""
    if kind == "mig":
        shares = {"1g.18gb": 60, "3g.71gb": 25, "whole": 15}
        cuts = {cut: claim(request(selectors=selecting("profile", cut))) for cut in shares}
        return [(cuts[cut], share, CUTS[cut]) for cut, share in shares.items()]
    found = [(claim(request(count=size)), share, size) for size, share in SIZES.items()]
    if kind == "mixed":
        named = ("H200", "A100")
        found += [(claim(request(count=2, selectors=selecting("model", m))), 15, 2) for m in named]
    return found


def wanted(kind: str, seed: int) -> Iterator[tuple[ResourceClaim, int]]:
    """Claims as a template would make them: few specs, each claim with a name of its own; and their units."""
    random_ = random.Random(seed)  # noqa: S311 - for a repeatable load
    items = templates(kind)
    shares = [share for _, share, _ in items]
    number = 0
    while True:
        template, _, units = random_.choices(items, shares)[0]
        number += 1
        meta = msgspec.structs.replace(template.metadata, name=f"claim-{number}", uid=f"uid-{number}")
        yield msgspec.structs.replace(template, metadata=meta), units


def inventory_of(kind: str, nodes: int) -> tuple[Inventory, int]:
    """A cluster, and how many units it has."""
    names = [f"node-{index:05}" for index in range(nodes)]
    if kind == "mig":
        snapshot = cluster(dict.fromkeys(names, ()))
        slices = tuple(item for name in names for item in cut_machine(name))
        return Inventory(msgspec.structs.replace(snapshot, slices=slices)), nodes * 16
    models = list(MODELS) if kind == "mixed" else ["H200"]
    devices = {name: machine(name, models[at % len(models)]) for at, name in enumerate(names)}
    return Inventory(cluster(devices)), sum(map(len, devices.values()))


class Run:
    """One cluster, filled and then churned. Times are seconds per claim."""

    def __init__(self, kind: str, nodes: int, policy: Policy, clock: Callable[[], float]) -> None:
        self.kind = kind
        self.inventory, units = inventory_of(kind, nodes)
        self.policy = policy
        self.clock = clock
        self.claims = wanted(kind, seed=nodes)
        self.held: list[tuple[ResourceClaim, int]] = []
        self.spent: list[float] = []
        self.evaluations = 0
        self.full = int(units * FULL)
        self.used = 0
        self._tainted: list[ResourceSlice] = []
        self._nodes = nodes

    def one(self) -> bool:
        """Place and hold one claim; false when it fits nowhere."""
        item, units = next(self.claims)
        start = self.clock()
        found = place(self.inventory, [item], policy=self.policy)
        if found.fits:
            status = msgspec.structs.replace(item.status, allocation=found.allocations[0])
            item = msgspec.structs.replace(item, status=status)
            self.inventory.hold_claim(item)
        self.spent.append(self.clock() - start)
        self.evaluations += found.evaluations
        if found.fits:
            self.held.append((item, units))
            self.used += units
        return found.fits

    def fill(self, limit: int) -> None:
        """Claims until 90 % is held; those that fit nowhere are left waiting."""
        while self.used < self.full and len(self.spent) < limit:
            self.one()

    def churn(self, count: int) -> None:
        """Release a claim, place new ones until 90 % is held again, and so on."""
        random_ = random.Random(1)  # noqa: S311 - for a repeatable load
        self.spent, self.evaluations = [], 0
        while len(self.spent) < count:
            at = random_.randrange(len(self.held))
            self.held[at], self.held[-1] = self.held[-1], self.held[at]
            gone, units = self.held.pop()
            self.used -= units
            start = self.clock()
            if self.kind == "taints" and len(self.spent) % 10 == 0:
                self._taint(random_)
            self.inventory.release_claim(gone)
            released = self.clock() - start
            self.one()
            self.spent[-1] += released

    def _taint(self, random_: random.Random) -> None:
        """A GPU of some node is tainted, and after fifty such nodes the first one is well again."""
        name = f"node-{random_.randrange(self._nodes):05}"
        healthy = node_slice(name, machine(name))
        taint = DeviceTaint(key="gpu.nvidia.com/xid", value="79", effect="NoSchedule")
        sick = msgspec.structs.replace(healthy.spec.devices[3], taints=(taint,))
        devices = (*healthy.spec.devices[:3], sick, *healthy.spec.devices[4:])
        spec = msgspec.structs.replace(healthy.spec, devices=devices)
        self.inventory.set_slice(msgspec.structs.replace(healthy, spec=spec))
        self._tainted.append(healthy)
        if len(self._tainted) > 50:
            self.inventory.set_slice(self._tainted.pop(0))


def row(what: str, nodes: int, run: Run, base: dict[tuple[str, ...], float]) -> str:
    spent = sorted(run.spent)
    mean = sum(spent) / len(spent)
    first = base.setdefault((run.kind, what, run.policy), mean)
    p50, p99 = (1000 * spent[int(len(spent) * part)] for part in (0.5, 0.99))
    evaluated = run.evaluations / len(spent)
    return (
        f"{run.kind:<8}{what:<6}{run.policy:>10}{nodes:>7}{len(spent):>8}{1 / mean:>10.0f}"
        f"{p50:>9.2f}{p99:>9.2f}{1000 * spent[-1]:>9.1f}{evaluated:>10.3f}{mean / first:>8.2f}"
    )


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="1000,3000,10000", help="cluster sizes, separated by commas")
    parser.add_argument("--clusters", default="plain,mixed,mig,taints", help="which, separated by commas")
    parser.add_argument("--limit", type=int, default=10**9, help="stop filling after that many claims")
    parser.add_argument("--churn", type=int, default=5000, help="claims placed in the full cluster")
    parser.add_argument("--cpu", action="store_true", help="CPU time instead of wall time, on a busy machine")
    given = parser.parse_args(arguments)
    clock = time.process_time if given.cpu else time.perf_counter
    print(
        f"{'cluster':<14}{'policy':>10}{'nodes':>7}{'claims':>8}{'claims/s':>10}{'p50 ms':>9}{'p99 ms':>9}",
        end="",
    )
    print(f"{'max ms':>9}{'eval/claim':>11}{'ratio':>7}")
    base: dict[tuple[str, ...], float] = {}
    for kind in given.clusters.split(","):
        for policy in (Policy.TOPOLOGY, Policy.FIRST_FIT) if kind == "plain" else (Policy.TOPOLOGY,):
            for nodes in map(int, given.nodes.split(",")):
                run = Run(kind, nodes, policy, clock)
                run.fill(given.limit)
                print(row("fill", nodes, run, base), flush=True)
                if given.churn:
                    run.churn(given.churn)
                    print(row("churn", nodes, run, base), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
