"""Several versions of a custom kind: one is stored, each shows what it knows; and names that are taken.

The golden session ``versions`` shows the same on a real server; here is what it leaves out.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baro.apiserver.customs import with_defaults, without_null_fields
from tests.support.apiserver import Api, definition, widget

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{CRDS}/widgets.example.com"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
BETA = "/apis/example.com/v1beta1/namespaces/default/widgets"
TEXT = {"type": "string"}


def version(name: str, storage: bool, **fields: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}}


def two_versions() -> dict[str, Any]:
    """v1beta1 is stored and knows ``old`` and ``size``; v1 knows ``new`` and ``size``."""
    crd = definition()
    size = {"type": "integer", "default": 4}
    crd["spec"]["versions"] = [
        version("v1beta1", True, old=TEXT, size=size),
        version("v1", False, new=TEXT, size={"type": "integer", "default": 8}),
    ]
    return crd


@pytest.fixture
def api() -> Api:
    served = Api()
    served.made(CRDS, two_versions())
    return served


def test_an_object_is_kept_as_the_storage_version_knows_it(api: Api) -> None:
    made = api.made(WIDGETS, widget(new="x"))
    assert made["spec"] == {"size": 8}
    api.made(BETA, {**widget("w2", old="y"), "apiVersion": "example.com/v1beta1"})
    assert api.get(f"{BETA}/w2").body["spec"] == {"old": "y", "size": 4}
    assert api.get(f"{WIDGETS}/w2").body["spec"] == {"size": 4}
    listed = api.get(WIDGETS).body["items"]
    assert [(item["apiVersion"], item["spec"]) for item in listed] == [
        ("example.com/v1", {"size": 8}),
        ("example.com/v1", {"size": 4}),
    ]


def test_a_write_that_changes_nothing_of_what_is_kept_counts_no_generation(api: Api) -> None:
    made = api.made(WIDGETS, widget(size=2))
    same = api.patch(f"{WIDGETS}/w1", {"spec": {"new": "dropped"}})
    assert same.body["metadata"]["generation"] == 1
    assert same.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert api.patch(f"{WIDGETS}/w1", {"spec": {"size": 3}}).body["metadata"]["generation"] == 2


def test_what_the_storage_version_learns_later_shows_in_old_objects(api: Api) -> None:
    api.made(BETA, {**widget(), "apiVersion": "example.com/v1beta1"})
    crd = api.get(CRD).body
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["colour"] = {"type": "string", "default": "red"}
    del fields["size"]
    assert api.put(CRD, crd).code == 200
    assert api.get(f"{BETA}/w1").body["spec"] == {"colour": "red"}


def test_fields_that_become_selectable_later_select_old_objects() -> None:
    api = Api()
    api.made(CRDS, definition())
    api.made(WIDGETS, widget(size=2))
    refused = api.get(f"{WIDGETS}?fieldSelector=spec.size%3D2")
    assert (refused.code, refused.body["message"]) == (400, "field label not supported: spec.size")
    crd = api.get(CRD).body
    crd["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.size"}]
    assert api.put(CRD, crd).code == 200
    assert [
        o["metadata"]["name"] for o in api.get(f"{WIDGETS}?fieldSelector=spec.size%3D2").body["items"]
    ] == ["w1"]
    assert api.get(f"{WIDGETS}?fieldSelector=spec.size%3D3").body["items"] == []
    assert len(api.get(f"{WIDGETS}?fieldSelector=metadata.name%3Dw1,spec.size!%3D3").body["items"]) == 1


def test_names_that_others_have_are_not_accepted_and_the_rest_is() -> None:
    api = Api()
    api.made(CRDS, definition())
    other = definition()
    other["metadata"]["name"] = "gizmos.example.com"
    other["spec"]["names"] = {"plural": "gizmos", "kind": "Gizmo", "shortNames": ["gz", "wd"]}
    status = api.made(CRDS, other)["status"]
    by_type = {condition["type"]: condition for condition in status["conditions"]}
    assert (by_type["NamesAccepted"]["reason"], by_type["NamesAccepted"]["message"]) == (
        "ShortNamesConflict",
        '"wd" is already in use',
    )
    assert by_type["Established"]["status"] == "False"
    assert status["acceptedNames"] == {
        "plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList",
    }  # fmt: skip
    assert api.get("/apis/example.com/v1/namespaces/default/gizmos").code == 404
    freed = api.get(f"{CRDS}/gizmos.example.com").body
    freed["spec"]["names"]["shortNames"] = ["gz"]
    assert api.put(f"{CRDS}/gizmos.example.com", freed).code == 200
    assert api.get("/apis/example.com/v1/namespaces/default/gizmos").code == 200


def test_an_error_of_a_deprecated_version_says_so_too(api: Api) -> None:
    crd = api.get(CRD).body
    crd["spec"]["versions"][0]["deprecated"] = True
    assert api.put(CRD, crd).code == 200
    missing = api.get(f"{BETA}/nope")
    assert missing.code == 404
    assert missing.warnings == ['299 - "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"']


VALUES = st.recursive(
    st.none() | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
SCHEMA["properties"] = {
    "a": {"type": "integer", "default": 7},
    "b": {"type": "integer", "nullable": True},
    "c": {"type": "object", "additionalProperties": SCHEMA},
}


@given(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
def test_defaults_and_nulls_settle_at_once(value: dict[str, Any]) -> None:
    once = with_defaults(without_null_fields(value, SCHEMA), SCHEMA)
    assert once["a"] is not None
    assert once.get("c", 0) is not None
    again = with_defaults(without_null_fields(once, SCHEMA), SCHEMA)
    assert again == once
