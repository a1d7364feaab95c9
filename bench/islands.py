"""How many multi-GPU jobs get a whole NVLink island: baro beside first fit and others on the same jobs.

A discrete-event simulation in simulated time: 64 nodes of 8 GPUs in islands, jobs of 1, 2, 4 and 8 GPUs
(40, 25, 25, 10 %), exponential times between arrivals and of running, offered load 0.9. Every policy sees the
same jobs. Decisions are made by ``placement.place`` on one ``Inventory`` that is changed by ``hold_claim``
and ``release_claim``, as in the planner. Two tables:

- *refused at once*: a job that fits nowhere is gone (a loss system), the usual setting for such comparisons;
- *waiting*: it waits, and all waiting jobs are tried again, oldest first, whenever one ends.

A set is *whole* when no set of its size on an empty machine is faster or lies in fewer islands. ``of placed``
and ``of asked`` count jobs of two GPUs or more (refused ones were asked for); no policy that takes what fits
can do better than the last line. Waiting times are in units of the mean running time. Nothing is asserted,
and no clock is read.
Run: ``python bench/islands.py [--jobs 10000] [--seeds 1,2,3] [--load 0.9] [--nodes 64]``.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from baro.allocator import Policy, predict_set
from baro.inventory import DeviceKey, Inventory
from baro.model.kinds.resource import ResourceClaim
from baro.placement import Placement, place
from tests.support.cluster import claim, cluster, gpus, request

SIZES = {1: 40, 2: 25, 4: 25, 8: 10}
"""GPUs of a job → its share of the jobs in per cent."""
ISLANDS: Mapping[str, Mapping[str, Sequence[int]]] = {
    "fours": {"a": (0, 1, 2, 3), "b": (4, 5, 6, 7)},
    "pairs": {"a": (0, 1), "b": (2, 3), "c": (4, 5), "d": (6, 7)},
}
PRODUCTS = {"fours": "NVIDIA H200 NVL", "pairs": "NVIDIA A100 80GB PCIe"}
WARM_UP = 0.2
"""Part of the jobs that only fill the cluster and are not counted."""


class Job(msgspec.Struct, frozen=True):
    number: int
    size: int
    arrives: float
    runs: float


def jobs(seed: int, count: int, load: float, gpus_: int) -> list[Job]:
    """The same jobs for every policy. Arrivals are a Poisson process, stretched so that the GPU time asked
    for is exactly ``load`` of what there is; running times are exponential."""
    random_ = random.Random(seed)  # noqa: S311 - for a repeatable load
    now = 0.0
    drawn = []
    for number in range(count):
        now += random_.expovariate(1.0)
        size = random_.choices(list(SIZES), list(SIZES.values()))[0]
        drawn.append(Job(number, size, now, random_.expovariate(1.0)))
    stretch = sum(job.size * job.runs for job in drawn) / (load * gpus_ * now)
    return [msgspec.structs.replace(job, arrives=job.arrives * stretch) for job in drawn]


def ceiling(load: float, gpus_: int) -> tuple[float, float]:
    """(of asked, refused) in per cent when any free GPUs will do wherever they are: no placement that takes
    what fits can be better. Exact for a loss system, by the recursion of Kaufman and Roberts."""
    total = sum(SIZES.values())
    mean = sum(size * share for size, share in SIZES.items()) / total
    offered = {size: load * gpus_ / mean * share / total for size, share in SIZES.items()}
    states = [1.0]
    for busy in range(1, gpus_ + 1):
        states.append(sum(k * offered[k] * states[busy - k] for k in SIZES if k <= busy) / busy)
        if states[-1] > 1e200:
            states = [state / 1e200 for state in states]
    blocked = {size: sum(states[gpus_ - size + 1 :]) / sum(states) for size in SIZES}
    multi = {size: share for size, share in SIZES.items() if size > 1}
    lost = sum(share * blocked[size] for size, share in multi.items()) / sum(multi.values())
    refused = sum(size * share * blocked[size] for size, share in SIZES.items()) / total / mean
    return 100 * (1 - lost), 100 * refused


# --- policies --------------------------------------------------------------------------------------------


class Cluster:
    """The inventory that a policy decides on, with the free GPUs per node."""

    def __init__(self, shape: str, nodes: int) -> None:
        self.names = [f"node-{index:03}" for index in range(nodes)]
        machine = {
            name: gpus(
                {f"{name}-{island}": found for island, found in ISLANDS[shape].items()},
                product=PRODUCTS[shape],
            )
            for name in self.names
        }
        self.inventory = Inventory(cluster(machine))
        self.free = dict.fromkeys(self.names, 8)


Chooser = Callable[[Cluster, ResourceClaim, int], Placement]


def baro(found: Cluster, wanted: ResourceClaim, size: int) -> Placement:
    return place(found.inventory, [wanted])


def first_fit(found: Cluster, wanted: ResourceClaim, size: int) -> Placement:
    """The first node by name with enough devices, the first devices on it: kube-scheduler's allocator."""
    return place(found.inventory, [wanted], policy=Policy.FIRST_FIT)


def _on(found: Cluster, wanted: ResourceClaim, size: int, policy: Policy, sign: int) -> Placement:
    able = [name for name in found.names if found.free[name] >= size]
    best = min(able, key=lambda name: (sign * found.free[name], name), default=found.names[0])
    return place(found.inventory, [wanted], nodes=[best], policy=policy)


def least_allocated(found: Cluster, wanted: ResourceClaim, size: int) -> Placement:
    """The emptiest node, the first devices on it: what kube-scheduler's default scoring tends to."""
    return _on(found, wanted, size, Policy.FIRST_FIT, -1)


def fullest_best_set(found: Cluster, wanted: ResourceClaim, size: int) -> Placement:
    """The fullest node that has room, then the best set on it: node and set chosen one after the other."""
    return _on(found, wanted, size, Policy.TOPOLOGY, 1)


POLICIES: Mapping[str, Chooser] = {
    "baro (node and set together)": baro,
    "fullest node, then best set": fullest_best_set,
    "first-fit": first_fit,
    "least-allocated": least_allocated,
}


# --- the simulation --------------------------------------------------------------------------------------


class Yardstick:
    """GB/s and islands of a set, beside the best that an empty machine gives for its size."""

    def __init__(self, shape: str) -> None:
        self._inventory = Cluster(shape, 1).inventory
        self._islands = tuple(frozenset(group) for group in ISLANDS[shape].values())
        self._rank = {
            frozenset(found): self._worth(found) for size in SIZES for found in combinations(range(8), size)
        }
        self._top = {size: max(self._rank[s] for s in self._rank if len(s) == size) for size in SIZES}
        self._few = {
            size: min(map(self._touched, (s for s in self._rank if len(s) == size))) for size in SIZES
        }

    def _worth(self, found: Sequence[int]) -> float:
        keys = [DeviceKey("gpu.nvidia.com", "node-000", f"gpu-{index}") for index in found]
        prediction = predict_set(self._inventory, "node-000", keys)
        return prediction.score if prediction is not None else 1.0

    def _touched(self, found: frozenset[int]) -> int:
        return sum(bool(found & island) for island in self._islands)

    def ratio(self, found: frozenset[int]) -> float:
        """Predicted bandwidth against the best set of that size."""
        return self._rank[found] / self._top[len(found)]

    def whole(self, found: frozenset[int]) -> bool:
        return self._touched(found) == self._few[len(found)] and self.ratio(found) > 0.999

    def whole_islands(self, free: frozenset[int]) -> int:
        return sum(island <= free for island in self._islands)


class Result(msgspec.Struct):
    """What one run counted. Shares are of jobs of two GPUs or more."""

    multi: int = 0
    placed: int = 0
    whole: int = 0
    ratios: float = 0.0
    asked_gpus: int = 0
    refused_gpus: int = 0
    waits: list[float] = []
    used: float = 0.0
    islands: float = 0.0
    span: float = 0.0

    def row(self) -> tuple[float, ...]:
        waits = sorted(self.waits) or [0.0]
        p50, p99 = (waits[min(len(waits) - 1, int(part * len(waits)))] for part in (0.5, 0.99))
        return (
            100 * self.whole / max(1, self.placed),
            100 * self.whole / max(1, self.multi),
            self.ratios / max(1, self.placed),
            100 * self.refused_gpus / max(1, self.asked_gpus),
            100 * self.used / max(self.span, 1e-9),
            p50,
            p99,
            self.islands / max(self.span, 1e-9),
        )


class Simulation:
    """One policy, one stream of jobs. ``waiting``: jobs that fit nowhere wait instead of going away."""

    def __init__(
        self, shape: str, nodes: int, choose: Chooser, yardstick: Yardstick, *, waiting: bool
    ) -> None:
        self.cluster = Cluster(shape, nodes)
        self.free = {name: frozenset(range(8)) for name in self.cluster.names}
        self.choose = choose
        self.yardstick = yardstick
        self.waiting = waiting
        self.result = Result()
        self._whole = {name: yardstick.whole_islands(self.free[name]) for name in self.cluster.names}
        self._islands = sum(self._whole.values())
        self._used = 0
        self._now = 0.0
        self._queue: list[Job] = []
        self._ends: list[tuple[float, int, str, frozenset[int]]] = []
        self._templates = {size: claim(request(count=size)) for size in SIZES}
        self._from = 0.0
        self._counted_from = 0

    def run(self, stream: Sequence[Job]) -> Result:
        self._counted_from = int(WARM_UP * len(stream))
        self._from = stream[self._counted_from].arrives
        for job in stream:
            while self._ends and self._ends[0][0] <= job.arrives:
                self._end(*heapq.heappop(self._ends))
            self._advance(job.arrives)
            self._count_asked(job)
            if not self._start(job):
                if self.waiting:
                    self._queue.append(job)
                elif job.number >= self._counted_from:
                    self.result.refused_gpus += job.size
        return self.result

    def _count_asked(self, job: Job) -> None:
        if job.number >= self._counted_from:
            self.result.asked_gpus += job.size
            self.result.multi += job.size > 1

    def _advance(self, now: float) -> None:
        """Integrate utilisation and whole islands over the time that counts."""
        span = now - max(self._now, self._from)
        if span > 0:
            self.result.span += span
            self.result.used += span * self._used / (8 * len(self.free))
            self.result.islands += span * self._islands
        self._now = now

    def _start(self, job: Job) -> bool:
        template = self._templates[job.size]
        meta = msgspec.structs.replace(template.metadata, name=f"job-{job.number}")
        wanted = msgspec.structs.replace(template, metadata=meta)
        found = self.choose(self.cluster, wanted, job.size)
        if not found.fits or found.node is None:
            return False
        status = msgspec.structs.replace(wanted.status, allocation=found.allocations[0])
        self.cluster.inventory.hold_claim(msgspec.structs.replace(wanted, status=status))
        devices = frozenset(int(r.device.split("-")[1]) for r in found.allocations[0].devices.results)
        if len(devices) != job.size or devices - self.free[found.node]:
            raise RuntimeError(f"job {job.number}: {sorted(devices)} of {found.node} were not all free")
        self._set_free(found.node, self.free[found.node] - devices)
        heapq.heappush(self._ends, (self._now + job.runs, job.number, found.node, devices))
        if job.number >= self._counted_from:
            self.result.waits.append(self._now - job.arrives)
            if job.size > 1:
                self.result.placed += 1
                self.result.whole += self.yardstick.whole(devices)
                self.result.ratios += self.yardstick.ratio(devices)
        return True

    def _end(self, when: float, number: int, node: str, devices: frozenset[int]) -> None:
        self._advance(when)
        self.cluster.inventory.release_claim(f"default/job-{number}")
        self._set_free(node, self.free[node] | devices)
        refused: set[int] = set()
        still: list[Job] = []
        for job in self._queue:
            # A size that fits nowhere now fits no later job of that size either.
            if job.size in refused or not self._start(job):
                refused.add(job.size)
                still.append(job)
        self._queue = still

    def _set_free(self, node: str, free: frozenset[int]) -> None:
        self._used += len(self.free[node]) - len(free)
        whole = self.yardstick.whole_islands(free)
        self._islands += whole - self._whole[node]
        self._whole[node] = whole
        self.free[node] = free
        self.cluster.free[node] = len(free)


# --- tables ----------------------------------------------------------------------------------------------

_HEADERS = (
    "of placed %",
    "of asked %",
    "GB/s ratio",
    "refused %",
    "in use %",
    "wait p50",
    "wait p99",
    "islands",
)


def table(shape: str, *, waiting: bool, given: argparse.Namespace) -> None:
    seeds = [int(text) for text in given.seeds.split(",")]
    what = "jobs that fit nowhere wait" if waiting else "jobs that fit nowhere are refused"
    print(f"\n{shape}, load {given.load}, {given.nodes} nodes of 8; {what}; mean ± sd of {len(seeds)} seeds")
    print(f"{'policy':<30}" + "".join(f"{title:>14}" for title in _HEADERS))
    yardstick = Yardstick(shape)
    for name, choose in POLICIES.items():
        rows = []
        for seed in seeds:
            stream = jobs(seed, given.jobs, given.load, 8 * given.nodes)
            rows.append(Simulation(shape, given.nodes, choose, yardstick, waiting=waiting).run(stream).row())
        cells = []
        for column in zip(*rows, strict=True):
            spread = statistics.stdev(column) if len(column) > 1 else 0.0
            digits = 3 if max(column) <= 5 else 1 if max(column) < 99 else 2
            cells.append(f"{statistics.fmean(column):.{digits}f} ±{spread:.{min(digits, 2)}f}".rjust(14))
        print(f"{name:<30}" + "".join(cells), flush=True)
    if not waiting:
        asked, refused = ceiling(given.load, 8 * given.nodes)
        print(f"{'any free GPUs will do (exact)':<44}{asked:>14.2f}{'':>14}{refused:>14.2f}")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs per seed; the first fifth fills up")
    parser.add_argument("--seeds", default="1,2,3", help="seeds, separated by commas")
    parser.add_argument("--load", type=float, default=0.9, help="offered GPUs against GPUs there are")
    parser.add_argument("--nodes", type=int, default=64)
    given = parser.parse_args(arguments)
    for shape in ISLANDS:
        for waiting in (False, True):
            table(shape, waiting=waiting, given=given)


if __name__ == "__main__":
    main(sys.argv[1:])
