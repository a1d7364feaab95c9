"""Check *not really ready*: the Node says Ready, its GPUs say something else.

Compares what the Node object promises (capacity, allocatable, conditions, labels, cordon) with what plugins
and drivers report, and with kernel logs and ``nvidia-smi -q -x`` where they are given. A cause that a log
or an event names replaces the mere count. What the API cannot tell (which GPU, in use or not) stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from baro.diagnosis.checks.board import Board, condition
from baro.diagnosis.checks.plugin import causes
from baro.diagnosis.checks.problem import Lost, Problem, count, named, problem
from baro.diagnosis.checks.registrars import Registrar, is_plugin_spec, logs_of, registrars, running
from baro.diagnosis.checks.resources import (
    GPU_COUNT_LABEL,
    counted_ids,
    gpu_id,
    gpu_resources,
    shares_of,
    whole_gpu_resource,
)
from baro.diagnosis.shapes import mapping
from baro.model.findings import Severity
from baro.model.kinds.base import Condition
from baro.model.kinds.core import Node
from baro.model.names import GPU_READY_CONDITION

NAME = "ready"
_GPU_CONDITION = re.compile(r"gpu|xid|nvidia|accelerat|nvlink", re.IGNORECASE)
_POSITIVE = re.compile(r"(Ready|Healthy|OK|Available)$")
STUCK_HOURS = 0.25
"""A pod that is being deleted for longer than this (and its grace period) is stuck."""


def check(board: Board) -> Iterator[Problem]:
    """All problems of this kind, node by node."""
    plugins = registrars(board)
    specific = {item.node: item for item in causes(board)}
    yield from specific.values()
    for name, node in board.nodes.items():
        resources = {**gpu_resources(node.status.capacity), **gpu_resources(node.status.allocatable)}
        if not resources and name not in board.published_gpus and name not in board.physical:
            continue
        yield from _conditions(board, node)
        if name not in specific:
            for resource in resources:
                yield from _resource(board, node, resource, plugins)
        else:
            yield from _overdrawn(board, node, resources)
        yield from _missing(board, node)
    yield from _tainted(board)
    yield from _driver_pods(board, plugins)
    yield from _short_daemonsets(board)
    yield from _stuck_pods(board)


# --- counts -----------------------------------------------------------------------------------------------


def _resource(board: Board, node: Node, resource: str, plugins: tuple[Registrar, ...]) -> Iterator[Problem]:
    """Capacity against allocatable of one resource: what the kubelet knows of the plugin's devices."""
    name = node.metadata.name
    total = gpu_resources(node.status.capacity).get(resource, 0)
    healthy = gpu_resources(node.status.allocatable).get(resource, 0)
    if total > healthy:
        yield _unhealthy(board, name, resource, total, healthy)
        yield from _overdrawn(board, node, {resource: total})
    elif total == healthy == 0:
        vendor = resource.split(".", maxsplit=1)[0]
        here = [item for item in plugins if item.device_plugin and name in item.pods and vendor in item.text]
        if here and name not in board.published_gpus:
            yield _endpoint_lost(board, node, resource, here)


def _unhealthy(board: Board, name: str, resource: str, total: int, healthy: int) -> Problem:
    bad, shares = total - healthy, shares_of(board.nodes[name])
    code = "some-devices-unhealthy" if healthy else "all-devices-unhealthy"
    what = "all" if not healthy else f"{bad} of"
    cause = "one-device-unhealthy" if healthy and bad == 1 else code
    return problem(
        NAME,
        code,
        f"node {name}: {what} {total} {resource} {'is' if bad == 1 else 'are'} unhealthy; "
        "which ones, and whether they are in use, the API does not tell",
        subject=f"Node {name}",
        node=name,
        evidence=(
            f"capacity {resource}: {total}, allocatable: {healthy}",
            "capacity counts all devices of the plugin, allocatable the healthy ones",
        ),
        next=logs_of(board, name),
        lost=Lost(
            gpus=counted_ids(name, resource, range(-(-bad // shares)))
            if whole_gpu_resource(resource)
            else frozenset(),
            basis=f"{count(bad, 'device')} below capacity cannot be allocated",
        ),
        facts={
            "cause": cause,
            "resource": resource,
            "unhealthy": bad,
            "healthy": healthy,
            "total": total,
            "in_use": "unknown",
            "which": "needs-plugin-log",
        },
    )


def _overdrawn(board: Board, node: Node, resources: Iterable[str]) -> Iterator[Problem]:
    """More asked for by running pods than is healthy: somebody runs on a GPU that is not."""
    name = node.metadata.name
    for resource in resources:
        total = gpu_resources(node.status.capacity).get(resource, 0)
        healthy = gpu_resources(node.status.allocatable).get(resource, 0)
        holders = [view for view in board.pods_on.get(name, ()) if view.counted.get(resource)]
        asked = sum(view.counted[resource] for view in holders)
        if not healthy < asked <= total:
            continue
        yield problem(
            NAME,
            "pod-on-unhealthy-gpu",
            f"node {name}: pods hold {asked} {resource}, of which only {healthy} are healthy: "
            f"{count(asked - healthy, 'unhealthy device')} in use, none free",
            subject=f"Node {name}",
            node=name,
            evidence=(f"pods: {named(view.name for view in holders)}",),
            next=(
                f"kubectl describe node {name}",
                "kubectl get pod POD -o yaml | grep -A8 allocatedResourcesStatus",
            ),
            facts={"free": 0, "pods_on_unhealthy_gpu": asked - healthy, "requested": asked},
        )


def _endpoint_lost(board: Board, node: Node, resource: str, here: list[Registrar]) -> Problem:
    name = node.metadata.name
    pod = here[0].pods[name]
    return problem(
        NAME,
        "plugin-endpoint-lost",
        f"node {name}: {resource} is 0 of 0 although the plugin pod {pod.metadata.namespace}/"
        f"{pod.metadata.name} is there: the kubelet has lost the plugin's endpoint",
        subject=f"Node {name}",
        node=name,
        evidence=(
            f"capacity {resource}: 0, allocatable: 0 (the key stays after the plugin has gone)",
            f"plugin pod {pod.metadata.namespace}/{pod.metadata.name}: "
            f"{pod.status.phase or 'phase not told'}",
        ),
        next=(
            f"kubectl logs -n {pod.metadata.namespace} {pod.metadata.name} --tail=50",
            f"kubectl get pod -n {pod.metadata.namespace} {pod.metadata.name} -o wide",
        ),
        lost=Lost(
            gpus=counted_ids(name, resource, range(board.physical.get(name, 0))),
            basis="physical GPUs by the node's labels"
            if board.physical.get(name)
            else "how many GPUs the node has is not told",
        ),
        facts={"cause": "plugin-endpoint-lost", "resource": resource},
    )


def _missing(board: Board, node: Node) -> Iterator[Problem]:
    """Fewer GPUs are offered than the machine's label says it has."""
    name = node.metadata.name
    label = node.metadata.labels.get(GPU_COUNT_LABEL, "")
    if not label.isdecimal():
        return
    offered = max(
        len(board.published_gpus.get(name, ())),
        sum(u for r, u in gpu_resources(node.status.capacity).items() if whole_gpu_resource(r)),
    )
    parts = any(not whole_gpu_resource(r) and u for r, u in gpu_resources(node.status.capacity).items())
    if not offered or parts or offered >= int(label):
        return
    gone = int(label) - offered
    yield problem(
        NAME,
        "gpu-missing",
        f"node {name} has {count(int(label), 'GPU')} by its label and offers {offered}",
        subject=f"Node {name}",
        node=name,
        evidence=(f"label {GPU_COUNT_LABEL}={label}",),
        next=(
            f"kubectl get resourceslices --field-selector spec.nodeName={name} -o yaml",
            f"kubectl describe node {name}",
        ),
        lost=Lost(gpus=counted_ids(name, "missing", range(gone)), basis="GPUs that nobody offers"),
        facts={"missing": gone},
    )


# --- conditions -------------------------------------------------------------------------------------------


def _conditions(board: Board, node: Node) -> Iterator[Problem]:
    name = node.metadata.name
    ready = condition(node.status.conditions, "Ready")
    if ready is not None and ready.status != "True":
        yield _condition(board, node, ready, "node-not-ready-with-gpus", _all_gpus(board, name))
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
                    "kubectl get devicetaintrules",
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
