"""Lint beside a recorded API server: same verdict, same fields, same words."""

from __future__ import annotations

import json
from typing import Any

from baro.diagnosis.catalogue import built_in
from baro.diagnosis.lint import Judged, Target, lint_all
from baro.model.errors import InputError
from baro.model.load import Loaded, load_bytes
from tests.support import shared

NAMESPACES: list[dict[str, Any]] = [
    {"metadata": {"name": "oracle-admin", "labels": {"resource.kubernetes.io/admin-access": "true"}}},
    {"metadata": {"name": "oracle"}},
]
OF_ITS_OWN = {"strict/version-mismatch", "cel/bytes-key"}
"""A request whose URL disagrees with its body, and one that makes the server crash: no question of a file."""


def records() -> list[dict[str, Any]]:
    """The creations, with the answers of 1.37."""
    found: list[dict[str, Any]] = []
    for line in shared.path("data/strict-oracle.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        newer = record.get("v1_37")
        if record["operation"] != "create" or newer == "not asked" or record["name"] in OF_ITS_OWN:
            continue
        if newer and newer.get("accepted"):
            record = {**record, "message": "", "causes": []}
        found.append({**record, **(newer or {})})
    return found


def judge(record: dict[str, Any]) -> Judged:
    text = record["raw"] if "raw" in record else json.dumps(record["object"])
    documents = load_bytes(text.encode(), "oracle.json")
    namespaces = [Loaded({"apiVersion": "v1", "kind": "Namespace", **one}) for one in NAMESPACES]
    target = Target(kube_version="1.37")
    (judged,) = lint_all(documents, built_in(), target=target, evidence=namespaces)
    return judged


def test_lint_says_what_the_real_api_server_said() -> None:
    asked = same = 0
    for record in records():
        asked += 1
        try:
            judged = judge(record)
        except InputError as error:  # what is no object cannot be linted; the reason is the server's
            assert not record["accepted"], record["name"]
            same += error.what in record["message"]
            continue
        assert (judged.server == "") == record["accepted"], record["name"]
        same += judged.server == (record.get("message") or "")
        said = {note.server.partition(": ")[0] for note in judged.notes if note.server}
        for cause in record.get("causes") or ():
            assert cause["field"] in said, record["name"]
    assert asked > 300
    assert same >= 0.95 * asked


def test_every_error_of_the_server_is_a_finding_with_its_words() -> None:
    for record in records():
        try:
            judged = judge(record)
        except InputError:
            continue
        if judged.server:
            assert any(note.server for note in judged.notes), record["name"]
        else:
            assert not [note.finding for note in judged.notes if note.server], record["name"]
