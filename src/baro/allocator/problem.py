"""One node as the search sees it: devices numbered in allocation order, masks of who may take what.

Everything that does not change during the search is worked out here: which devices each alternative may
take, what its selectors failed on, what is in use, constraint values, counters and capacities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from baro.allocator.capacity import amounts, scaled
from baro.allocator.constraints import ConstraintData
from baro.allocator.features import Features
from baro.allocator.plan import Alternative, Constraint, Plan, Selector
from baro.allocator.selectors import SelectorEngine
from baro.inventory import DeviceExtra, DeviceKey, Inventory, NodePool
from baro.inventory.columns import TypedValue
from baro.inventory.pools import SliceRecord
from baro.inventory.taints import tolerated
from baro.model.kinds.resource import CapacityRequestPolicy, DeviceTaint

CounterName = tuple[str, str]
"""(counter set, counter)."""


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
        self, inventory: Inventory, node: str, plan: Plan, features: Features, selectors: SelectorEngine
    ) -> None:
        gathered = inventory.pools(node, partitionable=features.partitionable)
        if gathered.error is not None:
            raise Fatal(gathered.error)
        self.inventory = inventory
        self.node = node
        self.plan = plan
        self.features = features
        self.pools: tuple[NodePool, ...] = gathered.pools
        self.rows: list[int] = []
        self.pool_of: list[int] = []
        self.record_of: list[SliceRecord] = []
        self.on_node: list[bool] = []
        usable = 0
        for index, pool in enumerate(self.pools):
            fine = not pool.incomplete and not self._invalid(pool)
            for row, targets, part in zip(pool.rows, pool.on_node, pool.slice_of, strict=True):
                usable |= fine << len(self.rows)
                self.rows.append(row)
                self.pool_of.append(index)
                self.record_of.append(pool.slices[part])
                self.on_node.append(targets)
        self.size = len(self.rows)
        self.keys: list[DeviceKey] = [
            DeviceKey(record.driver, record.pool, inventory.table.device_name(row))
            for row, record in zip(self.rows, self.record_of, strict=True)
        ]
        self.rare: list[DeviceExtra] = [inventory.table.rare(row) for row in self.rows]
        self.usable = usable
        self.shareable = self._mask(features.consumable_capacity and rare.shareable for rare in self.rare)
        self.shared_before, self.consumed_before, self.free = self._in_use()
        self._selectors = selectors
        self._verdicts: dict[tuple[Selector, ...], list[bool | str | None]] = {}
        self._candidates: dict[object, tuple[int, int]] = {}
        self._amounts: dict[tuple[int, int], dict[str, int] | None] = {}
        self._capacities: dict[int, dict[str, tuple[int, object]]] = {}

    # --- devices -----------------------------------------------------------------------------------------

    def _mask(self, flags: Iterator[bool]) -> int:
        mask = 0
        for index, flag in enumerate(flags):
            mask |= bool(flag) << index
        return mask

    def _invalid(self, pool: NodePool) -> bool:
        if pool.invalid is not None:
            return True
        return pool.inconsistent_count and self.features.reject_inconsistent_pools

    @property
    def invalid_pools(self) -> bool:
        return any(self._invalid(pool) for pool in self.pools)

    def _in_use(self) -> tuple[int, dict[int, dict[str, int]], int]:
        """Devices with shares taken, what the shares consume, and the mask of devices not wholly taken."""
        shared = 0
        consumed: dict[int, dict[str, int]] = {}
        free = 0
        holders = self.inventory.usage.holders
        for index, key in enumerate(self.keys):
            shares = holders.get(key, ())
            whole = False
            for share in shares:
                if share.share_id is None or not self.features.consumable_capacity:
                    whole = True
                else:
                    shared |= 1 << index
                    sums = consumed.setdefault(index, {})
                    for name, raw in share.consumed.items():
                        full = "/".join(self.inventory.table.qualified(key.driver, name))
                        sums[full] = sums.get(full, 0) + scaled(raw)
            if not whole:
                free |= 1 << index
        # A device that was shared and is now published as dedicated stays in use until all shares are gone.
        return shared, consumed, free & ~(shared & ~self.shareable)

    def taints(self, device: int) -> tuple[DeviceTaint, ...]:
        return self.inventory.taints(self.rows[device]) if self.features.taints else ()

    def attribute(self, device: int, name: str) -> TypedValue | None:
        """A value under a name as constraints write it; without a domain the driver's is meant."""
        column = self.inventory.table.attributes.get(
            self.inventory.table.qualified(self.keys[device].driver, name)
        )
        return None if column is None else column.value(self.rows[device])

    # --- selection ---------------------------------------------------------------------------------------

    def verdict(self, alternative: Alternative, device: int) -> bool | str:
        """Whether class and request select a device; upstream's error text if evaluation fails.

        Per-device node selection comes after the selectors, as upstream has it.
        """
        known = self._verdicts.get(alternative.selectors)
        if known is None:
            known = self._verdicts[alternative.selectors] = [None] * self.size
        found = known[device]
        if found is None:
            found = known[device] = self._evaluate(alternative, device)
        return found

    def _evaluate(self, alternative: Alternative, device: int) -> bool | str:
        for selector in alternative.selectors:
            problem = self._selectors.compile_error(selector.expression)
            if problem is not None:
                return f"{selector.place}: CEL compile error: {problem}"
            answer = self._selectors.verdict(selector.expression, self.rows[device])
            if isinstance(answer, str):
                hint = _NO_KEY_HINT if "no such key" in answer and _NO_KEY_HINT not in answer else ""
                return f"{selector.place} on device {self.keys[device]}: CEL runtime error: {answer}{hint}"
            if not answer:
                return False
        return self.on_node[device]

    def candidates(self, alternative: Alternative) -> tuple[int, int]:
        """(devices that it may take as far as that does not depend on other choices, devices with errors)."""
        key = (
            alternative.selectors,
            alternative.tolerations,
            alternative.admin,
            tuple(alternative.capacity.items()),
        )
        found = self._candidates.get(key)
        if found is None:
            found = self._candidates[key] = self._find_candidates(alternative)
        return found

    def _find_candidates(self, alternative: Alternative) -> tuple[int, int]:
        fit = errors = 0
        within = self.usable if alternative.admin else self.usable & self.free
        for device in bits(within):
            verdict = self.verdict(alternative, device)
            if isinstance(verdict, str):
                errors |= 1 << device
            elif verdict and self._acceptable(alternative, device):
                fit |= 1 << device
        return fit, errors

    def _acceptable(self, alternative: Alternative, device: int) -> bool:
        rare = self.rare[device]
        if rare.consumes_counters and not self.features.partitionable:
            return False
        if rare.binding_conditions and not self.features.binding_conditions:
            return False
        if self.features.taints and not tolerated(self.taints(device), alternative.tolerations):
            return False
        return self.has_capacity(alternative, device)

    # --- capacity ----------------------------------------------------------------------------------------

    def capacities(self, device: int) -> dict[str, tuple[int, object]]:
        """Full name → (value, policy)."""
        found = self._capacities.get(device)
        if found is None:
            policies: Mapping[tuple[str, str], CapacityRequestPolicy] = self.rare[device].policies
            found = self._capacities[device] = {
                "/".join(name): (raw, policies.get(name))  # type: ignore[misc]
                for name, raw in self.inventory.table.capacities_of(self.rows[device])
            }
        return found

    def amounts(self, alternative: Alternative, device: int) -> dict[str, int] | None:
        """What the alternative takes of each capacity, or ``None`` when it cannot have the device."""
        key = (alternative.id, device)
        if key not in self._amounts:
            driver = self.keys[device].driver
            wanted = {
                "/".join(self.inventory.table.qualified(driver, name)): raw
                for name, raw in alternative.capacity.items()
            }
            self._amounts[key] = amounts(
                self.capacities(device),  # type: ignore[arg-type]
                wanted,
                exact=self.features.fractional_capacity,
            )
        return self._amounts[key]

    def has_capacity(
        self, alternative: Alternative, device: int, in_flight: Mapping[str, int] | None = None
    ) -> bool:
        """Whether what it takes fits beside what others hold and what this search already gave away."""
        if not self.features.consumable_capacity:
            return True
        if not alternative.capacity and not self.shareable >> device & 1:
            return True
        taken = self.amounts(alternative, device)
        if taken is None:
            return False
        before = self.consumed_before.get(device, {})
        for name, (value, _) in self.capacities(device).items():
            used = before.get(name, 0) + (in_flight.get(name, 0) if in_flight else 0)
            if used + taken[name] > scaled(value):
                return False
        return True

    def could_hold(self, alternative: Alternative, device: int) -> bool:
        """Whether the device, with nothing taken from it, has what the alternative asks for."""
        if not self.features.consumable_capacity or not alternative.capacity:
            return True
        taken = self.amounts(alternative, device)
        return taken is not None and all(
            taken[name] <= scaled(value) for name, (value, _) in self.capacities(device).items()
        )

    # --- constraints and counters --------------------------------------------------------------------------

    def constraint(self, constraint: Constraint) -> ConstraintData:
        """The constraint's values on all devices."""
        values = [self.attribute(device, constraint.attribute) for device in range(self.size)]
        return ConstraintData(values, distinct=constraint.distinct, lists=self.features.list_attributes)

    def consumption(self, device: int) -> dict[CounterName, int]:
        """What a device takes from the counters of its pool."""
        return {
            (part.counter_set, name): scaled(counter.value)
            for part in self.rare[device].consumes_counters
            for name, counter in part.counters.items()
        }

    def counters(self, pool: NodePool) -> dict[CounterName, int]:
        """What is left of a pool's counters, from all its slices and all devices in use (§2.8)."""
        left: dict[CounterName, int] = {}
        for record in pool.counter_slices:
            for counter_set in record.counter_sets:
                for name, counter in counter_set.counters.items():
                    left[counter_set.name, name] = scaled(counter.value)
        table, holders = self.inventory.table, self.inventory.usage.holders
        in_use = [
            table.rare(row)
            for record in pool.counter_slices
            for row in record.rows
            if DeviceKey(record.driver, record.pool, table.device_name(row)) in holders
        ]
        if not self.features.forget_unpublished:
            in_use += [extra for _, extra in self.inventory.kept_consumption((pool.driver, pool.name))]
        for extra in in_use:
            for part in extra.consumes_counters:
                for name, counter in part.counters.items():
                    if (part.counter_set, name) in left:
                        left[part.counter_set, name] -= scaled(counter.value)
        return left

    def all_devices(self, alternative: Alternative, claim: str) -> list[int]:
        """What mode All must take; nothing if one of them cannot be had.

        Raises ``Fatal``: every error counts, and pools must be whole.
        """
        who = f"claim {claim}, request {alternative.own_name}: asks for all devices, but resource pool"
        on_node = self.features.all_on_incomplete_is_on_node
        found: list[int] = []
        device = 0
        for pool in self.pools:
            if pool.incomplete:
                raise Fatal(f"{who} {pool.id} is currently being updated", on_node=on_node)
            if self._invalid(pool):
                raise Fatal(f"{who} {pool.id} is currently invalid", on_node=on_node)
            for _ in pool.rows:
                verdict = self.verdict(alternative, device)
                if isinstance(verdict, str):
                    raise Fatal(verdict)
                if verdict and self.could_hold(alternative, device):
                    if not self.has_capacity(alternative, device):
                        # All of them means also the one that is used up (kubernetes#140769).
                        return []
                    found.append(device)
                device += 1
        return found


def bits(mask: int) -> Iterator[int]:
    """The numbers of the set bits, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
