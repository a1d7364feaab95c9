"""Check *DRA broken*, part one: what drivers publish, and whether somebody stands behind it.

Pools as the scheduler sees them (generation, completeness, duplicates, counters), slices without devices,
of nodes that are gone, and of drivers whose pod is gone; devices that lost what their siblings publish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from baro.diagnosis.checks.board import Board, PodView
from baro.diagnosis.checks.problem import Lost, Problem, count, named, problem
from baro.diagnosis.checks.registrars import Registrar, logs_of, registrars
from baro.diagnosis.checks.resources import gpu_id
from baro.inventory import NodePool
from baro.inventory.pools import SliceRecord
from baro.model.findings import Severity

NAME = "dra"
_SIBLINGS = 2
"""So many devices must publish an attribute before one without it is suspect."""


def check(board: Board) -> Iterator[Problem]:
    """All problems with what is published."""
    for node in board.inventory.node_names():
        pools = board.pools(node)
        if pools.error:
            yield _plain("pool-invalid", f"node {node}: {pools.error}", node)
        for name in pools.stale_slices:
            yield problem(
                NAME,
                "slice-old-generation",
                f"slice {name} of node {node} is of an older generation of its pool and does not count",
                subject=f"ResourceSlice {name}",
                node=node,
                next=(f"kubectl get resourceslice {name} -o yaml",),
            )
        for pool in pools.pools:
            yield from _pool(board, node, pool)
    yield from _empty(board)
    yield from _homeless(board)
    yield from _driverless(board)
    yield from _lost_attributes(board)


def _plain(code: str, message: str, node: str) -> Problem:
    command = f"kubectl get resourceslices --field-selector spec.nodeName={node}"
    return problem(NAME, code, message, subject=f"Node {node}", node=node, next=(command,))


def _pool(board: Board, node: str, pool: NodePool) -> Iterator[Problem]:
    """A pool that the scheduler leaves out, or that upstream takes although it is wrong."""
    if pool.inconsistent_count:
        told = sorted({record.slice_count for record in pool.counter_slices})
        code, facts = "pool-inconsistent", {"slice_counts": told}
        what = f"its slices disagree on resourceSliceCount: {', '.join(map(str, told))}"
    elif pool.incomplete and pool.slices and pool.slices[0].slice_count:
        code = "pool-incomplete"
        wanted = pool.slices[0].slice_count
        facts = {"slices": [len(pool.counter_slices)], "wanted": [wanted]}
        what = (
            f"{len(pool.counter_slices)} of {count(wanted, 'slice')} of generation {pool.generation} "
            f"{'is' if len(pool.counter_slices) == 1 else 'are'} there"
        )
    elif pool.invalid:
        code, what, facts = "pool-invalid", pool.invalid, {}
    else:
        return
    ids = _gpus_of(board, node, pool)
    yield problem(
        NAME,
        code,
        f"pool {pool.id} of node {node}: {what}",
        subject=f"Node {node}",
        node=node,
        evidence=(f"slices: {named(record.name for record in pool.slices)}",),
        next=(f"kubectl get resourceslices --field-selector spec.nodeName={node} -o yaml",),
        lost=Lost(gpus=ids, basis="GPUs of the pool: the scheduler leaves the whole pool out"),
        facts={"pool": pool.id, **facts},
    )


def _gpus_of(board: Board, node: str, pool: NodePool) -> frozenset[str]:
    return frozenset(
        gpu_id(node, key)
        for key, _ in board.published_gpus.get(node, ())
        if (key.driver, key.pool) == (pool.driver, pool.name)
    )


def _empty(board: Board) -> Iterator[Problem]:
    """Slices with neither devices nor counters: the driver runs and found nothing."""
    for record in board.inventory.slices():
        if record.rows or record.counter_sets or record.slice_count != 1:
            continue
        if any(other.rows for other in board.inventory.pool_slices(record.pool_key)):
            continue
        node = record.node_name
        yield problem(
            NAME,
            "empty-slice",
            f"slice {record.name} of {record.driver} has no devices"
            + (f": the driver on node {node} finds none" if node else ""),
            subject=f"ResourceSlice {record.name}",
            node=node,
            next=logs_of(board, node, dra=True),
            lost=Lost(
                gpus=frozenset(f"{node}/gpu#{i}" for i in range(board.physical.get(node or "", 0))),
                basis="physical GPUs by the node's labels",
            ),
            facts={"cause": "empty-slice", "driver": record.driver},
        )


# --- slices that nobody stands behind ---------------------------------------------------------------------


def _homeless(board: Board) -> Iterator[Problem]:
    """Slices of nodes that do not exist. Judged only where nodes were read."""
    if not board.nodes:
        return
    for record in board.inventory.slices():
        node = record.node_name
        if node and node not in board.nodes:
            yield problem(
                NAME,
                "slice-without-node",
                f"slice {record.name} of {record.driver} is of node {node}, which does not exist",
                subject=f"ResourceSlice {record.name}",
                node=node,
                next=(f"kubectl get node {node}", f"kubectl get resourceslice {record.name} -o yaml"),
                facts={"driver": record.driver},
            )


def _driverless(board: Board) -> Iterator[Problem]:
    """Slices whose driver has no pod on the node although it has one elsewhere, or pods wait for it there."""
    if not board.snapshot.pods or board.evidence.lacks("pods"):
        return
    plugins = [item for item in registrars(board) if item.dra]
    nodes: dict[str, dict[str, list[SliceRecord]]] = {}
    for record in board.inventory.slices():
        if record.node_name and record.rows and (not board.nodes or record.node_name in board.nodes):
            nodes.setdefault(record.driver, {}).setdefault(record.node_name, []).append(record)
    for driver, by_node in nodes.items():
        serving = _serving(driver, by_node, plugins)
        for node, records in by_node.items():
            if any(node in plugin.pods for plugin in serving):
                continue
            waiting = _waiting(board, node, driver)
            if serving or (waiting and not any(node in plugin.pods for plugin in plugins)):
                yield _without_driver(board, node, driver, records, serving, waiting)


def _serving(driver: str, by_node: dict[str, list[SliceRecord]], plugins: list[Registrar]) -> list[Registrar]:
    """The plugins that serve a driver: those that name it, else those on most of its nodes."""
    by_name = [plugin for plugin in plugins if plugin.serves(driver)]
    if by_name:
        return by_name
    half = len(by_node) / 2
    return [p for p in plugins if len(by_node) > 1 and sum(n in p.pods for n in by_node) > half]


def _waiting(board: Board, node: str, driver: str) -> list[PodView]:
    """Pods that are bound to the node, hold devices of the driver and have not started."""
    found = []
    for view in board.pods_on.get(node, ()):
        if view.pod.status.phase not in ("Pending", ""):
            continue
        for key in view.claims:
            claim = board.claims.get(key)
            allocation = claim.status.allocation if claim is not None else None
            if allocation and any(result.driver == driver for result in allocation.devices.results):
                found.append(view)
                break
    return found


def _without_driver(
    board: Board,
    node: str,
    driver: str,
    records: list[SliceRecord],
    serving: list[Registrar],
    waiting: list[PodView],
) -> Problem:
    ids = [gpu_id(node, key) for key, _ in board.published_gpus.get(node, ()) if key.driver == driver]
    evidence = [f"slices: {named(record.name for record in records)}"]
    if serving:
        evidence.append(f"{serving[0].title} runs on {count(len(serving[0].pods), 'node')}, not on this one")
    else:
        evidence.append("no pod on the node mounts the kubelet's plugin directory")
    if waiting:
        evidence.append(f"pods that wait for it: {named(view.name for view in waiting)}")
    return problem(
        NAME,
        "slice-without-driver",
        f"node {node} advertises {count(len(records), 'slice')} of {driver}, but no pod of that "
        "driver runs there: "
        "pods are bound to devices that nobody can prepare",
        subject=f"Node {node}",
        node=node,
        evidence=evidence,
        next=(
            f"kubectl get pods -A --field-selector spec.nodeName={node}",
            f"kubectl get resourceslices --field-selector spec.nodeName={node}",
        ),
        lost=Lost(gpus=frozenset(ids), basis="GPUs that nobody can prepare"),
        facts={
            "cause": "slice-without-driver",
            "driver": driver,
            "affected_pods": [v.name for v in waiting],
        },
    )


# --- devices unlike their siblings ------------------------------------------------------------------------


def _lost_attributes(board: Board) -> Iterator[Problem]:
    """A device of a driver that has no value where all its siblings on the node have one."""
    table = board.inventory.table
    for node in board.inventory.node_names():
        for pool in board.pools(node).pools:
            if len(pool.rows) <= _SIBLINGS and len(board.inventory.pool_slices((pool.driver, pool.name))) > 1:
                continue
            told = [
                {name for name, value in table.attributes_of(row) if value[1] is not None}
                for row in pool.rows
            ]
            if len({frozenset(names) for names in told}) < 2:
                continue
            types = [table_type(board, row) for row in pool.rows]
            for at, row in enumerate(pool.rows):
                yield from _odd_one(board, node, pool, told, types, at, row)


def table_type(board: Board, row: int) -> str:
    """The ``type`` a device says it is of, so that a MIG device is not compared with a GPU."""
    return board.finder.text("type", row) or ""


def _odd_one(
    board: Board,
    node: str,
    pool: NodePool,
    told: list[set[tuple[str, str]]],
    types: list[str],
    at: int,
    row: int,
) -> Iterator[Problem]:
    siblings = [names for i, names in enumerate(told) if i != at and types[i] == types[at]]
    if not siblings:
        return
    everywhere = set.intersection(*siblings)
    gone = sorted(name for _, name in everywhere - told[at])
    device = board.inventory.table.device_name(row)
    if not gone or (len(siblings) < _SIBLINGS and told[at] <= everywhere and not _named_null(board, row)):
        return
    counts = Counter(types)
    missed = _named_null(board, row) or _asked_for(board, gone)
    yield problem(
        NAME,
        "device-lost-attribute",
        f"node {node}: device {device} of {pool.driver} does not publish {named(gone)}, which all "
        "its siblings do: "
        f"claims that ask for it find {counts[types[at]] - 1} of {counts[types[at]]} devices",
        subject=f"Node {node}",
        node=node,
        evidence=(f"pool {pool.id}, device {device}: no {named(gone)}",),
        next=(f"kubectl get resourceslices --field-selector spec.nodeName={node} -o yaml",),
        severity=Severity.WARNING if missed else Severity.INFO,
        facts={"short_driver": pool.driver, "suspect_device": device, "attributes": gone},
    )


def _asked_for(board: Board, attributes: list[str]) -> bool:
    """Whether a claim that waits asks for one of the attributes: then the device is missed."""
    for claim in board.snapshot.claims:
        if claim.status.allocation is not None:
            continue
        devices = claim.spec.devices
        asked = [constraint.match_attribute or "" for constraint in devices.constraints]
        for request in devices.requests:
            for one in (request.exactly, *request.first_available):
                asked += [item.cel.expression for item in (one.selectors if one else ()) if item.cel]
        if any(name in text for name in attributes for text in asked):
            return True
    return False


def _named_null(board: Board, row: int) -> bool:
    """Whether the device names an attribute without giving a value."""
    return any(value[0] == "unset" for _, value in board.inventory.table.attributes_of(row))
