"""``Machine`` → the matrix that ``nvidia-smi topo -m`` prints: tabs, NIC rows, affinities, legend.

What the format cannot carry is lost (product names, UUIDs, PCI addresses, GB/s). Cells that are not known
are ``N/A``, which ``topo_m.parse`` reads as unknown.
"""

from __future__ import annotations

from itertools import chain

from baro.topology.links import format_ranges
from baro.topology.machine import Gpu, Machine, Nic

_LEGEND = """
Legend:

  X    = the device itself
  SYS  = PCIe and the interconnect between NUMA nodes
  NODE = PCIe and the interconnect between host bridges of one NUMA node
  PHB  = PCIe and one host bridge
  PXB  = several PCIe switches, no host bridge
  PIX  = at most one PCIe switch
  NV#  = a bonded set of # NVLinks
"""

_NONE = "N/A"


def render(machine: Machine) -> str:
    """The matrix as text with a line feed at the end."""
    names = [*(f"GPU{gpu.index}" for gpu in machine.gpus), *(nic.name for nic in machine.nics)]
    lines = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    lines += [_gpu_row(machine, gpu) for gpu in machine.gpus]
    lines += [_nic_row(machine, nic) for nic in machine.nics]
    text = "\n".join(lines) + "\n" + _LEGEND
    named = [nic for nic in machine.nics if nic.device and nic.device != nic.name]
    if named:
        text += "\nNIC Legend:\n\n" + "".join(f"  {nic.name}: {nic.device}\n" for nic in named)
    return text


def _gpu_row(machine: Machine, gpu: Gpu) -> str:
    cells = [f"GPU{gpu.index}"]
    for other in machine.gpus:
        link = machine.link(gpu.index, other.index)
        cells.append(" X " if other.index == gpu.index else link.kind if link else _NONE)
    cells += [machine.nic_links.get((gpu.index, nic.name), _NONE) for nic in machine.nics]
    cpus = _NONE if gpu.cpus is None else format_ranges(gpu.cpus)
    numa = _NONE if gpu.numa is None else format_ranges(gpu.numa)
    own = _NONE if gpu.gpu_numa_id is None else str(gpu.gpu_numa_id)
    # The empty cell before the last column is nvidia-smi's.
    return "\t".join([*cells, cpus, numa, "", own])


def _nic_row(machine: Machine, nic: Nic) -> str:
    to_gpus = [machine.nic_links.get((gpu.index, nic.name), _NONE) for gpu in machine.gpus]
    to_nics = [" X " if other.name == nic.name else _between(nic, other) for other in machine.nics]
    return "\t".join(chain([nic.name], to_gpus, to_nics, [""] * 4))


def _between(a: Nic, b: Nic) -> str:
    """The relation of two NICs as far as their places tell it."""
    if a.pcie_switch is not None and a.pcie_switch == b.pcie_switch:
        return "PIX"
    if a.pcie_root is not None and a.pcie_root == b.pcie_root:
        return "PHB"
    if a.numa and b.numa:
        return "NODE" if a.numa[0] == b.numa[0] else "SYS"
    return _NONE
