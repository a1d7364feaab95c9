"""Check *DRA broken*, part three: two stacks that hand out the same GPUs, and names that two classes claim.

The scheduler counts a device plugin's GPUs and a DRA driver's devices independently; neither sees the
other. On one node that gives one GPU to two pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from baro.diagnosis.checks.board import Board, PodView
from baro.diagnosis.checks.problem import Problem, count, named, problem
from baro.diagnosis.checks.resources import gpu_resources, shares_of, whole_gpu_resource
from baro.diagnosis.evidence import CaptureKind
from baro.diagnosis.shapes import mappings
from baro.inventory import DeviceKey
from baro.model.findings import Severity

NAME = "dra"
_VENDORS = {"nvidia": "nvidia.com/", "amd": "amd.com/", "intel": "intel.com/", "baro": "nvidia.com/"}
IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that every DeviceClass has without being asked."""


def check(board: Board) -> Iterator[Problem]:
    """All problems between the two stacks."""
    yield from _double(board)
    yield from _divided_twice(board)
    yield from _invisible(board)
    yield from _shared_names(board)
    yield from _classless_mig(board)
    yield from _known_issue(board)
    yield from _replicas(board)


# --- the same GPUs twice ----------------------------------------------------------------------------------


def _double(board: Board) -> Iterator[Problem]:
    for name, published in board.published_gpus.items():
        node = board.nodes.get(name)
        if node is None:
            continue
        prefixes = {
            _VENDORS[part] for key, _ in published for part in key.driver.split(".") if part in _VENDORS
        }
        counted = {
            resource: units
            for resource, units in gpu_resources(node.status.allocatable).items()
            if units and whole_gpu_resource(resource) and resource.startswith(tuple(prefixes) or ("",))
        }
        if not counted:
            continue
        units, devices = sum(counted.values()), len({key for key, _ in published})
        physical = board.physical.get(name, max(units, devices))
        plugin_pods = [view for view in board.pods_on.get(name, ()) if any(map(view.counted.get, counted))]
        held = sum(key in board.inventory.usage.holders for key, _ in published)
        asked = sum(units for view in plugin_pods for units in map(view.counted.get, counted) if units)
        overcommit = max(0, asked + held - physical)
        yield problem(
            NAME,
            "double-advertised",
            f"node {name} advertises the same {count(physical, 'GPU')} twice: {units} as "
            f"{named(counted)}, {devices} as devices of {named({key.driver for key, _ in published})}; "
            f"{overcommit} given away twice now",
            subject=f"Node {name}",
            node=name,
            evidence=(
                f"allocatable: {', '.join(f'{r}={u}' for r, u in counted.items())}; pods hold {asked}",
                f"published devices: {devices}; claims hold {held}",
            ),
            next=(
                f"kubectl get node {name} -o jsonpath={{.status.allocatable}}",
                f"kubectl get resourceslices --field-selector spec.nodeName={name}",
            ),
            facts={"physical": physical, "counted": units + devices, "overcommit": overcommit},
        )


def _divided_twice(board: Board) -> Iterator[Problem]:
    """MIG devices that a driver publishes and a plugin counts: the same memory given to two pods."""
    for name, node in board.nodes.items():
        counted = {
            resource: units
            for resource, units in gpu_resources(node.status.allocatable).items()
            if units and "/mig-" in resource
        }
        if not counted:
            continue
        devices = [
            row
            for pool in board.pools(name).pools
            for row in pool.rows
            if board.finder.text("type", row) == "mig"
        ]
        if devices:
            yield problem(
                NAME,
                "double-advertised",
                f"node {name} advertises its MIG devices twice: {sum(counted.values())} as {named(counted)}, "
                f"{len(devices)} as devices of a DRA driver",
                subject=f"Node {name}",
                node=name,
                evidence=(f"allocatable: {', '.join(f'{r}={u}' for r, u in counted.items())}",),
                next=(
                    f"kubectl get node {name} -o jsonpath={{.status.allocatable}}",
                    f"kubectl get resourceslices --field-selector spec.nodeName={name}",
                ),
                facts={"counted": sum(counted.values()) + len(devices), "devices": len(devices)},
            )


def _invisible(board: Board) -> Iterator[Problem]:
    """GPUs that the kubelet gave to device-plugin pods and that a DRA driver publishes as well."""
    for node, resource, ids, holder in _plugin_devices(board):
        for key, row in board.published_gpus.get(node, ()):
            names = {key.device, board.finder.text("uuid", row) or key.device}
            if not names & set(ids):
                continue
            shares = board.inventory.usage.holders.get(key, ())
            claims = [share.claim for share in shares]
            yield problem(
                NAME,
                "device-plugin-allocation-invisible-to-dra",
                f"node {node}: {key.device} is held by pod {holder} through {resource}, which DRA "
                "cannot see"
                + (
                    f"; it is also allocated to claim {named(claims)}" if claims else "; any claim may get it"
                ),
                subject=f"Pod {holder}",
                node=node,
                severity=Severity.ERROR if claims else Severity.WARNING,
                evidence=(f"pod-resources of {node}: {resource} {named(ids)}", f"published as {key}"),
                next=(
                    f"kubectl describe node {node}",
                    f"kubectl get resourceslices --field-selector spec.nodeName={node}",
                ),
                facts={
                    "cause": "device-plugin-allocation-invisible-to-dra",
                    "device": key.device,
                    "holder": holder.split("/")[-1],
                    "claims": claims,
                },
            )


def _plugin_devices(board: Board) -> Iterator[tuple[str, str, list[str], str]]:
    """(node, resource, device ids, pod) of the kubelet's pod-resources dumps."""
    for capture in board.evidence.captured(CaptureKind.POD_RESOURCES):
        if capture.node is None or not isinstance(capture.data, dict):
            continue
        for pod in _list(capture.data, "podResources", "pod_resources"):
            name = f"{pod.get('namespace', '')}/{pod.get('name', '')}"
            for container in _list(pod, "containers"):
                for entry in _list(container, "devices"):
                    told = entry.get("deviceIds", entry.get("device_ids"))
                    ids = [str(one).split("::")[0] for one in told] if isinstance(told, list) else []
                    resource = str(entry.get("resourceName", entry.get("resource_name")) or "")
                    if ids:
                        yield capture.node, resource, ids, name


def _list(body: Mapping[str, Any], *names: str) -> list[Mapping[str, Any]]:
    return next((found for name in names if (found := mappings(body.get(name)))), [])


# --- names ------------------------------------------------------------------------------------------------


def _shared_names(board: Board) -> Iterator[Problem]:
    """One extended resource, two classes: only the newest counts."""
    by_name: dict[str, list[str]] = {}
    for item in board.snapshot.classes:
        if item.spec.extended_resource_name:
            by_name.setdefault(item.spec.extended_resource_name, []).append(item.metadata.name)
    for name, classes in by_name.items():
        if len(classes) > 1:
            yield problem(
                NAME,
                "duplicate-extended-resource-name",
                f"classes {named(sorted(classes))} all stand for {name}: the scheduler takes the "
                "newest, by name if "
                "they are of one age",
                subject=f"DeviceClass {sorted(classes)[0]}",
                next=(
                    "kubectl get deviceclasses -o "
                    "custom-columns=NAME:.metadata.name,FOR:.spec.extendedResourceName",
                ),
                facts={"name": name, "classes": sorted(classes)},
            )


def _classless_mig(board: Board) -> Iterator[Problem]:
    """MIG resources of device plugins that no class stands for, once some class does for another one."""
    known = {item.spec.extended_resource_name for item in board.snapshot.classes}
    if not any("/mig-" in (name or "") for name in known):
        return
    nodes: dict[str, list[str]] = {}
    for name, node in board.nodes.items():
        for resource, units in gpu_resources(node.status.allocatable).items():
            if units and "/mig-" in resource:
                nodes.setdefault(resource, []).append(name)
    missing = sorted(set(nodes) - known)
    if missing:
        profiles = sorted(name.split("/mig-")[1] for name in nodes)
        yield problem(
            NAME,
            "mig-resource-without-class",
            f"{named(missing)} {'has' if len(missing) == 1 else 'have'} no DeviceClass: pods that "
            "ask for it cannot "
            "move to DRA",
            subject=f"Node {nodes[missing[0]][0]}",
            evidence=tuple(f"{name} on {count(len(nodes[name]), 'node')}" for name in missing),
            next=("kubectl get deviceclasses", "kubectl get nodes -o yaml | grep mig-"),
            facts={
                "missing_now": missing,
                "generate": [f"mig-{profile.replace('.', '-')}" for profile in profiles],
            },
        )


def _known_issue(board: Board) -> Iterator[Problem]:
    """A class asked for by its implicit name, whose devices also map onto node resources (1.37.0-rc.0)."""
    mapped = {
        record.spec.driver
        for record in board.snapshot.slices
        if any(device.node_allocatable_resources for device in record.spec.devices)
    }
    version = board.evidence.server_version
    if not mapped or (version and not version.startswith("v1.37.0-rc")):
        return
    named_by = {item.spec.extended_resource_name or "" for item in board.snapshot.classes} - {""}
    for pod in board.snapshot.pods:
        for container in pod.spec.containers:
            for name in container.resources.limits:
                if not name.startswith(IMPLICIT) and name not in named_by:
                    continue
                yield problem(
                    NAME,
                    "known-issue",
                    f"pod {pod.metadata.namespace}/{pod.metadata.name} asks for {name} while "
                    f"{named(sorted(mapped))} maps "
                    "devices onto node resources: Kubernetes 1.37.0-rc.0 does not schedule such pods",
                    subject=f"Pod {pod.metadata.namespace}/{pod.metadata.name}",
                    next=("kubectl version",),
                    facts={"version": "1.37.0-rc.0", "implicit_name": name},
                )
                break


def _replicas(board: Board) -> Iterator[Problem]:
    """Pods that ask for several time slices as if they were several GPUs."""
    for name, node in board.nodes.items():
        shares = shares_of(node)
        if shares < 2:
            continue
        many = [view for view in board.pods_on.get(name, ()) if view.gpus > 1]
        units = sum(u for r, u in gpu_resources(node.status.capacity).items() if whole_gpu_resource(r))
        if many:
            yield problem(
                NAME,
                "replicas-taken-for-gpus",
                f"node {name}: {units} counted GPUs are {units // shares} GPUs of {shares} time "
                "slices; "
                f"{named(view.name for view in many)} {'asks' if len(many) == 1 else 'ask'} for "
                "several slices, which may "
                "all lie on one GPU",
                subject=f"Node {name}",
                node=name,
                evidence=tuple(f"pod {view.name} asks for {view.gpus}" for view in many),
                next=(f"kubectl describe node {name}",),
                facts={"physical": units // shares, "needs_decision": [view.name for view in many]},
            )


def plugin_sets(board: Board) -> Iterator[tuple[str, PodView, tuple[DeviceKey, ...]]]:
    """(node, pod, published GPUs) of device-plugin pods whose GPUs a dump and slices tell."""
    views = {view.name: view for view in board.pods}
    held: dict[tuple[str, str], list[DeviceKey]] = {}
    for node, _, ids, holder in _plugin_devices(board):
        for key, row in board.published_gpus.get(node, ()):
            if {key.device, board.finder.text("uuid", row)} & set(ids):
                held.setdefault((node, holder), []).append(key)
    for (node, holder), keys in held.items():
        if holder in views:
            yield node, views[holder], tuple(keys)
