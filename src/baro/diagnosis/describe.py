"""Nodes from ``kubectl describe node``: what people paste when they have no dump.

Only what a diagnosis looks at: labels, conditions, cordon, capacity, allocatable, kubelet version. Pods and
events in the same text are left alone: their names are cut and their times relative. A piece that shows only
capacity and allocatable, as ``describe`` or as YAML, is a node whose name nobody told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

Body = dict[str, Any]

_NODE = re.compile(r"^Name:\s+(\S+)\s*$", re.MULTILINE)
_ENTRY = re.compile(r"^\s+([\w./-]+):\s*\"?(\S+?)\"?\s*$")
_LABEL = re.compile(r"^(?:Labels:)?\s+([\w./-]+)=(\S*)\s*$")
_GAP = re.compile(r"\s{2,}")
_COLUMNS = 6
"""Type, status, last heartbeat, last transition, reason, message."""
_SECTION = re.compile(r"^([A-Z][\w ]*):")
_AMOUNTS = re.compile(r"^\s*(capacity|allocatable):\s*(\{.*\}|[\w.-]+/\S+\s*\S+)?\s*$", re.IGNORECASE)
_AMOUNT = re.compile(r"([\w.-]+(?:/[\w.-]+)?)\s*:\s*[\"']?(\d+\w*)[\"']?\s*(?:[,}]|$)")
UNNAMED = "NODE"
"""Stands for the name of a node that no text tells, as in the commands that are printed."""


def nodes(text: str) -> Iterator[Body]:
    """The nodes of a text, in order; a part with a name and without capacity is none."""
    starts = [*_NODE.finditer(text)]
    if not starts:
        yield from _unnamed(text)
        return
    ends = [*(match.start() for match in starts[1:]), len(text)]
    for match, end in zip(starts, ends, strict=True):
        body = _node(match[1], text[match.start() : end])
        if body["status"]["capacity"]:
            yield body


def _unnamed(text: str) -> Iterator[Body]:
    """The node of a piece of text with both amounts: one alone says nothing of the other."""
    amounts: dict[str, dict[str, str]] = {}
    section = ""
    for line in text.splitlines():
        head = _AMOUNTS.match(line)
        if head:
            section = head[1].lower()
            amounts[section] = dict(_AMOUNT.findall(head[2] or ""))
        elif section and (entry := re.fullmatch(_AMOUNT, line.strip())):
            amounts[section][entry[1]] = entry[2]
        else:
            section = ""
    if amounts.get("capacity") and "allocatable" in amounts:
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": UNNAMED},
            "status": {"capacity": amounts["capacity"], "allocatable": amounts["allocatable"]},
        }


def _condition(line: str) -> list[Body]:
    """The condition of a row; none for the heading and for rows that wrap."""
    cells = _GAP.split(line.strip(), _COLUMNS - 1)
    if len(cells) != _COLUMNS or cells[1] not in ("True", "False", "Unknown"):
        return []
    found = {"type": cells[0], "status": cells[1], "reason": cells[4], "message": cells[5]}
    try:
        since = datetime.strptime(cells[3], "%a, %d %b %Y %H:%M:%S %z")
        known = {"lastTransitionTime": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    except (ValueError, OverflowError):
        return [found]
    return [{**found, **known} if since.year > 1 else found]


def _node(name: str, text: str) -> Body:
    labels: dict[str, str] = {}
    amounts: dict[str, dict[str, str]] = {"Capacity": {}, "Allocatable": {}}
    conditions: list[Body] = []
    info: dict[str, str] = {}
    section, cordoned = "", False
    for line in text.splitlines():
        head = _SECTION.match(line)
        if head:
            section = head[1]
        if section == "Labels" and (label := _LABEL.match(line)):
            labels[label[1]] = label[2]
        elif section in amounts and (entry := _ENTRY.match(line)):
            amounts[section][entry[1]] = entry[2]
        elif section == "Conditions":
            conditions += _condition(line)
        elif section == "System Info" and "Kubelet Version:" in line:
            info["kubeletVersion"] = line.split(":", 1)[1].strip()
        elif section == "Unschedulable":
            cordoned = line.split(":", 1)[-1].strip() == "true"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "capacity": amounts["Capacity"],
            "allocatable": amounts["Allocatable"],
            "conditions": conditions,
            "nodeInfo": info,
        },
    }
