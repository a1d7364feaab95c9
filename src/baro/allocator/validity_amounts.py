"""The part of the judge that counts: counters, compatibility groups, consumable capacity.

As ``validity``: simple, slow, from API objects, nothing shared with the search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from baro.model.kinds.resource import (
    Device,
    DeviceCapacity,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceSlice,
)
from baro.model.quantity import Quantity

Wanted = ExactDeviceRequest | DeviceSubRequest
Key = tuple[str, str, str]
Results = Iterable[DeviceRequestAllocationResult]


class Place(NamedTuple):
    """A published device and its slice."""

    slice: ResourceSlice
    device: Device

    @property
    def key(self) -> Key:
        return (self.slice.spec.driver, self.slice.spec.pool.name, self.device.name)


class Amounts:
    """``pools`` are the slices of each (driver, pool), ``places`` the devices that may be used, ``held`` what
    claims hold of any device already."""

    def __init__(
        self,
        pools: Mapping[tuple[str, str], Sequence[ResourceSlice]],
        places: Mapping[Key, Place],
        held: Mapping[Key, Sequence[DeviceRequestAllocationResult]],
    ) -> None:
        self.pools = pools
        self.places = places
        self.held = held

    def _joining(self, results: Results) -> dict[Key, int]:
        """How often each device is charged anew: a further share of a device in use is not."""
        found: dict[Key, int] = {}
        for r in results:
            place = self.places[r.driver, r.pool, r.device]
            shared = bool(place.device.allow_multiple_allocations) and r.share_id is not None
            if shared and (place.key in found or any(h.share_id for h in self.held.get(place.key, ()))):
                continue
            found[place.key] = found.get(place.key, 0) + 1
        return found

    def counters(self, results: Results) -> Iterator[str]:
        """Totals of a pool minus everything consumed, a shared device once; checked where we consume."""
        joining = {k: n for k, n in self._joining(results).items() if self.places[k].device.consumes_counters}
        for pool in {key[:2]: key for key in joining}.values():
            left: dict[tuple[str, str], int] = defaultdict(int)
            for item in self.pools[pool[:2]]:
                for counters in item.spec.shared_counters:
                    for name, counter in counters.counters.items():
                        left[counters.name, name] += Quantity.parse(counter.value).scaled
            for device in (d for item in self.pools[pool[:2]] for d in item.spec.devices):
                key = (*pool[:2], device.name)
                times = joining.get(key, 0) + (key in self.held)
                for part in device.consumes_counters:
                    for name, used in part.counters.items():
                        left[part.counter_set, name] -= times * Quantity.parse(used.value).scaled
            if any(value < 0 for value in left.values()):
                yield f"counters of pool {pool[0]}/{pool[1]} are overdrawn"

    def groups(self, results: Results) -> Iterator[str]:
        """Devices of one counter set have a group in common, or none of them has any; checked where a device
        joined, and where those in use before went together."""
        joining = self._joining(results)
        for pool in {key[:2]: key for key in joining}.values():
            members: dict[str, list[frozenset[str]]] = defaultdict(list)
            before: dict[str, list[frozenset[str]]] = defaultdict(list)
            touched: set[str] = set()
            for device in (d for item in self.pools[pool[:2]] for d in item.spec.devices):
                key = (*pool[:2], device.name)
                for part in device.consumes_counters if key in joining or key in self.held else ():
                    members[part.counter_set].append(frozenset(part.compatibility_groups))
                    if key in joining:
                        touched.add(part.counter_set)
                    if key in self.held:
                        before[part.counter_set].append(frozenset(part.compatibility_groups))
            for name in touched:
                if _go_together(before[name]) and not _go_together(members[name]):
                    yield f"devices of counter set {name} of pool {pool[0]}/{pool[1]} have no group in common"

    def capacity(self, results: Results) -> Iterator[str]:
        """No device gives more of a capacity than it has."""
        used: dict[Key, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        ours = [r for r in results if r.share_id is not None]
        others = [h for held in self.held.values() for h in held if h.share_id is not None]
        for r in (*ours, *others):
            for name, raw in r.consumed_capacity.items():
                full = full_name(name, r.driver)
                used[r.driver, r.pool, r.device][full] += Quantity.parse(raw).scaled
        for r in ours:
            place = self.places[r.driver, r.pool, r.device]
            for full, capacity in by_full_name(place.device.capacity, r.driver).items():
                if used[place.key][full] > Quantity.parse(capacity.value).scaled:
                    yield f"{name_of(r)}: more {full} handed out than there is"


def could_hold(wanted: Wanted, place: Place) -> bool:
    """Whether an unused device has what is asked for, and may give what is not asked for by default."""
    driver = place.slice.spec.driver
    asked = by_full_name(wanted.capacity.requests if wanted.capacity else {}, driver)
    return all(
        _can_give(capacity, asked.get(full))
        for full, capacity in by_full_name(place.device.capacity, driver).items()
    )


def _can_give(capacity: DeviceCapacity, asked: Any) -> bool:
    """Some amount that the policy allows is at least what is asked for and at most what there is."""
    policy = capacity.request_policy
    if policy is None:
        return asked is None or Quantity.parse(asked) <= Quantity.parse(capacity.value)
    default = None if policy.default is None else Quantity.parse(policy.default)
    valid = policy.valid_range
    if asked is None:
        whole = Quantity.parse(capacity.value)
        above = valid is not None and valid.max is not None and whole > Quantity.parse(valid.max)
        choices = [Quantity.parse(raw) for raw in policy.valid_values] if valid is None else []
        foreign = bool(choices) and whole not in choices
        return default <= whole if default is not None else not (above or foreign)
    need = Quantity.parse(asked)
    amount = need
    if valid is not None and valid.min is not None:
        low = Quantity.parse(valid.min)
        amount = max(low, need)
        if valid.step is not None and need > low:
            step = Quantity.parse(valid.step).scaled
            amount = Quantity.from_scaled(low.scaled - (low.scaled - need.scaled) // step * step)
        if amount != default and valid.max is not None and amount > Quantity.parse(valid.max):
            return False
    elif policy.valid_values:
        choices = [c for c in map(Quantity.parse, policy.valid_values) if c >= need]
        if not choices and need != default:
            return False
        amount = min(choices, default=need)
    return amount <= Quantity.parse(capacity.value)


def full_name(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def by_full_name(values: dict[str, Any], driver: str) -> dict[str, Any]:
    return {full_name(name, driver): value for name, value in values.items()}


def name_of(result: DeviceRequestAllocationResult) -> str:
    return f"{result.driver}/{result.pool}/{result.device}"


def _go_together(devices: list[frozenset[str]]) -> bool:
    """Whether devices of one counter set with these groups may be in use at the same time."""
    some = [groups for groups in devices if groups]
    return not some or (len(some) == len(devices) and bool(frozenset.intersection(*some)))
