"""Our CEL engine and upstream's over the same 80,000 devices, in one run: how long, and whether they agree.

The devices are synthetic: 10,000 nodes with 8 GPUs each, a mix of H100 and H200, published as ResourceSlices
that both sides read as JSON. Upstream evaluates a compiled selector device by device, as its allocator does;
ours goes over the inventory's columns. Every device's answer is compared. Figures are the best of several
rounds; compile times are medians, without the estimate of cost that only admission needs.
Run: ``python -m bench cel_peers`` or ``python bench/cel_peers.py [--nodes N]``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from baro.cel import compile_selector
from baro.cel.columns import ERROR, TRUE, evaluate_columns
from baro.inventory import Inventory, Snapshot
from baro.inventory.cel_table import CelTable
from baro.model.decode import to_kind
from baro.model.kinds.resource import ResourceSlice
from bench._peers import Peers, peers, versions
from bench.cel import DOMAIN, EXPRESSIONS, GPU, GPUS, NODES, ROUNDS, STANDARD

MORE = (
    (f"{GPU}.clique in [1, 2, 3]", "1,250 values, three wanted"),
    (f"{GPU}.missing == 'x'", "absent column: an error on every device"),
    (
        "device.attributes.exists(domain, device.attributes[domain].exists(id, id == 'uuid'))",
        "keys of all maps",
    ),
    (
        f"device.capacity['{DOMAIN}'].all(id, amount, amount.isGreaterThan(quantity('1Gi')))",
        "values of a map",
    ),
    (f"{GPU}.exists(id, {GPU}[id] == dyn(1249))", "values of a map: all differ"),
    ("device.attributes == {}", "equality of maps: all differ"),
    (
        f"{GPU} == {{'uuid': dyn('GPU-00000007'), 'type': dyn('gpu'), 'index': dyn(7), 'clique': dyn(0),"
        " 'productName': dyn('NVIDIA H200'), 'driverVersion': dyn(semver('570.133.20'))}",
        "equality with a constant: all differ",
    ),
    ("device.attributes.exists(domain, map, map.exists(id, v, v == dyn(1249)))", "all maps: all differ"),
    (f"{GPU}.exists_one(id, string({GPU}[id]).endsWith('7'))", "exists_one: all differ"),
    (f"dyn(1249) in {GPU}.map(id, {GPU}[id])", "in a list of the values: all differ"),
    (f"{GPU}.map(id, {GPU}[id]).exists(v, v == dyn(1249))", "a list of the values: all differ"),
    (f"{GPU}.transformMap(id, v, v == dyn(1249)).size() == 1", "a map of the values: all differ"),
    ("device.attributes[device.driver].uuid.endsWith('7')", "computed domain: all differ"),
)


def slices(nodes: int) -> Iterator[dict[str, Any]]:
    """The devices as an API server would return them; NUMA nodes and products alternate."""
    for node in range(nodes):
        h200 = node % 3 == 0
        name = f"node-{node:05}"
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": {
                "driver": DOMAIN,
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [_device(node, index, h200) for index in range(GPUS)],
            },
        }


def _device(node: int, index: int, h200: bool) -> dict[str, Any]:
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "type": {"string": "gpu"},
            "index": {"int": index},
            "productName": {"string": "NVIDIA H200" if h200 else "NVIDIA H100 80GB HBM3"},
            "driverVersion": {"version": "570.133.20"},
            "clique": {"int": node // 8},
            "uuid": {"string": f"GPU-{node * GPUS + index:08d}"},
            f"{STANDARD}/numaNode": {"int": index // 4},
        },
        "capacity": {"memory": {"value": "143771Mi" if h200 else "81559Mi"}},
    }


def send(running: Peers, nodes: int) -> Inventory:
    """Both sides read the same slices; ours as an inventory."""
    held = []
    for body in slices(nodes):
        running.tell({"task": "slice", "resourceSlice": body})
        item = to_kind(body)
        assert isinstance(item, ResourceSlice)
        held.append(item)
    return Inventory(Snapshot(slices=tuple(held)))


class Row(msgspec.Struct, frozen=True):
    """One expression. Times are nanoseconds per device, compile times microseconds."""

    label: str
    tuples: int
    matches: int
    ours: float
    theirs: float
    compile_ours: float
    compile_theirs: float
    said: str


def measure(running: Peers, inventory: Inventory, expression: str, label: str, cap: float) -> Row:
    """Both sides of one expression."""
    table = CelTable(inventory.table)
    program = compile_selector(expression)
    rounds = [_timed(lambda: evaluate_columns(program, table)) for _ in range(ROUNDS)]
    result = evaluate_columns(program, table)
    compiling = [_timed(lambda: compile_selector.__wrapped__(expression)) for _ in range(5 * ROUNDS)]
    theirs = running.ask(
        {"task": "cel", "name": label, "expression": expression, "repeats": ROUNDS, "capSeconds": cap}
    )
    return Row(
        label=label,
        tuples=len(result.tuples),
        matches=int((result.outcome == TRUE).sum()),
        ours=min(rounds) / table.size,
        theirs=theirs.get("roundNs", 0) / table.size,
        compile_ours=statistics.median(compiling) / 1e3,
        compile_theirs=theirs.get("compileNs", 0) / 1e3,
        said=agreement(result.outcome, theirs),
    )


def _timed(run: Callable[[], object]) -> int:
    start = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - start


def agreement(outcome: NDArray[np.int8], theirs: dict[str, Any]) -> str:
    """Whether every device has the same answer on both sides: matches, does not, or fails."""
    if theirs.get("error"):
        return f"DIFFER: upstream says {theirs['error']}"
    differing = np.zeros(len(outcome), dtype=bool)
    for key, value in (("matched", TRUE), ("failed", ERROR)):
        packed = np.frombuffer(bytes.fromhex(theirs[key]), dtype=np.uint8)
        differing |= np.unpackbits(packed, count=len(outcome), bitorder="little") != (outcome == value)
    return f"DIFFER on {int(differing.sum())} devices" if differing.any() else "same"


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, default=NODES, help="nodes of 8 devices")
    parser.add_argument("--cap", type=float, default=10.0, help="seconds of rounds per expression, upstream")
    options = parser.parse_args(arguments)
    with peers() as running:
        if running is None:
            return
        print(f"upstream: {versions(running)}")
        inventory = send(running, options.nodes)
        print(f"{inventory.table.size:,} synthetic devices, best of {ROUNDS}; ns per device")
        print(f"{'':40} {'':>14} {'ns per device':>17} {'upstream':>8} {'compile, µs':>15}")
        print(
            f"{'':40} {'tuples':>7} {'match':>6} {'ours':>8} {'upstream':>8} {'/ ours':>8}"
            f" {'ours':>6} {'upstream':>8}  answers"
        )
        differing = 0
        for expression, label in (*EXPRESSIONS, *MORE):
            print(f"bench: {label}", file=sys.stderr, flush=True)
            row = measure(running, inventory, expression, label, options.cap)
            differing += row.said != "same"
            print(
                f"{row.label:40} {row.tuples:>7} {row.matches:>6} {row.ours:>8.1f}"
                f" {row.theirs:>8,.0f} {row.theirs / row.ours:>8,.{0 if row.theirs > 100 * row.ours else 1}f}"
                f" {row.compile_ours:>6.0f} {row.compile_theirs:>8.0f}  {row.said}"
            )
        print("\nno device on which the sides disagree" if not differing else f"\n{differing} rows DIFFER")


if __name__ == "__main__":
    main(sys.argv[1:])
