"""Rules for the status of a ResourceClaim: allocation, consumers, and what drivers report about devices.

Source: ``ValidateResourceClaimStatusUpdate`` and the declared rules of Kubernetes 1.37.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from baro.model.gotext import go_quote
from baro.model.validation.causes import Problems
from baro.model.validation.claim_spec import (
    RequestNames,
    check_opaque,
    check_raw,
    check_references,
    check_toleration,
)
from baro.model.validation.conditions import check_conditions
from baro.model.validation.device import check_binding
from baro.model.validation.goview import internal, same
from baro.model.validation.metadata import check_node_selector
from baro.model.validation.names import (
    byte_size,
    check_driver,
    check_driver_declared,
    check_pool,
    check_pool_declared,
    dns_label,
    is_uuid,
)
from baro.model.validation.prepare import identity
from baro.model.validation.resource_claim import Labels, check_admin_results

MAX_CONSUMERS: Final = 256
MAX_RESULTS: Final = 32
MAX_RESULT_CONFIGS: Final = 64
MAX_DEVICE_CONDITIONS: Final = 8
MAX_IPS: Final = 16
MAX_INTERFACE_BYTES: Final = 256
MAX_HARDWARE_BYTES: Final = 128
SKIPPABLE: Final = ("*", "NodePrepareResources", "NodeUnprepareResources")

_SHARED_ID: Final = ("Driver", "Pool", "Device", "ShareID")
UNPRINTABLE: Final[Mapping[str, Any]] = {name: {} for name in _SHARED_ID}
"""The key of a device status as 1.34 prints it."""
_SOURCES: Final = ("FromClaim", "FromClass")


def check_claim_status(
    problems: Problems, new: Mapping[str, Any], old: Mapping[str, Any], namespace: Labels | None = None
) -> None:
    """The status of ``new``, which replaces that of ``old``; both with the same spec."""
    status, before = new.get("status", {}), old.get("status", {})
    allocation, allocated = status.get("allocation"), before.get("allocation")
    results = (allocation or {}).get("devices", {}).get("results", ())
    earlier = (allocated or {}).get("devices", {}).get("results", ())
    if not any(result.get("adminAccess") for result in earlier):
        check_admin_results(problems, results, namespace)
    allocating = Problems(problems.rules)
    _check_change(allocating, new, allocation, allocated)
    if problems.rules.declarative:  # by hand the allocation comes last, declared it comes first
        problems.declared.absorb(allocating.declared.causes)
    for field in ("reservedFor", "devices"):
        kept = same({field: status.get(field, [])}, {field: before.get(field, [])}, "ResourceClaimStatus")
        found = problems.unchanged(when=kept)
        if field == "reservedFor":
            _check_consumers(found, status.get(field, ()))
        else:
            _check_devices(found, status.get(field, ()), results)
        problems.take(found)
    _check_reservation(problems, new, before)
    problems.absorb(allocating.by_hand)


def _check_change(
    problems: Problems,
    new: Mapping[str, Any],
    allocation: Mapping[str, Any] | None,
    allocated: Mapping[str, Any] | None,
) -> None:
    """A new allocation must be right; one that is there may only go."""
    if allocation is None:
        return
    if allocated is None:
        names = RequestNames(new.get("spec", {}).get("devices", {}).get("requests", ()))
        _check_allocation(problems, allocation, names)
    elif _has_fraction(allocation) or not same(allocation, allocated, "AllocationResult"):
        if problems.rules.declarative:
            problems.declared.invalid("status.allocation", None, "field cannot be modified once set")
        else:
            shown = internal(
                allocation, "resource.k8s.io/v1", "AllocationResult", problems.rules.kube_version
            )
            problems.invalid("status.allocation", shown, "field is immutable")


def _has_fraction(allocation: Mapping[str, Any]) -> bool:
    """Whether its time is no whole second. That is never stored, so it is never the one that is there."""
    return re.search(r"[.,]0*[1-9]", allocation.get("allocationTimestamp") or "") is not None


# --- consumers -------------------------------------------------------------------------------------------


def _check_consumers(problems: Problems, consumers: Sequence[Mapping[str, Any]]) -> None:
    path = "status.reservedFor"
    if problems.declared.too_many(path, len(consumers), MAX_CONSUMERS):
        return
    for index, consumer in enumerate(consumers):
        for field in ("resource", "name", "uid"):
            if not consumer.get(field):
                problems.required(f"{path}[{index}].{field}")
    type_name = "ResourceClaimConsumerReference"
    problems.duplicate_items(consumers, path, type_name, lambda consumer: consumer.get("uid", ""))


def _check_reservation(problems: Problems, new: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    consumers = new.get("status", {}).get("reservedFor", ())
    if not consumers:
        return
    if new["status"].get("allocation") is None:
        problems.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif new.get("metadata", {}).get("deletionTimestamp"):
        earlier = before.get("reservedFor", ())
        if any(consumer not in earlier for consumer in consumers):
            text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            problems.forbidden("status.reservedFor", text)


# --- allocation ------------------------------------------------------------------------------------------


def _check_allocation(problems: Problems, allocation: Mapping[str, Any], names: RequestNames) -> None:
    devices, path = allocation.get("devices", {}), "status.allocation.devices"
    results, configs = devices.get("results", ()), devices.get("config", ())
    if not problems.declared.too_many(f"{path}.results", len(results), MAX_RESULTS):
        for index, result in enumerate(results):
            _check_result(problems, result, f"{path}.results[{index}]", names)
    if not problems.declared.too_many(f"{path}.config", len(configs), MAX_RESULT_CONFIGS):
        for index, config in enumerate(configs):
            _check_config(problems, config, f"{path}.config[{index}]", names)
    if allocation.get("nodeSelector") is not None:
        check_node_selector(problems, allocation["nodeSelector"], "status.allocation.nodeSelector")


def _check_result(problems: Problems, result: Mapping[str, Any], path: str, names: RequestNames) -> None:
    names.check(problems, result.get("request", ""), f"{path}.request")
    check_driver_declared(problems, f"{path}.driver", result.get("driver", ""))
    check_pool_declared(problems, f"{path}.pool", result.get("pool", ""))
    device = result.get("device", "")
    problems.invalid(f"{path}.device", device, *dns_label(device))
    check_binding(problems, result, path)
    # Older servers take them as they are: the scheduler copies them.
    for index, toleration in enumerate(result.get("tolerations", ()) if problems.rules.newest else ()):
        check_toleration(problems, toleration, f"{path}.tolerations[{index}]")
    check_share(problems, result.get("shareID"), f"{path}.shareID")
    check_skipped_operations(problems, result.get("skipNodeOperations", ()), f"{path}.skipNodeOperations")


def _check_config(problems: Problems, config: Mapping[str, Any], path: str, names: RequestNames) -> None:
    source = config.get("source", "")
    if not source:
        problems.declared.required(f"{path}.source")
    elif source not in _SOURCES:
        problems.declared.unsupported(f"{path}.source", source, _SOURCES)
    check_references(problems, config.get("requests", ()), f"{path}.requests", names)
    check_opaque(problems, config, path)


def check_share(problems: Problems, share: str | None, path: str) -> None:
    """A share is named by a UUID in lower case."""
    if share is None or is_uuid(share):
        return
    if problems.rules.declarative:
        problems.declared.invalid(path, share, "must be a lowercase UUID in 8-4-4-4-12 format")
        return
    wrong = _uuid_error(share)
    if wrong is None:
        text = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
            "hexadecimal characters"
        )
    else:
        text = f"error validating uid: {wrong}"
    problems.invalid(path, share, text)


def _uuid_error(text: str) -> str | None:
    """What Google's library has against a UUID in one of the four forms that it knows."""
    size = byte_size(text)
    if size == 45:
        if text[:9].lower() != "urn:uuid:":
            return f"invalid urn prefix: {go_quote(text[:9])}"
        text = text[9:]
    elif size == 38:
        if not (text.startswith("{") and text.endswith("}")):
            return "invalid bracketed UUID format"
        text = text[1:-1]
    elif size not in (32, 36):
        return f"invalid UUID length: {size}"
    right = re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32}", text)
    return None if right else "invalid UUID format"


def check_skipped_operations(
    problems: Problems, operations: Sequence[str], path: str, *, unchanged: bool = False
) -> None:
    """Preparation may only be skipped together with unpreparation; ``unchanged`` names may be anything."""
    given = set(operations)
    if "NodePrepareResources" in given and not given & {"NodeUnprepareResources", "*"}:
        text = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
        problems.invalid(path, list(operations), text)
    if unchanged or not problems.rules.declarative:
        return
    for index, operation in enumerate(operations):
        if operation in operations[:index]:
            problems.declared.duplicate(f"{path}[{index}]", operation)
    for index, operation in enumerate(operations):
        if operation not in SKIPPABLE:
            problems.declared.unsupported(f"{path}[{index}]", operation, SKIPPABLE)


# --- device status ---------------------------------------------------------------------------------------


def _check_devices(
    problems: Problems, devices: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]
) -> None:
    allocated = {identity(result) for result in results}
    listed = (devices, "status.devices", "AllocatedDeviceStatus", _shared_id)
    if problems.rules.declarative:  # declared rules look at the list first, then at its items
        problems.duplicate_items(*listed)
    for index, device in enumerate(devices):
        _check_device(problems, device, f"status.devices[{index}]", allocated)
    if not problems.rules.declarative:
        problems.duplicate_items(*listed)


def _shared_id(device: Mapping[str, Any]) -> dict[str, str]:
    """The key of a device status."""
    return dict(zip(_SHARED_ID, identity(device), strict=True))


def _check_device(
    problems: Problems, device: Mapping[str, Any], path: str, allocated: set[tuple[str, str, str, str]]
) -> None:
    check_driver(problems, f"{path}.driver", device.get("driver", ""))
    check_pool(problems, f"{path}.pool", device.get("pool", ""))
    name = device.get("device", "")
    problems.invalid(f"{path}.device", name, *dns_label(name))
    check_share(problems, device.get("shareID"), f"{path}.shareID")
    if identity(device) not in allocated:
        shown = _shared_id(device) if problems.rules.since("1.35") else UNPRINTABLE
        problems.invalid(path, shown, "must be an allocated device in the claim")
    conditions = device.get("conditions", ())
    problems.too_many(f"{path}.conditions", len(conditions), MAX_DEVICE_CONDITIONS)
    check_conditions(problems, conditions, f"{path}.conditions")
    if device.get("data") is not None:
        check_raw(problems, device["data"], f"{path}.data")
    _check_network(problems, device.get("networkData", {}), f"{path}.networkData")


def _check_network(problems: Problems, network: Mapping[str, Any], path: str) -> None:
    _check_length(problems, network, path, "interfaceName", MAX_INTERFACE_BYTES)
    declared_order = problems.rules.declarative  # that of the fields, which was not the order by hand
    if not declared_order:
        _check_length(problems, network, path, "hardwareAddress", MAX_HARDWARE_BYTES)
    addresses = network.get("ips", ())
    if not problems.declared.too_many(f"{path}.ips", len(addresses), MAX_IPS):
        for index, address in enumerate(addresses):
            _check_address(problems, address, f"{path}.ips[{index}]")
        for index, address in enumerate(addresses):
            if address in addresses[:index]:
                problems.declared.duplicate(f"{path}.ips[{index}]", address)
    if declared_order:
        _check_length(problems, network, path, "hardwareAddress", MAX_HARDWARE_BYTES)


def _check_length(problems: Problems, network: Mapping[str, Any], path: str, field: str, limit: int) -> None:
    if byte_size(network.get(field, "")) > limit:
        problems.declared.too_long(f"{path}.{field}", limit)


def _check_address(problems: Problems, address: str, path: str) -> None:
    """An address with its prefix, in the one form that Go prints."""
    canonical = _canonical(address)
    if canonical is None:
        text = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        problems.invalid(path, address, text)
    elif canonical != address:
        problems.invalid(path, address, f'must be in canonical form ("{canonical}")')


def _canonical(address: str) -> str | None:
    """``address`` as Go prints it, None when it is none; leading zeros pass, as they do in Go."""
    host, slash, bits = address.partition("/")
    if not slash or not re.fullmatch(r"\d{1,6}", bits, re.ASCII):
        return None
    plain = re.sub(r"(?<![0-9a-fA-F:.])0+(?=\d+\.)|(?<=\.)0+(?=\d)", "", host) if "." in host else host
    try:
        found = ipaddress.ip_address(plain)
    except ValueError:
        return None
    size = int(bits)
    if size > found.max_prefixlen or "%" in host:
        return None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        # Go prints the IPv4 address and counts the prefix from there, when it reaches that far.
        return f"{found.ipv4_mapped}/{size - 96 if size > 32 else size}"
    return f"{found}/{size}"
