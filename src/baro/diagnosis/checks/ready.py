"""Check *not really ready*: the Node says Ready, its GPUs say something else.

Compares what the Node object promises (capacity, allocatable, conditions, labels, cordon) with what plugins
and drivers report, and with kernel logs and ``nvidia-smi -q -x`` where they are given. A cause that a log
or an event names replaces the mere count. What the API cannot tell (which GPU, in use or not) stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from baro.diagnosis.checks import advertised, plugin_logs
from baro.diagnosis.checks.board import Board, condition
from baro.diagnosis.checks.plugin import causes
from baro.diagnosis.checks.problem import Lost, Problem, count, named, problem
from baro.diagnosis.checks.registrars import Registrar, is_plugin_spec, registrars, running
from baro.diagnosis.checks.resources import (
    counted_ids,
    gpu_id,
    gpu_resources,
    has_gpus_by_label,
)
from baro.diagnosis.shapes import mapping
from baro.model.findings import Severity
from baro.model.kinds.base import Condition
from baro.model.kinds.core import Node
from baro.model.names import GPU_READY_CONDITION

NAME = "ready"
_GPU_CONDITION = re.compile(r"gpu|xid|nvidia|accelerat|nvlink", re.IGNORECASE)
_POSITIVE = re.compile(
    r"(?<!Not)(?<!Non)(Ready|Healthy|O[kK]|Available|Installed|Passed|Valid|Validated|Succeeded|Enabled|Present"
    r"|Configured|Normal|Initialized|Registered|Running)$"
)
"""Types of conditions that are good news when True; all others of GPUs are bad news then."""
STUCK_HOURS = 0.25
"""A pod that is being deleted for longer than this (and its grace period) is stuck."""


def check(board: Board) -> Iterator[Problem]:
    """All problems of this kind, node by node."""
    plugins = registrars(board)
    causes_found = tuple(causes(board))
    specific = {item.node for item in causes_found}
    yield from causes_found
    yield from plugin_logs.rejections(board)
    for name, node in board.nodes.items():
        resources = {**gpu_resources(node.status.capacity), **gpu_resources(node.status.allocatable)}
        if not resources and has_gpus_by_label(node) and name not in specific:
            yield from advertised.absent(board, node, plugins)
        if not resources and name not in board.published_gpus and name not in board.physical:
            continue
        yield from _conditions(board, node)
        yield from advertised.check_node(board, node, plugins, explained=name in specific)
    yield from _tainted(board)
    yield from _driver_pods(board, plugins)
    yield from _short_daemonsets(board)
    yield from _stuck_pods(board)


# --- conditions -------------------------------------------------------------------------------------------


def _conditions(board: Board, node: Node) -> Iterator[Problem]:
    name = node.metadata.name
    ready = condition(node.status.conditions, "Ready")
    if ready is not None and ready.status != "True":
        young = board.starting(node.metadata.creation_timestamp)
        code = "node-starting-with-gpus" if young else "node-not-ready-with-gpus"
        yield _condition(board, node, ready, code, _all_gpus(board, name))
        return
    if node.spec.unschedulable:
        yield problem(
            NAME,
            "node-cordoned-with-gpus",
            f"node {name} is cordoned: its {count(board.physical.get(name, 0), 'GPU')} take no new work",
            subject=f"Node {name}",
            node=name,
            evidence=("spec.unschedulable: true",),
            next=(f"kubectl describe node {name}",),
            lost=Lost(gpus=_idle_gpus(board, name), basis="free GPUs of the node"),
        )
    for item in node.status.conditions:
        if item.type == "Ready" or not _GPU_CONDITION.search(item.type):
            continue
        if item.type == GPU_READY_CONDITION and item.status == "Unknown":
            yield _condition(board, node, item, "gpu-ready-unknown", _idle_gpus(board, name))
        elif item.status == ("False" if _POSITIVE.search(item.type) else "True"):
            yield _condition(board, node, item, "gpu-condition", _all_gpus(board, name))


def _condition(board: Board, node: Node, item: Condition, code: str, gpus: frozenset[str]) -> Problem:
    name = node.metadata.name
    said = ": ".join(part for part in (item.reason, item.message) if part)
    return problem(
        NAME,
        code,
        f"node {name}: condition {item.type} is {item.status}" + (f" ({said})" if said else ""),
        subject=f"Node {name}",
        node=name,
        evidence=(
            f"since {item.last_transition_time}" if item.last_transition_time else "since when is not told",
        ),
        next=(f"kubectl describe node {name}",),
        lost=Lost(
            gpus=gpus,
            hours=board.hours_since(item.last_transition_time),
            basis="GPUs of the node since the condition changed",
        ),
        facts={"condition": item.type, "status": item.status},
    )


def _all_gpus(board: Board, name: str) -> frozenset[str]:
    published = board.published_gpus.get(name)
    if published:
        return frozenset(gpu_id(name, key) for key, _ in published)
    return counted_ids(name, "gpu", range(board.physical.get(name, 0)))


def _idle_gpus(board: Board, name: str) -> frozenset[str]:
    """GPUs of a node that nobody holds."""
    published = board.published_gpus.get(name)
    if published:
        holders = board.inventory.usage.holders
        return frozenset(gpu_id(name, key) for key, _ in published if key not in holders)
    used = sum(view.gpus for view in board.pods_on.get(name, ()))
    return counted_ids(name, "gpu", range(max(0, board.physical.get(name, 0) - used)))


# --- devices ----------------------------------------------------------------------------------------------


def _tainted(board: Board) -> Iterator[Problem]:
    """GPUs with a taint that keeps pods away: one problem for each node and taint."""
    for node, published in board.published_gpus.items():
        by_taint: dict[str, list[str]] = {}
        ids: dict[str, list[str]] = {}
        for key, row in published:
            for taint in board.blocking_taints(row):
                by_taint.setdefault(taint, []).append(key.device)
                ids.setdefault(taint, []).append(gpu_id(node, key))
        for taint, devices in by_taint.items():
            since = _taint_time(board, node, taint)
            yield problem(
                NAME,
                "gpu-tainted",
                f"node {node}: {named(devices)} {'is' if len(devices) == 1 else 'are'} tainted {taint}",
                subject=f"Node {node}",
                node=node,
                evidence=(f"taint {taint} on {count(len(devices), 'GPU')}",)
                + ((f"since {since}",) if since else ()),
                next=(
                    f"kubectl get resourceslices --field-selector spec.nodeName={node} -o yaml",
                    *(("kubectl get devicetaintrules",) if board.inventory.taint_rules else ()),
                ),
                lost=Lost(gpus=frozenset(ids[taint]), hours=board.hours_since(since), basis="tainted GPUs"),
                facts={"taint": taint, "devices": devices},
            )


def _taint_time(board: Board, node: str, text: str) -> str | None:
    for _, row in board.published_gpus[node]:
        for taint in board.inventory.taints(row):
            if text.startswith(taint.key) and taint.time_added:
                return taint.time_added
    return None


def _driver_pods(board: Board, plugins: tuple[Registrar, ...]) -> Iterator[Problem]:
    """Plugin pods that are on a GPU node and do not run."""
    for plugin in plugins:
        for node, pod in plugin.pods.items():
            if (
                not plugin.of_gpus
                or running(pod)
                or board.starting(pod.metadata.creation_timestamp)
                or (board.nodes and node not in board.physical and node not in board.published_gpus)
            ):
                continue
            waits = condition(pod.status.conditions, "Ready")
            yield problem(
                NAME,
                "driver-pod-not-running",
                f"node {node}: {plugin.title} does not run there (pod {pod.metadata.name}: "
                f"{pod.status.phase or 'unknown'}{', not ready' if waits else ''})",
                subject=f"Pod {pod.metadata.namespace}/{pod.metadata.name}",
                node=node,
                evidence=(waits.message,) if waits and waits.message else (),
                next=(
                    f"kubectl describe pod -n {pod.metadata.namespace} {pod.metadata.name}",
                    f"kubectl logs -n {pod.metadata.namespace} {pod.metadata.name} --previous",
                ),
                lost=Lost(
                    gpus=_idle_gpus(board, node),
                    hours=board.hours_since(waits.last_transition_time if waits else None),
                    basis="free GPUs of the node: no new pod can be prepared",
                ),
            )


def _short_daemonsets(board: Board) -> Iterator[Problem]:
    """DaemonSets of drivers that cannot even create their pods on some nodes (quota, admission)."""
    for document in board.evidence.documents:
        if document.kind != "DaemonSet":
            continue
        body = document.body
        status = mapping(body.get("status"))
        if not is_plugin_spec(mapping(mapping(body.get("spec")).get("template"))):
            continue
        wanted, there = (status.get(f"{word}NumberScheduled") for word in ("desired", "current"))
        if not isinstance(wanted, int) or not isinstance(there, int) or there >= wanted:
            continue
        namespace, _, name = (document.where.object or "").removeprefix("DaemonSet ").rpartition("/")
        yield problem(
            NAME,
            "driver-daemonset-short",
            f"DaemonSet {namespace}/{name} is meant for {count(wanted, 'node')} and has pods on {there}: "
            "something keeps its pods from being created",
            subject=f"DaemonSet {namespace}/{name}",
            evidence=(f"desiredNumberScheduled {wanted}, currentNumberScheduled {there}",),
            next=(f"kubectl describe daemonset -n {namespace} {name}",),
            facts={"wanted": wanted, "there": there},
        )


def _stuck_pods(board: Board) -> Iterator[Problem]:
    """Pods that are being deleted for long and still hold GPUs: leftovers."""
    for node, views in board.pods_on.items():
        for view in views:
            meta = view.pod.metadata
            hours = board.hours_since(meta.deletion_timestamp)  # already includes the grace period
            if hours is None or hours < STUCK_HOURS:
                continue
            held = [
                key
                for claim in view.claims
                if (found := board.claims.get(claim)) is not None and found.status.allocation is not None
                for key in found.status.allocation.devices.results
            ]
            ids = frozenset(f"{node}/{item.driver}/{item.device}" for item in held) or counted_ids(
                node, f"{view.name}", range(view.gpus)
            )
            yield problem(
                NAME,
                "pod-stuck-terminating",
                f"pod {view.name} is being deleted for {hours:.1f} h and still holds "
                f"{count(len(ids), 'GPU')} of {node}",
                subject=f"Pod {view.name}",
                node=node,
                evidence=(f"deletionTimestamp {meta.deletion_timestamp}",)
                + ((f"finalizers: {', '.join(meta.finalizers)}",) if meta.finalizers else ()),
                next=(
                    f"kubectl describe pod -n {meta.namespace} {meta.name}",
                    f"kubectl get pods -A --field-selector spec.nodeName={node} | grep -iE 'plugin|driver'",
                ),
                severity=Severity.WARNING,
                lost=Lost(gpus=ids, hours=hours, basis="GPUs that the pod holds since it was deleted"),
            )
