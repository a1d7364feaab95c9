"""Real API servers' answers to small writes, each of which was once judged otherwise here.

``recorded/VERSION.jsonl`` is the work of ``python -m tests.cluster.record --kube-version VERSION``, which
writes it anew. All files ask the same, so that they show what changed between versions.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from baro.conformance.validation import agreement, answer, sent
from baro.model.validation import KUBE_VERSIONS

RECORDED: Final = Path(__file__).with_name("recorded")
VERSIONS: Final = tuple(path.stem for path in sorted(RECORDED.glob("*.jsonl")))
IN_ANY_ORDER: Final = frozenset({"node/broken-amounts"})
"""Their causes come out of a map, which the server walks in any order."""

WITHOUT_DIFF: Final = frozenset({"pod/empty-affinity-is-a-change"})
"""The server adds a difference of Go structs to what it says, which we leave out."""
NEWER: Final = frozenset({"rule/prefix-of-an-update", "rule/update-without-version"})
"""About kinds that only the newest version serves."""


@cache
def records(version: str) -> dict[str, dict[str, Any]]:
    lines = (RECORDED / f"{version}.jsonl").read_text(encoding="utf-8").splitlines()
    return {record["name"]: record for record in map(json.loads, lines)}


def test_every_version_was_asked_the_same() -> None:
    asked = {version: [name for name in records(version) if name not in NEWER] for version in VERSIONS}
    assert list(asked) == list(KUBE_VERSIONS)
    assert all(names == asked["1.37"] for names in asked.values())


@pytest.mark.parametrize(
    ("version", "name"), [(version, name) for version in VERSIONS for name in records(version)]
)
def test_a_write_is_answered_as_the_real_server_answered_it(version: str, name: str) -> None:
    record = records(version)[name]
    ours = answer(record, version)
    agreed = agreement(ours, record, sent(record))
    wrong = {aspect for aspect, same in agreed.items() if not same}
    assert wrong == ({"text"} if name in WITHOUT_DIFF else set()), (agreed, ours, record)
    assert ours.code == record["code"]
    if name not in IN_ANY_ORDER | WITHOUT_DIFF:
        paths = list(dict.fromkeys((cause["field"], cause["message"]) for cause in record.get("causes", ())))
        assert [(cause.path, cause.message) for cause in ours.causes] == paths
