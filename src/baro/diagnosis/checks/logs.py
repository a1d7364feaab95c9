"""Lines of logs that say something about GPUs: Xids, lost GPUs, what plugins and kubelets complain about.

Parses, groups and names; what it means for a node is decided by the checks. Accepts every prefix that
``dmesg``, journald, klog and syslog put before a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from baro.diagnosis.evidence import Capture, CaptureKind, Evidence
from baro.diagnosis.shapes import mapping, mappings, never_ran
from baro.model.kinds.base import ObjectReference
from baro.model.kinds.core import Event

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


STATUS: Final = "Status"
"""Type of the events that stand for what pods' statuses say."""


def with_statuses(evidence: Evidence) -> Evidence:
    """The evidence with what pods that failed or wait say in their status as events: events are gone after an
    hour, a pod that was turned away keeps the reason."""
    known = {
        (event.involved_object.namespace, event.involved_object.name, event.message)
        for event in evidence.events
    }
    found = []
    for document in evidence.documents:
        if document.kind != "Pod":
            continue
        status = mapping(document.body.get("status"))
        if status.get("phase") not in ("Pending", "Failed"):
            continue
        meta = mapping(document.body.get("metadata"))
        namespace, name = str(meta.get("namespace") or ""), str(meta.get("name") or "")
        for reason, message in _said(status):
            if (namespace, name, message) not in known:
                known.add((namespace, name, message))
                node = mapping(document.body.get("spec")).get("nodeName")
                about = ObjectReference(kind="Pod", namespace=namespace, name=name)
                source = {"host": node} if isinstance(node, str) and node else {}
                found.append(
                    Event(type=STATUS, reason=reason, message=message, involved_object=about, source=source)
                )
    return msgspec.structs.replace(evidence, events=(*evidence.events, *found)) if found else evidence


def _said(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(reason, message) of a pod's status and of its containers that wait or have ended."""
    holders = [status]
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in mappings(status.get(field)):
            for state in (mapping(container.get("state")), mapping(container.get("lastState"))):
                ended = mapping(state.get("terminated"))
                holders += [mapping(state.get("waiting")), *([ended] if never_ran(ended) else [])]
    for holder in holders:
        message = holder.get("message")
        if isinstance(message, str) and message:
            yield str(holder.get("reason") or ""), message


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line, or the message of an event. ``place`` says where it stands."""

    text: str
    node: str | None = None
    place: str = ""
    pod: str | None = None
    hours: float | None = None
    is_event: bool = False
    count: int = 1
    at: int = 0
    """Where in the text that begins for which the line was taken."""

    @property
    def subject(self) -> str:
        """The node that the line is of, else the file."""
        return f"Node {self.node}" if self.node else self.place.partition(":")[0]

    def excerpt(self, width: int = 240) -> str:
        """The place, and as much of the text as tells: long lines are cut around what was found."""
        start = max(0, self.at - width // 3) if len(self.text) > width else 0
        end = start + width
        cut = f"{'… ' if start else ''}{self.text[start:end]}{' …' if end < len(self.text) else ''}"
        return f"{self.place}: {cut}"


def at(node: str | None) -> str:
    """How a message begins that is about a node; nothing for none."""
    return f"node {node}: " if node else ""


def lines(evidence: Evidence, *words: str, events_only: bool = False) -> Iterator[Line]:
    """Lines of logs and descriptions that contain one of the words, and events that do."""
    for capture in () if events_only else evidence.captures:
        if capture.kind not in (CaptureKind.LOG, CaptureKind.DESCRIBE, CaptureKind.TEXT):
            continue
        for number, text in _with_words(capture.text, words):
            yield Line(
                text=text.strip(), node=capture.node, place=f"{capture.where.file}:{number}", pod=_pod(text)
            )
    for event in evidence.events:
        if any(word in event.message for word in words):
            about = event.involved_object
            name = f"{about.namespace}/{about.name}" if about.namespace else about.name
            what = "status" if event.type == STATUS else "event"
            host = event.source.get("host") or event.reporting_instance
            yield Line(
                text=event.message,
                node=str(host) if host else (about.name if about.kind == "Node" else None),
                place=f"{what} {event.reason} of {about.kind} {name}",
                pod=name if about.kind == "Pod" else None,
                is_event=True,
                count=max(1, event.count),
            )


def _with_words(text: str, words: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """(number, line) of the lines with one of the words. Logs are long and such lines few: the others are not
    looked at one by one."""
    number, counted, end = 1, 0, -1
    for found in re.finditer("|".join(map(re.escape, words)), text):
        if found.start() < end:
            continue  # the same line again
        start = text.rfind("\n", 0, found.start()) + 1
        end = text.find("\n", found.end())
        end = len(text) if end < 0 else end
        number += text.count("\n", counted, start)
        counted = start
        yield number, text[start:end]


def matching(
    evidence: Evidence, pattern: re.Pattern[str], *words: str
) -> Iterator[tuple[Line, re.Match[str]]]:
    """The lines (see ``lines``) with one of the words that the pattern finds something in."""
    for line in lines(evidence, *words):
        match = pattern.search(line.text)
        if match is not None:
            yield msgspec.structs.replace(line, at=match.start()), match


_POD = re.compile(r"\bpod=\"?([a-z0-9.-]+/[a-z0-9.-]+)")


def _pod(text: str) -> str | None:
    found = _POD.search(text)
    return found[1] if found else None
