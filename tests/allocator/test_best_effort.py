"""NVIDIA's best-effort policy: its recorded answers, and its faults."""

from __future__ import annotations

import re
from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.allocator import Policy, allocate
from baro.allocator.best_effort import points, preferred
from baro.inventory import Inventory
from baro.topology.machine import Gpu, Link, Machine
from baro.topology.profiles import load_profile
from tests.support import shared
from tests.support.cluster import claim, cluster, device, request
from tests.support.machines import with_graph

_LINE = re.compile(r"(.+) \| (all free|free \[([\d ]+)\]) \| ask (\d) \| \[([\d nil]+)\] score (\d+)$")


def _machine(nvlinks: dict[tuple[int, int], int], pix: bool = False) -> Machine:
    """Eight GPUs in two sockets; the PCIe path is told by what each GPU hangs on."""
    gpus = tuple(
        Gpu(index=i, numa=(i // 4,), pcie_switch=f"s{i // 2}" if pix else None, pcie_root=f"r{i}")
        for i in range(8)
    )
    links = {pair: Link(kind=f"NV{count}", nvlinks=count) for pair, count in nvlinks.items()}
    return Machine(gpus=gpus, links=links)


def _machines() -> dict[str, Machine]:
    dgx = load_profile("dgx-1v").machine()
    islands = [pair for four in (range(4), range(4, 8)) for pair in combinations(four, 2)]
    pairs = msgspec.structs.replace(
        _machine(dict.fromkeys([(0, 2), (1, 3), (4, 5), (6, 7)], 12)),
        gpus=tuple(Gpu(index=i, numa=(i,)) for i in range(8)),
    )
    return {
        "HGX 8x": _machine({}),
        "dgx1v": _machine({p: link.nvlinks for p, link in dgx.links.items() if link.nvlinks}, pix=True),
        "two NVLink islands": _machine(dict.fromkeys(islands, 6)),
        "pairs 0-2": pairs,
    }


def test_the_recorded_answers_of_the_policy_are_reproduced() -> None:
    machines = _machines()
    seen = differing = 0
    for line in shared.path("data/besteffort-golden.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        found = _LINE.match(line)
        assert found is not None, line
        matrix = points(next(m for name, m in machines.items() if line.startswith(name)))
        free = [int(part) for part in found[3].split()] if found[3] else list(range(8))
        mine = preferred(matrix, free, int(found[4]))
        assert mine is not None
        if "nil" in found[5]:
            # The fault that is not reproduced: a set filled up with nothing.
            differing += 1
            assert len(mine) == int(found[4])
            continue
        seen += 1
        assert (" ".join(map(str, mine)), sum(matrix[a][b] for a, b in combinations(mine, 2))) == (
            found[5], int(found[6]),
        ), line  # fmt: skip
    assert (seen, differing) == (54, 1)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_it_is_the_first_best_cut_of_all_cuts(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 7))
    size = data.draw(st.integers(2, count))
    rates = data.draw(st.lists(st.sampled_from([0, 10, 20, 100]), min_size=count**2, max_size=count**2))
    matrix = [[rates[min(a, b) * count + max(a, b)] for b in range(count)] for a in range(count)]
    best: tuple[int, list[tuple[int, ...]]] | None = None
    for sets in _all_cuts(list(range(count)), size, -count % size):
        total = sum(_worth(matrix, chosen) for chosen in sets)
        if any(-1 not in chosen for chosen in sets) and (best is None or total > best[0]):
            best = (total, [chosen for chosen in sets if -1 not in chosen])
    assert best is not None
    expected = max(best[1], key=lambda chosen: _worth(matrix, chosen))
    assert preferred(matrix, range(count), size) == expected


def _worth(matrix: list[list[int]], chosen: tuple[int, ...]) -> int:
    return sum(matrix[a][b] for a, b in combinations(chosen, 2) if min(a, b) >= 0)


def _all_cuts(left: list[int], size: int, padding: int) -> list[list[tuple[int, ...]]]:
    full = [*left, *[-1] * padding]
    if len(full) == size:
        return [[tuple(full)]]
    found = []
    for more in combinations(full[1:], size - 1):
        if more.count(-1) in (0, padding):
            rest = [gpu for gpu in left[1:] if gpu not in more]
            for tail in _all_cuts(rest, size, 0 if -1 in more else padding):
                found.append([(full[0], *more), *tail])
    return found


def test_a_claim_gets_the_set_of_the_policy_and_what_it_requires_is_in_it() -> None:
    machine = load_profile("a100-pcie-8-pairs").machine()
    inventory = Inventory(with_graph(machine, {0}))
    four = allocate(inventory, "n", [claim(request(count=4))], policy=Policy.BEST_EFFORT)
    free = [index for index in range(8) if index]
    expected = preferred(points(machine), free, 4)
    assert expected is not None and sorted(expected) == sorted(
        int(key.device.removeprefix("gpu-")) for key in four.devices
    )
    assert preferred(points(machine), free, 3, {1, 6}) is not None
    assert {1, 6} <= set(preferred(points(machine), free, 3, {1, 6}) or ())


def test_one_gpu_is_the_first_free_one_even_where_that_breaks_an_island() -> None:
    inventory = Inventory(with_graph(load_profile("h200-nvl-8").machine(), {5, 6, 7}))
    decision = allocate(inventory, "n", [claim()], policy=Policy.BEST_EFFORT)
    assert [key.device for key in decision.devices] == ["gpu-0"]


@pytest.mark.parametrize("asked", [0, 9])
def test_it_takes_nothing_where_there_is_nothing_to_take(asked: int) -> None:
    assert preferred(points(_machine({})), range(8), asked) is None


def test_constraints_of_the_claim_come_before_the_points() -> None:
    devices = [device(f"gpu-{i}", type="gpu", numaNode=i % 2, pcieSwitch=f"s{i // 2}") for i in range(8)]
    inventory = Inventory(cluster({"n": devices}))
    wanted = claim(request(count=2), match="resource.kubernetes.io/numaNode")
    decision = allocate(inventory, "n", [wanted], policy=Policy.BEST_EFFORT)
    assert decision.fits
    first, second = (int(key.device.removeprefix("gpu-")) for key in decision.devices)
    assert first % 2 == second % 2
