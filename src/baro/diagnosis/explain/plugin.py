"""Pods on a device plugin: what a node has, what is asked for, and which GPUs a running pod was given.

Counted resources carry no names in the API. Which GPUs a pod has is only in kubelet's pod-resources dump;
with it, and a graph of the node, the set can be judged like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from baro.allocator import Plan
from baro.allocator.graph import BAND, document_of, graph_of
from baro.allocator.infer import finder_of
from baro.allocator.problem import Fatal, NodeProblem
from baro.diagnosis.evidence import CaptureKind
from baro.diagnosis.explain.funnel import some
from baro.diagnosis.explain.world import World, key_of
from baro.inventory import DeviceKey
from baro.model import pods
from baro.model.errors import BaroError
from baro.model.kinds.core import Pod
from baro.topology import smi_xml, topo_m
from baro.topology.bandwidth import Prediction, Predictor
from baro.topology.machine import Machine


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
    """What the set makes as a ring, and what the best set of that size on the machine would make."""
    if len(given) < 2:
        return
    named = [item.partition("::")[0] for item in given]  # a share of a GPU is its id and a number
    found = _published(world, node, named) or _captured(world, node, named)
    if found is None:
        yield "whether they lie in one island is not known: nothing says how the node's GPUs are linked"
        return
    now, best = found
    if now.gbps is None:
        yield "as a ring they cannot be rated: nothing says how some of them are linked"
        return
    yield f"as a ring they make {now.gbps:.4g} GB/s, the slowest hop is {now.slowest_kind}"
    if best is not None and best.gbps is not None and now.gbps < best.gbps * BAND:
        yield f"split: the best {len(given)} GPUs of the node would make {best.gbps:.4g} GB/s"


Rated = tuple[Prediction, Prediction | None]
"""The set, and the best one of its size on the machine."""


def _published(world: World, node: str, given: list[str]) -> Rated | None:
    """By the slices of the node, where they name the GPUs by UUID."""
    finder = finder_of(world.inventory.table)
    by_uuid: dict[str, DeviceKey] = {}
    for pool in world.inventory.pools(node).pools:
        for row in pool.rows:
            uuid = finder.text("uuid", row)
            if uuid is not None:
                by_uuid[uuid] = world.inventory.key(row)
    keys = {by_uuid[item] for item in given if item in by_uuid}
    if len(keys) != len(given):
        return None
    try:
        problem = NodeProblem(world.inventory, node, Plan(()), world.options.features, world.engine)
    except Fatal:
        return None
    graph = graph_of(problem)
    mask = sum(1 << device for device, key in enumerate(problem.keys) if key in keys)
    if graph is None or graph.to_shape(mask).bit_count() != len(keys):
        return None
    shape = graph.shape
    now = shape.predict(graph.to_shape(mask))
    now = msgspec.structs.replace(now, gbps=shape.gbps(graph.to_shape(mask)))
    return now, next(iter(shape.predictor.best_sets(shape.indices, len(keys))), None)


def _captured(world: World, node: str, given: list[str]) -> Rated | None:
    """By ``nvidia-smi topo -m`` of the node, and ``nvidia-smi -q -x`` for which UUID has which index."""
    machine = _machine(world, node)
    if machine is None:
        return None
    index_of: dict[str, int] = {}
    for capture in world.evidence.captured(CaptureKind.SMI_XML, node):
        try:
            gpus = smi_xml.parse(capture.text, capture.where.file or "").gpus
        except BaroError:
            continue
        index_of |= {gpu.uuid: gpu.index for gpu in gpus if gpu.uuid is not None}
    index_of |= {gpu.uuid: gpu.index for gpu in machine.gpus if gpu.uuid is not None}
    known = {gpu.index for gpu in machine.gpus}
    indices = {index for item in given if (index := index_of.get(item, _index(item))) in known}
    if len(indices) != len(given):
        return None
    predictor = Predictor(machine)
    best = next(iter(predictor.best_sets(sorted(known), len(indices))), None)
    return predictor.predict(i for i in indices if i is not None), best


def _index(item: str) -> int | None:
    """Some plugins name a GPU by its index."""
    return int(item) if item.isdecimal() and len(item) < 4 else None


def _machine(world: World, node: str) -> Machine | None:
    topology = world.inventory.topologies.get(node)
    document = None if topology is None else document_of(topology)
    if document is not None:
        return document.shape.machine
    for capture in world.evidence.captured(CaptureKind.TOPO, node):
        try:
            return topo_m.parse(capture.text, capture.where.file or "")
        except BaroError:
            continue
    return None
