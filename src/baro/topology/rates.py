"""What one path between two GPUs is worth, in GB/s in one direction.

Sources of the figures:

- NVLink: specified rate of one link (``catalog``) times the number of bonded links. Four H200 NVL on one
  bridge have three peers with 6 links of 25 GB/s each: 150 GB/s to each peer, 450 GB/s out of a GPU.
- PCIe: NCCL's own constants for x16 (``src/graph/topo.h``: 12, 24, 48, 96 GB/s for generation 3 to 6)
  times 0.85, which is what nccl-tests reaches on one root complex, times a factor for the relation:
  PIX 1, PXB 0.98, PHB 0.95, NODE 0.90, SYS 0.60. Published measurements beside this model: three A100 over
  two bridged pairs (NODE, generation 4) 20 against 18.4 (nccl-tests#178); four RTX 5090 on one socket
  (generation 5) 35 against 38.8 (nccl#1639); eight over two sockets 28 against 24.5 (nccl#1639). Take SYS as
  plus or minus 50 %: it depends on the processor interconnect.

A measured figure in ``Link.gbps`` always wins. Where neither the product nor the NVLink counts tell the
generation, the answer is ``None``; ``floor`` then serves to rank sets, never to print.
"""

from __future__ import annotations

import msgspec

from baro.topology import catalog
from baro.topology.links import RANK
from baro.topology.machine import Confidence, Gpu, Link, Machine, Pair

PCIE_X16_GBPS = {1: 3.0, 2: 6.0, 3: 12.0, 4: 24.0, 5: 48.0, 6: 96.0}
PCIE_EFFICIENCY = 0.85
RELATION_FACTOR = {"PIX": 1.0, "PXB": 0.98, "PHB": 0.95, "NODE": 0.90, "SYS": 0.60}

_RATE_OF_VERSION = {1: 20.0, 2: 25.0, 3: 25.0, 4: 25.0, 5: 50.0}
_GA102_RATE = 14.0625
_OLDEST_GEN = 3
"""Assumed to rank sets when the generation is unknown: all relations scale alike, so the order is right."""


class LinkRate(msgspec.Struct, frozen=True):
    """GB/s of one NVLink in one direction and how it is known."""

    gbps: float
    confidence: Confidence


def ports_in_use(machine: Machine) -> dict[int, int]:
    """Active NVLinks of each GPU: NVML's count, else what the matrix shows.

    Through switches the cell of every peer shows the same links, so the largest counts; directly linked
    peers have links of their own, which add up.
    """
    largest: dict[int, int] = {gpu.index: 0 for gpu in machine.gpus}
    total = dict(largest)
    for (a, b), link in machine.links.items():
        for gpu in (a, b):
            largest[gpu] = max(largest.get(gpu, 0), link.nvlinks)
            total[gpu] = total.get(gpu, 0) + link.nvlinks
    shown = largest if machine.switched else total
    known = {gpu.index: gpu.nvlinks for gpu in machine.gpus if gpu.nvlinks is not None}
    return {**shown, **known}


def is_switched(machine: Machine) -> bool | None:
    """Whether NVLinks end at switches, judged from the matrix; ``None`` when it can be either.

    A GPU has at most 18 links (fewer for known products). Cells that add up to more than that show the
    same links to every peer, which only switches do.
    """
    if machine.switched is not None:
        return machine.switched
    total: dict[int, int] = {}
    peers: dict[int, int] = {}
    for pair, link in machine.links.items():
        for index in pair if link.nvlinks else ():
            total[index] = total.get(index, 0) + link.nvlinks
            peers[index] = peers.get(index, 0) + 1
    if not total:
        return None
    for gpu in machine.gpus:
        product = catalog.find(gpu.product_name)
        if total.get(gpu.index, 0) > (product.nvlinks if product and product.nvlinks else 18):
            return True
    return False if max(peers.values()) > 1 else None


def nvlink_rate(machine: Machine) -> dict[int, LinkRate]:
    """The rate of the NVLinks of each GPU; GPUs of which nothing tells it are missing."""
    ports = ports_in_use(machine)
    peers: dict[int, int] = {}
    for (a, b), link in machine.links.items():
        if link.nvlinks:
            peers[a] = peers.get(a, 0) + 1
            peers[b] = peers.get(b, 0) + 1
    rates: dict[int, LinkRate] = {}
    most = max(ports.values(), default=0)
    for gpu in machine.gpus:
        known = _told_rate(gpu)
        if known is not None:
            rates[gpu.index] = LinkRate(known, Confidence.REPORTED)
        elif most and ports.get(gpu.index):
            rates[gpu.index] = LinkRate(_rate_of_count(most, peers.get(gpu.index, 0)), Confidence.INFERRED)
    return rates


def _told_rate(gpu: Gpu) -> float | None:
    """From product, NVLink version, compute capability or architecture, in this order."""
    product = catalog.find(gpu.product_name)
    if product is not None:
        return product.nvlink_gbps
    if gpu.cuda_compute_capability and gpu.cuda_compute_capability.startswith("8.6"):
        return _GA102_RATE
    if gpu.nvlink_version in _RATE_OF_VERSION:
        return _RATE_OF_VERSION[gpu.nvlink_version]
    major = (gpu.cuda_compute_capability or "").split(".")[0]
    by_major = {"6": 20.0, "7": 25.0, "8": 25.0, "9": 25.0, "10": 50.0}.get(major)
    by_name = {"pascal": 20.0, "volta": 25.0, "hopper": 25.0, "blackwell": 50.0}
    return by_major or by_name.get((gpu.architecture or "").casefold())


def _rate_of_count(ports: int, peers: int) -> float:
    """From the links of a GPU alone: 4 with one peer is the GA102 bridge, 4 with several NVLink 1.

    18 is NVLink 4 or 5; without a name the slower is taken.
    """
    if ports == 4:
        return _GA102_RATE if peers <= 1 else 20.0
    return 25.0


def pcie_generation(machine: Machine) -> dict[int, int]:
    """PCIe generation of each GPU: told, of the product, else the least that its NVLink count implies."""
    ports = ports_in_use(machine)
    most = max(ports.values(), default=0)
    implied = 5 if most > 12 else 4 if most > 6 else 3 if most > 4 else None
    gens: dict[int, int] = {}
    for gpu in machine.gpus:
        product = catalog.find(gpu.product_name)
        gen = gpu.pcie_gen or (product.pcie_gen if product else None)
        if gen is None and gpu.product_name is None:
            gen = implied
        if gen is not None:
            gens[gpu.index] = gen
    return gens


def pcie_gbps(gen: int, width: int, kind: str) -> float | None:
    """Effective GB/s of a PCIe path; ``None`` for a generation or relation that is not in the table."""
    if gen not in PCIE_X16_GBPS or kind not in RELATION_FACTOR:
        return None
    return round(PCIE_X16_GBPS[gen] * width / 16 * PCIE_EFFICIENCY * RELATION_FACTOR[kind], 1)


def fill_links(machine: Machine) -> dict[Pair, Link]:
    """The links with GB/s and confidence where the model knows them; figures already there stay."""
    rates, gens = nvlink_rate(machine), pcie_generation(machine)
    hidden = machine.nvlink_unknown or machine.numa_hidden
    width = {gpu.index: _width(gpu) for gpu in machine.gpus}
    filled: dict[Pair, Link] = {}
    for (a, b), link in machine.links.items():
        gbps, confidence = link.gbps, link.confidence
        if gbps is not None or _refused(link):
            pass  # measured or reported already; or through host memory, which no model covers
        elif link.nvlinks and a in rates and b in rates:
            gbps = link.nvlinks * min(rates[a].gbps, rates[b].gbps)
            told = rates[a].confidence == rates[b].confidence == Confidence.REPORTED
            confidence = Confidence.REPORTED if told else Confidence.INFERRED
        elif link.kind in RANK and not hidden and a in gens and b in gens:
            gbps = pcie_gbps(min(gens[a], gens[b]), min(width[a], width[b]), link.kind)
            confidence = Confidence.INFERRED if gbps is not None else Confidence.UNKNOWN
        filled[a, b] = msgspec.structs.replace(link, gbps=gbps, confidence=confidence)
    return filled


def floor(link: Link | None) -> float:
    """A lower bound in GB/s to rank by where ``gbps`` is unknown: generation 3, and SYS if not told."""
    if link is not None and link.gbps is not None:
        return link.gbps
    if link is not None and link.nvlinks:
        return link.nvlinks * _GA102_RATE
    kind = link.kind if link is not None and link.kind in RANK else "SYS"
    return pcie_gbps(_OLDEST_GEN, 16, kind) or 0.0


def _refused(link: Link) -> bool:
    return link.nvlinks == 0 and link.p2p not in (None, "OK", "U")


def _width(gpu: Gpu) -> int:
    product = catalog.find(gpu.product_name)
    return gpu.pcie_width or (product.pcie_width if product else 16)
