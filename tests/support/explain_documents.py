"""Evidence for explanations from plain bodies, as a user's files or a server's lists would give it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from baro.diagnosis.evidence import Evidence, Missing, SnapshotRecord, from_documents
from baro.model.load import Loaded

Body = dict[str, Any]
HOST = "kubernetes.io/hostname"
SERVED: Mapping[str, tuple[str, ...]] = {"storage.k8s.io": ("v1",), "resource.k8s.io": ("v1",)}


def node(name: str, *, taints: Iterable[Body] = (), cpu: str = "16", **labels: str) -> Body:
    """A node with 16 CPUs, its name as hostname, and these labels."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, **labels}},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "20"}},
    }


def pod(
    name: str,
    on: str = "",
    *,
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    said: str = "",
    requests: Mapping[str, str] | None = None,
    **spec: Any,
) -> Body:
    """A pod; it runs when ``on`` names a node. ``said`` is kube-scheduler's condition."""
    container: Body = {"name": "main", "resources": {"requests": dict(requests or {})}}
    if "ports" in spec:
        container["ports"] = [{"containerPort": port, "hostPort": port} for port in spec.pop("ports")]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "labels": dict(labels or {}),
        },
        "spec": {"containers": [container], **({"nodeName": on} if on else {}), **spec},
        "status": {"phase": "Running" if on else "Pending", "conditions": [condition] if said else []},
    }  # fmt: skip


def namespace(name: str, **labels: str) -> Body:
    """A namespace; the API server labels it with its name."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}},
    }


def known(*bodies: Body, missing: Iterable[Missing] = (), live: bool = True) -> Evidence:
    """The evidence of these objects; ``live``: as from a cluster, where what is not there does not exist."""
    record = SnapshotRecord(served=dict(SERVED) if live else {}, server_version="v1.37.2" if live else "")
    return from_documents((Loaded(body) for body in bodies), missing=missing, record=record)
