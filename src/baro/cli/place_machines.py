"""Machines that are given to ``baro place`` as such, as the nodes that they would be.

The text of ``nvidia-smi topo -m``, the XML of ``nvidia-smi -q -x``, a MachineTopology, a NodeTopology, a
machine profile: slices as baro's agent would publish them, and the graph. Beside slices of that node only the
graph.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from baro.cli.output import progress
from baro.diagnosis.evidence import CaptureKind, Evidence
from baro.inventory import Snapshot
from baro.model.errors import BaroError
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.core import Node
from baro.model.kinds.resource import DeviceClass, ResourceSlice
from baro.model.names import DRIVER

if TYPE_CHECKING:
    from baro.topology.machine import Machine


def machines(found: Evidence) -> dict[str, Machine]:
    """Machines that are given as such, by the name of their node."""
    named: dict[str, Machine] = {}
    for item in found.captures:
        if item.kind in (CaptureKind.TOPO, CaptureKind.SMI_XML):
            from baro.topology import smi_xml, topo_m  # noqa: PLC0415 - only for captures

            parse = topo_m.parse if item.kind is CaptureKind.TOPO else smi_xml.parse
            name = item.node or _node_name(item.where.file)
            named[name] = parse(item.text, item.where.file or "")
    for document in found.documents:
        if document.kind in ("MachineTopology", "MachineProfile"):
            named[_document_name(document.body, document.where.file)] = _of_document(document)
    return named


def _of_document(document: Any) -> Machine:
    from baro.topology.document import from_document  # noqa: PLC0415
    from baro.topology.profiles import profile_from  # noqa: PLC0415

    file = document.where.file or ""
    if document.kind == "MachineTopology":
        return from_document(document.body, file)
    return profile_from(document.body, file).machine()


def _document_name(body: dict[str, Any], file: str | None) -> str:
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else body.get("name")
    return name if isinstance(name, str) and name else _node_name(file)


def _node_name(file: str | None) -> str:
    """A node's name for a machine that nothing names: the file's."""
    stem = re.sub(r"[^a-z0-9]+", "-", Path(file or "machine").name.lower().split(".")[0]).strip("-")
    return stem or "machine"


def with_machines(snapshot: Snapshot, given: dict[str, Machine]) -> Snapshot:
    """Nodes, slices and graphs for machines; classes too, when there are none."""
    if not given:
        return _with_graph_slices(snapshot)
    from baro.agent.slices import desired_slices, node_topology  # noqa: PLC0415

    slices, graphs, nodes = list(snapshot.slices), list(snapshot.node_topologies), list(snapshot.nodes)
    published = {item.spec.node_name for item in snapshot.slices}
    for name, machine in given.items():
        if name in published:
            graphs.append(_graph(name, machine, snapshot.slices))
            continue
        slices += desired_slices(_named(machine), node=name, driver=DRIVER)
        graphs.append(node_topology(_named(machine), node=name, driver=DRIVER))
        if name not in {node.metadata.name for node in nodes}:
            nodes.append(Node(metadata=ObjectMeta(name=name)))
    return msgspec.structs.replace(
        snapshot,
        nodes=tuple(nodes),
        slices=tuple(slices),
        node_topologies=tuple({graph.metadata.name: graph for graph in graphs}.values()),
        classes=snapshot.classes or _classes(),
    )


def _named(machine: Machine) -> Machine:
    """The machine with a minor number for each GPU, which devices are named by: the index where unknown."""
    gpus = tuple(
        gpu if gpu.minor is not None else msgspec.structs.replace(gpu, minor=gpu.index)
        for gpu in machine.gpus
    )
    return msgspec.structs.replace(machine, gpus=gpus)


def _graph(node: str, machine: Machine, slices: Sequence[ResourceSlice]) -> NodeTopology:
    """How the published GPUs of a node are linked: devices are found by UUID, PCI bus id, or number."""
    from baro.topology.document import to_document  # noqa: PLC0415

    spec = {k: v for k, v in to_document(machine).items() if k not in {"apiVersion", "kind"}}
    devices: dict[str, int] = {}
    for item in slices:
        if item.spec.node_name != node:
            continue
        for device in item.spec.devices:
            index = _index_of(device.name, device.attributes, machine)
            if index is not None:
                devices[f"{item.spec.driver}/{item.spec.pool.name}/{device.name}"] = index
    progress(f"node {node}: links of {len(devices)} GPUs are those of the machine that was given")
    return NodeTopology(metadata=ObjectMeta(name=node), spec={**spec, "devices": devices})


def _index_of(name: str, attributes: Any, machine: Machine) -> int | None:
    told = {key.rpartition("/")[2]: value.string for key, value in attributes.items()}
    for gpu in machine.gpus:
        if gpu.uuid is not None and told.get("uuid") == gpu.uuid:
            return gpu.index
        if gpu.pci_bus_id is not None and (told.get("pciBusID") or "").lower() == gpu.pci_bus_id.lower():
            return gpu.index
    number = re.fullmatch(r"gpu-(\d+)", name)
    known = {gpu.index for gpu in machine.gpus if gpu.uuid is None and gpu.pci_bus_id is None}
    return int(number[1]) if number and int(number[1]) in known else None


def _with_graph_slices(snapshot: Snapshot) -> Snapshot:
    """Slices for NodeTopology documents whose devices nobody publishes."""
    published = {item.spec.node_name for item in snapshot.slices}
    found: dict[str, Machine] = {}
    for item in snapshot.node_topologies:
        if item.metadata.name not in published and item.spec:
            from baro.model.names import API_VERSION  # noqa: PLC0415
            from baro.topology.document import KIND, from_document  # noqa: PLC0415

            body = {"apiVersion": API_VERSION, "kind": KIND, **item.spec}
            devices = item.spec.get("devices") or {}
            body["devices"] = {key: facts for key, facts in devices.items() if isinstance(facts, dict)}
            try:
                found[item.metadata.name] = from_document(body, f"NodeTopology {item.metadata.name}")
            except BaroError as error:
                progress(f"left out: {error}")
    return with_machines(snapshot, found) if found else snapshot


def _classes() -> tuple[DeviceClass, ...]:
    """baro's device classes, for files that have none."""
    from baro.demo.cluster import manifest  # noqa: PLC0415
    from baro.model.decode import to_kind  # noqa: PLC0415

    found = (to_kind(document.body, document.where) for document in manifest("deviceclasses.yaml"))
    classes = tuple(item for item in found if isinstance(item, DeviceClass))
    names = ", ".join(item.metadata.name for item in classes)
    progress(f"there is no DeviceClass in the files: taking baro's own ({names})")
    return classes
