"""Random instances over all features: upstream's answers, recorded or asked anew, and the checker.

``BARO_DIFFERENTIAL=20000`` asks upstream's allocator about that many seeds (it must be possible to build
``bench/peers``); ``BARO_UPDATE_GOLDEN=1`` records its answers for the first seeds anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.allocator import NodeDecision, Outcome, Policy
from bench._allocator_random import instance
from bench._peers import Peers, peers
from bench.allocator_differential import difference, ours, upstream
from tests.support.random_instances import wrong_with

RECORDED = Path(__file__).with_name("upstream_1_37_2.json")
"""Seed → outcome and, when it fits, a digest of the devices; as upstream v0.37.2 answers."""
MOST = 1500


def _short(outcome: str, devices: Any) -> str:
    """``fits 1f3a…``, or the outcome alone."""
    if outcome != "fits":
        return outcome
    return f"fits {hashlib.sha256(json.dumps(devices).encode()).hexdigest()[:12]}"


def _ours(decision: NodeDecision) -> str:
    names = [
        [f"{d.driver}/{d.pool}/{d.device}" for d in result.devices.results] for result in decision.allocations
    ]
    return _short(decision.outcome.value, names)


@pytest.fixture(scope="module")
def recorded() -> dict[str, str]:
    if os.environ.get("BARO_UPDATE_GOLDEN"):
        with peers() as running:
            if running is not None:
                answers = {str(seed): upstream(running, instance(seed)) for seed in range(MOST)}
                short = {
                    seed: _short(found["outcome"], found.get("devices"))
                    for seed, found in answers.items()
                    if found["outcome"] not in ("timeout", "panic")
                }
                RECORDED.write_text(json.dumps(short, indent=0) + "\n")
    answers_: dict[str, str] = json.loads(RECORDED.read_text())
    return answers_


def test_with_compatibility_every_answer_is_upstreams(recorded: dict[str, str]) -> None:
    kinds = Counter(answer.partition(" ")[0] for answer in recorded.values())
    assert min(kinds["fits"], kinds["no-fit"], kinds["error"]) > MOST // 10
    differing = [
        (seed, mine, theirs)
        for seed, theirs in recorded.items()
        if (mine := _ours(ours(instance(int(seed)), compatibility=True))) != theirs
    ]
    assert differing == []


def test_by_default_no_fit_of_upstream_is_lost_but_for_partitions_that_are_still_in_use(
    recorded: dict[str, str],
) -> None:
    lost = [
        seed
        for seed, theirs in recorded.items()
        if theirs.startswith("fits") and not ours(instance(int(seed)), compatibility=False).fits
    ]
    assert all("pools" in _themes(instance(int(seed))) for seed in lost)
    assert len(lost) <= 3


def _themes(body: dict[str, Any]) -> set[str]:
    gone = any(
        result["device"] == "gone"
        for claim in body["held"]
        for result in claim["status"]["allocation"]["devices"]["results"]
    )
    generations = {item["spec"]["pool"]["generation"] for item in body["resourceSlices"]}
    return {"pools"} if gone or len(generations) > 1 else set()


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(10_000, 2**32), policy=st.sampled_from(Policy))
def test_every_fit_is_valid_and_both_policies_agree_whether_there_is_one(seed: int, policy: Policy) -> None:
    body = instance(seed)
    decision = ours(body, compatibility=False, policy=policy)
    if decision.fits:
        assert wrong_with(body, decision) == []
    first = ours(body, compatibility=False)
    if first.outcome is not Outcome.ERROR:
        assert decision.outcome is first.outcome


@pytest.fixture(scope="module")
def running() -> Iterator[Peers]:
    if not os.environ.get("BARO_DIFFERENTIAL"):
        pytest.skip("BARO_DIFFERENTIAL is not set: recorded answers only")
    with peers() as found:
        if found is None:
            pytest.skip("upstream's allocator cannot be built here")
        yield found


@pytest.mark.timeout(3600)
def test_upstream_asked_now_says_the_same(running: Peers) -> None:
    count = int(os.environ["BARO_DIFFERENTIAL"])
    differing = []
    for seed in range(1_000_000, 1_000_000 + count):
        body = instance(seed)
        found = difference(ours(body, compatibility=True), upstream(running, body))
        if found is not None:
            differing.append((seed, found))
    assert differing == []
