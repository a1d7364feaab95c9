"""``POST pods/NAME/binding``: a pod gets its node, once.

Source: ``BindingREST`` in ``pkg/registry/core/pod/storage`` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baro.apiserver.catalogue import BINDING
from baro.apiserver.registry.base import Objects, check_revision
from baro.apiserver.registry.fields import index
from baro.apiserver.registry.options import ATTEMPTS
from baro.apiserver.registry.strategy import PODS
from baro.apiserver.registry.versions import to_stored
from baro.apiserver.status import MODIFIED, Resource, bad_request, conflict
from baro.apiserver.storage import StaleError
from baro.apiserver.validation import check_decoding, check_kind, check_rules

Body = dict[str, Any]


def bind(objects: Objects, namespace: str, name: str, binding: Any, *, dry_run: bool = False) -> None:
    """Assigns a pod to a node, once, as ``POST pods/NAME/binding`` does."""
    checked = check_kind(binding, BINDING)
    check_decoding(checked, BINDING, "Ignore", [])
    known = to_stored(checked, BINDING)
    metadata = known.setdefault("metadata", {})
    if metadata.setdefault("name", name) != name:
        raise bad_request("name in URL does not match name in Binding object")
    check_rules(known, BINDING)
    node = known["target"]["name"]
    pods = objects.catalogue.stored(PODS)
    for _attempt in range(ATTEMPTS):
        record = objects.get(pods, namespace, name)
        check_revision(pods, dict(metadata), record, name)
        pod = record.body()
        _assign(pod, node, metadata, name, objects.now())
        if dry_run:
            return
        try:
            objects.store.replace(record.key, pod, index(pods, pod), record.revision)
            return
        except StaleError:
            continue
    raise conflict(Resource("", "pods/binding"), name, MODIFIED)


def _assign(pod: Body, node: str, metadata: Mapping[str, Any], name: str, now: str) -> None:
    spec, status = pod.setdefault("spec", {}), pod.setdefault("status", {})
    why = ""
    if pod["metadata"].get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict(Resource("", "pods/binding"), name, why)
    spec["nodeName"] = node
    status.pop("nominatedNodeName", None)
    for part in ("annotations", "labels"):
        if metadata.get(part):
            pod["metadata"][part] = {**(pod["metadata"].get(part) or {}), **metadata[part]}
    scheduled = {
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "status": "True",
        "type": "PodScheduled",
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    status["conditions"] = [*others, scheduled]
    if "generation" in pod["metadata"]:
        pod["metadata"]["generation"] += 1
