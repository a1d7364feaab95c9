"""Which pods are kubelet plugins: DRA drivers and device plugins, told by what they mount.

A DRA driver must put a socket below the kubelet's ``plugins_registry``, a device plugin below
``device-plugins``; a pod that mounts neither is neither, whatever it is called. One pod per owner is looked
at, so a DaemonSet on 10,000 nodes costs one look.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from baro.diagnosis.checks.board import DONE, Board, condition
from baro.diagnosis.shapes import mapping, mappings
from baro.model.kinds.core import Pod

_REGISTRY = ("plugins_registry", "/kubelet/plugins")
_DEVICE_PLUGINS = "device-plugins"
_STORAGE = re.compile(r"csi\b|node-driver-registrar", re.IGNORECASE)
"""Storage drivers register in the same directory and hand out no devices."""
_OF_GPUS = re.compile(r"gpu|nvidia|amdgpu|rocm|gaudi|habana|baro", re.IGNORECASE)
Owner = tuple[str, str, str]
"""Namespace, kind and name of the controller, or of the pod itself."""


class Registrar(msgspec.Struct, frozen=True, kw_only=True):
    """One owner of plugin pods. ``text`` is what names it: images, labels and names, never arguments or
    environment, which a snapshot does not keep."""

    owner: Owner
    dra: bool
    device_plugin: bool
    text: str
    pods: Mapping[str, Pod]
    """Node → the pod there."""

    @property
    def title(self) -> str:
        """``DaemonSet kube-system/nvidia-device-plugin``."""
        namespace, kind, name = self.owner
        return f"{kind} {namespace}/{name}"

    @property
    def of_gpus(self) -> bool:
        """Whether anything in its names speaks of GPUs: there are plugins for NICs and other things too."""
        return _OF_GPUS.search(self.text) is not None

    def serves(self, driver: str) -> bool:
        """Whether something in the pod names the driver, or the vendor in its name."""
        vendor = driver.split(".")[-2] if driver.count(".") else driver
        return driver in self.text or (vendor != "example" and vendor in self.text)


def registrars(board: Board) -> tuple[Registrar, ...]:
    """All plugin owners whose pods are in the evidence; worked out once for a board."""
    found: tuple[Registrar, ...] | None = board.derived.get("registrars")
    if found is None:
        found = board.derived["registrars"] = _registrars(board)
    return found


def pods_on(node: str | None) -> str:
    """The command that lists a node's pods; all pods with their nodes where the node is not known."""
    return (
        f"kubectl get pods -A --field-selector spec.nodeName={node}"
        if node
        else "kubectl get pods -A -o wide"
    )


def logs_of(board: Board, node: str | None, *, dra: bool = False) -> tuple[str, ...]:
    """Commands that show the logs of a node's device plugins (or DRA drivers); how to find them otherwise."""
    pods = [
        item.pods[node].metadata
        for item in registrars(board)
        if node is not None and node in item.pods and (item.dra if dra else item.device_plugin)
    ]
    if pods:
        return tuple(f"kubectl logs -n {meta.namespace} {meta.name} --tail=200" for meta in pods)
    return (pods_on(node),)


def _registrars(board: Board) -> tuple[Registrar, ...]:
    known: dict[Owner, tuple[bool, bool, str] | None] = {}
    placed: dict[Owner, dict[str, Pod]] = {}
    for pod in board.snapshot.pods:
        node = pod.spec.node_name
        if not node or pod.status.phase in DONE:
            continue
        owner = _owner(pod)
        if owner is None:
            continue
        if owner not in known:
            known[owner] = _look(board, pod)
        if known[owner] is not None:
            placed.setdefault(owner, {})[node] = pod
    return tuple(
        Registrar(owner=owner, dra=found[0], device_plugin=found[1], text=found[2], pods=placed[owner])
        for owner, found in known.items()
        if found is not None
    )


def running(pod: Pod) -> bool:
    """Whether the pod runs and is ready, as far as told."""
    ready = condition(pod.status.conditions, "Ready")
    return pod.status.phase in ("Running", "") and (ready is None or ready.status == "True")


def _owner(pod: Pod) -> Owner | None:
    """The controller; None for the workloads that never are plugins, so that they cost nothing."""
    for owner in pod.metadata.owner_references:
        if owner.controller is not False:
            return (
                None
                if owner.kind in ("Job", "StatefulSet")
                else (pod.metadata.namespace, owner.kind, owner.name)
            )
    return pod.metadata.namespace, "Pod", pod.metadata.name


def _look(board: Board, pod: Pod) -> tuple[bool, bool, str] | None:
    document = board.documents.get(("Pod", f"{pod.metadata.namespace}/{pod.metadata.name}"))
    body: dict[str, Any] = document.body if document is not None else {}
    dra, plugin = _mounts(body)
    if not dra and not plugin:
        return None
    spec = mapping(body.get("spec"))
    said = [pod.metadata.name, *pod.metadata.labels.values()]
    for container in mappings(spec.get("containers")):
        said += [str(container.get(field) or "") for field in ("name", "image")]
    text = " ".join(said)
    return None if _STORAGE.search(text) else (dra, plugin, text)


def is_plugin_spec(body: Mapping[str, Any]) -> bool:
    """Whether a pod, or the template of pods, mounts what kubelet plugins mount."""
    return any(_mounts(body))


def _mounts(body: Mapping[str, Any]) -> tuple[bool, bool]:
    """(the directory of DRA drivers, that of device plugins) is mounted from the host."""
    volumes = mappings(mapping(body.get("spec")).get("volumes"))
    paths = [str(mapping(volume.get("hostPath")).get("path") or "") for volume in volumes]
    dra = any(mark in path for path in paths for mark in _REGISTRY)
    return dra, any(_DEVICE_PLUGINS in path for path in paths)
