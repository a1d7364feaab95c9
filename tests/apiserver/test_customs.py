"""Kinds of CustomResourceDefinitions: served, pruned, defaulted, checked, and gone with their definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.apiserver.customs import (
    JsonPathError,
    find,
    problems,
    unknown_fields,
    with_defaults,
    without_unknown,
)
from baro.apiserver.storage import MemoryStore
from tests.support import apiserver as support
from tests.support.apiserver import Api, definition, widget

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{CRDS}/widgets.example.com"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "title": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "nullable": True},
        "port": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "rows": {
            "type": "array",
            "maxItems": 2,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "n": {"type": "integer", "default": 3}},
            },
        },
    },
}


@pytest.fixture
def api() -> Api:
    served = Api()
    served.made(CRDS, definition(SPEC))
    return served


def test_a_definition_is_established_at_once_and_its_kind_is_in_discovery(api: Api) -> None:
    found = api.get(CRD).body
    assert {c["type"]: c["status"] for c in found["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert found["status"]["acceptedNames"]["listKind"] == "WidgetList"
    assert found["status"]["storedVersions"] == ["v1"]
    resources = api.get("/apis/example.com/v1").body["resources"]
    assert [entry["name"] for entry in resources] == ["widgets", "widgets/status"]
    schemas = api.get("/openapi/v3/apis/example.com/v1").body["components"]["schemas"]
    assert set(schemas["com.example.v1.Widget"]["properties"]) == {
        "apiVersion", "kind", "metadata", "spec", "status",
    }  # fmt: skip


def test_objects_are_pruned_and_defaulted(api: Api) -> None:
    body = widget(size=3, bogus=1, rows=[{"name": "a", "x": 1}], free={"a": {"b": 1}}, labels={"k": "v"})
    made = api.made(WIDGETS, body)
    assert made["spec"] == {
        "size": 3,
        "color": "red",
        "rows": [{"name": "a", "n": 3}],
        "free": {"a": {"b": 1}},
        "labels": {"k": "v"},
    }
    assert made["metadata"]["generation"] == 1
    assert api.get(WIDGETS).body["kind"] == "WidgetList"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "spec.size: Required value"),
        ({"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        ({"size": 11}, "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"),
        (
            {"size": "x"},
            'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
        ),
        (
            {"size": 1, "color": "blue"},
            'spec.color: Unsupported value: "blue": supported values: "red", "green"',
        ),
        (
            {"size": 1, "title": "A"},
            "spec.title: Invalid value: \"A\": spec.title in body should match '^[a-z]+$'",
        ),
        ({"size": 1, "title": "abcdef"}, "spec.title: Too long: may not be more than 5 bytes"),
        ({"size": 1, "rows": [{"name": "a"}] * 2}, 'spec.rows[1]: Duplicate value: {"name":"a"}'),
        (
            {"size": 1, "rows": [{"name": x} for x in "abc"]},
            "spec.rows: Too many: 3: must have at most 2 items",
        ),
        (
            {"size": 1, "port": 1.5},
            'spec.port: Invalid value: "number": spec.port in body must be of type integer,string: "number"',
        ),
    ],
)
def test_values_that_the_schema_does_not_allow_are_refused(
    api: Api, spec: dict[str, Any], message: str
) -> None:
    result = api.post(WIDGETS, widget(**spec))
    assert result.code == 422
    assert result.body["message"] == f'Widget.example.com "w1" is invalid: {message}'


def test_field_validation_finds_unknown_and_duplicate_fields(api: Api) -> None:
    strict = api.post(f"{WIDGETS}?fieldValidation=Strict", widget(size=1, bogus=1))
    assert (strict.code, strict.body["message"]) == (
        400,
        'Widget in version "v1" cannot be handled as a Widget: '
        'strict decoding error: unknown field "spec.bogus"',
    )
    text = b'{"metadata": {"name": "w1", "foo": 1}, "spec": {"size": 1, "size": 2}}'
    warned = api.call("POST", f"{WIDGETS}?fieldValidation=Warn", text)
    assert warned.code == 201
    assert warned.warnings == [
        '299 - "unknown field \\"metadata.foo\\""',
        '299 - "duplicate field \\"spec.size\\""',
    ]


def test_status_is_a_subresource_and_strategic_patches_are_not_taken(api: Api) -> None:
    made = api.made(WIDGETS, {**widget(size=1), "status": {"x": 1}})
    assert "status" not in made
    changed = api.patch(f"{WIDGETS}/w1/status", {"spec": {"size": 2}, "status": {"phase": "Ready"}}).body
    assert (changed["spec"]["size"], changed["status"]) == (1, {"phase": "Ready"})
    assert changed["metadata"]["generation"] == 1
    assert api.patch(f"{WIDGETS}/w1", {"spec": {"size": 2}}).body["metadata"]["generation"] == 2
    assert api.patch(f"{WIDGETS}/w1", {}, support.STRATEGIC).code == 415


def test_columns_come_from_the_definition() -> None:
    api = Api()
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
    ]
    api.made(CRDS, definition(additionalPrinterColumns=columns))
    api.made(WIDGETS, widget(size=4))
    rows = api.get(WIDGETS, accept=TABLE).body
    assert [column["name"] for column in rows["columnDefinitions"]] == ["Name", "Size", "Ready", "Since"]
    assert rows["rows"][0]["cells"] == ["w1", 4, None, "0s"]
    conditions = {"conditions": [{"type": "X", "status": "False"}, {"type": "Ready", "status": "True"}]}
    api.patch(f"{WIDGETS}/w1/status", {"status": conditions})
    assert api.get(WIDGETS, accept=TABLE).body["rows"][0]["cells"][2] == "True"


def test_objects_can_be_selected_by_the_fields_that_the_definition_names() -> None:
    api = Api()
    api.made(CRDS, definition(selectableFields=[{"jsonPath": ".spec.size"}]))
    for size in (1, 2):
        api.made(WIDGETS, widget(f"w{size}", size=size))
    found = api.get(f"{WIDGETS}?fieldSelector=spec.size=2").body["items"]
    assert [item["metadata"]["name"] for item in found] == ["w2"]
    assert api.get(f"{WIDGETS}?fieldSelector=spec.color=2").code == 400


def test_server_side_apply_merges_by_the_schema(api: Api) -> None:
    apply = "application/apply-patch+yaml"
    url = f"{WIDGETS}/w1?fieldManager="
    api.patch(f"{url}one", widget(size=1, rows=[{"name": "a"}]), apply)
    both = api.patch(f"{url}two", widget(size=1, rows=[{"name": "b"}]), apply).body
    assert [row["name"] for row in both["spec"]["rows"]] == ["a", "b"]
    refused = api.patch(f"{url}two", widget(size=2), apply)
    assert refused.body["message"].endswith('conflict with "one": .spec.size')


def test_two_versions_show_the_same_objects_under_two_names() -> None:
    api = Api()
    crd = definition()
    version = crd["spec"]["versions"][0]
    beta = {**version, "name": "v1beta1", "storage": False, "deprecated": True}
    crd["spec"]["versions"] = [beta, version]
    api.made(CRDS, crd)
    api.made(WIDGETS, widget(size=1))
    old = api.get(f"{WIDGETS.replace('v1', 'v1beta1', 1)}/w1")
    assert old.body["apiVersion"] == "example.com/v1beta1"
    assert old.warnings == ['299 - "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"']
    assert api.get("/apis/example.com").body["preferredVersion"]["version"] == "v1"


def test_a_deleted_definition_takes_its_objects_along_and_waits_for_their_finalizers(api: Api) -> None:
    held = widget("held", size=1)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    api.made(WIDGETS, held)
    api.made(WIDGETS, widget(size=1))
    assert api.delete(CRD).body["metadata"]["deletionTimestamp"]
    assert api.get(f"{WIDGETS}/w1").code == 404
    assert api.get(f"{WIDGETS}/held").code == 200
    api.patch(f"{WIDGETS}/held", {"metadata": {"finalizers": None}})
    assert api.get(CRD).code == 404
    assert api.get(WIDGETS).code == 404
    assert api.get("/apis/example.com/v1").code == 404
    api.made(CRDS, definition(scope="Cluster"))
    assert api.get("/apis/example.com/v1/widgets").body["items"] == []


def test_an_update_of_the_definition_changes_the_rules_for_what_comes_next(api: Api) -> None:
    wider = definition({"type": "object", "properties": {"size": {"type": "string"}}})
    wider["metadata"]["resourceVersion"] = api.get(CRD).body["metadata"]["resourceVersion"]
    assert api.put(CRD, wider).code == 200
    assert api.post(WIDGETS, widget(size=1)).code == 422
    assert api.post(WIDGETS, widget(size="1")).code == 201
    refused = api.patch(CRD, {"spec": {"scope": "Cluster"}})
    assert refused.body["message"].endswith('spec.scope: Invalid value: "Cluster": field is immutable')


def test_definitions_in_a_store_are_served_by_the_next_server() -> None:
    store = MemoryStore()
    first = Api(store)
    first.made(CRDS, definition(SPEC))
    first.made(WIDGETS, widget(size=1))
    assert Api(store).get(f"{WIDGETS}/w1").body["spec"]["size"] == 1


def test_a_kind_that_is_compiled_in_stays_as_it_is() -> None:
    api = Api()
    crd = definition(scope="Cluster")
    crd["metadata"]["name"] = "nodetopologies.baro.dev"
    crd["spec"] |= {"group": "baro.dev", "names": {"plural": "nodetopologies", "kind": "NodeTopology"}}
    crd["spec"]["versions"][0]["name"] = "v1alpha1"
    api.made(CRDS, crd)
    place = "/apis/baro.dev/v1alpha1/nodetopologies"
    api.made(place, {"metadata": {"name": "n1"}, "spec": {"anything": True}})
    api.delete(f"{CRDS}/nodetopologies.baro.dev")
    assert api.get(f"{place}/n1").body["spec"] == {"anything": True}


def test_a_kind_that_another_definition_has_is_not_established(api: Api) -> None:
    other = definition()
    other["metadata"]["name"] = "gadgets.example.com"
    other["spec"]["names"]["plural"] = "gadgets"
    made = api.made(CRDS, other)
    assert [c["status"] for c in made["status"]["conditions"]] == ["False", "False"]
    assert api.get("/apis/example.com/v1/namespaces/default/gadgets").code == 404


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scope": "Planet"}, 'spec.scope: Unsupported value: "Planet"'),
        (
            {"versions": []},
            "spec.versions: Invalid value: []: must have exactly one version marked as storage version",
        ),
        ({"group": "other.com"}, 'must be spec.names.plural+"."+spec.group'),
        ({"names": {"kind": "W"}}, "spec.names.plural: Required value"),
        ({"versions": "x"}, "spec.versions in body must be of type array"),
        (
            {"versions": [{"name": "v1", "served": True, "storage": True}]},
            "schema.openAPIV3Schema: Required value",
        ),
        ({"versions": [{"name": "V 1", "served": True, "storage": False}]}, "exactly one version"),
    ],
)
def test_definitions_that_describe_nothing_are_refused(change: dict[str, Any], message: str) -> None:
    crd = definition()
    crd["spec"] |= change
    result = Api().post(CRDS, crd)
    assert result.code == 422
    assert message in result.body["message"]


def test_a_schema_says_the_type_of_everything() -> None:
    crd = definition({"type": "object", "properties": {"size": {}, "list": {"type": "array"}}})
    message = Api().post(CRDS, crd).body["message"]
    prefix = "spec.validation.openAPIV3Schema.properties[spec].properties"
    assert f"{prefix}[size].type: Required value: must not be empty for specified object fields" in message
    assert f"{prefix}[list].items: Required value" in message


# --- functions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a", [1]),
        ("{.a}", [1]),
        (".b.c[0]", ["x"]),
        (".b.c[-1]", ["y"]),
        (".b.c[*]", ["x", "y"]),
        (".b['d.e']", [2]),
        (".b.d\\.e", [2]),
        (".rows[?(@.k=='b')].v", [2]),
        (".rows[?(@.v!=2)].k", ["a"]),
        (".nope.deeper[3]", []),
        (".", [{}]),
    ],
)
def test_simple_json_paths(path: str, found: list[Any]) -> None:
    rows = [{"k": "a", "v": 1}, {"k": "b", "v": 2}]
    document = {"a": 1, "b": {"c": ["x", "y"], "d.e": 2}, "rows": rows}
    assert find(document if path != "." else {}, path) == found


@pytest.mark.parametrize("path", ["..a", "a b", ".a[", ".a[?(x)]", ".a[1:2]"])
def test_other_json_paths_are_refused(path: str) -> None:
    with pytest.raises(JsonPathError):
        find({}, path)


def test_combined_schemas_and_numbers() -> None:
    schema = {
        "type": "object",
        "properties": {
            "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "step": {"type": "number", "multipleOf": 2, "exclusiveMaximum": True, "maximum": 10},
            "no": {"not": {"enum": ["x"]}},
            "when": {"type": "string", "format": "date-time"},
        },
    }
    assert problems({"either": 1, "step": 4, "no": "y", "when": "2026-01-02T12:00:00Z"}, schema) == []
    messages = [c.message for c in problems({"either": [], "step": 10, "no": "x", "when": "now"}, schema)]
    assert [m.partition(": ")[2].partition(": ")[2] for m in messages] == [
        '"either" must validate one and only one schema (oneOf). Found none valid',
        "step in body should be less than 10",
        '"no" must not validate the schema (not)',
        'when in body must be of type date-time: "now"',
    ]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 20) | st.sampled_from(["red", "a", "ABCDEF"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*SPEC["properties"], "n", "zzz"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=200)
@given(VALUES)
def test_pruning_leaves_nothing_unknown_and_checking_never_fails(value: Any) -> None:
    kept = without_unknown(value, SPEC)
    assert list(unknown_fields(kept, SPEC)) == []
    assert without_unknown(kept, SPEC) == kept
    filled = with_defaults(kept, SPEC)
    assert with_defaults(without_unknown(filled, SPEC), SPEC) == filled
    assert all(cause.message for cause in problems(filled, SPEC))


@settings(deadline=None, max_examples=100)
@given(VALUES)
def test_any_schema_gets_an_answer(schema: Any) -> None:
    crd = definition({"type": "object", "properties": {"x": schema}})
    api = Api()
    assert api.post(CRDS, crd).code in (201, 422)
    if api.get(CRD).code == 200:
        assert api.post(WIDGETS, widget(x=1)).code in (201, 422)


def test_what_a_definition_asks_for_in_vain_is_said_in_a_warning() -> None:
    api = Api()
    hook = {"clientConfig": {"url": "https://hooks.example.com"}, "conversionReviewVersions": ["v1"]}
    body = definition()
    body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": hook}
    assert api.post(f"{CRDS}?dryRun=All", definition()).warnings == []
    made = api.post(CRDS, body)
    assert made.code == 201
    assert made.warnings == [
        '299 - "spec.conversion: objects are not converted, versions differ in their name only"'
    ]
    assert api.patch(CRD, {"metadata": {"labels": {"a": "b"}}}).warnings == made.warnings
