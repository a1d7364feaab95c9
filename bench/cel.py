"""Selectors over 80,000 devices: nanoseconds per device, with distinct tuples, compile time and costs.

Run ``python -m bench.cel``. The devices are synthetic: 10,000 nodes with 8 GPUs each, a mix of H100 and H200.
The figure to compare with is upstream's evaluator, 6.4 to 6.9 µs per device whether they look alike or not
(cel-go 0.29, measured). Budgets: at most 10 ns per device when few values differ, 2,000 ns when all do.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from baro.cel import ColumnRef, DeviceView, Value, compile_selector, estimate_cost
from baro.cel.columns import TRUE, evaluate_columns
from baro.cel.environment import environment
from baro.cel.program import checked_tree
from baro.cel.reading import MapKind
from baro.model.quantity import Quantity
from baro.model.semver import SemVer

NODES, GPUS = 10_000, 8
ROUNDS = 7
DOMAIN, STANDARD = "gpu.nvidia.com", "resource.kubernetes.io"
GPU = f"device.attributes['{DOMAIN}']"

EXPRESSIONS = (
    (f"{GPU}.?missing.orValue('x') == 'x'", "absent column"),
    (f"{GPU}.type == 'gpu' && {GPU}.index >= 4", "two columns"),
    (f"{GPU}.productName.lowerAscii().matches('^.*h100.*$')", "regex"),
    (f"device.capacity['{DOMAIN}'].memory.compareTo(quantity('79Gi')) >= 0", "capacity"),
    (
        f"{GPU}.productName.matches('H[12]00') && {GPU}.driverVersion.isGreaterThan(semver('550.0.0'))"
        f" && device.capacity['{DOMAIN}'].memory.isGreaterThan(quantity('40Gi'))"
        f" && device.attributes['{STANDARD}'].numaNode == 0",
        "four columns",
    ),
    (f"{GPU}.clique % 2 == 1", "1,250 values"),
    (f"{GPU}.uuid == 'GPU-00000007'", "unique values, ==: three classes"),
    (f"{GPU}.uuid.endsWith('7')", "unique values, a function: all differ"),
    (
        f"{GPU}.productName.matches('H[12]00') && {GPU}.driverVersion.isGreaterThan(semver('550.0.0'))"
        f" && {GPU}.clique % 2 == 1 && {GPU}.uuid.endsWith('7')",
        "four conditions, all differ",
    ),
    (f"{GPU}.exists(id, id == 'uuid' && {GPU}[id] == dyn('GPU-00000007'))", "walk, one key: all differ"),
    (f"{GPU}.filter(id, id.startsWith('u')).map(id, {GPU}[id]).size() == 1", "lists of a map: all differ"),
)


class SyntheticTable:
    """Columns of the synthetic devices; ``codes`` are made once, as an inventory keeps them."""

    def __init__(self) -> None:
        rows = np.arange(NODES * GPUS)
        node, index = rows // GPUS, rows % GPUS
        h200 = node % 3 == 0
        self.size = len(rows)
        self.broken: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        uuids = [f"GPU-{row:08d}" for row in rows.tolist()]
        self._columns: dict[tuple[str, str], tuple[NDArray[np.int32], list[Value | Quantity | None]]] = {}
        self._add("type", np.zeros(self.size), ["gpu"])
        self._add("index", index, list(range(GPUS)))
        self._add("productName", h200, ["NVIDIA H100 80GB HBM3", "NVIDIA H200"])
        self._add("driverVersion", np.zeros(self.size), [SemVer.parse("570.133.20")])
        self._add("clique", node // 8, list(range(NODES // 8)))
        self._add("uuid", rows, list(uuids))
        self._add("memory", h200, [Quantity.parse("81559Mi"), Quantity.parse("143771Mi")])
        self._add("numaNode", index // 4, [0, 1], STANDARD)
        self._code_of = {
            name: {(type(value), value): code for code, value in enumerate(values)}
            for name, (_, values) in self._columns.items()
        }

    def _add(
        self, name: str, codes: NDArray[np.generic], values: Sequence[Value | Quantity], domain: str = DOMAIN
    ) -> None:
        self._columns[domain, name] = (codes.astype(np.int32) + 1, [None, *values])

    def codes(self, column: ColumnRef) -> NDArray[np.int32] | None:
        found = self._columns.get((column.domain, column.name))
        return None if found is None else found[0]

    def vocabulary(self, column: ColumnRef) -> Sequence[Value | Quantity | None]:
        return self._columns[column.domain, column.name][1]

    def columns(self, kind: MapKind) -> list[ColumnRef]:
        names = [name for name in self._columns if (name[1] == "memory") == (kind == "capacity")]
        return [ColumnRef(kind, *name) for name in names]

    def code_of(self, column: ColumnRef, value: Value) -> int:
        return self._code_of[column.domain, column.name].get((type(value), value), 0)

    def view(self, row: int) -> DeviceView:
        attributes: dict[str, dict[str, Value]] = {}
        capacity: dict[str, dict[str, Quantity]] = {DOMAIN: {}}
        for (domain, name), (codes, values) in self._columns.items():
            value = values[int(codes[row])]
            if isinstance(value, Quantity):
                capacity[domain][name] = value
            elif value is not None:
                attributes.setdefault(domain, {})[name] = value
        return DeviceView(driver=DOMAIN, attributes=attributes, capacity=capacity)


def _best(seconds: list[float]) -> float:
    return min(seconds)


def measure_costs(table: SyntheticTable, expression: str) -> tuple[int, int, float, float]:
    """Upstream's estimate and cost on one device, µs to estimate, µs of one counted evaluation."""
    program = compile_selector(expression)
    view = table.view(5)
    estimating, counting = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        estimated = estimate_cost(program.tree)
        estimating.append(time.perf_counter() - start)
        start = time.perf_counter()
        counted = program.evaluate_with_cost(view)
        counting.append(time.perf_counter() - start)
    return estimated.max, counted.cost, _best(estimating) * 1e6, _best(counting) * 1e6


def measure(table: SyntheticTable, expression: str) -> tuple[int, int, float, float, float]:
    """Distinct tuples, matches, ns per device over columns, ns of one scalar evaluation, µs to compile."""
    program = compile_selector(expression)
    spent = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        result = evaluate_columns(program, table)
        spent.append(time.perf_counter() - start)
    view = table.view(5)
    start = time.perf_counter()
    for _ in range(2000):
        program.evaluate(view)
    scalar = (time.perf_counter() - start) / 2000
    compiling = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        checked_tree(expression, environment("stored"))
        compiling.append(time.perf_counter() - start)
    matches = int((result.outcome == TRUE).sum())
    return len(result.tuples), matches, _best(spent) / table.size * 1e9, scalar * 1e9, _best(compiling) * 1e6


def main() -> None:
    table = SyntheticTable()
    print(f"{table.size} synthetic devices, best of {ROUNDS}")
    print(f"{'':38} {'tuples':>7} {'match':>6} {'ns/device':>10} {'scalar ns':>10} {'check µs':>9}")
    for expression, label in EXPRESSIONS:
        tuples, matches, per_device, scalar, compiling = measure(table, expression)
        print(f"{label:38} {tuples:7} {matches:6} {per_device:10.1f} {scalar:10.0f} {compiling:9.0f}")
    print(
        f"\n{'costs, upstream units':38} {'estimate':>8} {'actual':>6} {'estimate µs':>12} {'counted µs':>11}"
    )
    for expression, label in EXPRESSIONS:
        estimate, cost, estimating, counting = measure_costs(table, expression)
        print(f"{label:38} {estimate:8} {cost:6} {estimating:12.0f} {counting:11.0f}")


if __name__ == "__main__":
    main()
