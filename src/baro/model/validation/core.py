"""Rules for the small kinds that baro reads and writes beside pods: nodes, leases, bindings, events.

Address ranges of nodes are compared, not parsed; of events only what does not depend on the API of the
request is checked. Source: ``pkg/apis/core/validation`` and ``pkg/apis/coordination/validation`` of
Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from baro.model.quantity import Quantity
from baro.model.validation.causes import Problems
from baro.model.validation.metadata import check_metadata, check_metadata_update
from baro.model.validation.names import dns_subdomain, label_key, label_value
from baro.model.validation.pod import NODE_EFFECTS


def check_node(problems: Problems, body: Mapping[str, Any]) -> None:
    check_metadata(problems, body.get("metadata", {}), dns_subdomain)
    _check_taints(problems, body.get("spec", {}).get("taints", ()))
    _check_resources(problems, body.get("status", {}))


def check_node_update(problems: Problems, new: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    """Addresses and provider stay once they are known."""
    check_metadata_update(problems, new.get("metadata", {}), old.get("metadata", {}))
    spec, before = new.get("spec", {}), old.get("spec", {})
    _check_resources(problems, new.get("status", {}))
    addresses, earlier = spec.get("podCIDRs", []), before.get("podCIDRs", [])
    if earlier and list(addresses) != list(earlier):
        problems.forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    provider, known = spec.get("providerID", ""), before.get("providerID", "")
    if known and provider != known:
        text = "field cannot be modified once set" if provider else "field cannot be cleared once set"
        problems.invalid("spec.providerID", None, text)
    _check_taints(problems, spec.get("taints", ()))


def _check_taints(problems: Problems, taints: Sequence[Mapping[str, Any]]) -> None:
    """The server puts them under ``metadata``, where they are not."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path = f"metadata.taints[{index}]"
        key, value, effect = (taint.get(field, "") for field in ("key", "value", "effect"))
        problems.invalid(f"{path}.key", key, *label_key(key))
        if wrong := label_value(value):
            problems.invalid(f"{path}.value", value, ";".join(wrong))
        if not effect:
            problems.required(f"{path}.effect")
        elif effect not in NODE_EFFECTS:
            problems.unsupported(f"{path}.effect", effect, NODE_EFFECTS)
        if (key, effect) in seen:
            shown = {
                "Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded"),
            }  # fmt: skip
            problems.duplicate(path, shown, "taints must be unique by key and effect pair")
        seen.add((key, effect))


def _check_resources(problems: Problems, status: Mapping[str, Any]) -> None:
    capacity = status.get("capacity", {})
    amounts = {"capacity": capacity, "allocatable": status.get("allocatable") or capacity}
    for field, resources in amounts.items():
        for name, raw in resources.items():
            quantity = Quantity.parse(raw)
            if quantity.sign < 0:
                path = f"status.{field}.{name}"
                problems.invalid(path, str(quantity), "must be greater than or equal to 0")


def check_lease(problems: Problems, body: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> None:
    """A new lease, or one that replaces ``old``. Strategies are a feature that is off, and dropped."""
    if old is None:
        check_metadata(problems, body.get("metadata", {}), dns_subdomain)
    else:
        check_metadata_update(problems, body.get("metadata", {}), old.get("metadata", {}))
    spec = body.get("spec", {})
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        problems.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if transitions is not None and transitions < 0:
        problems.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")


def check_binding_object(problems: Problems, body: Mapping[str, Any]) -> None:
    """A pod is bound to a node, by name."""
    target = body.get("target", {})
    kind, name = target.get("kind", ""), target.get("name", "")
    if kind not in ("", "Node"):
        problems.unsupported("target.kind", kind, ("Node", "<empty>"))
    if not name:
        problems.required("target.name")
    elif kind in ("", "Node"):
        problems.invalid("target.name", name, *dns_subdomain(name))


def check_event(problems: Problems, body: Mapping[str, Any]) -> None:
    """An event lies in the namespace of what it is about, cluster-wide objects' in ``default``."""
    metadata, involved = body.get("metadata", {}), body.get("involvedObject", {})
    check_metadata(problems, metadata, dns_subdomain)
    if "namespace" not in metadata:
        return
    wanted = involved.get("namespace", "")
    have = metadata["namespace"]
    if (wanted and wanted != have) or (not wanted and have not in ("default", "")):
        problems.invalid("involvedObject.namespace", wanted, "does not match event.namespace")
