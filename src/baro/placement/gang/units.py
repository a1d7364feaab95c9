"""The members of a gang as the units that are placed: what shares a claim stays together, alikes are counted.

Members that use one claim must be where its devices are: they make up one *unit* and go to one node. Units
whose claims and whose demands on a node are the same are of one *kind*; the search knows only how many of
each kind there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from baro.model.kinds.core import NodeSelector, Pod
from baro.model.kinds.resource import AllocationResult, ResourceClaim
from baro.model.pods import requests
from baro.placement.demands import demands, wish, with_wish

ClaimKey = tuple[str, str]
"""Namespace and name."""


class GangMember(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a gang by the unallocated claims that it needs. ``count`` such pods, each with its own claims.

    ``pod``, if known, tells which nodes may be used (tolerations, selector, affinity) and its annotation
    ``baro.dev/topology`` is that of its claims. Members with claims of one namespace and name share them,
    unless they stand for several pods.
    """

    claims: tuple[ResourceClaim, ...]
    pod: Pod | None = None
    allocated: tuple[AllocationResult, ...] = ()
    """Of claims of the pod that have devices already: its node must reach these."""
    count: int = 1
    name: str = ""

    @property
    def title(self) -> str:
        """What people call it."""
        if self.name:
            return self.name
        if self.pod is not None:
            return f"{self.pod.metadata.namespace or 'default'}/{self.pod.metadata.name}"
        return ", ".join(claim.metadata.name for claim in self.claims) or "a pod without claims"


class Seat(msgspec.Struct, frozen=True):
    """One pod: replica ``replica`` of member ``member``."""

    member: int
    replica: int


class Unit(msgspec.Struct, frozen=True):
    """Pods that go to one node, and their claims, each once."""

    seats: tuple[Seat, ...]
    claims: tuple[ResourceClaim, ...]
    claim_of: tuple[tuple[int, ...], ...]
    """Per seat: its claims as positions in ``claims``."""


class Kind(msgspec.Struct, frozen=True):
    """Units that are alike, in the order of the members."""

    units: tuple[Unit, ...]
    pods: tuple[Pod, ...]
    """The pods of one unit, as far as they are known: a node must meet what each demands."""
    selectors: tuple[NodeSelector, ...] = ()
    """Nodes that reach the devices which these pods have already."""

    @property
    def claims(self) -> tuple[ResourceClaim, ...]:
        """Those of the first unit, which stand for all."""
        return self.units[0].claims


def units_of(members: Sequence[GangMember]) -> tuple[Unit, ...]:
    """The units, in order of their first members."""
    parts: list[list[Seat]] = []
    of_claim: dict[ClaimKey, int] = {}
    for number, member in enumerate(members):
        keys = [_key(claim) for claim in member.claims]
        for replica in range(member.count):
            joined = sorted({of_claim[key] for key in keys if key in of_claim} if member.count == 1 else ())
            if not joined:
                parts.append([])
                joined = [len(parts) - 1]
            target = joined[0]
            for other in joined[1:]:
                parts[target] += parts[other]
                parts[other] = []
                of_claim.update({key: target for key, at in of_claim.items() if at == other})
            parts[target].append(Seat(number, replica))
            if member.count == 1:
                of_claim.update(dict.fromkeys(keys, target))
    return tuple(_unit(members, sorted(part, key=lambda s: (s.member, s.replica))) for part in parts if part)


def kinds_of(
    members: Sequence[GangMember], units: Sequence[Unit], *, by_requests: bool = False
) -> tuple[Kind, ...]:
    """Units by what they ask for, in order of their first units; with ``by_requests`` CPU, memory and so on
    count as well."""
    found: dict[object, list[Unit]] = {}
    pods: dict[object, tuple[Pod, ...]] = {}
    selectors: dict[object, tuple[NodeSelector, ...]] = {}
    for unit in units:
        mine = tuple(pod for seat in unit.seats if (pod := members[seat.member].pod) is not None)
        specs = [(claim.spec, wish(claim)) for claim in unit.claims]
        asked = sorted(sorted(requests(pod).items()) for pod in mine) if by_requests else []
        reach = tuple(
            selector
            for seat in unit.seats
            for item in members[seat.member].allocated
            if (selector := item.node_selector) is not None
        )
        key = (msgspec.json.encode((specs, asked, reach)), tuple(sorted(map(demands, mine))))
        found.setdefault(key, []).append(unit)
        pods.setdefault(key, mine)
        selectors.setdefault(key, reach)
    return tuple(Kind(tuple(of_kind), pods[key], selectors[key]) for key, of_kind in found.items())


def _unit(members: Sequence[GangMember], seats: Sequence[Seat]) -> Unit:
    claims: dict[object, ResourceClaim] = {}
    claim_of: list[tuple[int, ...]] = []
    for seat in seats:
        member = members[seat.member]
        mine = []
        for claim in with_wish(member.claims, member.pod):
            key = _key(claim)
            claims.setdefault(key, claim)
            mine.append(list(claims).index(key))
        claim_of.append(tuple(mine))
    return Unit(tuple(seats), tuple(claims.values()), tuple(claim_of))


def _key(claim: ResourceClaim) -> ClaimKey:
    return claim.metadata.namespace or "default", claim.metadata.name
