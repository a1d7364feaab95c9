"""Placed pods and claims: what the set is worth, what first fit would take, and what is wrong with it."""

from __future__ import annotations

import msgspec

from baro.diagnosis.evidence import Capture, CaptureKind
from baro.diagnosis.explain import Verdict
from baro.model.errors import Where
from baro.model.kinds.base import ObjectReference
from baro.model.kinds.core import Event
from baro.model.kinds.resource import Device, DeviceTaint
from baro.topology.machine import Machine
from baro.topology.profiles import load_profile
from baro.topology.topo_m_render import render
from tests.support.cluster import attribute, claim, cluster, gpus, holding, request
from tests.support.explain import evidence, explained, node, pod, pod_explained, reserved, text

TWO_FOURS = {"a": range(4), "b": range(4, 8)}


def _sockets() -> tuple[Device, ...]:
    """Eight GPUs in two islands of four, each on a socket of its own."""
    return tuple(
        msgspec.structs.replace(
            item, attributes={**item.attributes, "resource.kubernetes.io/numaNode": attribute(number // 4)}
        )
        for number, item in enumerate(gpus(TWO_FOURS))
    )


def _placed(*devices: str, busy: tuple[str, ...] = (), **pod_parts: object):  # type: ignore[no-untyped-def]
    held = holding("a", *devices, name="c")
    spec = claim(request(count=len(devices))).spec
    held = reserved(msgspec.structs.replace(held, spec=spec), "p")
    parts = {"node_name": "a", "phase": "Running", **pod_parts}
    known = cluster({"a": _sockets()}, busy={"a": busy}, nodes=[node("a")])
    return evidence(known, held, pod("p", "c", **parts))  # type: ignore[arg-type]


def test_a_set_in_one_island_is_shown_with_its_ring_and_with_what_first_fit_would_take() -> None:
    said = pod_explained(_placed("gpu-4", "gpu-5", "gpu-6", "gpu-7", busy=("gpu-0",)))
    assert said.verdict is Verdict.PLACED
    assert said.headline == "4×H200 on node a: island b, 450 GB/s ring"
    item = said.holdings[0]
    assert item.gbps == 450
    assert item.first_fit == ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
    assert item.first_fit_gbps is not None and item.first_fit_gbps < item.gbps
    shown = text(said)
    assert "kube-scheduler's first fit would take: gpu-1, gpu-2, gpu-3, gpu-4" in shown
    assert "what else was free when it was placed is not recorded" in shown


def test_a_split_set_is_shown_with_the_set_that_policy_topology_would_take() -> None:
    said = pod_explained(_placed("gpu-0", "gpu-1", "gpu-4", "gpu-5"))
    item = said.holdings[0]
    assert item.best == ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
    assert item.gbps is not None and item.best_gbps == 450 > item.gbps
    assert "split: policy topology would take gpu-0, gpu-1, gpu-2, gpu-3 (450 GB/s)" in text(said)
    whole = pod_explained(_placed("gpu-4", "gpu-5", "gpu-6", "gpu-7"))
    assert "split" not in text(whole)


def test_the_planners_own_words_are_shown_as_its_own() -> None:
    said = pod_explained(_placed("gpu-0", annotations={"baro.dev/placement-reason": "1×H200 on node a"}))
    assert "the planner said: 1×H200 on node a" in said.notes


def test_devices_that_are_held_twice_gone_or_tainted_are_problems() -> None:
    known = _placed("gpu-0", "gpu-1", "gpu-9")
    again = holding("a", "gpu-0", name="thief")
    slices = known.snapshot.slices
    bad = tuple(
        msgspec.structs.replace(item, taints=(DeviceTaint(key="xid", value="79", effect="NoExecute"),))
        if item.name == "gpu-1"
        else item
        for item in slices[0].spec.devices
    )
    spec = msgspec.structs.replace(slices[0].spec, devices=bad)
    snapshot = msgspec.structs.replace(
        known.snapshot,
        slices=(msgspec.structs.replace(slices[0], spec=spec),),
        claims=(*known.snapshot.claims, again),
    )
    said = pod_explained(msgspec.structs.replace(known, snapshot=snapshot))
    problems = " ".join(said.holdings[0].problems)
    assert "gpu-0 is held by claim default/thief as well" in problems
    assert "gpu-1 now has the taint xid=79:NoExecute" in problems
    assert "gpu-9 is no longer published" in problems


def test_an_allocated_claim_says_for_whom_and_where() -> None:
    said = explained(_placed("gpu-0", "gpu-1"), "claim/c")
    assert (said.verdict, said.node) == (Verdict.PLACED, "a")
    assert "reserved for p" in said.notes


def test_a_bound_pod_that_waits_for_kubelet_shows_the_last_warning() -> None:
    about = ObjectReference(kind="Pod", namespace="default", name="p")
    event = Event(
        involved_object=about, type="Warning", reason="FailedPrepareDynamicResources", message="no driver"
    )
    known = _placed("gpu-0", phase="Pending")
    said = pod_explained(msgspec.structs.replace(known, events=(event,)))
    assert said.verdict is Verdict.PLACED
    assert "last warning (FailedPrepareDynamicResources): no driver" in said.notes


def test_a_pod_that_has_ended_is_not_explained_further() -> None:
    said = pod_explained(_placed("gpu-0", phase="Succeeded"))
    assert (said.verdict, said.headline) == (Verdict.DONE, "has ended (Succeeded)")


def test_a_claim_that_nobody_uses_is_pending_by_design() -> None:
    known = evidence(cluster({"a": gpus(TWO_FOURS)}, nodes=[node("a")]), claim(request()))
    said = explained(known, "claim/c")
    assert said.verdict is Verdict.UNUSED
    assert said.settled
    assert "no pod refers to it" in said.headline and "would fit on node a" in said.headline


def test_a_claim_is_explained_with_the_pod_that_waits_for_it() -> None:
    known = evidence(
        cluster({"a": gpus(TWO_FOURS)}, busy={"a": [f"gpu-{n}" for n in range(8)]}, nodes=[node("a")]),
        claim(request()),
        pod("p", "c"),
    )
    said = explained(known, "claim/c")
    assert (said.kind, said.name, said.verdict) == ("claim", "c", Verdict.PENDING)
    assert said.causes[0].code == "pending-in-use"
    assert "explained with its pod p" in said.notes[0]


# --- device plugin ------------------------------------------------------------------------------------------


def _dump(*ids: str) -> Capture:
    devices = [{"resourceName": "nvidia.com/gpu", "deviceIds": list(ids)}]
    entry = {"name": "p", "namespace": "default", "containers": [{"name": "c", "devices": devices}]}
    return Capture(
        kind=CaptureKind.POD_RESOURCES,
        where=Where(file="x.json"),
        text="",
        node="a",
        data={"podResources": [entry]},
    )


def _counted(*captures: Capture):  # type: ignore[no-untyped-def]
    named = tuple(
        msgspec.structs.replace(
            item, attributes={**item.attributes, "uuid": attribute(f"GPU-{item.name.removeprefix('gpu-')}")}
        )
        for item in _sockets()
    )
    known = cluster({"a": named}, nodes=[node("a", allocatable={"nvidia.com/gpu": "8"})])
    user = pod("p", requests={"nvidia.com/gpu": "2"}, node_name="a", phase="Running")
    return evidence(known, user, captures=captures)


def test_without_kubelets_dump_it_is_not_known_which_gpus_a_counted_pod_has() -> None:
    said = pod_explained(_counted())
    assert any("which GPUs it got is not in the API" in note for note in said.notes)


def test_with_kubelets_dump_the_set_of_a_counted_pod_is_judged() -> None:
    together = pod_explained(_counted(_dump("GPU-0", "GPU-1")))
    split = pod_explained(_counted(_dump("GPU-3", "GPU-4")))
    worth = [next(note for note in said.notes if "GB/s" in note) for said in (together, split)]
    assert any(note.startswith("split: the best 2 GPUs of the node would make") for note in split.notes)
    assert not any("split" in note for note in together.notes)
    assert "slowest hop is NV" in worth[0]
    assert "slowest hop is SYS" in worth[1]
    assert any("GPU-3, GPU-4" in note for note in split.notes)


def test_captures_of_the_node_stand_in_for_slices() -> None:
    """No DRA at all: ``topo -m`` tells the links, ``nvidia-smi -q -x`` which UUID has which index."""
    machine = load_profile("h200-nvl-8").machine(seed="a")
    uuids = [gpu.uuid or "" for gpu in machine.gpus]
    topo = Capture(kind=CaptureKind.TOPO, where=Where(file="t"), text=render(machine), node="a")
    xml = Capture(kind=CaptureKind.SMI_XML, where=Where(file="x"), text=_xml(machine), node="a")

    def said(*ids: str) -> list[str]:
        user = pod("p", requests={"nvidia.com/gpu": "2"}, node_name="a", phase="Running")
        known = evidence(
            node("a", allocatable={"nvidia.com/gpu": "8"}), user, captures=[_dump(*ids), topo, xml]
        )
        return list(pod_explained(known).notes)

    assert any("slowest hop is NV" in note for note in said(uuids[0], uuids[1]))
    crossing = said(uuids[0], uuids[7])
    assert any(note.startswith("split: the best 2 GPUs") for note in crossing)
    assert any("not known" in note for note in said(uuids[0], "GPU-other"))


def _xml(machine: Machine) -> str:
    gpus = "".join(
        f'<gpu id="{gpu.pci_bus_id}"><uuid>{gpu.uuid}</uuid><minor_number>{gpu.index}</minor_number></gpu>'
        for gpu in machine.gpus
    )
    return f"<?xml version='1.0' ?><nvidia_smi_log><attached_gpus>8</attached_gpus>{gpus}</nvidia_smi_log>"


def test_ids_that_nothing_else_knows_are_listed_and_not_judged() -> None:
    said = pod_explained(_counted(_dump("GPU-x", "GPU-y")))
    assert any("not known" in note for note in said.notes)
