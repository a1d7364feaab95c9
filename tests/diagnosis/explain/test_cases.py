"""Public reports of pods that stay pending: the explanation gives the cause that each case expects.

The table says which cases ``baro explain`` answers. Inputs that are Kubernetes text are taken from the case;
sketches are built as the case describes them, and the figures compared are the case's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import yaml

from baro.diagnosis.explain import Explanation, Step, Verdict
from baro.diagnosis.explain.result import Stage
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import (
    Device,
    DeviceClass,
    DeviceRequest,
    DeviceTaint,
    ResourceClaim,
)
from tests.support import shared
from tests.support.cluster import (
    attribute,
    claim,
    cluster,
    device,
    device_class,
    gpus,
    holding,
    node_slice,
    request,
)
from tests.support.explain import evidence, node, pod, pod_explained, selector, text
from tests.support.explain_counters import partitions

Expect = dict[str, Any]
Files = dict[str, str]
TWO_FOURS = {"a": range(4), "b": range(4, 8)}


def _said(*parts: Any) -> Explanation:
    return pod_explained(evidence(*parts))


def _codes(said: Explanation) -> list[str]:
    return [cause.code for cause in said.causes]


def _stage(said: Explanation, step: Step) -> Stage:
    return next(
        stage for funnel in said.groups[0].answer.funnels for stage in funnel.stages if stage.step is step
    )


def _026(files: Files, expect: Expect) -> None:
    slices = []
    for body in yaml.safe_load(files["slices.yaml"]):
        found = node_slice(
            body["pool"]["name"],
            [device(name, type="gpu") for name in body["devices"]],
            name=body["name"],
            generation=body["pool"]["generation"],
        )
        slices.append(found)
    one = _said(node("n1"), device_class(), *slices, claim(request()), pod("p", "c"))
    assert one.verdict is Verdict.FITS
    assert list(one.groups[0].answer.devices) == expect["claim_count_1"] == expect["usable_devices"]
    two = _said(node("n1"), device_class(), *slices, claim(request(count=2)), pod("p", "c"))
    assert (two.verdict, expect["claim_count_2"]) == (Verdict.PENDING, "unsatisfiable")
    assert _stage(two, Step.PUBLISHED).after == len(expect["usable_devices"])
    assert any(f"slice {expect['stale_slices'][0]} is of an older generation" in note for note in two.notes)


def _028(files: Files, expect: Expect) -> None:
    slices = [
        node_slice(
            "n1",
            [device(f"gpu-{number}", type="gpu")],
            name=body["name"],
            generation=body["pool"]["generation"],
            count=body["pool"]["resourceSliceCount"],
        )
        for number, body in enumerate(yaml.safe_load(files["slices.yaml"]))
    ]
    said = _said(node("n1"), device_class(), *slices, claim(request(count=9)), pod("p", "c"))
    assert any(expect["reason"].split()[1] in note and "inconsistent" in note for note in said.notes)


def _032(files: Files, expect: Expect) -> None:
    body = yaml.safe_load(files["slice.yaml"])["spec"]
    empty = node_slice(body["nodeName"], [], driver=body["driver"])
    wants_all = claim(
        DeviceRequest(
            name="gpu",
            exactly=msgspec.convert(
                {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"},
                type(request().exactly),
            ),
        )
    )
    for wanted in (claim(request()), wants_all):
        said = _said(node("n1"), device_class(), empty, wanted, pod("p", "c"))
        assert said.causes[0].code == expect["cause"]
        assert "0 devices are published" in said.headline


def _034(files: Files, expect: Expect) -> None:
    hard = expect["allocate_hard"]
    busy = [f"gpu-{n}" for n in range(8) if n not in hard["free"]]
    known = cluster({"node-a": gpus(TWO_FOURS)}, busy={"node-a": busy})
    wanted = claim(request(count=hard["count"]), match="gpu.nvidia.com/nvlinkDomain")
    said = _said(known, node("node-a"), wanted, pod("p", "c"))
    assert said.causes[0].code == "pending-constraint"
    assert f"largest group has {hard['largest_group']}" in said.headline
    assert "5 usable" in said.headline


def _035(files: Files, expect: Expect) -> None:
    of = dict(re.findall(r"^(gpu-\d): (\w)$", files["devices.yaml"], re.MULTILINE))
    devices = [device(name, nvlinkDomain=of[name], type="gpu") for name in sorted(of)]
    wanted = msgspec.convert(yaml.safe_load(files["claim.yaml"]), ResourceClaim)
    four = msgspec.json.decode(msgspec.json.encode(wanted.spec))
    four["devices"]["requests"][0]["exactly"]["count"] = 4
    spec = msgspec.convert(four, type(wanted.spec))
    known = (cluster({"a": devices}), node("a"))
    pair = _said(*known, wanted, pod("p", "pair"))
    assert list(pair.groups[0].answer.devices) == expect["with_constraint"]
    said = _said(*known, msgspec.structs.replace(wanted, spec=spec), pod("p", "pair"))
    assert said.causes[0].code == "pending-constraint"
    assert said.groups[0].answer.scheduler == (expect["scheduler_message"],)


def _038(files: Files, expect: Expect) -> None:
    wanted = msgspec.convert(yaml.safe_load(files["claim.yaml"]), ResourceClaim)
    names = [word for word in files["published-attributes.txt"].split() if re.fullmatch(r"\w+", word)]
    devices = [device("gpu-0", **dict.fromkeys(names, "x"))]
    said = _said(cluster({"a": devices}), node("a"), wanted, pod("p", "c"))
    assert (said.causes[0].code, expect["allocate_count_1"]) == (expect["lint"]["code"], "unsatisfiable")


def _039(files: Files, expect: Expect) -> None:
    both = claim(
        request("gpu"), request("nic", class_name="dra.net"), match="resource.kubernetes.io/numaNode"
    )
    gpu = node_slice("a", [device("gpu-0", type="gpu", numaNode=0)])
    nic = msgspec.structs.replace(
        device("eth1"), attributes={"resource.kubernetes.io/numaNode": attribute("0")}
    )
    said = _said(
        node("a"), device_class(), device_class("dra.net"), gpu, node_slice("a", [nic], driver="dra.net"),
        both, pod("p", "c"),
    )  # fmt: skip
    assert expect["mixed_types_reason"] in text(said)
    assert (said.step, said.causes[0].code) == (Step.CONSTRAINT, "pending-constraint")


def _040(files: Files, expect: Expect) -> None:
    both = claim(
        request("gpu", class_name="gpu.intel.com"), request("nic", class_name="dra.net"),
        match="resource.kubernetes.io/pcieRoot",
    )  # fmt: skip
    gpu = node_slice("a", [device("gpu-0", pciRoot="pci0000:15")], driver="gpu.intel.com")
    nic = node_slice("a", [device("eth1", pcieRoot="pci0000:15")], driver="dra.net")
    said = _said(
        node("a"), device_class("gpu.intel.com"), device_class("dra.net"), gpu, nic, both, pod("p", "c")
    )
    assert said.verdict is Verdict.PENDING
    assert expect["hint_contains"] in text(said)


def _046(files: Files, expect: Expect) -> None:
    item = msgspec.convert(yaml.safe_load(files["class.yaml"]), DeviceClass)
    published = yaml.safe_load(files["slices.yaml"])
    slices = {name: [device("gpu-0", **devices["gpu-0"])] for name, devices in published.items()}
    said = _said(cluster(slices, classes=[item]), node("good"), node("kwok"), claim(request()), pod("p", "c"))
    answers = {name: group.answer for group in said.groups for name in group.nodes}
    assert list(answers["good"].devices) == expect["good"]
    head, _, tail = expect["kwok_error_contains"].partition(": CEL")
    assert answers["kwok"].error is not None
    assert answers["kwok"].error.startswith(head) and tail in answers["kwok"].error
    assert (said.verdict, said.causes[0].code) == (Verdict.ERROR, "pending-selector-error")
    assert "pool kwok" in said.headline and "type" in said.headline
    assert "it would fit on node good" in text(said)


def _048(files: Files, expect: Expect) -> None:
    body = yaml.safe_load(files["claim.yaml"])
    requests = tuple(msgspec.convert(item, DeviceRequest) for item in body["requests"])
    devices = [
        device(name, type="gpu", **values) for name, values in yaml.safe_load(files["devices.yaml"]).items()
    ]
    said = _said(cluster({"a": devices}), node("a"), claim(*requests), pod("p", "c"))
    assert said.verdict is Verdict.FITS
    ((name, chosen),) = expect["result"].items()
    assert list(said.groups[0].answer.devices) == chosen
    assert name in [funnel.request for funnel in said.groups[0].answer.funnels]


def _050(files: Files, expect: Expect) -> None:
    body = yaml.safe_load(files["h100.yaml"])
    h100 = msgspec.convert({"name": "gpu-0", **{k: v for k, v in body.items() if k != "driver"}}, Device)
    known = (cluster({"a": [h100]}), node("a"))
    wanted = claim(request(selectors=selector(files["expr.txt"].strip())))
    said = _said(*known, wanted, pod("p", "c"))
    assert expect["h100 (81559Mi)"] == "no-match"
    assert (said.causes[0].code, said.step) == ("pending-no-match", Step.SELECTOR)
    assert "81559Mi" in text(said)
    assert any("quantity('81559Mi')" in miss.text for miss in said.misses)
    fits = _said(
        *known,
        claim(request(selectors=selector(files["expr.txt"].replace("80Gi", "80G").strip()))),
        pod("p", "c"),
    )
    assert (fits.verdict, expect["with_80G"]) == (Verdict.FITS, "match")


def _054(files: Files, expect: Expect) -> None:
    lines = dict(re.findall(r"^(\w): (.*)$", files["expressions.txt"], re.MULTILINE))
    body = yaml.safe_load(files["h100.yaml"])
    h100 = msgspec.convert({"name": "gpu-0", **{k: v for k, v in body.items() if k != "driver"}}, Device)
    said = {
        letter: _said(
            cluster({"a": [h100]}), node("a"), claim(request(selectors=selector(line))), pod("p", "c")
        )
        for letter, line in lines.items()
    }
    assert (said["A"].verdict, expect["A"]["result"]) == (Verdict.PENDING, "no-match")
    assert any("numaNode == 0`" in miss.text for miss in said["A"].misses)
    assert (said["B"].verdict, expect["B"]) == (Verdict.FITS, "match")
    for letter in "CDEF":
        kind, _, words = expect[letter].partition(": ")
        answer = said[letter].groups[0].answer
        assert answer.error is not None and f"CEL {kind} error" in answer.error
        # What is stored is compiled with attributes of any type, hence `dyn`.
        assert words.replace("string, any", "string, dyn") in answer.error
        assert said[letter].verdict is Verdict.ERROR
    assert any("resource.kubernetes.io" in miss.text for miss in said["C"].misses)


def _061(files: Files, expect: Expect) -> None:
    item = msgspec.convert(yaml.safe_load(files["pod.yaml"]), Pod)
    said = pod_explained(evidence(node("a"), item), item.metadata.name)
    assert expect["lint"]["code"] == "pod-claim-source-removed"
    assert said.causes[0].code == "pending-claim-entry-empty"
    assert "`source` was removed" in said.causes[0].evidence[0]


def _072(files: Files, expect: Expect) -> None:
    name = re.search(r"Node:\s+(\S+?)/", files["describe.txt"])
    assert name is not None
    held = holding(name[1], "gpu-0", name="c")
    said = _said(
        cluster({name[1]: gpus({"a": range(1)})}), node(name[1]), held, pod("p", "c", node_name=name[1])
    )
    assert said.causes[0].code == f"{expect['cause']}"
    assert expect["check"] in said.causes[0].evidence[0]


def _073(files: Files, expect: Expect) -> None:
    free = expect["free"]
    nics = [
        device(f"pci-{n}", rdma=n < free["dra.net"], ifName=f"rdma{n}") for n in range(free["dra.net"] + 1)
    ]
    rdma = selector("device.attributes['dra.net'].rdma == true")
    wanted = claim(request("gpu", count=8), request("nic", count=8, class_name="dra.net", selectors=rdma))
    said = _said(
        cluster({"a": gpus({"a": range(free["gpu.nvidia.com"])})}), device_class("dra.net"), node("a"),
        node_slice("a", nics, driver="dra.net"), wanted, pod("p", "c"),
    )  # fmt: skip
    assert said.causes[0].code == "pending-no-match"
    assert "request nic" in said.headline
    assert f"leaves {free['dra.net']} of 8" in said.headline


def _074(files: Files, expect: Expect) -> None:
    body = yaml.safe_load(files["cluster.yaml"])
    assert (body["gpu_nodes"], body["resource_slices"]) == (0, 0)
    said = _said(node("cpu-1"), device_class(), claim(request()), pod("p", "c"))
    assert said.causes[0].code == expect["cause"]


def _075(files: Files, expect: Expect) -> None:
    requests = tuple(
        msgspec.convert(item, DeviceRequest) for item in yaml.safe_load(files["claim.yaml"])["requests"]
    )
    classes = [device_class(name) for name in files["classes.txt"].split()]
    said = _said(*classes, node("a"), claim(*requests), pod("p", "c"))
    assert said.causes[0].code == expect["cause"]
    evidence_text = " ".join(said.causes[0].evidence)
    assert expect["message_contains"] in evidence_text
    assert all(name in evidence_text for name in expect["existing"])


def _045(files: Files, expect: Expect) -> None:
    """The device is gone from the slices and its claim still holds it: what it draws stays taken."""

    known = partitions({"mig-b": 4, "mig-c": 4, "mig-d": 4}, total=8)
    held = holding("a", "mig-a", name="held")
    one = _said(*known, held, claim(request()), pod("p", "c"))
    assert (one.verdict, expect["allocate_mig_c"]) == (Verdict.FITS, "ok")
    two = _said(*known, held, claim(request(count=2)), pod("p", "c"))
    assert any(expect["warning_contains"].split()[-2] in note for note in two.notes)


def _033(files: Files, expect: Expect) -> None:
    devices = []
    for body in yaml.safe_load(files["slice-part.yaml"])["devices"]:
        taints = tuple(msgspec.convert(taint, DeviceTaint) for taint in body["taints"])
        devices.append(msgspec.structs.replace(device(body["name"], type="gpu"), taints=taints))
    said = _said(cluster({"a": devices}), node("a"), claim(request(count=3)), pod("p", "c"))
    stage = _stage(said, Step.TAINT)
    assert stage.after == len(expect["allocatable"])
    assert list(stage.lost) == list(expect["not_allocatable"])
    assert (said.causes[0].code, said.step) == ("pending-tainted", Step.TAINT)


def _counted(allocatable: object, capacity: object, *users: object) -> Explanation:
    has = {"nvidia.com/gpu": str(allocatable)}
    running = [
        pod(f"w{n}", requests={"nvidia.com/gpu": str(count)}, node_name="a", phase="Running")
        for n, count in enumerate(users)
    ]
    return _said(
        node("a", allocatable=has, capacity={"nvidia.com/gpu": str(capacity)}),
        *running,
        pod("p", requests={"nvidia.com/gpu": "1"}),
    )


def _136(files: Files, expect: Expect) -> None:
    body = yaml.safe_load(files["node.yaml"])
    said = _counted(body["allocatable"]["nvidia.com/gpu"], body["capacity"]["nvidia.com/gpu"])
    assert f"all {expect['unhealthy']} are unhealthy" in said.headline
    assert _codes(said) == ["pending-extended-resource"]


def _137(files: Files, expect: Expect) -> None:
    allocatable, capacity = (body["nvidia.com/gpu"] for body in yaml.safe_load(files["node.txt"]).values())
    said = _counted(allocatable, capacity)
    assert "0 of 0: its device plugin is gone or lost its connection" in said.headline
    assert expect["not"] not in said.headline


def _138(files: Files, expect: Expect) -> None:
    body = yaml.safe_load(files["node.txt"])
    said = _counted(body["Allocatable"]["nvidia.com/gpu"], body["Capacity"]["nvidia.com/gpu"], 2)
    assert f"{expect['count']} more unhealthy" in said.headline


def _145(files: Files, expect: Expect) -> None:
    said = _counted(expect["total"], expect["healthy"], 1)
    assert f"{expect['free']} of {expect['total']} free" in said.headline
    assert "unhealthy" not in said.headline


def _147(files: Files, expect: Expect) -> None:
    body = yaml.safe_load(files["node.yaml"])
    said = _counted(body["allocatable"], body["capacity"], body["requested_by_pods"])
    assert f"{expect['free']} of {body['allocatable']} free" in said.headline
    assert f"pods ask for {expect['pods_on_unhealthy_gpu']} more than are healthy" in said.headline


def _133(files: Files, expect: Expect) -> None:
    wanted = yaml.safe_load(files["pod.yaml"])["resources"]["limits"]
    free = expect["mixed"]["nvidia.com/gpu"]
    said = _said(
        node("a", allocatable={"nvidia.com/gpu": str(free), "nvidia.com/mig-1g.10gb": "14"}),
        pod("p", requests={name: str(count) for name, count in wanted.items()}),
    )
    assert (said.verdict is Verdict.FITS) is expect["mixed"]["pod_fits"]


CASES: dict[str, Callable[[Files, Expect], None]] = {
    "026": _026, "028": _028, "032": _032, "033": _033, "034": _034, "035": _035, "038": _038, "039": _039,
    "040": _040, "045": _045, "046": _046, "048": _048, "050": _050, "054": _054, "061": _061, "072": _072,
    "073": _073, "074": _074, "075": _075, "133": _133, "136": _136, "137": _137, "138": _138, "145": _145,
    "147": _147,
}  # fmt: skip


@pytest.mark.parametrize("number", CASES)
def test_the_case_gets_the_cause_that_it_expects(number: str) -> None:
    CASES[number](*shared.case(number))
