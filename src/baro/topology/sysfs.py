"""Reads PCI and NUMA facts from a sysfs tree under a given root: where GPUs and NICs hang, and how far apart.

``root`` stands for ``/sys``. Only names and small text files under it are read; a link that leaves the
tree is never followed, so a captured or simulated tree cannot pull in facts of the machine that reads it.
Odd trees (missing files, dangling links, no permission) give ``None`` and a warning, never an error.
No NVML and no NVLink here.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Final

import msgspec

from baro.topology.links import parse_ranges, pcie_relation
from baro.topology.machine import Warn

NVIDIA_VENDOR: Final = 0x10DE
GPU_CLASSES: Final = frozenset({0x0300, 0x0302})
"""VGA and 3D controllers."""
NIC_CLASSES: Final = frozenset({0x0200, 0x0207})
"""Ethernet and InfiniBand controllers."""

_BUS_ID: Final = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.I)
_PCI_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_MAX_FILE: Final = 65536
_GENERATIONS: Final = {"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
"""GT/s → PCIe generation."""


class PciDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU or NIC. ``chain`` is the path below the root bus: bridges from the top down, then itself."""

    bus_id: str
    pci_class: int
    chain: tuple[str, ...] | None = None
    root: str | None = None
    """``pciDDDD:BB``; domains above ffff (as Intel VMD makes) have more digits."""
    numa: int | None = None
    cpus: tuple[int, ...] | None = None
    link_gen: int | None = None
    """Highest generation the device can run; the current one drops when idle."""
    link_width: int | None = None
    """Lanes in use."""
    net: tuple[str, ...] = ()
    rdma: tuple[str, ...] = ()

    @property
    def ports(self) -> tuple[str, ...]:
        """From the root bus down to the port above the device, empty when the tree does not tell."""
        return (self.root, *self.chain[:-1]) if self.root is not None and self.chain else ()

    @property
    def switch(self) -> str | None:
        """The upstream port of the nearest PCIe switch above, ``None`` when there is none or it is hidden.

        A switch shows as two bridges (its upstream and a downstream port) below the root port.
        """
        bridges = (self.chain or ())[:-1]
        return bridges[-2] if len(bridges) >= 3 else None


class SysfsFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything read from one tree; devices sorted by bus id."""

    gpus: tuple[PciDevice, ...] = ()
    nics: tuple[PciDevice, ...] = ()
    numa_nodes: tuple[int, ...] | None = None
    """NUMA nodes with CPUs, ``None`` when the tree does not tell."""
    warnings: tuple[Warn, ...] = ()

    def find(self, bus_id: str | None) -> PciDevice | None:
        """The device with that normalised bus id."""
        return next((device for device in (*self.gpus, *self.nics) if device.bus_id == bus_id), None)

    def relation(self, a: PciDevice, b: PciDevice) -> str | None:
        """How two devices reach each other, in the words of ``nvidia-smi topo -m``.

        ``PIX`` at most one switch, ``PXB`` several switches but no host bridge, ``PHB`` one host bridge,
        ``NODE`` several host bridges of one NUMA node, ``SYS`` across NUMA nodes; ``None`` when the tree
        does not tell.
        """
        numa_a, numa_b = self._numa(a), self._numa(b)
        if a.ports and b.ports:
            return pcie_relation(a.ports, b.ports, numa_a, numa_b)
        if numa_a is None or numa_b is None:
            return None
        return "SYS" if numa_a != numa_b else None

    def _numa(self, device: PciDevice) -> tuple[int] | None:
        """The node of a device; machines with one node often say -1 for all."""
        if device.numa is not None:
            return (device.numa,)
        return (self.numa_nodes[0],) if self.numa_nodes and len(self.numa_nodes) == 1 else None


def normalise_bus_id(text: str | None) -> str | None:
    """``00000000:18:00.0`` (NVML) and ``0000:18:00.0`` (sysfs) → ``0000:18:00.0``; ``None`` for others."""
    found = _BUS_ID.fullmatch((text or "").strip())
    if not found:
        return None
    domain, bus, device, function = (int(part, 16) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def read(root: Path) -> SysfsFacts:
    """All NVIDIA GPUs and all NICs of the tree. Never raises for what the tree holds."""
    warnings: list[Warn] = []
    folder = root / "bus" / "pci" / "devices"
    gpus: list[PciDevice] = []
    nics: list[PciDevice] = []
    for name in _names(folder):
        if (bus_id := normalise_bus_id(name)) is None:
            continue
        place = _resolve(root, folder / name)
        pci_class = (_hex(place / "class") or 0) >> 8
        is_gpu = pci_class in GPU_CLASSES and _hex(place / "vendor") == NVIDIA_VENDOR
        if is_gpu or pci_class in NIC_CLASSES:
            device = _device(root, place, folder / name, bus_id, pci_class, warnings)
            (gpus if is_gpu else nics).append(device)
    if not folder.is_dir():
        warnings.append(Warn("sysfs-missing", f"{folder} is not there: PCIe and NUMA facts are unknown"))
    order = sorted(gpus, key=_by_bus), sorted(nics, key=_by_bus)
    return SysfsFacts(
        gpus=tuple(order[0]), nics=tuple(order[1]), numa_nodes=_numa_nodes(root), warnings=tuple(warnings)
    )


# --- one device ------------------------------------------------------------------------------------------


def _device(
    root: Path, place: Path, entry: Path, bus_id: str, pci_class: int, warnings: list[Warn]
) -> PciDevice:
    pci_root, chain = _position(_target(root, entry), bus_id, warnings)
    numa = _text(place / "numa_node")
    return PciDevice(
        bus_id=bus_id,
        pci_class=pci_class,
        chain=chain,
        root=pci_root,
        numa=int(numa) if numa and re.fullmatch(r"[0-9]{1,6}", numa) else None,
        cpus=_list(_text(place / "local_cpulist")),
        link_gen=_generation(_text(place / "max_link_speed")),
        link_width=_width(_text(place / "current_link_width")),
        net=tuple(_names(place / "net")),
        rdma=tuple(_names(place / "infiniband")),
    )


def _position(
    target: str | None, bus_id: str, warnings: list[Warn]
) -> tuple[str | None, tuple[str, ...] | None]:
    """Root and chain from a path such as ``devices/pci0000:15/0000:15:01.0/0000:18:00.0``.

    Hypervisor buses may stand before the root (``…/VMBUS:00/<guid>/pci0001:00/…``): the last component
    that names a root counts, and a warning says that it is not certain.
    """
    parts = target.split("/") if target else []
    roots = [i for i, part in enumerate(parts) if _PCI_ROOT.fullmatch(part)]
    if not roots:
        why = f"its path is {target!r}" if target else "its entry is no link into devices/"
        what = f"pcieRoot of {bus_id} is unknown: {why}"
        warnings.append(Warn("pcie-root-unknown", what))
        return None, None
    at = roots[-1]
    if parts[:at] != ["devices"]:
        between = "/".join(parts[1:at])
        what = f"pcieRoot of {bus_id} is taken as {parts[at]}, below {between}: probably a virtual bus"
        warnings.append(Warn("pcie-root-unsure", what))
    chain = [normalise_bus_id(part) for part in parts[at + 1 :]]
    if not chain or None in chain or chain[-1] != bus_id:
        return parts[at], None
    return parts[at], tuple(part for part in chain if part is not None)


def _target(root: Path, entry: Path) -> str | None:
    """Where a link under ``root`` points, as a path relative to ``root``; ``None`` outside of it."""
    try:
        link = entry.readlink().as_posix()
    except OSError:
        return None
    if link.startswith("/"):
        base = root.as_posix().rstrip("/") + "/"
        for prefix in (base, "/sys/"):
            if link.startswith(prefix):
                return posixpath.normpath(link[len(prefix) :])
        return None
    inside = posixpath.normpath(posixpath.join(entry.parent.relative_to(root).as_posix(), link))
    return None if inside.startswith("..") else inside


def _resolve(root: Path, entry: Path) -> Path:
    """The directory behind an entry, staying inside ``root``; the entry itself when it is no link."""
    target = _target(root, entry)
    if target is not None:
        return root / target
    return root / "nowhere" if entry.is_symlink() else entry


def _numa_nodes(root: Path) -> tuple[int, ...] | None:
    folder = root / "devices" / "system" / "node"
    with_cpus = _list(_text(folder / "has_cpu"))
    return with_cpus if with_cpus is not None else _list(_text(folder / "online"))


# --- small files -----------------------------------------------------------------------------------------


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 names only, and no Path per entry
    except OSError:
        return []


def _text(file: Path) -> str | None:
    try:
        with file.open("rb") as stream:
            return stream.read(_MAX_FILE).decode("utf-8", "replace").strip()
    except OSError:
        return None


def _list(text: str | None) -> tuple[int, ...] | None:
    return parse_ranges(text) if text else None


def _hex(file: Path) -> int | None:
    found = re.fullmatch(r"0x([0-9a-f]{1,8})", _text(file) or "", re.I)
    return int(found.group(1), 16) if found else None


def _generation(text: str | None) -> int | None:
    found = re.match(r"([0-9.]+) GT/s", text or "")
    return _GENERATIONS.get(found.group(1)) if found else None


def _width(text: str | None) -> int | None:
    # 0 and 255 mean "not known" here: the kernel prints the raw register of devices that lost power
    return int(text) if text and re.fullmatch(r"[0-9]{1,2}", text) and int(text) > 0 else None


def _by_bus(device: PciDevice) -> tuple[int, str]:
    return int(device.bus_id.split(":", 1)[0], 16), device.bus_id
