"""Rules for the small kinds that baro reads and writes beside pods: nodes, leases, bindings, events.

Address ranges of nodes are compared, not parsed; events are those of the core API. Source:
``pkg/apis/core/validation`` and ``pkg/apis/coordination/validation`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from baro.model.decode.gotime import canonical_time
from baro.model.quantity import Quantity
from baro.model.validation.causes import Problems
from baro.model.validation.metadata import check_metadata, check_metadata_update
from baro.model.validation.names import byte_size, dns_subdomain, label_key, label_value, path_segment
from baro.model.validation.pod import NODE_EFFECTS

MAX_EVENT_TEXT: Final = 128
MAX_EVENT_MESSAGE: Final = 1024

_COUNTED: Final = frozenset({
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
})  # fmt: skip


def check_node(problems: Problems, body: Mapping[str, Any]) -> None:
    check_metadata(problems, body.get("metadata", {}), dns_subdomain)
    _check_taints(problems, body.get("spec", {}).get("taints", ()))
    _check_resources(problems, body.get("status", {}))


def check_node_update(problems: Problems, new: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    """Addresses and provider stay once they are known."""
    check_node(problems, new)
    check_node_status(problems, new, old)


def check_node_status(problems: Problems, new: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    """What a write to the status of a node is asked; addresses and provider are those of ``old`` then."""
    check_metadata_update(problems, new.get("metadata", {}), old.get("metadata", {}))
    spec, before = new.get("spec", {}), old.get("spec", {})
    addresses, earlier = spec.get("podCIDRs", []), before.get("podCIDRs", [])
    if earlier and list(addresses) != list(earlier):
        problems.forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    provider, known = spec.get("providerID", ""), before.get("providerID", "")
    if known and provider != known:
        text = "field cannot be modified once set" if provider else "field cannot be cleared once set"
        problems.invalid("spec.providerID", None, text)
    _check_taints(problems, spec.get("taints", ()))
    _check_resources(problems, new.get("status", {}))


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
                "Key": key, "Value": value, "Effect": effect, "TimeAdded": _moment(taint.get("timeAdded")),
            }  # fmt: skip
            problems.duplicate(path, shown, "taints must be unique by key and effect pair")
        seen.add((key, effect))


def _moment(text: str | None) -> str | None:
    return None if text is None else canonical_time(text)


def _check_resources(problems: Problems, status: Mapping[str, Any]) -> None:
    capacity = status.get("capacity", {})
    amounts = {"capacity": capacity, "allocatable": status.get("allocatable") or capacity}
    for field, resources in amounts.items():
        for name, raw in resources.items():
            quantity, path = Quantity.parse(raw), f"status.{field}" + (f".{name}" if name else "[]")
            if quantity.sign < 0:
                problems.invalid(path, str(quantity), "must be greater than or equal to 0")
            if _is_counted(name) and _milli(quantity) % 1000:
                problems.invalid(path, str(quantity), "must be an integer")


def _milli(quantity: Quantity) -> int:
    """Thousandths as the server counts them: in 64 bits, whose overflow it does not see."""
    exact = quantity.milli_value()
    if -(2**63) <= exact < 2**63:
        return exact
    if quantity.small and quantity.exponent > 0 and quantity.exponent not in (3, 6):
        return 0
    return (exact + 2**63) % 2**64 - 2**63


def _is_counted(resource: str) -> bool:
    """Whether a resource comes in whole numbers: pods and the like, and all with a foreign domain."""
    if "/" not in resource:
        return resource in _COUNTED
    native = "kubernetes.io/" in resource or resource.startswith("requests.")
    return not native and not label_key(f"requests.{resource}")


def check_lease(problems: Problems, body: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> None:
    """A new lease, or one that replaces ``old``. Strategies are a feature that is off, and dropped."""
    if old is None:
        check_metadata(problems, body.get("metadata", {}), dns_subdomain, any_finalizer=True)
    else:
        check_metadata_update(problems, body.get("metadata", {}), old.get("metadata", {}), any_finalizer=True)
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


def check_event(problems: Problems, body: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> None:
    """An event of the core API: in the namespace of what it is about, cluster-wide objects' in ``default``.

    Its metadata must only do for a URL, and is not looked at when a new event is wrong otherwise.
    """
    metadata = body.get("metadata", {})
    if old is not None:
        check_metadata_update(problems, metadata, old.get("metadata", {}), any_finalizer=True)
    found = Problems(problems.rules)
    if body.get("eventTime"):
        _check_timed_event(found, body)
    else:
        _check_event_namespace(found, body)
    problems.take(found)
    if old is None and not found.causes:
        check_metadata(problems, metadata, path_segment, any_finalizer=True)


def _check_event_namespace(problems: Problems, body: Mapping[str, Any]) -> None:
    if "namespace" not in body.get("metadata", {}):
        return
    have, wanted = body["metadata"]["namespace"], body.get("involvedObject", {}).get("namespace", "")
    if (wanted and wanted != have) or (not wanted and have not in ("default", "")):
        problems.invalid("involvedObject.namespace", wanted, "does not match event.namespace")


def _check_timed_event(problems: Problems, body: Mapping[str, Any]) -> None:
    """An event with ``eventTime`` is complete, and its texts are short."""
    have, wanted = body.get("metadata", {}).get("namespace"), body.get("involvedObject", {}).get("namespace")
    if not wanted and have not in (None, "default", "kube-system"):
        problems.invalid("involvedObject.namespace", "", "does not match event.namespace")
    reporter = body.get("reportingComponent", "")
    if not reporter:
        problems.required("reportingComponent")
    problems.invalid("reportingComponent", reporter, *label_key(reporter))
    for field in ("reportingInstance", "action", "reason"):
        if not body.get(field):
            problems.required(field)
        if byte_size(body.get(field, "")) > MAX_EVENT_TEXT:
            problems.invalid(field, "", f"can have at most {MAX_EVENT_TEXT} characters")
    if byte_size(body.get("message", "")) > MAX_EVENT_MESSAGE:
        problems.invalid("message", "", f"can have at most {MAX_EVENT_MESSAGE} characters")
