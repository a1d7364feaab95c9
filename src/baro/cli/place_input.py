"""What ``baro place`` is asked and what it looks at: manifests, dumps, captures of machines, a live cluster.

Reads and sorts; nothing is placed here. A machine that is given as such (``nvidia-smi topo -m``,
``nvidia-smi -q -x``, a MachineTopology, a MachineProfile) becomes a node with the slices that baro's agent
would publish; beside slices of that node it tells how its GPUs are linked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from baro.cli import place_machines
from baro.cli.output import progress
from baro.cli.place_groups import read_groups
from baro.cli.sources import SourceOptions, open_source
from baro.diagnosis.evidence import Evidence
from baro.diagnosis.files import read_files
from baro.inventory import Snapshot
from baro.model.errors import InputError
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim, ResourceClaimTemplate
from baro.placement import requests
from baro.placement.gang.objects import Gang, Groups, gangs, key_of_gang
from baro.placement.requests import Claims, Group, groups, key_of

K = TypeVar("K", bound=KubeObject)
_NOT_NEEDED = frozenset({
    "namespaces", "events", "daemonsets", "deployments",
    "metrics", "persistentvolumeclaims", "persistentvolumes", "storageclasses", "podgroups", "workloads",
})  # fmt: skip
"""Sources that no placement depends on, or (groups, gates) whose lack is told where it matters."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is placed, in this order, before which cluster."""

    snapshot: Snapshot
    wanted: tuple[Group | Gang, ...]
    known: Claims
    where: str
    """For messages: ``the files``, ``the cluster or the files``."""
    told: tuple[Evidence, ...] = ()
    """Everything that was read, the cluster first: for its version and feature gates."""


def read(files: Sequence[str], source: SourceOptions, *, one_gang: bool = False) -> Question:
    """The question in ``files``, before what they hold themselves and what ``source`` names.

    A cluster is read when ``files`` have no devices or ``source`` names one. Raises ``InputError`` for files
    that cannot be used and for a question without claims or devices.
    """
    asked = read_files(files) if files else None
    if asked is not None and asked.unreadable:
        raise asked.unreadable[0]
    machines = place_machines.machines(asked) if asked else {}
    world = _world(
        source,
        have_files=asked is not None,
        have_devices=bool(asked and (asked.snapshot.slices or asked.snapshot.node_topologies or machines)),
    )
    if world is not None:
        machines = {**place_machines.machines(world), **machines}
    where = "the files" if world is None or source.paths else "the cluster or the files"
    own = _own(asked, world, source)
    snapshot = _merged(world, asked)
    snapshot = place_machines.with_machines(snapshot, machines)
    templates = _by_name([*(world.templates if world else ()), *(asked.templates if asked else ())])
    known = Claims(snapshot.claims, templates, where)
    documents = [item for found in (world, asked) if found for item in found.documents]
    bodies = [item.body for item in documents if item.kind in ("PodGroup", "Workload")]
    if world is not None:
        bodies = [*read_groups(source, own.pods), *bodies]
    wanted = _wanted(own, snapshot, known, Groups(bodies), one_gang=one_gang)
    _check(snapshot, wanted, own, where)
    told = tuple(found for found in (world, asked) if found is not None)
    return Question(snapshot=snapshot, wanted=wanted, known=known, where=where, told=told)


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
