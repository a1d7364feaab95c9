"""Random allocator instances (``bench._allocator_random``) judged by the independent checker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from baro.allocator import Features, NodeDecision
from baro.allocator.derived import derivation
from baro.allocator.validity import violations
from baro.cel import CelCompileError, CelRuntimeError, DeviceView, compile_selector, view_of
from baro.cel.computation import MAX_COST
from baro.cel.device import AttributeError_
from baro.conformance.allocation import convert
from baro.model.kinds.core import Node
from baro.model.kinds.resource import (
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from baro.model.semver import SemVer


def wrong_with(body: Mapping[str, Any], decision: NodeDecision) -> list[str]:
    """What the checker says against the devices of a decision."""
    return violations(
        [convert(item, ResourceSlice) for item in body["resourceSlices"]],
        [convert(item, DeviceClass) for item in body["deviceClasses"]],
        convert(body["node"], Node),
        [convert(item, ResourceClaim) for item in body["claims"]],
        [convert(item, ResourceClaim) for item in body["held"]],
        decision.allocations,
        selects=selects,
        derives=derives,
        taint_rules=[convert(item, DeviceTaintRule) for item in body.get("rules", ())],
        features=Features.from_gates(body["features"]),
    )


def selects(expression: str, item: ResourceSlice, device: Device) -> bool:
    """Whether CEL selects a device; an error is a no."""
    try:
        return compile_selector(expression).evaluate(_view(item, device))
    except (CelCompileError, CelRuntimeError, AttributeError_):
        return False


def derives(expression: str, item: ResourceSlice, device: Device) -> DeviceAttribute | None:
    """The attribute that an expression gives; ``None`` for an error."""
    compiled = derivation(expression)
    if isinstance(compiled, str):
        return None
    result, error, _ = compiled.count(_view(item, device), MAX_COST)
    return None if error is not None else _attribute(result)


def _attribute(value: object) -> DeviceAttribute | None:
    match value:
        case bool():
            return DeviceAttribute(bool_=value)
        case int():
            return DeviceAttribute(int_=value)
        case str():
            return DeviceAttribute(string=value)
        case SemVer():
            return DeviceAttribute(version=str(value))
        case tuple():
            parts = [_attribute(item) for item in value]
            names = {"int_": "ints", "bool_": "bools", "string": "strings", "version": "versions"}
            for one, many in names.items():
                found = [getattr(part, one) for part in parts]
                if parts and all(item is not None for item in found):
                    return msgspec.structs.replace(DeviceAttribute(), **{many: tuple(found)})
    return None


def _view(item: ResourceSlice, device: Device) -> DeviceView:
    return view_of(
        item.spec.driver, device.attributes, device.capacity, bool(device.allow_multiple_allocations)
    )
