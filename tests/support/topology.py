"""Machines for tests: from a few cells, at random, from captures; goldens; slow and obvious checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import combinations, permutations
from pathlib import Path

from hypothesis import strategies as st

from baro.topology.links import PCIE_KINDS, nvlink_count
from baro.topology.machine import Gpu, Link, Machine, Nic, Pair

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "topo"


def golden(name: str, text: str) -> str:
    """The committed text. ``BARO_UPDATE_GOLDEN=1`` writes it anew: look at the difference first."""
    file = GOLDEN / name
    if os.environ.get("BARO_UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return file.read_text(encoding="utf-8")


def machine_of(cells: Mapping[Pair, str], count: int, product: str | None = None) -> Machine:
    """A machine with these cells; pairs that are not named are SYS."""
    links = {
        pair: Link(kind=kind, nvlinks=nvlink_count(kind))
        for pair in combinations(range(count), 2)
        for kind in [cells.get(pair, "SYS")]
    }
    gpus = tuple(Gpu(index=index, product_name=product) for index in range(count))
    return Machine(gpus=gpus, links=links)


def mesh(group: range | tuple[int, ...], kind: str) -> dict[Pair, str]:
    """Every pair of a group with the same cell."""
    return dict.fromkeys(combinations(group, 2), kind)


def every_maximal_set(count: int, linked: Callable[[int, int], bool]) -> set[tuple[int, ...]]:
    """All maximal fully linked sets of two and more, by trying every subset."""
    full = [
        set(group)
        for size in range(2, count + 1)
        for group in combinations(range(count), size)
        if all(linked(a, b) for a, b in combinations(group, 2))
    ]
    return {tuple(sorted(group)) for group in full if not any(group < other for other in full)}


def every_ring(size: int) -> list[tuple[int, ...]]:
    """All rings over 0 … size-1, each once, by permutation."""
    rest = permutations(range(1, size))
    return [(0, *order) for order in rest if size <= 2 or order[0] < order[-1]]


def hops(ring: tuple[int, ...]) -> list[Pair]:
    """The pairs of a ring, smaller index first."""
    steps = zip(ring, (*ring[1:], ring[0]), strict=True)
    return [(a, b) if a < b else (b, a) for a, b in steps]


KINDS = st.sampled_from([*PCIE_KINDS, "NV1", "NV2", "NV4", "NV6", "NV12", "NV18"])
_NODES = st.one_of(st.none(), st.lists(st.integers(0, 15), min_size=1, max_size=3, unique=True).map(tuple))
_CPUS = st.one_of(st.none(), st.lists(st.integers(0, 300), min_size=1, max_size=12, unique=True).map(tuple))
_NIC_NAMES = st.lists(st.sampled_from([f"NIC{i}" for i in range(12)]), max_size=4, unique=True)


@st.composite
def machines(draw: st.DrawFn, most: int = 6) -> Machine:
    """Any machine that ``topo -m`` can print: gaps in the indices, unknown affinities, NICs with a legend."""
    indices = sorted(draw(st.sets(st.integers(0, 15), min_size=1, max_size=most)))
    gpus = tuple(Gpu(index=i, numa=draw(_NODES), cpus=draw(_CPUS)) for i in indices)
    kinds = {pair: draw(KINDS) for pair in combinations(indices, 2)}
    nics = tuple(
        Nic(name=name, device=draw(st.sampled_from([None, "mlx5_0", "mlx5_bond_0"])))
        for name in sorted(draw(_NIC_NAMES), key=lambda name: int(name[3:]))
    )
    return Machine(
        gpus=gpus,
        nics=nics,
        links={pair: Link(kind=kind, nvlinks=nvlink_count(kind)) for pair, kind in kinds.items()},
        nic_links={(i, nic.name): draw(st.sampled_from(PCIE_KINDS)) for i in indices for nic in nics},
    )
