"""Rules for a ResourceSlice as a whole: driver, pool, node selection, counters, numbers of devices.

What one device may hold is in ``device``. Source: ``pkg/apis/resource/validation`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from baro.model.validation.causes import Problems
from baro.model.validation.device import check_counters, check_device
from baro.model.validation.metadata import check_metadata, check_node_selector
from baro.model.validation.names import check_driver, check_pool, dns_label, dns_subdomain

MAX_DEVICES: Final = 128
MAX_DEVICES_ADVANCED: Final = 64
"""As soon as one device of the slice has taints or consumes counters."""
MAX_COUNTER_SETS: Final = 8

_ONE_SELECTION: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)


def check_resource_slice(problems: Problems, body: Mapping[str, Any]) -> None:
    spec = body.get("spec", {})
    check_metadata(problems, body.get("metadata", {}), dns_subdomain)
    check_driver(problems, "spec.driver", spec.get("driver", ""))
    _check_pool(problems, spec.get("pool", {}))
    _check_node_selection(problems, spec)
    if "sharedCounters" in spec and "devices" in spec:
        problems.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    _check_devices(problems, spec)
    _check_counter_sets(problems, spec.get("sharedCounters", ()))


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
            shown = [_internal_term(term) for term in terms]
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
        return [
            {"Key": r.get("key", ""), "Operator": r.get("operator", ""), "Values": r.get("values")}
            for r in term.get(key, ())
        ] or None

    return {"MatchExpressions": requirements("matchExpressions"), "MatchFields": requirements("matchFields")}


def _check_devices(problems: Problems, spec: Mapping[str, Any]) -> None:
    devices = spec.get("devices", ())
    advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    if problems.too_many("spec.devices", len(devices), MAX_DEVICES_ADVANCED if advanced else MAX_DEVICES):
        return
    per_device = bool(spec.get("perDeviceNodeSelection"))
    for index, device in enumerate(devices):
        check_device(problems, device, f"spec.devices[{index}]", per_device=per_device)
    seen: set[str] = set()
    for index, device in enumerate(devices):
        name = device.get("name", "")
        if name in seen:
            problems.duplicate(f"spec.devices[{index}]", name)
        seen.add(name)


def _check_counter_sets(problems: Problems, counter_sets: Any) -> None:
    if problems.too_many("spec.sharedCounters", len(counter_sets), MAX_COUNTER_SETS):
        return
    seen: set[str] = set()
    for index, counter_set in enumerate(counter_sets):
        path = f"spec.sharedCounters[{index}]"
        name = counter_set.get("name", "")
        if not name:
            problems.required(f"{path}.name")
        else:
            problems.invalid(f"{path}.name", name, *dns_label(name, "bytes"))
        check_counters(problems, counter_set.get("counters", {}), f"{path}.counters")
        if name in seen:
            problems.duplicate(path, counter_set)
        seen.add(name)
