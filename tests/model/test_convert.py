"""Conversion between the versions of resource.k8s.io loses nothing that its version knows."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from baro.model.convert import convert, to_v1, versions
from baro.model.decode import strict_errors, to_kind
from baro.model.errors import InputError
from baro.model.kinds import KubeObject
from tests.support import shared
from tests.support.schema import JSON, bodies, claim_body, slice_body

V1, BETA1, BETA2 = "resource.k8s.io/v1", "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"
KINDS = ("ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass")


def test_a_flat_request_moves_under_exactly() -> None:
    flat = {"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 4, "selectors": []}
    body = {"apiVersion": BETA1, "kind": "ResourceClaim", "spec": {"devices": {"requests": [flat]}}}
    moved = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 4, "selectors": []}}
    assert to_v1(body) == {**body, "apiVersion": V1, "spec": {"devices": {"requests": [moved]}}}


def test_the_basic_wrapper_of_a_device_is_taken_off() -> None:
    body = slice_body({"name": "d", "basic": {"attributes": {"a": {"int": 1}}, "capacity": None}})
    converted = to_v1({**body, "apiVersion": BETA1})
    assert converted == slice_body({"name": "d", "attributes": {"a": {"int": 1}}})


def test_first_available_stays_and_no_exactly_is_invented() -> None:
    request = {"name": "gpu", "firstAvailable": [{"name": "h200", "deviceClassName": "c"}]}
    body = {"apiVersion": BETA1, "kind": "ResourceClaim", "spec": {"devices": {"requests": [request]}}}
    assert to_v1(body)["spec"]["devices"]["requests"] == [request]


def test_a_false_admin_access_counts_as_set() -> None:
    request = {"name": "gpu", "adminAccess": False}
    body = {"apiVersion": BETA1, "kind": "ResourceClaim", "spec": {"devices": {"requests": [request]}}}
    converted = to_v1(body)["spec"]["devices"]["requests"][0]
    assert converted == {"name": "gpu", "exactly": {"adminAccess": False}}


def test_fields_that_v1beta1_does_not_know_there_are_not_moved_into_meaning() -> None:
    body = {**slice_body({"name": "d", "attributes": {"a": {"int": 1}}}), "apiVersion": BETA1}
    assert to_v1(body)["spec"]["devices"] == [{"name": "d"}]
    claim = {**claim_body(), "apiVersion": BETA1}
    assert to_v1(claim)["spec"]["devices"]["requests"] == [{"name": "gpu"}]


def test_a_plain_empty_node_name_of_v1beta1_means_not_set() -> None:
    body = {**slice_body(nodeName="", allNodes=False), "apiVersion": BETA1}
    spec = to_v1(body)["spec"]
    assert "nodeName" not in spec and "allNodes" not in spec


def test_v1beta2_has_the_shape_of_v1() -> None:
    body = claim_body(count=2)
    assert convert(body, BETA2) == {**body, "apiVersion": BETA2}
    assert to_v1(convert(body, BETA2)) == body


def test_other_groups_and_unknown_versions_come_back_as_they_are() -> None:
    for body in (
        {"apiVersion": "v1", "kind": "Pod"},
        {"apiVersion": "resource.k8s.io/v9", "kind": "DeviceClass"},
        {},
    ):
        assert to_v1(body) == body
    assert versions("Pod") == ()


def test_a_taint_rule_with_a_removed_selection_is_refused_not_widened() -> None:
    selector = {"driver": "gpu.nvidia.com", "selectors": [{"cel": {"expression": "true"}}]}
    body = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "DeviceTaintRule",
        "spec": {"deviceSelector": selector},
    }
    with pytest.raises(InputError, match=r'unknown field "spec.deviceSelector.selectors"'):
        to_kind(body)
    del selector["selectors"]
    assert to_v1(body)["apiVersion"] == V1


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"devices": [{"name": "d", "basic": []}]}, "spec.devices[0].basic"),
        ({"devices": {}}, "spec.devices"),
        ({"devices": ["d"]}, "spec.devices[0]"),
        ("x", "spec"),
    ],
)
def test_a_shape_that_cannot_be_converted_is_named_in_the_servers_words(spec: Any, path: str) -> None:
    body = {"apiVersion": BETA1, "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    with pytest.raises(InputError, match="cannot unmarshal") as caught:
        to_v1(body)
    assert caught.value.where.path == path


def test_case_049_the_articles_manifest_becomes_a_v1_claim_template() -> None:
    inputs, _ = shared.case("049")
    request = to_v1(yaml.safe_load(inputs["template.yaml"]))["spec"]["spec"]["devices"]["requests"][0]
    assert set(request) == {"name", "exactly"}
    assert request["exactly"]["count"] == 4


# --- properties ------------------------------------------------------------------------------------------


def _of_some_kind(api_version: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from(KINDS).flatmap(lambda kind: bodies(api_version, kind))


def _same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    first, second = to_kind(left), to_kind(right)
    assert isinstance(first, KubeObject)
    return first == second


@given(_of_some_kind(BETA1))
def test_v1beta1_survives_the_way_to_v1_and_back(body: dict[str, Any]) -> None:
    before = copy.deepcopy(body)
    there = to_v1(body)
    back = convert(there, BETA1)
    assert body == before, "the input was changed"
    assert not strict_errors(there) and not strict_errors(back)
    assert to_v1(back) == there
    assert _same(body, back)


@given(_of_some_kind(V1))
def test_v1_survives_the_way_to_v1beta1_and_back(body: dict[str, Any]) -> None:
    back = to_v1(convert(body, BETA1))
    assert not strict_errors(back)
    assert convert(back, BETA1) == convert(body, BETA1) or _only_zero_values_differ(body)


def _only_zero_values_differ(body: dict[str, Any]) -> bool:
    """v1beta1 cannot tell an empty node name or a false allNodes from none; neither is valid in v1."""
    spec = body.get("spec", {})
    return spec.get("nodeName") == "" or spec.get("allNodes") is False


@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON))
def test_garbage_converts_or_is_refused(kind: str, parts: dict[str, Any]) -> None:
    for source, target in ((BETA1, V1), (V1, BETA1)):
        try:
            convert({"apiVersion": source, "kind": kind, **parts}, target)
        except InputError as error:
            assert error.where.path
