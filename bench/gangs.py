"""Gangs: how long the joint choice of nodes and devices takes, and that it uses no more nodes than it must.

Half the GPUs of a cluster are in use at random. Each gang is asked for twice: first with nothing known, then
again, as a planner does while it waits (nothing changed). CPU milliseconds. *bound* is the number of nodes
that counting GPUs allows at least: the free GPUs of the emptiest nodes. Bandwidth goes before few nodes, so
more may be used where pods get whole islands for it. Nothing is asserted.
Run: ``python bench/gangs.py [--nodes 1000,10000]``.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from baro.inventory import Inventory
from baro.placement.gang import GangMember, place_gang
from bench.fill import machine
from tests.support.cluster import claim, cluster, request

GANGS: dict[str, Sequence[tuple[int, int]]] = {
    "16 pods × 4": ((16, 4),),
    "64 pods × 1": ((64, 1),),
    "32 × 2 and 8 × 1": ((32, 2), (8, 1)),
    "20 × 4, 10 × 2, 10 × 1": ((20, 4), (10, 2), (10, 1)),
    "500 × 3 and 500 × 2": ((500, 3), (500, 2)),
    "10 × 8": ((10, 8),),
    "2000 × 8 (does not fit)": ((2000, 8),),
}
"""Name → (pods, GPUs of each)."""


def half_full(nodes: int) -> tuple[Inventory, list[int]]:
    """The cluster, and the free GPUs per node, most first."""
    random_ = random.Random(nodes)  # noqa: S311 - for a repeatable load
    names = [f"node-{index:05}" for index in range(nodes)]
    busy = {name: [f"gpu-{gpu}" for gpu in range(8) if random_.random() < 0.5] for name in names}
    inventory = Inventory(cluster({name: machine(name) for name in names}, busy=busy))
    return inventory, sorted((8 - len(used) for used in busy.values()), reverse=True)


def bound(free: Sequence[int], gpus: int) -> int | None:
    count = 0
    for available in free:
        if gpus <= 0:
            return count
        gpus -= available
        count += 1
    return count if gpus <= 0 else None


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="1000,10000", help="cluster sizes, separated by commas")
    given = parser.parse_args(arguments)
    print(f"{'gang':<26}{'nodes':>7}{'outcome':>9}{'used':>6}{'bound':>6}", end="")
    print(f"{'first ms':>10}{'again ms':>10}{'steps':>8}")
    for nodes in map(int, given.nodes.split(",")):
        inventory, free = half_full(nodes)
        for name, kinds in GANGS.items():
            members = [
                GangMember(claims=(claim(request(count=gpus), name=f"c{at}"),), count=pods)
                for at, (pods, gpus) in enumerate(kinds)
            ]
            spent = []
            for _ in range(2):
                start = time.process_time()
                found = place_gang(inventory, members)
                spent.append(1000 * (time.process_time() - start))
            least = bound(free, sum(pods * gpus for pods, gpus in kinds)) if found.fits else None
            print(
                f"{name:<26}{nodes:>7}{found.outcome:>9}{len(found.nodes) or '-':>6}{least or '-':>6}"
                f"{spent[0]:>10.0f}{spent[1]:>10.0f}{found.work:>8}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
