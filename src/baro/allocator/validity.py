"""An independent judge of allocations: simple, slow, on plain API objects, from scratch.

Shares no helper with the inventory or the search, so that a mistake there cannot hide here. States the rules
declaratively: what must hold for a set of results, never how to find it. Used by tests and by ``baro``'s own
self-checks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

from baro.allocator.features import DEFAULT_1_37, Features
from baro.allocator.validity_amounts import (
    Amounts,
    Place,
    Wanted,
    by_full_name,
    could_hold,
    full_name,
    name_of,
)
from baro.model.kinds.core import Node, NodeSelector, NodeSelectorRequirement
from baro.model.kinds.resource import (
    AllocationResult,
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceConstraint,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from baro.model.names import SELECTOR_ANNOTATION
from baro.model.quantity import Quantity

Selects = Callable[[str, ResourceSlice, Device], bool]
"""Whether an expression selects a device; a run-time error counts as no."""
Derives = Callable[[str, ResourceSlice, Device], DeviceAttribute | None]
"""The attribute that an expression derives from a device; ``None`` when there is none."""


def violations(  # noqa: PLR0913
    slices: Sequence[ResourceSlice],
    classes: Sequence[DeviceClass],
    node: Node,
    claims: Sequence[ResourceClaim],
    in_use: Sequence[ResourceClaim],
    results: Sequence[AllocationResult],
    *,
    selects: Selects,
    derives: Derives | None = None,
    taint_rules: Sequence[DeviceTaintRule] = (),
    features: Features = DEFAULT_1_37,
) -> list[str]:
    """Everything that is wrong with ``results`` for ``claims``; empty when the allocation is right.

    ``in_use`` are the claims that are already allocated. ``derives`` is needed for derived attributes alone:
    without it no device has one.
    """
    judge = _Judge(slices, classes, node, in_use, selects, derives, taint_rules, features)
    if len(claims) != len(results):
        return [f"{len(results)} results for {len(claims)} claims"]
    return list(judge.judge(claims, results))


class _Judge:
    def __init__(  # noqa: PLR0913, PLR0917
        self,
        slices: Sequence[ResourceSlice],
        classes: Sequence[DeviceClass],
        node: Node,
        in_use: Sequence[ResourceClaim],
        selects: Selects,
        derives: Derives | None,
        taint_rules: Sequence[DeviceTaintRule],
        features: Features,
    ) -> None:
        self.slices = slices
        self.classes = {item.metadata.name: item for item in classes}
        self.node = node
        self.selects = selects
        self.derives = derives
        self.features = features
        self.taint_rules = taint_rules
        self.lists = features.list_attributes
        self.taints = features.taints
        self.sharing = features.consumable_capacity
        self.pools: dict[tuple[str, str], list[ResourceSlice]] = {}
        """The slices that a pool is made of, as this node sees it."""
        self.places = {place.key: place for place in self._published()}
        self.held: dict[tuple[str, str, str], list[DeviceRequestAllocationResult]] = defaultdict(list)
        for claim in in_use:
            if claim.status.allocation is not None:
                for result in claim.status.allocation.devices.results:
                    if not result.admin_access:
                        self.held[result.driver, result.pool, result.device].append(result)

    # --- what is published for this node -------------------------------------------------------------------

    def _published(self) -> Iterator[Place]:
        """Devices that may be used: newest generation, pool complete, slice (or device) for this node."""
        for pool in {(item.spec.driver, item.spec.pool.name) for item in self.slices}:
            everywhere = [s for s in self.slices if (s.spec.driver, s.spec.pool.name) == pool]
            if not self.features.compatibility_groups:
                everywhere = [s for s in everywhere if not _grouped(s)]
            mine = [s for s in everywhere if self._relevant(s)]
            if not mine:
                continue
            newest = max(s.spec.pool.generation for s in mine)
            current = [s for s in mine if s.spec.pool.generation == newest]
            count = current[0].spec.pool.resource_slice_count
            self.pools[pool] = current
            if len(current) != count:
                # Part of the pool is for other nodes; then the whole cluster must agree on the generation.
                same = [s for s in everywhere if s.spec.pool.generation == newest]
                newer = any(s.spec.pool.generation > newest for s in everywhere)
                if newer or len(same) != count:
                    continue
                self.pools[pool] = same
            for item in current:
                for device in item.spec.devices:
                    if self._targets(item, device):
                        yield Place(item, device)

    def _relevant(self, item: ResourceSlice) -> bool:
        if not item.spec.per_device_node_selection:
            return self._targets(item, Device())
        return any(self._targets(item, device) for device in item.spec.devices)

    def _targets(self, item: ResourceSlice, device: Device) -> bool:
        where: Any = device if item.spec.per_device_node_selection else item.spec
        if where.node_name:
            return bool(where.node_name == self.node.metadata.name)
        if where.all_nodes:
            return True
        return where.node_selector is not None and self._node_matches(where.node_selector)

    def _node_matches(self, selector: NodeSelector) -> bool:
        labels, name = self.node.metadata.labels, {"metadata.name": self.node.metadata.name}
        return any(
            (term.match_expressions or term.match_fields)
            and all(_holds(r, labels) for r in term.match_expressions)
            and all(_holds(r, name) for r in term.match_fields)
            for term in selector.node_selector_terms
        )

    # --- the rules -----------------------------------------------------------------------------------------

    def judge(self, claims: Sequence[ResourceClaim], results: Sequence[AllocationResult]) -> Iterator[str]:
        everything: list[DeviceRequestAllocationResult] = []
        for claim, allocation in zip(claims, results, strict=True):
            mine = allocation.devices.results
            everything += mine
            if len(mine) > 32:
                yield f"{claim.ref}: {len(mine)} results, 32 are allowed"
            for result in mine:
                if (result.driver, result.pool, result.device) not in self.places:
                    yield f"{name_of(result)} is not available on this node"
            if any((r.driver, r.pool, r.device) not in self.places for r in mine):
                return
            yield from self._requests(claim, mine)
            yield from self._constraints(claim, mine)
            yield from self._pinned(claim, allocation)
        yield from self._exclusive(claims, results)
        amounts = Amounts(self.pools, self.places, self.held)
        yield from amounts.counters(everything)
        if self.features.compatibility_groups:
            yield from amounts.groups(everything)
        yield from amounts.capacity(everything)

    def _requests(
        self, claim: ResourceClaim, results: Sequence[DeviceRequestAllocationResult]
    ) -> Iterator[str]:
        by_name: dict[str, list[DeviceRequestAllocationResult]] = defaultdict(list)
        for result in results:
            by_name[result.request].append(result)
        for request in claim.spec.devices.requests:
            if request.exactly is not None:
                yield from self._one(request.name, request.exactly, by_name.pop(request.name, []))
                continue
            names = [f"{request.name}/{sub.name}" for sub in request.first_available]
            used = [name for name in names if name in by_name]
            if len(used) != 1:
                yield f"request {request.name}: results for {len(used)} subrequests, must be one"
            for name, sub in zip(names, request.first_available, strict=True):
                if name in used:
                    yield from self._one(name, sub, by_name.pop(name))
        for name in by_name:
            yield f"results for {name}, which is no request"

    def _one(
        self, name: str, wanted: Wanted, results: Sequence[DeviceRequestAllocationResult]
    ) -> Iterator[str]:
        admin = isinstance(wanted, ExactDeviceRequest) and bool(wanted.admin_access)
        if wanted.allocation_mode == "All":
            all_of_them = {
                key
                for key, place in self.places.items()
                if self._selected(wanted, place) and (not self.sharing or could_hold(wanted, place))
            }
            if {(r.driver, r.pool, r.device) for r in results} != all_of_them or not results:
                yield f"request {name}: not exactly all matching devices"
        elif len(results) != (wanted.count or 1):
            yield f"request {name}: {len(results)} devices, {wanted.count or 1} asked for"
        for result in results:
            place = self.places[result.driver, result.pool, result.device]
            if not self._selected(wanted, place):
                yield f"{name_of(result)} does not match request {name}"
            if bool(result.admin_access) != admin:
                yield f"{name_of(result)}: adminAccess is {result.admin_access}"
            if result.tolerations != wanted.tolerations:
                yield f"{name_of(result)}: tolerations were not copied"
            if self.taints and not self._untainted(place, wanted.tolerations):
                yield f"{name_of(result)} has a taint that request {name} does not tolerate"
            if result.binding_conditions != place.device.binding_conditions:
                yield f"{name_of(result)}: binding conditions were not copied"
            yield from self._operations(result, place)
            yield from self._share(wanted, result, place)

    def _operations(self, result: DeviceRequestAllocationResult, place: Place) -> Iterator[str]:
        """Skipped node operations need the gate here and on the node, once any alpha feature is on."""
        gates = self.features
        if not any(
            (
                gates.list_attributes,
                gates.derived_attributes,
                gates.compatibility_groups,
                gates.optional_node_operations,
            )
        ):
            return
        skipped = place.slice.spec.skip_node_operations
        if result.skip_node_operations != skipped:
            yield f"{name_of(result)}: skipped node operations were not copied"
        declared = "DRAOptionalNodeOperations" in self.node.status.declared_features
        if skipped and not (gates.optional_node_operations and declared):
            yield f"{name_of(result)} skips node operations, which this node does not know"

    def _selected(self, wanted: Wanted, place: Place) -> bool:
        if place.device.binding_conditions and not self.features.binding_conditions:
            return False
        device_class = self.classes.get(wanted.device_class_name)
        if device_class is None:
            return False
        expressions = [s.cel.expression if s.cel else "" for s in device_class.spec.selectors]
        real = device_class.metadata.annotations.get(SELECTOR_ANNOTATION)
        if real is not None and [text.strip() for text in expressions] == ["false"]:
            expressions = [real]
        expressions += [s.cel.expression if s.cel else "" for s in wanted.selectors]
        if not all(self.selects(text, place.slice, place.device) for text in expressions):
            return False
        have = {full_name(name, place.slice.spec.driver) for name in place.device.capacity}
        asked = wanted.capacity.requests if wanted.capacity else {}
        return all(full_name(name, place.slice.spec.driver) in have for name in asked)

    def _untainted(self, place: Place, tolerations: Sequence[DeviceToleration]) -> bool:
        taints = list(place.device.taints)
        for rule in self.taint_rules:
            selector = rule.spec.device_selector
            if selector is not None and all(
                want in (None, have)
                for want, have in zip(
                    (selector.driver, selector.pool, selector.device), place.key, strict=True
                )
            ):
                taints.append(rule.spec.taint)
        return all(
            any(
                t.effect in ("", taint.effect)
                and t.key in ("", taint.key)
                and (t.operator == "Exists" or (t.operator in ("", "Equal") and t.value == taint.value))
                for t in tolerations
            )
            for taint in taints
            if taint.effect in ("NoSchedule", "NoExecute")
        )

    def _share(self, wanted: Wanted, result: DeviceRequestAllocationResult, place: Place) -> Iterator[str]:
        if not (self.sharing and place.device.allow_multiple_allocations):
            if result.share_id is not None or result.consumed_capacity:
                yield f"{name_of(result)} is not shareable but has a share"
            asked = wanted.capacity.requests if wanted.capacity else {}
            for name, raw in asked.items():
                have = by_full_name(place.device.capacity, place.slice.spec.driver)[
                    full_name(name, place.slice.spec.driver)
                ]
                if Quantity.parse(raw) > Quantity.parse(have.value):
                    yield f"{name_of(result)} has too little {name}"
            return
        if result.share_id is None:
            yield f"{name_of(result)} is shareable but has no shareID"
        driver = place.slice.spec.driver
        consumed = by_full_name(result.consumed_capacity, driver)
        if set(consumed) != set(by_full_name(place.device.capacity, driver)):
            yield f"{name_of(result)}: consumedCapacity does not name every capacity"
        for name, raw in (wanted.capacity.requests if wanted.capacity else {}).items():
            if Quantity.parse(consumed.get(full_name(name, driver), 0)) < Quantity.parse(raw):
                yield f"{name_of(result)} consumes less {name} than asked for"

    def _constraints(
        self, claim: ResourceClaim, results: Sequence[DeviceRequestAllocationResult]
    ) -> Iterator[str]:
        for constraint in claim.spec.devices.constraints:
            name = constraint.match_attribute or constraint.distinct_attribute or ""
            covered = [r for r in results if _covers(constraint, r.request)]
            values = [self._value_for(claim, r, name) for r in covered]
            if any(value is None for value in values):
                yield f"{claim.ref}: a device lacks {name}"
                continue
            sets = [value for value in values if value is not None]
            if constraint.match_attribute is not None:
                if sets and not frozenset.intersection(*sets):
                    yield f"{claim.ref}: values of {name} differ"
            elif any(a & b for a, b in combinations(sets, 2)):
                yield f"{claim.ref}: values of {name} are not distinct"

    def _value_for(
        self, claim: ResourceClaim, result: DeviceRequestAllocationResult, name: str
    ) -> frozenset[Any] | None:
        """The values of an attribute as the request sees them: derived by it, or published."""
        place = self.places[result.driver, result.pool, result.device]
        for item in _wanted(claim, result.request).derived_attributes:
            if item.name == name:
                found = self.derives(item.expression, place.slice, place.device) if self.derives else None
                return None if found is None else self._values(found)
        driver = place.slice.spec.driver
        published = {full_name(key, driver): value for key, value in place.device.attributes.items()}
        attribute = published.get(full_name(name, driver))
        return None if attribute is None else self._values(attribute)

    def _values(self, attribute: DeviceAttribute) -> frozenset[Any]:
        for field in ("int_", "bool_", "string", "version"):
            value = getattr(attribute, field)
            if value is not None:
                return frozenset({(field.rstrip("_"), value)})
        for field in ("ints", "bools", "strings", "versions") if self.lists else ():
            values = getattr(attribute, field)
            if values is not None:
                return frozenset((field[:-1], value) for value in values)
        return frozenset({("unknown", id(attribute))})

    def _pinned(self, claim: ResourceClaim, allocation: AllocationResult) -> Iterator[str]:
        """A node-local device ties the claim to this node; whatever is written must admit this node."""
        selector = allocation.node_selector
        if selector is not None and not self._node_matches(selector):
            yield f"{claim.ref}: the node selector does not admit the node"
        local = any(
            self.places[r.driver, r.pool, r.device].slice.spec.node_name for r in allocation.devices.results
        )
        if local and (selector is None or "metadata.name" not in str(selector)):
            yield f"{claim.ref}: node-local devices, but no selector for the node"

    def _exclusive(
        self, claims: Sequence[ResourceClaim], results: Sequence[AllocationResult]
    ) -> Iterator[str]:
        """A dedicated device once among all claims; with admin access once per claim, whoever holds it."""
        normal: list[tuple[str, str, str]] = []
        for claim, allocation in zip(claims, results, strict=True):
            admin: list[tuple[str, str, str]] = []
            for r in allocation.devices.results:
                key = (r.driver, r.pool, r.device)
                if not (self.sharing and self.places[key].device.allow_multiple_allocations):
                    (admin if r.admin_access else normal).append(key)
                held = self.held.get(key, ())
                if r.admin_access or not held:
                    continue
                if key in normal or any(h.share_id is None for h in held):
                    yield f"{name_of(r)} is in use"
            if len(set(admin)) != len(admin):
                yield f"{claim.ref}: admin access twice to one device"
        if len(set(normal)) != len(normal):
            yield "a device is given away twice"


def _grouped(item: ResourceSlice) -> bool:
    return any(part.compatibility_groups for d in item.spec.devices for part in d.consumes_counters)


def _wanted(claim: ResourceClaim, name: str) -> Wanted:
    """The request that a result names."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None and request.name == name:
            return request.exactly
        for sub in request.first_available:
            if f"{request.name}/{sub.name}" == name:
                return sub
    return ExactDeviceRequest()


def _holds(requirement: NodeSelectorRequirement, labels: dict[str, str]) -> bool:
    have = labels.get(requirement.key)
    if requirement.operator == "In":
        return have in requirement.values
    if requirement.operator == "NotIn":
        return have not in requirement.values
    if requirement.operator == "Exists":
        return have is not None
    if requirement.operator == "DoesNotExist":
        return have is None
    if have is None or not have.removeprefix("-").isdigit():
        return False
    bound = int(requirement.values[0])
    return int(have) > bound if requirement.operator == "Gt" else int(have) < bound


def _covers(constraint: DeviceConstraint, request: str) -> bool:
    names = constraint.requests
    return not names or request in names or request.partition("/")[0] in names
