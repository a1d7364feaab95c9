"""Memory thresholds that nobody reaches, or that a card just misses: GB against GiB.

Vendors count gigabytes (10^9) and drivers report what is left for users: an "80 GB" H100 has 81559Mi, less
than 80Gi, and a "10 GB" MIG device 9984Mi.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from baro.cel import DeviceView, Program
from baro.diagnosis.catalogue import Catalogue
from baro.diagnosis.lint import reads
from baro.diagnosis.lint.found import Found
from baro.diagnosis.lint.reads import ConstantCall
from baro.diagnosis.lint.trials import matches, product_of
from baro.model.quantity import Quantity, QuantityError

_MEBI: Final = 1024**2
NEAR: Final = 1.08
"""A threshold up to this factor above what a card reports was meant for that card (GB against GiB: 7 %)."""
"""One MiB above is "more than this card has", which somebody may well mean."""
_FAR_ABOVE: Final = Quantity.parse("1Ei")


class _Miss(msgspec.Struct, frozen=True):
    """A device that would match if it had ``want_mib`` of memory; it has ``have_mib``."""

    product: str
    want_mib: int
    have_mib: int


def unreachable(text: str, program: Program, scope: Catalogue) -> Iterator[Found]:
    """A memory threshold that a device just misses (80Gi on one that reports 81559Mi), or that all miss."""
    if program.columns is None:
        return
    domains = {ref.domain for ref in program.columns if ref.kind == "capacity" and ref.name == "memory"}
    if len(domains) != 1:
        return
    (domain,) = domains
    devices = scope.devices
    matched = any(matches(program, device) for device in devices)
    misses = [miss for device in devices if (miss := _miss(program, device, domain)) is not None]
    near = [miss for miss in misses if miss.have_mib + 1 < miss.want_mib <= miss.have_mib * NEAR]
    if not near and (matched or not misses):
        return
    miss = min(near or misses, key=lambda item: (item.want_mib - item.have_mib, item.product))
    want = _shown(miss.want_mib)
    constant = next((c for c in reads.of(program.tree).constants if _is_amount(c, miss.want_mib)), None)
    start, end = (constant.start, constant.end) if constant else (0, len(text))
    message = f"{miss.product} reports {miss.have_mib}Mi of memory, which is less than the {want} asked for"
    if not near:
        yield Found("capacity-threshold-unreachable", f"no device reaches it: {message}", start, end)
        return
    fits = f"{miss.have_mib // 1024}Gi"
    larger = _larger(program, devices, domain, miss)
    message = f"{message}; ask for {fits}{larger}"
    new = f"{text[start]}{fits}{text[start]}" if constant else None
    yield Found("capacity-threshold-unreachable", message, start, end, new)


def _is_amount(constant: ConstantCall, mib: int) -> bool:
    """Whether it is the threshold: ``mib`` is what it comes to in whole MiB, rounded up."""
    try:
        bytes_ = Quantity.parse(constant.value).value()
    except QuantityError:
        return False
    return constant.function == "quantity" and -(-bytes_ // _MEBI) == mib


def _shown(mib: int) -> str:
    return f"{mib // 1024}Gi" if mib % 1024 == 0 else f"{mib}Mi"


def _larger(program: Program, devices: tuple[DeviceView, ...], domain: str, miss: _Miss) -> str:
    """For a MIG device: which larger one is taken instead."""
    if not re.fullmatch(r"\dg\.\w+.*", miss.product):
        return ""
    taken = [
        (memory.value(), profile)
        for device in devices
        if matches(program, device)
        and (memory := device.capacity.get(domain, {}).get("memory")) is not None
        and (profile := _profile(device)) is not None
    ]
    return f" (the next larger, {min(taken)[1]}, would be taken instead)" if taken else ""


def _profile(device: DeviceView) -> str | None:
    return next((str(names["profile"]) for names in device.attributes.values() if "profile" in names), None)


def _miss(program: Program, device: DeviceView, domain: str) -> _Miss | None:
    """What memory would make the device match; ``None`` when it matches, or memory is not what it lacks."""
    have = device.capacity.get(domain, {}).get("memory")
    if have is None or matches(program, device):
        return None
    if not matches(program, _with_memory(device, domain, _FAR_ABOVE)):
        return None
    have_mib = have.value() // _MEBI
    return _Miss(product_of(device), _threshold(program, device, domain, have_mib), have_mib)


def _with_memory(device: DeviceView, domain: str, memory: Quantity) -> DeviceView:
    capacity = {**device.capacity, domain: {**device.capacity.get(domain, {}), "memory": memory}}
    return DeviceView(
        driver=device.driver,
        attributes=device.attributes,
        capacity=capacity,
        allow_multiple_allocations=device.allow_multiple_allocations,
    )


def _threshold(program: Program, device: DeviceView, domain: str, low: int) -> int:
    """The least memory in MiB with which the device would match (bisection; ``low`` does not match)."""
    high = max(low * 2, 1)
    while not matches(program, _with_memory(device, domain, Quantity.parse(f"{high}Mi"))):
        high *= 2
        if high > 2**40:
            return high
    while high - low > 1:
        middle = (low + high) // 2
        if matches(program, _with_memory(device, domain, Quantity.parse(f"{middle}Mi"))):
            high = middle
        else:
            low = middle
    return high
