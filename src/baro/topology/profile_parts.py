"""The parts of a machine profile: drivers, switches, GPUs, NICs, NVLink wiring.

Plain values as they stand in the file; ``profile`` puts them together, ``profiles`` reads the files.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from baro.topology.machine import Pair

BusId = Annotated[str, Meta(pattern=r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")]
RootId = Annotated[str, Meta(pattern=r"^[0-9a-f]{4,8}:[0-9a-f]{2}$")]
PairName = Annotated[str, Meta(pattern=r"^\d+-\d+$")]
Count = Annotated[int, Meta(ge=0, le=64)]


class Spec(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of the parts of a profile: immutable, camelCase in the file, unknown fields are errors."""


class Driver(Spec, frozen=True, kw_only=True):
    version: str = "580.105.08"
    cuda: str = "13.0"


class Switch(Spec, frozen=True, kw_only=True):
    """A PCIe switch, keyed by the bus id of its upstream port."""

    root: RootId | None = None
    """The host bridge it hangs from; left out when ``parent`` is given."""
    parent: BusId | None = None
    """The upstream port of the switch above it."""


class GpuSpec(Spec, frozen=True, kw_only=True):
    """One GPU; its index is its place in the list."""

    pci: BusId
    root: RootId | None = None
    """The host bridge, for a GPU in a root port; left out when ``switch`` is given."""
    switch: BusId | None = None
    numa: int | None = None
    minor: int | None = None
    product: str | None = None
    memory_mib: int | None = None
    module_id: int | None = None
    gpu_numa_id: int | None = None
    pcie_gen: int | None = None
    pcie_width: int | None = None
    cpus: str | None = None
    """CPU list of this GPU when it is not that of its NUMA node."""


class NicSpec(Spec, frozen=True, kw_only=True):
    pci: BusId
    device: str
    """RDMA device name, such as ``mlx5_0``."""
    root: RootId | None = None
    switch: BusId | None = None
    numa: int | None = None


class Mesh(Spec, frozen=True, kw_only=True):
    """Sets of GPUs of which all pairs have this many NVLinks; a bridge over two is a set of two."""

    links: Annotated[int, Meta(ge=1, le=64)]
    sets: tuple[tuple[int, ...], ...]


class Nvlink(Spec, frozen=True, kw_only=True):
    """The wiring: through NVSwitches, or directly in meshes and single pairs."""

    switched: Count = 0
    """Links of every GPU to the NVSwitches; 0: no NVSwitch."""
    switches: Count = 4
    meshes: tuple[Mesh, ...] = ()
    pairs: dict[PairName, Count] = {}
    """Links of single pairs, such as ``"0-3": 2``."""
    inactive: dict[str, Count] = {}
    """Links that are down: per GPU (``"2": 18``) with NVSwitches, per pair (``"0-1": 2``) without."""


class NvlinkPort(msgspec.Struct, frozen=True):
    """One NVLink of one GPU. It ends at a GPU (``peer``, ``peer_link``) or at an NVSwitch (``switch``)."""

    gpu: int
    link: int
    active: bool
    peer: int | None = None
    peer_link: int | None = None
    switch: int | None = None


def planned_pairs(plan: Nvlink) -> dict[Pair, int]:
    """Direct links of each pair as cabled, whether up or down."""
    planned: dict[Pair, int] = {}
    for mesh in plan.meshes:
        for group in mesh.sets:
            members = sorted(group)
            for i, a in enumerate(members):
                for b in members[i + 1 :]:
                    planned[a, b] = mesh.links
    for name, links in plan.pairs.items():
        first, second = name.split("-", 1)
        planned[int(first), int(second)] = links
    return planned


def active_pairs(plan: Nvlink, gpus: int) -> dict[Pair, int]:
    """NVLinks of each pair as ``topo -m`` shows them."""
    if not plan.switched:
        return {
            (a, b): max(0, links - plan.inactive.get(f"{a}-{b}", 0))
            for (a, b), links in planned_pairs(plan).items()
        }
    up = [max(0, plan.switched - plan.inactive.get(str(gpu), 0)) for gpu in range(gpus)]
    return {(a, b): min(up[a], up[b]) for a in range(gpus) for b in range(a + 1, gpus)}


def wiring(plan: Nvlink, gpus: int) -> tuple[NvlinkPort, ...]:
    """Every NVLink of every GPU, ordered by GPU and link number. Links that are down come last."""
    if plan.switched:
        return tuple(
            NvlinkPort(
                gpu=gpu,
                link=link,
                active=link < plan.switched - plan.inactive.get(str(gpu), 0),
                switch=link % max(1, plan.switches),
            )
            for gpu in range(gpus)
            for link in range(plan.switched)
        )
    used = [0] * gpus
    ports: list[NvlinkPort] = []
    for (a, b), links in sorted(planned_pairs(plan).items()):
        down = plan.inactive.get(f"{a}-{b}", 0)
        for number in range(links):
            up = number < links - down
            ports.append(NvlinkPort(a, used[a], up, b, used[b]))
            ports.append(NvlinkPort(b, used[b], up, a, used[a]))
            used[a] += 1
            used[b] += 1
    return tuple(sorted(ports, key=lambda port: (port.gpu, port.link)))
