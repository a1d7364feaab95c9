"""The explanation's verdict and step against upstream's answers: its own scenarios, and the oracle.

The oracle's selector results are upstream's own, so the counts of the funnel's selection steps are checked
against something that shares no code with them.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from baro.allocator import Outcome, Policy, SelectorEngine, cel_engine, compile_plan
from baro.conformance.allocation import TableSelectors, outcome_class
from baro.diagnosis.evidence import Evidence
from baro.diagnosis.explain import Explanation, Options, Subject, Verdict, World, explain
from baro.diagnosis.explain.answer import answer
from baro.diagnosis.explain.changes import applied
from baro.diagnosis.explain.result import Answer, Funnel, MissKind, Step
from baro.inventory import Inventory
from baro.model.kinds.resource import DeviceSubRequest, ExactDeviceRequest
from tests.support.allocator import Instance, oracle, upstream_cases
from tests.support.explain import pod


def _options(instance: Instance, **more: Any) -> Options:
    def engine(inventory: Inventory) -> SelectorEngine:
        return cel_engine(inventory) if instance.table is None else TableSelectors(inventory, instance.table)

    return Options(features=instance.features, engine=engine, **more)


def _answer(instance: Instance) -> Answer:
    world = World(Evidence(snapshot=instance.snapshot), _options(instance))
    plan = compile_plan(instance.claims, world.inventory.classes, instance.features)
    return answer(world, instance.node, instance.claims, plan, Policy.FIRST_FIT)


@cache
def _answers() -> tuple[tuple[Instance, Answer], ...]:
    """Asked once for all tests. Pods without claims have nothing to explain."""
    return tuple((item, _answer(item)) for item in (*upstream_cases(), *oracle()) if item.claims)


def test_the_verdict_is_upstreams_on_all_133_scenarios_and_on_the_whole_oracle() -> None:
    compared = [(item, said) for item, said in _answers() if item.answer and not item.suspect]
    wrong = [
        (item.name, said.outcome, said.error)
        for item, said in compared
        if (Outcome(said.outcome), said.on_node) != outcome_class(item.answer)
    ]
    assert wrong == []
    assert len(compared) >= 2_300


STEPS = {
    "could not retrieve device class": Step.CLASS,
    "missing device class name": Step.CLASS,
    "class ": Step.CLASS,
    "CEL": Step.SELECTOR,
    "invalid resource pools": Step.POOL,
    "is currently": Step.POOL,
    "node selector": Step.POOL,
    "exceeds the claim limit": Step.LIMIT,
    "claim constraint": Step.CONSTRAINT,
    "empty constraint": Step.CONSTRAINT,
    "feature is disabled": Step.FEATURE,
    "count mode": Step.REQUEST,
}
"""A piece of upstream's error → the step that it speaks of; the first that is in the text counts."""


def test_every_error_names_the_step_that_upstreams_text_speaks_of() -> None:
    errors = [(item, said) for item, said in _answers() if "error" in item.answer and not item.suspect]
    wrong = []
    for item, said in errors:
        text = item.answer["error"]
        step = next(step for piece, step in STEPS.items() if piece in text)
        if said.step is not step:
            wrong.append((item.name, said.step, text))
    assert wrong == []
    assert len(errors) >= 250
    assert {said.step for _, said in errors} == set(STEPS.values())


def test_selection_counts_are_those_of_upstreams_own_selector_results() -> None:
    checked = 0
    for item, said in _answers():
        if item.table is None:
            continue
        for funnel in said.funnels:
            expected = _selected(item, funnel)
            if expected is None:
                continue
            stages = [stage for stage in funnel.stages if stage.step in (Step.CLASS, Step.SELECTOR)]
            assert stages[-1].after == expected, (item.name, funnel)
            checked += 1
    assert checked >= 2_000


def _selected(item: Instance, funnel: Funnel) -> int | None:
    """Devices that upstream's table says are selected; ``None`` where selection is not all that counts."""
    slices = item.snapshot.slices
    if funnel.error or not item.features.partitionable or any(s.spec.node_selector for s in slices):
        return None
    if any(s.spec.per_device_node_selection or s.spec.all_nodes for s in slices):
        return None
    if any(stage.step in (Step.POOL, Step.HERE) for stage in funnel.stages):
        return None
    here = [s for s in slices if s.spec.node_name == item.node]
    newest: dict[tuple[str, str], int] = {}
    for s in here:
        key = (s.spec.driver, s.spec.pool.name)
        newest[key] = max(newest.get(key, 0), s.spec.pool.generation)
    counted = [s for s in here if s.spec.pool.generation == newest[s.spec.driver, s.spec.pool.name]]
    if sum(len(s.spec.devices) for s in counted) != funnel.stages[0].before:
        return None  # an obsolete pool: another test's business
    expressions = _expressions(item, funnel)
    if expressions is None or item.table is None:
        return None
    table: dict[str, Any] = item.table
    if any(isinstance(table[expression], str) for expression in expressions):
        return None
    binding = any(device.binding_conditions for s in counted for device in s.spec.devices)
    if binding and not item.features.binding_conditions:
        return None
    return sum(
        all(table[expression][f"{s.metadata.name}#{device.name}"] is True for expression in expressions)
        for s in counted
        for device in s.spec.devices
    )


def _expressions(item: Instance, funnel: Funnel) -> list[str] | None:
    name, _, sub = funnel.request.partition("/")
    classes = {found.metadata.name: found for found in item.snapshot.classes}
    for claim in item.claims:
        full = f"{claim.metadata.namespace}/{claim.metadata.name}".lstrip("/")
        if full != funnel.claim:
            continue
        for request in claim.spec.devices.requests:
            wanted: ExactDeviceRequest | DeviceSubRequest | None = request.exactly if not sub else None
            for other in request.first_available:
                wanted = other if other.name == sub else wanted
            if request.name == name and wanted is not None and wanted.device_class_name in classes:
                of_class = classes[wanted.device_class_name].spec.selectors
                return [s.cel.expression for s in (*of_class, *wanted.selectors) if s.cel]
    return None


def test_funnels_only_ever_lose_devices_and_end_at_what_the_search_may_take() -> None:
    for item, said in _answers():
        for funnel in said.funnels:
            for stage in funnel.stages:
                assert 0 <= stage.after <= stage.before, (item.name, stage)
                assert len(stage.lost) <= stage.before - stage.after, (item.name, stage)
            kept = [stage for stage in funnel.stages if stage.step is not Step.CONSTRAINT]
            for one, next_one in pairwise(kept):
                assert one.after == next_one.before, (item.name, one, next_one)


def test_a_request_that_a_funnel_calls_short_is_never_part_of_a_fit() -> None:
    """The step is a proof: where every alternative of some request falls short, nothing fits."""
    for item, said in _answers():
        by_request: dict[tuple[str, str], list[Funnel]] = {}
        for funnel in said.funnels:
            by_request.setdefault((funnel.claim, funnel.request.partition("/")[0]), []).append(funnel)
        short = any(all(f.stops_at() for f in alternatives) for alternatives in by_request.values())
        if short:
            assert said.step is not Step.FITS, item.name


def test_whole_explanations_of_the_oracle_agree_with_its_answers_and_their_near_misses_hold() -> None:
    """With pods that use the claims: gates of features, counters, shares and lists included. Every fifth
    instance, with a small budget for what-if questions, and every near miss in claims asked anew."""
    checked = confirmed = 0
    for item in oracle()[::5]:
        if not item.claims or item.suspect or not item.answer:
            continue
        said, world = _explained(item)
        fatal, on_node = outcome_class(item.answer)
        expected = {Outcome.FIT: Verdict.FITS, Outcome.NO_FIT: Verdict.PENDING}.get(fatal)
        if expected is None:
            expected = Verdict.PENDING if on_node else Verdict.ERROR
        if not any(cause.code == "device-class-not-found" for cause in said.causes):
            assert said.verdict is expected, (item.name, said.headline)
        checked += 1
        for miss in said.misses:
            if any(change.kind in _ELSEWHERE for change in miss.changes):
                continue
            changed = applied(world.claims.values(), miss.changes)
            wanted = [claim for claim in changed if claim.metadata.name.startswith("wanted-")]
            plan = compile_plan(wanted, world.inventory.classes, item.features)
            again = answer(world, miss.first, wanted, plan, Policy.FIRST_FIT)
            assert again.step is Step.FITS, (item.name, miss)
            confirmed += 1
    assert checked >= 400
    assert confirmed >= 100


_ELSEWHERE = (MissKind.RELEASE, MissKind.POOL, MissKind.NODE)


def _explained(item: Instance) -> tuple[Explanation, World]:
    claims = tuple(
        msgspec.structs.replace(
            found,
            metadata=msgspec.structs.replace(found.metadata, name=f"wanted-{number}", namespace="default"),
        )
        for number, found in enumerate(item.claims)
    )
    wanting = pod("p", *(found.metadata.name for found in claims))
    snapshot = msgspec.structs.replace(
        item.snapshot, claims=(*item.snapshot.claims, *claims), pods=(wanting,)
    )
    bare = tuple(
        msgspec.structs.replace(node, spec=type(node.spec)(), status=type(node.status)())
        for node in snapshot.nodes
    )
    snapshot = msgspec.structs.replace(snapshot, nodes=bare)
    world = World(Evidence(snapshot=snapshot), _options(item, work=60))
    return explain(world, Subject("pod", ("default", "p"))), world


@pytest.mark.parametrize(
    "step", [Step.COUNTERS, Step.CONSTRAINT, Step.FREE, Step.TAINT, Step.CAPACITY, Step.SET]
)
def test_the_oracle_has_no_fits_that_stop_at_each_later_step(step: Step) -> None:
    """So that none of the steps is there in name only."""
    assert sum(said.step is step for _, said in _answers()) >= 20
