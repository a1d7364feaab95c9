"""From nodes and loads to the devices of every pod.

Nodes with devices of their own are independent of each other. Where devices can be reached from several
nodes, what one node takes is missing on the next: there the loads are tried one after the other with the
earlier ones held, and when that leads nowhere, pod by pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from baro.allocator import NodeDecision, Outcome
from baro.inventory import Inventory
from baro.model.kinds.resource import AllocationResult, ResourceClaim, ResourceClaimStatus
from baro.placement.gang.cover import Chosen, Counts
from baro.placement.gang.options import Options, Room, named
from baro.placement.gang.units import Kind, Seat, Unit
from baro.placement.placer import Names, Placer


class Seated(msgspec.Struct, frozen=True):
    """A pod with its node; ``allocations`` has one result per claim of it, in order."""

    seat: Seat
    node: str
    allocations: tuple[AllocationResult, ...]
    gbps: float | None = None
    """Predicted GB/s of the slowest set on the node; ``None`` when unknown or there is none."""


class Realised(msgspec.Struct, frozen=True, kw_only=True):
    """``moved``: other nodes than those chosen had to be taken."""

    outcome: Outcome
    seated: tuple[Seated, ...] = ()
    reasons: tuple[str, ...] = ()
    moved: bool = False


def realise(
    placer: Placer,
    options: Options,
    kinds: Sequence[Kind],
    chosen: Chosen,
    apart: Sequence[Sequence[str]],
    room: Room | None,
) -> Realised:
    """The devices on the chosen nodes, or on others of one of the sets ``apart`` where those collide."""
    inventory = placer.inventory
    entangled = any(reaches_out(inventory, node) for node, _ in chosen)
    in_order = sorted(chosen, key=lambda item: item[0])
    loads = [(node, load.counts) for node, load in in_order]
    with _holding(inventory) as holding:
        decisions: list[NodeDecision] = []
        for node, counts in loads:
            decision = options.allocate(counts, node)
            if not decision.fits:
                break
            decisions.append(decision)
            if entangled:
                holding.hold(decision.allocations)
        else:
            return _seated(kinds, loads, decisions)
    wanted = tuple(len(kind.units) for kind in kinds)
    same = {tuple(pool.rows for pool in inventory.pools(node).pools) for nodes in apart for node in nodes}
    if len(same) == 1 and options.allocate(wanted, loads[0][0]).outcome is Outcome.NO_FIT:
        why = "all nodes reach the same devices, and there are too few of them for all pods at once"
        return Realised(outcome=Outcome.NO_FIT, reasons=(why,))
    found = pod_by_pod(inventory, options, kinds, apart, room)
    why = "gave up: pods compete for devices that several nodes reach; no way was found, and none is excluded"
    return found or Realised(outcome=Outcome.GAVE_UP, reasons=(why,))


def reaches_out(inventory: Inventory, node: str) -> bool:
    """Whether devices or counters of the node's pools can also be used from another node."""
    return any(
        not record.node_name or record.per_device or len(pool.counter_slices) != len(pool.slices)
        for pool in inventory.pools(node).pools
        for record in pool.slices
    )


def pod_by_pod(
    inventory: Inventory,
    options: Options,
    kinds: Sequence[Kind],
    apart: Sequence[Sequence[str]],
    room: Room | None,
) -> Realised | None:
    """Each unit on the first node that takes it beside the earlier ones, kinds in either order. ``None``
    proves nothing."""
    for nodes in apart:
        for order in (range(len(kinds)), range(len(kinds) - 1, -1, -1)):
            loads: list[tuple[str, Counts]] = []
            decisions: list[NodeDecision] = []
            with _holding(inventory) as holding:
                for kind in (number for number in order for _ in kinds[number].units):
                    found = _first(options, kind, nodes, loads, room)
                    if found is None:
                        break
                    loads.append((found.node, options.one(kind)))
                    decisions.append(found)
                    holding.hold(found.allocations)
                else:
                    return _seated(kinds, loads, decisions, moved=True)
    return None


def _first(
    options: Options,
    kind: int,
    nodes: Sequence[str],
    loads: Sequence[tuple[str, Counts]],
    room: Room | None,
) -> NodeDecision | None:
    """The first node that takes one more unit of a kind."""
    for node in nodes:
        there = [options.one(kind), *(counts for other, counts in loads if other == node)]
        pods = options.pods(tuple(map(sum, zip(*there, strict=True))))
        if options.admits(kind, node) and (room is None or room(node, pods)):
            decision = options.allocate(options.one(kind), node)
            if decision.fits:
                return decision
    return None


def _seated(
    kinds: Sequence[Kind],
    loads: Sequence[tuple[str, Counts]],
    decisions: Sequence[NodeDecision],
    *,
    moved: bool = False,
) -> Realised:
    """Units handed out in order; then every pod with the results of its claims, in order of the members."""
    queues: list[Iterator[Unit]] = [iter(kind.units) for kind in kinds]
    seated: list[Seated] = []
    reasons: list[str] = []
    for (node, counts), decision in zip(loads, decisions, strict=True):
        taken = [next(queues[kind]) for kind, count in enumerate(counts) for _ in range(count)]
        allocations = iter(decision.allocations)
        gbps = decision.score.gbps if decision.score else None
        for unit in taken:
            of_claim = [next(allocations) for _ in unit.claims]
            for seat, claims in zip(unit.seats, unit.claim_of, strict=True):
                seated.append(Seated(seat, node, tuple(of_claim[at] for at in claims), gbps))
        names = Names([claim for unit in taken for claim in unit.claims])
        reasons += map(names.text, decision.reasons)
    seated.sort(key=lambda item: (item.seat.member, item.seat.replica))
    return Realised(outcome=Outcome.FIT, seated=tuple(seated), reasons=tuple(reasons), moved=moved)


# --- holding ---------------------------------------------------------------------------------------------


class _Holding:
    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._names: list[str] = []

    def hold(self, allocations: Sequence[AllocationResult]) -> None:
        for allocation in allocations:
            claim = named(
                ResourceClaim(status=ResourceClaimStatus(allocation=allocation)), f"\x00{len(self._names)}"
            )
            self._inventory.hold_claim(claim)
            self._names.append(f"gang/{claim.metadata.name}")

    def release(self) -> None:
        for name in self._names:
            self._inventory.release_claim(name)


@contextmanager
def _holding(inventory: Inventory) -> Iterator[_Holding]:
    """Devices that are held for the time of a question. The inventory is as before afterwards."""
    holding = _Holding(inventory)
    try:
        yield holding
    finally:
        holding.release()
