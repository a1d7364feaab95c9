"""The vocabulary of ``nvidia-smi topo``: cells, PCIe relations, nearest NICs, lists of numbers.

Small shared pieces for the parsers, the profiles and discovery. What a path is worth in GB/s is in
``bandwidth``; what is wrong with a machine is in ``assess``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from baro.topology.machine import Gpu, Machine, Nic

PCIE_KINDS = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""PCIe relations, nearest first: one switch, several switches, host bridge, same NUMA node, across."""

RANK = {kind: rank for rank, kind in enumerate(PCIE_KINDS)}

P2P_CELLS = {
    "OK": "peer access works",
    "CNS": "chipset not supported",
    "GNS": "GPU not supported",
    "TNS": "topology not supported",
    "NS": "not supported",
    "DR": "disabled by regkey",
    "U": "unknown",
}
"""Cells of ``nvidia-smi topo -p2p`` and what its legend says of them."""

NEAR = ("PIX", "PXB", "PHB", "NODE")
"""Relations that make a NIC near; across sockets (SYS) is not near."""

_NVLINK = re.compile(r"NV(\d{1,3})\Z")
_DIGITS = re.compile(r"(\d+)")


def nvlink_count(kind: str) -> int:
    """The links of a cell ``NV<n>``; 0 for every other cell."""
    match = _NVLINK.match(kind)
    return int(match.group(1)) if match else 0


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sort key that puts ``mlx5_10`` after ``mlx5_9``."""
    parts = _DIGITS.split(name)
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in parts if part)


def parse_ranges(text: str) -> tuple[int, ...] | None:
    """The numbers of a kernel list such as ``0,3-9,11-17``, in the order given and each once.

    ``None`` when the text is no such list (also for the empty text, ``N/A`` and ``?``), and for lists of
    more than 65,536 numbers, which no machine has.
    """
    numbers: dict[int, None] = {}
    for part in text.replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > 16:
            return None
        low, high = int(first), int(last) if dash else int(first)
        if high < low or high - low > 65_535 or len(numbers) > 65_535:
            return None
        numbers.update(dict.fromkeys(range(low, high + 1)))
    return tuple(numbers)


def format_ranges(numbers: Iterable[int]) -> str:
    """The inverse of ``parse_ranges``: runs in the order given, ``0-3,8``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def pcie_relation(
    chain_a: Sequence[str],
    chain_b: Sequence[str],
    numa_a: Sequence[int] | None,
    numa_b: Sequence[int] | None,
) -> str | None:
    """The relation of two PCI devices as ``nvidia-smi topo`` names it, or ``None`` when it is not known.

    A chain is the path from the host bridge down to the port above the device, such as
    ``("pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:00.0")``. Devices below one switch, or on
    one bus, are PIX; below several switches PXB; only the host bridge in common PHB; otherwise the
    NUMA nodes decide between NODE and SYS.
    """
    if not chain_a or not chain_b:
        return None
    if chain_a[0] != chain_b[0]:
        if not numa_a or not numa_b:
            return None
        return "NODE" if numa_a[0] == numa_b[0] else "SYS"
    common = 0
    for a, b in zip(chain_a, chain_b, strict=False):
        if a != b:
            break
        common += 1
    if common == 1:
        return "PHB"
    below = max(len(chain_a), len(chain_b)) - common
    return "PIX" if below <= 1 else "PXB"


def nearest_nics(machine: Machine, gpu: int) -> tuple[str, ...]:
    """All NICs at the smallest distance from a GPU, in natural order of their names.

    Empty when the machine has none nearer than SYS, or when a hypervisor hides the real tree.
    """
    if machine.numa_hidden:
        return ()
    near = [
        (RANK[kind], natural_key(nic), nic)
        for (index, nic), kind in machine.nic_links.items()
        if index == gpu and kind in NEAR
    ]
    best = min((rank for rank, _, _ in near), default=None)
    return tuple(nic for rank, _, nic in sorted(near) if rank == best)


def nearest_nic(machine: Machine, gpu: int) -> str | None:
    """The first of ``nearest_nics``, or ``None``."""
    return next(iter(nearest_nics(machine, gpu)), None)


def sorted_gpus(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """GPUs by index: GPU10 after GPU9."""
    return tuple(sorted(gpus, key=lambda gpu: gpu.index))


def sorted_nics(nics: Iterable[Nic]) -> tuple[Nic, ...]:
    """NICs in natural order of their names."""
    return tuple(sorted(nics, key=lambda nic: natural_key(nic.name)))
