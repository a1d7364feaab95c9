"""Bodies become Structs, or one clear error."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from baro.model.decode import to_kind
from baro.model.errors import InputError, Where
from baro.model.kinds import core, resource
from baro.model.schema import kinds
from tests.support import shared
from tests.support.schema import JSON, bodies, claim_body, slice_body

MODELLED = ("Pod", "Node", "Lease", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass")


def test_a_slice_becomes_its_struct() -> None:
    found = to_kind(slice_body({"name": "gpu-0", "attributes": {"numa": {"int": 0}, "ok": {"bool": False}}}))
    assert isinstance(found, resource.ResourceSlice)
    assert found.spec.devices[0].attributes["numa"].int_ == 0
    assert found.spec.devices[0].attributes["ok"].bool_ is False


def test_v1beta1_reads_as_v1() -> None:
    flat = {"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 2}
    body = {
        **claim_body(),
        "apiVersion": "resource.k8s.io/v1beta1",
        "spec": {"devices": {"requests": [flat]}},
    }
    assert to_kind(body) == to_kind(claim_body(count=2))


def test_nulls_count_as_absent() -> None:
    body = claim_body(selectors=None, count=None)
    body["metadata"] |= {"labels": {"a": None}, "creationTimestamp": None, "finalizers": [None]}
    body["status"] = None
    found = to_kind(body)
    assert isinstance(found, resource.ResourceClaim)
    assert found.metadata.labels == {"a": ""}
    assert found.status == resource.ResourceClaimStatus()


def test_unknown_fields_are_ignored() -> None:
    assert to_kind({**slice_body(foo=1), "bar": 2}) == to_kind(slice_body())


def test_kinds_that_are_not_modelled_give_none() -> None:
    for body in (
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        {"apiVersion": "example.com/v1", "kind": "Foo"},
        {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest"},
        {"kind": "Pod"},
        {"apiVersion": 1, "kind": "Pod"},
        {},
    ):
        assert to_kind(body) is None


def test_a_wrong_type_names_file_object_and_path_in_the_servers_words() -> None:
    body = claim_body(count="2")
    with pytest.raises(InputError) as caught:
        to_kind(body, Where(file="claim.yaml", line=3))
    where = caught.value.where
    assert (where.file, where.line, where.object) == ("claim.yaml", 3, "ResourceClaim default/c")
    assert where.path == "spec.devices.requests[0].exactly.count"
    assert caught.value.what.startswith(
        "json: cannot unmarshal string into Go struct field ExactDeviceRequest."
    )


def test_the_path_of_an_old_version_is_that_of_the_users_own_document() -> None:
    flat = {"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": "2"}
    body = {
        **claim_body(),
        "apiVersion": "resource.k8s.io/v1beta1",
        "spec": {"devices": {"requests": [flat]}},
    }
    with pytest.raises(InputError) as caught:
        to_kind(body)
    assert caught.value.where.path == "spec.devices.requests[0].count"


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1alpha3"])
def test_classic_dra_is_refused_with_a_next_step(version: str) -> None:
    body = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "x"},
    }
    with pytest.raises(InputError) as caught:
        to_kind(body)
    registered = f'no kind "ResourceClaimTemplate" is registered for version "resource.k8s.io/{version}"'
    assert caught.value.what == registered
    assert caught.value.next_step


def test_case_059_f_says_what_the_server_says() -> None:
    inputs, expect = shared.case("059")
    body = {"kind": "ResourceClaimTemplate", **yaml.safe_load(inputs["cases.yaml"])["F"]}
    with pytest.raises(InputError) as caught:
        to_kind(body)
    assert caught.value.what == expect["F"]


def test_taint_rules_of_all_versions_read_as_v1() -> None:
    spec = {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoExecute"}}
    rules = [
        to_kind({"apiVersion": f"resource.k8s.io/{version}", "kind": "DeviceTaintRule", "spec": spec})
        for version in ("v1", "v1beta2", "v1alpha3")
    ]
    assert isinstance(rules[0], resource.DeviceTaintRule)
    assert rules[0] == rules[1] == rules[2]


def test_every_public_manifest_decodes_or_names_a_path_or_kind() -> None:
    """Two figures so that a silent loss shows: objects read, objects refused."""
    shared.path("data/dra-yaml")
    read = refused = 0
    for path in shared.listing("data/dra-yaml", "*"):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if not isinstance(document, dict):
                continue
            items = document["items"] if str(document.get("kind")).endswith("List") else [document]
            for item in items:
                try:
                    read += to_kind(item, Where(file=path.name)) is not None
                except InputError as error:
                    refused += 1
                    assert error.where.path or "is registered for version" in error.what
    assert read > 10 * refused


# --- properties ------------------------------------------------------------------------------------------

_MODELLED = [(kind.api_version, kind.kind) for kind in kinds() if kind.kind in MODELLED]


@given(st.sampled_from(_MODELLED).flatmap(lambda kind: bodies(*kind)))
def test_every_well_typed_body_of_a_modelled_kind_decodes(body: dict[str, Any]) -> None:
    found = to_kind(body)
    assert found is not None
    assert to_kind(found.to_dict()) == found


@given(st.sampled_from(_MODELLED), st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON))
def test_garbage_gives_an_object_or_one_input_error(kind: tuple[str, str], parts: dict[str, Any]) -> None:
    try:
        to_kind({"apiVersion": kind[0], "kind": kind[1], **parts})
    except InputError as error:
        assert error.what


def test_a_pod_reads_its_claims() -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}], "containers": None},
    }
    found = to_kind(body)
    assert isinstance(found, core.Pod)
    assert found.spec.resource_claims[0].resource_claim_template_name == "t"
