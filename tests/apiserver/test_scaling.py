"""The ``scale`` subresource of custom kinds; the golden session ``rules`` has kubectl's view of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baro.apiserver.customs import Scale, scale_of, scale_problems, with_replicas
from tests.support.apiserver import MERGE, Api, definition, widget

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
SCALE = f"{WIDGETS}/w1/scale"
PATHS = {
    "specReplicasPath": ".spec.pods.count",
    "statusReplicasPath": ".status.ready",
    "labelSelectorPath": ".status.selector",
}
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture
def api() -> Api:
    served = Api()
    served.made(CRDS, definition(FREE, subresources={"status": {}, "scale": PATHS}))
    served.made(WIDGETS, widget(pods={"count": 3}))
    return served


def test_a_scale_shows_what_the_paths_lead_to(api: Api) -> None:
    api.patch(f"{WIDGETS}/w1/status", {"status": {"ready": 2, "selector": "app=w"}})
    found = api.get(SCALE).body
    assert (found["apiVersion"], found["kind"]) == ("autoscaling/v1", "Scale")
    assert found["spec"] == {"replicas": 3}
    assert found["status"] == {"replicas": 2, "selector": "app=w"}
    assert set(found["metadata"]) == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}


def test_discovery_says_what_a_scale_is(api: Api) -> None:
    listed = api.get("/apis/example.com/v1").body["resources"]
    entry = next(entry for entry in listed if entry["name"] == "widgets/scale")
    assert (entry["group"], entry["version"], entry["kind"]) == ("autoscaling", "v1", "Scale")
    aggregated = api.get(
        "/apis", accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    ).body
    group = next(item for item in aggregated["items"] if item["metadata"].get("name") == "example.com")
    kinds = {
        found["subresource"]: found["responseKind"]
        for found in group["versions"][0]["resources"][0]["subresources"]
    }
    assert kinds["scale"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}


def test_a_new_scale_changes_the_replicas_and_nothing_else(api: Api) -> None:
    scale = api.get(SCALE).body
    scale["spec"]["replicas"] = 5
    assert api.put(SCALE, scale).body["spec"] == {"replicas": 5}
    after = api.get(f"{WIDGETS}/w1").body
    assert (after["spec"], after["metadata"]["generation"]) == ({"pods": {"count": 5}}, 2)
    stale = api.put(SCALE, scale)
    assert (stale.code, stale.body["reason"]) == (409, "Conflict")
    del scale["metadata"]["resourceVersion"]
    assert api.put(SCALE, scale).code == 200


def test_a_dry_run_changes_nothing(api: Api) -> None:
    assert api.patch(f"{SCALE}?dryRun=All", {"spec": {"replicas": 9}}).body["spec"] == {"replicas": 9}
    assert api.get(SCALE).body["spec"] == {"replicas": 3}


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (
            {"spec": {"replicas": -1}},
            422,
            ".spec.pods.count: Invalid value: -1: should be a non-negative integer",
        ),
        ({"spec": {"replicas": 2**31}}, 422, "cannot unmarshal number 2147483648 into Go struct field"),
        ({"spec": {"replicas": "x"}}, 422, "json: cannot unmarshal string into Go struct field ScaleSpec"),
        ({"spec": 5}, 400, "metadata and spec of a Scale must be objects"),
        ({"metadata": {"name": "other"}}, 400, "does not match the name on the URL"),
        ({"kind": "Other"}, 400, "not what the URL names"),
    ],
)
def test_what_is_no_scale_is_refused(api: Api, body: Any, code: int, said: str) -> None:
    answer = api.call("PATCH", SCALE, body, MERGE)
    assert answer.code == code
    assert said in answer.body["message"]
    assert api.get(SCALE).body["spec"] == {"replicas": 3}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"\x00\xff", b'"x"', b"null", b'{"spec": {"replicas": true}}']
)
def test_garbage_for_a_scale_gets_an_error(api: Api, body: bytes) -> None:
    assert api.call("PUT", SCALE, body).code == 400


@pytest.mark.parametrize(
    "media", ["application/apply-patch+yaml", "application/strategic-merge-patch+json", "x/y"]
)
def test_kinds_of_patch_that_a_scale_does_not_take_are_415(api: Api, media: str) -> None:
    url = f"{SCALE}?fieldManager=m"
    assert api.call("PATCH", url, {"spec": {"replicas": 1}}, media).code == 415


def test_an_object_without_replicas_has_no_scale_until_it_gets_one(api: Api) -> None:
    api.made(WIDGETS, widget("w2"))
    missing = api.get(f"{WIDGETS}/w2/scale")
    assert (missing.code, missing.body["message"]) == (
        500,
        'Internal error occurred: the spec replicas field ".spec.pods.count" does not exist',
    )
    kept = api.patch(f"{WIDGETS}/w2/scale", {"metadata": {}})
    assert (kept.code, kept.body["message"]) == (
        400,
        'the spec replicas field ".spec.pods.count" cannot be empty',
    )
    assert api.patch(f"{WIDGETS}/w2/scale", {"spec": {"replicas": 1}}).code == 200
    assert api.get(f"{WIDGETS}/w2").body["spec"] == {"pods": {"count": 1}}


def test_replicas_that_are_no_number_are_refused_with_the_object(api: Api) -> None:
    answer = api.post(WIDGETS, widget("w3", pods={"count": "three"}))
    assert answer.code == 422
    assert [(c["field"], c["message"]) for c in answer.body["details"]["causes"]] == [
        (
            ".spec.pods.count",
            "Invalid value: 0: .spec.pods.count accessor error: three is of the type string, expected int64",
        )
    ]


def test_a_scaler_owns_the_replicas_in_an_entry_of_its_own(api: Api) -> None:
    api.call("PATCH", f"{SCALE}?fieldManager=autoscaler", {"spec": {"replicas": 6}}, MERGE)
    entries = api.get(f"{WIDGETS}/w1").body["metadata"]["managedFields"]
    (own,) = [entry for entry in entries if entry["manager"] == "autoscaler"]
    assert (own["subresource"], own["fieldsV1"]) == ("scale", {"f:spec": {"f:pods": {"f:count": {}}}})
    assert "time" not in own


def test_without_the_subresource_there_is_no_scale() -> None:
    api = Api()
    api.made(CRDS, definition(FREE))
    api.made(WIDGETS, widget(pods={"count": 3}))
    assert api.get(SCALE).code == 404


STEPS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple)


@given(STEPS, st.integers(0, 2**31 - 1))
def test_replicas_are_read_where_they_were_written(steps: tuple[str, ...], replicas: int) -> None:
    scale = Scale(steps, ("status", "x"))
    body = with_replicas({"metadata": {"name": "w"}}, scale, replicas)
    assert scale_of(body, scale)["spec"] == {"replicas": replicas}
    assert list(scale_problems(body, scale, spec=True)) == []
