"""Almost right requests: valid objects with a few values replaced by others, against every write there is."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import apiserver as support
from tests.support.apiserver import CLAIMS, MAPS, MERGE, NAMESPACES, NODES, PODS, SLICES, STRATEGIC, Api

JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 2**65, 1.5, "", "x", "a/b", "1Gi", [], {}, [None], [[]], {"a": None}, ["x"],
    {"name": "x"}, [{"name": "x"}], "2026-01-01T00:00:00Z",
)  # fmt: skip
NAMES = (
    "name", "kind", "spec", "status", "metadata", "uid", "labels", "finalizers", "ownerReferences",
    "resourceVersion", "namespace", "taints", "conditions", "$patch", "$setElementOrder/containers",
    "$retainKeys",
)  # fmt: skip
EVENTS = "/api/v1/namespaces/default/events"


def running_pod() -> dict[str, Any]:
    container = {
        "name": "main",
        "ready": True,
        "restartCount": 1,
        "state": {"terminated": {"exitCode": 1}},
        "lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:00Z", "exitCode": 0}},
    }
    status = {"phase": "Running", "containerStatuses": [container], "podIPs": [{"ip": "10.0.0.1"}]}
    return {**support.pod(), "status": {**status, "conditions": [{"type": "Ready", "status": "True"}]}}


def reserved_claim() -> dict[str, Any]:
    consumer = {"name": "p1", "resource": "pods", "uid": "u1"}
    device = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    status = {"allocation": support.allocation("gpu-0"), "reservedFor": [consumer], "devices": [device]}
    return {**support.claim(), "status": status}


def flat_claim() -> dict[str, Any]:
    request = {"name": "gpu", "deviceClassName": "gpu.example.com", "count": 4}
    return {"metadata": {"name": "tp4"}, "spec": {"devices": {"requests": [request]}}}


def event() -> dict[str, Any]:
    series = {"count": 1, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}
    about = {"kind": "Pod", "name": "p1"}
    source = {"component": "baro"}
    return {"metadata": {"name": "e"}, "involvedObject": about, "series": series, "source": source}


TEMPLATES = (
    (PODS, "p1", running_pod()),
    (CLAIMS, "tp4", reserved_claim()),
    (CLAIMS.replace("/v1/", "/v1beta1/"), "tp4", flat_claim()),
    (SLICES, "s1", support.resource_slice()),
    (NODES, "n1", support.node()),
    (MAPS, "m1", support.config_map()),
    (EVENTS, "e", event()),
    (NAMESPACES, "team", {"metadata": {"name": "team"}}),
)
BINDING = {"metadata": {"name": "p1", "labels": {"a": "b"}}, "target": {"kind": "Node", "name": "n1"}}
OPTIONS = {"kind": "DeleteOptions", "preconditions": {"uid": "u1"}, "dryRun": ["All"]}


def mutated(body: dict[str, Any], random: Random) -> Any:
    """A copy with one to three values replaced or fields added."""
    changed = copy.deepcopy(body)
    for _ in range(random.randint(1, 3)):
        place = random.choice(list(places(changed)))
        if not place:
            continue
        node: Any = changed
        for step in place[:-1]:
            node = node[step]
        key = random.choice(NAMES) if isinstance(node, dict) and random.random() < 0.3 else place[-1]
        node[key] = copy.deepcopy(random.choice(JUNK))
    return changed


def places(node: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place, *(found for key, item in items for found in places(item, (*place, key)))]


@settings(deadline=None, max_examples=40)
@given(st.randoms(use_true_random=False))
def test_no_almost_right_request_breaks_the_server_or_leaves_something_unreadable(random: Random) -> None:
    api = Api()
    for url, _, body in TEMPLATES:
        if "v1beta1" not in url:
            api.made(url, body)
    for _ in range(40):
        url, name, body = random.choice(TEMPLATES)
        sent = mutated(body, random)
        kind = random.choice([MERGE, STRATEGIC])
        calls = [
            ("POST", url, sent, "application/json"),
            ("PUT", f"{url}/{name}", sent, "application/json"),
            ("PATCH", f"{url}/{name}", sent, kind),
            ("PUT", f"{url}/{name}/status", sent, "application/json"),
            ("PATCH", f"{url}/{name}/status", sent, kind),
            ("POST", f"{PODS}/p1/binding?dryRun=All", mutated(BINDING, random), "application/json"),
            ("DELETE", f"{url}/{name}?dryRun=All", mutated(OPTIONS, random), "application/json"),
        ]
        result = api.call(*random.choice(calls))
        assert result.code < 500 or "does not contain declared merge key" in result.body["message"]
    for url, _, _ in TEMPLATES:
        assert api.get(url).code == 200
        assert api.get(url, accept="application/json;as=Table;v=v1;g=meta.k8s.io").code == 200
