"""Evidence for tests: objects in few words, captures by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from baro.diagnosis.evidence import Evidence, SnapshotRecord, from_documents
from baro.diagnosis.files import capture, with_nodes
from baro.model.load import load_bytes

Body = dict[str, Any]

NOW = "2026-01-02T12:00:00Z"


def evidence(
    objects: Iterable[Body] = (),
    captures: Mapping[str, str] | None = None,
    *,
    taken_at: str = "",
    server_version: str = "",
    served: dict[str, tuple[str, ...]] | None = None,
) -> Evidence:
    """What reading these objects and files would give. A capture's key is its path."""
    bodies = list(objects)
    loaded = (
        load_bytes(json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}).encode())
        if bodies
        else ()
    )
    found = [capture(text.encode(), name) for name, text in (captures or {}).items()]
    nodes = [body["metadata"]["name"] for body in bodies if body["kind"] == "Node"]
    record = SnapshotRecord(taken_at=taken_at, server_version=server_version, served=served or {})
    return from_documents(loaded, captures=with_nodes(found, nodes), origin="test", record=record)


# --- objects ----------------------------------------------------------------------------------------------


def node(
    name: str = "node-a",
    *,
    capacity: Mapping[str, Any] | None = None,
    allocatable: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    conditions: Sequence[Body] = ({"type": "Ready", "status": "True"},),
    kubelet: str = "v1.37.1",
    **spec: Any,
) -> Body:
    """A node; ``allocatable`` is ``capacity`` unless given."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"node-{name}", "labels": dict(labels or {})},
        "spec": spec,
        "status": {
            "capacity": {key: str(value) for key, value in (capacity or {}).items()},
            "allocatable": {
                key: str(value)
                for key, value in (capacity or {} if allocatable is None else allocatable).items()
            },
            "conditions": list(conditions),
            "nodeInfo": {"kubeletVersion": kubelet},
        },
    }


def pod(
    name: str,
    *,
    namespace: str = "default",
    node: str = "",
    limits: Mapping[str, Any] | None = None,
    claims: Sequence[str] = (),
    phase: str = "Running",
    owner: tuple[str, str] | None = None,
    mounts: Sequence[str] = (),
    image: str = "work",
    **metadata: Any,
) -> Body:
    """A pod with one container; ``mounts`` are host paths."""
    if owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": owner[0],
                "name": owner[1],
                "uid": f"uid-{owner[1]}",
                "controller": True,
            }
        ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"pod-{namespace}-{name}", **metadata},
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "resources": {"limits": {k: str(v) for k, v in (limits or {}).items()}},
                }
            ],
            "resourceClaims": [{"name": f"c{i}", "resourceClaimName": c} for i, c in enumerate(claims)],
            "volumes": [{"name": f"v{i}", "hostPath": {"path": path}} for i, path in enumerate(mounts)],
        },
        "status": {"phase": phase},
    }


def device(name: str, attributes: Mapping[str, Any] | None = None, **fields: Any) -> Body:
    """A device; plain attribute values become typed ones, dictionaries stay."""
    typed = {}
    for key, value in (attributes or {}).items():
        if isinstance(value, dict):
            typed[key] = value
        elif isinstance(value, bool):
            typed[key] = {"bool": value}
        elif isinstance(value, int):
            typed[key] = {"int": value}
        else:
            typed[key] = {"string": value}
    return {"name": name, "attributes": typed, **fields}


def gpus(number: int, **attributes: Any) -> list[Body]:
    """``gpu-0`` … with a UUID each."""
    return [device(f"gpu-{i}", {"type": "gpu", "uuid": f"GPU-{i:08d}", **attributes}) for i in range(number)]


def resource_slice(
    node: str = "node-a",
    devices: Sequence[Body] = (),
    *,
    driver: str = "gpu.nvidia.com",
    name: str = "",
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> Body:
    """A slice of a node-local pool."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"00000-{driver}-{node}", "uid": f"slice-{node}-{driver}-{name}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
            **spec,
        },
    }


def claim(
    name: str,
    devices: Sequence[str] = (),
    *,
    namespace: str = "default",
    node: str = "node-a",
    driver: str = "gpu.nvidia.com",
    device_class: str = "gpu.nvidia.com",
    count: int | None = None,
    pods: Sequence[str] = (),
    finalizers: Sequence[str] = ("resource.kubernetes.io/delete-protection",),
    allocated_at: str | None = None,
    **metadata: Any,
) -> Body:
    """A claim, allocated when ``devices`` are given and reserved for ``pods`` of its namespace."""
    body: Body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": f"claim-{name}", **metadata},
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "exactly": {
                            "deviceClassName": device_class,
                            "allocationMode": "ExactCount",
                            "count": count or len(devices) or 1,
                        },
                    }
                ]
            }
        },
        "status": {},
    }
    if devices:
        body["metadata"]["finalizers"] = list(finalizers)
        results = [{"request": "gpu", "driver": driver, "pool": node, "device": one} for one in devices]
        body["status"] = {
            "allocation": {
                "devices": {"results": results},
                **({"allocationTimestamp": allocated_at} if allocated_at else {}),
            },
            "reservedFor": [
                {"resource": "pods", "name": one, "uid": f"pod-{namespace}-{one}"} for one in pods
            ],
        }
    return body


def device_class(name: str = "gpu.nvidia.com", **spec: Any) -> Body:
    """A class without a selector unless given."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def event(
    message: str,
    *,
    pod: str = "pod1",
    namespace: str = "default",
    reason: str = "Failed",
    host: str = "node-a",
    number: int = 1,
) -> Body:
    """A warning of the kubelet about a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{pod}.{number}", "namespace": namespace},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": "kubelet", "host": host} if host else {},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": pod},
    }


# --- texts ------------------------------------------------------------------------------------------------


def counts(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Capacity and allocatable of extended resources as ``kubectl describe node`` prints them."""
    found: dict[str, dict[str, str]] = {"capacity": {}, "allocatable": {}}
    section = ""
    for line in text.splitlines():
        head = re.match(r"\s*(capacity|allocatable):\s*(.*)$", line, re.IGNORECASE)
        if head:
            section = head[1].lower()
        entry = re.match(r'\s*([\w.-]+/[\w.-]+)\s*:\s*"?(\d+)"?', head[2] if head else line)
        if entry and section:
            found[section][entry[1]] = entry[2]
    return found["capacity"], found["allocatable"]
