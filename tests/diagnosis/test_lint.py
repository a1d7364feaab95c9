"""Lint of one document: every mistake in one run, and a mended object that is free of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from baro.cel import check_expression, compile_selector
from baro.diagnosis.catalogue import Catalogue, built_in, from_slices, nvidia_driver, of_documents
from baro.diagnosis.lint import LintResult, lint, lint_all, trials
from baro.diagnosis.lint.selectors import inspect
from baro.model.decode import to_kind
from baro.model.findings import Severity, table
from baro.model.kinds.resource import ResourceSlice
from baro.model.load import load_bytes, load_paths
from baro.model.validation import judge_create
from baro.model.validation.rules import Rules
from tests.support import shared

H100 = "device.attributes['gpu.nvidia.com'].productName.contains('H100')"
MEMORY = "device.capacity['gpu.nvidia.com'].memory"


def lint_text(text: str, yardstick: Catalogue | None = None) -> LintResult:
    (document,) = load_bytes(text.encode(), "claim.yaml")
    return lint(document, yardstick or nvidia_driver())


def codes(text: str, yardstick: Catalogue | None = None) -> list[str]:
    return sorted(item.code for item in lint_text(text, yardstick).findings)


def claim(selector: str, constraint: str = "", version: str = "v1") -> str:
    request = f"deviceClassName: gpu.nvidia.com, selectors: [{{cel: {{expression: {selector!r}}}}}]"
    body = f"{{name: gpu, {request}}}" if version == "v1beta1" else f"{{name: gpu, exactly: {{{request}}}}}"
    lines = f"""
apiVersion: resource.k8s.io/{version}
kind: ResourceClaim
metadata: {{name: c}}
spec:
  devices:
    requests:
    - {body}
"""
    return lines + (f"    constraints: [{{matchAttribute: {constraint}}}]\n" if constraint else "")


# --- the manifest that everybody copies ------------------------------------------------------------------


def test_the_missions_manifest_yields_its_five_findings_in_one_run() -> None:
    inputs, expect = shared.case("049")
    result = lint_text(inputs["template.yaml"])
    assert sorted(item.code for item in result.findings) == sorted(
        wanted["code"] for wanted in expect["findings"]
    )
    severities = {item.code: item.severity.value for item in result.findings}
    for wanted in expect["findings"]:
        assert severities[wanted["code"]] == wanted["severity"]
    messages = {item.code: item.message for item in result.findings}
    assert ":1:102: " in messages["cel-syntax"]
    assert "productName" in messages["unknown-attribute"]
    assert "81559Mi" in messages["capacity-threshold-unreachable"]
    assert "80Gi" in messages["capacity-threshold-unreachable"]
    assert "1.38" in messages["deprecated-api-version"]
    assert "gpu.nvidia.com/nvlinkDomain" in messages["unknown-constraint-attribute"]


def test_the_missions_manifest_is_mended_to_what_was_meant_and_then_has_no_findings() -> None:
    inputs, expect = shared.case("049")
    mended = lint_text(inputs["template.yaml"]).mended
    assert mended is not None
    request = mended["spec"]["spec"]["devices"]["requests"][0]
    assert request["exactly"]["selectors"][0]["cel"]["expression"] == expect["fixed_expression"]
    assert mended["apiVersion"] == "resource.k8s.io/v1"
    assert "constraints" not in mended["spec"]["spec"]["devices"]
    assert not judge_create(mended, Rules("1.37"), cel=check_expression).causes
    again = lint_text(yaml.safe_dump(mended))
    assert (again.findings, again.mended) == ((), None)


# --- selectors -------------------------------------------------------------------------------------------


def test_a_finding_points_at_the_character_of_the_expression() -> None:
    result = lint_text(claim("device.driver = 'x'"))
    (item,) = result.findings
    line = claim("device.driver = 'x'").splitlines()[7]
    assert (item.where.line, item.where.column) == (8, line.index("= 'x'") + 1)
    assert item.where.path == "spec.devices.requests[0].exactly.selectors[0].cel.expression"


def test_the_flat_shape_of_v1beta1_gets_its_own_paths() -> None:
    result = lint_text(claim("1", version="v1beta1"))
    paths = {item.code: item.where.path for item in result.findings}
    assert paths["cel-compile"] == "spec.devices.requests[0].selectors[0].cel.expression"


def test_fields_in_the_wrong_place_are_reported_in_the_servers_words() -> None:
    text = claim("true").replace("exactly: {", "").replace("}}]}}", "}}]}")
    result = lint_text(text)
    messages = [item.message for item in result.findings if item.code == "manifest-decoding"]
    assert any('unknown field "spec.devices.requests[0].deviceClassName"' in message for message in messages)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("device.driver == 'gpu.nvidia.com'", []),
        (H100, []),
        (f"{MEMORY}.compareTo(quantity('79Gi')) >= 0", []),
        ("device.attributes['gpu.nvidia.com'].?model.orValue('') == 'H100'", []),
        ("has(device.attributes['gpu.nvidia.com'].model)", []),
        (
            "'model' in device.attributes['gpu.nvidia.com']"
            " && device.attributes['gpu.nvidia.com'].model == 'H'",
            [],
        ),
        ("device.attributes['example.com'].colour == 'red'", []),
        ("device.attributes['gpu.nvidia.com'].profile == '1g.10gb'", []),
        ("device.attributes['gpu.nvidia.com'].partition4 == 1", []),
        ("device.attributes['resource.kubernetes.io'].numaNode == 0", []),
        ("device.attributes['gpu.nvidia.com'].driverVersion.compareTo(semver('570.0.0')) >= 0", []),
        ("device.attributes['gpu.nvidia.com'].model == 'H100'", ["unknown-attribute"]),
        ("device.attributes['gpu.nvidia.com'].productNam == 'x'", ["unknown-attribute"]),
        ("device.capacity['gpu.nvidia.com'].memroy.compareTo(quantity('1Gi')) > 0", ["unknown-capacity"]),
        (f"{MEMORY}.compareTo(quantity('9000Gi')) >= 0", ["capacity-threshold-unreachable"]),
        (f"{H100} && {MEMORY}.compareTo(quantity('80Gi')) >= 0", ["capacity-threshold-unreachable"]),
        (f"{MEMORY} >= 40Gi", ["cel-syntax"]),
        ("device.attributes['gpu.nvidia.com'].productName = 'x'", ["cel-syntax"]),
        ("1 + 1", ["cel-compile"]),
        ("'x'" * 4000, ["cel-too-long"]),
        ("device.attributes['resource.kubernetes.io'].numaNode == '0'", ["type-mismatch"]),
        ("device.attributes['resource.kubernetes.io'].numaNode in ['0', '1']", ["type-mismatch"]),
        ("device.attributes['gpu.nvidia.com'].driverVersion == '570.1.2'", ["version-compare"]),
        ("device.attributes['gpu.nvidia.com'].driverVersion in ['570.1.2']", ["version-compare"]),
        ("device.attributes['gpu.nvidia.com'].architecture == 'hopper'", ["attribute-value-unknown"]),
        ("device.attributes['gpu.nvidia.com'].productName", ["cel-runtime-error"]),
        (f"{MEMORY}.compareTo(quantity('80GB')) >= 0", ["cel-runtime-error"]),
        ("device.attributes['gpu.nvidia.com'].profile == '1G.10GB'", ["unknown-mig-profile"]),
        (
            f"device.attributes['gpu.nvidia.com'].type == 'mig' && {MEMORY}.compareTo(quantity('10Gi')) >= 0",
            ["capacity-threshold-unreachable"],
        ),
        (
            "device.attributes['gpu.nvidia.com'].nope == 1 || " + H100,
            ["unknown-attribute"],
        ),
        (
            "device.attributes.all(d, device.attributes.all(e, device.attributes.all(f, "
            "device.attributes.all(g, g == f))))",
            ["cel-too-costly"],
        ),
    ],
)
def test_a_selector_gives_exactly_the_findings_it_deserves(expression: str, expected: list[str]) -> None:
    assert sorted(inspect(expression, nvidia_driver()).codes) == expected


@pytest.mark.parametrize(
    ("expression", "mended"),
    [
        (f"{MEMORY} >= 40Gi", f"{MEMORY}.compareTo(quantity('40Gi')) >= 0"),
        (f"{MEMORY} >= '40Gi'", f"{MEMORY}.compareTo(quantity('40Gi')) >= 0"),
        (f"{MEMORY} > quantity('40Gi')", f"{MEMORY}.compareTo(quantity('40Gi')) > 0"),
        (f"{MEMORY} >= 85899345920", f"{MEMORY}.compareTo(quantity('79Gi')) >= 0"),
        (f"{MEMORY}.compareTo(quantity('40 Gi')) >= 0", f"{MEMORY}.compareTo(quantity('40Gi')) >= 0"),
        (f"{MEMORY}.isGreaterThan(80)", None),
        (
            "device.attributes['gpu.nvidia.com'].productNam == 'x'",
            "device.attributes['gpu.nvidia.com'].productName == 'x'",
        ),
        ("device.driver = 'x'", "device.driver == 'x'"),
        (
            "device.driver == 'a' and not (device.driver == 'b')",
            "device.driver == 'a' && !(device.driver == 'b')",
        ),
        ("device.driver == \u2018a\u2019", "device.driver == 'a'"),
        ("device.driver == 'a = b' & true", "device.driver == 'a = b' && true"),
        ("device.driver == 'a')", "device.driver == 'a'"),
        (
            "device.attributes['gpu.nvidia.com'.type == 'gpu'",
            "device.attributes['gpu.nvidia.com'].type == 'gpu'",
        ),
        (
            "device.attributes['gpu.nvidia.com'].productName.matches('*H100*')",
            H100,
        ),
        (
            "device.attributes['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0",
            f"{MEMORY}.compareTo(quantity('40Gi')) >= 0",
        ),
        (
            "device.attributes['gpu.nvidia.com'].numaNode == 0",
            "device.attributes['resource.kubernetes.io'].numaNode == 0",
        ),
        (
            "device.attributes['resource.kubernetes.io'].numaNode == '0'",
            "device.attributes['resource.kubernetes.io'].numaNode == 0",
        ),
        (
            "device.attributes['gpu.nvidia.com'].driverVersion >= '570.86'",
            "device.attributes['gpu.nvidia.com'].driverVersion.compareTo(semver('570.86.0')) >= 0",
        ),
        ("node.labels['a'] == 'b'", None),
        ("device.attributes['gpu.nvidia.com'].index == 3", None),
    ],
)
def test_what_is_offered_as_mended_compiles_and_says_what_was_meant(
    expression: str, mended: str | None
) -> None:
    report = inspect(expression, nvidia_driver())
    assert report.problems
    assert report.mended == mended
    if mended is not None:
        assert inspect(mended, nvidia_driver()).mended is None


def test_an_ignored_code_is_neither_said_nor_mended() -> None:
    expression = f"device.attributes['gpu.nvidia.com'].model == 'H100' && {MEMORY} >= 80Gi"
    report = inspect(expression, nvidia_driver(), ignored=frozenset({"unknown-attribute"}))
    assert report.codes == ["cel-syntax"]
    assert report.mended is not None
    assert ".model == 'H100'" in report.mended


def test_case_051_compile_errors_are_findings_and_quantities_are_mended() -> None:
    inputs, expect = shared.case("051")
    for line in inputs["expressions.txt"].splitlines():
        letter, expression = line.split(": ", 1)
        report = inspect(expression, nvidia_driver())
        if str(expect[letter]).startswith("compile"):
            assert report.codes[0] == "cel-compile", letter
            assert str(expect[letter]).removeprefix("compile: ") in report.problems[0].message


# --- constraints and yardsticks --------------------------------------------------------------------------


def test_a_constraint_on_an_attribute_that_nobody_publishes_is_an_error() -> None:
    assert codes(claim("true", "gpu.nvidia.com/nvlinkDomain")) == ["unknown-constraint-attribute"]
    assert codes(claim("true", "resource.kubernetes.io/numaNode")) == []
    assert codes(claim("true", "other.example.com/anything")) == []


def slice_of(driver: str, attributes: str, name: str = "s") -> str:
    return f"""
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {name}}}
spec:
  driver: {driver}
  nodeName: node-a
  pool: {{name: {name}, generation: 1, resourceSliceCount: 1}}
  devices: [{{name: gpu-0, attributes: {attributes}}}]
---
"""


def test_slices_that_are_given_are_the_yardstick_in_place_of_the_built_in_one() -> None:
    (document,) = load_bytes(
        slice_of("gpu.nvidia.com", "{type: {string: gpu}, nvlinkDomain: {string: a}}").encode()
    )
    item = to_kind(document.body)
    assert isinstance(item, ResourceSlice)
    yardstick = from_slices([item])
    assert codes(claim("true", "gpu.nvidia.com/nvlinkDomain"), yardstick) == []
    assert codes(claim(H100), yardstick) == ["unknown-attribute"]


def test_slices_of_one_driver_leave_the_others_as_they_are_known() -> None:
    documents = load_bytes(slice_of("dra.net", "{ifName: {string: eth0}}").encode())
    assert codes(claim("device.attributes['gpu.nvidia.com'].model == 'H100'"), of_documents(documents)) == [
        "unknown-attribute"
    ]


@pytest.mark.parametrize(
    ("comparison", "always"),
    [
        ("VERSION == '570.1.2'", "is an error"),
        ("'570.1.2' == VERSION", "is false"),
        ("VERSION != '570.1.2'", "is true"),
        ("VERSION in ['570.1.2']", "is an error"),
        ("NUMA == '0'", "is false"),
        ("NUMA != '0'", "is true"),
        ("NUMA > '0'", "is an error"),
        ("NUMA in ['0']", "is false"),
    ],
)
def test_what_a_comparison_of_two_types_comes_to_is_tried(comparison: str, always: str) -> None:
    text = comparison.replace("VERSION", "device.attributes['gpu.nvidia.com'].driverVersion")
    text = text.replace("NUMA", "device.attributes['resource.kubernetes.io'].numaNode")
    (problem,) = inspect(text, nvidia_driver()).problems
    assert f"the comparison {always} on every device" in problem.message
    outcomes = {str(trials.error_on(compile_selector(text), one) or trials.matches(compile_selector(text), one)) for one in nvidia_driver().devices}  # fmt: skip  # noqa: E501
    assert len(outcomes) == 1
    assert {"is true": "True", "is false": "False"}.get(always, outcomes.copy().pop()) in outcomes


def test_types_that_were_seen_are_types_and_names_that_were_not_are_no_error() -> None:
    assert inspect("device.attributes['dra.net'].rdma == 'true'", built_in()).codes == ["type-mismatch"]
    assert inspect("device.attributes['dra.net'].rdma == true", built_in()).codes == []
    assert inspect("device.attributes['dra.net'].somethingNew == 'x'", built_in()).codes == []
    assert inspect("device.attributes['dra.net'].rdmaDevic == 'x'", built_in()).codes == [
        "attribute-not-seen"
    ]


def test_a_driver_that_nobody_knows_gets_no_judgement() -> None:
    text = claim("device.attributes['x.example.com'].anything == 'a'").replace("gpu.nvidia.com,", "mine,")
    assert codes(text, built_in()) == []


def test_every_code_of_the_table_says_what_it_means_and_what_to_do() -> None:
    for code, row in table().items():
        assert row.title and row.explanation and row.remedy, code
        assert not row.title.endswith("."), code


def test_a_slice_that_cannot_be_decoded_does_not_stop_the_lint_of_the_others() -> None:
    bad = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: bad}
spec: {driver: gpu.nvidia.com, nodeName: n1, devices: [oops]}
---"""
    good = slice_of("gpu.nvidia.com", "{type: {string: gpu}, nvlinkDomain: {string: a}}", "good")
    documents = load_bytes((bad + good).encode(), "slices.yaml")
    yardstick = of_documents(documents)
    assert codes(claim("true", "gpu.nvidia.com/nvlinkDomain"), yardstick) == []
    assert [item.code for item in lint(documents[0], yardstick).findings] == ["manifest-decoding"]


# --- public manifests ------------------------------------------------------------------------------------

REALLY_WRONG = {
    "manifest-decoding", "manifest-invalid", "classic-dra", "cel-syntax", "unknown-attribute",
    "deprecated-api-version", "class-selects-everything", "unknown-constraint-attribute",
    "capacity-threshold-unreachable",
}  # fmt: skip
"""Codes that occur in the public manifests; each occurrence was checked by hand and is right."""


@pytest.mark.parametrize("file", shared.listing("data/dra-yaml", "*.yaml"), ids=lambda file: file.stem[-40:])
def test_public_manifests_get_no_false_alarm(file: Path) -> None:
    documents = load_paths([file])
    for judged in lint_all(documents, of_documents(documents)):
        for item in judged.findings:
            assert item.where.line is not None
            assert item.severity is Severity.INFO or item.code in REALLY_WRONG, item
