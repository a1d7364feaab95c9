"""Clients that know nothing of baro: they list, watch, patch, apply and resume as on any API server.

Two of them are optional; their tests are skipped where they are not installed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from baro.apiserver import create_app, run_in_thread
from baro.apiserver.serve import RunningServer
from tests.support.apiserver import MAPS, config_map, definition, widget

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
PATIENCE = 30.0
"""Seconds until a client that never does what it should fails its test."""


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with run_in_thread(create_app()) as running:
        yield running


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """A connection that a client leaves open is found here, not in whatever test runs next."""
    yield
    gc.collect()


@pytest.fixture
def kubeconfig(server: RunningServer, tmp_path: Path) -> Path:
    return server.write_kubeconfig(tmp_path / "config")


def test_lightkube_lists_watches_patches_applies_and_resumes(kubeconfig: Path) -> None:
    lightkube = pytest.importorskip("lightkube")
    from lightkube.core.exceptions import ApiError
    from lightkube.generic_resource import create_namespaced_resource

    config = lightkube.KubeConfig.from_file(kubeconfig)
    with lightkube.Client(config=config, field_manager="lightkube-test") as client:
        maps = create_namespaced_resource("", "v1", "ConfigMap", "configmaps")
        made = client.create(maps.from_dict(config_map(data={"a": "1"}, namespace="default")))
        assert made.metadata.managedFields[0].manager == "lightkube-test"
        listed = client.list(maps, namespace="default")
        assert [item.metadata.name for item in listed] == ["m1"]
        client.patch(maps, "m1", {"data": {"b": "2"}})
        client.apply(maps.from_dict(config_map("m2", namespace="default")), force=True)
        changes = client.watch(maps, namespace="default", resource_version=listed.resourceVersion)
        assert [(what, item.metadata.name) for what, item in (next(changes), next(changes))] == [
            ("MODIFIED", "m1"),
            ("ADDED", "m2"),
        ]
        changes.close()
        with pytest.raises(ApiError) as caught:
            client.get(maps, "nope")
        assert caught.value.status.reason == "NotFound"


@pytest.mark.filterwarnings("ignore")
def test_the_official_client_lists_watches_patches_applies_and_resumes(kubeconfig: Path) -> None:
    client = pytest.importorskip("kubernetes.client")
    config, watch = pytest.importorskip("kubernetes.config"), pytest.importorskip("kubernetes.watch")
    dynamic = pytest.importorskip("kubernetes.dynamic")
    api_client = config.new_client_from_config(str(kubeconfig))
    core = client.CoreV1Api(api_client)
    made = core.create_namespaced_config_map("default", config_map(data={"a": "1"}))
    assert made.metadata.managed_fields[0].operation == "Update"
    revision = core.list_namespaced_config_map("default").metadata.resource_version
    core.patch_namespaced_config_map("m1", "default", {"data": {"b": "2"}})
    resource = dynamic.DynamicClient(api_client).resources.get(api_version="v1", kind="ConfigMap")
    resource.server_side_apply(body=config_map("m2"), namespace="default", field_manager="python")
    seen = [
        (event["type"], event["object"].metadata.name)
        for event in watch.Watch().stream(
            core.list_namespaced_config_map, "default", resource_version=revision, timeout_seconds=1
        )
    ]
    assert seen == [("MODIFIED", "m1"), ("ADDED", "m2")]
    page = core.list_namespace(limit=3)
    rest = core.list_namespace(limit=3, _continue=page.metadata._continue)
    assert len(page.items) + len(rest.items) == 4
    with pytest.raises(client.ApiException) as caught:
        core.create_namespaced_config_map("default", config_map())
    assert json.loads(caught.value.body)["reason"] == "AlreadyExists"
    core.delete_namespaced_config_map("m1", "default")
    assert [item.metadata.name for item in core.list_namespaced_config_map("default").items] == ["m2"]


@pytest.mark.filterwarnings("ignore")
def test_a_kopf_operator_serves_a_custom_kind(
    server: RunningServer, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kopf = pytest.importorskip("kopf")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    registry = kopf.OperatorRegistry()
    heard: dict[str, threading.Event] = {name: threading.Event() for name in ("create", "update", "delete")}

    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)

    @kopf.on.create("example.com", "v1", "widgets", registry=registry)  # type: ignore[untyped-decorator]
    def created(patch: Any, **_: Any) -> None:
        patch.status["phase"] = "Made"
        heard["create"].set()

    @kopf.on.update("example.com", "v1", "widgets", registry=registry)  # type: ignore[untyped-decorator]
    def updated(diff: Any, **_: Any) -> None:
        if ("change", ("spec", "size"), 1, 2) in diff:
            heard["update"].set()

    @kopf.on.delete("example.com", "v1", "widgets", registry=registry)  # type: ignore[untyped-decorator]
    def deleted(**_: Any) -> None:
        heard["delete"].set()

    with httpx2.Client(base_url=server.url) as client:
        client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=definition())
        with _operator(kopf, registry):
            client.post(WIDGETS, json=widget(size=1))
            assert heard["create"].wait(PATIENCE)
            _follow(server, "w1", lambda body: body.get("status", {}).get("phase") == "Made")
            assert client.get(f"{WIDGETS}/w1").json()["metadata"]["finalizers"]
            merge = {"content-type": "application/merge-patch+json"}
            client.patch(f"{WIDGETS}/w1", json={"spec": {"size": 2}}, headers=merge)
            assert heard["update"].wait(PATIENCE)
            leaving = client.delete(f"{WIDGETS}/w1").json()["metadata"]["resourceVersion"]
            assert heard["delete"].wait(PATIENCE)
            _follow(server, "w1", lambda _body: False, leaving)
        assert client.get(f"{WIDGETS}/w1").status_code == 404
        assert client.get(MAPS).json()["items"] == []


class _operator:  # noqa: N801 - reads as a function
    """Runs a kopf operator in a thread while the block lasts."""

    def __init__(self, kopf: Any, registry: Any) -> None:
        self._stop, self._ready = threading.Event(), threading.Event()
        operator = kopf.operator
        options = {"registry": registry, "namespaces": ["default"], "standalone": True}
        flags = {"stop_flag": self._stop, "ready_flag": self._ready}
        self._thread = threading.Thread(target=lambda: asyncio.run(operator(**options, **flags)), daemon=True)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def _follow(
    server: RunningServer, name: str, wanted: Callable[[dict[str, Any]], bool], since: str = ""
) -> None:
    """Watches until an object is as wanted, or gone."""
    query = (
        f"watch=1&resourceVersion={since}&fieldSelector=metadata.name={name}&timeoutSeconds={int(PATIENCE)}"
    )
    with httpx2.stream("GET", f"{server.url}{WIDGETS}?{query}", timeout=PATIENCE) as answer:
        for line in answer.iter_lines():
            event = json.loads(line)
            if event["type"] == "DELETED" or wanted(event["object"]):
                return
    raise AssertionError(f"{name} never became what was wanted")
