"""Every rule of the allocator by name: what it answers, and where upstream 1.37.2 answers otherwise."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest

from baro.allocator import NodeDecision, Outcome, Policy
from bench._peers import peers
from bench.allocator_differential import ours, upstream
from tests.support.random_instances import wrong_with
from tests.support.scenarios import Scenario, names, scenarios

ALL = pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)


def _told(decision: NodeDecision) -> Any:
    """The answer as scenarios write it."""
    if decision.outcome is Outcome.ERROR:
        return {"error": decision.error} | ({"onNode": True} if decision.on_node else {})
    if not decision.fits:
        return decision.outcome.value
    return names([msgspec.to_builtins(result) for result in decision.allocations])


@ALL
def test_the_answer_is_the_one_that_is_told(scenario: Scenario) -> None:
    decision = ours(scenario.body, compatibility=False)
    assert _told(decision) == scenario.expected
    if decision.fits:
        assert wrong_with(scenario.body, decision) == []
        body = msgspec.to_builtins(decision.allocations[0])
        for name, value in scenario.told.get("result", {}).items():
            assert all(
                msgspec.to_builtins(item[name]) == _frozen(value) for item in body["devices"]["results"]
            )
        if "selector" in scenario.told:
            (term,) = body["nodeSelector"]["nodeSelectorTerms"]
            assert term == _frozen(scenario.told["selector"])
        if "config" in scenario.told:
            assert body["devices"]["config"] == _frozen(scenario.told["config"])


def _frozen(value: Any) -> Any:
    """Lists as the tuples that Structs hold."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return value


@ALL
def test_with_compatibility_the_answer_is_upstreams(scenario: Scenario) -> None:
    assert _told(ours(scenario.body, compatibility=True)) == scenario.upstream


@ALL
@pytest.mark.parametrize("policy", [Policy.TOPOLOGY, Policy.BEST_EFFORT])
def test_other_policies_find_a_valid_fit_where_there_is_one(scenario: Scenario, policy: Policy) -> None:
    first = ours(scenario.body, compatibility=False)
    decision = ours(scenario.body, compatibility=False, policy=policy)
    assert decision.outcome is first.outcome
    assert not decision.fits or wrong_with(scenario.body, decision) == []


def test_what_is_told_of_upstream_is_what_upstream_says() -> None:
    if not os.environ.get("BARO_DIFFERENTIAL"):
        pytest.skip("BARO_DIFFERENTIAL is not set: upstream is not asked")
    with peers() as running:
        if running is None:
            pytest.skip("upstream's allocator cannot be built here")
        for scenario in scenarios():
            if scenario.body["rules"]:
                continue  # kube-scheduler merges taint rules into slices before the allocator sees them
            found = upstream(running, scenario.body)
            answer: Any = found["outcome"]
            if answer == "error":
                answer = {"error": found["error"]} | ({"onNode": True} if found.get("onNode") else {})
            elif answer == "fits":
                answer = names(found.get("results", ()))
            assert answer == scenario.upstream, scenario.name
