"""Dumps of small clusters, as a user would have them from ``kubectl get -o yaml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from baro.agent.slices import desired_slices, node_topology
from baro.demo.cluster import manifest
from baro.model.names import DRIVER
from baro.topology.profiles import load_profile


def cluster(nodes: Mapping[str, str], *, graphs: bool = True) -> list[dict[str, Any]]:
    """Nodes (name → machine profile), their slices and graphs, and the demo's device classes."""
    bodies: list[dict[str, Any]] = [document.body for document in manifest("deviceclasses.yaml")]
    for name, profile in nodes.items():
        machine = load_profile(profile).machine(seed=name)
        bodies.append({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        bodies += [item.to_dict() for item in desired_slices(machine, node=name, driver=DRIVER)]
        if graphs:
            bodies.append(node_topology(machine, node=name, driver=DRIVER).to_dict())
    return bodies


def claim(
    name: str, count: int = 1, *, class_name: str = "gpu.nvidia.com", **annotations: str
) -> dict[str, Any]:
    """A claim for GPUs; ``topology="required"`` sets the annotation ``baro.dev/topology``."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {f"baro.dev/{key}": value for key, value in annotations.items()},
        },
        "spec": {
            "devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": class_name, "count": count}}]
            }
        },
    }


def busy(node: str, gpus: Sequence[int]) -> dict[str, Any]:
    """An allocated claim that holds these GPUs of a node."""
    body = claim(f"busy-{node}", len(gpus))
    results = [{"request": "gpu", "driver": DRIVER, "pool": node, "device": f"gpu-{index}"} for index in gpus]
    return {**body, "status": {"allocation": {"devices": {"results": results}}}}


def write(path: Path, bodies: Sequence[Mapping[str, Any]]) -> str:
    """A multi-document YAML file; returns its name."""
    path.write_text(yaml.safe_dump_all([dict(body) for body in bodies]), encoding="utf-8")
    return str(path)
