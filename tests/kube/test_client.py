"""The HTTP client against scripted answers: paths, pages, patches, and what each failure becomes."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from baro.kube import config
from baro.kube.api import EventType, guard
from baro.kube.client import KubeClient
from baro.kube.errors import (
    AlreadyExistsError,
    BusyError,
    ConflictError,
    GoneError,
    InvalidError,
    NotFoundError,
)
from baro.model.errors import BaroError, ForbiddenError, UnreachableError
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import ResourceClaim

Handler = Callable[[httpx2.Request], httpx2.Response]


def client(handler: Handler) -> KubeClient:
    return KubeClient(config.load(url="http://server.test"), transport=httpx2.MockTransport(handler))


def status(code: int, reason: str, message: str = "no", headers: dict[str, str] | None = None) -> Handler:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return lambda request: httpx2.Response(code, json=body, headers=headers)


def test_a_get_decodes_into_our_struct_and_ignores_what_baro_does_not_model() -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"
        body = {"metadata": {"name": "c", "resourceVersion": "7"}, "spec": {}, "future": {"x": 1}}
        return httpx2.Response(200, json=body)

    claim = client(handler).get(ResourceClaim, "default", "c")
    assert (claim.metadata.name, claim.metadata.resource_version) == ("c", "7")


def test_a_list_is_read_in_pages_from_all_namespaces() -> None:
    asked: list[dict[str, str]] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == "/api/v1/pods"
        asked.append(dict(request.url.params))
        last = "continue" in request.url.params
        meta = {"resourceVersion": "9", "continue": "" if last else "token"}
        name = "b" if last else "a"
        return httpx2.Response(200, json={"metadata": meta, "items": [{"metadata": {"name": name}}]})

    listed = client(handler).list(Pod, field_selector="spec.nodeName=a")
    assert [pod.metadata.name for pod in listed.items] == ["a", "b"]
    assert listed.resource_version == "9"
    assert asked[1] == {"limit": "500", "continue": "token", "fieldSelector": "spec.nodeName=a"}


def test_a_list_whose_continue_token_expired_begins_again() -> None:
    answers = [
        httpx2.Response(
            200, json={"metadata": {"resourceVersion": "1", "continue": "old"}, "items": [{"metadata": {}}]}
        ),
        status(410, "Expired")(httpx2.Request("GET", "http://x")),
        httpx2.Response(200, json={"metadata": {"resourceVersion": "2"}, "items": None}),
    ]
    listed = client(lambda request: answers.pop(0)).list(Node)
    assert (listed.items, listed.resource_version) == ((), "2")


def test_a_list_that_never_gets_through_gives_up_with_gone() -> None:
    with pytest.raises(GoneError):
        client(status(410, "Expired")).list(Node)


def test_a_merge_patch_of_status_goes_to_the_subresource_with_its_guard() -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        assert request.method == "PATCH"
        assert request.url.path.endswith("/namespaces/default/resourceclaims/c/status")
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        assert request.url.params["fieldManager"] == "baro"
        body = json.loads(request.content)
        assert body["metadata"] == {"resourceVersion": "7", "uid": "u"}
        assert body["status"] == {"allocation": None}
        return httpx2.Response(200, json={"metadata": {"name": "c", "resourceVersion": "8"}})

    meta: Any = {"name": "c", "resourceVersion": "7", "uid": "u"}
    old = client(lambda r: httpx2.Response(200, json={"metadata": meta})).get(ResourceClaim, "default", "c")
    body = {"metadata": guard(old), "status": {"allocation": None}}
    done = client(handler).patch_merge(ResourceClaim, "default", "c", body, "status")
    assert done.metadata.resource_version == "8"


def test_a_delete_carries_its_preconditions() -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        assert body["preconditions"] == {"uid": "u", "resourceVersion": "3"}
        assert body["gracePeriodSeconds"] == 0
        return httpx2.Response(200, json={"kind": "Status", "status": "Success"})

    client(handler).delete(Pod, "default", "p", uid="u", resource_version="3", grace_period_s=0)


def test_a_binding_is_posted_to_its_subresource() -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        assert (request.method, request.url.path) == ("POST", "/api/v1/namespaces/default/pods/p/binding")
        return httpx2.Response(201, json={"kind": "Status", "status": "Success"})

    client(handler).create(Pod, "default", {"target": {"name": "a"}}, subresource=("p", "binding"))


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (404, "NotFound", NotFoundError),
        (409, "Conflict", ConflictError),
        (409, "AlreadyExists", AlreadyExistsError),
        (410, "Expired", GoneError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", BusyError),
        (503, "ServiceUnavailable", BusyError),
    ],
)
def test_each_refusal_is_its_own_error(code: int, reason: str, error: type[BaroError]) -> None:
    with pytest.raises(error) as caught:
        client(status(code, reason, "the reason")).get(Pod, "default", "p")
    assert "the reason" in str(caught.value)


def test_forbidden_names_verb_and_resource_and_how_to_check() -> None:
    message = 'resourceclaims.resource.k8s.io is forbidden: User "x" cannot list resource'
    with pytest.raises(ForbiddenError) as caught:
        client(status(403, "Forbidden", message)).list(ResourceClaim, "team")
    text = str(caught.value)
    assert "list resourceclaims.resource.k8s.io" in text
    assert "kubectl auth can-i list resourceclaims.resource.k8s.io" in text
    assert "team" in text


def test_forbidden_names_the_subresource_as_a_role_does() -> None:
    with pytest.raises(ForbiddenError) as caught:
        client(status(403, "Forbidden", "no")).patch_merge(Pod, "team", "p", {}, "status")
    assert "does not allow to patch pods/status" in str(caught.value)
    assert caught.value.next_step == "kubectl auth can-i patch pods --subresource=status"


def test_a_busy_server_says_when_to_come_back() -> None:
    with pytest.raises(BusyError) as caught:
        client(status(429, "TooManyRequests", headers={"Retry-After": "3"})).list(Node)
    assert caught.value.retry_after == 3.0


def test_a_proxy_page_in_place_of_a_status_is_still_one_clear_error() -> None:
    with pytest.raises(BusyError, match="Bad Gateway"):
        client(lambda request: httpx2.Response(502, text="<html>Bad Gateway</html>")).list(Node)


def test_an_answer_that_is_not_kubernetes_is_one_clear_error() -> None:
    with pytest.raises(UnreachableError, match=r"server\.test"):
        client(lambda request: httpx2.Response(200, text="hello")).get(Node, "", "a")


def test_a_server_that_is_not_there_is_named_with_the_next_step() -> None:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with KubeClient.connect(url=url) as api, pytest.raises(UnreachableError) as caught:
            api.list(Node)
    assert url in str(caught.value)
    assert "--kubeconfig" in str(caught.value)


def test_a_watch_gives_changes_bookmarks_and_errors() -> None:
    lines = [
        {"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "5"}}},
        {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": "9"}}},
        {"type": "DELETED", "object": {"metadata": {"name": "a", "resourceVersion": "10"}}},
        {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}},
    ]

    def handler(request: httpx2.Request) -> httpx2.Response:
        params = dict(request.url.params)
        assert params["allowWatchBookmarks"] == "true"
        assert (params["watch"], params["resourceVersion"]) == ("true", "4")
        return httpx2.Response(200, text="".join(json.dumps(line) + "\n" for line in lines))

    events = list(client(handler).watch(Node, resource_version="4"))
    types = [event.type for event in events]
    assert types == [EventType.ADDED, EventType.BOOKMARK, EventType.DELETED, EventType.ERROR]
    assert [event.resource_version for event in events[:3]] == ["5", "9", "10"]
    assert isinstance(events[3].error, GoneError)


def test_a_watch_refused_as_too_old_raises_gone() -> None:
    with pytest.raises(GoneError):
        client(status(410, "Expired")).watch(Node, resource_version="1")
