"""What a machine's matrix tells beside its cells: GB/s, switches, and warnings for the reader.

``complete`` is the last step of every source (parsers, profiles, discovery): the same machine gets the same
figures and warnings whatever it was read from. Calling it twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from baro.topology import catalog
from baro.topology.links import P2P_CELLS, nearest_nics
from baro.topology.machine import Machine, Warn
from baro.topology.rates import fill_links, is_switched, ports_in_use

_VM_NVLINKS = 6
"""From this many links to a peer on, a GPU sits in a server with several host bridges."""


def complete(machine: Machine) -> Machine:
    """The machine with GB/s per link, ``switched``, hidden-NUMA judgement and warnings filled in."""
    machine = msgspec.structs.replace(machine, switched=is_switched(machine))
    machine = _judge_nvlink(_judge_numa(machine))
    machine = msgspec.structs.replace(machine, links=fill_links(machine))
    found = [*machine.warnings, *_vm(machine), *_nvlink_hidden(machine), *_degraded(machine)]
    found += [*_missing(machine), *_refused(machine), *_tied_nics(machine)]
    return msgspec.structs.replace(machine, warnings=tuple(dict.fromkeys(found)))


def is_flat(machine: Machine) -> bool:
    """Every PCIe relation that is told is PHB, on a machine too large for one host bridge.

    Real servers with eight GPUs, or with NVLink boards, have several host bridges; a hypervisor that puts
    all devices on one virtual bridge prints PHB everywhere.
    """
    told = [link.kind for link in machine.links.values() if not link.nvlinks]
    told += machine.nic_links.values()
    if not told or any(kind != "PHB" for kind in told):
        return False
    large = len(machine.gpus) >= 8
    board = any(link.nvlinks >= _VM_NVLINKS for link in machine.links.values())
    return large or board


def _judge_numa(machine: Machine) -> Machine:
    """Sets ``numa_hidden`` when all GPUs have one and the same range of nodes, or PCIe is flat."""
    nodes = {gpu.numa for gpu in machine.gpus}
    merged = len(machine.gpus) > 1 and len(nodes) == 1 and len(next(iter(nodes)) or ()) > 1
    return msgspec.structs.replace(machine, numa_hidden=machine.numa_hidden or merged or is_flat(machine))


def _judge_nvlink(machine: Machine) -> Machine:
    """Sets ``nvlink_unknown`` when NVLink must exist but no cell shows it.

    It must exist on a baseboard product, and very likely on eight GPUs that each have a NIC of their own
    behind the same switch.
    """
    if (
        machine.nvlink_unknown
        or len(machine.gpus) < 2
        or any(link.nvlinks for link in machine.links.values())
    ):
        return machine
    if any(gpu.nvlinks for gpu in machine.gpus):
        return machine
    known = [catalog.find(gpu.product_name) for gpu in machine.gpus]
    board = all(product is not None and product.on_board for product in known)
    nameless = all(gpu.product_name is None for gpu in machine.gpus)
    rails = nameless and len(machine.gpus) >= 8 and _has_own_nics(machine)
    return msgspec.structs.replace(machine, nvlink_unknown=board or rails)


def _has_own_nics(machine: Machine) -> bool:
    own = [
        {
            nic
            for (index, nic), kind in machine.nic_links.items()
            if index == gpu.index and kind in ("PIX", "PXB")
        }
        for gpu in machine.gpus
    ]
    return all(own) and sum(len(nics) for nics in own) == len(set().union(*own))


def _vm(machine: Machine) -> Iterable[Warn]:
    if machine.numa_hidden:
        flat = "PCIe topology is flat" if is_flat(machine) else "NUMA nodes are merged or hidden"
        yield Warn(
            "virtual-machine",
            f"{flat}: probably a virtual machine, so NUMA nodes and near NICs are unknown",
        )


def _nvlink_hidden(machine: Machine) -> Iterable[Warn]:
    if machine.nvlink_unknown:
        yield Warn(
            "nvlink-unknown",
            "no NVLink seen where it is expected: the input may be `nvidia-smi topo -mp` (PCIe only), "
            "MIG may be on, or Fabric Manager may be down",
        )


def _degraded(machine: Machine) -> Iterable[Warn]:
    """GPUs with fewer active links than the profile, NVML or their siblings have."""
    ports = ports_in_use(machine)
    most = max(ports.values(), default=0)
    for gpu in machine.gpus:
        active = ports.get(gpu.index, 0)
        expected = gpu.nvlinks_expected if gpu.nvlinks_expected is not None else most
        if 0 < active < expected:
            yield Warn("nvlink-degraded", f"GPU{gpu.index} has {active} of {expected} NVLinks", (gpu.index,))


def _missing(machine: Machine) -> Iterable[Warn]:
    """GPUs without NVLink among GPUs that are all linked through switches, or that should have links."""
    ports = ports_in_use(machine)
    most = max(ports.values(), default=0)
    for gpu in machine.gpus:
        if ports.get(gpu.index, 0) == 0 and most and (machine.switched or gpu.nvlinks_expected):
            yield Warn(
                "nvlink-missing",
                f"GPU{gpu.index} has no active NVLink although its siblings have {most}",
                (gpu.index,),
            )


def _refused(machine: Machine) -> Iterable[Warn]:
    """Pairs that the driver refuses peer access (``topo -p2p``)."""
    refused: dict[str, set[int]] = {}
    for (a, b), link in machine.links.items():
        if link.p2p not in (None, "OK", "U"):
            refused.setdefault(link.p2p, set()).update((a, b))
    for cell, gpus in sorted(refused.items()):
        why = P2P_CELLS.get(cell, cell)
        yield Warn(
            "p2p-refused",
            f"P2P not supported by GPU: {why} ({cell}); traffic between GPUs goes through host memory"
            if cell == "GNS"
            else f"P2P refused: {why} ({cell}); traffic between GPUs goes through host memory",
            tuple(sorted(gpus)),
        )


def _tied_nics(machine: Machine) -> Iterable[Warn]:
    """GPUs with several NICs behind their own switch: the choice of one is only a rule."""
    for gpu in machine.gpus:
        nics = nearest_nics(machine, gpu.index)
        if len(nics) > 1 and machine.nic_links.get((gpu.index, nics[0])) == "PIX":
            yield Warn(
                "nearest-nic-tie",
                f"GPU{gpu.index} has {len(nics)} equally near NICs ({', '.join(nics)}); {nics[0]} is taken",
                (gpu.index,),
            )
