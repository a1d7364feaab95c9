"""Drawn writes that no corpus holds: the real server and our validation must say the same about each.

Which inputs they are is up to the counts and ``SEED`` alone (see ``tests.support.oracle_inputs``). They come
in all served versions of the API, a part of them with faults of form; ``KUBE_VERSION`` chooses the server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from baro.conformance import Tally
from baro.conformance.validation import Answer, agreement, answer, recorded, sent
from baro.model.validation.rules import parse
from tests.support.oracle_inputs import DECODING, VERSIONS, inputs
from tests.support.real_build import PINNED
from tests.support.real_cluster import BETA_APIS, RealCluster
from tests.support.recorder import Record, Recorder

COUNT: Final = 1_000
OTHERS: Final = 300
SEED: Final = 4_021
TEXTS: Final = 0.97
"""Part of the messages that must be the server's to the letter; verdicts and paths must all be."""
VERSION: Final = os.environ.get("KUBE_VERSION", PINNED)

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("BARO_TEST_KUBECONFIG")), reason="starts a server of its own"
)


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    # No controllers: they would change what updates start from.
    with (
        RealCluster(version=VERSION, runtime_config=BETA_APIS, controllers=False) as cluster,
        Recorder(cluster.kubeconfig) as made,
    ):
        yield made


def test_a_thousand_further_inputs_are_judged_as_the_real_server_judges_them(recorder: Recorder) -> None:
    drawn = inputs(COUNT, SEED, decoding=DECODING, versions=VERSIONS)
    tally, listed = _compared(recorder, (record for record in drawn if _is_asked(record)))
    assert tally.records > 0.7 * COUNT
    assert _varied(tally), "the inputs no longer have both answers, of every kind"
    assert (tally.share("verdict"), tally.share("paths"), tally.share("readBack")) == (1.0, 1.0, 1.0), listed
    assert tally.share("text") >= TEXTS, listed


def test_new_pods_nodes_leases_and_events_are_judged_as_the_real_server_judges_them(
    recorder: Recorder,
) -> None:
    # Of these kinds the stored objects are not compared: admission and defaults fill them in.
    drawn = inputs(OTHERS, SEED, kinds="other")
    tally, listed = _compared(recorder, (record for record in drawn if record["operation"] == "create"))
    assert tally.records > 0.3 * OTHERS
    assert (tally.share("verdict"), tally.share("paths")) == (1.0, 1.0), listed
    assert tally.share("text") >= TEXTS, listed


def _compared(recorder: Recorder, drawn: Iterator[Record]) -> tuple[Tally, str]:
    """How far ours and the server's answers agree, and the records where they do not."""
    tally, shown = Tally(), list[str]()
    for record in recorder.record(drawn):
        expected = recorded(record)
        assert expected is not None, record  # the old object of an update could not be made
        ours = answer(record, VERSION)
        agreed = agreement(ours, expected, sent(record))
        tally.add(record["name"], record["category"], agreed)
        if not all(agreed.values()):
            shown.append(_difference(record, ours, agreed))
    listed = "\n".join(shown)
    print(listed)  # noqa: T201 - for whoever reads about a text that differs
    return tally, listed


def _is_asked(record: Record) -> bool:
    """Older servers do not serve taint rules of v1, drop what some updates start from, and know less CEL."""
    if record["category"] == "DeviceTaintRule":
        return parse(VERSION) >= (1, 37)
    if parse(VERSION) >= (1, 36):
        return True
    kept = "old" not in record or not {"distinctAttribute", "perDeviceNodeSelection"} & _words(record["old"])
    return kept and "allowMultipleAllocations" not in str(record)


def _words(value: Any) -> set[str]:
    """All names of fields in a JSON value."""
    if isinstance(value, Mapping):
        return set(value).union(*map(_words, value.values()))
    return set[str]().union(*map(_words, value)) if isinstance(value, list) else set()


def _varied(tally: Tally) -> bool:
    """Whether every kind has accepted and refused writes."""
    counts = [tally.count(aspect, kind)[1] for kind in tally.categories for aspect in ("readBack", "paths")]
    return len(tally.categories) >= 4 and min(counts) > 0


def _difference(record: Mapping[str, Any], ours: Answer, agreed: Mapping[str, bool]) -> str:
    """One record on which the two disagree, whole: it is how the next case gets into a test."""
    wrong = ", ".join(aspect for aspect, same in agreed.items() if not same)
    said = record.get("message") or record.get("readBack")
    return (
        f"{record['name']} ({record['operation']}) differs in {wrong}\n"
        f"  object: {record.get('object', record.get('raw'))}\n"
        f"  old: {record.get('old')}\n  server: {said}\n  ours: {ours.message or ours.read_back}"
    )
