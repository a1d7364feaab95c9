"""The checks on small clusters: what each finds, what it must not find, and what it does not know."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baro.diagnosis.checks import CHECKS, Diagnosis, diagnose, tp_step
from baro.diagnosis.checks.logs import XidClass, short_pci, xid_class, xids
from baro.diagnosis.checks.resources import is_gpu_resource, whole_gpu_resource
from baro.diagnosis.evidence import Evidence, Missing
from baro.model.findings import Severity, table
from baro.topology.profiles import load_profile
from baro.topology.topo_m_render import render
from tests.support import shared
from tests.support.diagnosis import (
    NOW,
    Body,
    claim,
    device,
    device_class,
    event,
    evidence,
    gpus,
    node,
    pod,
    resource_slice,
)

DRIVER = "gpu.baro.dev"
MOUNT = "/var/lib/kubelet/plugins"


def codes(found: Diagnosis) -> list[str]:
    return [item.code for item in found.problems]


def only(found: Diagnosis, code: str) -> Any:
    matching = [item for item in found.problems if item.code == code]
    assert len(matching) == 1, codes(found)
    return matching[0]


def islands(name: str = "node-a", product: str = "NVIDIA H100 NVL") -> Body:
    """Eight GPUs in two islands of four."""
    return resource_slice(
        name,
        [
            device(
                f"gpu-{i}",
                {
                    "type": "gpu",
                    "uuid": f"GPU-{i}",
                    "productName": product,
                    "nvlinkDomain": f"{name}-{i // 4}",
                    "nvlinkPeers": 3,
                    "resource.kubernetes.io/numaNode": i // 4,
                    "resource.kubernetes.io/pciBusID": f"0000:{16 + i:02x}:00.0",
                },
            )
            for i in range(8)
        ],
        driver=DRIVER,
    )


def holding(name: str, devices: list[int], **fields: Any) -> list[Body]:
    """A running pod on node-a with a claim on these GPUs."""
    names = [f"gpu-{i}" for i in devices]
    return [
        pod(name, node="node-a", claims=[name], **fields),
        claim(name, names, driver=DRIVER, device_class=DRIVER, pods=[name]),
    ]


# --- split ------------------------------------------------------------------------------------------------


def test_a_pod_over_two_islands_is_split_and_says_what_was_possible() -> None:
    others = [body for i in (2, 6) for body in holding(f"other{i}", [i])]
    found = diagnose(evidence([node(), islands(), *holding("tp4", [0, 1, 4, 5]), *others]))
    item = only(found, "gpu-set-split")
    assert item.facts["gpus"] == [0, 1, 4, 5]
    assert item.facts["bestGbps"] == 300
    assert item.facts["gbps"] < 50
    assert item.facts["possibleGbps"] is None, "no island has four of its own and free GPUs"
    assert "not with what is free there now" in item.message
    assert item.lost.share == pytest.approx(1 - 1 / item.facts["slowdown"], abs=0.01)


def test_a_split_pod_that_could_have_better_gpus_now_is_told_which() -> None:
    found = diagnose(evidence([node(), islands(), *holding("tp2", [3, 4])]))
    item = only(found, "gpu-set-split")
    assert item.facts["possibleGbps"] == item.facts["bestGbps"] == 100


@pytest.mark.parametrize("devices", [[0, 1, 2, 3], [4, 5], [0], list(range(8))])
def test_a_pod_whose_set_no_other_beats_is_not_split(devices: list[int]) -> None:
    found = diagnose(evidence([node(), islands(), *holding("fine", devices)]), ["split"])
    assert codes(found) == []


def test_a_machine_whose_gpus_are_all_alike_splits_nothing() -> None:
    alike = resource_slice("node-a", gpus(8, productName="NVIDIA L4"), driver=DRIVER)
    found = diagnose(evidence([node(), alike, *holding("any", [0, 5])]), ["split"])
    assert codes(found) == []


def test_a_pod_of_the_device_plugin_is_split_when_the_kubelet_tells_its_gpus() -> None:
    devices = [{"resourceName": "nvidia.com/gpu", "deviceIds": [f"GPU-{i}" for i in (0, 1, 4, 5)]}]
    dump = {"podResources": [{"name": "old", "namespace": "default", "containers": [{"devices": devices}]}]}
    import json

    found = diagnose(
        evidence(
            [node(), islands(), pod("old", node="node-a", limits={"nvidia.com/gpu": 4})],
            {"node-a.json": json.dumps(dump)},
        ),
        ["split"],
    )
    assert only(found, "gpu-set-split").facts["gpus"] == [0, 1, 4, 5]


def test_a_pod_that_asks_by_count_and_is_served_by_a_claim_of_the_scheduler_is_split_too() -> None:
    made = claim("old-extended-resources-x", ["gpu-0", "gpu-4"], driver=DRIVER, pods=["old"])
    objects = [node(), islands(), pod("old", node="node-a", limits={"nvidia.com/gpu": 2}), made]
    found = diagnose(evidence(objects))
    assert codes(found) == ["gpu-set-split"]


@given(
    st.integers(2, 8),
    st.floats(1, 1000),
    st.floats(1, 1000),
    st.sampled_from(["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", None]),
)
def test_a_step_is_never_faster_on_a_slower_set(
    number: int, first: float, second: float, product: str | None
) -> None:
    slow, fast = sorted((first, second))
    found = tp_step.slowdown(number, slow, fast, product)
    assert 1 <= found <= fast / slow + 1e-9
    assert tp_step.slowdown(number, fast, slow, product) == 1


def test_the_step_model_gives_the_figure_worked_out_by_hand() -> None:
    """Four H100: 3·494.5e12 / (3·8192·450e9) = 0.134 at 450 GB/s, 2.515 at 24 GB/s: 3.515 / 1.134 = 3.10."""
    assert tp_step.slowdown(4, 24, 450, "NVIDIA H100 80GB HBM3") == pytest.approx(3.10, abs=0.01)


# --- stranded ---------------------------------------------------------------------------------------------


def test_free_gpus_that_form_no_island_are_stranded_and_a_move_is_named() -> None:
    waiting = [pod("tp4", claims=["tp4"], phase="Pending"), claim("tp4", device_class=DRIVER, count=4)]
    found = diagnose(
        evidence([node(), islands(), *holding("left", [0]), *holding("right", [4, 5]), *waiting]),
        ["stranded"],
    )
    item = only(found, "stranded-gpus")
    assert item.facts["free"] == [1, 2, 3, 6, 7]
    assert item.facts["moves"][0].startswith("moving pod default/left (GPU {0})")
    assert len(item.facts["moves"]) == 2


def test_nothing_is_stranded_where_an_island_is_free_or_nobody_asks_for_so_many() -> None:
    waiting = [pod("tp4", claims=["tp4"], phase="Pending"), claim("tp4", device_class=DRIVER, count=4)]
    free_island = [node(), islands(), *holding("left", [0]), *waiting]
    nobody_asks = [node(), islands(), *holding("left", [0]), *holding("right", [4])]
    cordoned = [node(unschedulable=True), islands(), *holding("l", [0]), *holding("r", [4]), *waiting]
    for objects in (free_island, nobody_asks, cordoned):
        assert codes(diagnose(evidence(objects), ["stranded"])) == []


def _mig(placements: list[int]) -> Body:
    """One GPU of eight memory slices with partitions of two slices at these places."""
    counters = {f"memory-slice-{i}": {"value": "1"} for i in range(8)}
    parts = [
        device(
            f"gpu-0-mig-{start}",
            {"type": "mig", "profile": "2g.20gb"},
            consumesCounters=[
                {
                    "counterSet": "gpu-0",
                    "counters": {f"memory-slice-{i}": {"value": "1"} for i in (start, start + 1)},
                }
            ],
        )
        for start in placements
    ]
    sets = resource_slice("node-a", [], driver=DRIVER, name="a-sets", count=2)
    sets["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": counters}]
    del sets["spec"]["devices"]
    return {"sets": sets, "parts": resource_slice("node-a", parts, driver=DRIVER, name="b-parts", count=2)}


def test_memory_slices_that_no_profile_fits_are_a_hole() -> None:
    mig = _mig([0, 2, 4])
    used = [claim(f"c{i}", [f"gpu-0-mig-{i}"], driver=DRIVER, pods=[f"p{i}"]) for i in (0, 2, 4)]
    pods = [pod(f"p{i}", node="node-a", claims=[f"c{i}"]) for i in (0, 2, 4)]
    found = diagnose(evidence([node(), mig["sets"], mig["parts"], *used, *pods]), ["stranded"])
    item = only(found, "mig-hole")
    assert item.facts["free_slices"] == [6, 7]
    assert item.lost.share == pytest.approx(2 / 8)


def test_free_slices_into_which_a_profile_fits_are_no_hole() -> None:
    mig = _mig([0, 2, 4, 6])
    objects = [node(), mig["sets"], mig["parts"], claim("c", ["gpu-0-mig-0"], driver=DRIVER, pods=["p"])]
    found = diagnose(evidence([*objects, pod("p", node="node-a", claims=["c"])]), ["stranded"])
    assert codes(found) == []


# --- integer-only -----------------------------------------------------------------------------------------


def test_counted_pods_on_a_machine_with_islands_would_gain() -> None:
    text = render(load_profile("h100-nvl-8-pairs").machine())
    objects = [node(capacity={"nvidia.com/gpu": 8}), pod("tp2", node="node-a", limits={"nvidia.com/gpu": 2})]
    item = only(diagnose(evidence(objects, {"node-a.topo.txt": text}), ["counted"]), "counted-workload-gains")
    assert item.facts["pods"] == ["default/tp2"]
    assert len(item.facts["islands"]) == 4
    assert "best set" in item.evidence[0]


def test_counted_pods_gain_nothing_where_all_gpus_are_linked_alike() -> None:
    text = render(load_profile("hgx-h100-8").machine())
    objects = [node(capacity={"nvidia.com/gpu": 8}), pod("tp2", node="node-a", limits={"nvidia.com/gpu": 2})]
    assert codes(diagnose(evidence(objects, {"node-a.topo.txt": text}), ["counted"])) == []


def test_where_nothing_tells_the_links_only_that_is_said() -> None:
    objects = [node(capacity={"nvidia.com/gpu": 8}), pod("tp2", node="node-a", limits={"nvidia.com/gpu": 2})]
    item = only(diagnose(evidence(objects), ["counted"]), "counted-gpus-topology-blind")
    assert item.severity is Severity.INFO


# --- not really ready -------------------------------------------------------------------------------------


def test_absent_zero_of_zero_and_zero_of_n_are_three_different_things() -> None:
    plugin = pod(
        "nvidia-device-plugin-x",
        namespace="kube-system",
        node="node-a",
        mounts=["/var/lib/kubelet/device-plugins"],
        owner=("DaemonSet", "nvidia-device-plugin"),
    )
    absent = diagnose(evidence([node(), plugin]), ["ready"])
    zero = diagnose(evidence([node(capacity={"nvidia.com/gpu": 0}), plugin]), ["ready"])
    unhealthy = diagnose(
        evidence([node(capacity={"nvidia.com/gpu": 8}, allocatable={"nvidia.com/gpu": 0}), plugin]), ["ready"]
    )
    assert (codes(absent), codes(zero), codes(unhealthy)) == (
        [],
        ["plugin-endpoint-lost"],
        ["all-devices-unhealthy"],
    )


def test_zero_of_zero_without_a_plugin_is_what_an_uninstalled_plugin_leaves() -> None:
    assert codes(diagnose(evidence([node(capacity={"nvidia.com/gpu": 0})]), ["ready"])) == []


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("GPUReady", "False", ["gpu-condition"]),
        ("GPUReady", "Unknown", ["gpu-ready-unknown"]),
        ("GPUReady", "True", []),
        ("GpuXidError", "True", ["gpu-condition"]),
        ("GpuXidError", "False", []),
        ("AcceleratedHardwareReady", "False", ["gpu-condition"]),
        ("MemoryPressure", "True", []),
    ],
)
def test_conditions_of_gpus_count_by_what_their_name_promises(
    kind: str, status: str, code: list[str]
) -> None:
    conditions = [
        {"type": "Ready", "status": "True"},
        {"type": kind, "status": status, "lastTransitionTime": "2026-01-02T00:00:00Z"},
    ]
    objects = [node(capacity={"nvidia.com/gpu": 8}, conditions=conditions)]
    found = diagnose(evidence(objects, taken_at=NOW), ["ready"])
    assert codes(found) == code
    if code:
        assert found.problems[0].lost.gpu_hours == 8 * 12


def test_an_age_that_the_evidence_does_not_tell_stays_unknown() -> None:
    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T00:00:00Z"}]
    found = diagnose(evidence([node(capacity={"nvidia.com/gpu": 8}, conditions=conditions)]), ["ready"])
    item = only(found, "node-not-ready-with-gpus")
    assert item.lost.now == 8
    assert item.lost.gpu_hours is None


def test_an_xid_is_matched_with_the_published_device_by_its_bus_address() -> None:
    log = "[430954.5] NVRM: Xid (PCI:0000:12:00): 79, pid=1, GPU has fallen off the bus.\n"
    found = diagnose(evidence([node(), islands()], {"node-a.dmesg.log": log * 2}), ["ready"])
    item = only(found, "xid-fatal")
    assert item.lost.gpus == {"node-a/gpu.baro.dev/gpu-2"}
    assert item.facts["counts"] == {79: 2}


def test_an_xid_of_an_application_costs_no_gpu() -> None:
    log = "NVRM: Xid (PCI:0000:12:00): 31, pid=1, name=train, MMU Fault\n"
    item = only(diagnose(evidence([node(), islands()], {"node-a.log": log}), ["ready"]), "xid-application")
    assert item.severity is Severity.INFO
    assert not item.lost.gpus


@pytest.mark.parametrize(
    ("line", "pci", "code"),
    [
        ("NVRM: Xid (PCI:0000:3f:00): 46", "0000:3f:00", 46),
        ("Jan  1 00:00:00 host kernel: NVRM: Xid (PCI:0000:3F:00): 119, pid=7, Timeout", "0000:3f:00", 119),
        ("[1.5] NVRM: Xid (PCI:0000:52:00 GPU-I:05 GPU-CI:00): 13, pid=1, x", "0000:52:00", 13),
        ("NVRM: Xid (0000:03:00): 79, GPU has fallen off", "0000:03:00", 79),
        ("Xid (PCI:00000000:03:00.0): 94, Contained", "0000:03:00", 94),
        ("NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.", "0000:91:00", 79),
    ],
)
def test_xid_lines_of_every_shape_are_read(line: str, pci: str, code: int) -> None:
    found = list(xids(evidence((), {"dmesg.log": f"{line}\nNVRM: end\n"})))
    assert [(item.pci, item.code) for item in found] == [(pci, code)]


def test_an_xid_that_an_agent_reports_as_an_event_counts_as_one_in_the_log() -> None:
    said = event("NVRM: Xid (PCI:0000:12:00): 79, GPU has fallen off the bus", pod="x", reason="XidError")
    said["involvedObject"] = {"kind": "Node", "name": "node-a"}
    said["source"] = {"component": "node-problem-detector"}
    item = only(diagnose(evidence([node(), islands(), said]), ["ready"]), "xid-fatal")
    assert item.lost.gpus == {"node-a/gpu.baro.dev/gpu-2"}
    assert "event XidError of Node node-a" in item.evidence[0]


@given(st.integers(1, 400))
def test_an_unknown_xid_is_never_harmless(code: int) -> None:
    kind = xid_class(code)
    assert isinstance(kind, XidClass)
    if code > 176:
        assert kind is XidClass.UNCLEAR


def test_xid_classes_agree_with_the_catalogue() -> None:
    import json

    rows = json.loads(shared.path("data/xid-table.json").read_text())
    rows = rows if isinstance(rows, list) else next(v for v in rows.values() if isinstance(v, list))
    words = {
        "app": XidClass.APPLICATION,
        "ignore": XidClass.IGNORE,
        "reset_gpu": XidClass.RESET,
        "reboot_node": XidClass.REBOOT,
        "rma_contact": XidClass.SUPPORT,
        "contact": XidClass.SUPPORT,
    }
    for row in rows:
        assert xid_class(row["code"]) is words.get(row["cls"], XidClass.UNCLEAR), row["code"]


def test_healthy_machines_that_nvidia_smi_shows_give_nothing() -> None:
    for name in ("28-nvidia-smi-qx-h100.xml", "29-nvidia-smi-qx-b200.xml", "33-nvidia-smi-qx-l40s.xml"):
        text = shared.path(f"data/gpu-captures/{name}").read_text()
        assert codes(diagnose(evidence([node()], {f"node-a/{name}": text}))) == []


def test_a_lost_gpu_in_nvidia_smi_is_found() -> None:
    text = shared.path("data/gpu-captures/35-nvidia-smi-qx-gb200-lost.xml").read_text()
    found = diagnose(evidence([node()], {"node-a/smi.xml": text}), ["ready"])
    assert only(found, "nvidia-smi-not-healthy").facts["warning"] == "gpu-lost"


def test_short_addresses_lose_function_and_long_domains() -> None:
    assert short_pci("00000000:9B:00.0") == short_pci("0000:9b:00") == "0000:9b:00"


# --- DRA broken -------------------------------------------------------------------------------------------


def _driver_pod(name: str, where: str, **fields: Any) -> Body:
    return pod(
        name,
        namespace="kube-system",
        node=where,
        owner=("DaemonSet", "baro-agent"),
        mounts=[MOUNT],
        image=f"x/baro-agent {DRIVER}",
        **fields,
    )


def test_a_driver_that_runs_elsewhere_and_not_here_is_missed() -> None:
    objects = [
        node("node-a"),
        node("node-b"),
        islands("node-a"),
        islands("node-b"),
        _driver_pod("d", "node-b"),
    ]
    item = only(diagnose(evidence(objects), ["dra"]), "slice-without-driver")
    assert item.node == "node-a"
    assert len(item.lost.gpus) == 8


def test_without_pods_in_the_evidence_no_driver_is_missed() -> None:
    assert codes(diagnose(evidence([node(), islands()]), ["dra"])) == []


def test_a_dump_of_user_pods_alone_misses_no_driver_either() -> None:
    assert codes(diagnose(evidence([node(), islands(), *holding("p", [0])]), ["dra"])) == []


def test_a_driver_pod_that_crashes_is_named() -> None:
    broken = _driver_pod("d", "node-a", phase="Pending")
    found = diagnose(evidence([node(), islands(), broken]), ["ready"])
    assert only(found, "driver-pod-not-running").subject == "Pod kube-system/d"


def test_a_drivers_daemonset_without_all_its_pods_is_named_and_other_daemonsets_are_not() -> None:
    def daemonset(name: str, path: str, there: int) -> Body:
        spec = {"volumes": [{"name": "v", "hostPath": {"path": path}}]}
        return {
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"template": {"spec": spec}},
            "status": {"desiredNumberScheduled": 4, "currentNumberScheduled": there},
        }  # fmt: skip

    objects = [daemonset("dra", MOUNT, 3), daemonset("log", "/var/log", 1), daemonset("whole", MOUNT, 4)]
    item = only(diagnose(evidence([node(), *objects]), ["ready"]), "driver-daemonset-short")
    assert item.subject == "DaemonSet kube-system/dra"


def test_storage_drivers_and_plugins_of_other_things_are_no_gpu_drivers() -> None:
    csi = pod(
        "ebs", namespace="kube-system", node="node-b", owner=("DaemonSet", "ebs-csi-node"), mounts=[MOUNT]
    )
    nics = pod(
        "rdma", namespace="kube-system", node="node-a", owner=("DaemonSet", "rdma-shared-dp"),
        mounts=["/var/lib/kubelet/device-plugins"], phase="Pending",
    )  # fmt: skip
    objects = [
        node("node-a", capacity={"nvidia.com/gpu": 0}, labels={"nvidia.com/gpu.count": "8"}), node("node-b"),
        islands("node-a"), islands("node-b"),
    ]  # fmt: skip
    assert codes(diagnose(evidence([*objects, csi, nics]), ["dra", "ready"])) == []


def test_time_slices_are_counted_as_the_gpus_that_they_are_of() -> None:
    labels = {"nvidia.com/gpu.replicas": "4"}
    sliced = node(capacity={"nvidia.com/gpu": 32}, allocatable={"nvidia.com/gpu": 28}, labels=labels)
    item = only(diagnose(evidence([sliced])), "some-devices-unhealthy")
    assert item.lost.now == 1


def test_an_uneven_machine_is_no_fault_until_somebody_misses_the_attribute() -> None:
    """One card without a bridge beside four with: usual, unless a claim waits for bridged ones."""
    cards = [
        device(f"gpu-{i}", {"type": "gpu", "uuid": str(i), "nvlinkDomain": f"d{i // 2}"}) for i in range(4)
    ]
    uneven = resource_slice("node-a", [*cards, device("gpu-4", {"type": "gpu", "uuid": "4"})], driver=DRIVER)
    assert only(diagnose(evidence([node(), uneven])), "device-lost-attribute").severity is Severity.INFO
    waiting = claim("c", device_class=DRIVER, count=2)
    waiting["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/nvlinkDomain"}]
    missed = only(diagnose(evidence([node(), uneven, waiting])), "device-lost-attribute")
    assert missed.severity is Severity.WARNING


def test_a_known_issue_is_named_only_for_the_version_that_has_it() -> None:
    mapped = device("fake0", nodeAllocatableResources={"cpu": {}})
    name = "deviceclass.resource.kubernetes.io/fake.example.com"
    objects = [
        device_class("fake.example.com"), resource_slice("node-a", [mapped], driver="fake.example.com"),
        pod("p", limits={name: 1}, phase="Pending"),
    ]  # fmt: skip
    for version, expected in (("v1.37.0-rc.0", ["known-issue"]), ("", ["known-issue"]), ("v1.37.1", [])):
        assert codes(diagnose(evidence(objects, server_version=version), ["dra"])) == expected


def test_pods_that_are_not_in_the_dump_are_not_called_gone() -> None:
    """A dump of one namespace says nothing about another."""
    objects = [
        node(),
        islands(),
        pod("other", namespace="elsewhere", node="node-a"),
        claim("c", ["gpu-0"], driver=DRIVER, pods=["unseen"]),
    ]
    assert codes(diagnose(evidence(objects), ["dra"])) == []
    assert codes(diagnose(evidence(objects, taken_at=NOW), ["dra"])) == ["claim-reserved-for-gone-pod"]


def test_a_claim_shared_by_living_pods_is_fine_when_one_of_them_is_gone() -> None:
    objects = [node(), islands(), pod("alive", node="node-a", claims=["c"])]
    both = claim("c", ["gpu-0"], driver=DRIVER, pods=["alive", "dead"])
    assert codes(diagnose(evidence([*objects, both]), ["dra"])) == []


def test_admin_access_is_no_second_holder() -> None:
    first, second = (
        claim("a", ["gpu-0"], driver=DRIVER, pods=["p"]),
        claim("b", ["gpu-0"], driver=DRIVER, pods=["p"]),
    )
    second["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    objects = [node(), islands(), pod("p", node="node-a", claims=["a", "b"])]
    assert codes(diagnose(evidence([*objects, first, second]), ["dra"])) == []


def test_a_fresh_allocation_may_be_unreserved_for_a_moment() -> None:
    fresh = claim("c", ["gpu-0"], driver=DRIVER, allocated_at="2026-01-02T11:59:30Z")
    old = claim("c", ["gpu-0"], driver=DRIVER, allocated_at="2026-01-02T02:00:00Z")
    objects = [node(), islands(), pod("other", node="node-a")]
    assert codes(diagnose(evidence([*objects, fresh], taken_at=NOW), ["dra"])) == []
    item = only(diagnose(evidence([*objects, old], taken_at=NOW), ["dra"]), "claim-allocated-unreserved")
    assert item.lost.gpu_hours == 10


def test_a_kubelet_message_with_two_causes_is_decided_by_other_evidence() -> None:
    """Not reserved then, reserved now: the message is of before."""
    message = "Failed to prepare dynamic resources: pod p(x) is not allowed to use resource claim c"
    objects = [node(), islands(), pod("p", node="node-a", claims=["c"]), event(message, pod="p")]
    reserved = claim("c", ["gpu-0"], driver=DRIVER, pods=["p"])
    other = claim("c", ["gpu-0"], driver=DRIVER, pods=["q"])
    assert codes(diagnose(evidence([*objects, reserved]), ["dra"])) == []
    assert "claim-not-reserved-for-pod" in codes(diagnose(evidence([*objects, other]), ["dra"]))


def test_a_missing_gate_is_no_cause_from_134_on() -> None:
    log = "no handler registered for plugin type: DRAPlugin at socket /x NVRM\n"
    old = evidence([node(kubelet="v1.33.0")], {"node-a/kubelet.log": log})
    new = evidence([node(kubelet="v1.34.0")], {"node-a/kubelet.log": log})
    assert codes(diagnose(old)) == ["kubelet-feature-gate"]
    assert codes(diagnose(new)) == []


@pytest.mark.parametrize(
    ("kubelet", "code"),
    [
        ("v1.37.0", []),
        ("v1.34.9", []),
        ("v1.33.0", ["kubelet-version-skew"]),
        ("v1.38.0", ["kubelet-version-skew"]),
    ],
)
def test_kubelets_may_be_three_minors_older_and_never_newer(kubelet: str, code: list[str]) -> None:
    found = diagnose(evidence([node(kubelet=kubelet)], server_version="v1.37.1"))
    assert codes(found) == code


def test_mig_devices_are_not_compared_with_whole_gpus() -> None:
    mixed = [
        device("gpu-0", {"type": "gpu", "uuid": "a", "minor": 0}),
        device("gpu-1", {"type": "gpu", "uuid": "b", "minor": 1}),
        *(device(f"mig-{i}", {"type": "mig", "profile": "1g.5gb"}) for i in range(3)),
    ]
    assert codes(diagnose(evidence([node(), resource_slice("node-a", mixed, driver=DRIVER)]))) == []


# --- together ---------------------------------------------------------------------------------------------


def test_every_code_that_a_check_uses_stands_in_the_table_and_the_names_are_those_of_the_command() -> None:
    from baro.cli.diagnose import CHECK_NAMES

    assert tuple(item.name for item in CHECKS) == CHECK_NAMES
    assert all(row.title and row.explanation and row.remedy for row in table().values())


def test_a_check_without_its_sources_does_not_judge_and_says_so() -> None:
    found = evidence([node(), islands(), *holding("tp4", [0, 1, 4, 5])])
    blind = _without(found, Missing("resourceclaims", "no right", "kubectl auth can-i list resourceclaims"))
    judged = diagnose(blind)
    assert {item.check for item in judged.skipped} == {"split", "stranded"}
    assert "resourceclaims: no right" in judged.skipped[0].why
    assert set(judged.ran) == {"counted", "ready", "dra"}


def _without(found: Evidence, missing: Missing) -> Evidence:
    import msgspec

    return msgspec.structs.replace(found, missing=(missing,))


def test_an_unknown_check_is_an_error() -> None:
    with pytest.raises(KeyError):
        diagnose(evidence([node()]), ["nonsense"])


@given(st.text(alphabet="abc./-", max_size=30))
def test_only_extended_resources_that_mean_gpus_count(name: str) -> None:
    for resource in (name, f"{name}/gpu", f"nvidia.com/{name}"):
        if whole_gpu_resource(resource):
            assert resource.endswith(("/gpu", "/pgpu"))
        if is_gpu_resource(resource):
            assert "/" in resource


def test_clean_dumps_of_real_clusters_give_nothing_above_info() -> None:
    from baro.diagnosis.files import read_files

    for name in (
        "list__kubernetes-sigs_dra-example-driver__README-14.yaml",
        "resourceslice__kubernetes-sigs_dranet__examples-azure-aks-examples-mi300x-resourceslice-dranet.yaml",
        "resourceslice__ROCm_k8s-gpu-dra-driver__docs-demo-5.yaml",
        "resourceslice__intel_intel-resource-drivers-for-kubernetes__doc-gpu-USAGE-6.yaml",
    ):
        found = diagnose(read_files([shared.path(f"data/dra-yaml/{name}")]))
        assert found.board.snapshot.slices, name
        assert [item for item in found.problems if item.severity is not Severity.INFO] == [], name


def test_a_class_that_exists_under_another_name_is_offered() -> None:
    objects = [
        device_class("gpu.nvidia.com"),
        device_class("mig.nvidia.com"),
        claim("c", device_class="nvidia.com"),
    ]
    item = only(diagnose(evidence(objects)), "device-class-not-found")
    assert any("nearest" in line for line in item.evidence)
