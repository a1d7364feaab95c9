"""Rules for one device of a ResourceSlice: attributes, counters, taints, node selection, binding conditions.

Capacities are in ``capacity``. Fields behind gates that are off are absent here: the server drops them before
it validates (see ``prepare``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from baro.model.quantity import Quantity
from baro.model.validation.capacity import check_capacity, check_node_resources
from baro.model.validation.causes import Problems
from baro.model.validation.goview import internal
from baro.model.validation.metadata import check_node_selector
from baro.model.validation.names import (
    check_qualified,
    dns_label,
    dns_subdomain,
    is_longer,
    is_semver,
    label_key,
    label_value,
)

MAX_ATTRIBUTES_AND_CAPACITIES: Final = 32
MAX_ATTRIBUTE_VALUES: Final = 48
"""Items of list attributes count one each."""
MAX_ATTRIBUTE_BYTES: Final = 64
MAX_COUNTERS: Final = 32
MAX_CONSUMPTIONS: Final = 2
MAX_TAINTS: Final = 16
MAX_BINDING_CONDITIONS: Final = 4
MAX_GROUPS: Final = 2
EFFECTS: Final = ("NoExecute", "NoSchedule", "None")

SCALARS: Final = ("int", "bool", "string", "version")
LISTS: Final = ("bools", "ints", "strings", "versions")
_VALUES: Final = (*SCALARS, "ints", "bools", "strings", "versions")
_ONE_SELECTION: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is "
    "set to true in the ResourceSlice spec"
)


def check_device(
    problems: Problems,
    device: Mapping[str, Any],
    path: str,
    *,
    per_device: bool,
    old: Mapping[str, Any] | None = None,
) -> None:
    """One entry of ``spec.devices``; ``per_device`` tells whether it must say itself which nodes have it.

    ``old`` is the device of the same name before an update: capacities and taints that did not change are
    not judged again.
    """
    name = device.get("name", "")
    problems.invalid(f"{path}.name", name, *dns_label(name))
    _check_attributes(problems, device, path)
    shareable = bool(device.get("allowMultipleAllocations"))
    capacity = device.get("capacity", {})
    if old is None or not same_quantities(old.get("capacity", {}), capacity):
        for key, value in capacity.items():
            check_qualified(problems, _key_path(problems, f"{path}.capacity", key), key)
            check_capacity(problems, value, f"{path}.capacity[{_key(key)}]", shareable=shareable)
    taints = Problems(problems.rules)
    if old is None or list(old.get("taints", ())) != list(device.get("taints", ())):
        _check_taints(taints, device.get("taints", ()), f"{path}.taints")
    problems.absorb(taints.by_hand)
    _check_consumption(problems, device.get("consumesCounters", ()), f"{path}.consumesCounters")
    if problems.rules.declarative:
        problems.declared.absorb(taints.declared.causes)
    _check_node_selection(problems, device, path, per_device=per_device)
    check_binding(problems, device, path)
    resources = device.get("nodeAllocatableResources", {})
    check_node_resources(problems, resources, capacity, f"{path}.nodeAllocatableResources")


def _check_taints(problems: Problems, taints: Sequence[Mapping[str, Any]], path: str) -> None:
    too_many = problems.too_many(path, len(taints), MAX_TAINTS)
    for index, taint in enumerate(taints):
        if not too_many:
            check_taint(problems, taint, f"{path}[{index}]")
        elif problems.rules.declarative:
            check_effect(problems, taint.get("effect", ""), f"{path}[{index}].effect")


def _check_attributes(problems: Problems, device: Mapping[str, Any], path: str) -> None:
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    total = len(attributes) + len(capacity)
    if total > MAX_ATTRIBUTES_AND_CAPACITIES:
        text = (
            f"the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}"
        )
        problems.invalid(path, total, text)
    values = sum(
        max(1, sum(len(attribute.get(field) or ()) for field in LISTS)) for attribute in attributes.values()
    )
    if values > MAX_ATTRIBUTE_VALUES and problems.rules.since("1.36"):
        text = f"the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}"
        problems.invalid(path, values, text)
    for key, attribute in attributes.items():
        check_qualified(problems, _key_path(problems, f"{path}.attributes", key), key)
        _check_attribute(problems, attribute, f"{path}.attributes", key)


def same_quantities(old: Any, new: Any) -> bool:
    """Whether two parts of a device mean the same: ``1Gi`` is ``1024Mi``."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return set(old) == set(new) and all(same_quantities(old[key], new[key]) for key in old)
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return len(old) == len(new) and all(map(same_quantities, old, new))
    if isinstance(old, str | int | float) and isinstance(new, str | int | float):
        return old == new or Quantity.parse(old) == Quantity.parse(new)
    return bool(old == new)


def _key_path(problems: Problems, path: str, key: str, limit: int = 96) -> str:
    """Where a wrong key of the map at ``path`` is reported: servers before 1.36 name it in the path."""
    return path if problems.rules.since("1.36") else f"{path}[{_key(key, limit)}]"


def _key(key: str, limit: int = 96) -> str:
    """A map key as it stands in a path: over ``limit`` characters it is shortened in the middle."""
    if len(key) <= limit:
        return key
    left = limit - len("...")
    return f"{key[: (left + 1) // 2]}...{key[-(left // 2) :]}"


def _check_attribute(problems: Problems, attribute: Mapping[str, Any], path: str, key: str) -> None:
    place = f"{path}[{_key(key)}]"
    given = [field for field in _VALUES if attribute.get(field) is not None]
    for field in ("string", "version"):
        if field in given:
            _check_text(problems, attribute[field], f"{place}.{field}", version=field == "version")
    for field in LISTS:
        if field not in given:
            continue
        values = attribute[field]
        if not values:
            problems.invalid(f"{place}.{field}", [], "must not be empty if specified")
        for index, value in enumerate(values if field in ("strings", "versions") else ()):
            # The length of list items in "strings" is a declared rule.
            reported = problems.declared if field == "strings" else problems
            _check_text(reported, value, f"{place}.{field}[{index}]", version=field == "versions")
    if len(given) != 1 or given[0] in LISTS:
        _check_one_value(problems, attribute, place, f"{path}[{key}]")


def _check_text(problems: Problems, value: str, path: str, *, version: bool) -> None:
    if version and not is_semver(value):
        problems.invalid(path, value, "must be a string compatible with semver.org spec 2.0.0")
    if is_longer(value, MAX_ATTRIBUTE_BYTES):
        problems.too_long(path, MAX_ATTRIBUTE_BYTES)


def _check_one_value(problems: Problems, attribute: Mapping[str, Any], path: str, declared_path: str) -> None:
    """An attribute has one value. Declared rules do not count empty lists, and do not shorten keys."""
    given = [field for field in _VALUES if attribute.get(field) is not None]
    declared = [field for field in given if attribute[field] != [] and attribute[field] != ()]
    speaks = problems.rules.declarative and len(declared) != 1
    if len(given) != 1 and (not speaks or path != declared_path):
        shown: Any = (
            internal(attribute, "resource.k8s.io/v1", "DeviceAttribute", problems.rules.kube_version)
            if given
            else ""
        )
        if given or problems.rules.since("1.35"):
            problems.invalid(path, shown, "exactly one value must be specified")
        else:
            problems.required(path, "exactly one value must be specified")
    if not speaks:
        return
    all_fields = ", ".join(f"`{field}`" for field in _VALUES)
    if not declared:
        problems.declared.invalid(declared_path, "", f"must specify one of: {all_fields}")
    else:
        listed = ", ".join(declared)
        problems.declared.invalid(
            declared_path, f"{{{listed}}}", f"must specify exactly one of: {all_fields}"
        )


def check_counters(problems: Problems, counters: Mapping[str, Any], path: str) -> None:
    """The counters of a set or of a consumption: at least one, at most 32; any value passes."""
    if not counters:
        problems.declared.required(path)
        return
    problems.too_many(path, len(counters), MAX_COUNTERS)
    if len(counters) > MAX_COUNTERS and not problems.rules.declarative:
        return
    for name in sorted(counters):
        place = _key_path(problems, path, name, 63)
        problems.declared.invalid(place, name, *dns_label(name, problems.rules.unit))


def check_counter_name(problems: Problems, name: str, path: str) -> None:
    """The name of a counter set, where it is made or consumed."""
    if name:
        problems.declared.invalid(path, name, *dns_label(name, problems.rules.unit))
    else:
        problems.declared.required(path)


def _check_consumption(problems: Problems, consumptions: Sequence[Mapping[str, Any]], path: str) -> None:
    if problems.declared.too_many(path, len(consumptions), MAX_CONSUMPTIONS):
        return
    listed = (consumptions, path, "DeviceCounterConsumption", lambda item: item.get("counterSet", ""))
    if problems.rules.declarative:  # declared rules look at the list first, then at its items
        problems.duplicate_items(*listed)
    for index, consumption in enumerate(consumptions):
        place = f"{path}[{index}]"
        check_counter_name(problems, consumption.get("counterSet", ""), f"{place}.counterSet")
        check_counters(problems, consumption.get("counters", {}), f"{place}.counters")
        _check_groups(problems, consumption.get("compatibilityGroups", ()), f"{place}.compatibilityGroups")
    if not problems.rules.declarative:
        problems.duplicate_items(*listed)


def _check_groups(problems: Problems, groups: Sequence[str], path: str) -> None:
    """A rule that is only declared: nothing speaks by hand."""
    if not problems.rules.declarative:
        return
    if problems.declared.too_many(path, len(groups), MAX_GROUPS):
        return
    for index, group in enumerate(groups):
        problems.declared.invalid(f"{path}[{index}]", group, *dns_label(group, "bytes"))
    for index, group in enumerate(groups):
        if group in groups[:index]:
            problems.declared.duplicate(f"{path}[{index}]", group)


def check_taint(
    problems: Problems, taint: Mapping[str, Any], path: str, old: Mapping[str, Any] | None = None
) -> None:
    """A device taint: label key, label value, one of the three effects (not looked at when as in ``old``)."""
    key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
    problems.invalid(f"{path}.key", key, *label_key(key))
    problems.invalid(f"{path}.value", value, *label_value(value))
    if old is None or old.get("effect", "") != effect or not problems.rules.since("1.35"):
        check_effect(problems, effect, f"{path}.effect")


def effects(problems: Problems) -> tuple[str, ...]:
    """The effects that a device taint may have; ``None``, which only counts pods, came with 1.35."""
    return EFFECTS if problems.rules.since("1.35") else EFFECTS[:2]


def check_effect(problems: Problems, effect: str, path: str) -> None:
    """One of the three effects of a device taint."""
    if not effect:
        problems.declared.required(path)
    elif effect not in (known := effects(problems)):
        problems.declared.unsupported(path, effect, known)


def _check_node_selection(
    problems: Problems, device: Mapping[str, Any], path: str, *, per_device: bool
) -> None:
    name, selector, everywhere = (device.get(field) for field in ("nodeName", "nodeSelector", "allNodes"))
    if not per_device:
        if not (name is None and selector is None and everywhere is None):
            text = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is "
                "set to true in the ResourceSlice spec"
            )
            problems.invalid(path, None, text)
        return
    chosen: list[str] = []
    if name == "":
        problems.invalid(f"{path}.nodeName", name, "must not be empty")
    elif name is not None:
        chosen.append("`nodeName`")
        problems.invalid(f"{path}.nodeName", name, *dns_subdomain(name))
    if selector is not None:
        chosen.append("`nodeSelector`")
        check_node_selector(problems, selector, f"{path}.nodeSelector")
    if everywhere:
        chosen.append("`allNodes`")
    elif everywhere is False:
        problems.invalid(f"{path}.allNodes", False, "must be either unset or set to true")
    if not chosen:
        problems.required(path, _ONE_SELECTION)
    elif len(chosen) > 1:
        problems.invalid(path, f"{{{', '.join(chosen)}}}", _ONE_SELECTION)


def check_binding(problems: Problems, holder: Mapping[str, Any], path: str) -> None:
    """``bindingConditions`` and ``bindingFailureConditions``: both or none, distinct, at most 4 each."""
    lists = {field: holder.get(field, ()) for field in ("bindingConditions", "bindingFailureConditions")}
    for field, conditions in lists.items():
        if not problems.declared.too_many(f"{path}.{field}", len(conditions), MAX_BINDING_CONDITIONS):
            for index, condition in enumerate(conditions):
                problems.invalid(f"{path}.{field}[{index}]", condition, *label_key(condition))
    binding, failure = lists.values()
    for field, conditions in lists.items():
        for index, condition in enumerate(conditions):
            if condition in conditions[:index]:
                problems.duplicate(f"{path}.{field}[{index}]", condition)
            if field == "bindingFailureConditions" and condition in binding:
                text = "bindingFailureConditions must not overlap with bindingConditions"
                problems.invalid(f"{path}.{field}[{index}]", condition, text)
    if failure and not binding:
        text = "bindingConditions are required to use bindingFailureConditions"
        problems.invalid(f"{path}.bindingConditions", holder.get("bindingConditions"), text)
    if binding and not failure:
        text = "bindingFailureConditions are required to use bindingConditions"
        problems.invalid(f"{path}.bindingFailureConditions", holder.get("bindingFailureConditions"), text)
