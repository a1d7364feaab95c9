"""Check *DRA broken*, part five: CDI, from specs, errors and listings that are given as files.

The runtime says only "unresolvable CDI devices"; the specs say which of five causes it is: no spec of the
kind, one that is invalid and therefore skipped, other names, another directory, or a spec that was lost at
reboot. A spec that resolves may still name files of an older driver, or no device node at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from baro.diagnosis.checks.board import Board
from baro.diagnosis.checks.cdi_spec import Spec, edits_of, spec_of
from baro.diagnosis.checks.logs import Line, lines, matching
from baro.diagnosis.checks.problem import Problem, count, named, on_node, problem
from baro.diagnosis.evidence import CaptureKind, Evidence
from baro.diagnosis.shapes import mappings

NAME = "dra"
_UNRESOLVABLE = re.compile(
    r"(?:unresolvable CDI devices|could not resolve CDI devices:) \[?((?:[\w.-]+/[\w.-]+=[\w.:@+-]+[,\s]*)+)"
)
_UNRESOLVED_WORDS = ("unresolvable CDI devices", "could not resolve CDI devices")
_ABSENT = re.compile(
    r"failed to stat CDI host device \\?\"(/[^\"\\]+)"
    r"|error stat'?ing file (/\S+?):? ?:? no such file"
    r"|error mounting \\?\"(/[^\"\\]+)\\?\" to rootfs.*no such file or directory"
    r"|failed to fulfil mount request: open (/\S+?): no such file or directory",
    re.IGNORECASE,
)
_VERSIONED = re.compile(r"(?:nvidia|cuda|nvcuvid|nvoptix)\S*\.so\.(\d{3}\.\d+(?:\.\d+)?)$")
_UNWRITTEN = re.compile(r"(?:add device \\?\"([^\"\\]+)\\?\": )?invalid device, empty device edits")
_OFF = re.compile(r"^\s*enable_cdi\s*=\s*false\b", re.MULTILINE)
_DIRECTORIES = re.compile(r"^\s*cdi_spec_dirs\s*=\s*\[([^\]]*)\]", re.MULTILINE)
_LISTED = re.compile(r"^\s*([\w.-]+/[\w.-]+)=(\S+)\s*$", re.M)
_SPEC_FILE = re.compile(r"^\s*(/\S*cdi/\S+\.(?:json|ya?ml))\s*$", re.M)
_EMPTY_DIR = re.compile(r"^\s*(/var/run/cdi|/run/cdi)/?\s+\(?empty", re.M)
_PREPARED = re.compile(r"checkpoint|PreparedClaims", re.I)
_DRIVER = re.compile(
    r"Kernel Module\s+(?:for \S+\s+)?(\d+\.\d+(?:\.\d+)?)|driver version[: ]+(\d+\.\d+(?:\.\d+)?)", re.I
)
_LIBRARY = re.compile(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")
_DEV_MISSING = re.compile(r"cannot access '?/dev/nvidia")
_NODES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm")
SEARCHED = ("/etc/cdi", "/var/run/cdi")
"""The default directories of containerd and CRI-O; podman's default is the first alone."""


def check(board: Board) -> Iterator[Problem]:
    """All problems with CDI."""
    evidence = board.evidence
    specs = [spec_of(capture) for capture in evidence.captured(CaptureKind.CDI_SPEC)]
    for spec in specs:
        yield from _invalid(spec)
        yield from _stale(board, spec)
        yield from _nodeless(evidence, spec)
    yield from _conflicts(specs)
    yield from _unresolvable(board, specs)
    yield from _absent(board, specs)
    yield from _switched_off(board)
    yield from _unwritten(board, specs)


# --- specs ------------------------------------------------------------------------------------------------


def _invalid(spec: Spec) -> Iterator[Problem]:
    if not spec.faults:
        return
    path, what = spec.faults[0]
    more = f" (and {count(len(spec.faults) - 1, 'more fault')})" if len(spec.faults) > 1 else ""
    yield problem(
        NAME,
        "cdi-spec-invalid",
        f"CDI spec {spec.file}: {path}: {what}{more}; the runtime skips the whole file without a word",
        subject=f"CDI {spec.kind}",
        node=spec.capture.node,
        evidence=(
            f"devices in it: {named(spec.devices)}",
            *(f"{other}: {words}" for other, words in spec.faults[1:]),
        ),
        next=(on_node(spec.capture.node, "nvidia-ctk cdi list"),),
        facts={"valid_spec": False, "path": path, "message": what},
    )


def _conflicts(specs: list[Spec]) -> Iterator[Problem]:
    """Two files of one directory with the same device: the runtime resolves it to neither."""
    seen: dict[tuple[str | None, str, str, str], Spec] = {}
    told: set[tuple[str, str]] = set()
    for spec in specs:
        for name in dict.fromkeys(spec.devices) if not spec.faults else ():
            key = (spec.capture.node, str(PurePosixPath(spec.file).parent), spec.kind, name)
            other = seen.setdefault(key, spec)
            if other is spec or (other.file, spec.file) in told:
                continue
            told.add((other.file, spec.file))
            yield problem(
                NAME,
                "cdi-device-conflict",
                f"CDI device {spec.kind}={name} is in two specs of one directory, {other.file} and "
                f"{spec.file}: runtimes then resolve it to neither",
                subject=f"CDI {spec.kind}",
                node=spec.capture.node,
                evidence=(f"{other.file}: {named(other.devices)}", f"{spec.file}: {named(spec.devices)}"),
                next=(on_node(spec.capture.node, "nvidia-ctk cdi list"),),
                facts={"device": f"{spec.kind}={name}", "files": [other.file, spec.file]},
            )


def _stale(board: Board, spec: Spec) -> Iterator[Problem]:
    """The spec names libraries of another driver version than the one that is loaded."""
    versions: dict[str, str] = {}
    for edits in edits_of(spec):
        for mount in mappings(edits.get("mounts")):
            path = str(mount.get("hostPath") or "")
            found = _LIBRARY.search(path)
            if found and ("nvidia" in path or "cuda" in path):
                versions.setdefault(found[1], path)
    loaded = _loaded_driver(board, spec.capture.node)
    for version, path in versions.items():
        if loaded and version != loaded:
            yield problem(
                NAME,
                "cdi-spec-stale",
                f"CDI spec {spec.capture.where.file} names files of driver {version}, the loaded "
                f"driver is {loaded}: "
                "no container with it starts",
                subject=f"CDI {spec.kind or PurePosixPath(spec.capture.where.file or '').name}",
                node=spec.capture.node,
                evidence=(f"mount {path}", f"loaded driver {loaded}"),
                next=(
                    on_node(spec.capture.node, "nvidia-smi --query-gpu=driver_version --format=csv,noheader"),
                ),
                facts={
                    "cause": "cdi-spec-stale",
                    "spec_version": version,
                    "driver_version": loaded,
                    "fix": "nvidia-ctk cdi generate",
                },
            )


def _loaded_driver(board: Board, node: str | None) -> str | None:
    """The driver version that a log, a listing or the node's slices tell."""
    for capture in board.evidence.captures:
        if capture.kind is CaptureKind.CDI_SPEC or (node and capture.node not in (node, None)):
            continue
        found = _DRIVER.search(capture.text)
        if found:
            return found[1] or found[2]
    for _, row in board.published_gpus.get(node or "", ()):
        value = board.finder.value("driverVersion", row)
        if value is not None and value[0] == "version":
            return str(value[1])
    return None


def _nodeless(evidence: Evidence, spec: Spec) -> Iterator[Problem]:
    """A GPU device without any device node: it resolves, and the container finds no GPU."""
    if spec.faults or not re.search(r"nvidia|gpu", spec.kind + " ".join(spec.devices), re.I):
        return
    if any(edits.get("deviceNodes") for edits in edits_of(spec)):
        return
    absent = next((line for line in lines(evidence, "/dev/nvidia") if _DEV_MISSING.search(line.text)), None)
    missing = list(_NODES) if absent is not None else []
    yield problem(
        NAME,
        "cdi-device-nodes-missing",
        f"CDI spec {spec.capture.where.file} has a GPU without any device node: the claim is "
        "prepared and the "
        "container sees no GPU",
        subject=f"CDI {spec.kind}",
        node=spec.capture.node,
        evidence=(f"device {named(spec.devices)}: no deviceNodes",)
        + ((f"{absent.place}: {absent.text}",) if absent is not None else ()),
        next=(on_node(spec.capture.node, "ls -l /dev/nvidia*"),),
        facts={
            "valid_spec": True,
            "usable": False,
            "missing_nodes": missing,
            "recovery": ["nvidia-modprobe -u -c=0", "delete pod and claim"],
        },
    )


# --- devices that do not resolve --------------------------------------------------------------------------


def _unresolvable(board: Board, specs: list[Spec]) -> Iterator[Problem]:
    told: set[str] = set()
    for line, match in matching(board.evidence, _UNRESOLVABLE, *_UNRESOLVED_WORDS):
        devices = [part.rstrip(".,") for part in re.split(r"[,\s]+", match[1]) if part.strip()]
        for kind in dict.fromkeys(device.split("=", 1)[0] for device in devices):
            mine = [device for device in devices if device.startswith(f"{kind}=")]
            if mine[0] not in told:
                told.update(mine)
                yield _cause(board, specs, line, kind, mine)


def _cause(board: Board, specs: list[Spec], line: Line, kind: str, devices: list[str]) -> Problem:
    same = [spec for spec in specs if spec.kind == kind]
    offered = sorted(
        {name for spec in same if not spec.faults for name in spec.devices} | _listed(board, kind)
    )
    searched = _searched(board, line)
    elsewhere = _elsewhere(board, searched)
    if any(spec.faults for spec in same):
        code, why = (
            "cdi-spec-invalid",
            f"the spec {same[0].capture.where.file} of this kind is invalid and is skipped",
        )
        facts: dict[str, Any] = {"valid_spec": False}
    elif offered:
        code, why = "cdi-name-unknown", f"the kind {kind} offers {named(offered)}"
        facts = {"resolvable": False, "same_kind_names": offered}
    elif elsewhere:
        code, why = (
            "cdi-spec-dir-not-searched",
            f"a spec lies in {elsewhere}, which the runtime does not search",
        )
        facts = {"found_in": elsewhere, "searched": list(searched), "fix": "add spec dir"}
    elif _lost_at_reboot(board):
        code, why = (
            "cdi-spec-lost-on-reboot",
            "the claim was prepared before the node booted and /var/run/cdi is empty since",
        )
        facts = {"cause": code, "cdi_device": devices[0], "fix": "delete pod and claim"}
    else:
        code, why = (
            "cdi-spec-missing",
            f"no spec of kind {kind} is known: it is missing, or older than the driver's names",
        )
        facts = {"cause": "spec-missing-or-old"}
    return problem(
        NAME,
        code,
        f"{'node ' + line.node + ': ' if line.node else ''}CDI device {named(devices)} cannot be "
        f"resolved: {why}",
        subject=f"Pod {line.pod}" if line.pod else f"CDI {kind}",
        node=line.node,
        evidence=(line.excerpt(),),
        next=(
            on_node(line.node, "ls -l /etc/cdi /var/run/cdi"),
            on_node(line.node, "nvidia-ctk cdi list"),
        ),
        facts={"devices": devices, **facts},
    )


def _texts(board: Board) -> Iterator[str]:
    for capture in board.evidence.captures:
        if capture.kind in (CaptureKind.LOG, CaptureKind.DESCRIBE, CaptureKind.TEXT):
            yield capture.text


def _listed(board: Board, kind: str) -> set[str]:
    """Names that ``cdi list`` printed for the kind."""
    return {match[2] for text in _texts(board) for match in _LISTED.finditer(text) if match[1] == kind}


def _searched(board: Board, line: Line) -> tuple[str, ...]:
    """Where the runtime that wrote the error looks: what its configuration says, else its default. ``/run``
    and ``/var/run`` are one directory."""
    for text in _texts(board):
        stated = _DIRECTORIES.search(text)
        if stated:
            found = tuple(re.findall(r"[\"']([^\"']+)[\"']", stated[1]))
            return (*found, *(one.removeprefix("/var") for one in found if one.startswith("/var/run/")))
    return SEARCHED[:1] if "setting up CDI devices" in line.text else (*SEARCHED, "/run/cdi")


def _elsewhere(board: Board, searched: tuple[str, ...]) -> str | None:
    """A directory with spec files that the runtime does not search: a listing of files, one a line."""
    for text in _texts(board):
        for match in _SPEC_FILE.finditer(text):
            folder = str(PurePosixPath(match[1]).parent)
            if folder not in searched:
                return folder
    return None


def _lost_at_reboot(board: Board) -> bool:
    return any(_EMPTY_DIR.search(text) and _PREPARED.search(text) for text in _texts(board))


# --- what a spec names and the host lacks -----------------------------------------------------------------


def _absent(board: Board, specs: list[Spec]) -> Iterator[Problem]:
    """Files and device nodes that the runtime does not find. A library of a driver version: a stale spec."""
    told: set[str] = set()
    for line, match in matching(board.evidence, _ABSENT, "o such file"):
        path = next(found for found in match.groups() if found)
        version = _VERSIONED.search(path)
        loaded = _loaded_driver(board, line.node)
        if path in told or (version and any(_names(spec, version[1]) for spec in specs) and loaded):
            continue  # told with the spec
        told.add(path)
        stale = version is not None and version[1] != loaded
        why = (
            f"it is of driver {version[1]}, {'and ' + loaded + ' is loaded' if loaded else 'which is gone'}"
            if version and stale
            else "a CDI spec or the runtime's hook names it"
        )
        facts = {"cause": "cdi-host-path-missing", "path": path}
        if version and stale:
            facts = {
                "cause": "cdi-spec-stale", "path": path, "spec_version": version[1],
                "driver_version": loaded, "fix": "nvidia-ctk cdi generate",
            }  # fmt: skip
        yield problem(
            NAME,
            "cdi-spec-stale" if stale else "cdi-host-path-missing",
            f"{'node ' + line.node + ': ' if line.node else ''}no container with a GPU starts, because "
            f"{path} is not there: {why}",
            subject=f"Pod {line.pod}" if line.pod else f"File {path}",
            node=line.node,
            evidence=(line.excerpt(),),
            next=(on_node(line.node, f"ls -l {path}"), on_node(line.node, "nvidia-smi -L")),
            facts=facts,
        )


def _names(spec: Spec, version: str) -> bool:
    """Whether a mount of the spec is of that driver version."""
    return any(
        str(mount.get("hostPath") or "").endswith(f".so.{version}")
        for edits in edits_of(spec)
        for mount in mappings(edits.get("mounts"))
    )


def _unwritten(board: Board, specs: list[Spec]) -> Iterator[Problem]:
    """A driver or tool that cannot write its spec: it found nothing to give for a device."""
    if any("empty device edits" in words for spec in specs for _, words in spec.faults):
        return  # told with the spec
    told: set[str] = set()
    for line, match in matching(board.evidence, _UNWRITTEN, "empty device edits"):
        if line.place.rpartition(":")[0] in told:
            continue
        told.add(line.place.rpartition(":")[0])
        name = f"device {match[1]}" if match[1] else "a device"
        yield problem(
            NAME,
            "cdi-device-nodes-missing",
            f"{'node ' + line.node + ': ' if line.node else ''}no CDI spec can be written: {name} has no "
            "edits, its device nodes were not found, under /dev or under the driver's root",
            subject=f"Node {line.node}" if line.node else line.place.rpartition(":")[0],
            node=line.node,
            evidence=(line.excerpt(),),
            next=(on_node(line.node, "ls -l /dev/nvidia*"),),
            facts={"cause": "cdi-device-nodes-missing", "recovery": ["nvidia-modprobe -u -c=0"]},
        )


def _switched_off(board: Board) -> Iterator[Problem]:
    """containerd before 2.0 does CDI only when told to."""
    for capture in board.evidence.captures:
        match = _OFF.search(capture.text) if capture.kind is not CaptureKind.CDI_SPEC else None
        if match is not None:
            yield problem(
                NAME,
                "cdi-disabled",
                f"{'node ' + capture.node + ': ' if capture.node else ''}containerd has CDI switched off:"
                " claims are prepared, and their containers get no device",
                subject=f"Node {capture.node}" if capture.node else capture.where.file or "",
                node=capture.node,
                evidence=(f"{capture.where.file}: {match[0].strip()}",),
                next=(on_node(capture.node, "containerd config dump | grep cdi"),),
                facts={"cause": "cdi-disabled"},
            )
