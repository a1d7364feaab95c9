"""Rules for a ResourceSlice as a whole: driver, pool, node selection, counters, numbers of devices.

What one device may hold is in ``device``. Source: ``pkg/apis/resource/validation`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from baro.model.validation.causes import Problems
from baro.model.validation.claim_status import check_skipped_operations
from baro.model.validation.device import LISTS, check_counter_name, check_counters, check_device
from baro.model.validation.goview import internal, same
from baro.model.validation.metadata import check_metadata, check_node_selector
from baro.model.validation.names import check_driver, check_fully_qualified, check_pool, dns_subdomain
from baro.model.validation.rules import Rules

MAX_DEVICES: Final = 128
MAX_DEVICES_ADVANCED: Final = 64
"""As soon as one device of the slice has taints, list attributes or consumes counters."""
MAX_COUNTER_SETS: Final = 8

_ONE_SELECTION: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)


def check_resource_slice(
    problems: Problems, body: Mapping[str, Any], old: Mapping[str, Any] | None = None
) -> None:
    """A new slice, or one that replaces ``old`` (whose driver, pool and node stay)."""
    spec, before = body.get("spec", {}), (old or {}).get("spec", {})
    if old is None:
        check_metadata(problems, body.get("metadata", {}), dns_subdomain)
    check_driver(problems, "spec.driver", spec.get("driver", ""))
    _check_pool(problems, spec.get("pool", {}))
    if old is not None:
        _check_unchanged(problems, spec, before)
    _check_node_selection(problems, spec)
    if "sharedCounters" in spec and "devices" in spec and problems.rules.since("1.35"):
        problems.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    for field in ("devices", "sharedCounters"):
        part = {field: spec.get(field, [])}
        kept = old is not None and same(part, {field: before.get(field, [])}, "ResourceSliceSpec")
        found = problems.unchanged(when=kept)
        if field == "devices":
            _check_devices(found, spec, before)
        else:
            _check_counter_sets(found, spec.get("sharedCounters", ()))
        problems.take(found)
    if (attribute := spec.get("partitionTypeAttribute")) is not None:
        if attribute != before.get("partitionTypeAttribute"):
            check_fully_qualified(problems, "spec.partitionTypeAttribute", attribute)
        _check_partition_type(problems, spec, attribute)
    operations = spec.get("skipNodeOperations", ())
    unchanged = old is not None and list(operations) == list(before.get("skipNodeOperations", ()))
    check_skipped_operations(problems, operations, "spec.skipNodeOperations", unchanged=unchanged)


def _check_unchanged(problems: Problems, spec: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    changes = (
        ("spec.pool.name", spec.get("pool", {}).get("name", ""), before.get("pool", {}).get("name", "")),
        ("spec.driver", spec.get("driver", ""), before.get("driver", "")),
        ("spec.nodeName", spec.get("nodeName"), before.get("nodeName")),
    )
    for path, value, earlier in changes:
        if value != earlier:
            problems.invalid(path, value, "field is immutable")


def _check_pool(problems: Problems, pool: Mapping[str, Any]) -> None:
    check_pool(problems, "spec.pool.name", pool.get("name", ""))
    if (count := pool.get("resourceSliceCount", 0)) <= 0:
        problems.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if (generation := pool.get("generation", 0)) < 0:
        problems.invalid("spec.pool.generation", generation, "must be greater than or equal to zero")


def _check_node_selection(problems: Problems, spec: Mapping[str, Any]) -> None:
    chosen: list[str] = []
    name, selector = spec.get("nodeName"), spec.get("nodeSelector")
    if name == "":
        problems.invalid("spec.nodeName", name, "must be either unset or set to a non-empty string")
    elif name is not None:
        chosen.append("`nodeName`")
        problems.invalid("spec.nodeName", name, *dns_subdomain(name))
    if selector is not None:
        chosen.append("`nodeSelector`")
        check_node_selector(problems, selector, "spec.nodeSelector")
        terms = selector.get("nodeSelectorTerms", [])
        if len(terms) != 1:
            # One term only: selectors of several slices must be mergeable into an allocation's selector.
            given = selector.get("nodeSelectorTerms") is not None
            shown = [_internal_term(term) for term in terms] if given else None
            problems.invalid(
                "spec.nodeSelector.nodeSelectorTerms", shown, "must have exactly one node selector term"
            )
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field):
            chosen.append(f"`{field}`")
        elif spec.get(field) is False:
            problems.invalid(f"spec.{field}", False, "must be either unset or set to true")
    if not chosen:
        problems.required("spec", _ONE_SELECTION)
    elif len(chosen) > 1:
        text = f"{_ONE_SELECTION}, but multiple fields are set"
        problems.invalid("spec", f"{{{', '.join(chosen)}}}", text)


def _internal_term(term: Mapping[str, Any]) -> dict[str, Any]:
    """A term as the server's internal type prints."""

    def requirements(key: str) -> list[dict[str, Any]] | None:
        if term.get(key) is None:
            return None
        return [
            {"Key": r.get("key", ""), "Operator": r.get("operator", ""), "Values": r.get("values")}
            for r in term[key]
        ]

    return {"MatchExpressions": requirements("matchExpressions"), "MatchFields": requirements("matchFields")}


def _check_devices(problems: Problems, spec: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    devices = spec.get("devices", ())
    limit = MAX_DEVICES_ADVANCED if any(map(_is_advanced, devices)) else MAX_DEVICES
    per_device = bool(spec.get("perDeviceNodeSelection"))
    if problems.too_many("spec.devices", len(devices), limit):
        if problems.rules.declarative:  # which stops at no number of devices
            scratch = Problems(problems.rules)
            for index, device in enumerate(devices):
                check_device(scratch, device, f"spec.devices[{index}]", per_device=per_device)
            problems.declared.absorb(scratch.declared.causes)
        return
    earlier: dict[str, Mapping[str, Any]] = {}
    for device in before.get("devices", ()):
        earlier.setdefault(device.get("name", ""), device)
    for index, device in enumerate(devices):
        old = earlier.get(device.get("name", ""))
        check_device(problems, device, f"spec.devices[{index}]", per_device=per_device, old=old)
    seen: set[str] = set()
    for index, device in enumerate(devices):
        name = device.get("name", "")
        if name in seen:
            key = "" if problems.rules.since("1.35") else ".name"
            problems.duplicate(f"spec.devices[{index}]{key}", name)
        seen.add(name)


def _is_advanced(device: Mapping[str, Any]) -> bool:
    return bool(
        device.get("taints")
        or device.get("consumesCounters")
        or any(a.get(field) is not None for a in device.get("attributes", {}).values() for field in LISTS)
    )


def _check_counter_sets(problems: Problems, counter_sets: Any) -> None:
    if problems.declared.too_many("spec.sharedCounters", len(counter_sets), MAX_COUNTER_SETS):
        return
    listed = (counter_sets, "spec.sharedCounters", "CounterSet", lambda item: item.get("name", ""))
    if problems.rules.declarative:  # declared rules look at the list first, then at its items
        problems.duplicate_items(*listed)
    for index, counter_set in enumerate(counter_sets):
        path = f"spec.sharedCounters[{index}]"
        check_counter_name(problems, counter_set.get("name", ""), f"{path}.name")
        check_counters(problems, counter_set.get("counters", {}), f"{path}.counters")
    if not problems.rules.declarative:
        problems.duplicate_items(*listed)


def _check_partition_type(problems: Problems, spec: Mapping[str, Any], name: str) -> None:
    """The attribute that names a partition's type: devices that consume counters have it, as a string."""
    path, devices = "spec.partitionTypeAttribute", spec.get("devices", ())
    if not any(device.get("consumesCounters") for device in devices):
        text = "may only be set on a slice which declares devices that consume counters"
        problems.invalid(path, name, text)
        return
    by_hand = Problems(Rules("1.36"))
    check_fully_qualified(by_hand, path, name)
    if by_hand.causes:
        return
    bare = name.removeprefix(f"{spec.get('driver', '')}/")
    for index, device in enumerate(devices):
        if not device.get("consumesCounters"):
            continue
        attributes = device.get("attributes", {})
        attribute = attributes.get(name, attributes.get(bare) if bare else None)
        place = f"spec.devices[{index}].attributes[{name}]"
        if attribute is None:
            text = (
                "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be "
                "set"
            )
            problems.required(place, text)
        elif attribute.get("string") is None:
            text = "must be a string value because `partitionTypeAttribute` names this attribute"
            problems.invalid(
                place,
                internal(attribute, "resource.k8s.io/v1", "DeviceAttribute", problems.rules.kube_version),
                text,
            )
