"""Why a set was chosen and why nothing fits, in words.

Reads the finished search; decides nothing. Figures that are not known are not printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from baro.allocator.constraints import UNSET
from baro.allocator.frame import mask_of
from baro.allocator.graph import NodeGraph
from baro.allocator.infer import AttributeFinder, finder_of
from baro.allocator.ledger import Pick
from baro.allocator.plan import Alternative, ClaimPlan, Constraint
from baro.allocator.problem import NodeProblem, bits
from baro.allocator.search import Search
from baro.inventory.columns import TypedValue
from baro.topology.products import model_name

_ALIKE = 0.8
"""Two attribute ids at least this similar (0 to 1) are named as a near miss."""


def why(problem: NodeProblem, graph: NodeGraph | None, picks: Sequence[Pick]) -> tuple[str, ...]:
    """One line per claim, such as ``4×H200 on node a: island nvl1, 450 GB/s ring``."""
    lines: list[str] = []
    for claim in range(len(problem.plan.claims)):
        devices = [pick.device for pick in picks if pick.claim == claim]
        if devices:
            lines.append(_chosen(problem, graph, devices))
    return tuple(lines)


def _chosen(problem: NodeProblem, graph: NodeGraph | None, devices: Sequence[int]) -> str:
    mask = 0 if graph is None else graph.mask
    gpus = [device for device in devices if mask >> device & 1]
    named = [_name(problem, device) for device in gpus]
    counts: dict[str, int] = {}
    for model, _ in named:
        counts[model] = counts.get(model, 0) + 1
    if len(gpus) < len(devices):
        for device in devices:
            if not mask >> device & 1:
                driver = problem.keys[device].driver
                counts[driver] = counts.get(driver, 0) + 1
    text = " + ".join(f"{count}×{name}" for name, count in counts.items()) + f" on node {problem.node}"
    if graph is None or len(gpus) < 2:
        return text
    chosen = graph.to_shape(mask_of(gpus))
    facts = _place(graph, chosen, [island for _, island in named])
    gbps = graph.shape.gbps(chosen)
    if gbps is not None:
        facts.append(f"{gbps:.4g} GB/s ring")
    return f"{text}: {', '.join(facts)}" if facts else text


def _name(problem: NodeProblem, device: int) -> tuple[str, str | None]:
    """The model of a device, and the island that it says it is in; found once per node."""
    known: dict[int, tuple[str, str | None]] = problem.frame.derived.setdefault(_name, {})
    found = known.get(device)
    if found is None:
        finder, row = finder_of(problem.inventory.table), problem.rows[device]
        found = (_model(finder, row), _short(finder.text("nvlinkDomain", row), problem.node))
        known[device] = found
    return found


def _model(finder: AttributeFinder, row: int) -> str:
    return finder.text("model", row) or model_name(finder.text("productName", row)) or "GPU"


def _place(graph: NodeGraph, chosen: int, named: Sequence[str | None]) -> list[str]:
    """Which island, or how many GPUs in each of several. ``named``: what each GPU says."""
    shape = graph.shape
    if not shape.islands:
        return []
    labels: dict[str, int] = {}
    for name in named:
        if name is not None:
            labels[name] = labels.get(name, 0) + 1
    if any(not chosen & ~island for island in shape.islands):
        return [f"island {next(iter(labels))}" if len(labels) == 1 and None not in named else "one island"]
    if len(labels) > 1:
        split = ", ".join(f"{count} in {name}" for name, count in sorted(labels.items()))
        return [f"across islands ({split})"]
    return ["across islands"]


def _short(name: str | None, node: str) -> str | None:
    """An island id without the node's name in front, which the reader sees anyway."""
    if name is None:
        return None
    for separator in "-/.":
        if name.startswith(node + separator):
            return name[len(node) + 1 :]
    return name


def why_not(search: Search) -> tuple[str, ...]:
    """Per claim what is short: devices, then constraints; a last line if only together they do not fit."""
    found: list[str] = []
    for index, claim in enumerate(search.plan.claims):
        short = list(_short_requests(search, claim))
        found += short
        if not short:
            for number, constraint in enumerate(claim.constraints):
                found += _constraint_reasons(search, index, claim, number, constraint)
    if not found and search.plan.claims:
        found.append(
            "each request alone could be satisfied on this node, but not all of them together with the "
            "constraints, counters and capacities"
        )
    return tuple(dict.fromkeys(found))


def _short_requests(search: Search, claim: ClaimPlan) -> Iterator[str]:
    problem = search.problem
    for request in claim.requests:
        lines: list[str] = []
        for alternative in request.alternatives:
            need = search.need(alternative)
            usable = search.eligible(alternative).bit_count()
            if usable >= max(need, 1):
                break
            lines.append(_counts(problem, claim, alternative, need))
        else:
            yield from lines


def _counts(problem: NodeProblem, claim: ClaimPlan, alternative: Alternative, need: int) -> str:
    who = f"claim {claim.name}, request {alternative.name}"
    selected = [d for d in range(problem.size) if problem.verdict(alternative, d) is True]
    free = [d for d in selected if problem.free >> d & 1 and problem.usable >> d & 1]
    fit, _ = problem.candidates(alternative)
    wanted = "all matching devices" if alternative.all_devices else f"{need} devices"
    text = (
        f"{who}: {wanted} needed, {problem.size} on the node, {len(selected)} match, {len(free)} of them free"
    )
    refused = len(free) - (fit & sum(1 << d for d in free)).bit_count()
    return f"{text}, {refused} of those tainted or without the capacity" if refused else text


def _constraint_reasons(
    search: Search, index: int, claim: ClaimPlan, number: int, constraint: Constraint
) -> Iterator[str]:
    problem = search.problem
    data = search.constraint_data(index)[number]
    devices = 0
    need = 0
    for request in claim.requests:
        covered = [a for a in request.alternatives if number in a.constraints]
        if covered:
            need += min(search.need(a) for a in covered)
            for alternative in covered:
                devices |= search.eligible(alternative)
    if constraint.distinct:
        return
    who = f"claim {claim.name}: matchAttribute {constraint.attribute}"
    lacking = devices & ~data.present
    if lacking == devices:
        yield f"{who}: no device has it"
    yield from _near_misses(problem, lacking, constraint.attribute)
    yield from _type_mismatch(problem, devices & data.present, data.values, who)
    largest = max((((mask & devices).bit_count()) for mask in data.masks.values()), default=0)
    if 0 < largest < need:
        free = devices.bit_count()
        yield f"{who}: {need} devices with one value needed, {free} free, largest group has {largest}"


def _type_mismatch(
    problem: NodeProblem, devices: int, values: Sequence[TypedValue | None], who: str
) -> Iterator[str]:
    kinds: dict[str, str] = {}
    for device in bits(devices):
        value = values[device]
        if value is not None and value != UNSET:
            kinds.setdefault(value[0], problem.keys[device].driver)
    if len(kinds) > 1:
        text = " vs ".join(sorted(kinds))
        sources = ", ".join(f"{kind} from {driver}" for kind, driver in sorted(kinds.items()))
        yield f"{who}: attribute type mismatch {text} ({sources})"


def _near_misses(problem: NodeProblem, devices: int, attribute: str) -> Iterator[str]:
    """An attribute under another name or domain that was probably meant; one line per driver."""
    wanted = attribute.rpartition("/")[2].casefold()
    seen: set[str] = set()
    for device in bits(devices):
        key = problem.keys[device]
        if key.driver in seen:
            continue
        seen.add(key.driver)
        for (domain, identifier), _ in problem.inventory.table.attributes_of(problem.rows[device]):
            name = identifier.casefold()
            if name == wanted or SequenceMatcher(None, name, wanted).ratio() >= _ALIKE:
                yield f"device {key.device} has {domain}/{identifier}, not {attribute}"
