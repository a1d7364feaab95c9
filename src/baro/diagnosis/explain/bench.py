"""One node on its own, for what-if questions: everything that the allocator's answer about it depends on.

A small inventory with the node's slices (and all others of their pools), the claims that hold devices of
those pools, classes, taint rules and the node's graph. Asking it is asking the production allocator; taking
claims or objects away changes nothing outside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from baro.allocator import NodeDecision, Outcome, Policy, allocate
from baro.diagnosis.explain.world import World
from baro.inventory import Inventory, Snapshot, claim_name
from baro.model.kinds.resource import ResourceClaim, ResourceSlice

SHARE_ID = "00000000-0000-4000-8000-000000000000"
"""What-if answers give away no shares, so theirs need not be unique."""


class Budget:
    """How many allocations may still be tried in one explanation."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self) -> bool:
        """Whether one more may be tried; counts it."""
        self.left -= 1
        return self.left >= 0

    @property
    def spent(self) -> bool:
        return self.left <= 0


class Bench:
    """``snapshot`` is what the node's answer depends on; ``inventory`` is of that alone."""

    def __init__(self, world: World, node: str, snapshot: Snapshot | None = None) -> None:
        self._world = world
        self.node = node
        self.snapshot = _around(world, node) if snapshot is None else snapshot
        self.inventory = Inventory(self.snapshot)
        self._engine = world.options.engine(self.inventory)

    def holders(self) -> tuple[ResourceClaim, ...]:
        """Allocated claims with devices in the node's pools."""
        return self.snapshot.claims

    def decide(
        self, claims: Sequence[ResourceClaim], policy: Policy, released: Collection[str] = ()
    ) -> NodeDecision:
        """The allocator's answer, as if the claims named in ``released`` held nothing."""
        for name in released:
            self.inventory.release_claim(name)
        try:
            return allocate(
                self.inventory,
                self.node,
                claims,
                policy=policy,
                features=self._world.options.features,
                selectors=self._engine,
                new_share_id=lambda: SHARE_ID,
            )
        finally:
            for claim in self.snapshot.claims:
                if claim_name(claim) in released:
                    self.inventory.hold_claim(claim)

    def fits(
        self,
        claims: Sequence[ResourceClaim],
        policy: Policy,
        released: Collection[str] = (),
        budget: Budget | None = None,
    ) -> bool:
        """Whether the claims fit. False too when the budget is spent or an expression is not known."""
        if budget is not None and not budget.take():
            return False
        try:
            return self.decide(claims, policy, released).outcome is Outcome.FIT
        except KeyError:
            # Answers from a table (recorded selectors) know no new expressions.
            return False

    def changed(self, slices: Iterable[ResourceSlice]) -> Bench:
        """The same node with other slices."""
        snapshot = msgspec.structs.replace(self.snapshot, slices=tuple(slices))
        return Bench(self._world, self.node, snapshot)

    def without_counters(self) -> Bench:
        """The same node, its devices no longer drawing on shared counters."""
        return self.changed(map(_without_counters, self.snapshot.slices))


def _without_counters(item: ResourceSlice) -> ResourceSlice:
    devices = tuple(msgspec.structs.replace(device, consumes_counters=()) for device in item.spec.devices)
    return msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, devices=devices))


def _around(world: World, node: str) -> Snapshot:
    pools = {
        (item.spec.driver, item.spec.pool.name): None
        for item in (*world.slices_of_node.get(node, ()), *world.floating_slices)
    }
    claims = {claim_name(claim): claim for pool in pools for claim in world.holders_of_pool.get(pool, ())}
    found = world.inventory.nodes.get(node)
    topology = world.inventory.topologies.get(node)
    return Snapshot(
        nodes=() if found is None else (found,),
        slices=tuple(item for pool in pools for item in world.slices_of_pool[pool]),
        classes=world.snapshot.classes,
        claims=tuple(claims.values()),
        taint_rules=world.snapshot.taint_rules,
        node_topologies=() if topology is None else (topology,),
    )
