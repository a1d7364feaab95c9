"""Public cases of capability diagnose, device-plugin, cdi and migrate: each gives its cause, nothing false.

A case shows pieces of objects and texts. ``build`` puts them where a user would have them: in a Node, a Pod,
an Event, a log. What a case expects is compared with the problem's code and with the figures it carries.
Cases that ``baro lint`` or ``baro explain`` answer are marked so and tested there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
import yaml

from baro.diagnosis.checks import Diagnosis, Problem, diagnose
from baro.diagnosis.evidence import Evidence
from baro.model.findings import Severity
from tests.support import shared
from tests.support.diagnosis import (
    claim,
    counts,
    device,
    device_class,
    event,
    evidence,
    gpus,
    node,
    pod,
    resource_slice,
)

Files = dict[str, str]
PLUGIN_MOUNT = "/var/lib/kubelet/device-plugins"


class Case(msgspec.Struct, frozen=True):
    """``codes`` are all problems above info that the case may give, the first is its cause.

    ``same`` names keys of ``expect`` that must stand in the problem's facts; ``renamed`` maps a key of
    ``expect`` to a fact of another name. ``node`` says that the problem's node is compared.
    """

    build: Callable[[Files], Evidence]
    codes: tuple[str, ...]
    same: tuple[str, ...] = ()
    renamed: Mapping[str, str] = {}
    node: bool = False


def _064(files: Files) -> Evidence:
    name = files["event.txt"].split("assigned ")[1].split()[0]
    namespace, pod_name = name.split("/")
    row = files["resourceslices.txt"].splitlines()[1].split()
    return evidence(
        [
            node("node-c"),
            resource_slice(row[1], [device("gpu-0")], driver=row[2], name=row[0]),
            claim("w", ["gpu-0"], namespace=namespace, node=row[3], driver=row[2], pods=[pod_name]),
            pod(pod_name, namespace=namespace, node="node-c", claims=["w"], phase="Pending"),
        ]
    )


def _068(files: Files) -> Evidence:
    bodies = yaml.safe_load(files["pods.yaml"])
    pods = [pod(name, node="node-a", claims=bodies[name]["claims"]) for name in bodies["order"]]
    claims = [
        claim(name, [f"d{name.lower()}"], pods=[p for p in bodies["order"] if name in bodies[p]["claims"]])
        for name in ("A", "B")
    ]
    return evidence([*pods, *claims, event(files["event.txt"], pod="p2")])


def _069(files: Files) -> Evidence:
    return evidence(
        [
            node("node-a"),
            pod("Y", node="node-a", claims=["X"], phase="Pending"),
            claim("X", ["gpu-0"], pods=["Y"]),
            event(files["event.txt"], pod="Y"),
        ]
    )


def _072(files: Files) -> Evidence:
    return evidence(
        [
            node("node-a"),
            pod("pod1", node="node-a", claims=["dummy-interface-static-ip"], phase="Pending"),
            claim("dummy-interface-static-ip"),
            event(files["describe.txt"].splitlines()[-1], pod="pod1"),
        ]
    )


def _073(files: Files) -> Evidence:
    part = yaml.safe_load(files["slice-part.yaml"])
    good = [device(f"pci-{i}", {"dra.net/ifName": f"rdma{i}", "dra.net/rdma": True}) for i in range(6)]
    return evidence(
        [
            resource_slice("node-a", [*part["devices"], *good], driver=part["driver"]),
            resource_slice("node-a", gpus(8)),
        ]
    )


def _074(files: Files) -> Evidence:
    wanted = yaml.safe_load(files["cluster.yaml"])["claim"]
    return evidence(
        [
            node("cpu-0"),
            pod("p", namespace="ns", claims=["c"], phase="Pending"),
            claim("c", namespace="ns", device_class=wanted["deviceClassName"], count=wanted["count"]),
            device_class(),
        ],
        {"autoscaler.log": "I0101 10:00:00 provisioner.go:1] " + files["log.txt"].replace("\n", " ")},
    )


def _075(files: Files) -> Evidence:
    requests = yaml.safe_load(files["claim.yaml"])["requests"]
    body = claim("c", device_class=requests[0]["exactly"]["deviceClassName"])
    return evidence([body, *(device_class(name) for name in files["classes.txt"].split())])


def _110(files: Files) -> Evidence:
    body = yaml.safe_load(files["node.yaml"])
    plugin = [
        pod(f"plugin-{i}", node=body["name"], limits={"nvidia.com/gpu": 1})
        for i in range(body["pods"]["device_plugin"])
    ]
    dra = range(body["pods"]["dra"])
    return evidence(
        [
            node(body["name"], capacity=body["allocatable"]),
            resource_slice(body["name"], gpus(body["resourceslices"]["gpu.nvidia.com"])),
            *plugin,
            *(pod(f"dra-{i}", node=body["name"], claims=[f"c{i}"]) for i in dra),
            *(claim(f"c{i}", [f"gpu-{i}"], pods=[f"dra-{i}"]) for i in dra),
        ]
    )


def _111(files: Files) -> Evidence:
    state = yaml.safe_load(files["state.yaml"])
    (held, holder), *_ = state["plugin_pods"].items()
    dump = {
        "podResources": [
            {
                "name": holder,
                "namespace": "default",
                "containers": [
                    {
                        "name": "main",
                        "devices": [{"resourceName": "nvidia.com/gpu", "deviceIds": ["GPU-00000000"]}],
                    }
                ],
            }
        ]
    }
    assert held == "gpu-0"
    return evidence(
        [
            node("node-a"),
            resource_slice("node-a", gpus(2)),
            pod(holder, node="node-a", limits={"nvidia.com/gpu": 1}),
            pod("new", node="node-a", claims=["c"]),
            claim("c", [state["claim_result"]], pods=["new"]),
        ],
        {"node-a.pod-resources.json": msgspec.json.encode(dump).decode()},
    )


def _113(files: Files) -> Evidence:
    classes = yaml.safe_load(files["classes.yaml"])
    return evidence(
        [
            *(
                device_class(item["name"], extendedResourceName=item["extendedResourceName"])
                for item in classes
            ),
            node("node-a", capacity=yaml.safe_load(files["node.yaml"])["allocatable"]),
        ]
    )


def _114(files: Files) -> Evidence:
    capacity, _ = counts(files["node.txt"])
    config = yaml.safe_load(files["plugin-config.yaml"])["sharing"]["timeSlicing"]["resources"][0]
    return evidence(
        [
            node("node-a", capacity=capacity, labels={"nvidia.com/gpu.replicas": str(config["replicas"])}),
            *(
                pod(item["name"], node="node-a", limits=item["limits"])
                for item in yaml.safe_load(files["pods.yaml"])
            ),
        ]
    )


def _116(files: Files) -> Evidence:
    plan = yaml.safe_load(files["plan.yaml"])
    kinds = {
        "resourceclaims": "ResourceClaim",
        "resourceclaimtemplates": "ResourceClaimTemplate",
        "deviceclasses": "DeviceClass",
        "resourceslices": "ResourceSlice",
    }
    return evidence(
        [
            {"apiVersion": plan["stored_as"], "kind": kinds[plural], "metadata": {"name": f"{plural}-{i}"}}
            for plural, number in plan["objects"].items()
            for i in range(number)
        ]
    )


def _117(files: Files) -> Evidence:
    return evidence([yaml.safe_load(files["template.yaml"])])


def _119(files: Files) -> Evidence:
    body = yaml.safe_load(files["objects.yaml"])
    return evidence(
        [
            device_class(body["class"]["name"]),
            resource_slice("node-a", body["slice"]["devices"], driver="fake.example.com"),
            pod("p", limits=body["pod"]["limits"], phase="Pending"),
        ]
    )


def _136(files: Files) -> Evidence:
    body = yaml.safe_load(files["node.yaml"])
    return evidence([node("node-a", capacity=body["capacity"], allocatable=body["allocatable"])])


def _plugin_pod(name: str) -> dict[str, Any]:
    return pod(
        name,
        namespace="kube-system",
        node="node-a",
        owner=("DaemonSet", "nvidia-device-plugin"),
        mounts=[PLUGIN_MOUNT],
        image="nvidia/k8s-device-plugin",
    )


def _137(files: Files) -> Evidence:
    capacity, allocatable = counts(files["node.txt"])
    name = files["pods.txt"].split()[0]
    return evidence(
        [node("node-a", capacity=capacity, allocatable=allocatable), _plugin_pod(name)],
        {"node-a.plugin.log": files["plugin.log"]},
    )


def _node_txt(files: Files, *objects: dict[str, Any], **captures: str) -> Evidence:
    capacity, allocatable = counts(files["node.txt"])
    return evidence([node("node-a", capacity=capacity, allocatable=allocatable), *objects], captures)


def _140(files: Files) -> Evidence:
    messages = (files["old-event.txt"].strip(), " ".join(files["event.txt"].split()))
    return _node_txt(
        files,
        *(event(text, pod=f"p{i}", reason="UnexpectedAdmissionError") for i, text in enumerate(messages)),
    )


def _142(files: Files) -> Evidence:
    return evidence(
        [node("node-a", capacity={"nvidia.com/gpu": 1}, allocatable={"nvidia.com/gpu": 0})],
        {"node-a.plugin.log": files["plugin.log"]},
    )


def _143(files: Files) -> Evidence:
    return evidence(
        [node("node-a", capacity={"nvidia.com/gpu": 1}, allocatable={"nvidia.com/gpu": 0})],
        {"node-a.plugin.log": files["plugin.log"]},
    )


def _144(files: Files) -> Evidence:
    return _node_txt(files, **{"node-a/steps.log": files["steps.txt"]})


def _145(files: Files) -> Evidence:
    _, allocatable = counts(files["node.txt"])
    return evidence(
        [
            node("node-a", capacity=allocatable, allocatable=allocatable),
            pod("user", node="node-a", limits={"nvidia.com/gpu": 1}),
        ]
    )


def _147(files: Files) -> Evidence:
    body = yaml.safe_load(files["node.yaml"])
    return evidence(
        [
            node(
                "node-a",
                capacity={"nvidia.com/gpu": body["capacity"]},
                allocatable={"nvidia.com/gpu": body["allocatable"]},
            ),
            *(
                pod(f"p{i}", node="node-a", limits={"nvidia.com/gpu": 1})
                for i in range(body["requested_by_pods"])
            ),
        ]
    )


def _cdi(*names: str) -> Callable[[Files], Evidence]:
    """The files of a CDI case as captures of one node; fragments of specs get the head that specs have."""

    def build(files: Files) -> Evidence:
        captures = {}
        for name in names:
            text = files[name]
            if name.startswith("spec"):
                body = yaml.safe_load(text)
                head = {"cdiVersion": "0.6.0", "kind": "k8s.gpu.nvidia.com/claim"}
                device = {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}
                captures[f"node-a/{name}"] = yaml.safe_dump({**head, "devices": [device], **body})
            else:
                captures[f"node-a/{name}"] = text
        return evidence([node("node-a")], captures)

    return build


def _063(files: Files) -> Evidence:
    return evidence([node("node-a")], {"kubelet.log": files["kubelet.log"]})


def _067(files: Files) -> Evidence:
    return evidence(
        [node("node-a")],
        {"node-a/kubelet.log": files["kubelet.log"], "node-a/files.txt": files["files.txt"]},
    )


def _070(files: Files) -> Evidence:
    return evidence([node("node-a", kubelet="v1.33.4")], {"node-a/kubelet.log": files["kubelet.log"]})


CASES: dict[str, Case] = {
    "063": Case(
        _063,
        ("dra-driver-not-registered",),
        same=("cause", "driver", "node", "pod", "secondary_errors_suppressed"),
        node=True,
    ),
    "064": Case(_064, ("slice-without-driver",), same=("cause", "driver", "affected_pods"), node=True),
    "067": Case(_067, ("cdi-spec-lost-on-reboot",), same=("cause", "cdi_device", "fix")),
    "068": Case(_068, ("kubelet-multiple-claims-one-prepared",), same=("cause", "pod", "workaround")),
    "069": Case(_069, ("api-version-skew-kubelet",), same=("cause", "not")),
    "070": Case(_070, ("kubelet-feature-gate",), same=("cause", "applies_to")),
    "072": Case(_072, ("claim-not-reserved-for-pod",), same=("cause", "check")),
    "073": Case(_073, ("device-lost-attribute",), same=("short_driver", "suspect_device")),
    "074": Case(_074, ("autoscaler-no-resourceslice-template",), same=("cause",)),
    "075": Case(_075, ("device-class-not-found",), same=("cause", "existing")),
    "110": Case(_110, ("double-advertised",), same=("physical", "counted", "overcommit")),
    "111": Case(_111, ("device-plugin-allocation-invisible-to-dra",), same=("cause", "device", "holder")),
    "113": Case(_113, ("duplicate-extended-resource-name", "mig-resource-without-class")),
    "114": Case(_114, ("replicas-taken-for-gpus",), same=("physical",)),
    "116": Case(_116, ("classic-dra",)),
    "117": Case(_117, ("classic-dra",), same=("code", "convertible", "skeleton")),
    "119": Case(_119, ("known-issue",), same=("version", "implicit_name")),
    "136": Case(_136, ("all-devices-unhealthy",), same=("cause", "unhealthy", "in_use")),
    "137": Case(_137, ("plugin-endpoint-lost",), same=("cause",)),
    "138": Case(
        _node_txt, ("some-devices-unhealthy",), same=("cause", "which"), renamed={"count": "unhealthy"}
    ),
    "140": Case(
        _140,
        ("lost-gpu-breaks-preferred-allocation",),
        same=("cause", "action", "healthy_gpus_blocked"),
        renamed={"gpu_index_from_old_text": "gpu_index"},
    ),
    "142": Case(_142, ("healthcheck-unsupported",), same=("cause", "allocatable")),
    "143": Case(_143, ("xid-marked-unhealthy",), same=("xid", "recoverable_by_plugin_restart", "recommend")),
    "144": Case(_144, ("plugin-lost-device-access",), same=("cause", "hardware", "fix")),
    "145": Case(_145, ()),
    "147": Case(
        _147, ("pod-on-unhealthy-gpu", "some-devices-unhealthy"), same=("free", "pods_on_unhealthy_gpu")
    ),
    "149": Case(_cdi("spec.yaml"), ("cdi-spec-invalid",), same=("valid_spec", "path")),
    "150": Case(
        _cdi("spec-part.yaml", "driver.txt"),
        ("cdi-spec-stale",),
        same=("cause", "spec_version", "driver_version", "fix"),
    ),
    "152": Case(
        _cdi("spec-part.yaml", "dev.txt"),
        ("cdi-device-nodes-missing",),
        same=("valid_spec", "usable", "missing_nodes", "recovery"),
    ),
    "153": Case(
        _cdi("files.txt", "error.txt"), ("cdi-spec-dir-not-searched",), same=("found_in", "searched", "fix")
    ),
    "154": Case(
        _cdi("error.txt", "offered.txt"), ("cdi-name-unknown",), same=("resolvable", "same_kind_names")
    ),
    "155": Case(_cdi("error.txt"), ("cdi-spec-missing",), same=("devices", "cause")),
}
"""Every case of the four capabilities. 115 is a manifest: lint answers it."""

ELSEWHERE = {"115": "lint"}


def _run(number: str) -> tuple[Diagnosis, dict[str, Any], Case]:
    files, expect = shared.case(number)
    case = CASES[number]
    return diagnose(case.build(files)), expect, case


@pytest.mark.parametrize("number", CASES)
def test_a_case_gives_its_cause_and_the_figures_it_expects(number: str) -> None:
    found, expect, case = _run(number)
    if not case.codes:
        return
    cause = _with_code(found, case.codes[0])
    for key in case.same:
        assert cause.facts[key] == expect[key], key
    for key, fact in case.renamed.items():
        assert cause.facts[fact] == expect[key], key
    if case.node:
        assert cause.node == expect["node"]


@pytest.mark.parametrize("number", CASES)
def test_a_case_gives_no_other_problem_above_info(number: str) -> None:
    found, _, case = _run(number)
    above = {item.code for item in found.problems if item.severity is not Severity.INFO}
    assert above == set(case.codes)


def _with_code(found: Diagnosis, code: str) -> Problem:
    matching = [item for item in found.problems if item.code == code]
    assert matching, f"{code} is not among {[item.code for item in found.problems]}"
    return matching[0]


def test_every_case_of_the_four_capabilities_stands_in_the_table() -> None:
    held = {
        path.name[:3]
        for path in shared.listing("data/cases", "*.md")
        if any(
            f"- capability: {name}" in path.read_text(encoding="utf-8")
            for name in ("diagnose", "device-plugin", "cdi", "migrate")
        )
    }
    if not held:
        pytest.skip("the cases are not here")
    assert held <= set(CASES) | set(ELSEWHERE)


def test_the_mig_case_names_the_classes_to_generate_and_those_that_clash() -> None:
    found, expect, _ = _run("113")
    clash = _with_code(found, "duplicate-extended-resource-name")
    assert [{"code": clash.code, "name": clash.facts["name"], "classes": clash.facts["classes"]}] == expect[
        "errors"
    ]
    missing = _with_code(found, "mig-resource-without-class")
    assert missing.facts["generate"] == expect["generate"]
    assert missing.facts["missing_now"] == expect["missing_now"]


def test_time_slices_are_left_to_a_decision() -> None:
    found, expect, _ = _run("114")
    assert expect["a"]["needs_decision"]
    assert _with_code(found, "replicas-taken-for-gpus").facts["needs_decision"] == ["default/a"]


def test_stored_alpha_objects_are_to_be_deleted_before_the_upgrade() -> None:
    found, expect, _ = _run("116")
    item = _with_code(found, "classic-dra")
    assert item.severity.value == expect["severity"]
    for word in ("delete", "resourceclaims", "resourceslices", "1.32"):
        assert word in item.remedy.lower()
        assert word in expect["action"]


def test_messages_say_what_the_cases_want_to_read() -> None:
    """``message_contains`` of the cases, and the next steps of 063."""
    for number in ("075", "149"):
        found, expect, case = _run(number)
        assert expect["message_contains"] in _with_code(found, case.codes[0]).message
    found, expect, case = _run("063")
    steps = " ".join(_with_code(found, case.codes[0]).next)
    assert "node-a" in steps
    assert expect["next"][1] in steps


def test_the_free_count_of_the_short_driver_case_is_right() -> None:
    """073: 8 of 8 GPUs, 7 of 8 network devices: the message says how many find a claim."""
    found, expect, _ = _run("073")
    item = _with_code(found, "device-lost-attribute")
    assert f"find {expect['free']['dra.net']} of 8 devices" in item.message
