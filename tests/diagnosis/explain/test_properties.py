"""Properties over small random clusters: the verdict is the allocator's, funnels only lose, near misses hold.

A near miss is applied here by code of its own (on the JSON of the API objects), and the changed cluster is
asked anew. Holders are released by deleting their claims.
"""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.allocator import Outcome, Policy, allocate, compile_plan
from baro.diagnosis.evidence import Evidence
from baro.diagnosis.explain import Explanation, Options, Step, Subject, Verdict, World, explain
from baro.diagnosis.explain.result import Change, MissKind
from baro.inventory import Inventory, Snapshot
from baro.model.kinds.core import Pod, Taint
from baro.model.kinds.resource import (
    CapacityRequirements,
    Device,
    DeviceTaint,
    ResourceClaim,
    ResourceSlice,
)
from tests.support.cluster import claim, device, device_class, holding, node_slice, request
from tests.support.explain import evidence, node, pod, selector

GPU = "device.attributes['gpu.nvidia.com']"
SELECTORS = (
    f"{GPU}.model == 'H200'",
    f"{GPU}.model == 'H100'",
    f"{GPU}.numa == 0",
    f"{GPU}.modle == 'H200'",
    "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80Gi')) >= 0",
)
CONSTRAINTS = ("gpu.nvidia.com/island", "gpu.nvidia.com/islnad", "gpu.nvidia.com/model")


@st.composite
def devices(draw: st.DrawFn) -> Device:
    item = device(
        "x",
        type="gpu",
        memory=draw(st.sampled_from(["40960Mi", "81559Mi", "143771Mi"])),
        model=draw(st.sampled_from(["H100", "H200", "H200"])),
        island=draw(st.sampled_from(["i0", "i1"])),
        numa=draw(st.sampled_from([0, 1])),
    )
    taints = draw(st.sampled_from([(), (), (), (DeviceTaint(key="xid", effect="NoSchedule"),)]))
    return msgspec.structs.replace(item, taints=taints)


@st.composite
def claims(draw: st.DrawFn) -> ResourceClaim:
    requests = []
    for number in range(draw(st.integers(1, 2))):
        more: dict[str, Any] = {
            "selectors": selector(*draw(st.lists(st.sampled_from(SELECTORS), max_size=2)))
        }
        if draw(st.booleans()) and draw(st.booleans()):
            more["capacity"] = CapacityRequirements(requests={"memory": "80Gi"})
        requests.append(request(f"r{number}", count=draw(st.integers(1, 3)), **more))
    return claim(*requests, match=draw(st.sampled_from([None, None, *CONSTRAINTS])))


@st.composite
def clusters(draw: st.DrawFn) -> Evidence:
    """Up to three nodes with up to five GPUs, some held, and the pod ``p`` with one claim."""
    parts: list[Any] = [device_class()]
    held = itertools.count()
    for name in "abc"[: draw(st.integers(1, 3))]:
        found = draw(st.lists(devices(), max_size=5))
        named = [msgspec.structs.replace(item, name=f"gpu-{at}") for at, item in enumerate(found)]
        taints = draw(st.sampled_from([(), (), (Taint(key="maint", effect="NoSchedule"),)]))
        parts.append(node(name, taints=taints, unschedulable=draw(st.sampled_from([False, False, True]))))
        parts.append(node_slice(name, named, count=draw(st.sampled_from([1, 1, 1, 2]))))
        for item in named:
            if draw(st.booleans()):
                parts.append(holding(name, item.name, name=f"held-{next(held)}"))
    return evidence(*parts, draw(claims()), pod("p", "c"))


def _said(known: Evidence) -> Explanation:
    return explain(World(known, Options(work=400)), Subject("pod", ("default", "p")))


@settings(max_examples=60)
@given(clusters())
def test_the_verdict_is_that_of_the_allocator_on_the_nodes_that_no_filter_rejects(known: Evidence) -> None:
    said = _said(known)
    inventory = Inventory(known.snapshot)
    wanted = [item for item in known.snapshot.claims if item.metadata.name == "c"]
    answers = {}
    for item in known.snapshot.nodes:
        if not item.spec.unschedulable and not item.spec.taints:
            plan = compile_plan(wanted, inventory.classes, Options().features)
            answers[item.metadata.name] = allocate(
                inventory, item.metadata.name, plan, policy=Policy.FIRST_FIT
            )
    told = {name: group.answer for group in said.groups for name in group.nodes}
    for name, decision in answers.items():
        assert told[name].outcome == decision.outcome.value
        assert (told[name].error is None) == (decision.error is None)
    assert {name for name in told if told[name].outcome == "filtered"} == told.keys() - answers.keys()
    fatal = any(d.outcome is Outcome.ERROR and not d.on_node for d in answers.values())
    expected = Verdict.PENDING
    if fatal:
        expected = Verdict.ERROR
    elif any(decision.fits for decision in answers.values()):
        expected = Verdict.FITS
    assert said.verdict is expected


@settings(max_examples=60)
@given(clusters())
def test_funnels_are_monotone_and_their_stop_is_the_step(known: Evidence) -> None:
    for group in _said(known).groups:
        said = group.answer
        for funnel in said.funnels:
            for stage in funnel.stages:
                assert 0 <= stage.after <= stage.before
            selection = [stage.after for stage in funnel.stages if stage.step is not Step.CONSTRAINT]
            assert selection == sorted(selection, reverse=True)
        if said.step in (Step.CLASS, Step.SELECTOR, Step.FREE, Step.TAINT, Step.CAPACITY) and not said.error:
            stops = [funnel.stops_at() for funnel in said.funnels]
            assert any(stop is not None and stop.step is said.step for stop in stops)


@settings(max_examples=60)
@given(clusters())
def test_every_near_miss_makes_it_fit_when_it_is_applied(known: Evidence) -> None:
    said = _said(known)
    for miss in said.misses:
        changed = known
        for change in miss.changes:
            changed = _applied(changed, change)
        after = _said(changed)
        fitting = {name for group in after.groups if group.answer.step is Step.FITS for name in group.nodes}
        assert miss.first in fitting, (miss, after.headline)
        if miss.changes[0].kind is not MissKind.RELEASE:
            assert len(fitting) >= miss.nodes, miss


@settings(max_examples=60)
@given(clusters())
def test_a_single_release_that_is_told_is_the_smallest(known: Evidence) -> None:
    """Where two holders are named, no single one would do on that node."""
    said = _said(known)
    for miss in said.misses:
        if len(miss.changes) < 2 or miss.changes[0].kind is not MissKind.RELEASE:
            continue
        for change in miss.changes:
            after = _said(_applied(known, change))
            fitting = {n for group in after.groups if group.answer.step is Step.FITS for n in group.nodes}
            assert miss.first not in fitting, miss


# --- applying a change, by hand -----------------------------------------------------------------------------


def _applied(known: Evidence, change: Change) -> Evidence:
    snapshot = known.snapshot
    if change.kind is MissKind.RELEASE:
        kept = tuple(c for c in snapshot.claims if f"default/{c.metadata.name}" != change.claim)
        snapshot = msgspec.structs.replace(snapshot, claims=kept)
    elif change.kind is MissKind.POOL:
        snapshot = msgspec.structs.replace(snapshot, slices=_whole(snapshot, change.key))
    elif change.kind is MissKind.NODE:
        snapshot = msgspec.structs.replace(
            snapshot, pods=tuple(_tolerating(item, change.key) for item in snapshot.pods)
        )
    else:
        snapshot = msgspec.structs.replace(
            snapshot,
            claims=tuple(
                _rewritten(item, change) if f"default/{item.metadata.name}" == change.claim else item
                for item in snapshot.claims
            ),
        )
    return msgspec.structs.replace(known, snapshot=snapshot)


def _whole(snapshot: Snapshot, pool: str) -> tuple[ResourceSlice, ...]:
    found = []
    for item in snapshot.slices:
        body = item.to_dict()
        if f"{item.spec.driver}/{item.spec.pool.name}" == pool:
            body["spec"]["pool"]["resourceSliceCount"] = 1
        found.append(msgspec.convert(body, ResourceSlice))
    return tuple(found)


def _tolerating(item: Pod, key: str) -> Pod:
    body = item.to_dict()
    plugin, _, name = key.partition("/")
    taint = "node.kubernetes.io/unschedulable" if plugin == "NodeUnschedulable" else name.split(":")[0]
    body["spec"].setdefault("tolerations", []).append({"key": taint, "operator": "Exists"})
    return msgspec.convert(body, Pod)


def _rewritten(item: ResourceClaim, change: Change) -> ResourceClaim:
    body = item.to_dict()
    devices = body["spec"]["devices"]
    if change.kind is MissKind.CONSTRAINT:
        if change.value is None:
            del devices["constraints"][change.index]
        else:
            devices["constraints"][change.index]["matchAttribute"] = change.value
        return msgspec.convert(body, ResourceClaim)
    exactly = next(r for r in devices["requests"] if r["name"] == change.request)["exactly"]
    match change.kind:
        case MissKind.SELECTOR if change.value is None:
            del exactly["selectors"][change.index]
        case MissKind.SELECTOR:
            exactly["selectors"][change.index]["cel"]["expression"] = change.value
        case MissKind.TOLERATE:
            exactly.setdefault("tolerations", []).append({"key": change.key, "operator": "Exists"})
        case MissKind.COUNT:
            exactly["count"] = int(change.value or 0)
        case MissKind.CAPACITY if change.value is None:
            del exactly["capacity"]["requests"][change.key]
        case MissKind.CAPACITY:
            exactly["capacity"]["requests"][change.key] = change.value
        case _:
            raise AssertionError(change)
    return msgspec.convert(body, ResourceClaim)
