"""What logs and events say of a device plugin's devices: one cause for each node, the most exact one.

Part of the check *not really ready*: a count says that a device is unhealthy, these lines say why.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from baro.diagnosis.checks import plugin_logs
from baro.diagnosis.checks.board import Board
from baro.diagnosis.checks.logs import Line, XidClass, lines, xid_class, xids
from baro.diagnosis.checks.problem import Lost, Problem, on_node, problem
from baro.diagnosis.checks.registrars import logs_of
from baro.diagnosis.checks.resources import gpu_id, gpu_resources
from baro.diagnosis.evidence import CaptureKind

NAME = "ready"
_PREFERRED = re.compile(r"GetPreferredAllocation rpc failed")
_LOST = re.compile(
    r"GPU is lost|unable to get device link information|error creating nvml\.Device", re.IGNORECASE
)
_INDEX = re.compile(r"nvml\.Device (\d+)")
_TOO_OLD = re.compile(r"(?:UUID|Device) ((?:GPU|MIG)-[0-9a-fA-F-]+) is too old to support healt[h-]*checking")
_MARKED = re.compile(
    r"XidCriticalError: Xid=(\d+) on (?:Device|GPU)=((?:MIG-)?(?:GPU-)?[0-9a-fA-F-]+(?:/\d+)*)"
)
_RELOAD = re.compile(r"systemctl daemon-reload|systemd\[1\]: Reloading\b|Reexecuting\.")


def causes(board: Board) -> Iterator[Problem]:
    """At most one problem for each node, in the order of how exact the evidence is."""
    told: set[str] = set()
    parts = (_marked(board), _too_old(board), _preferred(board), plugin_logs.causes(board), _reloaded(board))
    for item in itertools.chain.from_iterable(parts):
        place = item.node or f"?{item.subject}"
        if place not in told:
            told.add(place)
            yield item


def _counts(board: Board, node: str | None) -> tuple[int, int]:
    item = board.nodes.get(node or "")
    if item is None:
        return 0, 0
    return sum(gpu_resources(item.status.capacity).values()), sum(
        gpu_resources(item.status.allocatable).values()
    )


def _gpu(board: Board, node: str | None, uuid: str) -> str:
    for key, row in board.published_gpus.get(node or "", ()):
        if board.finder.text("uuid", row) == uuid:
            return gpu_id(node or "", key)
    return f"{node or '?'}/{uuid}"


def _marked(board: Board) -> Iterator[Problem]:
    """The plugin says which GPU it gave up, and after which Xid."""
    for line in lines(board.evidence, "XidCriticalError"):
        match = _MARKED.search(line.text)
        if match is None:
            continue
        code, uuid = int(match[1]), match[2]
        kind = xid_class(code)
        yield problem(
            NAME,
            "xid-marked-unhealthy",
            f"the device plugin gave up {uuid} after Xid {code} ({kind.value}); it takes the GPU "
            "back only when "
            "it is restarted, and then without any test",
            subject=f"Node {line.node}" if line.node else uuid,
            node=line.node,
            evidence=(f"{line.place}: {line.text}",),
            next=(*logs_of(board, line.node), on_node(line.node, "nvidia-smi -q -x")),
            remedy="Test the GPU, then restart the plugin pod."
            if kind is not XidClass.APPLICATION
            else "The Xid comes from applications: a quick test of the GPU, then restart the plugin pod.",
            lost=Lost(gpus=frozenset({_gpu(board, line.node, uuid)}), basis="the GPU that was given up"),
            facts={
                "xid": code,
                "uuid": uuid,
                "recoverable_by_plugin_restart": not kind.fatal,
                "recommend": "preflight-then-readmit",
            },
        )


def _too_old(board: Board) -> Iterator[Problem]:
    for line in lines(board.evidence, "too old to support"):
        match = _TOO_OLD.search(line.text)
        if match is None:
            continue
        _, healthy = _counts(board, line.node)
        yield problem(
            NAME,
            "healthcheck-unsupported",
            f"{match[1]} is too old for the plugin's health check, so the plugin calls it unhealthy "
            "and it is "
            "never allocated; nothing says that it is broken",
            subject=f"Node {line.node}" if line.node else match[1],
            node=line.node,
            evidence=(f"{line.place}: {line.text}",),
            next=("kubectl get daemonset -A -o yaml | grep -i DP_DISABLE_HEALTHCHECKS",),
            lost=Lost(
                gpus=frozenset({_gpu(board, line.node, match[1])}), basis="the GPU that is not allocated"
            ),
            facts={"cause": "healthcheck-unsupported", "allocatable": healthy, "uuid": match[1]},
        )


def _preferred(board: Board) -> Iterator[Problem]:
    """One lost GPU makes every allocation on the node fail."""
    for line in lines(board.evidence, "GetPreferredAllocation"):
        if not _PREFERRED.search(line.text) or not _LOST.search(_wrapped(board, line)):
            continue
        node = line.node or _node_of_pod(board, line)
        total, healthy = _counts(board, node)
        if 0 < total <= healthy:
            continue  # a pod that failed keeps its message; all devices are healthy now
        index = _INDEX.search(_wrapped(board, line))
        yield problem(
            NAME,
            "lost-gpu-breaks-preferred-allocation",
            f"{'node ' + node if node else 'a node'}: a lost GPU makes the device plugin's choice "
            "fail, so every "
            f"pod is rejected there, also for the {healthy} healthy GPUs",
            subject=f"Node {node}" if node else "",
            node=node,
            evidence=(f"{line.place}: {line.text}", f"capacity {total}, allocatable {healthy}"),
            next=(
                f"kubectl describe node {node}" if node else "kubectl get nodes",
                "kubectl get events -A --field-selector reason=UnexpectedAdmissionError",
            ),
            lost=Lost(
                gpus=frozenset(f"{node}/{unit}" for unit in range(total or 1)),
                basis="all GPUs of the node: none can be allocated",
            ),
            facts={
                "cause": "lost-gpu-breaks-preferred-allocation",
                "action": "cordon",
                "healthy_gpus_blocked": healthy,
                "gpu_index": int(index[1]) if index else None,
            },
        )


def _wrapped(board: Board, line: Line) -> str:
    """The line and the two below it: terminals and people wrap long events."""
    file, _, number = line.place.rpartition(":")
    for capture in board.evidence.captures:
        if not line.is_event and capture.where.file == file and number.isdecimal():
            return " ".join(capture.text.splitlines()[int(number) - 1 : int(number) + 2])
    return line.text


def _node_of_pod(board: Board, line: Line) -> str | None:
    namespace, _, name = (line.pod or "").partition("/")
    for pod in board.snapshot.pods:
        if (pod.metadata.namespace, pod.metadata.name) == (namespace, name):
            return pod.spec.node_name or None
    return next(iter(board.nodes)) if len(board.nodes) == 1 else None


def _reloaded(board: Board) -> Iterator[Problem]:
    """Unhealthy right after systemd was reloaded, without any Xid: the plugin's own container lost access."""
    failing = {item.node for item in xids(board.evidence) if item.kind.fatal}
    for capture in board.evidence.captures:
        if capture.kind not in (CaptureKind.LOG, CaptureKind.TEXT):
            continue
        match = _RELOAD.search(capture.text)
        total, healthy = _counts(board, capture.node)
        if match is None or healthy >= total or capture.node in failing:
            continue
        yield problem(
            NAME,
            "plugin-lost-device-access",
            f"node {capture.node}: {total - healthy} of {total} GPUs are unhealthy after systemd "
            "was reloaded and "
            "no Xid is logged: the plugin's container lost access to the devices, the GPUs are fine",
            subject=f"Node {capture.node}",
            node=capture.node,
            evidence=(f"{capture.where.file}: {match[0]}", f"capacity {total}, allocatable {healthy}"),
            next=(f"kubectl get pods -A --field-selector spec.nodeName={capture.node} | grep -i plugin",),
            remedy="Delete the plugin pod; its DaemonSet makes a new one that sees the devices.",
            lost=Lost(
                gpus=frozenset(f"{capture.node}/{unit}" for unit in range(total - healthy)),
                basis="GPUs below capacity",
            ),
            facts={"cause": "plugin-lost-device-access", "hardware": "ok", "fix": "delete plugin pod"},
        )
