"""Consumable capacity: how much of a device's capacities a request takes.

Source: ``structured/internal/incubating/consumable_capacity.go`` (KEP-5075). Amounts are exact integers in
units of 10^-9 (``Quantity.scaled``).
"""

from __future__ import annotations

from collections.abc import Mapping

from baro.model.kinds.base import RawQuantity
from baro.model.kinds.resource import CapacityRequestPolicy, CapacityRequestPolicyRange
from baro.model.quantity import Quantity

NANO = 10**9


def scaled(raw: RawQuantity) -> int:
    """A quantity on the wire in units of 10^-9."""
    return Quantity.parse(raw).scaled


def amount(
    value: RawQuantity, policy: CapacityRequestPolicy | None, requested: RawQuantity | None, *, exact: bool
) -> int | None:
    """What one request takes of one capacity, or ``None`` when the policy forbids it.

    Not requested: the policy's default, or everything when there is no policy. ``exact`` (the gate
    DRAFractionalCapacityRange) computes steps in milli units, otherwise in whole units rounded up.
    """
    if policy is None:
        return scaled(value if requested is None else requested)
    if requested is None:
        return scaled(value) if policy.default is None else scaled(policy.default)
    wanted = scaled(requested)
    if policy.valid_range is not None:
        return _in_range(wanted, policy, policy.valid_range, exact)
    if policy.valid_values:
        for choice in sorted(scaled(item) for item in policy.valid_values):
            if choice >= wanted:
                return choice
        return wanted if policy.default is not None and wanted == scaled(policy.default) else None
    return wanted


def _in_range(
    wanted: int, policy: CapacityRequestPolicy, valid: CapacityRequestPolicyRange, exact: bool
) -> int | None:
    low = 0 if valid.min is None else scaled(valid.min)
    if wanted < low:
        wanted = low
    elif valid.step is not None:
        unit = NANO // 1000 if exact else NANO
        base, step = _ceil(low, unit), max(_ceil(scaled(valid.step), unit), 1)
        steps = _ceil(_ceil(wanted, unit) - base, step)
        wanted = (base + steps * step) * unit
    if policy.default is not None and wanted == scaled(policy.default):
        return wanted
    if valid.max is not None and wanted > scaled(valid.max):
        return None
    return wanted


def _ceil(number: int, unit: int) -> int:
    return -(-number // unit)


def amounts(
    capacities: Mapping[str, tuple[RawQuantity, CapacityRequestPolicy | None]],
    requested: Mapping[str, RawQuantity],
    *,
    exact: bool,
) -> dict[str, int] | None:
    """What a request takes of each capacity of a device, or ``None`` when it cannot have it.

    A requested capacity that the device does not have rules the device out.
    """
    if any(name not in capacities for name in requested):
        return None
    taken: dict[str, int] = {}
    for name, (value, policy) in capacities.items():
        need = amount(value, policy, requested.get(name), exact=exact)
        if need is None:
            return None
        taken[name] = need
    return taken
