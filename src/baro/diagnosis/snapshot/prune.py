"""Cuts from objects what no diagnosis needs and what may hold secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from baro.diagnosis.shapes import mapping, mappings

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
KUBELET_DIRECTORY: Final = "/kubelet/"
"""Host paths with this in them tell a plugin pod from others."""
_CONTAINER_FIELDS: Final = ("name", "image", "resources", "restartPolicy")
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
    spec = kept.get("spec")
    if kept.get("kind") == "Pod" and isinstance(spec, Mapping):
        kept["spec"] = _pod_spec(spec)
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
            kept[field] = [
                {key: item[key] for key in _CONTAINER_FIELDS if key in item}
                for item in containers
                if isinstance(item, Mapping)
            ]
    volumes = [
        {"name": volume.get("name"), "hostPath": {"path": path}}
        for volume in mappings(spec.get("volumes"))
        if (path := host_path(volume)) and KUBELET_DIRECTORY in f"{path}/"
    ]
    if volumes:
        kept["volumes"] = volumes
    return kept


def host_path(volume: Mapping[str, Any]) -> str:
    """The path of a hostPath volume, else empty."""
    found = volume.get("hostPath")
    return str(found.get("path") or "") if isinstance(found, Mapping) else ""
