"""Cuts from objects what no diagnosis needs and what may hold secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from baro.diagnosis.shapes import mapping, mappings, never_ran

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
KUBELET_DIRECTORY: Final = "/kubelet/"
"""Host paths with this in them tell a plugin pod from others."""
_CONTAINER_FIELDS: Final = ("name", "image", "resources", "restartPolicy")
_PORT_FIELDS: Final = ("hostPort", "hostIP", "protocol")
_STORAGE_FIELDS: Final = (
    "accessModes", "capacity", "claimRef", "nodeAffinity", "resources", "selector", "storageClassName",
    "volumeAttributesClassName", "volumeMode", "volumeName",
)  # fmt: skip
_SPEC_DROPPED: Final = ("volumes", "containers", "initContainers", "ephemeralContainers", "imagePullSecrets")


def pruned(body: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an object without fields that are long, private or of no use."""
    kept = dict(body)
    metadata = dict(mapping(kept.get("metadata")))
    metadata.pop("managedFields", None)
    annotations = {k: v for k, v in mapping(metadata.get("annotations")).items() if k != LAST_APPLIED}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    kept["metadata"] = metadata
    kind = kept.get("kind")
    if kind in ("PersistentVolume", "PersistentVolumeClaim", "StorageClass"):
        return _storage(str(kind), kept)
    spec = kept.get("spec")
    if kind == "Pod" and isinstance(spec, Mapping):
        kept["spec"] = _pod_spec(spec)
        if isinstance(kept.get("status"), Mapping):
            kept["status"] = _pod_status(kept["status"])
    elif isinstance(spec, Mapping) and isinstance(spec.get("template"), Mapping):
        kept["spec"] = {**spec, "template": _template(spec["template"])}
    return kept


def _template(template: Mapping[str, Any]) -> dict[str, Any]:
    spec = template.get("spec")
    return {**template, "spec": _pod_spec(spec) if isinstance(spec, Mapping) else {}}


def _pod_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key not in _SPEC_DROPPED}
    for field in ("initContainers", "containers"):
        containers = spec.get(field)
        if isinstance(containers, list):
            kept[field] = [_container(item) for item in containers if isinstance(item, Mapping)]
    volumes = [found for volume in mappings(spec.get("volumes")) if (found := _volume(volume)) is not None]
    if volumes:
        kept["volumes"] = volumes
    return kept


def _pod_status(status: Mapping[str, Any]) -> dict[str, Any]:
    """Without what programs left as their last words: that is their business."""
    kept = dict(status)
    for field in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        if isinstance(status.get(field), list):
            kept[field] = [_container_status(one) for one in mappings(status[field])]
    return kept


def _container_status(status: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(status)
    for field in ("state", "lastState"):
        ended = mapping(mapping(status.get(field)).get("terminated"))
        if "message" in ended and not never_ran(ended):
            said = {key: value for key, value in ended.items() if key != "message"}
            kept[field] = {**mapping(status[field]), "terminated": said}
    return kept


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    """What a container asks of its node: resources, and ports of the node itself."""
    kept = {key: container[key] for key in _CONTAINER_FIELDS if key in container}
    ports = [
        {key: port[key] for key in _PORT_FIELDS if key in port}
        for port in mappings(container.get("ports"))
        if port.get("hostPort")
    ]
    return {**kept, "ports": ports} if ports else kept


def _volume(volume: Mapping[str, Any]) -> dict[str, Any] | None:
    """A directory of the kubelet, or a claim of storage; contents of any kind are nobody's business."""
    path = host_path(volume)
    if path and KUBELET_DIRECTORY in f"{path}/":
        return {"name": volume.get("name"), "hostPath": {"path": path}}
    claim = mapping(volume.get("persistentVolumeClaim")).get("claimName")
    if claim:
        return {"name": volume.get("name"), "persistentVolumeClaim": {"claimName": claim}}
    return {"name": volume.get("name"), "ephemeral": {}} if "ephemeral" in volume else None


def _storage(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Volumes, claims and classes without what says where the storage is and how one gets at it."""
    if kind == "StorageClass":
        return {key: value for key, value in body.items() if key not in ("parameters", "mountOptions")}
    spec = mapping(body.get("spec"))
    phase = mapping(body.get("status")).get("phase")
    return {
        **body,
        "spec": {key: spec[key] for key in _STORAGE_FIELDS if key in spec},
        "status": {"phase": phase} if phase else {},
    }


def host_path(volume: Mapping[str, Any]) -> str:
    """The path of a hostPath volume, else empty."""
    found = volume.get("hostPath")
    return str(found.get("path") or "") if isinstance(found, Mapping) else ""
