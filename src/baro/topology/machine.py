"""What is known of one machine: the value that parsers, profiles and discovery all produce.

Everything that a source did not tell is ``None`` (unknown), which is different from "none there" (an
empty tuple). Bandwidths are GB/s in one direction, 1 GB = 10^9 bytes. Nothing here computes: islands are
in ``islands``, rings in ``bandwidth``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Confidence(StrEnum):
    """How a figure came about, strongest first."""

    MEASURED = "measured"
    REPORTED = "reported"
    INFERRED = "inferred"
    UNKNOWN = "unknown"


class Warn(msgspec.Struct, frozen=True):
    """Something a reader of the topology must know, such as a degraded link. Codes are stable."""

    code: str
    message: str
    gpus: tuple[int, ...] = ()


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. ``index`` is NVML's and what ``nvidia-smi`` prints; ``minor`` names the device node."""

    index: int
    minor: int | None = None
    uuid: str | None = None
    product_name: str | None = None
    model: str | None = None
    brand: str | None = None
    architecture: str | None = None
    cuda_compute_capability: str | None = None
    memory_mib: int | None = None
    pci_bus_id: str | None = None
    """Lower case with a four-digit domain: ``0000:18:00.0``."""
    pcie_root: str | None = None
    """``pci<domain>:<bus>`` as in the standard attribute ``resource.kubernetes.io/pcieRoot``."""
    pcie_switch: str | None = None
    """Bus id of the nearest upstream switch port, the same for GPUs and NICs behind one switch."""
    pcie_gen: int | None = None
    pcie_width: int | None = None
    numa: tuple[int, ...] | None = None
    """CPU NUMA nodes, nearest first; more than one means that the machine does not say which."""
    gpu_numa_id: int | None = None
    """The node of the GPU's own memory on coherent machines; never a CPU or NIC affinity."""
    cpus: tuple[int, ...] | None = None
    nvlinks: int | None = None
    """Active NVLinks of this GPU, over all peers and switches."""
    nvlinks_expected: int | None = None
    nvlink_version: int | None = None
    module_id: int | None = None
    clique: str | None = None
    """``<clusterUUID>.<cliqueId>`` of a multi-node NVLink domain."""
    mig_capable: bool | None = None


class Nic(msgspec.Struct, frozen=True, kw_only=True):
    """One NIC. ``name`` is what the matrix prints (``NIC0``, ``mlx5_0``), ``device`` the RDMA device."""

    name: str
    device: str | None = None
    pci_bus_id: str | None = None
    pcie_root: str | None = None
    pcie_switch: str | None = None
    numa: tuple[int, ...] | None = None


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """The path between two GPUs. ``kind`` is the cell of ``topo -m``: ``NV18``, ``PIX`` … ``SYS``.

    ``nvlinks`` counts the bonded links of the pair (0 when the path is PCIe). ``p2p`` is the cell of
    ``topo -p2p``: ``OK``, ``GNS`` …; ``None`` when not told.
    """

    kind: str
    nvlinks: int = 0
    gbps: float | None = None
    confidence: Confidence = Confidence.UNKNOWN
    p2p: str | None = None


Pair = tuple[int, int]
"""GPU indices, the smaller one first."""


MAX_GPUS = 32
"""More than any machine has; sources refuse more, since sets of GPUs grow without bound."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One machine as a graph. ``gpus`` are ordered by index; ``links`` holds each unordered pair once."""

    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    links: Mapping[Pair, Link] = {}
    nic_links: Mapping[tuple[int, str], str] = {}
    """(GPU index, NIC name) → PCIe relation (``PIX`` … ``SYS``)."""
    switched: bool | None = None
    """NVLinks end at switches (NVSwitch) rather than at the peer; ``None`` when not told."""
    numa_hidden: bool = False
    """A hypervisor merges or hides NUMA or PCIe: affinity facts are not to be trusted."""
    nvlink_unknown: bool = False
    """The source cannot tell NVLinks (such as ``topo -mp``): a PCIe cell does not mean "no NVLink"."""
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    source: str = ""
    """For messages: file name, ``profile hgx-h100-8``, ``NVML``."""
    warnings: tuple[Warn, ...] = ()

    def link(self, a: int, b: int) -> Link | None:
        """The path between two GPU indices in either order, or ``None`` when not told."""
        return self.links.get((a, b) if a < b else (b, a))

    def gpu(self, index: int) -> Gpu:
        """The GPU with that index. Raises ``KeyError``."""
        for gpu in self.gpus:
            if gpu.index == index:
                return gpu
        raise KeyError(index)
