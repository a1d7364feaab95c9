"""Drawn writes that no corpus holds: the real server and our validation must say the same about each.

Which inputs they are is up to ``COUNT`` and ``SEED`` alone (see ``tests.support.oracle_inputs``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import pytest

from baro.conformance import Tally
from baro.conformance.validation import Answer, agreement, answer, recorded, sent
from tests.support.oracle_inputs import inputs
from tests.support.real_build import PINNED
from tests.support.real_cluster import RealCluster
from tests.support.recorder import Recorder

COUNT: Final = 1_000
SEED: Final = 4_021
TEXTS: Final = 0.97
"""Part of the messages that must be the server's to the letter; verdicts and paths must all be."""


@pytest.mark.skipif(bool(os.environ.get("BARO_TEST_KUBECONFIG")), reason="starts a server of its own")
@pytest.mark.skipif(os.environ.get("KUBE_VERSION", PINNED) != PINNED, reason="is about the newest version")
def test_a_thousand_further_inputs_are_judged_as_the_real_server_judges_them() -> None:
    tally, shown = Tally(), list[str]()
    # No controllers: they would change what updates start from.
    with RealCluster(version=PINNED, controllers=False) as cluster, Recorder(cluster.kubeconfig) as recorder:
        for record in recorder.record(inputs(COUNT, SEED)):
            expected = recorded(record)
            assert expected is not None, record  # the old object of an update could not be made
            ours = answer(record)
            agreed = agreement(ours, expected, sent(record))
            tally.add(record["name"], record["category"], agreed)
            if not all(agreed.values()):
                shown.append(_difference(record, ours, agreed))
    listed = "\n".join(shown)
    print(listed)  # noqa: T201 - for whoever reads about a text that differs
    assert tally.records == COUNT
    assert _varied(tally), "the inputs no longer have both answers, of every kind"
    assert (tally.share("verdict"), tally.share("paths"), tally.share("readBack")) == (1.0, 1.0, 1.0), listed
    assert tally.share("text") >= TEXTS, listed


def _varied(tally: Tally) -> bool:
    """Whether every kind has accepted and refused writes."""
    counts = [tally.count(aspect, kind)[1] for kind in tally.categories for aspect in ("readBack", "paths")]
    return len(tally.categories) == 5 and min(counts) > 0


def _difference(record: Mapping[str, Any], ours: Answer, agreed: Mapping[str, bool]) -> str:
    """One record on which the two disagree, whole: it is how the next case gets into a test."""
    wrong = ", ".join(aspect for aspect, same in agreed.items() if not same)
    said = record.get("message") or record.get("readBack")
    return (
        f"{record['name']} ({record['operation']}) differs in {wrong}\n  object: {record['object']}\n"
        f"  old: {record.get('old')}\n  server: {said}\n  ours: {ours.message or ours.read_back}"
    )
