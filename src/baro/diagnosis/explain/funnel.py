"""The funnel of one request on one node: how many devices are left after each step, and which fell out.

Every step is a verdict of the production allocator (``NodeProblem``) asked for a shorter request: with the
first selectors only, without tolerations, without capacities. So the last step is by construction what the
search may take, and a test holds the two together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from baro.allocator.constraints import ConstraintData
from baro.allocator.plan import Alternative, ClaimPlan, Plan
from baro.allocator.problem import NodeProblem, bits
from baro.diagnosis.explain import eyes
from baro.diagnosis.explain.result import Funnel, Stage, Step
from baro.diagnosis.explain.values import published
from baro.inventory.taints import BLOCKING_EFFECTS, tolerates

_MOST_LOST = 8
"""Names of devices that a stage lists; the count says how many there are."""


def funnels(problem: NodeProblem, plan: Plan) -> tuple[Funnel, ...]:
    """One funnel per claim, request and alternative, in order. Works on nodes where the search stops with an
    error as well: then as far as the verdicts go."""
    found: list[Funnel] = []
    for claim in plan.claims:
        for request in claim.requests:
            if request.refusal is not None:
                found.append(_refused(claim, request.name, request.refusal))
            for alternative in request.alternatives:
                found.append(_funnel(problem, claim, alternative))
    return tuple(found)


def _refused(claim: ClaimPlan, request: str, refusal: str) -> Funnel:
    return Funnel(claim=claim.name, request=request, wanted="", need=1, error=refusal)


def _funnel(problem: NodeProblem, claim: ClaimPlan, alternative: Alternative) -> Funnel:
    steps = _Steps(problem, alternative)
    everything = (1 << problem.size) - 1
    left, matching, error = _until_selected(problem, alternative, steps, everything)
    if alternative.refusal is None:
        left = _until_usable(problem, alternative, steps, left)
    need = max(matching.bit_count(), 1) if alternative.all_devices else alternative.count
    for index in alternative.constraints if alternative.refusal is None else ():
        data = eyes.constrained(problem, claim.constraints[index], index, alternative)
        _constraint(steps, claim, index, data, left, need)
    return Funnel(
        claim=claim.name,
        request=alternative.name,
        wanted="all matching devices" if alternative.all_devices else f"{need} device{'s' * (need != 1)}",
        need=need,
        device_class=alternative.device_class.metadata.name if alternative.device_class else "",
        all_devices=alternative.all_devices,
        stages=tuple(steps.stages),
        error=alternative.refusal or error,
    )


class _Steps:
    """Stages as they come; a step that loses nothing is kept only where ``always`` says so."""

    def __init__(self, problem: NodeProblem, alternative: Alternative) -> None:
        self.stages: list[Stage] = []
        self._problem = problem
        self._alternative = alternative

    def add(
        self,
        step: Step,
        before: int,
        after: int,
        *,
        label: str = "",
        text: str = "",
        notes: Iterable[str] = (),
        always: bool = True,
    ) -> int:
        lost = before & ~after
        if always or lost:
            names = [self._problem.keys[device].device for device in bits(lost)]
            self.stages.append(
                Stage(
                    step=step,
                    label=label or step.value,
                    text=text,
                    before=before.bit_count(),
                    after=after.bit_count(),
                    lost=tuple(names[:_MOST_LOST]),
                    notes=tuple(notes) if lost or not after else (),
                )
            )
        return after


def _until_selected(
    problem: NodeProblem, alternative: Alternative, steps: _Steps, everything: int
) -> tuple[int, int, str | None]:
    """Published, pools, place, class, selectors. Returns (left, all that match, first selector failure).

    ``left`` counts only usable pools; mode All counts all that match, since it must take all of them.
    """
    here = eyes.here(problem)
    steps.add(Step.PUBLISHED, everything, everything)
    steps.add(Step.HERE, everything, here, always=False)
    left = steps.add(
        Step.POOL, here, here & problem.usable, notes=pool_notes(problem), always=False, label="pool"
    )
    if alternative.device_class is None or alternative.refusal is not None:
        return left, 0, None
    matching, error = here, None
    of_class = sum(selector.place.startswith("class ") for selector in alternative.selectors)
    for count in range(len(alternative.selectors) + 1):
        if count == 0 and of_class:
            continue  # the class has selectors of its own: they are the next step
        selected, failures = _selected(problem, alternative, count, matching)
        error = error or next(iter(failures), None)
        before, matching = left, selected
        left &= selected
        selector = alternative.selectors[count - 1] if count else None
        text = selector.expression if selector else ""
        if count <= of_class:
            step, label = Step.CLASS, f"class {count}" if of_class > 1 else "class"
        else:
            step, label = Step.SELECTOR, f"selector {count - of_class}"
        notes = [*_failed(failures), *published(problem, text, before & ~left)]
        steps.add(step, before, left, label=label, text=text, notes=notes)
    if alternative.all_devices:
        # Mode All passes over devices that could never hold what is asked for; they are not "all" of them.
        able = sum(1 << d for d in bits(matching) if eyes.could_hold(problem, alternative, d))
        matching &= able
        left = steps.add(Step.CAPACITY, left, left & able, label="able to hold it", always=False)
    return left, matching, error


def _selected(
    problem: NodeProblem, alternative: Alternative, count: int, within: int
) -> tuple[int, list[str]]:
    """The devices that the first ``count`` selectors all select, and upstream's texts of failures."""
    found, failures = 0, list[str]()
    for device in bits(within):
        verdict = eyes.selected(problem, alternative, count, device)
        if verdict is True:
            found |= 1 << device
        elif isinstance(verdict, str):
            failures.append(verdict)
    return found, failures


def _failed(failures: Sequence[str]) -> Iterator[str]:
    if failures:
        more = f" (and on {len(failures) - 1} more devices)" if len(failures) > 1 else ""
        yield f"{failures[0]}{more}"


def pool_notes(problem: NodeProblem) -> Iterator[str]:
    """What is wrong with the pools of the node."""
    for pool in problem.pools:
        if pool.incomplete:
            yield (
                f"pool {pool.id} is incomplete: {len(pool.slices)} of {pool.slices[0].slice_count} slices of"
                f" generation {pool.generation} are there"
            )
        if pool.invalid:
            yield f"pool {pool.id} is invalid: {pool.invalid}"


# --- use, taints, capacity ----------------------------------------------------------------------------------


def _until_usable(problem: NodeProblem, alternative: Alternative, steps: _Steps, left: int) -> int:
    """Free, untainted, with the capacity. The last is what ``NodeProblem.candidates`` says."""
    if not alternative.admin:
        left = steps.add(Step.FREE, left, left & problem.free, notes=_holders(problem, left & ~problem.free))
    tainted = sum(1 << device for device in bits(left) if untolerated(problem, alternative, device))
    left = steps.add(Step.TAINT, left, left & ~tainted, notes=_taints(problem, alternative, tainted))
    fit, _ = problem.candidates(alternative)
    off = sum(1 << device for device in bits(left & ~fit) if _feature_off(problem, device))
    left = steps.add(
        Step.FEATURE,
        left,
        left & ~off,
        notes=("the devices need a feature that is off (DRAPartitionableDevices, binding conditions)",),
        always=False,
    )
    wants = ", ".join(f"{name} {raw}" for name, raw in alternative.capacity.items())
    return steps.add(
        Step.CAPACITY,
        left,
        left & fit,
        text=wants,
        notes=_capacities(problem, alternative, left & ~fit),
        always=bool(alternative.capacity),
    )


def _feature_off(problem: NodeProblem, device: int) -> bool:
    rare, features = problem.rare[device], problem.features
    return bool(
        (rare.consumes_counters and not features.partitionable)
        or (rare.binding_conditions and not features.binding_conditions)
    )


def untolerated(problem: NodeProblem, alternative: Alternative, device: int) -> tuple[str, ...]:
    """The taints of a device that keep the request off it, as ``key=value:effect``."""
    return tuple(
        f"{taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}"
        for taint in eyes.taints(problem, device)
        if taint.effect in BLOCKING_EFFECTS and not any(tolerates(t, taint) for t in alternative.tolerations)
    )


def _taints(problem: NodeProblem, alternative: Alternative, tainted: int) -> Iterator[str]:
    """Each taint with the devices that have it."""
    by_taint: dict[str, list[str]] = {}
    for device in bits(tainted):
        for taint in untolerated(problem, alternative, device):
            by_taint.setdefault(taint, []).append(problem.keys[device].device)
    for taint, devices in by_taint.items():
        yield f"{taint} on {some(devices)}"


def _holders(problem: NodeProblem, taken: int) -> Iterator[str]:
    """Each claim that holds some of them: ``held by claim ns/x: gpu-0, gpu-1``."""
    by_claim: dict[str, list[str]] = {}
    for device in bits(taken):
        for share in problem.inventory.usage.holders.get(problem.keys[device], ()):
            by_claim.setdefault(share.claim, []).append(problem.keys[device].device)
    for claim, devices in by_claim.items():
        yield f"held by claim {claim}: {some(dict.fromkeys(devices))}"


def _capacities(problem: NodeProblem, alternative: Alternative, short: int) -> Iterator[str]:
    """What the devices have of the capacities asked for."""
    has: Counter[str] = Counter()
    for device in bits(short):
        driver = problem.keys[device].driver
        values = eyes.capacities(problem, device)
        for name in alternative.capacity:
            full = "/".join(problem.inventory.table.qualified(driver, name))
            has[f"{name} {values[full][0]}" if full in values else f"no {name}"] += 1
        if not alternative.capacity:
            has["nothing left to share"] += 1
    if has:
        yield "the devices have " + ", ".join(f"{text} ({count})" for text, count in has.most_common(4))


# --- constraints --------------------------------------------------------------------------------------------


def _constraint(
    steps: _Steps, claim: ClaimPlan, index: int, data: ConstraintData, left: int, need: int
) -> None:
    """How many of the devices that are left can go together under one constraint of the claim."""
    attribute = claim.constraints[index].attribute
    kind = "distinctAttribute" if data.distinct else "matchAttribute"
    present = left & data.present
    notes: list[str] = []
    if left & ~present:
        notes.append(f"{(left & ~present).bit_count()} of {left.bit_count()} do not publish {attribute}")
    groups = sorted(
        ((mask & present).bit_count(), _value(value)) for value, mask in data.masks.items() if mask & present
    )[::-1]
    if groups and not data.set_valued:
        listed = ", ".join(f"{value} ({count})" for count, value in groups[:4])
        notes.append(f"values: {listed}{', …' if len(groups) > 4 else ''}")
    if data.set_valued:
        after = present.bit_count()
    elif data.distinct:
        after = len(groups)
    else:
        after = max((count for count, _ in groups), default=0)
    steps.stages.append(
        Stage(
            step=Step.CONSTRAINT,
            label=f"constraint {index + 1}",
            text=f"{kind} {attribute}",
            before=left.bit_count(),
            after=min(after, left.bit_count()),
            notes=tuple(notes) if after < left.bit_count() else (),
        )
    )


def _value(value: object) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        kind, content = value
        if kind == "unset":
            return "of an unknown kind"
        return str(content).lower() if kind == "bool" else str(content)
    return str(value)


def some(names: Iterable[str], most: int = 4) -> str:
    """``gpu-0, gpu-1 and 3 more``."""
    listed = list(names)
    if len(listed) <= most:
        return ", ".join(listed)
    return f"{', '.join(listed[:most])} and {len(listed) - most} more"
