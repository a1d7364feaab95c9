"""Rules for one device of a ResourceSlice: attributes, capacities, counters, taints, binding conditions.

Fields behind gates that are off by default in 1.37 (list attributes, compatibility groups, node allocatable
resources …) count as absent, because the server drops them before it validates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from baro.model.quantity import Quantity
from baro.model.validation.causes import Problems
from baro.model.validation.metadata import check_node_selector
from baro.model.validation.names import (
    byte_size,
    check_qualified,
    dns_label,
    dns_subdomain,
    is_semver,
    label_key,
    label_value,
)

MAX_ATTRIBUTES_AND_CAPACITIES: Final = 32
MAX_ATTRIBUTE_BYTES: Final = 64
MAX_COUNTERS: Final = 32
MAX_CONSUMPTIONS: Final = 2
MAX_TAINTS: Final = 16
MAX_BINDING_CONDITIONS: Final = 4
MAX_VALID_VALUES: Final = 10
EFFECTS: Final = ("NoExecute", "NoSchedule", "None")

_SCALARS: Final = ("int", "bool", "string", "version")
_ATTRIBUTE_FIELDS: Final = "`int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
_ONE_SELECTION: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is "
    "set to true in the ResourceSlice spec"
)
_MAX_INT64: Final = 2**63 - 1


def check_device(problems: Problems, device: Mapping[str, Any], path: str, *, per_device: bool) -> None:
    """One entry of ``spec.devices``; ``per_device`` tells whether it must say itself which nodes have it."""
    name = device.get("name", "")
    problems.invalid(f"{path}.name", name, *dns_label(name))
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    total = len(attributes) + len(capacity)
    if total > MAX_ATTRIBUTES_AND_CAPACITIES:
        text = (
            f"the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}"
        )
        problems.invalid(path, total, text)
    for key, attribute in attributes.items():
        check_qualified(problems, f"{path}.attributes", key)
        _check_attribute(problems, attribute, f"{path}.attributes[{_key(key)}]")
    for key, value in capacity.items():
        check_qualified(problems, f"{path}.capacity", key)
        shareable = bool(device.get("allowMultipleAllocations"))
        _check_capacity(problems, value, f"{path}.capacity[{_key(key)}]", shareable=shareable)
    taints = device.get("taints", ())
    if not problems.too_many(f"{path}.taints", len(taints), MAX_TAINTS):
        for index, taint in enumerate(taints):
            check_taint(problems, taint, f"{path}.taints[{index}]")
    _check_consumption(problems, device.get("consumesCounters", ()), f"{path}.consumesCounters")
    _check_node_selection(problems, device, path, per_device=per_device)
    check_binding(problems, device, path)


def _key(key: str, limit: int = 96) -> str:
    """A map key as it stands in a path: over ``limit`` characters it is shortened in the middle."""
    if len(key) <= limit:
        return key
    left = limit - len("...")
    return f"{key[: (left + 1) // 2]}...{key[-(left // 2) :]}"


def _check_attribute(problems: Problems, attribute: Mapping[str, Any], path: str) -> None:
    for field in ("string", "version"):
        value = attribute.get(field)
        if value is None:
            continue
        if field == "version" and not is_semver(value):
            text = "must be a string compatible with semver.org spec 2.0.0"
            problems.invalid(f"{path}.version", value, text)
        if byte_size(value) > MAX_ATTRIBUTE_BYTES:
            problems.too_long(f"{path}.{field}", MAX_ATTRIBUTE_BYTES)
    given = [f"`{field}`" for field in _SCALARS if attribute.get(field) is not None]
    if not given:
        problems.invalid(path, "", f"must specify one of: {_ATTRIBUTE_FIELDS}")
    elif len(given) > 1:
        problems.invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {_ATTRIBUTE_FIELDS}")


def check_counters(problems: Problems, counters: Mapping[str, Any], path: str) -> None:
    """The counters of a set or of a consumption: at least one, at most 32; any value passes."""
    if not counters:
        problems.required(path)
        return
    if problems.too_many(path, len(counters), MAX_COUNTERS):
        return
    for name in counters:
        problems.invalid(path, name, *dns_label(name, "bytes"))


def _check_consumption(problems: Problems, consumptions: Sequence[Mapping[str, Any]], path: str) -> None:
    if problems.too_many(path, len(consumptions), MAX_CONSUMPTIONS):
        return
    seen: set[str] = set()
    for index, consumption in enumerate(consumptions):
        place = f"{path}[{index}]"
        name = consumption.get("counterSet", "")
        if name:
            problems.invalid(f"{place}.counterSet", name, *dns_label(name, "bytes"))
        else:
            problems.required(f"{place}.counterSet")
        check_counters(problems, consumption.get("counters", {}), f"{place}.counters")
        if name in seen:
            problems.duplicate(place, consumption)
        seen.add(name)


def check_taint(problems: Problems, taint: Mapping[str, Any], path: str) -> None:
    """A device taint: label key, label value, one of the three effects."""
    key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
    problems.invalid(f"{path}.key", key, *label_key(key))
    problems.invalid(f"{path}.value", value, *label_value(value))
    if not effect:
        problems.required(f"{path}.effect")
    elif effect not in EFFECTS:
        problems.unsupported(f"{path}.effect", effect, EFFECTS)


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
        if not problems.too_many(f"{path}.{field}", len(conditions), MAX_BINDING_CONDITIONS):
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
        problems.invalid(f"{path}.bindingConditions", None, text)
    if binding and not failure:
        text = "bindingFailureConditions are required to use bindingConditions"
        problems.invalid(f"{path}.bindingFailureConditions", None, text)


# --- capacity and its request policy ---------------------------------------------------------------------


def _check_capacity(problems: Problems, capacity: Mapping[str, Any], path: str, *, shareable: bool) -> None:
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    path = f"{path}.requestPolicy"
    if not shareable:
        problems.forbidden(path, "allowMultipleAllocations must be true")
        return
    most = Quantity.parse(capacity.get("value", "0"))
    values, allowed = policy.get("validValues", ()), policy.get("validRange")
    if values and allowed is not None:
        text = 'cannot specify "validValues" and "validRange" at the same time'
        problems.forbidden(path, f"exactly one policy can be specified, {text}")
        return
    if not values and allowed is None:
        return
    kind = "validValues" if values else "validRange"
    if policy.get("default") is None:
        problems.required(f"{path}.default", f"required when {kind} is defined")
        return
    default = Quantity.parse(policy["default"])
    if values:
        _check_values(
            problems, [Quantity.parse(value) for value in values], default, most, f"{path}.validValues"
        )
    elif allowed is not None:
        _check_range(problems, allowed, default, most, f"{path}.validRange")


def _check_values(
    problems: Problems, values: Sequence[Quantity], default: Quantity, most: Quantity, path: str
) -> None:
    for index in range(1, len(values)):
        if values[index - 1] > values[index]:
            text = "values must be sorted in ascending order"
            problems.invalid(f"{path}[{index}]", str(values[index]), text)
    too_many = problems.too_many(path, len(values), MAX_VALID_VALUES)
    if not too_many:
        for index, value in enumerate(values):
            if value > most:
                text = f"option is larger than capacity value: {most}"
                problems.invalid(f"{path}[{index}]", str(value), text)
            if value in values[:index]:
                problems.duplicate(f"{path}[{index}]", str(value))
    # Over the limit the server does not look at the values, so it does not find the default among them.
    if too_many or default not in values:
        problems.invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _check_range(
    problems: Problems, allowed: Mapping[str, Any], default: Quantity, most: Quantity, path: str
) -> None:
    bounds = {
        key: Quantity.parse(allowed[key]) for key in ("min", "max", "step") if allowed.get(key) is not None
    }
    if "min" not in bounds:
        problems.required(f"{path}.min", "required when validRange is defined")
        return
    low, high, step = bounds["min"], bounds.get("max"), bounds.get("step")
    if low > most:
        problems.invalid(f"{path}.min", str(low), f"min is larger than capacity value: {most}")
    if default < low:
        problems.invalid(f"{path}.default", str(default), f"default is less than min: {low}")
    if high is not None:
        if low > high:
            problems.invalid(f"{path}.max", str(low), f"min is larger than max: {high}")
        if high > most:
            problems.invalid(f"{path}.max", str(high), f"max is larger than capacity value: {most}")
        if default > high:
            problems.invalid(f"{path}.default", str(default), f"default is more than max: {high}")
    if step is not None:
        _check_step(problems, {"default": default, **bounds}, most, path)


def _check_step(problems: Problems, bounds: Mapping[str, Quantity], most: Quantity, path: str) -> None:
    default, low, step = bounds["default"], bounds["min"], bounds["step"]
    if step.sign <= 0:
        problems.invalid(f"{path}.step", str(step), "must be greater than zero")
        return
    if low + step > most:
        text = f"one step {low + step} is larger than capacity value: {most}"
        problems.invalid(f"{path}.step", str(step), text)
    fractional = any(not quantity.is_integer() for quantity in bounds.values())
    unsafe = False
    for name, quantity in bounds.items():
        if fractional:
            text = "" if quantity.scaled % 10**6 == 0 else "value cannot be represented as a milli value"
        elif quantity.sign < 0:
            text = "must be greater than or equal to 0"
        else:
            text = "" if quantity.value() <= _MAX_INT64 else f"must not be larger than {_MAX_INT64}"
        if text:
            problems.invalid(f"{path}.{name}", str(quantity), text)
            unsafe = True
    if unsafe:
        return
    for value in (default, bounds.get("max")):
        if value is not None and (value.scaled - low.scaled) % step.scaled:
            text = f"value is not a multiple of a given step ({step}) from ({low})"
            problems.invalid(f"{path}.step", str(value), text)
