"""What is publicly known of GPU products: architecture, memory, NVLinks, PCIe generation.

A table, looked up by the product name that NVML and ``nvidia-smi`` print. It serves two ends: profiles
name a product instead of repeating its facts, and the bandwidth model learns link rates from a name.
A product that is not here is unknown; nothing is guessed from similar names.

NVLink rates are the specified GB/s of one link in one direction (NVLink 2, 3 and 4: 25, NVLink 5: 50, the
GA102 bridge: 14.0625). The line rate that ``nvidia-smi nvlink -s`` prints is a few percent higher.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec


class Product(msgspec.Struct, frozen=True, kw_only=True):
    """One product as ``nvidia-smi`` names it. Memory is the total in MiB that NVML reports."""

    name: str
    model: str
    """Short name for people and selectors: ``H100``."""
    brand: str
    architecture: str
    compute_capability: str
    memory_mib: int
    pci_device_id: str
    """Device id, four hex digits, lower case; the vendor is 10de."""
    pcie_gen: int
    pcie_width: int = 16
    nvlink_version: int | None = None
    nvlinks: int = 0
    """NVLink ports that the product uses when everything is cabled or bridged."""
    nvlink_gbps: float | None = None
    on_board: bool = False
    """Sits on a baseboard (SXM, HGX, NVL72) where NVLink always exists, unlike a card with bridges."""
    mig_family: str | None = None
    """Key of the MIG tables; ``None``: no MIG."""


class _Wires(msgspec.Struct, frozen=True):
    """NVLink of one product: version, ports, GB/s of one link; on a baseboard or on bridges."""

    version: int
    ports: int
    gbps: float
    on_board: bool = False


_NV1 = _Wires(1, 4, 20.0, on_board=True)
_NV2 = _Wires(2, 6, 25.0, on_board=True)
_NV3, _NV3_CARD = _Wires(3, 12, 25.0, on_board=True), _Wires(3, 12, 25.0)
_GA102 = _Wires(3, 4, 14.0625)
"""RTX 3090, A40, A6000: four links of 56.25 GB/s together in one direction."""
_NV4, _NV4_PAIR, _NV4_QUAD = _Wires(4, 18, 25.0, on_board=True), _Wires(4, 12, 25.0), _Wires(4, 18, 25.0)
_NV5 = _Wires(5, 18, 50.0, on_board=True)

_Row = tuple[str, str, str, str, int, str, int, _Wires | None, str | None]

# name, model, architecture, compute capability, MiB, PCI device id, PCIe generation, NVLink, MIG family
_ROWS: tuple[_Row, ...] = (
    ("Tesla K80", "K80", "Kepler", "3.7", 11441, "102d", 3, None, None),
    ("Tesla P100-SXM2-16GB", "P100", "Pascal", "6.0", 16280, "15f9", 3, _NV1, None),
    ("Tesla V100-SXM2-16GB", "V100", "Volta", "7.0", 16384, "1db1", 3, _NV2, None),
    ("Tesla V100-SXM2-32GB", "V100", "Volta", "7.0", 32768, "1db5", 3, _NV2, None),
    ("Tesla V100-SXM3-32GB", "V100", "Volta", "7.0", 32768, "1db8", 3, _NV2, None),
    ("Tesla T4", "T4", "Turing", "7.5", 15360, "1eb8", 3, None, None),
    ("NVIDIA A100-SXM4-40GB", "A100", "Ampere", "8.0", 40960, "20b0", 4, _NV3, "A100-40GB"),
    ("NVIDIA A100-SXM4-80GB", "A100", "Ampere", "8.0", 81920, "20b2", 4, _NV3, "A100-80GB"),
    ("NVIDIA A100-PCIE-40GB", "A100", "Ampere", "8.0", 40960, "20f1", 4, _NV3_CARD, "A100-40GB"),
    ("NVIDIA A100 80GB PCIe", "A100", "Ampere", "8.0", 81920, "20b5", 4, _NV3_CARD, "A100-80GB"),
    ("NVIDIA A40", "A40", "Ampere", "8.6", 46068, "2235", 4, _GA102, None),
    ("NVIDIA RTX A6000", "RTX A6000", "Ampere", "8.6", 49140, "2230", 4, _GA102, None),
    ("NVIDIA GeForce RTX 3090", "RTX 3090", "Ampere", "8.6", 24576, "2204", 4, _GA102, None),
    ("NVIDIA GeForce RTX 4090", "RTX 4090", "Ada Lovelace", "8.9", 24564, "2684", 4, None, None),
    ("NVIDIA L4", "L4", "Ada Lovelace", "8.9", 23034, "27b8", 4, None, None),
    ("NVIDIA L40S", "L40S", "Ada Lovelace", "8.9", 46068, "26b9", 4, None, None),
    ("NVIDIA H100 80GB HBM3", "H100", "Hopper", "9.0", 81559, "2330", 5, _NV4, "H100-80GB"),
    ("NVIDIA H100 PCIe", "H100", "Hopper", "9.0", 81559, "2331", 5, _NV4_PAIR, "H100-80GB"),
    ("NVIDIA H100 NVL", "H100", "Hopper", "9.0", 95830, "2321", 5, _NV4_PAIR, "H100-94GB/NVL"),
    ("NVIDIA H20", "H20", "Hopper", "9.0", 97871, "2329", 5, _NV4, None),
    ("NVIDIA H200", "H200", "Hopper", "9.0", 143771, "2335", 5, _NV4, "H200-141GB"),
    ("NVIDIA H200 NVL", "H200", "Hopper", "9.0", 143771, "233b", 5, _NV4_QUAD, "H200-141GB"),
    ("NVIDIA B200", "B200", "Blackwell", "10.0", 183359, "2901", 5, _NV5, "B200-180GB"),
    ("NVIDIA B300 SXM6 AC", "B300", "Blackwell", "10.3", 275040, "3182", 6, _NV5, "B300-269GB"),
    ("NVIDIA GB200", "GB200", "Blackwell", "10.0", 189471, "2941", 6, _NV5, "GB200-186GB"),
    ("NVIDIA GB300", "GB300", "Blackwell", "10.3", 284208, "31c2", 6, _NV5, "GB300-278GB"),
    ("NVIDIA GeForce RTX 5090", "RTX 5090", "Blackwell", "12.0", 32607, "2b85", 5, None, None),
)


def _brand(name: str) -> str:
    for mark, brand in (("GeForce", "GeForce"), ("Tesla", "Tesla"), ("RTX A", "NvidiaRTX")):
        if mark in name:
            return brand
    return "Nvidia"


def _product(row: _Row) -> Product:
    name, model, architecture, capability, memory, device_id, gen, wires, mig = row
    return Product(
        name=name,
        model=model,
        brand=_brand(name),
        architecture=architecture,
        compute_capability=capability,
        memory_mib=memory,
        pci_device_id=device_id,
        pcie_gen=gen,
        nvlink_version=wires.version if wires else None,
        nvlinks=wires.ports if wires else 0,
        nvlink_gbps=wires.gbps if wires else None,
        on_board=bool(wires and wires.on_board),
        mig_family=mig,
    )


PRODUCTS: tuple[Product, ...] = tuple(_product(row) for row in _ROWS)

_BY_NAME = {product.name.casefold(): product for product in PRODUCTS}


@lru_cache(maxsize=256)
def find(name: str | None) -> Product | None:
    """The product with that name; letter case and ``NVIDIA`` or ``Tesla`` in front do not matter.

    ``None`` for a product that is not in the table.
    """
    if not name:
        return None
    wanted = " ".join(name.split()).casefold()
    for spelling in (wanted, f"nvidia {wanted}", wanted.removeprefix("nvidia "), f"tesla {wanted}"):
        if spelling in _BY_NAME:
            return _BY_NAME[spelling]
    return None
