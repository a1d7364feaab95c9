"""Patches: against small independent implementations, and the server's own rules by example."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.apiserver.patching import (
    PatchError,
    Problem,
    apply_json_patch,
    apply_merge_patch,
    apply_strategic_patch,
)
from baro.model.schema import object_type

POD = object_type("v1", "Pod")
CLAIM = object_type("resource.k8s.io/v1", "ResourceClaim")

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"])
names = st.sampled_from(["a", "b", "c/d", "e~f", ""])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(names, values, max_size=4)


# --- merge patch ----------------------------------------------------------------------------------------


def merged_by_the_book(target: Any, patch: Any) -> Any:
    """The pseudo code of RFC 7386, section 2."""
    if isinstance(patch, dict):
        target = {} if not isinstance(target, dict) else dict(target)
        for name in patch:
            if patch[name] is None:
                if name in target:
                    del target[name]
            else:
                target[name] = merged_by_the_book(target.get(name), patch[name])
        return target
    return patch


@settings(deadline=None, max_examples=300)
@given(values, objects)
def test_merge_patch_does_what_rfc_7386_says(document: Any, patch: dict[str, Any]) -> None:
    before = (copy.deepcopy(document), copy.deepcopy(patch))
    assert apply_merge_patch(document, patch) == merged_by_the_book(document, patch)
    assert (document, patch) == before


def test_a_merge_patch_that_is_no_object_is_malformed() -> None:
    with pytest.raises(PatchError) as raised:
        apply_merge_patch({}, ["a"])
    assert raised.value.problem is Problem.MALFORMED


# --- JSON patch -----------------------------------------------------------------------------------------


class Unfit(Exception):  # noqa: N818
    """The independent implementation cannot apply an operation."""


def patched_by_the_book(document: Any, operations: list[dict[str, Any]]) -> Any:
    """RFC 6902 by rebuilding the document along the path, without changing anything in place."""
    for operation in operations:
        path = parts(operation["path"])
        match operation["op"]:
            case "test":
                if json.dumps(at(document, path), sort_keys=True) != json.dumps(
                    operation["value"], sort_keys=True
                ):
                    raise Unfit
            case "add":
                document = rebuilt(document, path, ("add", operation["value"]))
            case "remove":
                document = rebuilt(document, path, ("remove", None))
            case "replace":
                document = rebuilt(document, path, ("replace", operation["value"]))
            case "copy":
                document = rebuilt(document, path, ("add", at(document, parts(operation["from"]))))
            case "move":
                origin = parts(operation["from"])
                if path[: len(origin)] == origin and path != origin:
                    raise Unfit
                moved = at(document, origin)
                document = rebuilt(rebuilt(document, origin, ("remove", None)), path, ("add", moved))
    return document


def parts(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")][1:]


def at(node: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(node, dict) and part in node:
            node = node[part]
        elif isinstance(node, list) and part in [str(i) for i in range(len(node))]:
            node = node[int(part)]
        else:
            raise Unfit
    return node


def rebuilt(node: Any, path: list[str], change: tuple[str, Any]) -> Any:
    kind, value = change
    if not path:
        return None if kind == "remove" else value
    head, rest = path[0], path[1:]
    if isinstance(node, dict):
        if rest or kind != "add":
            if head not in node:
                raise Unfit
            if not rest and kind == "remove":
                return {name: item for name, item in node.items() if name != head}
            return {**node, head: rebuilt(node[head], rest, change)}
        return {**node, head: value}
    if not isinstance(node, list):
        raise Unfit
    places = [str(i) for i in range(len(node))]
    if not rest and kind == "add":
        if head == "-":
            return [*node, value]
        if head not in [*places, str(len(node))]:
            raise Unfit
        return [*node[: int(head)], value, *node[int(head) :]]
    if head not in places:
        raise Unfit
    index = int(head)
    if not rest and kind == "remove":
        return [*node[:index], *node[index + 1 :]]
    return [*node[:index], rebuilt(node[index], rest, change), *node[index + 1 :]]


pointers = st.lists(
    st.sampled_from(["a", "b", "c~1d", "e~0f", "0", "1", "2", "-", "01", ""]), min_size=0, max_size=3
).map(lambda found: "".join(f"/{part}" for part in found))
single_operations = st.one_of(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "replace", "test"]), "path": pointers, "value": values}
    ),
    st.fixed_dictionaries({"op": st.just("remove"), "path": pointers}),
    st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "path": pointers, "from": pointers}),
)


@settings(deadline=None, max_examples=500)
@given(objects, st.lists(single_operations, max_size=4))
def test_json_patch_does_what_rfc_6902_says(
    document: dict[str, Any], operations: list[dict[str, Any]]
) -> None:
    before = copy.deepcopy(document)
    try:
        expected = patched_by_the_book(document, operations)
    except Unfit:
        with pytest.raises(PatchError) as raised:
            apply_json_patch(document, operations)
        assert raised.value.problem is Problem.MISFIT
    else:
        assert json.dumps(apply_json_patch(document, operations)) == json.dumps(expected)
    assert document == before


@settings(deadline=None, max_examples=200)
@given(values, values)
def test_no_patch_body_whatsoever_ends_in_anything_but_a_patch_error(document: Any, patch: Any) -> None:
    for apply in (apply_json_patch, apply_merge_patch):
        try:
            apply(document, patch)
        except PatchError:
            continue
    if isinstance(document, dict):
        try:
            apply_strategic_patch(document, patch, POD)
        except PatchError:
            return


def test_a_test_operation_does_not_take_one_for_true() -> None:
    with pytest.raises(PatchError):
        apply_json_patch({"a": 1}, [{"op": "test", "path": "/a", "value": True}])
    assert apply_json_patch({"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}]) == {"a": 1}


def test_more_than_ten_thousand_operations_are_too_long() -> None:
    with pytest.raises(PatchError) as raised:
        apply_json_patch({}, [{"op": "test", "path": "", "value": {}}] * 10_001)
    assert raised.value.problem is Problem.TOO_LONG


# --- strategic merge ------------------------------------------------------------------------------------


def pod_with(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": list(containers)}}


def test_list_elements_merge_by_their_key() -> None:
    document = pod_with({"name": "a", "image": "x:1", "tty": True}, {"name": "b", "image": "y"})
    patch = pod_with({"name": "a", "image": "x:2"})
    assert apply_strategic_patch(document, patch, POD) == pod_with(
        {"name": "a", "image": "x:2", "tty": True}, {"name": "b", "image": "y"}
    )


def test_new_elements_come_first_unless_the_patch_gives_an_order() -> None:
    document = pod_with({"name": "a"})
    added = pod_with({"name": "b"})
    assert apply_strategic_patch(document, added, POD) == pod_with({"name": "b"}, {"name": "a"})
    ordered = copy.deepcopy(added)
    ordered["spec"]["$setElementOrder/containers"] = [{"name": "a"}, {"name": "b"}]
    assert apply_strategic_patch(document, ordered, POD) == pod_with({"name": "a"}, {"name": "b"})


def test_an_order_must_name_every_element_of_the_patch() -> None:
    patch = {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}}
    with pytest.raises(PatchError) as raised:
        apply_strategic_patch(pod_with({"name": "a"}), patch, POD)
    assert raised.value.problem is Problem.MALFORMED


def test_directives_delete_and_replace_elements() -> None:
    document = pod_with({"name": "a"}, {"name": "b"})
    deleted = apply_strategic_patch(document, pod_with({"$patch": "delete", "name": "a"}), POD)
    assert deleted == pod_with({"name": "b"})
    replaced = apply_strategic_patch(document, pod_with({"name": "c"}, {"$patch": "replace"}), POD)
    assert replaced == pod_with({"name": "c"})


def test_directives_replace_and_delete_maps() -> None:
    document = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    replaced = apply_strategic_patch(document, {"metadata": {"labels": {"$patch": "replace", "c": "3"}}}, POD)
    assert replaced == {"metadata": {"labels": {"c": "3"}}}
    deleted = apply_strategic_patch(document, {"metadata": {"labels": {"$patch": "delete"}}}, POD)
    assert deleted == {"metadata": {"labels": {}}}
    kept = apply_strategic_patch(document, {"metadata": {"labels": {"$retainKeys": ["b"], "b": "3"}}}, POD)
    assert kept == {"metadata": {"labels": {"b": "3"}}}


def test_primitive_lists_with_merge_strategy_are_united_and_diminished() -> None:
    document = {"metadata": {"finalizers": ["a/x", "b/y"]}}
    united = apply_strategic_patch(document, {"metadata": {"finalizers": ["c/z", "a/x"]}}, POD)
    assert sorted(united["metadata"]["finalizers"]) == ["a/x", "b/y", "c/z"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/x", "n/n"]}}
    assert apply_strategic_patch(document, patch, POD) == {"metadata": {"finalizers": ["b/y"]}}


def test_lists_without_a_strategy_are_replaced() -> None:
    document = {"spec": {"devices": {"requests": [{"name": "a"}, {"name": "b"}]}}}
    patch = {"spec": {"devices": {"requests": [{"name": "c"}]}}}
    assert apply_strategic_patch(document, patch, CLAIM) == patch


def test_an_element_without_its_merge_key_is_named_in_the_error() -> None:
    with pytest.raises(PatchError) as raised:
        apply_strategic_patch(pod_with({"name": "a"}), pod_with({"image": "x"}), POD)
    assert raised.value.problem is Problem.UNKEYED
    assert raised.value.message == "map: map[image:x] does not contain declared merge key: name"


@settings(deadline=None, max_examples=200)
@given(objects, objects)
def test_without_a_shape_and_directives_a_strategic_patch_merges_maps_like_a_merge_patch(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    def plain(node: Any, *, inside_list: bool = False) -> bool:
        """Nulls inside new values are dropped by one and not by the other; leave them out."""
        if isinstance(node, dict):
            return all(plain(item, inside_list=inside_list) for item in node.values())
        if isinstance(node, list):
            return all(plain(item, inside_list=True) for item in node)
        return not (inside_list and node is None)

    if plain(patch):
        assert apply_strategic_patch(document, patch, None) == apply_merge_patch(document, patch)
