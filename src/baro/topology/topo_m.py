"""``nvidia-smi topo -m`` and ``topo -p2p`` as text → ``Machine``, and back.

Everything that people paste is accepted as long as one matrix can be found (``matrix``); every oddity
becomes a warning, and what cannot be read stays unknown. Only text without any matrix is an error, which
quotes what the text says instead ("Failed to initialize NVML").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from baro.model.errors import InputError, Where
from baro.topology.assess import complete
from baro.topology.links import P2P_CELLS, RANK, natural_key, nvlink_count, parse_ranges
from baro.topology.machine import Gpu, Link, Machine, Nic, Pair, Warn
from baro.topology.matrix import CPU, GPU_NUMA, NUMA, Matrix, Row, clean, find_matrices, gpu_index
from baro.topology.topo_m_render import render

__all__ = ["merge_p2p", "parse", "parse_p2p", "render"]

_ALIASES = {"SOC": "SYS"}
"""Old drivers said SOC (a socket-level link) for what is SYS today."""

_UNKNOWN = frozenset({"", "?", "N/A", "-", "n/a"})
_LEGEND = re.compile(r"^\s*(NIC\d+)\s*:\s*(\S+)\s*$")
_ASKED_PCIE_ONLY = re.compile(r"\btopo\s+(?:-mp\b|--matrix-pci\b)")
_P2P_ONLY = frozenset(P2P_CELLS)


def parse(text: str | bytes, source: str = "") -> Machine:
    """The machine that a capture of ``nvidia-smi topo -m`` shows.

    A peer-to-peer matrix (``topo -p2p``) in the same text is merged. Raises ``InputError`` when the text
    has no ``topo -m`` matrix.
    """
    lines = clean(text, source)
    matrices = find_matrices(lines, source)
    plain = [matrix for matrix in matrices if not _is_p2p(matrix)]
    if not plain:
        raise InputError(
            "this is a peer-to-peer matrix; the machine needs `nvidia-smi topo -m` too",
            where=Where(file=source or None, line=matrices[0].line),
        )
    machine = _machine(plain[0], lines, source)
    for matrix in matrices:
        if _is_p2p(matrix):
            machine = merge_p2p(machine, _p2p_cells(matrix))
    return machine


def parse_p2p(text: str | bytes, source: str = "") -> dict[Pair, str]:
    """The cells of ``nvidia-smi topo -p2p``: ``OK``, ``GNS`` … by pair.

    Where the two directions differ, the refusal counts. Raises ``InputError`` when there is no such matrix.
    """
    for matrix in find_matrices(clean(text, source), source):
        if _is_p2p(matrix):
            return _p2p_cells(matrix)
    raise InputError(
        "there is no peer-to-peer matrix in the text",
        where=Where(file=source or None),
        next_step="give the output of `nvidia-smi topo -p2p r`",
    )


def merge_p2p(machine: Machine, cells: Mapping[Pair, str]) -> Machine:
    """The machine with the peer-to-peer cells of the pairs that it has. GB/s of refused pairs is unknown."""
    links = dict(machine.links)
    for pair, cell in cells.items():
        if pair in links:
            link = links[pair]
            refused = cell not in ("OK", "U") and not link.nvlinks
            links[pair] = (
                Link(kind=link.kind, nvlinks=0, p2p=cell)
                if refused
                else msgspec.structs.replace(link, p2p=cell)
            )
    return complete(msgspec.structs.replace(machine, links=links))


def _is_p2p(matrix: Matrix) -> bool:
    cells = {row.cells.get(name, "") for row in matrix.rows for name in matrix.columns}
    return bool(cells & _P2P_ONLY) and not cells & set(RANK) and not any(nvlink_count(c) for c in cells)


def _p2p_cells(matrix: Matrix) -> dict[Pair, str]:
    found: dict[Pair, str] = {}
    for row in matrix.rows:
        a = gpu_index(row.label)
        for name, cell in row.cells.items():
            b = gpu_index(name)
            if a is None or b is None or a == b or cell not in P2P_CELLS:
                continue
            pair = (min(a, b), max(a, b))
            if found.get(pair, "OK") == "OK":
                found[pair] = cell
    return found


def _machine(matrix: Matrix, lines: list[str], source: str) -> Machine:
    warnings: list[Warn] = []
    links = _links(matrix, warnings)
    nics = _nics(matrix, lines)
    pcie_only = not any(link.nvlinks for link in links.values()) and any(map(_ASKED_PCIE_ONLY.search, lines))
    return complete(
        Machine(
            gpus=_gpus(matrix, warnings),
            nics=nics,
            links=links,
            nic_links=_nic_links(matrix, warnings),
            nvlink_unknown=pcie_only and len(matrix.gpus) > 1,
            source=source,
            warnings=tuple(dict.fromkeys(warnings)),
        )
    )


def _gpus(matrix: Matrix, warnings: list[Warn]) -> tuple[Gpu, ...]:
    rows = {row.label: row for row in reversed(matrix.rows)}
    gpus: list[Gpu] = []
    for index in matrix.gpus:
        row = rows.get(f"GPU{index}")
        if row is None:
            warnings.append(Warn("missing-row", f"GPU{index} has a column but no row", (index,)))
            gpus.append(Gpu(index=index))
            continue
        own_node = _number(row.cells.get(GPU_NUMA, ""))
        numa = _ranges(row.cells.get(NUMA, ""), NUMA, index, warnings)
        if own_node is not None and numa:
            # Coherent machines list GPU memory as nodes too; the first node is the one with CPUs.
            numa = numa[:1]
        cpus = _ranges(row.cells.get(CPU, ""), CPU, index, warnings)
        gpus.append(Gpu(index=index, numa=numa, cpus=cpus, gpu_numa_id=own_node))
    return tuple(gpus)


def _number(cell: str) -> int | None:
    return int(cell) if cell.isdecimal() and len(cell) < 9 else None


def _ranges(cell: str, column: str, gpu: int, warnings: list[Warn]) -> tuple[int, ...] | None:
    if cell in _UNKNOWN:
        return None
    numbers = parse_ranges(cell)
    if numbers is None:
        text = f"GPU{gpu}: {column} {cell[:40]!r} is not a list of numbers; taken as unknown"
        warnings.append(Warn("unreadable-affinity", text, (gpu,)))
    return numbers


def _kind(cell: str | None) -> str | None:
    """The relation a cell names, ``None`` for anything else."""
    if cell is None:
        return None
    kind = _ALIASES.get(cell, cell)
    return kind if kind in RANK or nvlink_count(kind) else None


def _links(matrix: Matrix, warnings: list[Warn]) -> dict[Pair, Link]:
    told: dict[Pair, list[str]] = {}
    strange: dict[str, set[int]] = {}
    for row in _first_rows(matrix, warnings):
        a = gpu_index(row.label)
        if a is None:
            continue
        if any(name not in row.cells for name in matrix.columns):
            warnings.append(Warn("truncated-row", f"the row of GPU{a} ends early", (a,)))
        for b in matrix.gpus:
            cell = row.cells.get(f"GPU{b}")
            if b == a or cell is None:
                continue
            kind = _kind(cell)
            if kind is None:
                strange.setdefault(cell, set()).update((a, b))
            else:
                told.setdefault((min(a, b), max(a, b)), []).append(kind)
    for cell, gpus in sorted(strange.items()):
        text = (
            f"cell {cell[:40]!r} is not known; taken as unknown"
            if cell
            else "a cell is empty; taken as unknown"
        )
        warnings.append(Warn("unknown-cell", text, tuple(sorted(gpus))))
    return {pair: _agreed(pair, kinds, warnings) for pair, kinds in sorted(told.items())}


def _agreed(pair: Pair, kinds: Iterable[str], warnings: list[Warn]) -> Link:
    """The weaker of the two directions, with a warning when they differ."""
    ordered = sorted(set(kinds), key=lambda kind: (nvlink_count(kind), -RANK.get(kind, -1)))
    if len(ordered) > 1:
        ways = " one way and ".join(ordered)
        text = f"GPU{pair[0]} and GPU{pair[1]} are {ways} the other; {ordered[0]} is taken"
        warnings.append(Warn("asymmetric-link", text, pair))
    return Link(kind=ordered[0], nvlinks=nvlink_count(ordered[0]))


def _first_rows(matrix: Matrix, warnings: list[Warn]) -> list[Row]:
    seen: dict[str, Row] = {}
    for row in matrix.rows:
        if row.label in seen:
            gpu = gpu_index(row.label)
            text = f"{row.label} has more than one row; the first is taken"
            warnings.append(Warn("duplicate-row", text, () if gpu is None else (gpu,)))
        seen.setdefault(row.label, row)
    return list(seen.values())


def _nics(matrix: Matrix, lines: list[str]) -> tuple[Nic, ...]:
    """NICs of the columns; the legend below the matrix tells the RDMA device of ``NIC0``."""
    legend = [match for line in lines if (match := _LEGEND.match(line))]
    devices: dict[str, str] = {match.group(1): match.group(2) for match in legend}
    names = sorted(matrix.nics, key=natural_key)
    own_name = re.compile(r"NIC\d+\Z")
    return tuple(Nic(name=name, device=devices.get(name) if own_name.match(name) else name) for name in names)


def _nic_links(matrix: Matrix, warnings: list[Warn]) -> dict[tuple[int, str], str]:
    """GPU–NIC relations, from the GPU's row or else the NIC's; the weaker where both tell."""
    told: dict[tuple[int, str], set[str]] = {}
    for row in _first_rows(matrix, []):
        for name, cell in row.cells.items():
            a, b = gpu_index(row.label), gpu_index(name)
            kind = _kind(cell)
            if kind is None or kind not in RANK:
                continue
            if a is not None and name in matrix.nics:
                told.setdefault((a, name), set()).add(kind)
            elif a is None and b is not None:
                told.setdefault((b, row.label), set()).add(kind)
    agreed: dict[tuple[int, str], str] = {}
    for (gpu, nic), kinds in sorted(told.items(), key=lambda item: (item[0][0], natural_key(item[0][1]))):
        agreed[gpu, nic] = max(kinds, key=RANK.__getitem__)
        if len(kinds) > 1:
            text = f"GPU{gpu} and {nic} differ by direction; {agreed[gpu, nic]} is taken"
            warnings.append(Warn("asymmetric-link", text, (gpu,)))
    return agreed
