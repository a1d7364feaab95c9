"""The rights of ``deploy/rbac`` are those that the calls need: none missing, none left over."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from baro.agent.cluster import ClusterSlices, node_uid
from baro.controller.actions import Shield, Unshield
from baro.controller.effects import Effects
from baro.controller.reconcile import Planner
from baro.controller.runner import Controller
from baro.controller.view import KINDS
from baro.inventory.usage import DeviceKey
from baro.kube.events import EventRecorder
from baro.kube.lease import Elector, LeaseSettings
from baro.kube.routes import route
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.base import KubeObject, ObjectMeta
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import DeviceTaintRule, ResourceClaim, ResourceSlice, ResourceSliceSpec
from tests.support.controller import Cluster, first_free
from tests.support.kube import FakeApi, FakeStore

RBAC = Path(__file__).resolve().parents[2] / "deploy" / "rbac"
Right = tuple[str, str]
"""Verb and ``group/resource``."""


class Recording(FakeApi):
    """A server that notes which rights the calls need, as RBAC sees them."""

    def __init__(self, store: FakeStore) -> None:
        super().__init__(store)
        self.used: set[Right] = set()

    def _note(self, verb: str, kind: type[KubeObject], part: str | None = None) -> None:
        r = route(kind)
        resource = f"{r.plural}/{part}" if part else r.plural
        with self.store.changed:
            self.used.add((verb, f"{r.group}/{resource}"))
            self.store.changed.notify_all()

    def get(self, kind: Any, *args: Any, **kwargs: Any) -> Any:
        self._note("get", kind)
        return super().get(kind, *args, **kwargs)

    def list(self, kind: Any, *args: Any, **kwargs: Any) -> Any:
        self._note("list", kind)
        return super().list(kind, *args, **kwargs)

    def watch(self, kind: Any, *args: Any, **kwargs: Any) -> Any:
        self._note("watch", kind)
        return super().watch(kind, *args, **kwargs)

    def _about_to(self, verb: str, kind: Any, namespace: str, name: str, sub: str | None, body: Any) -> None:
        super()._about_to(verb, kind, namespace, name, sub, body)
        self._note(verb, kind, sub)
        if kind is ResourceClaim and sub == "status" and {"allocation", "reservedFor"} & set(body["status"]):
            self._note(verb, kind, "binding")  # granular authorization, from 1.36 on


def granted(file: str) -> set[Right]:
    documents: Iterable[dict[str, Any]] = yaml.safe_load_all((RBAC / file).read_text())
    return {
        (verb, f"{group}/{resource}")
        for document in documents
        if document["kind"] in ("Role", "ClusterRole")
        for rule in document["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_planner_has_exactly_the_rights_that_it_uses() -> None:
    cluster = Cluster()
    cluster.node("a", 4)
    api = Recording(cluster.fake.store)
    for i in range(2):
        cluster.claim(f"c{i}", 3)
        cluster.pod(f"p{i}", f"c{i}")
    planner = Planner(api, first_free, utc=cluster.clock)
    settings = LeaseSettings(identity="x", namespace="baro-system")
    times = iter(range(0, 10_000, 3))
    clock = lambda: float(next(times))  # noqa: E731
    elector = Elector(api, settings, clock=clock)
    controller = Controller(api, planner, log=lambda line: None, elector=elector, clock=clock)
    thread = threading.Thread(target=controller.run, daemon=True)
    thread.start()
    store = cluster.fake.store
    with store.changed:
        placed = store.changed.wait_for(
            lambda: (
                bool(cluster.events("NoPlacement"))
                and bool(cluster.events("Placed"))
                and sum(verb == "watch" for verb, _ in api.used) == len(KINDS)  # each in a thread of its own
            ),
            timeout=20,
        )
    controller.stop()
    thread.join(timeout=20)
    assert placed
    # A claim that became ours twice over, an event that is counted, a conflict that is looked into.
    cluster.planner(api).settle()
    api.conflict_on(1)
    cluster.api.patch_merge(ResourceClaim, "default", "c0", {"status": {"reservedFor": None}}, "status")
    cluster.api.delete(Pod, "default", "p0")
    cluster.clock.advance(3600)
    cluster.planner(api).settle()
    cluster.claim("c2")
    cluster.pod("p2", "c2")
    api.conflict_on(1)
    cluster.planner(api).settle()
    elector.tick()
    elector.tick()
    effects = Effects(api, EventRecorder(api, component="baro", utc=cluster.clock), utc=cluster.clock)
    (rule,) = effects.apply(Shield(DeviceKey("gpu.baro.dev", "a", "gpu-0"), "held twice")).seen
    assert isinstance(rule, DeviceTaintRule)
    assert effects.apply(Unshield(rule)).gone == [rule]
    assert api.used == granted("planner.yaml")


def test_the_publisher_has_exactly_the_rights_that_it_uses() -> None:
    api = Recording(FakeStore())
    slices = ClusterSlices(api)
    spec = ResourceSliceSpec(driver="gpu.baro.dev", node_name="a")
    made = slices.create_slice(ResourceSlice(metadata=ObjectMeta(name="1"), spec=spec))
    slices.delete_slice(slices.update_slice(made))
    slices.list_slices("gpu.baro.dev", "a")
    for islands in ([[0]], [[0, 1]]):
        slices.apply_node_topology(NodeTopology(metadata=ObjectMeta(name="a"), spec={"islands": islands}))
    assert node_uid(api, "a") is None
    assert api.used == granted("publisher.yaml")
