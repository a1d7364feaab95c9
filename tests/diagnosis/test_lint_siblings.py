"""Siblings of what people report: other fields, drivers and spellings of one mistake, and their right twins.

Each row is one claim; what is named is everything above information that lint may say of it, and what the
mended expression or value is.
"""

# ruff: noqa: E501 - tables of manifests, one a line

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from baro.cli import main
from baro.diagnosis.catalogue import of_documents
from baro.diagnosis.lint import Judged, lint_all
from baro.model.findings import Severity
from baro.model.load import load_bytes

GPU = "device.attributes['gpu.nvidia.com']"
MEMORY = "device.capacity['gpu.nvidia.com'].memory"


def request(
    expression: str = "", *, of: str = "gpu.nvidia.com", name: str = "g", **fields: Any
) -> dict[str, Any]:
    if expression:
        fields["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": {"deviceClassName": of, **fields}}


def claim(*requests: dict[str, Any], **devices: Any) -> str:
    spec = {"devices": {"requests": list(requests), **devices}}
    return yaml.safe_dump(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": spec}
    )


def judged(text: str) -> tuple[Judged, ...]:
    documents = load_bytes(text.encode(), "a.yaml")
    return lint_all(documents, of_documents(documents))


def codes(text: str) -> list[str]:
    return [
        finding.code
        for one in judged(text)
        for finding in one.findings
        if finding.severity.rank < Severity.INFO.rank
    ]


SELECTORS = {
    "the node label's spelling": (
        f"{GPU}.productName == 'NVIDIA-H100-80GB-HBM3'",
        ["attribute-value-unknown"],
        f"{GPU}.productName == 'NVIDIA H100 80GB HBM3'",
    ),
    "the node label's spelling in a list": (
        f"{GPU}.productName in ['NVIDIA-L40S', 'NVIDIA H200']",
        ["attribute-value-unknown"],
        f"{GPU}.productName in ['NVIDIA L40S', 'NVIDIA H200']",
    ),
    "another case": (
        f"{GPU}.productName == 'nvidia l40s'",
        ["attribute-value-unknown"],
        f"{GPU}.productName == 'NVIDIA L40S'",
    ),
    "a short name": (
        f"{GPU}.productName == 'H100'",
        ["attribute-value-unknown"],
        f"{GPU}.productName.contains('H100')",
    ),
    "a name without its vendor": (
        f"{GPU}.productName == 'A100-SXM4-80GB'",
        ["attribute-value-unknown"],
        f"{GPU}.productName.contains('A100-SXM4-80GB')",
    ),
    "a beginning without the vendor": (
        f"{GPU}.productName.startsWith('H100')",
        ["attribute-value-unknown"],
        f"{GPU}.productName.contains('H100')",
    ),
    "a part in the label's spelling": (
        f"{GPU}.productName.contains('H100-80GB')",
        ["attribute-value-unknown"],
        f"{GPU}.productName.contains('H100 80GB')",
    ),
    "the profile under another name": (
        f"{GPU}.migProfile == '3g.40gb'",
        ["unknown-attribute"],
        f"{GPU}.profile == '3g.40gb'",
    ),
    "the compute capability under another name, as text": (
        f"{GPU}.computeCapability == '9.0'",
        ["unknown-attribute", "version-compare"],
        f"{GPU}.cudaComputeCapability.compareTo(semver('9.0.0')) == 0",
    ),
    "the architecture under another name": (
        f"{GPU}.arch == 'Hopper'",
        ["unknown-attribute"],
        f"{GPU}.architecture == 'Hopper'",
    ),
    "memory among the attributes": (
        f"{GPU}.memory.isGreaterThan(quantity('30Gi'))",
        ["unknown-attribute"],
        f"{MEMORY}.isGreaterThan(quantity('30Gi'))",
    ),
    "an H200": (
        f"{GPU}.productName.contains('H200') && {MEMORY}.compareTo(quantity('141Gi')) >= 0",
        ["capacity-threshold-unreachable"],
        f"{GPU}.productName.contains('H200') && {MEMORY}.compareTo(quantity('140Gi')) >= 0",
    ),
    "an index where there is none": (f"{GPU}.index == '0'", ["unknown-attribute"], None),
}  # fmt: skip


@pytest.mark.parametrize("name", SELECTORS)
def test_a_sibling_of_a_reported_mistake_is_found_and_mended(name: str) -> None:
    expression, wanted, mended = SELECTORS[name]
    of = "mig.nvidia.com" if "rofile" in expression else "gpu.nvidia.com"
    (one,) = judged(claim(request(expression, of=of)))
    found = [note.finding for note in one.notes if note.finding.severity is not Severity.INFO]
    assert [finding.code for finding in found] == wanted
    assert {finding.replacement for finding in found} == {mended}
    if mended is not None:
        assert codes(claim(request(mended, of=of))) == []


RIGHT_SELECTORS = [
    f"{GPU}.productName == 'NVIDIA H100 80GB HBM3'",
    f"{GPU}.productName == 'Tesla T4'",
    f"{GPU}.productName == 'NVIDIA RTX PRO 6000 Blackwell Server Edition'",
    f"{GPU}.productName == 'Quadro RTX 6000'",
    f"{GPU}.productName in ['NVIDIA A100-SXM4-80GB', 'NVIDIA Something New']",
    f"{GPU}.productName.startsWith('NVIDIA')",
    f"{GPU}.productName.startsWith('NVIDIA H100')",
    f"{GPU}.productName.startsWith('NVIDIA RTX PRO')",
    f"{GPU}.productName.contains('RTX PRO 6000')",
    f"{GPU}.productName.endsWith('HBM3')",
    f"{GPU}.productName.lowerAscii().matches('^.*rtx 3090 ti.*$')",
    f"{GPU}.productName != 'H100'",
    f"{MEMORY}.isGreaterThan(quantity('40Gi'))",
    f"{MEMORY}.compareTo(quantity('40Gi')) > 0",
    "device.capacity['gpu.nvidia.com'].shares.compareTo(quantity('2')) >= 0",
    "device.attributes['gpu.nvidia.com'].uuid == 'GPU-00000000-1111-4222-8333-444444444444'",
    "device.attributes['resource.kubernetes.io']['pciBusID'] == '0008:06:00.0'",
]


@pytest.mark.parametrize("expression", RIGHT_SELECTORS)
def test_a_selector_that_may_match_is_left_alone(expression: str) -> None:
    assert codes(claim(request(expression))) == []


def test_the_module_id_of_the_fabric_manager_has_the_driver_s_spelling() -> None:
    assert codes(claim(request(f"{GPU}.gpuModuleId == 3", of="vfio.gpu.nvidia.com"))) == []


CONSTRAINTS: dict[str, tuple[str, list[str]]] = {
    "one UUID for two": (
        claim(request(count=2), constraints=[{"matchAttribute": "gpu.nvidia.com/uuid"}]),
        ["constraint-never-met"],
    ),
    "one UUID for two requests": (
        claim(request(), request(name="h"), constraints=[{"matchAttribute": "gpu.nvidia.com/uuid"}]),
        ["constraint-never-met"],
    ),
    "one bus address for two GPUs": (
        claim(request(count=2), constraints=[{"matchAttribute": "resource.kubernetes.io/pciBusID"}]),
        ["constraint-never-met"],
    ),
    "different types of whole GPUs": (
        claim(request(count=2), constraints=[{"distinctAttribute": "gpu.nvidia.com/type"}]),
        ["constraint-never-met"],
    ),
    "one UUID for one": (claim(request(), constraints=[{"matchAttribute": "gpu.nvidia.com/uuid"}]), []),
    "one UUID for one of two requests": (
        claim(request(), request(name="h"), constraints=[{"requests": ["g"], "matchAttribute": "gpu.nvidia.com/uuid"}]),
        [],
    ),
    "one UUID for all of a node, which may be one": (
        claim(request(allocationMode="All"), constraints=[{"matchAttribute": "gpu.nvidia.com/uuid"}]),
        [],
    ),
    "one bus address for MIG devices of one GPU": (
        claim(request(of="mig.nvidia.com", count=2), constraints=[{"matchAttribute": "resource.kubernetes.io/pciBusID"}]),
        [],
    ),
    "one parent for MIG devices": (
        claim(request(of="mig.nvidia.com", count=2), constraints=[{"matchAttribute": "gpu.nvidia.com/parentUUID"}]),
        [],
    ),
    "different parents for MIG devices": (
        claim(request(of="mig.nvidia.com", count=2), constraints=[{"distinctAttribute": "gpu.nvidia.com/parentUUID"}]),
        [],
    ),
    "different UUIDs": (
        claim(request(count=2), constraints=[{"distinctAttribute": "gpu.nvidia.com/uuid"}]),
        [],
    ),
    "one NUMA node": (
        claim(request(count=2), constraints=[{"matchAttribute": "resource.kubernetes.io/numaNode"}]),
        [],
    ),
    "one PCIe root for a GPU and a NIC of a class that nobody knows": (
        claim(request(), request(name="nic", of="fast.nic"), constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_constraint_over_several_devices_is_judged_by_what_they_have_in_common(name: str) -> None:
    text, wanted = CONSTRAINTS[name]
    assert codes(text) == wanted


def test_the_smallest_alternative_counts() -> None:
    alternatives = {
        "name": "g",
        "firstAvailable": [
            {"name": "two", "deviceClassName": "gpu.nvidia.com", "count": 2},
            {"name": "one", "deviceClassName": "gpu.nvidia.com"},
        ],
    }
    match = {"matchAttribute": "gpu.nvidia.com/uuid"}
    assert codes(claim(alternatives, constraints=[match])) == []
    assert codes(claim(alternatives, request(name="h"), constraints=[match])) == ["constraint-never-met"]


CAPACITIES: dict[str, tuple[str, list[str]]] = {
    "a name that is none": (claim(request(capacity={"requests": {"gpuMemory": "4Gi"}})), ["unknown-capacity"]),
    "more than any": (claim(request(capacity={"requests": {"memory": "900Gi"}})), ["capacity-threshold-unreachable"]),
    "GB against GiB": (
        claim(request(f"{GPU}.productName.contains('H100 80GB')", capacity={"requests": {"memory": "80Gi"}})),
        ["capacity-threshold-unreachable"],
    ),
    "a part": (claim(request(capacity={"requests": {"memory": "4Gi"}})), []),
    "a share": (claim(request(capacity={"requests": {"shares": 1}})), []),
    "the full name": (claim(request(capacity={"requests": {"gpu.nvidia.com/memory": "40Gi"}})), []),
    "of a class that nobody knows": (
        claim(request(of="cores.example.com", capacity={"requests": {"cores": 10, "memory": "4Gi"}})),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CAPACITIES)
def test_a_capacity_that_is_asked_for_is_one_that_devices_have(name: str) -> None:
    text, wanted = CAPACITIES[name]
    assert codes(text) == wanted


def test_a_capacity_is_mended_in_its_place(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec:\n  devices:\n    requests:\n"
        "    - name: g\n      exactly:\n        deviceClassName: gpu.nvidia.com\n        selectors:\n        - cel:\n"
        f"            expression: \"{GPU}.productName.contains('H100 80GB')\"\n"
        "        capacity: {requests: {memory: 80Gi}}  # the whole card\n"
    )
    file.write_text(text)
    assert main(["lint", "--fix", str(file)]) == 0
    assert file.read_text() == text.replace("80Gi}}  #", "79Gi}}  #")


# --- between documents ------------------------------------------------------------------------------------

TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - {name: c, image: x, resources: {claims: [{name: d}]}}
  resourceClaims:
  - {name: d, resourceClaimTemplateName: channel}
---
"""
DOMAIN = """\
apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata: {name: cd}
spec: {numNodes: 2, channel: {resourceClaimTemplate: {name: channel}}}
---
"""
GROUP = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: l}
spec:
  leaderWorkerTemplate:
    workerTemplate:
      spec:
        containers: [{name: c, image: x, resources: {claims: [{name: g}]}}]
        resourceClaims: [{name: g, resourceClaimTemplateName: one-gpu}]
"""


def all_codes(text: str) -> list[str]:
    return [finding.code for one in judged(text) for finding in one.findings]


def test_templates_that_other_objects_make_or_use_are_neither_missing_nor_unused() -> None:
    assert all_codes(TEMPLATE + POD) == ["claim-unused", "claim-not-in-files"]
    assert all_codes(TEMPLATE + POD + DOMAIN + GROUP) == []


# --- files that are no manifests --------------------------------------------------------------------------


def test_a_template_with_quoted_braces_is_one_finding() -> None:
    text = claim(request("device.driver == '{{ .Values.driver }}'", of="{{ .Values.class }}"))
    assert all_codes(text) == ["manifest-template"]
    assert all_codes(POD.replace("channel", '"{{ .Release.Name }}"')) == ["manifest-template"]


def test_braces_in_commands_annotations_and_other_kinds_are_no_templates() -> None:
    pod = POD.replace("image: x,", 'image: x, args: ["--format={{.Name}}"],')
    assert all_codes(pod + DOMAIN) == []
    assert all_codes(pod.replace("{name: p}", '{name: p, annotations: {a: "{{ x }}"}}') + DOMAIN) == []
    rule = "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: a}\nspec: {x: '{{ $labels.n }}'}\n"
    assert all_codes(rule) == []


def test_a_file_that_cannot_be_read_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text("a: [\n")
    (tmp_path / "b.yaml").write_text("b:\n\t- c\n")
    (tmp_path / "c.yaml").write_text(
        claim(request(count=2), constraints=[{"matchAttribute": "gpu.nvidia.com/uuid"}])
    )
    (tmp_path / "t.yaml").write_text("metadata:\n  name: {{ .Release.Name }}\n")
    for given in ([str(tmp_path)], [str(tmp_path / name) for name in ("a.yaml", "b.yaml", "c.yaml")]):
        assert main(["lint", *given]) == 3
        out, err = capsys.readouterr()
        assert "constraint-never-met" in out
        assert err.count("error:") == 2
    assert main(["lint", str(tmp_path)]) == 3
    assert "t.yaml is left out: a template that is not rendered" in capsys.readouterr().err
    assert main(["lint", "--diff", str(tmp_path)]) == 3


def test_the_same_place_seen_through_aliases_is_one_finding() -> None:
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a}\nspec:\n  devices:\n    requests:\n"
        "    - name: g\n      exactly: &e\n        deviceClassName: gpu.nvidia.com\n        selectors:\n"
        f"        - cel: {{expression: \"{GPU}.model == 'H100'\"}}\n    - name: h\n      exactly: *e\n"
    )
    assert codes(text) == ["unknown-attribute"]


# --- drivers, domains, types ------------------------------------------------------------------------------

NAMES: dict[str, tuple[str, list[str], str | None]] = {
    "a letter less in the domain": (
        "device.attributes['gpu.nvida.com'].productName.contains('H100')",
        ["unknown-attribute"],
        "device.attributes['gpu.nvidia.com'].productName.contains('H100')",
    ),
    "the vendor for the domain": (
        "device.attributes['nvidia.com'].productName.contains('H100')",
        ["unknown-attribute"],
        "device.attributes['gpu.nvidia.com'].productName.contains('H100')",
    ),
    "the resource for the domain": (
        "device.capacity['nvidia.com/gpu'].memory.compareTo(quantity('1Gi')) > 0",
        ["unknown-capacity"],
        "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('1Gi')) > 0",
    ),
    "another driver's attribute": ("device.attributes['dra.net'].rdma == true", ["unknown-attribute"], None),
    "a letter less in the driver": (
        "device.driver == 'gpu.nvida.com'",
        ["attribute-value-unknown"],
        "device.driver == 'gpu.nvidia.com'",
    ),
    "the resource for the driver": (
        "device.driver == 'nvidia.com/gpu'",
        ["attribute-value-unknown"],
        "device.driver == 'gpu.nvidia.com'",
    ),
    "a type that the class keeps out": (f"{GPU}.type == 'mig'", ["selector-matches-nothing"], None),
    "what is never so": ("device.driver == 'gpu.nvidia.com' && 'a' == 'b'", ["selector-matches-nothing"], None),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_no_device_of_the_class_has_is_found(name: str) -> None:
    expression, wanted, mended = NAMES[name]
    (one,) = judged(claim(request(expression)))
    found = [note.finding for note in one.notes if note.finding.severity is not Severity.INFO]
    assert [finding.code for finding in found] == wanted
    assert {finding.replacement for finding in found} == {mended}


RIGHT_NAMES = [
    ("gpu.nvidia.com", f"device.driver == 'gpu.nvidia.com' && {GPU}.type == 'gpu'"),
    ("gpu.nvidia.com", f"{GPU}.type in ['gpu', 'mig']"),
    ("gpu.nvidia.com", "device.attributes['dra.net'].?rdma.orValue(true)"),
    ("mig.nvidia.com", f"{GPU}.type == 'mig'"),
    ("fast.nic", "device.driver == 'rdma.example.com' && device.attributes['rdma.example.com'].type == 'x'"),
    ("fast.nic", "device.attributes['rdma.example.com'].speed == 400"),
    ("fast.nic", "device.driver == 'dra.net' && device.attributes['dra.net'].rdma == true"),
    ("tpu.google.com", "device.attributes['tpu.google.com'].tpuGen == 'v6e'"),
]


@pytest.mark.parametrize(("of", "expression"), RIGHT_NAMES)
def test_drivers_and_domains_that_may_be_are_left_alone(of: str, expression: str) -> None:
    assert codes(claim(request(expression, of=of))) == []


def test_a_class_of_an_unknown_driver_is_left_alone() -> None:
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: mig.nvidia.com}\nspec:\n  selectors:\n"
        "  - cel: {expression: \"device.driver == 'mig.nvidia.com'\"}\n"
    )
    assert codes(text) == []
    assert codes(text.replace("'mig.nvidia.com'", "'gpus.example.org'")) == []


def test_what_does_not_decode_does_not_hide_what_is_not_allowed() -> None:
    text = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: node-a
  pool: {name: node-a, generation: 1, resourceSliceCount: 1}
  devices:
  - name: GPU_0
    attributes: {model: {version: "570.86"}, memory: {quantity: 80Gi}}
    capacity: {memory: 80Gi, cores: {value: 5GB}}
  - {name: gpu-1, taints: [{key: example.com/x, effect: PreferNoSchedule}]}
"""
    found = [finding.message for one in judged(text) for finding in one.findings]
    for words in (
        'unknown field "spec.devices[0].attributes.memory.quantity"',
        "of type v1.DeviceCapacity",
        "quantities must match",
        'Invalid value: "GPU_0"',
        "semver.org spec 2.0.0",
        'Unsupported value: "PreferNoSchedule"',
    ):
        assert any(words in message for message in found), words
    assert len(found) == 6
