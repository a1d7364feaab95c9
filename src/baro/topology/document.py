"""``Machine`` ↔ the ``MachineTopology`` document of ``baro topo -o json|yaml``.

The document answers the common questions directly (links with GB/s, islands, NUMA nodes, nearest NICs) and
carries every fact of the machine, so that reading it back gives the same machine: what is not known is
``null`` or left out. Islands, grades and nearest NICs are results; they are not read back but computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from baro.model.errors import InputError, Where
from baro.topology.assess import complete
from baro.topology.islands import islands, pcie_groups
from baro.topology.links import (
    format_ranges,
    nearest_nic,
    nvlink_count,
    parse_ranges,
    sorted_gpus,
    sorted_nics,
)
from baro.topology.machine import MAX_GPUS, Confidence, Gpu, Link, Machine, Nic, Pair, Warn

API_VERSION = "baro.dev/v1alpha1"
KIND = "MachineTopology"


class _LinkBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: str
    nvlinks: int | None = None
    gbps: float | None = None
    confidence: Confidence = Confidence.UNKNOWN
    p2p: str | None = None


class _GpuBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The facts of a GPU under ``devices``; the field order is the order in the document."""

    minor: int | None = None
    uuid: str | None = None
    product_name: str | None = None
    model: str | None = None
    brand: str | None = None
    architecture: str | None = None
    cuda_compute_capability: str | None = None
    memory_mib: int | None = msgspec.field(default=None, name="memoryMiB")
    pci_bus_id: str | None = msgspec.field(default=None, name="pciBusID")
    pcie_root: str | None = None
    pcie_switch: str | None = None
    pcie_gen: int | None = None
    pcie_width: int | None = None
    numa: tuple[int, ...] | None = None
    gpu_numa_id: int | None = msgspec.field(default=None, name="gpuNumaID")
    cpus: str | None = None
    nvlinks: int | None = None
    nvlinks_expected: int | None = None
    nvlink_version: int | None = None
    module_id: int | None = msgspec.field(default=None, name="moduleID")
    clique: str | None = None
    mig_capable: bool | None = None


class _NicBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    device: str | None = None
    pci_bus_id: str | None = msgspec.field(default=None, name="pciBusID")
    pcie_root: str | None = None
    pcie_switch: str | None = None
    numa: tuple[int, ...] | None = None


class _Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is read back. Other fields of the document follow from these."""

    api_version: str
    kind: str
    gpus: tuple[int, ...]
    nics: tuple[str, ...] = ()
    links: dict[str, _LinkBody] = {}
    nic_links: dict[str, dict[str, str]] = {}
    numa: dict[str, tuple[int, ...] | None] = {}
    warnings: tuple[Warn, ...] = ()
    devices: dict[str, _GpuBody] = {}
    nic_devices: dict[str, _NicBody] = {}
    switched: bool | None = None
    numa_hidden: bool = False
    nvlink_unknown: bool = False
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    source: str = ""


def to_document(machine: Machine) -> dict[str, Any]:
    """The document as plain JSON types, keys in reading order."""
    machine = complete(machine)
    found = islands(machine)
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "source": machine.source,
        "gpus": [gpu.index for gpu in machine.gpus],
        "nics": [nic.name for nic in machine.nics],
        "links": {f"{a}-{b}": _link(machine, link) for (a, b), link in sorted(machine.links.items())},
        "islands": [list(island) for island in found.best],
        "grades": [{"nvlinks": g.nvlinks, "islands": [list(i) for i in g.islands]} for g in found.grades],
        "pcieGroups": [{"kind": g.kind, "groups": [list(i) for i in g.groups]} for g in pcie_groups(machine)],
        "numa": {str(gpu.index): _numa(machine, gpu) for gpu in machine.gpus},
        "nearestNic": {str(gpu.index): nearest_nic(machine, gpu.index) for gpu in machine.gpus},
        "nicLinks": _nic_links(machine),
        "switched": machine.switched,
        "numaHidden": machine.numa_hidden,
        "nvlinkUnknown": machine.nvlink_unknown,
        "warnings": [_plain(warning) for warning in machine.warnings],
        "devices": {str(gpu.index): _facts(gpu, _GpuBody) for gpu in machine.gpus},
        "nicDevices": {nic.name: _facts(nic, _NicBody) for nic in machine.nics},
    }
    versions = {"driverVersion": machine.driver_version, "cudaDriverVersion": machine.cuda_driver_version}
    return document | {name: value for name, value in versions.items() if value is not None}


def from_document(body: Mapping[str, Any], source: str = "") -> Machine:
    """The machine of a document. Raises ``InputError`` that names the field.

    ``source`` names the file in errors and replaces the document's own source when given.
    """
    try:
        read = msgspec.convert(dict(body), _Body)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        where = Where(file=source or None, path=path.rstrip("`").lstrip(".") or None)
        raise InputError(f"the MachineTopology document is not valid: {what}", where=where) from error
    if read.api_version != API_VERSION or read.kind != KIND:
        raise InputError(
            f"this is {read.api_version} {read.kind}, not {API_VERSION} {KIND}",
            where=Where(file=source or None),
        )
    if len(read.gpus) > MAX_GPUS:
        raise InputError(
            f"a machine has at most {MAX_GPUS} GPUs", where=Where(file=source or None, path="gpus")
        )
    return complete(
        Machine(
            gpus=sorted_gpus(_gpu(index, read) for index in dict.fromkeys(read.gpus)),
            nics=sorted_nics(_nic(name, read) for name in dict.fromkeys(read.nics)),
            links=dict(sorted(_links(read, source).items())),
            nic_links=_read_nic_links(read, source),
            switched=read.switched,
            numa_hidden=read.numa_hidden,
            nvlink_unknown=read.nvlink_unknown,
            driver_version=read.driver_version,
            cuda_driver_version=read.cuda_driver_version,
            source=source or read.source,
            warnings=read.warnings,
        )
    )


def _link(machine: Machine, link: Link) -> dict[str, Any]:
    unknown = machine.nvlink_unknown and not link.nvlinks
    body: dict[str, Any] = {
        "kind": link.kind,
        "nvlinks": None if unknown else link.nvlinks,
        "gbps": link.gbps,
        "confidence": link.confidence.value,
    }
    return body if link.p2p is None else body | {"p2p": link.p2p}


def _numa(machine: Machine, gpu: Gpu) -> list[int] | None:
    """Nodes for placement: not told where a hypervisor hides them."""
    return None if machine.numa_hidden or gpu.numa is None else list(gpu.numa)


def _nic_links(machine: Machine) -> dict[str, dict[str, str]]:
    told: dict[str, dict[str, str]] = {}
    for (gpu, nic), kind in machine.nic_links.items():
        told.setdefault(str(gpu), {})[nic] = kind
    return told


def _facts(device: Gpu | Nic, body: type[_GpuBody] | type[_NicBody]) -> dict[str, Any]:
    """What is known of a device; unknown facts are left out."""
    facts = {name: getattr(device, name) for name in body.__struct_fields__}
    if facts.get("cpus") is not None:
        facts["cpus"] = format_ranges(facts["cpus"])
    return _plain(body(**facts))


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    """A Struct as JSON types."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return plain


def _gpu(index: int, read: _Body) -> Gpu:
    facts = read.devices.get(str(index), _GpuBody())
    fields = {name: getattr(facts, name) for name in facts.__struct_fields__}
    fields["cpus"] = None if facts.cpus is None else parse_ranges(facts.cpus)
    if fields["numa"] is None:
        fields["numa"] = read.numa.get(str(index))
    return Gpu(index=index, **fields)


def _nic(name: str, read: _Body) -> Nic:
    facts = read.nic_devices.get(name, _NicBody())
    return Nic(name=name, **{field: getattr(facts, field) for field in facts.__struct_fields__})


def _links(read: _Body, source: str) -> dict[Pair, Link]:
    links: dict[Pair, Link] = {}
    for name, body in read.links.items():
        first, dash, second = name.partition("-")
        pair = (int(first), int(second)) if dash and first.isdecimal() and second.isdecimal() else None
        if pair is None or pair[0] >= pair[1] or not set(pair) <= set(read.gpus):
            raise InputError(
                f"{name!r} is not a pair of GPUs of this machine, the smaller index first",
                where=Where(file=source or None, path="links"),
            )
        links[pair] = Link(
            kind=body.kind,
            nvlinks=nvlink_count(body.kind) if body.nvlinks is None else max(0, body.nvlinks),
            gbps=body.gbps,
            confidence=body.confidence,
            p2p=body.p2p,
        )
    return links


def _read_nic_links(read: _Body, source: str) -> dict[tuple[int, str], str]:
    told: dict[tuple[int, str], str] = {}
    for gpu, kinds in read.nic_links.items():
        if not gpu.isdecimal() or int(gpu) not in read.gpus or not set(kinds) <= set(read.nics):
            raise InputError(
                f"{gpu!r}: the GPU or one of its NICs is not in this machine",
                where=Where(file=source or None, path="nicLinks"),
            )
        told.update({(int(gpu), nic): kind for nic, kind in kinds.items()})
    return told
