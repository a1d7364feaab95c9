"""Server-side apply: who owns which field, conflicts, removal, and what other writes record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.apiserver.ownership import (
    ConflictError,
    Manager,
    SchemaShape,
    apply,
    decode_managed,
    encode_managed,
    record_update,
)
from baro.apiserver.ownership.managers import Held
from baro.apiserver.ownership.paths import from_fields_v1, text, to_fields_v1
from baro.apiserver.ownership.values import compare, fields_of, merge
from tests.support import apiserver as support
from tests.support.apiserver import CLAIMS, MAPS, NAMESPACES, PODS, Api, Result

APPLY = "application/apply-patch+yaml"
Body = dict[str, Any]


@pytest.fixture
def api() -> Api:
    return Api()


def applied(api: Api, url: str, body: Body, manager: str = "one", query: str = "") -> Result:
    return api.patch(f"{url}?fieldManager={manager}{query}", body, APPLY)


def owned(body: Body) -> dict[str, Any]:
    """Manager and operation → its fieldsV1."""
    entries = body["metadata"].get("managedFields", ())
    return {f"{e['manager']}/{e['operation']}/{e.get('subresource', '')}": e["fieldsV1"] for e in entries}


def test_apply_creates_and_owns_exactly_what_it_names(api: Api) -> None:
    result = applied(api, f"{MAPS}/m1", support.config_map(labels={"a": "b"}))
    assert result.code == 201
    assert owned(result.body) == {
        "one/Apply/": {"f:data": {"f:key": {}}, "f:metadata": {"f:labels": {"f:a": {}}}}
    }
    again = applied(api, f"{MAPS}/m1", support.config_map(labels={"a": "b"}))
    assert (again.code, again.body) == (200, result.body)


def test_a_conflict_names_manager_and_field_and_force_takes_it(api: Api) -> None:
    applied(api, f"{MAPS}/m1", support.config_map(data={"a": "1", "b": "2"}))
    refused = applied(api, f"{MAPS}/m1", support.config_map(data={"a": "9"}), "two")
    assert (refused.code, refused.body["reason"]) == (409, "Conflict")
    assert refused.body["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert refused.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
    ]
    taken = applied(api, f"{MAPS}/m1", support.config_map(data={"a": "9"}), "two", "&force=true").body
    assert taken["data"] == {"a": "9", "b": "2"}
    assert owned(taken) == {"one/Apply/": {"f:data": {"f:b": {}}}, "two/Apply/": {"f:data": {"f:a": {}}}}


def test_several_conflicts_are_listed_by_manager(api: Api) -> None:
    api.made(f"{MAPS}?fieldManager=writer", support.config_map(data={"a": "1", "b": "2"}))
    refused = applied(api, f"{MAPS}/m1", support.config_map(data={"a": "3", "b": "4"}))
    assert refused.body["message"] == (
        'Apply failed with 2 conflicts: conflicts with "writer" using v1:\n- .data.a\n- .data.b'
    )


def test_what_an_applier_drops_goes_unless_another_owns_it(api: Api) -> None:
    applied(api, f"{MAPS}/m1", support.config_map(data={"a": "1", "b": "2"}))
    applied(api, f"{MAPS}/m1", support.config_map(data={"b": "2"}), "two")
    dropped = applied(api, f"{MAPS}/m1", support.config_map(data={"c": "3"})).body
    assert dropped["data"] == {"b": "2", "c": "3"}
    gone = applied(api, f"{MAPS}/m1", support.config_map(data={"d": "4"}), "two").body
    assert gone["data"] == {"c": "3", "d": "4"}


def test_updates_are_recorded_with_time_version_and_subresource(api: Api) -> None:
    created = api.made(f"{CLAIMS}?fieldManager=maker", support.claim(labels={"a": "b"}))
    assert owned(created) == {
        "maker/Update/": {
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:devices": {"f:requests": {}}},
        }
    }
    status = {"metadata": {}, "status": {"allocation": support.allocation("gpu-0")}}
    changed = api.patch(f"{CLAIMS}/tp4/status?fieldManager=planner", status).body
    assert owned(changed)["planner/Update/status"] == {
        "f:status": {"f:allocation": {".": {}, "f:devices": {".": {}, "f:results": {}}}}
    }
    entry = next(e for e in changed["metadata"]["managedFields"] if e["manager"] == "planner")
    assert (entry["apiVersion"], entry["time"]) == ("resource.k8s.io/v1", "2026-01-02T12:00:00Z")


def test_a_writer_takes_fields_from_the_others_and_a_removal_from_all(api: Api) -> None:
    api.made(f"{MAPS}?fieldManager=one", support.config_map(data={"a": "1", "b": "2"}))
    api.patch(f"{MAPS}/m1?fieldManager=two", {"data": {"a": "3", "c": "4"}})
    body = api.patch(f"{MAPS}/m1?fieldManager=three", {"data": {"b": None}}).body
    assert owned(body) == {
        "one/Update/": {"f:data": {}},
        "two/Update/": {"f:data": {"f:a": {}, "f:c": {}}},
    }


def test_without_a_name_the_user_agent_signs(api: Api) -> None:
    made = api.made(MAPS, support.config_map())
    assert list(owned(made)) == ["unknown/Update/"]


def test_namespaces_and_pods_record_what_a_real_server_records(api: Api) -> None:
    namespace = api.made(f"{NAMESPACES}?fieldManager=k", {"metadata": {"name": "demo"}})
    assert owned(namespace)["k/Update/"] == {
        "f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}
    }
    made = api.made(f"{PODS}?fieldManager=k", support.pod(gate="x.example.com/g"))
    spec = owned(made)["k/Update/"]["f:spec"]
    assert spec["f:schedulingGates"] == {
        ".": {},
        'k:{"name":"x.example.com/g"}': {".": {}, "f:name": {}},
    }
    assert "." not in spec["f:containers"]
    assert "f:status" not in owned(made)["k/Update/"]


def test_objects_that_nobody_tracked_belong_to_before_first_apply(api: Api) -> None:
    api.made(MAPS, {**support.config_map(), "metadata": {"name": "m1"}})
    api.patch(f"{MAPS}/m1", {"metadata": {"managedFields": [{}]}})
    assert "managedFields" not in api.get(f"{MAPS}/m1").body["metadata"]
    assert "managedFields" not in api.patch(f"{MAPS}/m1", {"data": {"x": "y"}}).body["metadata"]
    refused = applied(api, f"{MAPS}/m1", support.config_map(data={"key": "new"}))
    assert 'conflict with "before-first-apply" using v1: .data.key' in refused.body["message"]


def test_lists_merge_by_their_keys_and_keep_their_order(api: Api) -> None:
    first = support.pod(gate="one.example.com/g")
    applied(api, f"{PODS}/p1", first)
    second = {**first, "spec": {"schedulingGates": [{"name": "one.example.com/g"}]}}
    body = applied(api, f"{PODS}/p1", second, "two").body
    assert [c["name"] for c in body["spec"]["containers"]] == ["main"]
    del second["spec"]["schedulingGates"]
    kept = applied(api, f"{PODS}/p1", second, "two").body
    assert kept["spec"]["schedulingGates"] == [{"name": "one.example.com/g"}]
    del first["spec"]["schedulingGates"]
    assert "schedulingGates" not in applied(api, f"{PODS}/p1", first).body["spec"]


def test_status_is_applied_through_its_subresource_only(api: Api) -> None:
    wanted = {**support.claim(), "status": {"allocation": support.allocation("gpu-0")}}
    body = applied(api, f"{CLAIMS}/tp4", wanted).body
    assert body["status"] == {}
    assert "f:status" not in owned(body)["one/Apply/"]
    bare = {name: wanted[name] for name in ("apiVersion", "kind", "metadata", "status")}
    status = applied(api, f"{CLAIMS}/tp4/status", bare, "planner").body
    assert status["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    assert list(owned(status)) == ["one/Apply/", "planner/Apply/status"]


@pytest.mark.parametrize(
    ("url", "body", "code", "message"),
    [
        (f"{MAPS}/m1", support.config_map(), 422, "Required value: is required for apply patch"),
        (f"{MAPS}/m1?fieldManager=x", {"data": {}}, 400, "invalid object type"),
        (f"{MAPS}/m1?fieldManager=x", {**support.config_map(), "foo": 1}, 500, ".foo: field not declared"),
        (
            f"{MAPS}/m1?fieldManager=x",
            {**support.config_map(), "data": {"a": 1}},
            500,
            ".data.a: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (f"{MAPS}/m1?fieldManager=x", support.config_map(managedFields=[{}]), 400, "must be nil"),
        (f"{MAPS}/m2?fieldManager=x", support.config_map(), 400, "does not match the name on the URL"),
        (f"{MAPS}/m1?fieldManager=x", [1], 400, "must be of type ConfigMap"),
        (f"{CLAIMS}/c/status?fieldManager=x", support.claim("c"), 404, "not found"),
    ],
)  # fmt: skip
def test_bad_applies_get_a_clear_answer(api: Api, url: str, body: Any, code: int, message: str) -> None:
    result = api.patch(url, body, APPLY)
    assert result.code == code
    assert message in result.body["message"]
    assert api.get(f"{MAPS}/m1").code == 404


def test_force_is_for_applies_only_and_a_dry_run_writes_nothing(api: Api) -> None:
    assert applied(api, f"{MAPS}/m1", support.config_map(), query="&dryRun=All").code == 201
    assert api.get(f"{MAPS}/m1").code == 404
    api.made(MAPS, support.config_map())
    refused = api.patch(f"{MAPS}/m1?force=true", {})
    assert "force: Forbidden: may not be specified for non-apply patch" in refused.body["message"]


def test_more_than_ten_updaters_fall_together() -> None:
    managed: dict[Manager, Held] = {}
    old: Body = {"metadata": {}}
    for number in range(14):
        new = {"metadata": {}, "data": {**old.get("data", {}), f"k{number}": "v"}}
        writer = Held(frozenset(), "v1", f"2026-01-02T12:00:{number:02}Z")
        manager = Manager("Update", f"m{number}", "v1")
        managed = record_update(managed, old, new, SHAPE, writer=writer, manager=manager)
        old = new
    names = {manager.name for manager in managed}
    assert len(managed) == 10
    assert "ancient-changes" in names and "m13" in names and "m0" not in names
    assert len(frozenset().union(*(held.fields for held in managed.values()))) == 15


# --- properties -------------------------------------------------------------------------------------------

SHAPE = SchemaShape(
    {
        "type": "object",
        "properties": {
            "data": {"type": "object", "additionalProperties": {"type": "string"}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "whole": {"type": "array", "items": {"type": "integer"}},
            "rows": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
                },
            },
        },
    },
    root=True,
)
_NAMES = st.sampled_from("abcd")
_SIZE: dict[str, st.SearchStrategy[Any]] = {"size": st.integers(0, 3)}
_ROWS: st.SearchStrategy[Body] = st.fixed_dictionaries({"name": _NAMES}, optional=_SIZE)
_PARTS: dict[str, st.SearchStrategy[Any]] = {
    "data": st.dictionaries(_NAMES, _NAMES, min_size=1),
    "tags": st.lists(_NAMES, unique=True, min_size=1),
    "whole": st.lists(st.integers(0, 3)),
    "rows": st.lists(_ROWS, unique_by=lambda row: str(row["name"]), min_size=1),
}
_METADATA: dict[str, st.SearchStrategy[Any]] = {"metadata": st.just({})}
DOCUMENTS: st.SearchStrategy[Body] = st.fixed_dictionaries(_METADATA, optional=_PARTS)
WRITER = Held(frozenset(), "v1", "t")


def contains(body: Any, config: Any) -> bool:
    """Whether ``config`` can be read off ``body``: independent of paths and shapes."""
    if isinstance(config, dict):
        return isinstance(body, dict) and all(
            name in body and contains(body[name], config[name]) for name in config
        )
    if isinstance(config, list) and config and isinstance(config[0], dict):
        return all(any(contains(item, wanted) for item in body) for wanted in config)
    if isinstance(config, list) and config and isinstance(config[0], str):
        return set(config) <= set(body)
    return bool(body == config)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), DOCUMENTS), max_size=6))
def test_after_every_forced_apply_the_object_holds_what_was_applied(steps: list[tuple[str, Body]]) -> None:
    live: Body = {}
    managed: dict[Manager, Held] = {}
    for name, config in steps:
        manager = Manager("Apply", name)
        result = apply(managed, live, config, SHAPE, writer=WRITER, manager=manager, force=True)
        assert contains(result.body, config)
        again = apply(result.managed, result.body, config, SHAPE, writer=WRITER, manager=manager)
        assert again.body == result.body
        assert decode_managed(encode_managed(result.managed)) == result.managed
        everything = fields_of(result.body, SHAPE)
        assert all(held.fields <= everything | {("f:metadata",)} for held in result.managed.values())
        live, managed = result.body, result.managed


@settings(deadline=None, max_examples=150)
@given(DOCUMENTS, DOCUMENTS)
def test_two_appliers_conflict_exactly_where_they_want_different_values(first: Body, second: Body) -> None:
    one = apply({}, {}, first, SHAPE, writer=WRITER, manager=Manager("Apply", "one"))
    disagree = not contains(merge(first, second, SHAPE), first) or any(
        first.get(name, second.get(name)) != second.get(name, first.get(name)) for name in ("whole",)
    )
    try:
        apply(one.managed, one.body, second, SHAPE, writer=WRITER, manager=Manager("Apply", "two"))
        assert not disagree
    except ConflictError as error:
        assert disagree
        assert error.conflicts


def unordered(document: Body) -> Body:
    """The order of sets and keyed lists says nothing."""
    sets: Body = {
        name: sorted(map(json.dumps, document[name])) for name in ("tags", "rows") if name in document
    }
    return {**document, **sets}


@settings(deadline=None, max_examples=150)
@given(DOCUMENTS, DOCUMENTS)
def test_a_comparison_is_empty_exactly_for_equal_documents(left: Body, right: Body) -> None:
    found = compare(left, right, SHAPE)
    differs = bool(found.added or found.removed or found.modified)
    assert differs == (unordered(left) != unordered(right))
    mirrored = compare(right, left, SHAPE)
    assert (mirrored.added, mirrored.removed, mirrored.modified) == (
        found.removed,
        found.added,
        found.modified,
    )


@settings(deadline=None, max_examples=100)
@given(DOCUMENTS)
def test_field_sets_survive_their_notation(document: Body) -> None:
    fields = fields_of(document, SHAPE)
    assert from_fields_v1(json.loads(json.dumps(to_fields_v1(fields)))) == fields
    assert all(text(path) for path in fields)


@pytest.mark.parametrize("broken", [[], {"x": {}}, {"f:a": 1}, {"k:[1]": {}}, {"k:{": {}}, {"v:": {}}])
def test_broken_field_sets_are_refused(broken: Any) -> None:
    with pytest.raises(ValueError):
        from_fields_v1(broken)


_FIELDS = [
    "metadata",
    "name",
    "labels",
    "spec",
    "containers",
    "data",
    "ports",
    "resources",
    "limits",
    "env",
    "cpu",
    "devices",
    "requests",
    "exactly",
    "status",
    "managedFields",
    "finalizers",
    "unknown",
]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 99) | st.sampled_from(["", "x", "1Gi", "m1", "default"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(_FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@settings(deadline=None, max_examples=200)
@given(JUNK, JUNK, st.sampled_from([("v1", "ConfigMap", MAPS), ("v1", "Pod", PODS), ("", "", CLAIMS)]))
def test_any_applied_body_gets_an_answer(one: Any, two: Any, where: tuple[str, str, str]) -> None:
    api = Api()
    version, kind, place = where
    version, kind = version or "resource.k8s.io/v1", kind or "ResourceClaim"
    for body in (one, two):
        config = {**body, "apiVersion": version, "kind": kind} if isinstance(body, dict) else body
        result = api.patch(f"{place}/m1?fieldManager=x&force=true", config, APPLY)
        assert result.code in (200, 201, 400, 422, 500)
        assert result.code < 400 or result.body["message"]
