"""The recorder against the real server: answers in the format of the corpus, and equal to it where asked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import shared
from tests.support.real_build import PINNED
from tests.support.real_cluster import BETA_APIS, RealCluster
from tests.support.recorder import Recorder, differences, newest

CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {}}
UNREPEATABLE = {"update-slice/stale-rv", "update-slice/wrong-uid"}
"""Records that do not say which version or uid was sent."""


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """A server of its own, with the beta versions and without controllers."""
    if os.environ.get("BARO_TEST_KUBECONFIG"):
        pytest.skip("the recorder starts a server of its own")
    version = os.environ.get("KUBE_VERSION", PINNED)
    with (
        RealCluster(version=version, runtime_config=BETA_APIS, controllers=False) as cluster,
        Recorder(cluster.kubeconfig) as made,
    ):
        yield made


def ask(recorder: Recorder, **record: Any) -> dict[str, Any]:
    (answer,) = recorder.record([{"name": "n", "category": "c", "operation": "create", **record}])
    return answer


def test_an_accepted_object_is_read_back(recorder: Recorder) -> None:
    answer = ask(recorder, object=CLASS)
    assert (answer["accepted"], answer["code"], answer["readBack"]) == (True, 201, "same")


def test_a_refused_object_has_message_reason_and_causes(recorder: Recorder) -> None:
    answer = ask(recorder, object={**CLASS, "metadata": {"name": "Bad_Name"}})
    assert (answer["accepted"], answer["code"], answer["reason"]) == (False, 422, "Invalid")
    assert answer["causes"][0]["field"] == "metadata.name"


def test_an_unknown_field_is_refused_because_validation_is_strict(recorder: Recorder) -> None:
    answer = ask(recorder, object={**CLASS, "sepc": {}})
    assert 'strict decoding error: unknown field "sepc"' in answer["message"]


def test_an_update_starts_from_the_stored_old_object_and_leaves_nothing(recorder: Recorder) -> None:
    changed = {**CLASS, "spec": {"extendedResourceName": "example.com/gpu"}}
    for _ in range(2):  # the second time would fail if the first had left its object
        answer = ask(recorder, operation="update", object=changed, old=CLASS)
        assert (answer["accepted"], answer["code"]) == (True, 200)


def test_an_old_object_that_cannot_be_made_is_an_error_of_the_record(recorder: Recorder) -> None:
    answer = ask(recorder, operation="update", object=CLASS, old={**CLASS, "metadata": {"name": "Bad_Name"}})
    assert "answered 422" in answer["error"]
    assert "accepted" not in answer


@pytest.mark.skipif(os.environ.get("KUBE_VERSION", PINNED) != PINNED, reason="recorded from another version")
def test_the_server_still_says_what_the_corpus_recorded(recorder: Recorder) -> None:
    text = shared.path("data/strict-oracle.jsonl").read_text(encoding="utf-8")
    asked = [json.loads(line) for line in text.splitlines()]
    differing: list[str] = []
    for before, after in zip(asked, recorder.record(asked), strict=True):
        expected = newest(before)
        if expected is None or before["name"] in UNREPEATABLE:
            continue
        fields = set(differences(after, expected)) - {"warnings"}  # the corpus has those of 1.36
        if fields:
            differing.append(f"{before['name']}: {sorted(fields)}")
    assert differing == []
