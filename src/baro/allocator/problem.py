"""One node as the search sees it: a ``NodeFrame``, what is in use, and what is left of counters and capacity.

Everything that does not change during the search is worked out here or in the frame.
"""

from __future__ import annotations

from collections.abc import Mapping

from baro.allocator.capacity import scaled
from baro.allocator.constraints import ConstraintData
from baro.allocator.features import Features
from baro.allocator.frame import (
    CounterName,
    Failure,
    bits,
    consumption,
    frame_of,
)
from baro.allocator.groups import NOBODY, Group, joined
from baro.allocator.plan import Alternative, Constraint, Plan
from baro.allocator.selectors import SelectorEngine
from baro.inventory import DeviceExtra, DeviceKey, Inventory, NodePool
from baro.inventory.columns import TypedValue
from baro.model.quantity import Quantity

__all__ = ["CounterName", "Fatal", "NodeProblem", "bits"]

_NO_KEY_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


class Fatal(Exception):  # noqa: N818 - an answer, not a defect
    """Upstream's error. ``on_node`` is true when only this node is concerned."""

    def __init__(self, message: str, *, on_node: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.on_node = on_node


class NodeProblem:
    """Devices of a node under their local numbers 0 … n-1, in upstream's order of trial."""

    def __init__(
        self,
        inventory: Inventory,
        node: str,
        plan: Plan,
        features: Features,
        selectors: SelectorEngine,
    ) -> None:
        frame = frame_of(inventory, node, features)
        if frame.error is not None:
            raise Fatal(frame.error)
        frame.use_engine(selectors)
        self.frame = frame
        self.inventory = inventory
        self.node = node
        self.plan = plan
        self.features = features
        self.shared_before = 0
        """Mask of devices of which others hold shares."""
        self.consumed_before: dict[int, dict[str, int]] = {}
        self.free = (1 << frame.size) - 1
        """Mask of devices that nobody holds wholly."""
        self._find_use()

    # --- the frame's --------------------------------------------------------------------------------------

    @property
    def pools(self) -> tuple[NodePool, ...]:
        return self.frame.pools

    @property
    def rows(self) -> list[int]:
        return self.frame.rows

    @property
    def keys(self) -> list[DeviceKey]:
        return self.frame.keys

    @property
    def rare(self) -> list[DeviceExtra]:
        return self.frame.rare

    @property
    def size(self) -> int:
        return self.frame.size

    @property
    def usable(self) -> int:
        """Mask of devices whose pool may be used."""
        return self.frame.usable

    @property
    def shareable(self) -> int:
        return self.frame.shareable

    @property
    def invalid_pools(self) -> bool:
        return self.frame.invalid_pools

    # --- use ----------------------------------------------------------------------------------------------

    def _find_use(self) -> None:
        holders = self.inventory.usage.holders
        sharing = self.features.consumable_capacity
        for device, key in enumerate(self.frame.keys):
            shares = holders.get(key)
            if shares is None:
                continue
            for share in shares:
                if share.share_id is None or not sharing:
                    self.free &= ~(1 << device)
                    continue
                self.shared_before |= 1 << device
                sums = self.consumed_before.setdefault(device, {})
                for name, raw in share.consumed.items():
                    full = "/".join(self.inventory.table.qualified(key.driver, name))
                    sums[full] = sums.get(full, 0) + scaled(raw)
        if not self.features.compatibility:
            # What was shared and is now published as dedicated stays in use until all shares are gone.
            self.free &= ~(self.shared_before & ~self.shareable)

    def attribute(self, device: int, name: str) -> TypedValue | None:
        """A value under a name as constraints write it."""
        return self.frame.attribute(device, name)

    def constraint(self, constraint: Constraint) -> tuple[ConstraintData, ...]:
        """The constraint's values on all devices, per view."""
        return self.frame.constraint(constraint)

    # --- selection ----------------------------------------------------------------------------------------

    def verdict(self, alternative: Alternative, device: int) -> bool | str:
        """Whether class and request select a device; upstream's error text if that cannot be told."""
        found = self.frame.answer(alternative.expressions, device)
        return found if isinstance(found, bool) else self._text(alternative, found)

    def failure(self, alternative: Alternative, device: int) -> str:
        """Upstream's error text for a device of the second mask of ``candidates``."""
        found = self.frame.eligible(alternative).failures[device]
        return self._text(alternative, found)

    def _text(self, alternative: Alternative, failure: Failure) -> str:
        if failure.place >= 0:
            hint = _NO_KEY_HINT if "no such key:" in failure.text and _NO_KEY_HINT not in failure.text else ""
            hint = hint if "CEL runtime error" in failure.text else ""
            return f"{alternative.selectors[failure.place].place}{failure.text}{hint}"
        if failure.text.startswith(" "):
            return f"{self.who(alternative)}: checking capacity for device{failure.text}"
        return failure.text

    def who(self, alternative: Alternative) -> str:
        """``claim ns/name, request r`` as errors begin."""
        claim = next(c for c, _, item in self.plan.alternatives() if item.id == alternative.id)
        return f"claim {self.plan.claims[claim].name}, request {alternative.own_name}"

    def candidates(self, alternative: Alternative) -> tuple[int, int]:
        """(devices that it may take as far as that does not depend on other choices, devices with errors)."""
        found = self.frame.eligible(alternative)
        if alternative.admin:
            fit, errors = found.fit, found.errors
        else:
            fit, errors = found.fit & self.free, found.errors & self.free
        for device in bits(fit & self.shared_before) if self.shared_before else ():
            if not self.has_capacity(alternative, device):
                fit &= ~(1 << device)
        return fit, errors

    # --- capacity -----------------------------------------------------------------------------------------

    def amounts(self, alternative: Alternative, device: int) -> dict[str, Quantity] | None:
        """What the alternative takes of each capacity, or ``None`` when it cannot have the device."""
        return self.frame.amounts(alternative, device)

    def has_capacity(
        self, alternative: Alternative, device: int, in_flight: Mapping[str, int] | None = None
    ) -> bool:
        """Whether what it takes fits beside what others hold and what this search already gave away."""
        if not self.features.consumable_capacity:
            return True
        taken = self.frame.amounts(alternative, device)
        if taken is None:
            return False
        before = self.consumed_before.get(device, {})
        for name, (value, _) in self.frame.capacities(device).items():
            used = before.get(name, 0) + (in_flight.get(name, 0) if in_flight else 0)
            if used + taken[name].scaled > scaled(value):
                return False
        return True

    # --- counters and groups --------------------------------------------------------------------------------

    def counters(self, pool: int) -> dict[CounterName, int]:
        """What is left of a pool's counters, from all its slices and all devices in use (§2.8)."""
        left = dict(self.frame.totals(pool))
        for extra in self._holders(self.pools[pool]):
            for name, amount in consumption(extra).items():
                if name in left:
                    left[name] -= amount
        return left

    def groups(self, pool: int) -> dict[str, Group]:
        """Per counter set what its holders leave of compatibility groups."""
        found: dict[str, Group] = {}
        for extra in self._holders(self.pools[pool]):
            for part in extra.consumes_counters:
                before = found.get(part.counter_set, NOBODY)
                found[part.counter_set] = joined(before, part.compatibility_groups)
        return found

    def _holders(self, pool: NodePool) -> list[DeviceExtra]:
        """What is rare about the devices of a pool that are in use."""
        table, holders = self.inventory.table, self.inventory.usage.holders
        found = [
            table.rare(row)
            for record in pool.counter_slices
            for row in record.rows
            if row in table.extras
            and DeviceKey(record.driver, record.pool, table.device_name(row)) in holders
        ]
        if not self.features.compatibility:
            found += [extra for _, extra in self.inventory.kept_consumption((pool.driver, pool.name))]
        return found

    def all_devices(self, alternative: Alternative) -> list[int]:
        """What mode All must take. Raises ``Fatal``: every error counts, and pools must be whole."""
        who = f"{self.who(alternative)}: asks for all devices, but resource pool"
        on_node = self.features.all_on_incomplete_is_on_node
        found: list[int] = []
        eligible = self.frame.eligible(alternative)
        device = 0
        for pool in self.pools:
            if pool.incomplete:
                raise Fatal(f"{who} {pool.id} is currently being updated", on_node=on_node)
            if pool.invalid is not None:
                raise Fatal(f"{who} {pool.id} is currently invalid", on_node=on_node)
            for _ in pool.rows:
                if eligible.errors >> device & 1:
                    raise Fatal(self._of_all(alternative, eligible.failures[device], device))
                if self.frame.answer(alternative.expressions, device) is True and (
                    not self.features.consumable_capacity or self.frame.could_hold(alternative, device)
                ):
                    found.append(device)
                device += 1
        return found

    def _of_all(self, alternative: Alternative, failure: Failure, device: int) -> str:
        """Here upstream names the device alone, where it is short of capacity."""
        key = self.keys[device]
        return self._text(alternative, failure).replace(f"for device {key}:", f"for device {key.device}:")
