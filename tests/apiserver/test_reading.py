"""Lists: pages that hold still, selectors, revisions, Tables, other forms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.apiserver.storage import MemoryStore
from baro.apiserver.tables import cells as printed
from baro.apiserver.tables import human_duration, since
from tests.support import apiserver as support
from tests.support.apiserver import CLAIMS, MAPS, NODES, PODS, SLICES, Api

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
def api() -> Api:
    return Api()


def names(body: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


def test_pages_show_one_revision_whatever_happens_between_them(api: Api) -> None:
    for number in range(5):
        api.made(MAPS, support.config_map(f"m{number}"))
    first = api.get(f"{MAPS}?limit=2").body
    assert (names(first), first["metadata"]["remainingItemCount"]) == (["m0", "m1"], 3)
    api.delete(f"{MAPS}/m2")
    api.made(MAPS, support.config_map("m10"))
    api.patch(f"{MAPS}/m3", {"data": {"new": "yes"}})
    second = api.get(f"{MAPS}?limit=2&continue={first['metadata']['continue']}").body
    assert names(second) == ["m2", "m3"]
    assert "new" not in second["items"][1]["data"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    third = api.get(f"{MAPS}?limit=2&continue={second['metadata']['continue']}").body
    assert names(third) == ["m4"]
    assert "continue" not in third["metadata"]


def test_a_continue_token_that_is_too_old_says_how_to_go_on() -> None:
    api = Api(MemoryStore(log_length=8))
    for number in range(4):
        api.made(MAPS, support.config_map(f"m{number}"))
    token = api.get(f"{MAPS}?limit=2").body["metadata"]["continue"]
    for number in range(9):
        api.patch(f"{MAPS}/m0", {"data": {"n": str(number)}})
    expired = api.get(f"{MAPS}?limit=2&continue={token}")
    assert (expired.code, expired.body["reason"]) == (410, "Expired")
    rest = api.get(f"{MAPS}?continue={expired.body['metadata']['continue']}")
    assert names(rest.body) == ["m2", "m3"]


@pytest.mark.parametrize("token", ["nonsense", "!!!!", "e30", "W10"])
def test_a_forged_continue_token_is_a_bad_request(api: Api, token: str) -> None:
    assert api.get(f"{MAPS}?limit=2&continue={token}").code == 400


def test_revisions_of_a_list_are_checked(api: Api) -> None:
    made = api.made(MAPS, support.config_map())
    revision = int(made["metadata"]["resourceVersion"])
    api.patch(f"{MAPS}/m1", {"data": {"key": "new"}})
    exact = api.get(f"{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact").body
    assert exact["items"][0]["data"] == {"key": "value"}
    assert api.get(f"{MAPS}?resourceVersion=0").body["items"][0]["data"] == {"key": "new"}
    future = api.get(f"{MAPS}?resourceVersion=999")
    assert (future.code, future.body["reason"]) == (504, "Timeout")
    assert future.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert api.get(f"{MAPS}?resourceVersion=abc").code == 422
    assert api.get(f"{MAPS}?resourceVersionMatch=Exact").code == 422
    assert api.get(f"{MAPS}?limit=many").code == 400


def test_selectors_limit_lists_to_what_matches(api: Api) -> None:
    api.made(SLICES, support.resource_slice("s1", "n1", labels={"a": "1"}))
    api.made(SLICES, support.resource_slice("s2", "n2", labels={"a": "2"}))
    assert names(api.get(f"{SLICES}?fieldSelector=spec.nodeName=n1").body) == ["s1"]
    assert names(api.get(f"{SLICES}?fieldSelector=spec.pool.name!=n1").body) == ["s2"]
    assert names(api.get(f"{SLICES}?fieldSelector=metadata.name=s2").body) == ["s2"]
    assert names(api.get(f"{SLICES}?labelSelector=a%20in%20(1,2)&limit=1").body) == ["s1"]
    assert "remainingItemCount" not in api.get(f"{SLICES}?labelSelector=a&limit=1").body["metadata"]


def test_a_field_that_cannot_be_selected_is_named(api: Api) -> None:
    for url, message in (
        (PODS, "field label not supported: spec.foo"),
        (SLICES, "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.foo"),
        (CLAIMS, '"spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ):
        result = api.get(f"{url}?fieldSelector=spec.foo=1")
        assert (result.code, result.body["message"]) == (400, message)


def test_a_list_spans_namespaces_when_none_is_named(api: Api) -> None:
    api.made(MAPS, support.config_map("a"))
    api.made("/api/v1/namespaces/kube-system/configmaps", support.config_map("b"))
    assert names(api.get("/api/v1/configmaps").body) == ["a", "b"]
    assert names(api.get("/api/v1/configmaps?fieldSelector=metadata.namespace=default").body) == ["a"]
    assert names(api.get(MAPS).body) == ["a"]


# --- forms ----------------------------------------------------------------------------------------------


def test_a_table_has_the_columns_and_cells_that_kubectl_prints(api: Api) -> None:
    api.made(CLAIMS, support.claim(labels={"a": "b"}))
    api.patch(f"{CLAIMS}/tp4/status", {"status": {"allocation": support.allocation("gpu-0")}})
    shown = api.get(CLAIMS, accept=TABLE).body
    assert (shown["kind"], shown["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "State", "Age"]
    (row,) = shown["rows"]
    assert row["cells"] == ["tp4", "allocated", "0s"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["labels"] == {"a": "b"}
    whole = api.get(f"{CLAIMS}/tp4?includeObject=Object", accept=TABLE).body["rows"][0]["object"]
    assert whole["kind"] == "ResourceClaim"
    assert "object" not in api.get(f"{CLAIMS}?includeObject=None", accept=TABLE).body["rows"][0]
    assert api.get(f"{CLAIMS}?includeObject=Some", accept=TABLE).code == 400


def cells(api: Api, url: str) -> list[Any]:
    found: list[Any] = api.get(url, accept=TABLE).body["rows"][0]["cells"]
    return found


def test_the_cells_of_every_kind_are_as_many_as_its_columns(api: Api) -> None:
    for served in api.registry.catalogue:
        empty = {"metadata": {"name": "x"}}
        now = datetime(2026, 1, 1, tzinfo=UTC)
        assert len(printed(served, empty, now)) == len(served.kind.columns), served.kind.kind


def test_a_pods_row_tells_where_it_stands(api: Api) -> None:
    api.made(PODS, support.pod(gate="baro.dev/placement"))
    assert cells(api, f"{PODS}/p1")[:4] == ["p1", "0/1", "SchedulingGated", "0"]
    running = {"name": "main", "ready": True, "restartCount": 2, "image": "x", "imageID": "x"}
    running["state"] = {"running": {"startedAt": "2026-01-02T11:00:00Z"}}
    running["lastState"] = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-02T11:00:00Z"}}
    status = {
        "phase": "Running",
        "conditions": None,
        "containerStatuses": [running],
        "podIPs": [{"ip": "10.0.0.1"}],
    }
    api.patch(f"{PODS}/p1/status", {"status": status})
    assert cells(api, f"{PODS}/p1") == [
        "p1", "1/1", "Running", "2 (60m ago)", "0s", "10.0.0.1", "<none>", "<none>", "<none>",
    ]  # fmt: skip
    waiting = {**running, "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    api.patch(f"{PODS}/p1/status", {"status": {"containerStatuses": [waiting]}})
    assert cells(api, f"{PODS}/p1")[1:3] == ["0/1", "CrashLoopBackOff"]


def test_a_nodes_row_tells_its_state_and_roles(api: Api) -> None:
    api.made(NODES, support.node(labels={"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}))
    assert cells(api, f"{NODES}/n1")[:4] == ["n1", "Ready", "gpu,worker", "0s"]
    api.patch(f"{NODES}/n1", {"spec": {"unschedulable": True}})
    api.patch(f"{NODES}/n1/status", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})
    assert cells(api, f"{NODES}/n1")[1] == "NotReady,SchedulingDisabled"


def test_an_events_row_tells_when_what_and_by_whom(api: Api) -> None:
    event = {
        "metadata": {"name": "e1"},
        "involvedObject": {"kind": "Pod", "name": "p1", "namespace": "default"},
        "reason": "Placed",
        "message": " four GPUs of one island \n",
        "type": "Normal",
        "firstTimestamp": "2026-01-02T11:58:00Z",
        "lastTimestamp": "2026-01-02T11:59:30Z",
        "count": 3,
        "source": {"component": "baro", "host": "n1"},
    }
    api.made("/api/v1/namespaces/default/events", event)
    assert cells(api, "/api/v1/namespaces/default/events") == [
        "30s", "Normal", "Placed", "pod/p1", "", "baro, n1", "four GPUs of one island", "2m", 3, "e1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        (timedelta(seconds=-5), "<invalid>"),
        (timedelta(seconds=-1), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=9, seconds=59), "9m59s"),
        (timedelta(minutes=179, seconds=59), "179m"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=47), "47h"),
        (timedelta(days=7, hours=1), "7d1h"),
        (timedelta(days=729), "729d"),
        (timedelta(days=733), "2y3d"),
        (timedelta(days=3650), "10y"),
    ],
)
def test_ages_have_two_units_at_most(span: timedelta, shown: str) -> None:
    assert human_duration(span.total_seconds()) == shown


@settings(deadline=None)
@given(st.text(max_size=25))
def test_an_age_of_nonsense_is_unknown(text: str) -> None:
    assert isinstance(since(text, datetime(2026, 1, 1, tzinfo=UTC)), str)


def test_bare_metadata_and_yaml_can_be_asked_for(api: Api) -> None:
    api.made(MAPS, support.config_map())
    partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    body = api.get(MAPS, accept=partial).body
    assert (body["kind"], body["items"][0]["kind"]) == ("PartialObjectMetadataList", "PartialObjectMetadata")
    assert "data" not in body["items"][0]
    as_yaml = yaml.safe_load(api.get(f"{MAPS}/m1", accept="application/yaml").body)
    assert as_yaml == api.get(f"{MAPS}/m1").body


def test_an_answer_in_no_form_we_have_is_refused(api: Api) -> None:
    result = api.get(MAPS, accept="application/vnd.kubernetes.protobuf")
    assert (result.code, result.body["reason"]) == (406, "NotAcceptable")
    fallback = "application/vnd.kubernetes.protobuf,application/json"
    assert api.get(MAPS, accept=fallback).code == 200
