"""Requests that make no sense get a proper Status, whatever they are."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.apiserver.handling import Answer, Handler, Watch
from baro.apiserver.requests import Request
from tests.support import apiserver as support
from tests.support.apiserver import CLAIMS, MAPS, PODS, Api


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/api/v2",
        "/api/v1/foos",
        "/apis/apps/v1/deployments",
        "/apis/nope.example.com",
        "/apis/resource.k8s.io/v9/resourceclaims",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/pods/p1",
        f"{PODS}/p1/log",
        f"{PODS}/p1/eviction",
        f"{PODS}/p1/status/more",
        f"{MAPS}/m1/status",
        "/openapi/v3/apis/apps/v1",
        "/apis/authorization.k8s.io/v1/nodeaccessreviews",
        "/metrics",
        "//",
    ],
)
def test_an_unserved_path_is_a_404_status(api: Api, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        result = api.call(method, path)
        if path == "//" and method == "GET":
            continue  # the root lists the paths
        assert result.code in (404, 405), (method, path)
        assert result.body["kind"] == "Status"
        assert result.body["code"] == result.code


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/version"),
        ("POST", "/api"),
        ("DELETE", "/healthz"),
        ("POST", f"{MAPS}/m1"),
        ("PUT", MAPS),
        ("PATCH", MAPS),
        ("POST", "/api/v1/pods"),
        ("DELETE", "/api/v1/pods"),
        ("GET", f"{PODS}/p1/binding"),
        ("DELETE", f"{PODS}/p1/status"),
        ("TRACE", f"{MAPS}/m1"),
    ],
)
def test_an_unserved_verb_is_a_405_status(api: Api, method: str, path: str) -> None:
    result = api.call(method, path)
    assert (result.code, result.body["reason"]) == (405, "MethodNotAllowed")
    assert result.body["message"] == "the server does not allow this method on the requested resource"


def test_null_is_an_empty_object_which_lacks_a_name(api: Api) -> None:
    assert (
        api.call("POST", MAPS, b"null")
        .body["message"]
        .endswith("Required value: name or generateName is required")
    )
    answer = api.call("PUT", f"{MAPS}/m1", b"null")
    assert (answer.code, answer.body["message"]) == (
        400,
        "the name of the object (m1 based on URL) was undeterminable: name must be provided",
    )


def test_a_kind_that_stands_twice_is_a_duplicate_field(api: Api) -> None:
    body = (
        b'{"kind":"ConfigMap","metadata":{"name":"x"},"kind":"ConfigMap","apiVersion":"v1","apiVersion":"v1"}'
    )
    strict = api.call("POST", f"{MAPS}?fieldValidation=Strict", body)
    assert strict.code == 400
    assert 'duplicate field "kind", duplicate field "apiVersion"' in strict.body["message"]
    assert api.call("POST", f"{MAPS}?fieldValidation=Ignore", body).code == 201


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "unexpected end of JSON input"),
        (b"hello", "invalid character 'h' looking for beginning of value"),
        (b"[1]", "cannot unmarshal array into Go value"),
        (b'"text"', "cannot unmarshal string"),
        (b'{"kind": 1}', "couldn't get version/kind"),
        (b"\xff\xfe\x00", "json parse error"),
        (b"[" * 100_000, "json parse error"),
        (b'{"a":' * 50_000, "json parse error"),
    ],
)
def test_garbage_in_a_body_is_a_400_status(api: Api, data: bytes, message: str) -> None:
    result = api.call("POST", CLAIMS, data)
    assert (result.code, result.body["reason"]) == (400, "BadRequest")
    assert message in result.body["message"]


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b"\xff", b"5"])
def test_garbage_in_a_patch_is_a_client_error(api: Api, data: bytes) -> None:
    api.made(MAPS, support.config_map())
    for kind in (support.MERGE, support.STRATEGIC, support.JSON_PATCH):
        assert api.call("PATCH", f"{MAPS}/m1", data, kind).code in (400, 422)
    assert api.call("DELETE", f"{MAPS}/m1", b"{").code == 400


def test_a_body_of_another_kind_or_version_is_refused(api: Api) -> None:
    result = api.post(CLAIMS, {**support.claim(), "kind": "ResourceSlice"})
    assert "cannot be handled as a ResourceClaim: converting (v1.ResourceSlice)" in result.body["message"]
    result = api.post(CLAIMS, {**support.claim(), "apiVersion": "resource.k8s.io/v1beta2"})
    assert result.body["message"] == (
        "the API version in the data (resource.k8s.io/v1beta2) does not match the expected API version "
        "(resource.k8s.io/v1)"
    )


def test_yaml_bodies_are_read_and_protobuf_is_refused(api: Api) -> None:
    text = yaml.safe_dump(support.claim()).encode()
    assert api.call("POST", CLAIMS, text, "application/yaml").code == 201
    assert api.call("POST", CLAIMS, b"a: [", "application/yaml").code == 400
    assert api.call("POST", CLAIMS, b"a: &a [*a]", "application/yaml").code == 400
    assert api.call("POST", CLAIMS, b"--- {}\n--- {}\n", "application/yaml").code == 400
    refused = api.call("POST", CLAIMS, b"k8s\x00", "application/vnd.kubernetes.protobuf")
    assert (refused.code, refused.body["reason"]) == (415, "UnsupportedMediaType")


def test_a_duplicate_field_is_reported(api: Api) -> None:
    data = json.dumps(support.config_map()).replace('"data"', '"data": {}, "data"').encode()
    result = api.call("POST", f"{MAPS}?fieldValidation=Strict", data)
    assert result.body["message"] == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'duplicate field "data"'
    )


FIELDS = [
    "metadata", "spec", "status", "devices", "requests", "name", "labels", "finalizers", "target", "cpu",
    "ownerReferences", "containers", "schedulingGates", "resources", "limits", "exactly", "conditions",
    "uid", "namespace", "generateName", "allocation", "reservedFor", "results", "kind", "taints",
]  # fmt: skip
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=20,
)
paths = st.sampled_from(
    [
        PODS,
        f"{PODS}/p1",
        f"{PODS}/p1/status",
        f"{PODS}/p1/binding",
        CLAIMS,
        f"{CLAIMS}/tp4",
        f"{CLAIMS}/tp4/status",
        support.SLICES,
        f"{support.SLICES}/s1",
        support.NODES,
        f"{support.NODES}/n1/status",
        support.NAMESPACES,
        f"{support.NAMESPACES}/default",
        MAPS,
        "/api/v1/namespaces/default/events",
        "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims/tp4",
        "/apis/resource.k8s.io/v1beta1/resourceslices",
    ]
)


@settings(deadline=None, max_examples=400)
@given(
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    paths,
    anything,
    st.sampled_from(["application/json", support.MERGE, support.STRATEGIC, support.JSON_PATCH]),
)
def test_no_request_whatsoever_breaks_the_server(method: str, path: str, body: object, media: str) -> None:
    api = Api()
    api.made(PODS, support.pod(gate="x.com/y"))
    api.made(CLAIMS, support.claim())
    api.made(support.SLICES, support.resource_slice())
    api.made(support.NODES, support.node())
    if isinstance(body, dict) and method in ("POST", "PUT"):
        body.pop("kind", None)
        body.setdefault("metadata", {"name": path.split("/")[7] if path.count("/") > 6 else "x"})
    result = api.call(method, path, body, media)
    assert result.code < 500 or "does not contain declared merge key" in result.body["message"], result.body
    for served in api.registry.catalogue:
        url = f"/apis/{served.kind.group}/{served.kind.version}" if served.kind.group else "/api/v1"
        listed = api.get(f"{url}/{served.kind.plural}", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        assert listed.code == 200, listed.body


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=60), st.text(alphabet="abc=&%!watch 0123", max_size=30))
def test_no_path_whatsoever_breaks_the_server(path: str, query: str) -> None:
    handler = Handler(Api().registry)
    for method in ("GET", "DELETE", "PATCH"):
        answer = handler.answer(Request.of(method, f"/{path}?{query}".replace("#", "")))
        assert isinstance(answer, Watch) or (isinstance(answer, Answer) and answer.status < 500)


def test_a_path_that_is_not_served_is_404_with_details_that_kubectl_reads() -> None:
    body = Api().patch("/api/v1/namespaces/default/pods/p/ephemeralcontainers", {}).body
    assert (body["code"], body["reason"], body["details"]) == (404, "NotFound", {})
