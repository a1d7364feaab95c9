"""Reading a whole cluster: everything at once; what is refused, slow or not there is named, and no more."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from baro.apiserver import create_app, run_in_thread
from baro.apiserver.loading import load_files
from baro.diagnosis.checks import diagnose
from baro.diagnosis.files import read_files
from baro.diagnosis.report.document import document
from baro.diagnosis.report.summary import summarise
from baro.diagnosis.snapshot import objects
from baro.kube import config
from baro.kube.client import KubeClient
from baro.kube.reading import PAGE, SOURCES, read_cluster
from baro.model.errors import ForbiddenError, UnreachableError
from tests.support.diagnosis import claim, device_class, event, gpus, node, pod, resource_slice

RBAC = Path(__file__).resolve().parents[2] / "deploy" / "rbac" / "reader.yaml"
Body = dict[str, Any]
LISTS = {
    "/api/v1/nodes": [node("node-a"), node("node-b")],
    "/api/v1/pods": [pod("p", node="node-a", claims=["c"])],
    "/api/v1/namespaces": [],
    "/api/v1/events": [event("Failed to prepare", pod="p")],
    "/apis/apps/v1/daemonsets": [],
    "/apis/resource.k8s.io/v1/resourceslices": [resource_slice("node-a", gpus(2))],
    "/apis/resource.k8s.io/v1/resourceclaims": [claim("c", ["gpu-0"], pods=["p"])],
    "/apis/resource.k8s.io/v1/resourceclaimtemplates": [],
    "/apis/resource.k8s.io/v1/deviceclasses": [device_class()],
}
RESOURCE_NAMES = [path.rsplit("/", 1)[1] for path in LISTS if "resource.k8s.io" in path]


class Server:
    """An API server as a function, with the calls it got and answers that a test may put in its way."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.instead: dict[str, Callable[[httpx2.Request], httpx2.Response]] = {}
        self.lists = {path: list(items) for path, items in LISTS.items()}
        self.versions = ["v1"]

    def client(self) -> KubeClient:
        return KubeClient(config.load(url="http://server"), transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        self.seen.append(path)
        if path in self.instead:
            return self.instead[path](request)
        if path == "/version":
            return httpx2.Response(200, json={"gitVersion": "v1.37.1"})
        if path == "/apis/resource.k8s.io":
            return httpx2.Response(200, json={"versions": [{"version": name} for name in self.versions]})
        if path == "/apis/apps":
            return httpx2.Response(200, json={"versions": [{"version": "v1"}]})
        if path == "/apis/apps/v1":
            return httpx2.Response(200, json={"resources": [{"name": "daemonsets"}]})
        if path in [f"/apis/resource.k8s.io/{version}" for version in self.versions]:
            return httpx2.Response(200, json={"resources": [{"name": name} for name in RESOURCE_NAMES]})
        if path in self.lists:
            return _page(self.lists[path], request)
        return httpx2.Response(404, json={"reason": "NotFound", "message": "no such path"})


def _page(items: list[Body], request: httpx2.Request) -> httpx2.Response:
    start = int(request.url.params.get("continue") or 0)
    end = start + int(request.url.params.get("limit") or PAGE)
    token = str(end) if end < len(items) else ""
    plain = [
        {key: value for key, value in item.items() if key not in ("apiVersion", "kind")} for item in items
    ]
    kind, version = ("Empty", "v1") if not items else (items[0]["kind"], items[0]["apiVersion"])
    body = {
        "apiVersion": version,
        "kind": f"{kind}List",
        "metadata": {"continue": token},
        "items": plain[start:end],
    }
    return httpx2.Response(200, json=body)


def _refuse(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(403, json={"reason": "Forbidden", "message": "you may not"})


@pytest.fixture
def server() -> Server:
    return Server()


def test_everything_is_read_and_typed_lists_need_no_kinds_in_their_items(server: Server) -> None:
    found = read_cluster(server.client())
    snapshot = found.snapshot
    assert [item.metadata.name for item in snapshot.nodes] == ["node-a", "node-b"]
    assert (len(snapshot.pods), len(snapshot.slices), len(snapshot.claims), len(snapshot.classes)) == (
        1,
        1,
        1,
        1,
    )
    assert [item.message for item in found.events] == ["Failed to prepare"]
    assert found.missing == ()
    assert found.server_version == "v1.37.1"
    assert found.served["resource.k8s.io"] == ("v1",)


def test_pages_are_followed_to_the_end(server: Server) -> None:
    server.lists["/api/v1/nodes"] = [node(f"n{i}") for i in range(2 * PAGE + 1)]
    assert len(read_cluster(server.client()).snapshot.nodes) == 2 * PAGE + 1
    assert server.seen.count("/api/v1/nodes") == 3


def test_a_list_whose_token_expires_begins_again(server: Server) -> None:
    server.lists["/api/v1/nodes"] = [node(f"n{i}") for i in range(PAGE + 1)]
    gone = [True]

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.params.get("continue") and gone:
            gone.clear()
            return httpx2.Response(410, json={"reason": "Expired", "message": "too old"})
        return _page(server.lists["/api/v1/nodes"], request)

    server.instead["/api/v1/nodes"] = answer
    found = read_cluster(server.client())
    assert len(found.snapshot.nodes) == PAGE + 1
    assert found.missing == ()


FAMILY = """# HELP apiserver_request_total x
apiserver_request_total 1
kubernetes_feature_enabled{name="DRAAdminAccess",stage=""} 1
kubernetes_feature_enabled{name="DRADeviceTaintRules",stage="BETA"} 0
workqueue_depth 1
"""


def test_gates_are_read_from_the_metrics_and_kept_in_a_snapshot(server: Server) -> None:
    server.instead["/metrics"] = lambda _: httpx2.Response(200, text=FAMILY)
    found = read_cluster(server.client())
    assert found.feature_gates == {"DRAAdminAccess": True, "DRADeviceTaintRules": False}
    assert found.missing == ()
    record = next(iter(objects(found)))
    assert record["featureGates"] == found.feature_gates


def test_a_long_page_of_metrics_is_not_read_to_its_end(server: Server) -> None:
    read: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(1000):
            read.append(number)
            yield FAMILY.encode() if number == 3 else b"x_total 1\n" * 1000

    server.instead["/metrics"] = lambda _: httpx2.Response(200, content=pieces())
    assert len(read_cluster(server.client()).feature_gates) == 2
    assert len(read) < 10


def test_metrics_that_may_not_be_read_are_named_and_the_lists_are_read(server: Server) -> None:
    server.instead["/metrics"] = _refuse
    found = read_cluster(server.client())
    assert len(found.documents) == sum(map(len, LISTS.values()))
    assert found.feature_gates == {}
    assert [item.source for item in found.missing] == ["metrics"]
    assert "the defaults of its version are assumed" in found.missing[0].why
    assert "kubectl auth can-i get /metrics" in found.missing[0].next_step


@pytest.mark.parametrize("body", ["", "<html>", "kubernetes_feature_enabled{", "\0\0"])
def test_a_page_of_something_else_tells_no_gates(server: Server, body: str) -> None:
    server.instead["/metrics"] = lambda _: httpx2.Response(200, text=body)
    found = read_cluster(server.client())
    assert (found.feature_gates, found.missing) == ({}, ())


@pytest.mark.parametrize("path", LISTS)
def test_a_right_taken_away_is_named_with_verb_and_resource_and_the_rest_is_read(
    server: Server, path: str
) -> None:
    server.instead[path] = _refuse
    found = read_cluster(server.client())
    plural = path.rsplit("/", 1)[1]
    assert [item.source for item in found.missing] == [plural]
    assert f"does not allow to list {plural}" in found.missing[0].why
    assert "kubectl auth can-i list" in found.missing[0].next_step
    others = sum(len(items) for other, items in LISTS.items() if other != path)
    assert len(found.documents) == others


def test_where_only_one_namespace_may_be_read_it_is_read_and_said(server: Server) -> None:
    server.instead["/api/v1/pods"] = _refuse
    server.lists["/api/v1/namespaces/default/pods"] = LISTS["/api/v1/pods"]
    found = read_cluster(server.client(), namespace="default")
    assert len(found.snapshot.pods) == 1
    assert [(item.source, item.partial) for item in found.missing] == [("pods", True)]
    assert "only those of namespace default" in found.missing[0].why


def test_nothing_allowed_is_an_error(server: Server) -> None:
    server.instead = dict.fromkeys(LISTS, _refuse)
    with pytest.raises(ForbiddenError, match="nothing could be read"):
        read_cluster(server.client())


def test_a_silent_server_is_an_error_that_names_it() -> None:
    def refused(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("connection refused")

    client = KubeClient(config.load(url="http://server"), transport=httpx2.MockTransport(refused))
    with pytest.raises(UnreachableError, match="http://server"):
        read_cluster(client)


def test_a_source_that_takes_too_long_is_left_out_and_named(server: Server) -> None:
    """The answer is held back until the reading has given up. On a busy machine others may be late as well:
    each source is either there as a whole or named."""
    release = threading.Event()

    def wait(request: httpx2.Request) -> httpx2.Response:
        release.wait(30)
        return _page([], request)

    server.instead["/api/v1/pods"] = wait
    try:
        found = read_cluster(server.client(), deadline_s=2.0)
    finally:
        release.set()
    late = {item.source: item.why for item in found.missing}
    assert "no complete answer within 2 s" in late["pods"]
    assert len(found.snapshot.nodes) == (0 if "nodes" in late else 2)
    assert len(found.snapshot.slices) == (0 if "resourceslices" in late else 1)


def test_a_list_cut_off_in_the_middle_is_left_out_whole_but_events_are_kept(server: Server) -> None:
    def first_page_only(path: str) -> Callable[[httpx2.Request], httpx2.Response]:
        def answer(request: httpx2.Request) -> httpx2.Response:
            if request.url.params.get("continue"):
                raise httpx2.ReadError("connection reset")
            return _page(server.lists[path], request)

        return answer

    server.lists["/api/v1/nodes"] = [node(f"n{i}") for i in range(PAGE + 1)]
    server.lists["/api/v1/events"] = [event("x", number=i) for i in range(PAGE + 1)]
    for path in ("/api/v1/nodes", "/api/v1/events"):
        server.instead[path] = first_page_only(path)
    found = read_cluster(server.client())
    assert {item.source: item.partial for item in found.missing} == {"nodes": False, "events": True}
    assert not found.snapshot.nodes
    assert len(found.events) == PAGE


def test_an_answer_that_is_no_list_is_named(server: Server) -> None:
    server.instead["/api/v1/nodes"] = lambda request: httpx2.Response(200, text="<html>login</html>")
    found = read_cluster(server.client())
    assert [item.source for item in found.missing] == ["nodes"]
    assert "not Kubernetes' API" in found.missing[0].why


def test_an_older_version_is_asked_for_where_the_newest_is_not_served(server: Server) -> None:
    server.versions = ["v1beta1"]
    for path in [path for path in server.lists if "resource.k8s.io/v1/" in path]:
        server.lists[path.replace("/v1/", "/v1beta1/")] = [_beta(item) for item in server.lists.pop(path)]
    found = read_cluster(server.client())
    assert found.missing == ()
    assert [device.name for device in found.snapshot.slices[0].spec.devices] == ["gpu-0", "gpu-1"]


def _beta(item: Body) -> Body:
    """v1beta1 keeps a device below ``basic`` and a request beside its name."""
    body: Body = json.loads(json.dumps(item))
    body["apiVersion"] = "resource.k8s.io/v1beta1"
    for device in body.get("spec", {}).get("devices", []) if body["kind"] == "ResourceSlice" else []:
        device["basic"] = {"attributes": device.pop("attributes")}
    if body["kind"] == "ResourceClaim":
        for request in body["spec"]["devices"]["requests"]:
            request.update(request.pop("exactly"))
    return body


def test_a_server_without_dra_is_read_all_the_same_and_that_is_said(server: Server) -> None:
    server.versions = []
    server.instead["/apis/resource.k8s.io"] = lambda request: httpx2.Response(
        404, json={"reason": "NotFound"}
    )
    found = read_cluster(server.client())
    assert len(found.snapshot.nodes) == 2
    assert {item.source for item in found.missing} == set(RESOURCE_NAMES)
    assert all("does not serve" in item.why for item in found.missing)
    codes = [item.code for item in diagnose(found).problems]
    assert "no-resource-api" in codes


def test_an_object_with_a_wrong_type_does_not_stop_the_others(server: Server) -> None:
    broken = node("broken")
    broken["spec"]["unschedulable"] = {}
    server.lists["/api/v1/nodes"].append(broken)
    found = read_cluster(server.client())
    assert len(found.snapshot.nodes) == 2
    assert [error.where.object for error in found.unreadable] == ["Node broken"]


# --- rights -----------------------------------------------------------------------------------------------


def test_the_reader_has_exactly_the_rights_that_reading_uses() -> None:
    roles = [item for item in yaml.safe_load_all(RBAC.read_text()) if item["kind"] == "ClusterRole"]
    reader = next(item for item in roles if item["metadata"]["name"] == "baro-reader")
    granted = {
        (verb, group, resource)
        for rule in reader["rules"]
        for verb in rule["verbs"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
    }
    assert granted == {("list", source.group, source.plural) for source in SOURCES}
    urls = [(rule["verbs"], rule["nonResourceURLs"]) for rule in reader["rules"] if "nonResourceURLs" in rule]
    assert urls == [(["get"], ["/metrics"])]


def test_nothing_that_may_hold_secrets_is_read_and_the_lint_role_is_bound_to_nobody() -> None:
    documents = list(yaml.safe_load_all(RBAC.read_text()))
    named = {
        name for item in documents for rule in item.get("rules", ()) for name in rule.get("resources", ())
    }
    assert not named & {"secrets", "configmaps", "*"}
    bound = {item["roleRef"]["name"] for item in documents if item["kind"].endswith("Binding")}
    assert bound == {"baro-reader"}


# --- the embedded server ----------------------------------------------------------------------------------


@pytest.fixture
def live(tmp_path: Path) -> Iterator[str]:
    """A running embedded server with a small cluster in it."""
    file = tmp_path / "objects.json"
    bodies = [
        node("node-a", capacity={"nvidia.com/gpu": 8}, allocatable={"nvidia.com/gpu": 6}),
        resource_slice("node-a", gpus(8)), device_class(),
        pod("p", node="node-a", claims=["c"]), claim("c", ["gpu-0", "gpu-1"], pods=["p"]),
    ]  # fmt: skip
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}))
    app = create_app()
    load_files(app.state.registry, [file])
    with run_in_thread(app) as running:
        yield running.url


def test_a_snapshot_of_a_live_server_gives_the_report_of_the_server(live: str, tmp_path: Path) -> None:
    with KubeClient.connect(url=live) as client:
        evidence = read_cluster(client)
    found = diagnose(evidence)
    report = document(found, summarise(found))
    assert {item["code"] for item in report["problems"]} >= {"double-advertised", "some-devices-unhealthy"}
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects(evidence))}))
    again = diagnose(read_files([file]))
    assert {**document(again, summarise(again)), "origin": ""} == {**report, "origin": ""}


def test_a_connection_that_is_not_made_is_tried_once_more(server: Server) -> None:
    """A busy server may drop a handshake; one that refuses is asked twice and no more."""
    tried: list[str] = []

    def drop(request: httpx2.Request) -> httpx2.Response:
        tried.append(request.url.path)
        if len(tried) == 1:
            raise httpx2.ConnectError("EOF occurred in violation of protocol")
        return _page(server.lists["/api/v1/nodes"], request)

    def refuse(request: httpx2.Request) -> httpx2.Response:
        tried.append(request.url.path)
        raise httpx2.ConnectError("connection refused")

    server.instead["/api/v1/nodes"] = drop
    found = read_cluster(server.client())
    assert (len(found.snapshot.nodes), found.missing, len(tried)) == (2, (), 2)
    tried.clear()
    server.instead["/api/v1/nodes"] = refuse
    found = read_cluster(server.client())
    assert ([item.source for item in found.missing], len(tried)) == (["nodes"], 2)
