"""Check *DRA broken*, part five: CDI, from specs, errors and listings that are given as files.

The runtime says only "unresolvable CDI devices"; the specs say which of five causes it is: no spec of the
kind, one that is invalid and therefore skipped, other names, another directory, or a spec that was lost at
reboot. A spec that resolves may still name files of an older driver, or no device node at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

from baro.diagnosis.checks.board import Board
from baro.diagnosis.checks.logs import Line, lines
from baro.diagnosis.checks.problem import Problem, named, on_node, problem
from baro.diagnosis.evidence import Capture, CaptureKind, Evidence
from baro.diagnosis.shapes import mapping, mappings

NAME = "dra"
_UNRESOLVABLE = re.compile(r"unresolvable CDI devices ((?:[\w.-]+/[\w.-]+=[\w.:@+-]+(?:, )?)+)")
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
_EDIT_FIELDS = ("env", "deviceNodes", "netDevices", "hooks", "mounts", "intelRdt", "additionalGids")
SEARCHED = ("/etc/cdi", "/var/run/cdi")
"""The default directories of containerd and CRI-O; podman's default is the first alone."""


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """One CDI spec as far as it concerns us. ``faults`` are paths and words of what makes it invalid."""

    capture: Capture
    kind: str
    devices: tuple[str, ...]
    faults: tuple[tuple[str, str], ...]


def check(board: Board) -> Iterator[Problem]:
    """All problems with CDI."""
    evidence = board.evidence
    specs = [_spec(capture) for capture in evidence.captured(CaptureKind.CDI_SPEC)]
    for spec in specs:
        yield from _invalid(spec)
        yield from _stale(board, spec)
        yield from _nodeless(evidence, spec)
    yield from _unresolvable(board, specs)


# --- specs ------------------------------------------------------------------------------------------------


def _spec(capture: Capture) -> Spec:
    body = mapping(capture.data)
    devices = mappings(body.get("devices"))
    faults = []
    kind = str(body.get("kind") or "")
    if not re.fullmatch(r"[A-Za-z][\w.-]*/[A-Za-z][\w-]*", kind):
        faults.append(("kind", f"invalid kind {kind!r}"))
    if not devices:
        faults.append(("devices", "no devices"))
    for index, device in enumerate(devices):
        edits = device.get("containerEdits")
        if not any(mapping(edits).get(field) for field in _EDIT_FIELDS):
            faults.append(
                (
                    f"devices[{index}].containerEdits",
                    f"invalid device {device.get('name')!r}, empty device edits",
                )
            )
    return Spec(
        capture=capture,
        kind=kind,
        devices=tuple(str(item.get("name") or "") for item in devices),
        faults=tuple(faults),
    )


def _invalid(spec: Spec) -> Iterator[Problem]:
    for path, what in spec.faults:
        yield problem(
            NAME,
            "cdi-spec-invalid",
            f"CDI spec {spec.capture.where.file}: {path}: {what}; the runtime skips the whole file "
            "without a word",
            subject=f"CDI {spec.kind}",
            node=spec.capture.node,
            evidence=(f"devices in it: {named(spec.devices)}",),
            next=(on_node(spec.capture.node, "nvidia-ctk cdi list"),),
            facts={"valid_spec": False, "path": path, "message": what},
        )


def _edits(spec: Spec) -> Iterator[Mapping[str, Any]]:
    body = mapping(spec.capture.data)
    for holder in (body, *mappings(body.get("devices"))):
        yield mapping(holder.get("containerEdits"))


def _stale(board: Board, spec: Spec) -> Iterator[Problem]:
    """The spec names libraries of another driver version than the one that is loaded."""
    versions: dict[str, str] = {}
    for edits in _edits(spec):
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
    if any(edits.get("deviceNodes") for edits in _edits(spec)):
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
    for line in lines(board.evidence, "unresolvable CDI devices"):
        match = _UNRESOLVABLE.search(line.text)
        if match is None:
            continue
        devices = [part.strip().rstrip(".,") for part in match[1].split(",") if part.strip()]
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
    elsewhere = _elsewhere(board)
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
        facts = {"found_in": elsewhere, "searched": [SEARCHED[0]], "fix": "add spec dir"}
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
        evidence=(f"{line.place}: {line.text[:240]}",),
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


def _elsewhere(board: Board) -> str | None:
    """A directory with spec files that the runtime does not search: a listing of files, one a line."""
    for text in _texts(board):
        for match in _SPEC_FILE.finditer(text):
            folder = str(PurePosixPath(match[1]).parent)
            if folder not in SEARCHED:
                return folder
    return None


def _lost_at_reboot(board: Board) -> bool:
    return any(_EMPTY_DIR.search(text) and _PREPARED.search(text) for text in _texts(board))
