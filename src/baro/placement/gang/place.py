"""A gang placed wholly or not at all: the devices of all its pods chosen together.

Several pods may share a node and never a device. Which pods there are in which order makes no difference to
whether they fit. Nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from baro.allocator import DEFAULT_1_37, WORK_LIMIT, Features, Outcome, Policy, SelectorEngine
from baro.inventory import Inventory, Snapshot
from baro.model.kinds.resource import AllocationResult
from baro.placement.gang import words
from baro.placement.gang.cover import Meter, OutOfWork
from baro.placement.gang.domains import LEVELS, Domain, Domains, within
from baro.placement.gang.nearness import WHOLE, Choice, Chooser
from baro.placement.gang.options import Options, Room
from baro.placement.gang.realise import Realised, Seated, pod_by_pod, realise
from baro.placement.gang.units import GangMember, Kind, Seat, Unit, kinds_of, units_of
from baro.placement.placer import Placer

GANG_WORK = 200_000
"""Devices tried and states looked at before a gang is given up; some seconds at worst."""


class GangPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods of a gang go. ``seated`` is in order of members and replicas, one for each pod placed.

    ``outcome`` ``gave-up``: neither a way nor its absence is proved. ``left_out``: pods beyond ``at_least``
    for which there is no place now. ``reasons[0]`` is the answer in one line.
    """

    outcome: Outcome
    seated: tuple[Seated, ...] = ()
    left_out: tuple[Seat, ...] = ()
    domain: Domain | None = None
    """(level, value) of the nearest domain that holds all nodes; ``None`` when no level does."""
    reasons: tuple[str, ...] = ()
    error: str | None = None
    work: int = 0

    @property
    def fits(self) -> bool:
        return self.outcome is Outcome.FIT

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes used, in order of name."""
        return tuple(sorted({seated.node for seated in self.seated}))

    def allocations(self, member: int, replica: int = 0) -> tuple[AllocationResult, ...]:
        """One result per claim of a pod, in order. Raises ``KeyError`` for a pod that is not placed."""
        for seated in self.seated:
            if (seated.seat.member, seated.seat.replica) == (member, replica):
                return seated.allocations
        raise KeyError((member, replica))


def place_gang(  # noqa: PLR0913
    cluster: Snapshot | Inventory,
    members: Sequence[GangMember],
    *,
    nodes: Iterable[str] | None = None,
    without: Collection[str] = (),
    at_least: int | None = None,
    same: Sequence[str] = (),
    near: Sequence[str] = LEVELS,
    beside: Collection[str] = (),
    room: Room | None = None,
    policy: Policy | str = Policy.TOPOLOGY,
    features: Features = DEFAULT_1_37,
    selectors: SelectorEngine | None = None,
    work_limit: int = GANG_WORK,
) -> GangPlacement:
    """Nodes and devices for all pods of a gang, or for none.

    The objective, in this order: preferred alternatives and predicted bandwidth of the worst pod's set (in
    bands); one domain of the nearest level (NVLink across nodes, then the labels ``near`` of nodes); few
    nodes; the least lost to others; names. ``same``: labels of which all nodes must have one value.
    ``beside``: nodes of pods of the gang that run already. ``room(node, pods)`` tells whether a node has CPU
    and memory for some pods at once. ``nodes`` and ``without`` as in ``place``.

    ``at_least``: so many pods will do; when not all fit, the first of them in order that do are placed.
    """
    inventory = cluster if isinstance(cluster, Inventory) else Inventory(cluster)
    placer = Placer.of(inventory, selectors)
    wanted = inventory.node_names() if nodes is None else sorted(set(nodes))
    gone = frozenset(without)
    run = _Run(
        placer=placer,
        members=members,
        nodes=tuple(node for node in wanted if node not in gone),
        same=tuple(same),
        near=tuple(near),
        beside=tuple(beside),
        room=room,
        policy=Policy(policy),
        features=features,
        meter=Meter(work_limit),
    )
    units = units_of(members)
    found = run.place(units)
    if found.outcome is Outcome.NO_FIT and at_least is not None:
        found = _fewer(run, units, at_least) or found
    return found


def _fewer(run: _Run, units: Sequence[Unit], at_least: int) -> GangPlacement | None:
    """The most units from the front that fit, with at least so many pods; ``None`` if that is too many."""
    best: GangPlacement | None = None
    low, high = 1, len(units) - 1
    while low <= high:
        middle = (low + high) // 2
        found = run.place(units[:middle])
        if found.fits:
            best, low = found, middle + 1
            left = tuple(seat for unit in units[middle:] for seat in unit.seats)
            best = msgspec.structs.replace(found, left_out=left)
        else:
            high = middle - 1
    if best is None or len(best.seated) < at_least:
        return None
    line = words.left_out(len(best.left_out), len(best.seated), at_least)
    return msgspec.structs.replace(best, reasons=(best.reasons[0], line, *best.reasons[1:]))


class _Run(msgspec.Struct, frozen=True, kw_only=True):
    """One question, asked for all units or for some of them."""

    placer: Placer
    members: Sequence[GangMember]
    nodes: tuple[str, ...]
    same: tuple[str, ...]
    near: tuple[str, ...]
    beside: tuple[str, ...]
    room: Room | None
    policy: Policy
    features: Features
    meter: Meter

    def place(self, units: Sequence[Unit]) -> GangPlacement:
        if not units:
            return GangPlacement(outcome=Outcome.FIT, reasons=("the gang has no pods",))
        kinds = kinds_of(self.members, units, by_requests=self.room is not None)
        options = Options(self.placer, kinds, self.policy, self.features, WORK_LIMIT, self.meter)
        apart = self._apart()
        try:
            classes = options.bins([node for nodes in apart for node in nodes], self.room)
            domains = Domains(self.placer.inventory, self.nodes, self.near)
            counts = tuple(len(kind.units) for kind in kinds)
            chooser = Chooser(options, classes, apart, domains, counts, self.meter)
            choice = chooser.choose(self.beside)
            if choice is not None:
                found = realise(self.placer, options, kinds, choice.chosen, apart, self.room)
                return self._placed(found, choice)
            return (options.unsure and self._somehow(kinds, options, apart)) or self._nowhere(kinds, options)
        except OutOfWork:
            return self._somehow(kinds, options, apart) or self._gave_up()

    def _somehow(
        self, kinds: Sequence[Kind], options: Options, apart: Sequence[Sequence[str]]
    ) -> GangPlacement | None:
        """A way that is found pod by pod, where the choice of all together is too much work."""
        self.meter.limit = self.meter.done + self.meter.limit
        try:
            found = pod_by_pod(self.placer.inventory, options, kinds, apart, self.room)
        except OutOfWork:
            return None
        if found is None:
            return None
        reasons = (*found.reasons, "found pod by pod: there may be faster or nearer ways")
        return self._placed(msgspec.structs.replace(found, reasons=reasons), None)

    def _apart(self) -> list[list[str]]:
        """The candidates, in sets of which only one may be used: those with one value of the labels."""
        inventory = self.placer.inventory
        if not self.same:
            return [list(self.nodes)]
        sets = within(inventory, self.nodes, self.same)
        there = within(inventory, self.beside, self.same)
        return [nodes for values, nodes in sets.items() if not there or values in there]

    def _placed(self, found: Realised, choice: Choice | None) -> GangPlacement:
        if found.outcome is not Outcome.FIT:
            return GangPlacement(outcome=found.outcome, reasons=found.reasons, work=self.meter.done)
        domain = None if choice is None or choice.domain == WHOLE or found.moved else choice.domain
        used = {seated.node for seated in found.seated}
        if domain is not None and domain[0] == "node" and len(used) == 1:
            domain = None
        return GangPlacement(
            outcome=Outcome.FIT,
            seated=found.seated,
            domain=domain,
            reasons=(words.placed(found.seated, domain), *found.reasons),
            work=self.meter.done,
        )

    def _gave_up(self) -> GangPlacement:
        return GangPlacement(
            outcome=Outcome.GAVE_UP, reasons=(words.gave_up(self.meter.done),), work=self.meter.done
        )

    def _nowhere(self, kinds: Sequence[Kind], options: Options) -> GangPlacement:
        outcome, reasons, error = words.nowhere(
            self.placer.inventory,
            self.members,
            kinds,
            options,
            nodes=self.nodes,
            policy=self.policy,
            features=self.features,
            same=self.same,
        )
        return GangPlacement(outcome=outcome, reasons=reasons, error=error, work=self.meter.done)
