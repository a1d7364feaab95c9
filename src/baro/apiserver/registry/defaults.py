"""Values that the server fills in when a client leaves them out, on stored forms.

Resource kinds get all of them; pods get those that ``kubectl describe`` and schedulers read. No service
account is set and no volume is mounted, since no controller makes either here.
Source: the ``SetDefaults_*`` functions of ``pkg/apis`` and the create strategies of kube-apiserver 1.37.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from baro.apiserver.storage import ResourceKey
from baro.model.validation import prepare

Body = dict[str, Any]

_POD_SPEC: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}


def set_defaults(resource: ResourceKey, body: Body, now: str) -> None:
    """Fills ``body`` in place. ``now`` is an RFC 3339 time in seconds."""
    setter = _SETTERS.get(resource)
    if setter is not None:
        setter(body, now)


def _pod(body: Body, _now: str) -> None:
    spec = body.setdefault("spec", {})
    for name, value in _POD_SPEC.items():
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in _dicts(spec.get("containers"), spec.get("initContainers")):
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("resources", {})
        container.setdefault("imagePullPolicy", _pull_policy(str(container.get("image", ""))))
        limits = container["resources"].get("limits")
        if limits:
            container["resources"]["requests"] = {**limits, **container["resources"].get("requests", {})}
        for port in _dicts(container.get("ports")):
            port.setdefault("protocol", "TCP")


def _pull_policy(image: str) -> str:
    if "@" in image:
        return "IfNotPresent"
    tag = re.search(r":([^:/]+)$", image)
    return "Always" if tag is None or tag.group(1) == "latest" else "IfNotPresent"


def _node(body: Body, _now: str) -> None:
    status = body.setdefault("status", {})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    body.setdefault("spec", {})


def _namespace(body: Body, _now: str) -> None:
    body["metadata"].setdefault("labels", {}).setdefault(
        "kubernetes.io/metadata.name", body["metadata"]["name"]
    )
    body.setdefault("status", {}).setdefault("phase", "Active")


def _secret(body: Body, _now: str) -> None:
    body.setdefault("type", "Opaque")
    texts = body.pop("stringData", None)
    if isinstance(texts, dict):
        encoded = {name: base64.b64encode(str(text).encode()).decode() for name, text in texts.items()}
        body["data"] = {**(body.get("data") or {}), **encoded}


def _claim(body: Body, _now: str) -> None:
    prepare.set_defaults(body)
    body.setdefault("status", {})


def _template(body: Body, _now: str) -> None:
    prepare.set_defaults(body)


def _slice(body: Body, now: str) -> None:
    for device in _dicts((body.get("spec") or {}).get("devices")):
        for taint in _dicts(device.get("taints")):
            taint.setdefault("timeAdded", now)


def _taint_rule(body: Body, now: str) -> None:
    taint = body.setdefault("spec", {}).setdefault("taint", {})
    if isinstance(taint, dict):
        taint.setdefault("timeAdded", now)
    body.setdefault("status", {})


def _dicts(*lists: Iterable[Any] | None) -> Iterator[Body]:
    for items in lists:
        for item in items or ():
            if isinstance(item, dict):
                yield item


_DRA: Final = "resource.k8s.io"
_SETTERS: Final[dict[ResourceKey, Callable[[Body, str], None]]] = {
    ResourceKey("", "pods"): _pod,
    ResourceKey("", "nodes"): _node,
    ResourceKey("", "namespaces"): _namespace,
    ResourceKey("", "secrets"): _secret,
    ResourceKey(_DRA, "resourceclaims"): _claim,
    ResourceKey(_DRA, "resourceclaimtemplates"): _template,
    ResourceKey(_DRA, "resourceslices"): _slice,
    ResourceKey(_DRA, "devicetaintrules"): _taint_rule,
}
