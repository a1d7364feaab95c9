"""Our allocator and upstream's on the same instances, in one run: how long, and whether they agree.

Three tables: typical claims on one node with 8 GPUs; one pod before many nodes; and the recipes A to F and
J, for which upstream's search needs exponential time. Both sides read the same JSON. Upstream runs with the
default gates of 1.37 and is stopped after ``--cap`` seconds, as a scheduler's filter is stopped after 10;
what it would have answered is unknown then. A larger size of a recipe that was stopped already is not tried,
unless ``--every`` is given.

Ours: ``allocate`` and ``place`` with an inventory that exists, which remembers what devices a node has and
what kinds of claims may take of them; *first* is the first claim of its kind on a node that was never looked
at. ``place`` remembers what it found out about kinds of nodes, as in the planner. Upstream: ``NewAllocator``
and ``Allocate`` with selectors compiled before, on one thread. Figures are medians. Run
``python -m bench allocator_peers`` or
``python bench/allocator_peers.py [--k 8,10,12,16,24,32] [--nodes 500,5000] [--cap SECONDS] [--every]``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from baro.allocator import DEFAULT_1_37, Features, NodeDecision, Outcome, Policy, allocate, compile_plan
from baro.inventory import Inventory
from baro.model.kinds.resource import AllocationResult, ResourceClaim
from baro.placement import Placement, place
from bench._instances import GATES, MIG, NODE, Instance, crowd, typical, worst
from bench._peers import Peers, peers, versions
from bench.allocator import RECIPES

POLICIES = (Policy.FIRST_FIT, Policy.TOPOLOGY)

# --- measuring -------------------------------------------------------------------------------------------


class Ours(msgspec.Struct, frozen=True):
    """Nanoseconds of our side by policy: ``pod`` from the claims, ``node`` with the claims compiled,
    ``first`` with nothing remembered of node and claims."""

    first: dict[Policy, float]
    pod: dict[Policy, float]
    node: dict[Policy, float]
    decision: dict[Policy, NodeDecision]


def ours(item: Instance, repeats: int) -> Ours:
    """Our side of an instance."""
    inventory, claims = item.inventory(), item.objects("claims")
    plan = compile_plan(claims, inventory.classes, DEFAULT_1_37)
    measured = Ours({}, {}, {}, {})
    for policy in POLICIES:
        measured.first[policy] = _median_first(inventory, claims, policy, min(repeats, 50))
        for spent, wanted in ((measured.node, plan), (measured.pod, claims)):
            spent[policy], measured.decision[policy] = _median(
                lambda w=wanted, p=policy: allocate(inventory, NODE, w, policy=p),  # type: ignore[misc]
                repeats,
            )
    return measured


def _median_first(
    inventory: Inventory, claims: Sequence[ResourceClaim], policy: Policy, repeats: int
) -> float:
    spent = []
    for _ in range(repeats):
        inventory.derived.clear()
        start = time.perf_counter_ns()
        allocate(inventory, NODE, claims, policy=policy)
        spent.append(time.perf_counter_ns() - start)
    return statistics.median(spent)


def _median(run: Callable[[], NodeDecision], repeats: int) -> tuple[float, NodeDecision]:
    decision = run()
    spent = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        decision = run()
        spent.append(time.perf_counter_ns() - start)
    return statistics.median(spent), decision


def agreement(mine: Ours, theirs: dict[str, Any]) -> str:
    """Whether both sides say the same: fit or not, and with first-fit the devices of each claim."""
    first_fit, topology = mine.decision[Policy.FIRST_FIT], mine.decision[Policy.TOPOLOGY]
    if first_fit.outcome is not topology.outcome:
        return f"DIFFER: first-fit {first_fit.outcome}, topology {topology.outcome}"
    if theirs["outcome"] == "timeout":
        return f"{first_fit.outcome}; upstream unknown"
    if theirs["outcome"] != first_fit.outcome:
        return f"DIFFER: ours {first_fit.outcome}, upstream {theirs['outcome']} {theirs.get('error', '')}"
    if first_fit.outcome is Outcome.FIT:
        chosen = [names([result]) for result in first_fit.allocations]
        if chosen != theirs["devices"]:
            return f"DIFFER: fits with {chosen}, upstream with {theirs['devices']}"
    return f"{first_fit.outcome}, same" + (" devices" if first_fit.outcome is Outcome.FIT else "")


def names(allocations: Iterable[AllocationResult]) -> list[str]:
    """driver/pool/device of all results, as the peer writes them."""
    return [f"{d.driver}/{d.pool}/{d.device}" for result in allocations for d in result.devices.results]


# --- tables ----------------------------------------------------------------------------------------------


def recipes(running: Peers, sizes: Sequence[int], cap: float, every: bool) -> int:
    """The table of worst cases, each the first of its kind. Returns how many rows disagree."""
    print(f"\n{'':12} {'ours, ms':>20} {'upstream':>12} {'upstream / ours':>20}")
    both = f"{'first-fit':>10} {'topology':>9}"
    print(f"{'recipe':<7} {'k':>4} {both} {'ms':>12} {'first-fit':>10} {'topology':>9}")
    wrong = 0
    for letter, what in (RECIPES | {"J": MIG}).items():
        stopped = False
        for k in sizes:
            if letter == "J" and k % 2 == 0:
                k -= 1  # 2g + 1 results  # noqa: PLW2901
            item = worst(letter, k)
            mine = ours(item, 7)
            tried = every or not stopped
            theirs: dict[str, Any] = {"outcome": "timeout"}
            if tried:
                _progress(f"{item.name}: upstream, at most {cap:g} s")
                theirs = answered(running.ask(item.task(7, cap)))
            stopped = stopped or theirs["outcome"] == "timeout"
            said = agreement(mine, theirs)
            wrong += said.startswith("DIFFER")
            took = theirs["newNs"] + theirs["allocateNs"] if theirs["outcome"] != "timeout" else None
            upstream = _upstream(mine, took, cap) if tried else f"{'not tried':>12}{'':>20}"
            print(f"{letter:<7} {k:>4} {_both(mine, 1e-6)} {upstream}  {said}")
        print(f"  {letter}: {what}")
    return wrong


def _both(mine: Ours, unit: float) -> str:
    return f"{mine.first[Policy.FIRST_FIT] * unit:>10.2f} {mine.first[Policy.TOPOLOGY] * unit:>9.2f}"


def _upstream(mine: Ours, took: float | None, cap: float) -> str:
    """Upstream's milliseconds and the two ratios; lower bounds when it was stopped."""
    sign, known = ("> ", cap * 1e9) if took is None else ("", took)
    ratios = (known / mine.first[policy] for policy in (Policy.FIRST_FIT, Policy.TOPOLOGY))
    first_fit, topology = (sign + (f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.1f}") for ratio in ratios)
    ms = f"{sign}{known / 1e6:,.0f}" if took is None else f"{known / 1e6:,.2f}"
    return f"{ms:>12} {first_fit:>10} {topology:>9}"


def claims_on_one_node(running: Peers, cap: float) -> int:
    """The table of typical claims. Returns how many rows disagree."""
    triple, pair = f" {'first':>7} {'pod':>6} {'node':>6}", f" {'pod':>7} {'node':>6}"
    print("\nA claim on one node with 8 GPUs, µs; pod: from the claim, node: with the claim compiled before")
    print(f"{'':<27} {'first-fit':>21} {'topology':>21} {'upstream':>14} {'upstream / ours, pod':>20}")
    print(f"{'':<27}{triple * 2}{pair} {'first-fit':>10} {'topology':>9}")
    wrong = 0
    for item in typical():
        mine = ours(item, 300)
        theirs = answered(running.ask(item.task(2000, cap)))
        said = agreement(mine, theirs)
        wrong += said.startswith("DIFFER")
        pod, node = (theirs["newNs"] + theirs["allocateNs"]), theirs["allocateNs"]
        figures = "".join(
            f" {mine.first[p] / 1e3:>7.1f} {mine.pod[p] / 1e3:>6.1f} {mine.node[p] / 1e3:>6.1f}"
            for p in POLICIES
        )
        figures += f" {pod / 1e3:>7.1f} {node / 1e3:>6.1f}"
        ratios = [f"{pod / mine.pod[policy]:.2f}" for policy in (Policy.FIRST_FIT, Policy.TOPOLOGY)]
        print(f"{item.name:<27}{figures} {ratios[0]:>10} {ratios[1]:>9}  {said}")
    return wrong


def many_nodes(running: Peers, sizes: Sequence[int], cap: float) -> int:
    """The table of one pod before many nodes. Returns how many rows disagree."""
    print("\nA pod that wants 4 of 8 GPUs in one NUMA node, 0 to 8 in use; all nodes are looked at, ms")
    print(
        f"{'nodes':>6} {'policy':>10} {'first pod':>10} {'next pods':>10} {'upstream':>9} {'next, ratio':>12}"
    )
    wrong = 0
    for size in sizes:
        item = crowd(size)
        _progress(f"{item.name}: upstream")
        theirs = running.ask(item.task(5, cap))
        for policy in (Policy.FIRST_FIT, Policy.TOPOLOGY):
            said, first, following = _pods(item, policy, theirs)
            wrong += said.startswith("DIFFER")
            upstream = theirs.get("newNs", 0) + theirs.get("allNs", 0)
            print(
                f"{size:>6} {policy:>10} {first / 1e6:>10.2f} {following / 1e6:>10.2f} {upstream / 1e6:>9.1f}"
                f" {upstream / following:>12.1f}  {said}"
            )
    return wrong


def _pods(item: Instance, policy: Policy, theirs: dict[str, Any]) -> tuple[str, float, float]:
    """What the first answer says beside upstream's; its nanoseconds, and the median of 50 further pods.

    The first pod meets an inventory that was never asked; each pod is held before the next one comes.
    """
    inventory, (wanted,) = item.inventory(), item.objects("claims")
    said, spent = "", []
    for number in range(51):
        meta = msgspec.structs.replace(wanted.metadata, name=f"claim-{number}", uid=f"uid-{number}")
        pod = msgspec.structs.replace(wanted, metadata=meta)
        start = time.perf_counter_ns()
        found = place(inventory, [pod], policy=policy)
        spent.append(time.perf_counter_ns() - start)
        said = said or _same_nodes(found, policy, theirs)
        assert found.fits, "the cluster is too small for 51 pods"
        status = msgspec.structs.replace(pod.status, allocation=found.allocations[0])
        start = time.perf_counter_ns()
        inventory.hold_claim(msgspec.structs.replace(pod, status=status))
        spent[-1] += time.perf_counter_ns() - start
    return said, spent[0], statistics.median(spent[1:])


def _same_nodes(found: Placement, policy: Policy, theirs: dict[str, Any]) -> str:
    if theirs.get("error"):
        return f"DIFFER: upstream says {theirs['error']}"
    mine = {decision.node for decision in found.per_node if decision.fits}
    differing = mine ^ theirs["devices"].keys()
    if differing:
        return f"DIFFER on {len(differing)} nodes, {min(differing)} first"
    if policy is Policy.FIRST_FIT and names(found.allocations) != theirs["devices"][found.node]:
        return f"DIFFER: other devices on {found.node}"
    return f"{len(mine)} nodes fit, same" + (" devices" if policy is Policy.FIRST_FIT else "")


def answered(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with times; one about a task that could not even start has none."""
    return {"outcome": "error", "newNs": 0, "allocateNs": 0, **answer}


def _progress(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--k", default="8,10,12,16,24,32", help="sizes, separated by commas")
    parser.add_argument("--nodes", default="500,5000", help="cluster sizes, separated by commas")
    parser.add_argument("--cap", type=float, default=20.0, help="seconds after which upstream is stopped")
    parser.add_argument(
        "--every", action="store_true", help="try upstream at sizes beyond one it was stopped at"
    )
    options = parser.parse_args(arguments)
    # Taint rules are merged before the allocator sees the slices.
    gates = Features.from_gates((*GATES, "DRADeviceTaintRules"))
    assert gates == DEFAULT_1_37, "both sides must run with the same gates"
    with peers() as running:
        if running is None:
            return
        print(f"upstream: {versions(running)}; stopped after {options.cap:g} s")
        sizes, nodes = ([int(part) for part in given.split(",")] for given in (options.k, options.nodes))
        wrong = claims_on_one_node(running, options.cap)
        wrong += many_nodes(running, nodes, options.cap)
        wrong += recipes(running, sizes, options.cap, options.every)
        print("\nno instance on which the sides disagree" if not wrong else f"\n{wrong} instances DIFFER")


if __name__ == "__main__":
    main(sys.argv[1:])
