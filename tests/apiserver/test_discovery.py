"""Discovery and OpenAPI: the same resources in every form, each reference resolvable."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from baro.apiserver.catalogue import Catalogue
from baro.apiserver.openapi import STRATEGIC_PATCH
from tests.support.apiserver import CLAIMS, Api, claim

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture(scope="module")
def api() -> Api:
    return Api()


def test_aggregated_discovery_and_the_older_lists_agree(api: Api) -> None:
    aggregated: dict[str, set[str]] = {}
    for path in ("/api", "/apis"):
        body = api.get(path, accept=f"{AGGREGATED},application/json").body
        assert (body["kind"], body["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
        for group in body["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                place = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
                aggregated[place] = {resource["resource"] for resource in version["resources"]}
    for place, resources in aggregated.items():
        listed = api.get(place).body
        assert listed["kind"] == "APIResourceList"
        assert {r["name"] for r in listed["resources"] if "/" not in r["name"]} == resources
    groups = {group["name"] for group in api.get("/apis").body["groups"]}
    assert groups == {place.split("/")[2] for place in aggregated if place.startswith("/apis/")}
    assert api.get("/api").body["versions"] == ["v1"]
    assert api.get("/apis/resource.k8s.io").body["preferredVersion"]["version"] == "v1"


def test_only_subresources_that_are_served_are_announced(api: Api) -> None:
    announced = [r["name"] for r in api.get("/api/v1").body["resources"] if "/" in r["name"]]
    assert sorted(announced) == [
        "namespaces/finalize", "namespaces/status", "nodes/status", "pods/binding", "pods/status",
    ]  # fmt: skip


def test_the_version_is_1_37_and_says_what_it_is(api: Api) -> None:
    version = api.get("/version").body
    assert (version["major"], version["minor"]) == ("1", "37")
    assert "simulated" in version["platform"]


def test_every_openapi_document_is_whole(api: Api) -> None:
    index = api.get("/openapi/v3").body["paths"]
    assert {"api/v1", "apis/resource.k8s.io/v1", "apis/resource.k8s.io/v1beta1"} <= set(index)
    for entry in index.values():
        document = api.get(entry["serverRelativeURL"]).body
        schemas = document["components"]["schemas"]
        for reference in references(document):
            assert reference.removeprefix("#/components/schemas/") in schemas


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if "$ref" in node else []
        return own + [found for value in node.values() for found in references(value)]
    return [found for value in node for found in references(value)] if isinstance(node, list) else []


def test_patch_operations_take_validation_and_dry_run_and_say_their_kind(api: Api) -> None:
    document = api.get("/openapi/v3/apis/resource.k8s.io/v1").body
    path = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
    patch = document["paths"][path]["patch"]
    assert {"fieldValidation", "dryRun"} <= {parameter["name"] for parameter in patch["parameters"]}
    gvk = {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim"}
    assert patch["x-kubernetes-group-version-kind"] == gvk
    assert STRATEGIC_PATCH in patch["requestBody"]["content"]
    pods = api.get("/openapi/v3/api/v1").body["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    containers = pods["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"


def test_the_schemas_are_valid_and_accept_an_object_that_the_server_accepts(api: Api) -> None:
    document = api.get("/openapi/v3/apis/resource.k8s.io/v1").body
    made = Api().made(CLAIMS, claim())
    root = {"$ref": "#/components/schemas/io.k8s.api.resource.v1.ResourceClaim", **document}
    jsonschema.Draft202012Validator(root).validate(made)


def test_each_resource_has_one_stored_version() -> None:
    catalogue = Catalogue()
    for served in catalogue:
        stored = catalogue.stored(served.key)
        assert not stored.converted
        assert served.stored == stored.kind
