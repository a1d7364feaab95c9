"""The status texts of the SIMULATED stand-ins: what a kubelet and a node controller would write.

Values only; see ``standins`` for what this is for and what not.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from baro.kube.events import rfc3339
from baro.model.kinds.core import Node, Pod


def condition(
    type_: str, status: str, now: datetime, *, reason: str = "", message: str = ""
) -> dict[str, Any]:
    """A condition as it goes into ``status.conditions``."""
    body = {"type": type_, "status": status, "reason": reason, "message": message}
    return {key: value for key, value in body.items() if value} | {"lastTransitionTime": rfc3339(now)}


def running(pod: Pod, now: datetime) -> dict[str, Any]:
    """The status of a pod whose containers all run, so that ``kubectl get`` shows it ready."""
    containers = [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "simulated",
            "containerID": f"simulated://{pod.metadata.uid}/{container.name}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": rfc3339(now)}},
        }
        for container in pod.spec.containers
    ]
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "startTime": rfc3339(now),
        "conditions": [condition(type_, "True", now) for type_ in types],
        "containerStatuses": containers,
    }


def node_conditions(node: Node, now: datetime, every_s: float) -> list[dict[str, Any]] | None:
    """The node's conditions with a fresh Ready, or ``None`` when what is there is recent enough.

    A Ready condition that a test or a demo set to False or Unknown is left as it is.
    """
    held = [msgspec.to_builtins(item) for item in node.status.conditions]
    ready = next((item for item in held if item["type"] == "Ready"), None)
    if ready is not None:
        try:
            last = datetime.fromisoformat(ready.get("lastHeartbeatTime") or "")
        except ValueError:
            last = None
        if ready.get("status") != "True" or (last and (now - last).total_seconds() < every_s):
            return None
        held.remove(ready)
        since = ready.get("lastTransitionTime", rfc3339(now))
    else:
        since = rfc3339(now)
    fresh = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "simulated kubelet is posting ready status",
        "lastHeartbeatTime": rfc3339(now),
        "lastTransitionTime": since,
    }
    return [*held, fresh]
