"""A gang's placement in words: the answer first, then what each node got, or why it fits nowhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from baro.allocator import Features, Outcome, Policy
from baro.inventory import Inventory
from baro.placement.gang.domains import Domain
from baro.placement.gang.options import Options
from baro.placement.gang.realise import Seated
from baro.placement.gang.units import GangMember, Kind
from baro.placement.place import place

_MOST_NODES = 8


def placed(seated: Sequence[Seated], domain: Domain | None) -> str:
    """``4 pods on 2 nodes in NVLink domain r1: 2 on a, 2 on b; 360 GB/s ring in the slowest pod's set``."""
    counts = Counter(item.node for item in seated)
    nodes = [f"{count} on {node}" for node, count in sorted(counts.items())]
    if len(nodes) > _MOST_NODES:
        nodes = [*nodes[:_MOST_NODES], f"and {len(nodes) - _MOST_NODES} more"]
    where = f" in {domain[0]} {domain[1]}" if domain is not None else ""
    line = f"{_pods(len(seated))} on {_nodes(len(counts))}{where}: {', '.join(nodes)}"
    slowest = min((item.gbps for item in seated if item.gbps is not None), default=None)
    return line if slowest is None else f"{line}; {slowest:g} GB/s ring in the slowest pod's set"


def left_out(count: int, there: int, at_least: int) -> str:
    return f"{_pods(count)} found no place; {there} have one, and the gang needs {at_least}"


def gave_up(work: int) -> str:
    return f"gave up after {work} steps; neither a fit nor its absence is proved"


def nowhere(  # noqa: PLR0913
    inventory: Inventory,
    members: Sequence[GangMember],
    kinds: Sequence[Kind],
    options: Options,
    *,
    nodes: Sequence[str],
    policy: Policy,
    features: Features,
    same: Sequence[str],
) -> tuple[Outcome, tuple[str, ...], str | None]:
    """(outcome, reasons, error): pods that fit nowhere even alone, else how many fit at once."""
    for number, kind in enumerate(kinds):
        if options.alone(number):
            continue
        unit = kind.units[0]
        pod = members[unit.seats[0].member].pod
        found = place(inventory, unit.claims, nodes=nodes, policy=policy, features=features, pod=pod)
        title = members[unit.seats[0].member].title
        if found.fits:
            return Outcome.NO_FIT, (f"{title} fits on no node that has room for it",), None
        outcome = Outcome.ERROR if found.error is not None else Outcome.NO_FIT
        if outcome is Outcome.NO_FIT and any(one.outcome is Outcome.GAVE_UP for one in found.per_node):
            outcome = Outcome.GAVE_UP
        return outcome, tuple(f"{title}: {reason}" for reason in found.reasons), found.error
    outcome = Outcome.GAVE_UP if options.unsure else Outcome.NO_FIT
    total = sum(len(unit.seats) for kind in kinds for unit in kind.units)
    where = f" with one value of {', '.join(same)}" if same else ""
    if len(kinds) == 1:
        fit = options.most(0) * len(kinds[0].units[0].seats)
        if fit < total:
            return outcome, (f"{fit} of {_pods(total)} fit at the same time{where}",), None
    return outcome, (f"each of {_pods(total)} fits by itself, not all at the same time{where}",), None


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
