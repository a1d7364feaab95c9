"""Public reports of wrong manifests: each gives its cause, and nothing else above information."""

# ruff: noqa: E501 - tables of manifests, one a line

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from baro.diagnosis.catalogue import built_in, nvidia_driver, of_documents
from baro.diagnosis.lint import Judged, Target, lint_all
from baro.diagnosis.lint.selectors import inspect
from baro.model.edits import apply
from baro.model.findings import Severity
from baro.model.load import load_bytes
from tests.support import shared

Documents = list[dict[str, Any]]


def document(kind: str, name: str, spec: Any, api: str = "resource.k8s.io/v1") -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


def a_slice(name: str, driver: str, devices: Any, pool: Any = None, **more: Any) -> dict[str, Any]:
    pool = pool or {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": "node-a", "pool": pool, "devices": devices, **more}
    return document("ResourceSlice", name, spec)


def a_class(name: str, *expressions: str, **more: Any) -> dict[str, Any]:
    return document(
        "DeviceClass", name, {"selectors": [{"cel": {"expression": e}} for e in expressions], **more}
    )


def a_claim(requests: Any, constraints: Any = None) -> dict[str, Any]:
    devices = {"requests": requests, **({"constraints": constraints} if constraints else {})}
    return document("ResourceClaim", "c", {"devices": devices})


def judged(documents: Documents | str, kube_version: str | None = None) -> tuple[Judged, ...]:
    text = documents if isinstance(documents, str) else yaml.safe_dump_all(documents, sort_keys=False)
    loaded = load_bytes(text.encode(), "case.yaml")
    return lint_all(loaded, of_documents(loaded), target=Target(kube_version=kube_version))


def expressions(number: str) -> dict[str, str]:
    inputs, _ = shared.case(number)
    return dict(line.split(": ", 1) for line in inputs["expressions.txt"].splitlines())


# --- the documents of each case --------------------------------------------------------------------------


def from_file(number: str, name: str) -> str:
    return shared.case(number)[0][name]


def slice_part(number: str) -> Documents:
    part = yaml.safe_load(from_file(number, "slice-part.yaml"))
    body = a_slice("node-a-gpu", "gpu.example.com", part.get("devices"))
    body["spec"].update(part)
    return [body]


def sizes() -> Documents:
    plain = [{"name": f"gpu-{number}"} for number in range(129)]
    tainted: list[dict[str, Any]] = [{"name": f"gpu-{number}"} for number in range(65)]
    tainted[0]["taints"] = [{"key": "a", "effect": "NoSchedule"}]
    return [a_slice("a", "x.example.com", plain), a_slice("b", "x.example.com", tainted)]


def case_026() -> Documents:
    rows = yaml.safe_load(from_file("026", "slices.yaml"))
    return [
        a_slice(row["name"], "x.example.com", [{"name": device} for device in row["devices"]], row["pool"])
        for row in rows
    ]


def case_028() -> Documents:
    rows = yaml.safe_load(from_file("028", "slices.yaml"))
    return [a_slice(r["name"], "x.example.com", [{"name": f"d-{r['name']}"}], r["pool"]) for r in rows]


def two_drivers(gpu: tuple[str, Any], nic: tuple[str, Any], attribute: str) -> Documents:
    return [
        a_slice("gpus", gpu[0], [{"name": "gpu-0", "attributes": gpu[1]}]),
        a_slice("nics", nic[0], [{"name": "eth1", "attributes": nic[1]}]),
        a_class("gpu", f"device.driver == '{gpu[0]}'"),
        a_class("nic", f"device.driver == '{nic[0]}'"),
        a_claim(
            [
                {"name": "gpu", "exactly": {"deviceClassName": "gpu"}},
                {"name": "nic", "exactly": {"deviceClassName": "nic"}},
            ],
            [{"requests": ["gpu", "nic"], "matchAttribute": attribute}],
        ),
    ]


def case_039() -> Documents:
    key = "resource.kubernetes.io/numaNode"
    return two_drivers(("gpu.nvidia.com", {key: {"int": 0}}), ("dra.net", {key: {"string": "0"}}), key)


def case_040() -> Documents:
    key, root = "resource.kubernetes.io/pcieRoot", {"string": "pci0000:15"}
    return two_drivers(("gpu.intel.com", {"pciRoot": root}), ("dra.net", {key: root}), key)


def case_046() -> Documents:
    rows = yaml.safe_load(from_file("046", "slices.yaml"))
    slices = [
        a_slice(
            node,
            "gpu.nvidia.com",
            [{"name": n, "attributes": {k: {"string": v} for k, v in d.items()}} for n, d in devices.items()],
        )
        for node, devices in rows.items()
    ]
    return [*slices, yaml.safe_load(from_file("046", "class.yaml"))]


def case_048() -> Documents:
    return [a_claim(yaml.safe_load(from_file("048", "claim.yaml"))["requests"])]


def case_059(letter: str) -> Documents:
    for line in from_file("059", "cases.yaml").splitlines():
        if line.startswith(f"{letter}:"):
            body = yaml.safe_load(line)[letter]
    if "kind" in body:
        return [{**body, "metadata": {"name": "c"}}]
    if "spec" in body:
        return [{**body, "kind": "ResourceClaimTemplate", "metadata": {"name": "c"}}]
    exactly = body.get("exactly") or {"deviceClassName": "gpu.nvidia.com", **body}
    return [a_claim([{"name": "gpu", "exactly": exactly}])]


def case_075() -> Documents:
    requests = yaml.safe_load(from_file("075", "claim.yaml"))["requests"]
    names = from_file("075", "classes.txt").split()
    return [*(a_class(name, f"device.driver == '{name}'") for name in names), a_claim(requests)]


def case_113() -> Documents:
    found: Documents = []
    for row in yaml.safe_load(from_file("113", "classes.yaml")):
        cel = row.get("cel", "device.driver == 'gpu.nvidia.com'")
        found.append(a_class(row["name"], cel, extendedResourceName=row["extendedResourceName"]))
    return found


def case_115() -> Documents:
    request = {"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 1}
    return [document("ResourceClaim", "c", {"devices": {"requests": [request]}}, "resource.k8s.io/v1beta1")]


def case_116() -> Documents:
    return [{**case_115()[0], "apiVersion": "resource.k8s.io/v1alpha3"}]


def in_class(number: str, letter: str) -> Documents:
    return [a_class("mine", expressions(number)[letter])]


def in_claim(number: str, letter: str) -> Documents:
    selectors = [{"cel": {"expression": expressions(number)[letter]}}]
    return [
        a_claim([{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com", "selectors": selectors}}])
    ]


def case_060(letter: str) -> Documents:
    selectors = [{"cel": {"expression": expressions("060")[letter]}}]
    return [
        a_claim([{"name": "g", "exactly": {"deviceClassName": "mig.nvidia.com", "selectors": selectors}}])
    ]


def case_050() -> Documents:
    selectors = [{"cel": {"expression": from_file("050", "expr.txt").strip()}}]
    return [
        a_claim([{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com", "selectors": selectors}}])
    ]


CASES: list[tuple[str, Callable[[], Documents | str], list[str], list[str]]] = [
    # case, documents, codes above information, what some message must say
    ("021", lambda: from_file("021", "slice.yaml"), ["manifest-invalid"], ["semver.org spec 2.0.0"]),
    ("022", lambda: slice_part("022"), ["manifest-invalid"], ["attributes[driverVersion].version"]),
    ("023", lambda: slice_part("023"), ["manifest-invalid", "manifest-invalid"], ["a valid C identifier"]),
    ("024", sizes, ["manifest-invalid", "manifest-invalid"], ["at most 128 items", "at most 64 items"]),
    ("026", case_026, ["slice-old-generation"], ["generation 1"]),
    ("028", case_028, ["pool-inconsistent", "pool-inconsistent"], ["inconsistent resourceSliceCount"]),
    ("029", lambda: slice_part("029"), ["manifest-invalid"], ["sharedCounters[0].counters: Required value"]),
    ("030", lambda: from_file("030", "slice.yaml"), ["manifest-decoding"] * 3, ['"spec.devices[0].basic"', '"spec.devices[1].attributes.memory.quantity"', "cannot unmarshal string into Go struct field Device.spec.devices.capacity of type v1.DeviceCapacity"]),
    ("032", lambda: [a_slice("n1", "gpu.nvidia.com", [])], ["empty-slice"], ["0 devices"]),
    ("038", lambda: from_file("038", "claim.yaml"), ["unknown-constraint-attribute"], ["nvlinkDomain"]),
    ("039", case_039, ["constraint-type-mismatch"], ["int of gpu.nvidia.com", "string of dra.net"]),
    ("040", case_040, ["nonstandard-attribute", "unknown-constraint-attribute"], ["gpu.intel.com/pciRoot"]),
    ("046", case_046, ["attribute-missing-on-some"], ["gpu.nvidia.com/type"]),
    ("048", case_048, [], []),
    ("049", lambda: from_file("049", "template.yaml"), ["capacity-threshold-unreachable", "cel-syntax", "deprecated-api-version", "unknown-attribute", "unknown-constraint-attribute"], ["81559Mi"]),
    ("050", case_050, ["capacity-threshold-unreachable"], ["81559Mi", "79Gi"]),
    ("055 A", lambda: in_class("055", "A"), ["unguarded-attribute"], ["gpu.nvidia.com/type"]),
    ("055 B", lambda: in_class("055", "B"), [], []),
    ("055 C", lambda: in_claim("055", "C"), [], []),
    ("055 D", lambda: in_claim("055", "D"), [], []),
    ("055 E", lambda: in_claim("055", "E"), ["unknown-attribute"], ["nope"]),
    ("055 F", lambda: in_claim("055", "F"), ["unknown-attribute"], ["nope"]),
    ("058", lambda: from_file("058", "template.yaml"), ["manifest-decoding"] * 4, ['unknown field "spec.spec.devices.requests[0].deviceClassName"']),
    ("058 v1beta1", lambda: from_file("058", "template.yaml").replace("k8s.io/v1", "k8s.io/v1beta1"), ["deprecated-api-version"], []),
    ("059 A", lambda: case_059("A"), ["manifest-decoding"], ['unknown field "spec.devices"']),
    ("059 B", lambda: case_059("B"), ["manifest-decoding"], ['unknown field "spec.spec"']),
    ("059 C", lambda: case_059("C"), ["manifest-decoding"], ["count of type int64"]),
    ("059 D", lambda: case_059("D"), ["manifest-decoding"], ["selectors of type []v1.DeviceSelector"]),
    ("059 E", lambda: case_059("E"), ["manifest-decoding"], ["selectors[0].expression"]),
    ("059 F", lambda: case_059("F"), ["classic-dra"], ['no kind "ResourceClaimTemplate" is registered']),
    ("059 G", lambda: case_059("G"), ["manifest-invalid"], ["not be specified when allocationMode is 'All'"]),
    ("060 A", lambda: case_060("A"), ["capacity-threshold-unreachable"], ["9984Mi"]),
    ("060 B", lambda: case_060("B"), [], []),
    ("060 C", lambda: case_060("C"), ["unknown-mig-profile"], ["1g.10gb"]),
    ("061", lambda: from_file("061", "pod.yaml"), ["pod-claim-source-removed"], ["resourceClaims[0].source"]),
    ("075", case_075, [], ["no DeviceClass gpu.nvidia.com among the documents"]),
    ("113", case_113, ["duplicate-extended-resource-name"] * 2, ["nvidia.com/gpu"]),
    ("115", case_115, ["deprecated-api-version"], ["1.35", "1.38"]),
    ("116", case_116, ["api-version-not-served"], ["v1alpha3"]),
    ("117", lambda: from_file("117", "template.yaml"), ["classic-dra"], ["v1alpha2"]),
]  # fmt: skip


@pytest.mark.parametrize(("case", "documents", "codes", "words"), CASES, ids=[case[0] for case in CASES])
def test_a_public_case_gives_its_cause_and_no_false_alarm(
    case: str, documents: Callable[[], Documents | str], codes: list[str], words: list[str]
) -> None:
    found = [finding for one in judged(documents()) for finding in one.findings]
    loud = sorted(finding.code for finding in found if finding.severity is not Severity.INFO)
    assert loud == sorted(codes)
    for word in words:
        assert any(word in finding.message for finding in found), word


# --- what is more than a code ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letter", "code", "word"),
    [
        ("A", "type-mismatch", "false on every device"),
        ("C", "unknown-attribute", "stands in the domain resource.kubernetes.io"),
        ("D", "cel-compile", "found no matching overload for '_==_' applied to '(map(string, any), string)'"),
        ("E", "unknown-attribute", "grouped by domain first"),
        ("F", "cel-compile", "found no matching overload for '_==_' applied to '(map(string, any), string)'"),
    ],
)
def test_case_054_mixed_up_names_and_types(letter: str, code: str, word: str) -> None:
    report = inspect(expressions("054")[letter], nvidia_driver())
    assert report.codes == [code]
    assert word in report.problems[0].message
    assert report.mended is not None
    assert inspect(expressions("054")["B"], built_in()).problems == ()


@pytest.mark.parametrize("letter", list("ABCDEFGH"))
def test_case_056_slips_of_syntax_have_the_servers_column(letter: str) -> None:
    _, expect = shared.case("056")
    report = inspect(expressions("056")[letter], built_in())
    kind, _, text = str(expect[letter]).partition(" ")
    where = text.partition(": ")[0] if kind == "compile" else ""
    message = report.problems[0].message
    assert text.removeprefix(where).removeprefix(": ").removeprefix("runtime: ") in message
    if where:
        assert f"<input>:{where}: " in message


def test_case_021_the_fix_is_three_numbers_and_the_full_text_beside_them() -> None:
    _, expect = shared.case("021")
    (one,) = judged(from_file("021", "slice.yaml"))
    attributes = apply(one.document.body, one.notes[0].edits)["spec"]["devices"][0]["attributes"]
    assert attributes == expect["fix"]


def test_case_024_says_into_how_many_slices_a_pool_must_be_split() -> None:
    _, expect = shared.case("024")
    remedies = [finding.remedy for one in judged(sizes()) for finding in one.findings]
    for letter, remedy in zip("AB", remedies, strict=True):
        assert f"into {expect[letter]['slices_needed']} slices" in remedy


def test_case_040_names_the_standard_key() -> None:
    _, expect = shared.case("040")
    found = [finding for one in judged(case_040()) for finding in one.findings]
    standard = next(finding for finding in found if finding.code == "nonstandard-attribute")
    assert expect["publish_lint"]["use"] in standard.message


def test_case_115_is_an_error_for_a_target_and_converts() -> None:
    _, expect = shared.case("115")
    (one,) = judged(case_115(), "1.36")
    (finding,) = one.findings
    assert (finding.code, finding.severity.value) == (
        expect["target_1.36"]["code"],
        expect["target_1.36"]["severity"],
    )
    (gone,) = judged(case_115(), "1.38")[0].findings
    assert "gone since 1.38" in gone.message


def test_case_117_offers_a_skeleton_with_the_class() -> None:
    _, expect = shared.case("117")
    (one,) = judged(from_file("117", "template.yaml"))
    skeleton = yaml.safe_load(one.findings[0].replacement or "")
    request = skeleton["spec"]["spec"]["devices"]["requests"][0]
    assert request["exactly"]["deviceClassName"] == expect["skeleton"]["deviceClassName"]
    assert [f.severity for f in judged([skeleton])[0].findings if f.severity is not Severity.INFO] == []


def test_case_061_a_claim_without_a_pod_is_no_more_than_information() -> None:
    pod = yaml.safe_load(from_file("061", "pod.yaml"))
    claim = a_claim([{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}])
    found = {f.code: f.severity for f in judged([pod, claim])[1].findings}
    assert found == {"claim-unused": Severity.INFO}
