"""Lines of logs that say something about GPUs: Xids, lost GPUs, what plugins and kubelets complain about.

Parses, groups and names; what it means for a node is decided by the checks. Accepts every prefix that
``dmesg``, journald, klog and syslog put before a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from baro.diagnosis.evidence import Capture, CaptureKind, Evidence

_XID = re.compile(
    r"(?:NVRM:\s*)?\bXid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-9a-f])?"
    r"[^)]*\)\s*:\s*(\d+)\b[ ,]*(.*)"
)
_FALLEN = re.compile(
    r"NVRM:.*?\bGPU (?:at PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})[^:]*:? ?.*fallen "
    "off the bus"
)
_UUID = re.compile(r"NVRM: GPU at (?:PCI:)?([0-9a-fA-F:]+): (GPU-[0-9a-fA-F-]+)")


class XidClass(StrEnum):
    """What an Xid means for the GPU at once, after NVIDIA's Xid catalogue (immediate action)."""

    APPLICATION = "application"
    IGNORE = "ignore"
    UNCLEAR = "unclear"
    RESET = "reset the GPU"
    REBOOT = "reboot the node"
    SUPPORT = "contact support"

    @property
    def fatal(self) -> bool:
        """The GPU is not fit for work."""
        return self in (XidClass.RESET, XidClass.REBOOT, XidClass.SUPPORT)


_APPLICATION: Final = frozenset({
    8, 11, 13, 25, 31, 32, 39, 40, 41, 60, *range(68, 73), 75, 76, 77, 80, *range(82, 87), 88, 89, 94,
    *range(96, 106), *range(126, 136), 139,
})  # fmt: skip
_IGNORE: Final = frozenset({
    14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 152, 153, 157,
    *range(160, 165), 174,
})  # fmt: skip
_RESET: Final = frozenset({
    46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158, 169, 173,
})  # fmt: skip
_REBOOT: Final = frozenset({79, 151, 167, 168})
_SUPPORT: Final = frozenset({54, 78, 142, 165, 166, 170})
_NVLINK5: Final = range(144, 151)


def xid_class(code: int, text: str = "") -> XidClass:
    """The class of an Xid. Codes that no table has are unclear, never harmless."""
    if code in _NVLINK5:
        return XidClass.RESET if re.search(r"\bFatal\b", text) else XidClass.UNCLEAR
    for codes, found in (
        (_APPLICATION, XidClass.APPLICATION),
        (_IGNORE, XidClass.IGNORE),
        (_RESET, XidClass.RESET),
        (_REBOOT, XidClass.REBOOT),
        (_SUPPORT, XidClass.SUPPORT),
    ):
        if code in codes:
            return found
    return XidClass.UNCLEAR


class Xid(msgspec.Struct, frozen=True, kw_only=True):
    """One Xid line. ``pci`` is lower case with a four-digit domain, without function: ``0000:9b:00``."""

    node: str | None
    pci: str
    code: int
    text: str
    file: str
    line: int
    uuid: str | None = None

    @property
    def place(self) -> str:
        """File and line, or the event."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def kind(self) -> XidClass:
        return xid_class(self.code, self.text)


def short_pci(address: str) -> str:
    """``00000000:9B:00.0`` as ``0000:9b:00``."""
    domain, bus, device = address.lower().split(":")[:3]
    return f"{domain[-4:]}:{bus}:{device.split('.')[0]}"


def xids(evidence: Evidence) -> Iterator[Xid]:
    """Every Xid of the logs, then of events. "Fallen off the bus" without an Xid counts as one (79)."""
    yield from _xids_of_logs(evidence.captures)
    for line in lines(evidence, "Xid (PCI", events_only=True):
        match = _XID.search(line.text)
        if match is not None:
            yield Xid(
                node=line.node,
                pci=short_pci(match[1]),
                code=int(match[2]),
                text=match[3].strip(),
                file=line.place,
                line=0,
            )


def _xids_of_logs(captures: Iterable[Capture]) -> Iterator[Xid]:
    for capture in captures:
        if capture.kind is not CaptureKind.LOG:
            continue
        uuids = {short_pci(m[1]): m[2] for m in _UUID.finditer(capture.text) if m[1].count(":") >= 2}
        for number, line in enumerate(capture.text.splitlines(), 1):
            if "Xid" not in line and "fallen off" not in line:
                continue
            match, code, text = _XID.search(line), 0, ""
            if match is not None:
                code, text = int(match[2]), match[3].strip()
            else:
                match = _FALLEN.search(line)
                if match is None:
                    continue
                code, text = 79, "GPU has fallen off the bus"
            pci = short_pci(match[1])
            yield Xid(
                node=capture.node,
                pci=pci,
                code=code,
                text=text,
                file=capture.where.file or "",
                line=number,
                uuid=uuids.get(pci),
            )


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line, or the message of an event. ``place`` says where it stands."""

    text: str
    node: str | None = None
    place: str = ""
    pod: str | None = None
    hours: float | None = None
    is_event: bool = False
    count: int = 1


def lines(evidence: Evidence, *words: str, events_only: bool = False) -> Iterator[Line]:
    """Lines of logs and descriptions that contain one of the words, and events that do."""
    for capture in () if events_only else evidence.captures:
        if capture.kind not in (CaptureKind.LOG, CaptureKind.DESCRIBE, CaptureKind.TEXT):
            continue
        if not any(word in capture.text for word in words):
            continue
        for number, text in enumerate(capture.text.splitlines(), 1):
            if any(word in text for word in words):
                yield Line(
                    text=text.strip(), node=capture.node, place=f"{capture.where.file}:{number}",
                    pod=_pod(text),
                )  # fmt: skip
    for event in evidence.events:
        if any(word in event.message for word in words):
            about = event.involved_object
            name = f"{about.namespace}/{about.name}" if about.namespace else about.name
            host = event.source.get("host") or event.reporting_instance
            yield Line(
                text=event.message,
                node=str(host) if host else (about.name if about.kind == "Node" else None),
                place=f"event {event.reason} of {about.kind} {name}",
                pod=name if about.kind == "Pod" else None,
                is_event=True,
                count=max(1, event.count),
            )


_POD = re.compile(r"\bpod=\"?([a-z0-9.-]+/[a-z0-9.-]+)")


def _pod(text: str) -> str | None:
    found = _POD.search(text)
    return found[1] if found else None
