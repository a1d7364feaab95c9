"""What ``baro place`` is asked and what it looks at: manifests, dumps, captures of machines, a live cluster.

Reads and sorts; nothing is placed here. A machine that is given as such (``nvidia-smi topo -m``,
``nvidia-smi -q -x``, a MachineTopology, a MachineProfile) becomes a node with the slices that baro's agent
would publish; beside slices of that node it tells how its GPUs are linked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from baro.cli.output import progress
from baro.cli.sources import SourceOptions, open_source
from baro.diagnosis.evidence import CaptureKind, Evidence
from baro.diagnosis.files import read_files
from baro.inventory import Snapshot
from baro.model.errors import BaroError, InputError
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.base import KubeObject, ObjectMeta
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from baro.model.names import DRIVER
from baro.placement import requests
from baro.placement.gang.objects import Gang, Groups, gangs, key_of_gang
from baro.placement.requests import Claims, Group, groups, key_of

if TYPE_CHECKING:
    from baro.topology.machine import Machine

K = TypeVar("K", bound=KubeObject)
_NOT_NEEDED = frozenset({"namespaces", "events", "daemonsets", "deployments", "machinespecs"})
"""Sources of a cluster that no placement depends on."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is placed, in this order, before which cluster."""

    snapshot: Snapshot
    wanted: tuple[Group | Gang, ...]
    known: Claims
    where: str
    """For messages: ``the files``, ``the cluster or the files``."""


def read(files: Sequence[str], source: SourceOptions, *, one_gang: bool = False) -> Question:
    """The question in ``files``, before what they hold themselves and what ``source`` names.

    A cluster is read when ``files`` have no devices or ``source`` names one. Raises ``InputError`` for files
    that cannot be used and for a question without claims or devices.
    """
    asked = read_files(files) if files else None
    if asked is not None and asked.unreadable:
        raise asked.unreadable[0]
    machines = _machines(asked) if asked else {}
    world = _world(
        source,
        have_files=asked is not None,
        have_devices=bool(asked and (asked.snapshot.slices or asked.snapshot.node_topologies or machines)),
    )
    if world is not None:
        machines = {**_machines(world), **machines}
    where = "the files" if world is None or source.paths else "the cluster or the files"
    own = _own(asked, world, source)
    snapshot = _merged(world, asked)
    snapshot = _with_machines(snapshot, machines)
    templates = _by_name([*(world.templates if world else ()), *(asked.templates if asked else ())])
    known = Claims(snapshot.claims, templates, where)
    documents = [item for found in (world, asked) if found for item in found.documents]
    bodies = [item.body for item in documents if item.kind in ("PodGroup", "Workload")]
    wanted = _wanted(own, snapshot, known, Groups(bodies), one_gang=one_gang)
    _check(snapshot, wanted, own, where)
    return Question(snapshot=snapshot, wanted=wanted, known=known, where=where)


# --- the cluster -----------------------------------------------------------------------------------------


def _world(source: SourceOptions, *, have_files: bool, have_devices: bool) -> Evidence | None:
    """What the options name, with what could not be read told on stderr. What is in use anywhere counts, so
    all namespaces are read."""
    named = bool(source.paths or source.kubeconfig or source.context or source.server)
    if have_devices and not named:
        return None
    try:
        found = open_source(msgspec.structs.replace(source, namespace=None, all_namespaces=True), quiet=True)
    except InputError as error:
        if named or not have_files:
            raise
        raise InputError(
            f"there is no ResourceSlice in the files, and no cluster to read: {error.what}",
            where=error.where,
            next_step="add: kubectl get resourceslices,deviceclasses,nodes,resourceclaims -A -o yaml",
        ) from None
    seen = found.snapshot
    progress(
        f"read {found.origin}: {len(seen.nodes)} nodes, {len(seen.slices)} slices, {len(seen.claims)} claims"
    )
    for missing in found.missing:
        if missing.source in _NOT_NEEDED:
            continue
        progress(f"not known: {missing.source}: {missing.why}")
    for unreadable in found.unreadable:
        progress(f"left out: {unreadable}")
    return found


class _Own(msgspec.Struct, frozen=True):
    """What is to be placed, as far as it is unallocated."""

    pods: tuple[Pod, ...]
    claims: tuple[ResourceClaim, ...]
    templates: tuple[ResourceClaimTemplate, ...]


def _own(asked: Evidence | None, world: Evidence | None, source: SourceOptions) -> _Own:
    """The objects of the files; without files, everything that waits in the namespace or all of them."""
    if asked is not None:
        return _Own(asked.snapshot.pods, asked.snapshot.claims, asked.templates)
    if world is None:
        return _Own((), (), ())
    namespace = None if source.all_namespaces or source.paths else source.namespace or "default"
    if source.paths and source.namespace:
        namespace = source.namespace

    def mine(item: KubeObject) -> bool:
        return namespace is None or (item.metadata.namespace or "default") == namespace

    templates = world.templates if source.paths else ()
    return _Own(
        tuple(filter(mine, world.snapshot.pods)),
        tuple(filter(mine, world.snapshot.claims)),
        tuple(filter(mine, templates)),
    )


def _merged(world: Evidence | None, asked: Evidence | None) -> Snapshot:
    """Both as one; what the files say goes first, except that an allocation that exists stays."""
    if world is None or asked is None:
        found = world or asked
        return found.snapshot if found else Snapshot()
    there, new = world.snapshot, asked.snapshot
    allocated = {key_of(claim) for claim in there.claims if claim.status.allocation is not None}
    claims = []
    for claim in new.claims:
        if key_of(claim) in allocated and claim.status.allocation is None:
            progress(f"claim {'/'.join(key_of(claim))} has devices already; its allocation counts")
        else:
            claims.append(claim)
    return Snapshot(
        nodes=_by_name([*there.nodes, *new.nodes]),
        slices=_by_name([*there.slices, *new.slices]),
        classes=_by_name([*there.classes, *new.classes]),
        claims=_by_name([*there.claims, *claims]),
        taint_rules=_by_name([*there.taint_rules, *new.taint_rules]),
        node_topologies=_by_name([*there.node_topologies, *new.node_topologies]),
        pods=_by_name([*there.pods, *new.pods]),
    )


def _by_name(items: Iterable[K]) -> tuple[K, ...]:
    """Each object once, the last one of a name; objects without a name are all kept."""
    found: dict[object, K] = {}
    for number, item in enumerate(items):
        name = item.metadata.name or f"#{number}"
        found[item.metadata.namespace or "default", name] = item
    return tuple(found.values())


# --- what is wanted --------------------------------------------------------------------------------------


def _wanted(
    own: _Own, snapshot: Snapshot, known: Claims, of: Groups, *, one_gang: bool
) -> tuple[Group | Gang, ...]:
    """Gangs and single pods in order of their first pods, then claims and templates that nobody uses."""
    allocated = {key_of(claim): claim for claim in snapshot.claims if claim.status.allocation is not None}
    claims = [claim for claim in own.claims if key_of(claim) not in allocated]
    waiting = [pod for pod in own.pods if not pod.spec.node_name]
    found: tuple[Gang, ...] = (_as_one(waiting, claims),)
    single: tuple[Pod, ...] = ()
    if not one_gang:
        found, single = gangs(waiting, of)
    for gang in found:
        if not gang.known:
            progress(f"{gang.title}: the object that describes it is not known, so all its pods must fit")
        for pod in gang.pods:
            known.of_pod(pod, gang)
    for pod in snapshot.pods:  # Claims of pods that are not asked about are nobody's question either.
        if pod.spec.resource_claims and pod not in waiting:
            _note_used(known, pod)
    single_groups = groups(single, [] if one_gang and not waiting else claims, own.templates, known)
    order = {(pod.metadata.namespace, pod.metadata.name): at for at, pod in enumerate(own.pods)}

    def at(item: Group | Gang) -> int:
        pod = item.pods[0] if isinstance(item, Gang) and item.pods else getattr(item, "pod", None)
        return order.get((pod.metadata.namespace, pod.metadata.name), 0) if pod else len(order)

    return tuple(sorted([*found, *single_groups], key=at))


def _note_used(known: Claims, pod: Pod) -> None:
    with suppress(InputError):  # Another pod's claim may be missing.
        known.of_pod(pod)


def _as_one(pods: Sequence[Pod], claims: Sequence[ResourceClaim]) -> Gang:
    """All pods as one gang; without pods, a pod for each claim."""
    if not pods:
        pods = [_pod_of(claim) for claim in claims]
    return Gang(key=("", key_of(pods[0])[0] if pods else "default", "all"), pods=tuple(pods))


def _pod_of(claim: ResourceClaim) -> Pod:
    entry = {"name": "claim", "resourceClaimName": claim.metadata.name}
    body = {"metadata": {"name": claim.metadata.name}, "spec": {"resourceClaims": [entry]}}
    pod: Pod = msgspec.convert(body, Pod)
    meta = msgspec.structs.replace(pod.metadata, namespace=claim.metadata.namespace)
    return msgspec.structs.replace(pod, metadata=meta)


def running(gang: Gang, pods: Iterable[Pod]) -> tuple[str, ...]:
    """Nodes of pods of the gang that are bound already, one entry per pod."""
    return tuple(pod.spec.node_name for pod in pods if pod.spec.node_name and key_of_gang(pod) == gang.key)


def _check(snapshot: Snapshot, wanted: Sequence[Group | Gang], own: _Own, where: str) -> None:
    """Inputs with which no answer would mean anything."""
    if not any(not isinstance(item, Gang) or item.pods for item in wanted):
        raise InputError(
            f"there is no unallocated claim in {where}",
            next_step="give a ResourceClaim, or a pod and its ResourceClaimTemplate",
        )
    if not snapshot.slices:
        raise InputError(
            f"there is no ResourceSlice in {where}, so there are no devices to choose from",
            next_step="add: kubectl get resourceslices,deviceclasses,nodes,resourceclaims -A -o yaml, "
            "or what nvidia-smi topo -m printed",
        )


def check_nodes(snapshot: Snapshot, nodes: Sequence[str]) -> None:
    """Raises ``InputError`` for a node that is not there."""
    known = {node.metadata.name for node in snapshot.nodes} | {
        item.spec.node_name for item in snapshot.slices if item.spec.node_name
    }
    for node in nodes:
        if node not in known:
            raise InputError(
                f"there is no node {node} among those that were read",
                next_step=f"known nodes: {', '.join(sorted(known)) or 'none'}",
            )


def together(question: Question) -> Question:
    """The same claims as those of one pod."""
    parts = []
    for item in question.wanted:
        if isinstance(item, Gang):
            claims = (claim for pod in item.pods for claim in question.known.of_pod(pod, item))
            parts.append(Group(claims=tuple(c for c in claims if c.status.allocation is None)))
        else:
            parts.append(item)
    return msgspec.structs.replace(question, wanted=(requests.together(parts),))


# --- machines --------------------------------------------------------------------------------------------


def _machines(found: Evidence) -> dict[str, Machine]:
    """Machines that are given as such, by the name of their node."""
    machines: dict[str, Machine] = {}
    for item in found.captures:
        if item.kind in (CaptureKind.TOPO, CaptureKind.SMI_XML):
            from baro.topology import smi_xml, topo_m  # noqa: PLC0415 - only for captures

            parse = topo_m.parse if item.kind is CaptureKind.TOPO else smi_xml.parse
            name = item.node or _node_name(item.where.file)
            machines[name] = parse(item.text, item.where.file or "")
    for document in found.documents:
        if document.kind in ("MachineTopology", "MachineProfile"):
            machines[_document_name(document.body, document.where.file)] = _of_document(document)
    return machines


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


def _with_machines(snapshot: Snapshot, machines: dict[str, Machine]) -> Snapshot:
    """Nodes, slices and graphs for machines; classes too, when there are none."""
    if not machines:
        return _with_graph_slices(snapshot)
    from baro.agent.slices import desired_slices, node_topology  # noqa: PLC0415

    slices, graphs, nodes = list(snapshot.slices), list(snapshot.node_topologies), list(snapshot.nodes)
    published = {item.spec.node_name for item in snapshot.slices}
    for name, machine in machines.items():
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
        node_topologies=_by_name(graphs),
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
    machines: dict[str, Machine] = {}
    for item in snapshot.node_topologies:
        if item.metadata.name not in published and item.spec:
            from baro.model.names import API_VERSION  # noqa: PLC0415
            from baro.topology.document import KIND, from_document  # noqa: PLC0415

            body = {"apiVersion": API_VERSION, "kind": KIND, **item.spec}
            devices = item.spec.get("devices") or {}
            body["devices"] = {key: facts for key, facts in devices.items() if isinstance(facts, dict)}
            try:
                machines[item.metadata.name] = from_document(body, f"NodeTopology {item.metadata.name}")
            except BaroError as error:
                progress(f"left out: {error}")
    return _with_machines(snapshot, machines) if machines else snapshot


def _classes() -> tuple[DeviceClass, ...]:
    """baro's device classes, for files that have none."""
    from baro.demo.cluster import manifest  # noqa: PLC0415
    from baro.model.decode import to_kind  # noqa: PLC0415

    found = (to_kind(document.body, document.where) for document in manifest("deviceclasses.yaml"))
    classes = tuple(item for item in found if isinstance(item, DeviceClass))
    names = ", ".join(item.metadata.name for item in classes)
    progress(f"there is no DeviceClass in the files: taking baro's own ({names})")
    return classes
