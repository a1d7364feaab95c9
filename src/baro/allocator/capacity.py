"""Consumable capacity: how much of a device's capacities a request takes.

Source: ``structured/internal/incubating/consumable_capacity.go`` (KEP-5075), v0.37.2. Amounts are exact
(``Quantity``), so nothing overflows; what upstream's int64 arithmetic refuses is refused in its words.
"""

from __future__ import annotations

from collections.abc import Mapping

from baro.model.kinds.base import RawQuantity
from baro.model.kinds.resource import CapacityRequestPolicy, CapacityRequestPolicyRange
from baro.model.quantity import Quantity

NANO = 10**9
_MILLI = NANO // 1000
_MOST = 2**63 - 1
_UNREPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"
_NEGATIVE = "capacity value is negative"

Policies = Mapping[str, tuple[RawQuantity, CapacityRequestPolicy | None]]
"""Capacity → its value on the device, and its policy."""


class CapacityError(ValueError):
    """An amount that upstream refuses for the pod as a whole rather than passing the device over."""


def scaled(raw: RawQuantity) -> int:
    """A quantity on the wire in units of 10^-9."""
    return Quantity.parse(raw).scaled


def amounts(
    capacities: Policies, requested: Mapping[str, RawQuantity], *, exact: bool, strict_default: bool = False
) -> dict[str, Quantity] | None:
    """What a request takes of each capacity of a device, or ``None`` when it cannot have it.

    A requested capacity that the device does not have rules the device out. ``exact`` is the gate
    DRAFractionalCapacityRange; ``strict_default``: see ``Features.compatibility``. Raises ``CapacityError``.
    """
    if any(name not in capacities for name in requested):
        return None
    taken = {name: _resolved(name, *capacities[name], requested.get(name), exact) for name in capacities}
    for name, (_, policy) in capacities.items():
        if policy is not None and _violates(taken[name], policy, exact, strict_default):
            return None
    return taken


def _resolved(
    name: str,
    value: RawQuantity,
    policy: CapacityRequestPolicy | None,
    requested: RawQuantity | None,
    exact: bool,
) -> Quantity:
    try:
        found = _consumed(value, policy, requested, exact)
        if found.scaled < 0:
            raise CapacityError(_NEGATIVE)
    except CapacityError as error:
        raise CapacityError(f'capacity "{name}": {error}') from None
    return found


def _consumed(
    value: RawQuantity, policy: CapacityRequestPolicy | None, requested: RawQuantity | None, exact: bool
) -> Quantity:
    """Not requested: the policy's default, or everything. Requested: rounded up as the policy says."""
    if requested is None:
        return Quantity.parse(value if policy is None or policy.default is None else policy.default)
    wanted = Quantity.parse(requested)
    if policy is None:
        return wanted
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_up(wanted, policy.valid_range, exact)
    choices = map(Quantity.parse, policy.valid_values)
    return next((choice for choice in choices if wanted <= choice), wanted)


def _rounded_up(wanted: Quantity, valid: CapacityRequestPolicyRange, exact: bool) -> Quantity:
    low = Quantity.parse(valid.min or "0")
    if wanted < low:
        return low
    if valid.step is None:
        return wanted
    step = Quantity.parse(valid.step)
    unit = _unit(valid, exact)
    if unit == _MILLI and wanted.scaled % _MILLI:
        raise CapacityError(f"{_UNREPRESENTABLE}: request {wanted} is not a representable milli value")
    if unit == NANO and wanted.scaled > _MOST * NANO:
        raise CapacityError(f"{_UNREPRESENTABLE}: request {wanted} exceeds MaxInt64")
    base, size = _up(low.scaled, unit), max(_up(step.scaled, unit), 1)
    found = base + _up(_up(wanted.scaled, unit) - base, size) * size
    if found > _MOST and (unit == _MILLI or base >= 0):
        limit = "the milli-value range" if unit == _MILLI else "MaxInt64"
        text = f"rounding request {wanted} up to the next step passes {limit}"
        raise CapacityError(f"{_UNREPRESENTABLE}: {text}")
    return Quantity.from_scaled(found * unit, step.format)


def _violates(taken: Quantity, policy: CapacityRequestPolicy, exact: bool, strict_default: bool) -> bool:
    if policy.default is not None:
        default = Quantity.parse(policy.default)
        if _alike(taken, default) if strict_default else taken == default:
            return False
    valid = policy.valid_range
    if valid is None:
        return bool(policy.valid_values) and all(
            taken != Quantity.parse(choice) for choice in policy.valid_values
        )
    if valid.max is not None and taken > Quantity.parse(valid.max):
        return True
    if valid.step is None:
        return False
    unit = _unit(valid, exact)
    if unit == _MILLI and taken.scaled % _MILLI:
        return True
    base = _up(scaled(valid.min or "0"), unit)
    return (_up(taken.scaled, unit) - base) % max(_up(scaled(valid.step), unit), 1) != 0


def _alike(one: Quantity, other: Quantity) -> bool:
    """Upstream compares the structures: the same number in another spelling is another one."""
    return (
        one.small and other.small and one == other
        and (one.format, one.exponent, one.text) == (other.format, other.exponent, other.text)
    )  # fmt: skip


def _unit(valid: CapacityRequestPolicyRange, exact: bool) -> int:
    """Steps are counted in thousandths where the gate is on and all of the range is whole in them."""
    if not exact:
        return NANO
    given = [Quantity.parse(raw) for raw in (valid.min, valid.max, valid.step) if raw is not None]
    whole = all(item.scaled % _MILLI == 0 for item in given)
    return _MILLI if whole and (valid.step is None or scaled(valid.step) >= _MILLI) else NANO


def _up(number: int, unit: int) -> int:
    return -(-number // unit)
