"""Helpers for tests of the embedded API server: calls without a connection, objects, and kubectl."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from baro.apiserver import create_app
from baro.apiserver.handling import Answer, Handler, Watch
from baro.apiserver.requests import Request
from baro.apiserver.storage import Store

Body = dict[str, Any]

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
MAPS = "/api/v1/namespaces/default/configmaps"
NAMESPACES = "/api/v1/namespaces"

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class Result(msgspec.Struct, frozen=True):
    """Status code, decoded body, response headers."""

    code: int
    body: Any
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def warnings(self) -> list[str]:
        return [value for name, value in self.headers if name == "warning"]


class Api:
    """The server as a function call: no port, no thread, a clock that stands still."""

    def __init__(self, store: Store | None = None, kube_version: str = "1.37") -> None:
        app = create_app(
            store=store,
            kube_version=kube_version,
            clock=lambda: NOON,
            random=Random(1),  # noqa: S311 - names
        )
        self.registry = app.state.registry
        self._handler = Handler(self.registry, clock=lambda: NOON)

    def call(
        self,
        method: str,
        url: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "",
    ) -> Result:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": content_type, "accept": accept}
        answer = self._handler.answer(Request.of(method, url, data, headers))
        assert isinstance(answer, Answer), "this call opens a watch"
        decoded = json.loads(answer.body) if "json" in answer.content_type else answer.body
        return Result(answer.status, decoded, answer.headers)

    def watch(self, url: str, accept: str = "") -> Watch:
        answer = self._handler.answer(Request.of("GET", url, b"", {"accept": accept}))
        assert isinstance(answer, Watch), "this call opens no watch"
        return answer

    def get(self, url: str, accept: str = "") -> Result:
        return self.call("GET", url, accept=accept)

    def post(self, url: str, body: Any) -> Result:
        return self.call("POST", url, body)

    def put(self, url: str, body: Any) -> Result:
        return self.call("PUT", url, body)

    def patch(self, url: str, body: Any, content_type: str = MERGE) -> Result:
        return self.call("PATCH", url, body, content_type)

    def delete(self, url: str, body: Any = None) -> Result:
        return self.call("DELETE", url, body)

    def made(self, url: str, body: Body) -> Body:
        """Creates an object that must be accepted."""
        result = self.post(url, body)
        assert result.code == 201, result.body
        created: Body = result.body
        return created


def claim(name: str = "tp4", count: int = 4, **metadata: Any) -> Body:
    exactly = {"deviceClassName": "gpu.example.com", "count": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, **metadata},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def allocation(*devices: str) -> Body:
    results = [
        {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": name} for name in devices
    ]
    return {"devices": {"results": results}}


def pod(name: str = "p1", gate: str = "", **metadata: Any) -> Body:
    spec: Body = {"containers": [{"name": "main", "image": "registry.example.com/train:1"}]}
    if gate:
        spec["schedulingGates"] = [{"name": gate}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def node(name: str = "n1", **metadata: Any) -> Body:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"capacity": {"cpu": "4", "pods": "110"}, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}, "status": status}


def resource_slice(name: str = "s1", node_name: str = "n1", **metadata: Any) -> Body:
    spec = {
        "driver": "gpu.example.com",
        "nodeName": node_name,
        "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "H200"}}}],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def config_map(name: str = "m1", data: Mapping[str, str] | None = None, **metadata: Any) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": dict(data or {"key": "value"}),
    }


class Kubectl:
    """The real kubectl of the test environment, with its files in a folder of the test."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self._home = home
        found = shutil.which("kubectl", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        assert found is not None, "kubectl is part of the test dependencies"
        self._program = found
        self._cache = home / "cache"
        self._env = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(kubeconfig)}

    def elsewhere(self, kubeconfig: Path) -> Kubectl:
        """The same kubectl with another configuration and the same cache of discovery."""
        return Kubectl(kubeconfig, self._home)

    def run(
        self, *args: str, stdin: Any = None, env: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        """Exit code, stdout, stderr. ``stdin`` is text, or an object that goes in as JSON."""
        text = stdin if isinstance(stdin, str) or stdin is None else json.dumps(stdin)
        done = subprocess.run(
            [self._program, "--cache-dir", str(self._cache), *args],
            input=text,
            capture_output=True,
            text=True,
            env={**self._env, **(env or {})},
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def __call__(self, *args: str, stdin: Any = None) -> str:
        """stdout of a call that must succeed."""
        code, out, err = self.run(*args, stdin=stdin)
        assert code == 0, err or out
        return out

    def start(self, *args: str) -> subprocess.Popen[str]:
        """A call that goes on; the caller reads its stdout and ends it."""
        return subprocess.Popen(
            [self._program, "--cache-dir", str(self._cache), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self._env,
        )


def definition(schema: Body | None = None, *, scope: str = "Namespaced", **version: Any) -> Body:
    """A CustomResourceDefinition of widgets.example.com; ``schema`` is the type of their ``spec``."""
    properties = {"spec": schema or {"type": "object", "properties": {"size": {"type": "integer"}}}}
    properties["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        **version,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [served],
        },
    }


def widget(name: str = "w1", **spec: Any) -> Body:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}
