"""Rules for requests: ResourceClaim, ResourceClaimTemplate, DeviceClass and DeviceTaintRule.

Whether a CEL expression compiles is asked of the caller (``CheckCel``): this room knows no CEL.
Defaults that the server fills in before it validates (``allocationMode``, ``count``, toleration ``operator``)
are assumed here. ``status`` is not looked at: the server ignores it on create.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from baro.model.validation.causes import Problems
from baro.model.validation.device import EFFECTS, check_taint
from baro.model.validation.metadata import check_metadata, check_template_metadata
from baro.model.validation.names import (
    byte_size,
    check_driver,
    check_pool,
    check_qualified,
    dns_label,
    dns_subdomain,
    extended_resource,
    label_key,
    label_value,
)

CheckCel = Callable[[Problems, str, str], None]
"""``(problems, path, expression)``: adds causes for an expression that does not compile or costs too much."""

MAX_REQUESTS: Final = 32
"""Also the limit of constraints, configs and selectors."""
MAX_FIRST_AVAILABLE: Final = 8
MAX_CEL_BYTES: Final = 10 * 1024
MAX_PARAMETERS_BYTES: Final = 10 * 1024

_UNKNOWN_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_ONE_REQUEST: Final = "exactly one of `exactly` or `firstAvailable` is required"


def check_resource_claim(problems: Problems, body: Mapping[str, Any], cel: CheckCel | None) -> None:
    check_metadata(problems, body.get("metadata", {}), dns_subdomain)
    _check_claim_spec(problems, body.get("spec", {}), "spec", cel)


def check_claim_template(problems: Problems, body: Mapping[str, Any], cel: CheckCel | None) -> None:
    check_metadata(problems, body.get("metadata", {}), dns_subdomain)
    spec = body.get("spec", {})
    check_template_metadata(problems, spec.get("metadata", {}), "spec.metadata")
    _check_claim_spec(problems, spec.get("spec", {}), "spec.spec", cel)


def check_device_class(problems: Problems, body: Mapping[str, Any], cel: CheckCel | None) -> None:
    check_metadata(problems, body.get("metadata", {}), lambda name: dns_subdomain(name, "bytes"))
    spec = body.get("spec", {})
    _check_selectors(problems, spec.get("selectors", ()), "spec.selectors", cel)
    configs = spec.get("config", ())
    if not problems.too_many("spec.config", len(configs), MAX_REQUESTS):
        for index, config in enumerate(configs):
            _check_opaque(problems, config, f"spec.config[{index}]")
    name = spec.get("extendedResourceName")
    if name is not None:
        problems.invalid("spec.extendedResourceName", name, *extended_resource(name))


def check_taint_rule(problems: Problems, body: Mapping[str, Any]) -> None:
    check_metadata(problems, body.get("metadata", {}), dns_subdomain)
    spec = body.get("spec", {})
    selector = spec.get("deviceSelector", {})
    if "driver" in selector:
        check_driver(problems, "spec.deviceSelector.driver", selector["driver"])
    if "pool" in selector:
        check_pool(problems, "spec.deviceSelector.pool", selector["pool"])
    if "device" in selector:
        device = selector["device"]
        problems.invalid("spec.deviceSelector.device", device, *dns_label(device))
    check_taint(problems, spec.get("taint", {}), "spec.taint")


# --- claims ----------------------------------------------------------------------------------------------


def _check_claim_spec(problems: Problems, spec: Mapping[str, Any], path: str, cel: CheckCel | None) -> None:
    devices = spec.get("devices", {})
    path = f"{path}.devices"
    requests, constraints, configs = (devices.get(key, ()) for key in ("requests", "constraints", "config"))
    names = _request_names(requests)
    if not problems.too_many(f"{path}.requests", len(requests), MAX_REQUESTS):
        for index, request in enumerate(requests):
            _check_request(problems, request, f"{path}.requests[{index}]", cel)
        _check_duplicates(problems, requests, f"{path}.requests")
    if not problems.too_many(f"{path}.constraints", len(constraints), MAX_REQUESTS):
        for index, constraint in enumerate(constraints):
            _check_constraint(problems, constraint, f"{path}.constraints[{index}]", names)
    if not problems.too_many(f"{path}.config", len(configs), MAX_REQUESTS):
        for index, config in enumerate(configs):
            place = f"{path}.config[{index}]"
            _check_references(problems, config.get("requests", ()), f"{place}.requests", names)
            _check_opaque(problems, config, place)


def _request_names(requests: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """All names that constraints and configs may use: ``request`` and ``request/subrequest``."""
    found: set[str] = set()
    for request in requests:
        name = request.get("name", "")
        found.add(name)
        found.update(f"{name}/{sub.get('name', '')}" for sub in request.get("firstAvailable", ()))
    return frozenset(found)


def _check_request(problems: Problems, request: Mapping[str, Any], path: str, cel: CheckCel | None) -> None:
    name = request.get("name", "")
    problems.invalid(f"{path}.name", name, *dns_label(name))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable", ())
    if exactly is None and not alternatives:
        problems.required(path, _ONE_REQUEST)
    elif exactly is not None and alternatives:
        problems.invalid(path, None, f"{_ONE_REQUEST}, but multiple fields are set")
    elif exactly is not None:
        _check_exact(problems, exactly, f"{path}.exactly", cel)
    elif not problems.too_many(f"{path}.firstAvailable", len(alternatives), MAX_FIRST_AVAILABLE):
        for index, sub in enumerate(alternatives):
            place = f"{path}.firstAvailable[{index}]"
            problems.invalid(f"{place}.name", sub.get("name", ""), *dns_label(sub.get("name", "")))
            _check_exact(problems, sub, place, cel)
        _check_duplicates(problems, alternatives, f"{path}.firstAvailable")


def _check_duplicates(problems: Problems, items: Sequence[Mapping[str, Any]], path: str) -> None:
    """Items with the name of an earlier one; the server shows the whole item."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        name = item.get("name", "")
        if name in seen:
            problems.duplicate(f"{path}[{index}]", item)
        seen.add(name)


def _check_exact(problems: Problems, request: Mapping[str, Any], path: str, cel: CheckCel | None) -> None:
    class_name = request.get("deviceClassName", "")
    if not class_name:
        problems.required(f"{path}.deviceClassName")
    else:
        problems.invalid(f"{path}.deviceClassName", class_name, *dns_subdomain(class_name))
    _check_selectors(problems, request.get("selectors", ()), f"{path}.selectors", cel)
    mode, count = request.get("allocationMode") or "ExactCount", request.get("count", 0)
    if mode == "All":
        if count != 0:
            text = "must not be specified when allocationMode is 'All'"
            problems.invalid(f"{path}.count", count, text)
    elif mode == "ExactCount":
        if count < 0:  # 0 means not set, which the server defaults to 1.
            problems.invalid(f"{path}.count", count, "must be greater than zero")
    else:
        problems.unsupported(f"{path}.allocationMode", mode, ("All", "ExactCount"))
    # The API documents a limit of 16 tolerations; no server enforces it.
    for index, toleration in enumerate(request.get("tolerations", ())):
        _check_toleration(problems, toleration, f"{path}.tolerations[{index}]")


def _check_selectors(
    problems: Problems, selectors: Sequence[Mapping[str, Any]], path: str, cel: CheckCel | None
) -> None:
    if problems.too_many(path, len(selectors), MAX_REQUESTS):
        return
    for index, selector in enumerate(selectors):
        place = f"{path}[{index}].cel"
        if selector.get("cel") is None:
            problems.required(place)
            continue
        expression = selector["cel"].get("expression", "")
        if byte_size(expression) > MAX_CEL_BYTES:
            problems.too_long(f"{place}.expression", MAX_CEL_BYTES)
        elif cel is not None:
            cel(problems, f"{place}.expression", expression)


def _check_toleration(problems: Problems, toleration: Mapping[str, Any], path: str) -> None:
    key, value, effect = (toleration.get(field, "") for field in ("key", "value", "effect"))
    if key:
        problems.invalid(f"{path}.key", key, *label_key(key))
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        if value:
            problems.invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        problems.invalid(f"{path}.value", value, *label_value(value))
    else:
        problems.unsupported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in EFFECTS:
        problems.unsupported(f"{path}.effect", effect, EFFECTS)


def _check_constraint(
    problems: Problems, constraint: Mapping[str, Any], path: str, names: frozenset[str]
) -> None:
    _check_references(problems, constraint.get("requests", ()), f"{path}.requests", names)
    for field in ("matchAttribute", "distinctAttribute"):
        if field in constraint:
            check_qualified(problems, f"{path}.{field}", constraint[field], fully=True)
            return
    # The words are the server's: it says "multiple" where none is set.
    text = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    problems.required(path, text)


def _check_references(
    problems: Problems, references: Sequence[str], path: str, names: frozenset[str]
) -> None:
    if problems.too_many(path, len(references), MAX_REQUESTS):
        return
    for index, reference in enumerate(references):
        segments = reference.split("/")
        if len(segments) <= 2:
            for segment in segments:
                problems.invalid(f"{path}[{index}]", segment, *dns_label(segment))
        if reference not in names:
            problems.invalid(f"{path}[{index}]", reference, _UNKNOWN_REQUEST)
    for index, reference in enumerate(references):
        if reference in references[:index]:
            problems.duplicate(f"{path}[{index}]", reference)


def _check_opaque(problems: Problems, config: Mapping[str, Any], path: str) -> None:
    opaque = config.get("opaque")
    if opaque is None:
        problems.required(f"{path}.opaque")
        return
    check_driver(problems, f"{path}.opaque.driver", opaque.get("driver", ""), "characters")
    parameters = opaque.get("parameters")
    place = f"{path}.opaque.parameters"
    if parameters is None:
        problems.required(place)
    elif byte_size(json.dumps(parameters, separators=(",", ":"), ensure_ascii=False)) > MAX_PARAMETERS_BYTES:
        problems.too_long(place, MAX_PARAMETERS_BYTES)
    elif not isinstance(parameters, Mapping):
        problems.invalid(place, "<value omitted>", "must be a valid JSON object")
