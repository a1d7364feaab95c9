"""Objects that tests put into a real cluster: kwok nodes with simulated GPUs, claims, gated pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baro.model.names import DRIVER, PLACEMENT_GATE

Body = dict[str, Any]


OWN = "baro.dev/test"
"""Key of the taint that keeps pods of others off a node, which would go with it."""


def node(name: str, *, own: bool = False) -> Body:
    """A node as a kubelet registers it, with the annotation by which a kwok of others knows its nodes.

    ``own``: only pods like those of :func:`pod` go there.
    """
    resources = {"cpu": "224", "memory": "2000Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": [{"key": OWN, "effect": "NoSchedule"}]} if own else {},
        "status": {"allocatable": resources, "capacity": resources},
    }


def resource_slice(node_name: str, devices: int, *, driver: str = DRIVER) -> Body:
    """One slice, one pool named as the node, devices ``gpu-0`` … with type and island of four."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{driver}-{node_name}"},
        "spec": {
            "driver": driver,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{i}",
                    "attributes": {
                        f"{driver}/type": {"string": "gpu"},
                        f"{driver}/island": {"string": f"{node_name}-{i // 4}"},
                    },
                }
                for i in range(devices)
            ],
        },
    }


def claim_template(name: str, namespace: str, *, device_class: str, count: int) -> Body:
    """A template for claims of ``count`` devices of one class."""
    request = {"name": "gpus", "exactly": {"deviceClassName": device_class, "count": count}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def pod(name: str, namespace: str, template: str, *, gated: bool = True) -> Body:
    """A pod with one claim from a template; kwok runs it once it is bound."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulingGates": [{"name": PLACEMENT_GATE}] if gated else [],
            "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": template}],
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpus"}]}}],
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": OWN, "operator": "Exists"}],
        },
    }


def allocation(node_name: str, devices: Sequence[str], *, timestamp: str, driver: str = DRIVER) -> Body:
    """``status.allocation`` of a claim from ``claim_template`` on one node."""
    results = [
        {"request": "gpus", "driver": driver, "pool": node_name, "device": device} for device in devices
    ]
    names = [{"key": "metadata.name", "operator": "In", "values": [node_name]}]
    return {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": names}]},
        "allocationTimestamp": timestamp,
    }
