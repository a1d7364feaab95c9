"""Rules for the capacities of a device, the policies of requests for them, and node resources behind them.

Quantities are compared by value. Source: ``validateDeviceCapacity`` and ``validateRequestPolicy`` in
``pkg/apis/resource/validation`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from baro.model.quantity import Quantity
from baro.model.validation.causes import Problems

MAX_VALID_VALUES: Final = 10

_MAX_INT64: Final = 2**63 - 1


def check_capacity(problems: Problems, capacity: Mapping[str, Any], path: str, *, shareable: bool) -> None:
    """One capacity; a policy for requests needs a device that is ``shareable``."""
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
    if not too_many:
        fractional = problems.rules.on("DRAFractionalCapacityRange")
        keys = [_decimal(value) if fractional else str(_wrapped(value.value())) for value in values]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                problems.duplicate(f"{path}[{index}]", key)
    # Over the limit the server does not look at the values, so it does not find the default among them.
    if too_many or default not in values:
        problems.invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _wrapped(number: int) -> int:
    """``number`` in 64 bits, as the server counts."""
    return (number + _MAX_INT64 + 1) % 2**64 - _MAX_INT64 - 1


def _decimal(value: Quantity) -> str:
    """``value`` without a unit, the key by which the server finds duplicates."""
    sign, whole, nano = "-" if value.scaled < 0 else "", *divmod(abs(value.scaled), 10**9)
    fraction = f"{nano:09d}".rstrip("0")
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


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
    # Servers before 1.37 put what is wrong with the default on the bound that it breaks.
    newer = problems.rules.newest
    if default < low:
        problems.invalid(
            f"{path}.default" if newer else f"{path}.min", str(default), f"default is less than min: {low}"
        )
    if high is not None:
        if low > high:
            problems.invalid(f"{path}.max", str(low), f"min is larger than max: {high}")
        if high > most:
            problems.invalid(f"{path}.max", str(high), f"max is larger than capacity value: {most}")
        if default > high:
            problems.invalid(
                f"{path}.default" if newer else f"{path}.max",
                str(default),
                f"default is more than max: {high}",
            )
    if step is not None:
        _check_step(problems, {"default": default, **bounds}, most, path)


def _check_step(problems: Problems, bounds: Mapping[str, Quantity], most: Quantity, path: str) -> None:
    default, low, step = bounds["default"], bounds["min"], bounds["step"]
    fractional = problems.rules.on("DRAFractionalCapacityRange") and any(
        not quantity.is_integer() for quantity in bounds.values()
    )
    if fractional and _unsafe(problems, bounds, path, milli=True):
        return
    # Older servers crashed on a step of 0 and took a negative one.
    if step.sign <= 0 and (problems.rules.newest or not step.sign):
        problems.invalid(f"{path}.step", str(step), "must be greater than zero")
        return
    if low + step > most:
        text = f"one step {low + step} is larger than capacity value: {most}"
        problems.invalid(f"{path}.step", str(step), text)
    if not fractional and problems.rules.newest and _unsafe(problems, bounds, path, milli=False):
        return
    for value in (default, bounds.get("max")):
        if value is None:
            continue
        if fractional:
            off = (value.scaled - low.scaled) % step.scaled if step.scaled else 1
        else:  # a step of 0 crashed the handler of older servers
            off = (value.value() - low.value()) % step.value() if step.value() else 1
        if off:
            text = f"value is not a multiple of a given step ({step}) from ({low})"
            problems.invalid(f"{path}.step", str(value), text)


def _unsafe(problems: Problems, bounds: Mapping[str, Quantity], path: str, *, milli: bool) -> bool:
    """Reports bounds that the server cannot count with: 64 bits, of thousandths when ``milli``."""
    found = False
    for name in ("default", "min", "max", "step"):
        quantity = bounds.get(name)
        if quantity is None:
            continue
        if milli:
            text = "" if quantity.scaled % 10**6 == 0 else "value cannot be represented as a milli value"
        elif quantity.sign < 0:
            text = "must be greater than or equal to 0"
        else:
            big = quantity.scaled > _MAX_INT64 * 10**9
            text = f"must not be larger than {_MAX_INT64}" if big else ""
        if text:
            problems.invalid(f"{path}.{name}", str(quantity), text)
            found = True
    return found


# --- node resources behind a device ----------------------------------------------------------------------


def check_node_resources(
    problems: Problems, resources: Mapping[str, Any], capacity: Mapping[str, Any], path: str
) -> None:
    """What of a node's own resources a device stands for (``nodeAllocatableResources``)."""
    for name, entry in resources.items():
        place = f"{path}[{name}]"
        if not _is_node_resource(name):
            problems.invalid(place, name, "must be a node allocatable resource name")
        mapping, overhead = entry.get("mapping"), entry.get("overhead")
        if mapping is None and overhead is None:
            problems.required(place, "at least one of mapping or overhead must be set")
        if mapping is not None:
            _check_mapping(problems, mapping, capacity, f"{place}.mapping")
        if overhead is not None:
            _check_overhead(problems, overhead, f"{place}.overhead")


def _is_node_resource(name: str) -> bool:
    return name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")


def _check_mapping(
    problems: Problems, mapping: Mapping[str, Any], capacity: Mapping[str, Any], path: str
) -> None:
    key, factor, per_device = (
        mapping.get(field) for field in ("capacityKey", "capacityMultiplier", "deviceMultiplier")
    )
    if key == "":
        problems.invalid(f"{path}.capacityKey", "", "capacityKey must not be an empty string")
    elif key is not None and key not in capacity:
        problems.not_found(f"{path}.capacityKey", key, "")
    for field, other, missing in (
        ("capacityMultiplier", "capacityKey", key is not None and factor is None),
        ("capacityKey", "capacityMultiplier", factor is not None and key is None),
    ):
        if missing and problems.rules.declarative:
            problems.declared.required(f"{path}.{field}", f"must be specified when `{other}` is specified")
        elif missing:
            problems.required(f"{path}.{field}", f"{field} is required when {other} is set")
    for field, value in (
        ("capacityMultiplier", factor if key is not None else None),
        ("deviceMultiplier", per_device),
    ):
        if value is not None and Quantity.parse(value).sign <= 0:
            problems.invalid(f"{path}.{field}", str(Quantity.parse(value)), "must be positive")
    given = [field for field in ("capacityKey", "deviceMultiplier") if mapping.get(field) is not None]
    if not problems.rules.declarative:
        return
    both = "`capacityKey`, `deviceMultiplier`"
    if not given:
        problems.declared.invalid(path, "", f"must specify one of: {both}")
    elif len(given) > 1:
        problems.declared.invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {both}")


def _check_overhead(problems: Problems, overhead: Mapping[str, Any], path: str) -> None:
    given = {
        field: Quantity.parse(overhead[field])
        for field in ("perPod", "perContainer")
        if overhead.get(field) is not None
    }
    if not given:
        problems.invalid(path, "", "at least one of perPod or perContainer must be set")
    for field, value in given.items():
        if value.sign < 0:
            problems.invalid(f"{path}.{field}", str(value), "must be non-negative")
