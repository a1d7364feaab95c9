"""What a node advertises: capacity, allocatable and labels, against each other and against its plugin.

Part of the check *not really ready*. "0 of N" means unhealthy, "0 of 0" a plugin that the kubelet has lost,
no entry at all a plugin that never registered. The kubelet keeps names that nothing registers any more at 0
(after a change of MIG layout, of sharing, or to DRA), so a 0 means something only when nothing stands beside
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from baro.diagnosis.checks import plugin_logs
from baro.diagnosis.checks.board import Board, condition
from baro.diagnosis.checks.problem import Lost, Problem, count, named, problem
from baro.diagnosis.checks.registrars import Registrar, logs_of
from baro.diagnosis.checks.resources import (
    GPU_COUNT_LABEL,
    GPU_LABELS,
    counted_ids,
    gpu_resources,
    number,
    shares_of,
    whole_gpu_resource,
)
from baro.model.findings import Severity
from baro.model.kinds.core import Node

NAME = "ready"


def check_node(
    board: Board, node: Node, plugins: tuple[Registrar, ...], *, explained: bool
) -> Iterator[Problem]:
    """All problems of one node. ``explained``: a log or an event has told why devices are missing."""
    name = node.metadata.name
    capacity = gpu_resources(node.status.capacity)
    resources = {**capacity, **gpu_resources(node.status.allocatable)}
    if not explained:
        for resource in resources:
            total, healthy = (
                capacity.get(resource, 0),
                gpu_resources(node.status.allocatable).get(resource, 0),
            )
            if total > healthy:
                yield _unhealthy(board, name, resource, total, healthy)
        yield from _endpoint_lost(board, node, resources, plugins)
    yield from _overdrawn(board, node, resources)
    yield from _missing(board, node)


def absent(board: Board, node: Node, plugins: tuple[Registrar, ...]) -> Iterator[Problem]:
    """No GPU resource at all on a node whose labels tell of GPUs, and nothing published: never registered.

    What is missing may be in a dump that nobody gave: only a plugin that is seen makes it more than a remark.
    """
    name = node.metadata.name
    others = [key for key in node.status.capacity if key.startswith("nvidia.com/")]
    deployed = node.metadata.labels.get("nvidia.com/gpu.deploy.device-plugin", "true") != "false"
    ready = condition(node.status.conditions, "Ready")
    if ready is not None and ready.status != "True":
        return  # that is the problem
    if not deployed or others or _types(board, name) or board.starting(node.metadata.creation_timestamp):
        return
    if any(item.dra and name in item.pods for item in plugins):
        return  # its slices are not among the evidence, or the driver's part says what is wrong
    of_gpus = [item for item in plugins if item.device_plugin and item.of_gpus]
    here = next((item for item in of_gpus if name in item.pods), None)
    why = "no plugin is among the pods given"
    severity = Severity.INFO
    if here is not None:
        meta = here.pods[name].metadata
        why = f"the plugin pod {meta.namespace}/{meta.name} is there and has never registered a resource"
        severity = Severity.ERROR
    elif of_gpus:
        why = f"{of_gpus[0].title} has no pod there"
        severity = Severity.WARNING
    told = [key for key in GPU_LABELS if node.metadata.labels.get(key)]
    yield problem(
        NAME,
        "gpu-resource-absent",
        f"node {name} has GPUs by its labels and offers none, not even 0: {why}",
        subject=f"Node {name}",
        node=name,
        severity=severity,
        evidence=(f"labels: {named(f'{key}={node.metadata.labels[key]}' for key in told)}",),
        next=logs_of(board, name),
        lost=Lost(
            gpus=counted_ids(name, "gpu", range(board.physical.get(name, 0))), basis="GPUs by the label"
        ),
        facts={"cause": "gpu-resource-absent", "resource": "absent"},
    )


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
        first = holders[0].pod.metadata
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
                f"kubectl describe pod -n {first.namespace} {first.name}",
            ),
            facts={"free": 0, "pods_on_unhealthy_gpu": asked - healthy, "requested": asked},
        )


def _endpoint_lost(
    board: Board, node: Node, resources: dict[str, int], plugins: tuple[Registrar, ...]
) -> Iterator[Problem]:
    """Everything of a vendor is 0 of 0 although its plugin is there."""
    name = node.metadata.name
    if _types(board, name) or board.starting(node.metadata.creation_timestamp):
        return
    by_vendor: dict[str, list[str]] = {}
    for resource in resources:
        by_vendor.setdefault(resource.partition("/")[0], []).append(resource)
    for vendor, names in by_vendor.items():
        word = vendor.split(".", maxsplit=1)[0]
        here = [item for item in plugins if item.device_plugin and name in item.pods and word in item.text]
        if any(resources[one] or number(node.status.capacity.get(one)) for one in names):
            continue
        if here:
            meta, status = here[0].pods[name].metadata, here[0].pods[name].status
            phase = status.phase or "phase not told"
            yield _lost_endpoint(
                board, node, names, f"pod {meta.namespace}/{meta.name} is there", f"plugin pod: {phase}",
                f"kubectl logs -n {meta.namespace} {meta.name} --tail=50",
                f"kubectl get pod -n {meta.namespace} {meta.name} -o wide",
            )  # fmt: skip
        elif (file := plugin_logs.log_of(board, name)) is not None:
            yield _lost_endpoint(board, node, names, "runs", f"{file} is its log", *logs_of(board, name))


def _lost_endpoint(  # two things that tell of the plugin, and the commands
    board: Board, node: Node, resources: list[str], what: str, seen: str, *commands: str
) -> Problem:
    name, resource = node.metadata.name, resources[0]
    physical, are = board.physical.get(name, 0), "is" if len(resources) == 1 else "are"
    return problem(
        NAME,
        "plugin-endpoint-lost",
        f"node {name}: {named(resources)} {are} 0 of 0 although the plugin "
        f"{what}: the kubelet has lost the plugin's endpoint",
        subject=f"Node {name}",
        node=name,
        evidence=(
            f"capacity {resource}: 0, allocatable: 0 (the key stays after the plugin has gone)",
            seen,
        ),
        next=commands,
        lost=Lost(
            gpus=counted_ids(name, resource, range(physical)),
            basis="physical GPUs by the node's labels"
            if physical
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
    nvidia = {r: u for r, u in gpu_resources(node.status.capacity).items() if r.startswith("nvidia.com/")}
    offered = max(
        len(board.published_gpus.get(name, ())),
        sum(u for r, u in nvidia.items() if whole_gpu_resource(r)),
    )
    parts = any(not whole_gpu_resource(r) and u for r, u in nvidia.items())
    if not offered or parts or offered >= int(label) or board.starting(node.metadata.creation_timestamp):
        return
    if _types(board, name) & {"mig", "vfio"}:
        return  # GPUs that are divided or passed through are published as something else
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


def _types(board: Board, name: str) -> set[str]:
    """What kinds of GPUs DRA drivers publish on a node: ``gpu``, ``mig``, ``vfio``."""
    told = {board.finder.text("type", row) or "" for pool in board.pools(name).pools for row in pool.rows}
    return (told & {"mig", "vfio"}) | ({"gpu"} if name in board.published_gpus else set())
