"""What a real kube-apiserver answered to hundreds of writes, asked of the embedded one over HTTP.

The same recorder asks both. What the real server would say to the drawn inputs is known from
``baro.conformance``, which the tests in ``tests/cluster`` compare with the real server on inputs like these.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from baro.apiserver import create_app, run_in_thread
from baro.conformance.validation import agreement
from baro.conformance.validation import answer as judged
from baro.conformance.validation import sent as body_of
from tests.support import shared
from tests.support.oracle_inputs import inputs
from tests.support.recorder import DEFAULT_PATH, Record, Recorder, differences, newest

VERSIONS: Final = ("1.36", "1.37")
TEXTS: Final = 0.97
"""Part of the refusals whose fields and message must be the real server's to the letter."""
CRASHES: Final = {"1.36": {"request-policy/range-step-zero", "cel/bytes-key"}, "1.37": {"cel/bytes-key"}}
"""Requests whose handler panics there: the connection closes. Here they get a 422 that says so."""
SAID_TWICE: Final = {"update-claim/deleting-add-finalizer"}
"""1.36 lists one cause twice, in the causes and not in the message."""
PATHS: Final = {"strict/kind-mismatch": DEFAULT_PATH, "strict/version-mismatch": DEFAULT_PATH}
"""1.36 was asked on the path of v1 slices whatever the body said, 1.37 on the path of the body's kind."""
INSISTING: Final = {
    "update-slice/stale-rv": {"resourceVersion": "1"},
    "update-slice/wrong-uid": {"uid": "00000000-0000-0000-0000-000000000000"},
}
"""What these records sent in ``metadata``; the corpus leaves server-set fields out."""


@contextmanager
def recorder(version: str, folder: Path) -> Iterator[Recorder]:
    with (
        run_in_thread(create_app(kube_version=version)) as server,
        Recorder(server.write_kubeconfig(folder / "config")) as made,
    ):
        yield made


def asked(version: str) -> Iterator[tuple[Record, Record]]:
    """What is sent, and the recorded answer of that version; what was not asked of it is left out."""
    for line in shared.path("data/strict-oracle.jsonl").read_text(encoding="utf-8").splitlines():
        record: Record = json.loads(line)
        expected = newest(record) if version == "1.37" else record
        if expected is None:
            continue
        sent = dict(record)
        if version == "1.36" and record["name"] in PATHS:
            sent["path"] = PATHS[record["name"]]
        if record["name"] in INSISTING:
            metadata = {**record["object"]["metadata"], **INSISTING[record["name"]]}
            sent["object"] = {**record["object"], "metadata": metadata}
        yield sent, expected


def answers(version: str, folder: Path, sent: Iterable[Record]) -> list[Record]:
    with recorder(version, folder) as made:
        return list(made.record(sent))


def uidless(record: Record) -> Record:
    """A conflict names the UID of the stored object, which is another one here."""
    if "UID in object meta" not in str(record.get("message")):
        return record
    return {**record, "message": record["message"].partition("StorageError")[0]}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_embedded_server_answers_as_the_real_one_of_that_version(version: str, tmp_path: Path) -> None:
    pairs = list(asked(version))
    count: Counter[str] = Counter()
    differing: list[str] = []
    for (_, expected), ours in zip(
        pairs, answers(version, tmp_path, [sent for sent, _ in pairs]), strict=True
    ):
        name = expected["name"]
        assert "error" not in ours, ours
        if name in CRASHES[version]:
            assert (expected["code"], ours["code"]) == (0, 422), name
            assert ours["causes"], name
            continue
        fields = set(differences(uidless(ours), uidless(expected))) - {"warnings"}
        if name in SAID_TWICE:
            assert fields <= {"causes"}
            fields = set()
        count["accepted" if expected["accepted"] else "refused"] += 1
        if fields:
            differing.append(f"{name}: {sorted(fields)}\n  ours: {ours}\n  theirs: {expected}")
        if fields & {"message", "causes"}:
            count["other words"] += 1
        assert not fields & {"accepted", "code", "readBack"}, differing[-1]
    assert count["other words"] <= (1 - TEXTS) * count["refused"], "\n".join(differing)
    assert min(count["accepted"], count["refused"]) > 150


@pytest.mark.parametrize("version", VERSIONS)
def test_drawn_inputs_are_answered_as_the_real_server_would(version: str, tmp_path: Path) -> None:
    drawn = [
        record
        for record in inputs(300, seed=11)
        if version == "1.37" or record["object"]["kind"] != "DeviceTaintRule"  # of v1 since 1.37
    ]
    agreed: Counter[str] = Counter()
    for record in answers(version, tmp_path, drawn):
        assert "error" not in record, record
        found = agreement(judged(record, version), record, body_of(record))
        assert all(found.values()), (found, record, judged(record, version))
        agreed.update(found)
    assert agreed["text"] > 100
    assert agreed["readBack"] > 40


def test_a_kind_that_a_version_does_not_have_is_not_served(tmp_path: Path) -> None:
    rule: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {"taint": {"key": "k", "effect": "NoSchedule"}},
    }
    record = {"name": "n", "category": "c", "operation": "create", "object": rule}
    found = {version: answers(version, tmp_path, [record])[0]["code"] for version in ("1.36", "1.37")}
    assert found == {"1.36": 404, "1.37": 201}
