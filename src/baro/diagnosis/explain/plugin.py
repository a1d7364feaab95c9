"""Pods on a device plugin: what a node has, what is asked for, and which GPUs a running pod was given.

Counted resources carry no names in the API. Which GPUs a pod has is only in kubelet's pod-resources dump;
with it, and a graph of the node, the set can be judged like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from baro.allocator import predict_set
from baro.allocator.infer import finder_of
from baro.allocator.problem import Fatal
from baro.diagnosis.evidence import CaptureKind
from baro.diagnosis.explain.funnel import some
from baro.diagnosis.explain.world import World, key_of
from baro.inventory import DeviceKey
from baro.model import pods
from baro.model.kinds.core import Pod


def plugin_notes(world: World, pod: Pod) -> Iterator[str]:
    """For a bound pod with extended resources: the devices that kubelet gave it, and what they are worth."""
    asked = world.asked(pod)
    counted = [name for name in pods.extended(asked) if name not in world.class_of_resource]
    if not counted or not pod.spec.node_name:
        return
    node = world.inventory.nodes.get(pod.spec.node_name)
    for resource in counted:
        given = given_devices(world, pod, resource)
        has = pods.scaled(node.status.allocatable.get(resource)) if node else None
        total = pods.scaled(node.status.capacity.get(resource)) if node else None
        if has is not None and total is not None and total > has:
            yield (
                f"node {pod.spec.node_name} has {pods.shown(total - has)} unhealthy {resource}:"
                " which one is in the log of the device plugin"
            )
        if not given:
            yield (
                f"{pods.shown(asked[resource])} {resource} by device plugin: which GPUs it got is not in the"
                " API; give kubelet's pod-resources dump of the node to see them"
            )
            continue
        yield f"{resource}: {some(given, 8)}"
        yield from _worth(world, pod.spec.node_name, given)


def given_devices(world: World, pod: Pod, resource: str) -> list[str]:
    """Device ids of a pod in the pod-resources dumps of its node, in order."""
    found: list[str] = []
    for capture in world.evidence.captured(CaptureKind.POD_RESOURCES):
        if capture.node not in (None, pod.spec.node_name) or not isinstance(capture.data, dict):
            continue
        for entry in _dicts(capture.data.get("podResources", capture.data.get("pod_resources"))):
            if (entry.get("namespace") or "default", entry.get("name")) != key_of(pod):
                continue
            for container in _dicts(entry.get("containers")):
                for devices in _dicts(container.get("devices")):
                    name = devices.get("resourceName", devices.get("resource_name"))
                    ids = devices.get("deviceIds", devices.get("device_ids"))
                    if name == resource and isinstance(ids, list):
                        found += [str(item) for item in ids]
    return list(dict.fromkeys(found))


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _worth(world: World, node: str, given: list[str]) -> Iterator[str]:
    """GB/s of the set, where slices of the node name the GPUs by UUID."""
    if len(given) < 2:
        return
    finder = finder_of(world.inventory.table)
    by_uuid: dict[str, DeviceKey] = {}
    for pool in world.inventory.pools(node).pools:
        for row in pool.rows:
            uuid = finder.text("uuid", row)
            if uuid is not None:
                by_uuid[uuid] = world.inventory.key(row)
    keys = [by_uuid[item] for item in given if item in by_uuid]
    if len(keys) != len(given):
        yield "whether they lie in one island is not known: nothing says how the node's GPUs are linked"
        return
    try:
        found = predict_set(world.inventory, node, keys)
    except Fatal:
        return
    if found is not None and found.gbps is not None:
        yield f"as a ring they make {found.gbps:.4g} GB/s, the slowest hop is {found.slowest_kind}"
    elif found is not None:
        yield "as a ring they cannot be rated: nothing says how some of them are linked"
