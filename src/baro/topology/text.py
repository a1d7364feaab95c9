"""The text view of a machine: what an engineer wants to know first, then the matrix.

Plain text without colour; the command line colours it on a terminal. Columns are aligned with blanks, so
the view can be pasted into a chat and ``topo_m.parse`` still reads its matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from baro.topology.bandwidth import Prediction, Predictor
from baro.topology.islands import islands, pcie_groups
from baro.topology.links import format_ranges, nearest_nic
from baro.topology.machine import Confidence, Machine

_SIZES = (2, 4, 8, 16)
_LABEL = 13


def view(machine: Machine, chosen: Sequence[int] = ()) -> str:
    """The whole view. ``chosen`` is a set of GPU indices to compare with the best set of its size."""
    predictor = Predictor(machine)
    machine = predictor.machine
    parts = [_head(machine), *_islands(machine), *_bandwidth(machine, predictor)]
    if chosen:
        parts += compare(predictor, chosen)
    parts += [*_numa(machine), *_nics(machine), *_warnings(machine), "", matrix(machine)]
    return "\n".join(parts)


def compare(predictor: Predictor, chosen: Sequence[int]) -> list[str]:
    """Lines that set one set against the best one of its size."""
    asked = predictor.predict(chosen)
    best = predictor.best_sets((gpu.index for gpu in predictor.machine.gpus), len(asked.gpus))[0]
    lines = [_line("this set", f"{set_text(asked.gpus)}  {describe(asked)}")]
    if best.gpus == asked.gpus or best.score <= asked.score:
        lines.append(_line("", "no set of this size is better"))
    else:
        lines.append(_line("best set", f"{set_text(best.gpus)}  {describe(best)}"))
        if asked.gbps and best.gbps:
            lines.append(_line("", f"{best.gbps / asked.gbps:.1f} times this set"))
    return lines + [_line("", note) for note in asked.notes]


def describe(prediction: Prediction) -> str:
    """``24.5 GB/s ring, slowest hop 0-5 SYS (inferred)``."""
    if len(prediction.gpus) < 2:
        return "one GPU needs no ring"
    hop = ""
    if prediction.slowest_hop is not None:
        hop = (
            f", slowest hop {prediction.slowest_hop[0]}-{prediction.slowest_hop[1]} {prediction.slowest_kind}"
        )
    if prediction.gbps is None:
        return f"GB/s unknown{hop}"
    doubt = "" if prediction.confidence in (Confidence.MEASURED, Confidence.REPORTED) else " (inferred)"
    return f"{figure(prediction.gbps)} GB/s ring{hop}{doubt}"


def figure(gbps: float) -> str:
    """``450``, ``56.2``: whole numbers from 100 on, else one decimal where there is one."""
    return f"{gbps:.0f}" if gbps >= 100 or gbps == int(gbps) else f"{gbps:.1f}"


def set_text(gpus: Iterable[int]) -> str:
    """``{0,1,4-7}``: runs of three and more are shortened."""
    parts: list[str] = []
    for run in format_ranges(gpus).split(","):
        low, dash, high = run.partition("-")
        parts.append(f"{low},{high}" if dash and int(high) == int(low) + 1 else run)
    return "{" + ",".join(parts) + "}"


def product_line(machine: Machine) -> str:
    """``4× NVIDIA GeForce RTX 3090, 1× …``; the plain count when the input names no product."""
    names = Counter(gpu.product_name for gpu in machine.gpus)
    if set(names) == {None}:
        count = len(machine.gpus)
        return f"{count} GPU{'s' if count != 1 else ''}, product not told"
    return ", ".join(f"{count}× {name or 'product not told'}" for name, count in names.items())


def matrix(machine: Machine) -> str:
    """The cells of ``topo -m`` between GPUs, and each GPU's NUMA node, aligned with blanks."""
    names = [f"GPU{gpu.index}" for gpu in machine.gpus]
    rows = [["", *names, "NUMA Affinity"]]
    for gpu in machine.gpus:
        links = [machine.link(gpu.index, other.index) for other in machine.gpus]
        cells = [link.kind if link else "?" for link in links]
        cells[names.index(f"GPU{gpu.index}")] = "X"
        hidden = machine.numa_hidden or gpu.numa is None
        rows.append(
            [f"GPU{gpu.index}", *cells, "?" if hidden or gpu.numa is None else format_ranges(gpu.numa)]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _line(label: str, text: str) -> str:
    return f"{label:<{_LABEL}}{text}"


def _head(machine: Machine) -> str:
    return product_line(machine) + (f"  ({machine.source})" if machine.source else "")


def _islands(machine: Machine) -> list[str]:
    found = islands(machine)
    lines: list[str] = []
    if machine.nvlink_unknown:
        lines.append(_line("islands", "unknown: this input does not show NVLink"))
    elif not found.best:
        lines.append(_line("islands", "none: no NVLink"))
    else:
        how = {True: "through NVSwitch", False: "linked directly", None: ""}[machine.switched]
        lines.append(_line("islands", "  ".join(map(set_text, found.best)) + (f"  {how}" if how else "")))
        if len(found.grades) > 1:
            for grade in found.grades:
                lines.append(_line("", f"NV{grade.nvlinks}+: " + " ".join(map(set_text, grade.islands))))
    for level in pcie_groups(machine):
        lines.append(_line("PCIe groups", f"{level.kind}: " + " ".join(map(set_text, level.groups))))
    return lines


def _bandwidth(machine: Machine, predictor: Predictor) -> list[str]:
    free = [gpu.index for gpu in machine.gpus]
    sizes = sorted({size for size in (*_SIZES, len(free)) if 2 <= size <= len(free)})
    lines = []
    for size in sizes:
        best = predictor.best_sets(free, size)[0]
        lines.append(_line("best of " + str(size), f"{set_text(best.gpus)}  {describe(best)}"))
    return lines


def _numa(machine: Machine) -> list[str]:
    if machine.numa_hidden:
        return [_line("NUMA", "unknown: hidden by the hypervisor")]
    nodes: dict[tuple[int, ...], list[int]] = {}
    for gpu in machine.gpus:
        nodes.setdefault(gpu.numa or (), []).append(gpu.index)
    if set(nodes) == {()}:
        return [_line("NUMA", "unknown: not in this input")]
    told = [f"node {format_ranges(node) or '?'}: {set_text(gpus)}" for node, gpus in sorted(nodes.items())]
    return [_line("NUMA", "  ".join(told))]


def _nics(machine: Machine) -> list[str]:
    if not machine.nics:
        return []
    if machine.numa_hidden:
        return [_line("nearest NIC", "unknown: the hypervisor hides the PCIe tree")]
    devices = {nic.name: nic.device for nic in machine.nics}
    parts = []
    for gpu in machine.gpus:
        nic = nearest_nic(machine, gpu.index)
        device = devices.get(nic) if nic else None
        shown = device if device and device != nic else nic
        parts.append(f"{gpu.index}: {shown or 'none'}")
    return [_line("nearest NIC", "  ".join(parts))]


def _warnings(machine: Machine) -> list[str]:
    return [_line("warning", f"{warning.message} [{warning.code}]") for warning in machine.warnings]
