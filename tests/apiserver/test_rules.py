"""Rules of custom kinds in CEL: what they see, what they say, and when they are let pass.

The golden session ``rules`` shows the same on a real server; here is what it leaves out.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.apiserver.rules import Correlated, FieldPathError, check_rules, found, rule_tree, run_rules
from baro.apiserver.rules.names import escaped
from baro.apiserver.storage import MemoryStore
from tests.support.apiserver import Api, definition, widget

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def rule(text: str, **more: Any) -> dict[str, Any]:
    return {"rule": text, **more}


def broken(schema: dict[str, Any], value: Any, old: Any = None) -> list[str]:
    """What the rules of a schema say of a value, as ``path: message``."""
    tree = rule_tree(schema, root=False)
    assert tree is not None
    return [f"{cause.field}: {cause.message}" for cause in run_rules(tree, value, old).causes]


def ruled(schema: dict[str, Any], *texts: str) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [rule(text) for text in texts]}


# --- what rules see --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "string"}, "abc", "self.startsWith('ab') && self.size() == 3"),
        ({"type": "number"}, 2, "self == 2.0 && type(self) == double"),
        ({"type": "integer"}, 2, "self + 1 == 3"),
        ({"type": "boolean"}, True, "self"),
        ({"type": "string", "format": "date-time"}, "2026-01-02T00:00:00Z", "self.getFullYear() == 2026"),
        ({"type": "string", "format": "date"}, "2026-01-02", "self.getDate() == 2"),
        ({"type": "string", "format": "duration"}, "90m", "self == duration('1h30m')"),
        ({"type": "string", "format": "byte"}, "YWI=", "self == b'ab'"),
        ({"x-kubernetes-int-or-string": True}, "10%", "type(self) == string && self.endsWith('%')"),
        ({"x-kubernetes-int-or-string": True}, 5, "type(self) == int && self > 4"),
        ({"type": "array", "items": {"type": "integer"}}, [1, 2], "self.exists(x, x == 2) && self[0] == 1"),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"a": 1, "b-c": 2},
            "self.all(k, self[k] > 0) && self['b-c'] == 2 && 'a' in self && has(self.a)",
        ),
        (
            {
                "type": "object",
                "properties": {"a.b-c/d": {"type": "integer"}, "namespace": {"type": "string"}},
            },
            {"a.b-c/d": 1, "namespace": "x"},
            "self.a__dot__b__dash__c__slash__d == 1 && self.__namespace__ == 'x'",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "nullable": True}}},
            {"a": None},
            "!has(self.a)",
        ),
        (
            {"type": "object", "properties": {"q": {"type": "string"}}},
            {"q": "80Gi"},
            "quantity(self.q).isGreaterThan(quantity('40Gi'))",
        ),
    ],
)
def test_a_rule_sees_values_as_its_schema_types_them(schema: dict[str, Any], value: Any, text: str) -> None:
    assert broken(ruled(schema, text), value) == []
    assert check_rules({"type": "object", "properties": {"x": ruled(schema, text)}}, "s", compiled=True) == []


def test_sets_and_maps_among_lists_compare_without_order_and_add_up_without_repeats() -> None:
    items = {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "plain": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": items,
            },
        },
    }
    texts = (
        "self.plain == oldSelf.plain",
        "self.set == oldSelf.set",
        "self.map == oldSelf.map",
        "self == oldSelf",
    )
    pairs = [{"k": "x", "v": 1}, {"k": "y", "v": 2}]
    one: dict[str, Any] = {"plain": ["a", "b"], "set": ["a", "b"], "map": pairs}
    turned = {name: value[::-1] for name, value in one.items()}
    said = broken(ruled(schema, *texts), turned, one)
    assert said == [
        "<nil>: Invalid value: failed rule: self.plain == oldSelf.plain",
        "<nil>: Invalid value: failed rule: self == oldSelf",
    ]
    other = {**one, "map": [{"k": "y", "v": 2}, {"k": "x", "v": 3}]}
    assert broken(ruled(schema, texts[2]), other, one) == [
        "<nil>: Invalid value: failed rule: self.map == oldSelf.map"
    ]
    sums = (
        "self.set + ['b', 'c'] == ['c', 'b', 'a']",
        "self.plain + ['b'] == ['a', 'b', 'b']",
        "(self.map + [self.map[0]]).size() == 2",
    )
    assert broken(ruled(schema, *sums), one) == []


def test_embedded_resources_and_roots_have_names_but_no_labels() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    schema = {"type": "object", "properties": {"template": ruled(embedded, "self.metadata.name == 'a'")}}
    value = {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "spec": {"x": 1}}}
    assert broken(schema, value) == ["template: Invalid value: failed rule: self.metadata.name == 'a'"]
    labels = {
        "type": "object",
        "properties": {"template": ruled(embedded, "self.metadata.labels.size() > 0")},
    }
    assert [
        cause.message.splitlines()[0].rpartition(": ")[2] for cause in check_rules(labels, "s", compiled=True)
    ] == ["undefined field 'labels'"]


def test_errors_at_run_time_name_the_rule() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"x-kubernetes-int-or-string": True}},
    }
    texts = ("self.a / 0 > 1", "self.b + 1 > 2")
    assert broken(ruled(schema, *texts), {"a": 1, "b": "x"}) == [
        '<nil>: Invalid value: "object": division by zero evaluating rule: self.a / 0 > 1',
        "<nil>: Invalid value: \"object\": 'no such overload': call arguments did not match a supported "
        "operator, function or macro signature for rule: self.b + 1 > 2",
    ]
    assert broken(ruled(schema, "self.a > 1"), {}) == [
        '<nil>: Invalid value: "object": no such key: a evaluating rule: self.a > 1'
    ]


def test_a_rule_that_costs_too_much_ends_the_evaluation() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    costly = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"
    said = broken(ruled(schema, costly, "false"), list(range(200)))
    assert len(said) == 1
    assert "no further validation rules will be run due to call cost exceeds limit for rule" in said[0]


@given(st.integers(-5, 5), st.integers(-5, 5))
def test_a_rule_decides_as_its_words_say(low: int, high: int) -> None:
    schema = {"type": "object", "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}}}
    assert (broken(ruled(schema, "self.low <= self.high"), {"low": low, "high": high}) == []) == (low <= high)


# --- messages, paths, old values -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "x: Invalid value: 3: failed rule: self > 5"),
        ({"message": " too small "}, "x: Invalid value: 3: too small"),
        ({"messageExpression": "'is ' + string(self)", "message": "m"}, "x: Invalid value: 3: is 3"),
        ({"messageExpression": "'  '", "message": "m"}, "x: Invalid value: 3: m"),
        ({"messageExpression": "string(self / 0)"}, "x: Invalid value: 3: failed rule: self > 5"),
        ({"reason": "FieldValueForbidden"}, "x: Forbidden: failed rule: self > 5"),
        ({"reason": "FieldValueRequired"}, "x: Required value: failed rule: self > 5"),
        ({"reason": "FieldValueDuplicate"}, "x: Duplicate value: 3"),
    ],
)
def test_a_broken_rule_speaks_with_its_message_and_reason(more: dict[str, Any], said: str) -> None:
    own = {"type": "integer", "x-kubernetes-validations": [rule("self > 5", **more)]}
    assert broken({"type": "object", "properties": {"x": own}}, {"x": 3}) == [said]


def test_a_field_path_moves_the_complaint() -> None:
    schema = {
        "type": "object",
        "properties": {"a.b": {"type": "object", "additionalProperties": {"type": "string"}}},
        "x-kubernetes-validations": [rule("false", fieldPath="['a.b']['k']")],
    }
    assert broken({"type": "object", "properties": {"x": schema}}, {"x": {}}) == [
        "x.a.b[k]: Invalid value: failed rule: false"
    ]


@pytest.mark.parametrize("path", ["a", ".b", ".a[b]", ".a['b'", ".a.x.y", ".", ".a["])
def test_paths_that_lead_nowhere_are_no_paths(path: str) -> None:
    with pytest.raises(FieldPathError):
        found(path, {"type": "object", "properties": {"a": {"type": "object"}}})


def test_transition_rules_need_an_old_value_that_items_have_by_their_keys() -> None:
    item = {
        "type": "object",
        "properties": {
            "k": {"type": "string"},
            "v": {"type": "integer", "x-kubernetes-validations": [rule("self >= oldSelf")]},
        },
    }
    keyed = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": item,
    }
    schema = {"type": "object", "properties": {"rows": keyed}}
    old = {"rows": [{"k": "a", "v": 5}, {"k": "b", "v": 1}]}
    new = {"rows": [{"k": "c", "v": 0}, {"k": "b", "v": 2}, {"k": "a", "v": 4}]}
    assert broken(schema, new, old) == ["rows[2].v: Invalid value: 4: failed rule: self >= oldSelf"]
    assert broken(schema, new) == []


def test_an_optional_old_value_runs_the_rule_on_new_objects_too() -> None:
    text = "oldSelf.hasValue() ? self > oldSelf.value() : self == 1"
    schema = {"type": "integer", "x-kubernetes-validations": [rule(text, optionalOldSelf=True)]}
    tree = {"type": "object", "properties": {"n": schema}}
    assert broken(tree, {"n": 1}) == []
    assert len(broken(tree, {"n": 2})) == 1
    assert broken(tree, {"n": 2}, {"n": 1}) == []
    assert len(broken(tree, {"n": 2}, {})) == 1


# --- over HTTP: status, ratcheting, blocking -------------------------------------------------------------

SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "label": {"type": "string", "x-kubernetes-validations": [rule("self.startsWith('x')")]},
    },
}


def test_what_an_update_leaves_alone_is_not_refused_but_said_in_a_warning() -> None:
    api = Api()
    before = {"type": "object", "properties": {**SPEC["properties"], "label": {"type": "string"}}}
    api.made(CRDS, definition(before))
    api.made(WIDGETS, widget(size=1, label="abc"))
    crd = api.get(f"{CRDS}/widgets.example.com").body
    narrow = {
        "type": "string",
        "maxLength": 2,
        **{k: v for k, v in SPEC["properties"]["label"].items() if k != "type"},
    }
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["label"] = narrow
    assert api.put(f"{CRDS}/widgets.example.com", crd).code == 200
    changed = api.patch(f"{WIDGETS}/w1", {"spec": {"size": 2}})
    assert (changed.code, changed.warnings) == (
        200,
        ['299 - "spec.label: Invalid value: \\"abc\\": failed rule: self.startsWith(\'x\')"'],
    )
    touched = api.patch(f"{WIDGETS}/w1", {"spec": {"label": "abcd"}})
    assert touched.code == 422
    assert [cause["message"] for cause in touched.body["details"]["causes"]] == [
        "Too long: may not be more than 2 bytes",
        "Invalid value: null: some validation rules were not checked because the object was invalid; correct "
        "the existing errors to complete validation",
    ]
    assert api.patch(f"{WIDGETS}/w1", {"spec": {"label": "xy"}}).code == 200


def test_a_write_to_the_status_runs_the_rules_of_the_status() -> None:
    api = Api()
    crd = definition(SPEC)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["status"] = {
        "type": "object",
        "properties": {"done": {"type": "integer", "x-kubernetes-validations": [rule("self < 5")]}},
    }
    api.made(CRDS, crd)
    api.made(WIDGETS, widget(size=1))
    refused = api.patch(f"{WIDGETS}/w1/status", {"status": {"done": 9}})
    assert (refused.code, refused.body["details"]["causes"][0]["field"]) == (422, "status.done")
    accepted = api.patch(f"{WIDGETS}/w1/status", {"status": {"done": 3}})
    assert (accepted.code, accepted.body["metadata"]["generation"]) == (200, 1)


def test_rules_live_on_after_a_restart() -> None:
    store = MemoryStore()
    Api(store=store).made(CRDS, definition(SPEC))
    again = Api(store=store)
    assert again.post(WIDGETS, widget(label="abc")).code == 422
    assert again.post(WIDGETS, widget(label="xbc")).code == 201


# --- names and correlation -------------------------------------------------------------------------------


@given(st.text("ab_.-/1", min_size=1, max_size=8))
def test_escaped_names_are_identifiers_and_tell_fields_apart(name: str) -> None:
    shown = escaped(name)
    if shown is None:
        assert name[0] == "1"
        return
    assert shown.isidentifier()
    back = shown
    for spelled, sign in (("dot", "."), ("dash", "-"), ("slash", "/")):
        back = back.replace(f"__{spelled}__", sign)
    assert back.replace("__underscores__", "__") == name


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(JSON)
def test_a_value_is_unchanged_beside_itself(value: Any) -> None:
    every: dict[str, Any] = {"type": "object", "additionalProperties": None}
    every["additionalProperties"] = every  # any depth
    assert Correlated({"v": value}, {"v": value}, {"properties": {"v": every}}).field("v") is not None
    if not isinstance(value, dict | list):
        assert Correlated(value, value, {}).unchanged
    assert not Correlated([value], [], {}).unchanged
    assert not Correlated(1, True, {}).unchanged


EXPRESSIONS = st.text("self.oldSelfabc()[]'\"<>=!&|?:+-*/ 0129,\\\n", max_size=30)


@settings(deadline=None, max_examples=150)
@given(EXPRESSIONS, EXPRESSIONS, JSON)
def test_any_text_for_a_rule_gets_an_answer(text: str, message: str, value: Any) -> None:
    """A definition is accepted or refused with causes; an object of an accepted one likewise."""
    api = Api()
    own = {"x-kubernetes-validations": [rule(text, messageExpression=message)]}
    crd = definition({"type": "object", "properties": {"v": {**_schema_of(value), **own}}})
    made = api.post(CRDS, crd)
    assert made.code in (201, 422), made.body
    if made.code == 422:
        assert made.body["details"]["causes"]
    else:
        assert api.post(WIDGETS, widget(v=value)).code in (201, 422)


def _schema_of(value: Any) -> dict[str, Any]:
    """A schema that the value fits."""
    kinds = {bool: "boolean", int: "integer", str: "string"}
    if isinstance(value, list):
        return {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}
    if isinstance(value, dict):
        return {"type": "object", "properties": {name: _schema_of(item) for name, item in value.items()}}
    return {"type": kinds.get(type(value), "string"), "nullable": True}
