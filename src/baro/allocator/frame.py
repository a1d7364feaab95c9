"""A node's devices whatever is in use: numbered, named, judged by selectors and by what few of them have.

Made once per node and gates, and kept beside the inventory until something but the use of the node changes;
so a further claim of the same kind costs a few look-ups. What is in use is ``problem``'s business.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from baro.allocator.capacity import CapacityError, amounts, scaled
from baro.allocator.constraints import ConstraintData, has_lists
from baro.allocator.features import Features
from baro.allocator.plan import Alternative, Constraint
from baro.allocator.selectors import SelectorEngine
from baro.inventory import DeviceExtra, DeviceKey, Inventory, NodePool
from baro.inventory.columns import TypedValue
from baro.inventory.pools import SliceRecord
from baro.inventory.taints import tolerated
from baro.model.kinds.resource import CapacityRequestPolicy, DeviceTaint
from baro.model.quantity import Quantity

K = TypeVar("K")
V = TypeVar("V")
CounterName = tuple[str, str]
"""(counter set, counter)."""
OPERATIONS_GATE: Final = "DRAOptionalNodeOperations"
"""What a node must declare before it may get devices whose slices skip node operations."""
_MOST_FRAMES = 4_096
"""Frames kept per set of gates, some 4 KB each; the oldest goes first."""
_MOST_KEPT = 256
"""Kinds of requests and of constraints that are remembered per node."""
_CAPACITY, _NODE_SELECTION = -1, -2


class Failure(msgspec.Struct, frozen=True):
    """Why a device cannot be judged. ``place``: position of the selector, or what else failed."""

    place: int
    text: str


class Eligible(msgspec.Struct, frozen=True):
    """Masks for one kind of request: devices that may be taken while nobody has them, devices that cannot be
    judged, and why."""

    fit: int
    errors: int
    failures: Mapping[int, Failure] = {}


class NodeFrame:
    """Devices of a node under their local numbers 0 … n-1, in upstream's order of trial.

    Attributes are masks or lists by local number. ``error``: nothing can be allocated on this node.
    """

    def __init__(self, inventory: Inventory, node: str, features: Features) -> None:
        gathered = inventory.pools(
            node,
            partitionable=features.partitionable,
            compatibility_groups=features.compatibility_groups,
        )
        self.error = gathered.error
        self.inventory = inventory
        self.node = node
        self.features = features
        self.pools: tuple[NodePool, ...] = gathered.pools
        self.invalid_pools = any(pool.invalid is not None for pool in self.pools)
        self.rows: list[int] = []
        self.pool_of: list[int] = []
        self.record_of: list[SliceRecord] = []
        self.on_node: list[bool | str] = []
        self.usable = 0
        for index, pool in enumerate(self.pools):
            first, count = len(self.rows), len(pool.rows)
            if not pool.incomplete and pool.invalid is None:
                self.usable |= ((1 << count) - 1) << first
            self.rows += pool.rows
            self.pool_of += [index] * count
            self.record_of += [pool.slices[part] for part in pool.slice_of]
            self.on_node += pool.on_node
        self.size = len(self.rows)
        table = inventory.table
        self.keys: list[DeviceKey] = [
            DeviceKey(record.driver, record.pool, name)
            for record, name in zip(self.record_of, table.device_names(self.rows), strict=True)
        ]
        self.rare: list[DeviceExtra] = [table.rare(row) for row in self.rows]
        self.shareable = mask_of(
            at for at, rare in enumerate(self.rare) if rare.shareable and features.consumable_capacity
        )
        self._taints = features.taints and bool(inventory.taint_rules or any(r.taints for r in self.rare))
        self._capacities_told = features.consumable_capacity and bool(table.capacities)
        self.derived: dict[object, Any] = {}
        """What readers have worked out about these devices."""
        self._consumption: dict[int, dict[CounterName, int]] | None = None
        self._engine: SelectorEngine | None = None
        self._answers: dict[tuple[str, ...], list[bool | Failure | None]] = {}
        self._eligible: dict[Hashable, Eligible] = {}
        self._constraints: dict[Hashable, tuple[ConstraintData, ...]] = {}
        self._capacities: dict[int, dict[str, tuple[Any, CapacityRequestPolicy | None]]] = {}
        self._amounts: dict[Hashable, dict[str, Quantity] | CapacityError | None] = {}
        self._totals: dict[int, dict[CounterName, int]] = {}

    def use_engine(self, engine: SelectorEngine) -> None:
        """Judge by this engine from now on."""
        if self._engine is not engine:
            self._engine = engine
            self._answers.clear()
            self._eligible.clear()

    # --- selection ---------------------------------------------------------------------------------------

    def answer(self, expressions: tuple[str, ...], device: int) -> bool | Failure:
        """Whether all expressions select a device. Node selection comes after them, as upstream has it."""
        known = self._answers.get(expressions)
        if known is None:
            fresh: list[bool | Failure | None] = [None] * self.size
            known = _keep(self._answers, expressions, fresh)
        found = known[device]
        if found is None:
            found = known[device] = self._evaluate(expressions, device)
        return found

    def _evaluate(self, expressions: tuple[str, ...], device: int) -> bool | Failure:
        engine = self._engine
        if engine is None:
            raise ValueError("use_engine comes before answer")
        if self.rare[device].binding_conditions and not self.features.binding_conditions:
            return False
        row = self.rows[device]
        for place, expression in enumerate(expressions):
            problem = engine.compile_error(expression)
            if problem is not None:
                return Failure(place, f": CEL compile error: {problem}")
            answer = engine.verdict(expression, row)
            if isinstance(answer, str):
                return Failure(place, f" on device {self.keys[device]}: CEL runtime error: {answer}")
            if not answer:
                return False
        here = self.on_node[device]
        return here if isinstance(here, bool) else Failure(_NODE_SELECTION, here)

    def eligible(self, alternative: Alternative) -> Eligible:
        """The devices for a kind of request, apart from what is in use."""
        found = self._eligible.get(alternative.kind)
        if found is None:
            found = _keep(self._eligible, alternative.kind, self._find_eligible(alternative))
        return found

    def _find_eligible(self, alternative: Alternative) -> Eligible:
        fit = errors = 0
        failures: dict[int, Failure] = {}
        for device in bits(self.usable):
            answer = self.answer(alternative.expressions, device)
            if answer is True and (self._capacities_told or alternative.wants):
                answer = self._capacity_answer(alternative, device)
            if isinstance(answer, Failure):
                errors |= 1 << device
                failures[device] = answer
            elif answer and self._acceptable(alternative, device):
                fit |= 1 << device
        return Eligible(fit, errors, failures)

    def _capacity_answer(self, alternative: Alternative, device: int) -> bool | Failure:
        if not self.features.consumable_capacity:
            return True
        try:
            return self.could_hold(alternative, device)
        except CapacityError as error:
            return Failure(_CAPACITY, f" {self.keys[device]}: {error}")

    def _acceptable(self, alternative: Alternative, device: int) -> bool:
        rare = self.rare[device]
        if rare.consumes_counters and not self.features.partitionable:
            return False
        if self.record_of[device].skip_node_operations and not self._operations():
            return False
        return not self._taints or tolerated(self.taints(device), alternative.tolerations)

    def _operations(self) -> bool:
        """Whether devices whose slices skip node operations may be used here.

        Upstream looks at it only where one of its alpha features is on: otherwise the API server has dropped
        the field, as a rule.
        """
        if not self.features.alpha:
            return True
        node = self.inventory.nodes.get(self.node)
        declared = node.status.declared_features if node is not None else ()
        return self.features.optional_node_operations and OPERATIONS_GATE in declared

    def taints(self, device: int) -> tuple[DeviceTaint, ...]:
        return self.inventory.taints(self.rows[device]) if self.features.taints else ()

    # --- capacity ----------------------------------------------------------------------------------------

    def capacities(self, device: int) -> dict[str, tuple[Any, CapacityRequestPolicy | None]]:
        """Full name → (value, policy)."""
        found = self._capacities.get(device)
        if found is None:
            policies = self.rare[device].policies
            table = self.inventory.table
            found = self._capacities[device] = {
                "/".join(name): (raw, policies.get(name))
                for name, raw in table.capacities_of(self.rows[device])
            }
        return found

    def amounts(self, alternative: Alternative, device: int) -> dict[str, Quantity] | None:
        """What the alternative takes of each capacity, or ``None`` when it cannot have the device.

        Raises ``CapacityError``.
        """
        key = (alternative.wants, device)
        if key not in self._amounts:
            _keep(self._amounts, key, self._find_amounts(alternative, device), limit=8 * _MOST_KEPT)
        found = self._amounts[key]
        if isinstance(found, CapacityError):
            raise found
        return found

    def _find_amounts(
        self, alternative: Alternative, device: int
    ) -> dict[str, Quantity] | CapacityError | None:
        features = self.features
        driver, table = self.keys[device].driver, self.inventory.table
        wanted = {"/".join(table.qualified(driver, name)): raw for name, raw in alternative.capacity.items()}
        if features.compatibility and not self._as_written(alternative.capacity, device):
            return None
        try:
            return amounts(
                self.capacities(device),
                wanted,
                exact=features.fractional_capacity,
                strict_default=features.compatibility,
            )
        except CapacityError as error:
            text = str(error)
            for name in self.capacities(device):
                text = text.replace(f'capacity "{name}"', f'capacity "{self.written(name, device)}"')
            return CapacityError(text)

    def written(self, capacity: str, device: int) -> str:
        """A capacity's name as the device publishes it: without the domain if that is the driver's."""
        domain, _, short = capacity.rpartition("/")
        spelled_out = self.inventory.table.spelled_out.get(self.rows[device], frozenset())
        return short if domain == self.keys[device].driver and short not in spelled_out else capacity

    def _as_written(self, names: Iterable[str], device: int) -> bool:
        """Whether the device spells these capacities likewise: in the driver's domain with or without it."""
        driver = self.keys[device].driver
        spelled_out = self.inventory.table.spelled_out.get(self.rows[device], frozenset())
        for name in names:
            domain, _, short = name.rpartition("/")
            if domain in ("", driver) and (short in spelled_out) != bool(domain):
                return False
        return True

    def could_hold(self, alternative: Alternative, device: int) -> bool:
        """Whether the device, with nothing taken from it, has what the alternative asks for."""
        if not alternative.wants and not self.rare[device].policies:
            return True  # it would take each capacity whole
        taken = self.amounts(alternative, device)
        return taken is not None and all(
            taken[name].scaled <= scaled(value) for name, (value, _) in self.capacities(device).items()
        )

    @property
    def consumption(self) -> dict[int, dict[CounterName, int]]:
        """What devices take from the counters of their pool. Raises ``QuantityError``, as files may hold
        anything."""
        if self._consumption is None:
            self._consumption = {
                at: consumption(rare) for at, rare in enumerate(self.rare) if rare.consumes_counters
            }
        return self._consumption

    # --- constraints and counters --------------------------------------------------------------------------

    def attribute(self, device: int, name: str) -> TypedValue | None:
        """A value under a name as constraints write it; without a domain the driver's is meant."""
        table = self.inventory.table
        column = table.attributes.get(table.qualified(self.keys[device].driver, name))
        return None if column is None else column.value(self.rows[device])

    def constraint(self, constraint: Constraint) -> tuple[ConstraintData, ...]:
        """The values of a constraint's attribute on all devices, one view per ``constraint.views``."""
        key = (constraint.attribute, constraint.distinct, constraint.views)
        found = self._constraints.get(key)
        if found is None:
            found = _keep(self._constraints, key, self._find_constraint(constraint))
        return found

    def _find_constraint(self, constraint: Constraint) -> tuple[ConstraintData, ...]:
        lists = self.features.list_attributes
        views: list[tuple[list[TypedValue | None], dict[int, str]]] = []
        for expression in constraint.views:
            if expression is None:
                static = [self.attribute(device, constraint.attribute) for device in range(self.size)]
                views.append((static, {}))
            else:
                views.append(self._derive(constraint.attribute, expression))
        sets = any(has_lists(values, lists) for values, _ in views)
        return tuple(
            ConstraintData(values, distinct=constraint.distinct, lists=lists, set_valued=sets, errors=errors)
            for values, errors in views
        )

    def _derive(self, attribute: str, expression: str) -> tuple[list[TypedValue | None], dict[int, str]]:
        # CEL costs import time that claims without derived attributes need not pay.
        from baro.allocator.derived import DerivedValues, Failed  # noqa: PLC0415

        engine = DerivedValues.of(self.inventory)
        values: list[TypedValue | None] = []
        errors: dict[int, str] = {}
        for device, row in enumerate(self.rows):
            found = engine.value(expression, row)
            if isinstance(found, Failed):
                what = f"compile derived attribute {attribute} failed"
                if not found.compile:
                    what = f"evaluate derived attribute {attribute} on device {self.keys[device]} failed"
                errors[device] = f"{what}: {found.text}"
                values.append(None)
            else:
                values.append(found)
        return values, errors

    def totals(self, pool: int) -> dict[CounterName, int]:
        """The counters of a pool with nothing in use."""
        found = self._totals.get(pool)
        if found is None:
            found = self._totals[pool] = {
                (counter_set.name, name): scaled(counter.value)
                for record in self.pools[pool].counter_slices
                for counter_set in record.counter_sets
                for name, counter in counter_set.counters.items()
            }
        return found


def consumption(rare: DeviceExtra) -> dict[CounterName, int]:
    """What a device takes from the counters of its pool."""
    return {
        (part.counter_set, name): scaled(counter.value)
        for part in rare.consumes_counters
        for name, counter in part.counters.items()
    }


def frame_of(inventory: Inventory, node: str, features: Features) -> NodeFrame:
    """The frame of a node, the same one until more than the node's use changes."""
    frames: dict[Features, dict[str, tuple[int, NodeFrame]]] = inventory.derived.setdefault(NodeFrame, {})
    of_gates = frames.get(features)
    if of_gates is None:
        of_gates = frames[features] = {}
    stamp = inventory.changes.structure_of(node)
    found = of_gates.get(node)
    if found is None or found[0] != stamp:
        if found is None and len(of_gates) >= _MOST_FRAMES:
            del of_gates[next(iter(of_gates))]
        found = of_gates[node] = (stamp, NodeFrame(inventory, node, features))
    return found[1]


def mask_of(numbers: Iterable[int]) -> int:
    """The mask of some local numbers."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def bits(mask: int) -> Iterator[int]:
    """The numbers of the set bits, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _keep(known: dict[K, V], key: K, value: V, *, limit: int = _MOST_KEPT) -> V:
    if len(known) >= limit:
        known.clear()
    known[key] = value
    return value
