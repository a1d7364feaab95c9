"""Our allocator against upstream's v0.37.2 on random instances: outcome, error text, devices, whole results.

Every difference is a defect of ours or a quirk of upstream. With ``compatibility`` on (the default here) the
known quirks are kept, so no difference may remain; ``--fixed`` compares what baro does by default and prints
how often it differs. Instances come from ``bench._allocator_random`` by seed; ``--shrink`` reduces each
differing one. Needs Go, as ``bench._peers`` says. Run
``python -m bench allocator_differential [--seeds 20000] [--start 0] [--fixed] [--shrink]``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from baro.allocator import Features, NodeDecision, Policy, allocate
from baro.conformance.allocation import SHARE_ID, convert
from baro.inventory import Inventory, Snapshot
from baro.model.kinds.core import Node
from baro.model.kinds.resource import (
    AllocationResult,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from baro.model.quantity import Quantity
from bench._allocator_random import instance, tainted
from bench._allocator_shrink import shrink
from bench._peers import Peers, peers, versions

Body = dict[str, Any]
CAP_SECONDS = 5.0


def ours(body: Mapping[str, Any], *, compatibility: bool, policy: Policy = Policy.FIRST_FIT) -> NodeDecision:
    """Our answer to an instance."""
    features = msgspec.structs.replace(Features.from_gates(body["features"]), compatibility=compatibility)
    inventory = Inventory(
        Snapshot(
            nodes=(convert(body["node"], Node),),
            slices=tuple(convert(item, ResourceSlice) for item in body["resourceSlices"]),
            classes=tuple(convert(item, DeviceClass) for item in body["deviceClasses"]),
            claims=tuple(convert(item, ResourceClaim) for item in body["held"]),
            taint_rules=tuple(convert(item, DeviceTaintRule) for item in body.get("rules", ())),
        )
    )
    claims = [convert(item, ResourceClaim) for item in body["claims"]]
    name = body["node"]["metadata"]["name"]
    return allocate(inventory, name, claims, policy=policy, features=features, new_share_id=lambda: SHARE_ID)


def upstream(running: Peers, body: Mapping[str, Any]) -> Body:
    """Upstream's answer: ``outcome``, ``error``, ``onNode``, ``results``."""
    task = {"task": "allocate", "full": True, "repeats": 1, "capSeconds": CAP_SECONDS, **tainted(dict(body))}
    answer = running.ask(task)
    answer.setdefault("outcome", "panic")
    return answer


def plain(result: AllocationResult) -> Any:
    """A result with shares and amounts in one spelling, so that equal ones compare equal."""
    body = msgspec.to_builtins(result)
    for item in body.get("devices", {}).get("results", ()):
        if "shareID" in item:
            item["shareID"] = SHARE_ID
        for name, raw in item.get("consumedCapacity", {}).items():
            item["consumedCapacity"][name] = str(Quantity.parse(raw))
    return body


def difference(mine: NodeDecision, theirs: Mapping[str, Any]) -> str | None:
    """What differs, as ``kind: ours, upstream``; ``None`` when nothing does or upstream did not finish."""
    if theirs["outcome"] in ("timeout", "panic"):
        return None
    if mine.outcome.value != theirs["outcome"]:
        said = f"{theirs['outcome']} {theirs.get('error', '')}"
        return f"outcome: {mine.outcome.value} {mine.error or ''}, upstream {said}"
    if theirs["outcome"] == "error":
        if mine.on_node != theirs.get("onNode", False):
            return f"scope of the error: on the node {mine.on_node}, upstream not: {theirs['error']}"
        if mine.error != theirs["error"] and not _of_node_selection(mine.error, theirs["error"]):
            return f"error text: {mine.error!r}, upstream {theirs['error']!r}"
        return None
    if theirs["outcome"] != "fits":
        return None
    expected = [convert(item, AllocationResult) for item in theirs.get("results") or ()]
    if list(map(_devices, mine.allocations)) != list(map(_devices, expected)):
        return f"devices: {list(map(_devices, mine.allocations))}, upstream {list(map(_devices, expected))}"
    for own, other in zip(map(plain, mine.allocations), map(plain, expected), strict=True):
        if own != other:
            return f"results: {json.dumps(own, sort_keys=True)}, upstream {json.dumps(other, sort_keys=True)}"
    return None


def _of_node_selection(mine: str | None, theirs: str) -> bool:
    """Upstream prints its structures in this error; that text is not worth having."""
    what = "node selector"
    return mine is not None and what in mine and what in theirs


def _devices(result: AllocationResult) -> list[str]:
    return [f"{d.request}={d.driver}/{d.pool}/{d.device}" for d in result.devices.results]


def run(running: Peers, seeds: Sequence[int], *, compatibility: bool, reduce: bool) -> Counter[str]:
    """Compare all seeds. Returns how many answers there were of each kind; differences start with DIFFER."""
    tally = Counter[str]()
    for number, seed in enumerate(seeds):
        body = instance(seed)
        theirs = upstream(running, body)
        found = difference(ours(body, compatibility=compatibility), theirs)
        tally[f"upstream {theirs['outcome']}"] += 1
        if found is not None:
            tally[f"DIFFER {found.partition(':')[0]}"] += 1
            print(f"seed {seed}: {found}")
            if reduce:
                print(json.dumps(_shrunk(running, body, compatibility)))
        if number % 1000 == 999:
            print(f"bench: {number + 1} of {len(seeds)}", file=sys.stderr, flush=True)
    return tally


def _shrunk(running: Peers, body: Body, compatibility: bool) -> Body:
    def pair(candidate: Body) -> tuple[str, ...]:
        mine, theirs = ours(candidate, compatibility=compatibility), upstream(running, candidate)
        said = difference(mine, theirs)
        return () if said is None else (said.partition(":")[0], mine.outcome, theirs["outcome"])

    wanted = pair(body)

    def differs(candidate: Body) -> bool:
        try:
            return pair(candidate) == wanted
        except (msgspec.ValidationError, KeyError, TypeError, ValueError):
            return False

    return shrink(body, differs)


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20_000, help="how many instances")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--fixed", action="store_true", help="our default, without upstream's open quirks")
    parser.add_argument("--shrink", action="store_true", help="print each differing instance, reduced")
    options = parser.parse_args(arguments)
    with peers() as running:
        if running is None:
            return 0
        print(f"upstream: {versions(running)}")
        seeds = range(options.start, options.start + options.seeds)
        tally = run(running, seeds, compatibility=not options.fixed, reduce=options.shrink)
    for what, count in sorted(tally.items()):
        print(f"{what:<40}{count:>8}")
    return int(any(what.startswith("DIFFER") for what in tally))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
