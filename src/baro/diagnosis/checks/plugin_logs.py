"""What a device plugin's own log says when it finds no GPU, gives GPUs up or stops; pods turned away.

Part of the check *not really ready*, beside ``plugin`` (Xids, lost GPUs on allocation). The plugin's pod is
Running in most of these cases, and the node simply has no GPUs. Sentences are those of NVIDIA's plugin of
several generations; a plugin that waits on a machine without GPUs says the same, so labels decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from baro.diagnosis.checks.board import Board
from baro.diagnosis.checks.logs import Line, at, matching
from baro.diagnosis.checks.problem import Lost, Problem, count, named, on_node, problem
from baro.diagnosis.checks.registrars import logs_of
from baro.diagnosis.checks.resources import counted_ids, gpu_resources, has_gpus_by_label
from baro.diagnosis.evidence import CaptureKind
from baro.model.findings import Severity

NAME = "ready"
_NVML = re.compile(
    r"failed to (?:initialize|start) nvml\b|(?:could not|unable to) load NVML library|NVML not detected"
    r"|Incompatible (?:strategy|platform) detected|No devices found\. Waiting",
    re.IGNORECASE,
)
_WORDS = ("NVML", "nvml", "Incompatible strategy", "Incompatible platform", "No devices found")
_UNKNOWN = re.compile(r"NVML:? ?.*\bUnknown Error", re.IGNORECASE)
_CAUSES = (
    (
        re.compile(r"LIB_RM_VERSION_MISMATCH|version mismatch", re.IGNORECASE),
        "driver-library-mismatch",
        "the NVIDIA libraries are of another version than the loaded kernel driver: the driver was updated"
        " and not reloaded",
        "Reboot the node, or unload and load the NVIDIA kernel modules.",
    ),
    (
        re.compile(r"DRIVER_NOT_LOADED|driver not loaded|couldn't communicate with the NVIDIA driver", re.I),
        "driver-not-loaded",
        "the NVIDIA kernel driver is not loaded on the node",
        "Install or load the driver; nvidia-smi must work on the node.",
    ),
    (
        re.compile(r"LIBRARY_NOT_FOUND|could not load NVML library|Incompatible (?:strategy|platform)", re.I),
        "nvml-library-not-found",
        "its container does not get the driver's libraries: it does not run with the NVIDIA runtime,"
        " or the node has no driver",
        "",
    ),
)
_PLUGIN = re.compile(
    r"device.?plugin|this is a GPU node|Retr(?:ie|ei)ving plugins|plugin-manager\.go|factory\.go"
    r"|ListAndWatch",
    re.IGNORECASE,
)
_STOPPED = re.compile(
    r"(?:unable to create resource managers?|failed to construct|error starting plugins"
    r"|error (?:building|visiting|getting|creating)).*(?:GPU is lost|ERROR_GPU_IS_LOST|is lost)",
    re.IGNORECASE,
)
_MIXED = re.compile(
    r"(more than one MIG device type present|migEnabled=true was not configured correctly"
    r"|invalid MIG configuration[^\"]*)",
    re.IGNORECASE,
)
_GIVEN_UP = re.compile(
    r"device marked unhealthy: ((?:GPU|MIG)-[0-9a-fA-F-]+)|([Mm]arking all devices as unhealthy)"
)
_EXPLAINED = re.compile(r"(?:XidCriticalError: .*=|(?:UUID|Device) )((?:GPU|MIG)-[0-9a-fA-F-]+)")
_TOO_LARGE = re.compile(
    r"maximum request size for shared (?:resources|devices|replicas?) is (\d+)"
    r"|request for '?(\S+?):? (\d+)'? too large",
)
_UNAVAILABLE = re.compile(
    r"requested number of devices unavailable for (\S+?)\. Requested: (\d+), Available: (\d+)"
)


def causes(board: Board) -> Iterator[Problem]:
    """Why a node lacks GPUs, as its plugin's log tells."""
    yield from _stopped(board)
    yield from _mixed(board)
    yield from _blind(board)
    yield from _given_up(board)


def rejections(board: Board) -> Iterator[Problem]:
    """Pods that lost their GPUs, or that a kubelet turned away: the node's count stays what it is."""
    yield from _container(board)
    yield from _too_large(board)
    yield from _unavailable(board)


def _all(board: Board, node: str | None) -> frozenset[str]:
    return counted_ids(node or "?", "gpu", range(board.physical.get(node or "", 0)))


# --- the plugin finds nothing -----------------------------------------------------------------------------


def _blind(board: Board) -> Iterator[Problem]:
    """One problem for each log: the most telling of its lines."""
    found: dict[tuple[str, str | None], list[Line]] = {}
    for line, _ in matching(board.evidence, _NVML, *_WORDS):
        if not line.is_event:
            found.setdefault((line.place.rpartition(":")[0], line.node), []).append(line)
    for (file, node), told in found.items():
        text = "\n".join(line.text for line in told)
        if _UNKNOWN.search(text):
            if _is_plugin(board, file):
                yield _lost_access(board, told[0], node)
            continue
        if _offers(board, node):
            continue  # it was so once
        cause, why, remedy = next(
            ((code, words, mend) for pattern, code, words, mend in _CAUSES if pattern.search(text)),
            ("no-devices", "NVML answers and knows no GPU", ""),
        )
        who = "the device plugin" if _is_plugin(board, file) else f"what wrote {file}"
        has = has_gpus_by_label(board.nodes.get(node or ""))
        others = any(has_gpus_by_label(item) for item in board.nodes.values())
        severity = Severity.ERROR if has or not others else Severity.INFO
        yield problem(
            NAME,
            "plugin-finds-no-gpus",
            f"{at(node)}{who} finds no GPU"
            + (": " if severity is Severity.ERROR else ", and no label says that the node has any: ")
            + why,
            subject=f"Node {node}" if node else file,
            node=node,
            severity=severity,
            evidence=tuple(dict.fromkeys(line.excerpt() for line in told[:3])),
            next=(on_node(node, "nvidia-smi -L"), *logs_of(board, node)),
            remedy=remedy,
            lost=Lost(gpus=_all(board, node), basis="GPUs of the node, by its labels"),
            facts={"cause": cause, "resource": "absent"},
        )


def _is_plugin(board: Board, file: str) -> bool:
    """Whether a log is of a device plugin, not of some container that uses a GPU."""
    return any(
        _PLUGIN.search(capture.text)
        for capture in board.evidence.captured(CaptureKind.LOG)
        if capture.where.file == file
    )


def log_of(board: Board, node: str) -> str | None:
    """The file that is the log of the node's device plugin, if one is given."""
    return next(
        (
            capture.where.file or ""
            for capture in board.evidence.captured(CaptureKind.LOG, node)
            if _PLUGIN.search(capture.text) and "kubelet[" not in capture.text
        ),
        None,
    )


def _offers(board: Board, node: str | None) -> bool:
    item = board.nodes.get(node or "")
    return item is not None and any(gpu_resources(item.status.allocatable).values())


def _lost_access(board: Board, line: Line, node: str | None) -> Problem:
    return problem(
        NAME,
        "plugin-lost-device-access",
        f"{at(node)}the device plugin gets an unknown error from NVML: its container lost access to the"
        " devices, which are fine on the host as long as nvidia-smi answers there",
        subject=line.subject,
        node=node,
        evidence=(line.excerpt(),),
        next=(on_node(node, "nvidia-smi -L"), *logs_of(board, node)),
        remedy="Delete the plugin pod; its DaemonSet makes a new one that sees the devices.",
        lost=Lost(gpus=_all(board, node), basis="GPUs of the node, by its labels"),
        facts={"cause": "plugin-lost-device-access", "fix": "delete plugin pod"},
    )


# --- the plugin stops, or gives up ------------------------------------------------------------------------


def _stopped(board: Board) -> Iterator[Problem]:
    for line, _ in matching(board.evidence, _STOPPED, "lost", "LOST"):
        if "GetPreferredAllocation" in line.text:
            continue
        yield problem(
            NAME,
            "lost-gpu-stops-plugin",
            f"{at(line.node)}a lost GPU keeps the device plugin from starting, so the node offers none of"
            " its GPUs",
            subject=line.subject,
            node=line.node,
            evidence=(line.excerpt(),),
            next=(on_node(line.node, "nvidia-smi -q -x"), on_node(line.node, "dmesg -T | grep -i xid")),
            lost=Lost(gpus=_all(board, line.node), basis="all GPUs of the node"),
            facts={"cause": "lost-gpu-stops-plugin", "action": "cordon"},
        )


def _mixed(board: Board) -> Iterator[Problem]:
    for line, match in matching(board.evidence, _MIXED, "MIG", "migEnabled"):
        yield problem(
            NAME,
            "mig-layout-not-single",
            f"{at(line.node)}the device plugin stops: {match[1].strip()[:160]}; with the strategy single"
            " all GPUs of a node are divided alike",
            subject=line.subject,
            node=line.node,
            evidence=(line.excerpt(),),
            next=(on_node(line.node, "nvidia-smi -L"), *logs_of(board, line.node)),
            lost=Lost(gpus=_all(board, line.node), basis="all GPUs of the node"),
            facts={"cause": "mig-layout-not-single"},
        )


def _given_up(board: Board) -> Iterator[Problem]:
    """Marks without an Xid beside them; those with one are told elsewhere."""
    explained = {match[1] for _, match in matching(board.evidence, _EXPLAINED, "Xid", "too old")}
    found: dict[str | None, list[tuple[Line, str]]] = {}
    for line, match in matching(board.evidence, _GIVEN_UP, "unhealthy"):
        if match[1] in explained:
            continue
        found.setdefault(line.node, []).append((line, match[1] or "all devices"))
    for node, marks in found.items():
        names = list(dict.fromkeys(name for _, name in marks))
        yield problem(
            NAME,
            "device-marked-unhealthy",
            f"{at(node)}the device plugin gave up {named(names)}, and no Xid for it is in the logs given",
            subject=marks[0][0].subject,
            node=node,
            evidence=tuple(line.excerpt() for line, _ in marks[:3]),
            next=(on_node(node, "dmesg -T | grep -i xid"), on_node(node, "nvidia-smi -q -x")),
            lost=Lost(
                gpus=frozenset(f"{node or '?'}/{name}" for name in names if name != "all devices")
                or _all(board, node),
                basis="the devices that were given up",
            ),
            facts={"cause": "device-marked-unhealthy", "devices": names},
        )


# --- pods -------------------------------------------------------------------------------------------------


def _container(board: Board) -> Iterator[Problem]:
    """A container that had a GPU and gets an unknown error now; the plugin's own log is told elsewhere."""
    told: set[str] = set()
    for line, _ in matching(board.evidence, _UNKNOWN, "Unknown Error", "unknown error"):
        file = line.place.rpartition(":")[0]
        if (not line.is_event and _is_plugin(board, file)) or file in told:
            continue
        told.add(file)
        who = f"pod {line.pod}" if line.pod else "a container"
        yield problem(
            NAME,
            "container-lost-gpus",
            f"{at(line.node)}{who} lost its GPUs while it ran: NVML answers with an unknown error",
            subject=f"Pod {line.pod}" if line.pod else line.subject,
            node=line.node,
            evidence=(line.excerpt(),),
            next=(
                on_node(line.node, "nvidia-smi -L"),
                on_node(line.node, "journalctl -b -g 'Reloading|daemon-reload'"),
            ),
            facts={"cause": "device-cgroup-reset", "gpu_ready": True, "pod_gpu_path": "broken"},
        )


def _too_large(board: Board) -> Iterator[Problem]:
    told: set[str] = set()
    for line, match in matching(board.evidence, _TOO_LARGE, "maximum request size", "too large"):
        subject = f"Pod {line.pod}" if line.pod else line.subject
        if subject in told or "shared" not in line.text:
            continue
        told.add(subject)
        most = match[1] or "1"
        yield problem(
            NAME,
            "shared-request-too-large",
            f"{'pod ' + line.pod if line.pod else 'a pod'} asks for more than {most} share of a shared GPU,"
            " which the device plugin refuses",
            subject=subject,
            node=line.node,
            evidence=(line.excerpt(),),
            next=("kubectl get pods -A --field-selector status.phase=Failed",),
            facts={"cause": "shared-request-too-large", "most": int(most)},
        )


def _unavailable(board: Board) -> Iterator[Problem]:
    """Grouped by node and resource; where the node offers all of its devices now, it is over."""
    found: dict[tuple[str | None, str], list[tuple[Line, re.Match[str]]]] = {}
    for line, match in matching(board.evidence, _UNAVAILABLE, "devices unavailable for"):
        found.setdefault((line.node, match[1]), []).append((line, match))
    for (node, resource), told in found.items():
        line, match = told[0]
        times = sum(one.count for one, _ in told)
        item = board.nodes.get(node or "")
        over = item is not None and 0 < gpu_resources(item.status.capacity).get(resource, 0) <= gpu_resources(
            item.status.allocatable
        ).get(resource, 0)
        yield problem(
            NAME,
            "devices-gone-at-admission",
            f"{at(node)}the kubelet turned away {count(times, 'pod')} that asked for {match[2]} {resource}:"
            f" it had {match[3]}"
            + ("; all devices are there now" if over else " although the scheduler counted enough"),
            subject=line.subject,
            node=node,
            severity=Severity.INFO if over else Severity.WARNING,
            evidence=(line.excerpt(),),
            next=(
                "kubectl get pods -A --field-selector status.phase=Failed",
                f"kubectl describe node {node}" if node else "kubectl get nodes",
            ),
            facts={"cause": "devices-gone-at-admission", "resource": resource, "available": int(match[3])},
        )
