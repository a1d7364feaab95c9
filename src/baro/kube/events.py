"""Events on objects, counted rather than repeated. A normal event says what happened, and stays; a warning
says what is wrong now, and its latest message takes the place of the one before.

The name of an event is a digest of what it says about which object, so a restarted process goes on counting
where the last one stopped. That of a warning leaves out the message: a pod that waits for hours, told
otherwise whenever the cluster changes, has one event and not hundreds. Losing an event never matters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from baro.kube.api import KubeApi
from baro.kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Event

MESSAGE_LIMIT = 1024
"""Characters; the API server refuses longer messages."""


def rfc3339(moment: datetime) -> str:
    """Seconds precision in UTC, as ``metav1.Time`` is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class EventRecorder:
    """Writes core/v1 events. ``component`` is what ``kubectl describe`` prints in the column From."""

    def __init__(
        self, api: KubeApi, *, component: str, utc: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._api = api
        self._component = component
        self._utc = utc

    def record(self, about: KubeObject, *, reason: str, message: str, type_: str = "Normal") -> None:
        """Says ``message`` about the object. ``type_`` is ``Normal`` or ``Warning``.

        Raises ``ForbiddenError`` and ``UnreachableError``; a namespace that is going away is ignored.
        """
        message = message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"
        namespace = about.metadata.namespace or "default"
        said = "" if type_ == "Warning" else message
        text = "\0".join((about.metadata.uid, self._component, type_, reason, said))
        name = f"{about.metadata.name[:200].rstrip('-.')}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        now = rfc3339(self._utc())
        try:
            self._api.create(
                Event, namespace, self._body(about, name, namespace, now, reason, message, type_)
            )
        except AlreadyExistsError:
            self._count(namespace, name, message, now)
        except (NotFoundError, ConflictError, ApiError):
            return

    def _count(self, namespace: str, name: str, message: str, now: str) -> None:
        try:
            old = self._api.get(Event, namespace, name)
            # Unguarded on purpose: two writers that count at once may lose one, nobody waits for it.
            body = {"message": message, "count": max(old.count, 1) + 1, "lastTimestamp": now}
            self._api.patch_merge(Event, namespace, name, body)
        except ApiError:
            return

    def _body(
        self, about: KubeObject, name: str, namespace: str, now: str, reason: str, message: str, type_: str
    ) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.metadata.namespace,
                "name": about.metadata.name,
                "uid": about.metadata.uid,
                "resourceVersion": about.metadata.resource_version,
            },
            "reason": reason,
            "message": message,
            "type": type_,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
