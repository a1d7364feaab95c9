"""Every recorded answer of upstream, exactly: compile verdict and text, result and run-time error text.

What is not compared here: costs (``test_cost``), and which of several errors a walk over a map meets first
(upstream's order is random).
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from baro.cel import CelCompileError, CelRuntimeError, DeviceView, compile_selector
from tests.support.cel import answer, device, records, refusal
from tests.support.shared import case, path


def _disagreements(kind: str) -> list[str]:
    """Disagreements of one kind as texts; prints them by category."""
    found: list[str] = []
    categories: Counter[str] = Counter()
    for record in records(path("data/cel-oracle.jsonl")):
        if kind == "compile":
            ours: object = refusal(record.expression)
            theirs: object = record.compile_error
        elif kind == "admission":
            ours, theirs = refusal(record.expression, "admission"), record.admission_error
        elif record.compile_error is None:
            ours, theirs = answer(record.expression, device(record.device)), record.result
        else:
            continue
        if ours != theirs:
            categories[record.category] += 1
            found.append(f"{record.name}: {record.expression!r}\n  upstream {theirs!r}\n  ours     {ours!r}")
    print(kind, dict(categories))  # noqa: T201 for the reader of a failure
    return found


def test_expressions_are_accepted_and_refused_in_upstreams_words() -> None:
    assert _disagreements("compile") == []


def test_admission_types_attributes_as_any_and_has_no_includes() -> None:
    assert _disagreements("admission") == []


def test_results_and_run_time_errors_are_upstreams() -> None:
    assert _disagreements("evaluate") == []


_GPU = {
    "type": {"string": "gpu"},
    "architecture": {"string": "Hopper"},
    "cudaComputeCapability": {"version": "9.0.0"},
    "resource.kubernetes.io/pciBusID": {"string": "0000:18:00.0"},
    "resource.kubernetes.io/pcieRoot": {"string": "pci0000:15"},
    "resource.kubernetes.io/numaNode": {"int": 0},
}


def _gpu(name: str, driver_version: str, memory: str, **more: object) -> DeviceView:
    attributes = {
        **_GPU,
        "productName": {"string": name},
        "driverVersion": {"version": driver_version},
        **more,
    }
    return device(
        {"driver": "gpu.nvidia.com", "attributes": attributes, "capacity": {"memory": {"value": memory}}}
    )


def _known_devices() -> dict[str, DeviceView]:
    return {
        "h100": _gpu("NVIDIA H100 80GB HBM3", "570.133.20", "81559Mi"),
        "a100-40": _gpu("NVIDIA A100-SXM4-40GB", "570.133.20", "40960Mi"),
        "mig": _gpu("NVIDIA H100 80GB HBM3", "570.133.20", "9728Mi", profile={"string": "1g.10gb"}),
        "other": device({"driver": "dra.net", "attributes": {"ifName": {"string": "eth1"}}, "capacity": {}}),
    }


def test_the_short_list_of_everyday_selectors_agrees() -> None:
    devices = _known_devices()
    for line in path("data/cel-cases.jsonl").read_text(encoding="utf-8").splitlines():
        given = json.loads(line)
        upstream = given["Upstream"]
        ours = refusal(given["Expr"], "admission")
        if upstream.startswith("COMPILE ERROR: "):
            assert ours == upstream.removeprefix("COMPILE ERROR: "), given["Name"]
            continue
        assert ours is None, given["Name"]
        result = answer(given["Expr"], devices[given["Dev"]])
        expected = (
            f"match={str(result is True).lower()} err={'<nil>' if isinstance(result, bool) else result}"
        )
        assert expected in upstream, given["Name"]


@pytest.mark.parametrize("number", ["049", "051", "052", "053", "054", "055", "056"])
def test_the_compile_errors_of_public_reports_are_found(number: str) -> None:
    inputs, expect = case(number)
    expressions = {}
    for text in inputs.values():
        for line in text.splitlines():
            label, colon, expression = line.partition(": ")
            if colon and len(label) == 1:
                expressions[label] = expression
    for label, wanted in expect.items():
        if isinstance(wanted, str) and wanted.startswith("compile: ") and label in expressions:
            got = refusal(expressions[label], "admission")
            assert got is not None, (number, label)
            assert wanted.removeprefix("compile: ").split(" (")[0] in got, (number, label, got)


def test_the_selector_results_recorded_with_allocator_instances_agree() -> None:
    checked = 0
    for line in path("data/allocator-oracle.json").read_text(encoding="utf-8").splitlines():
        if not line.startswith('{"name"'):
            continue
        instance = json.loads(line.rstrip(","))
        devices = {
            f"{item['metadata']['name']}#{given['name']}": device({"driver": item["spec"]["driver"], **given})
            for item in instance["resourceSlices"]
            for given in item["spec"].get("devices") or []
        }
        for expression, results in (instance.get("selectorResults") or {}).items():
            if isinstance(results, str):
                assert refusal(expression) == results, instance["name"]
                continue
            for name, expected in results.items():
                assert answer(expression, devices[name]) == expected, (instance["name"], expression, name)
                checked += 1
    assert checked > 0


def test_the_error_of_an_assignment_has_line_and_column() -> None:
    with pytest.raises(CelCompileError) as caught:
        compile_selector("device.driver = 'gpu.nvidia.com'")
    assert (caught.value.line, caught.value.column) == (1, 15)
    assert [issue.message for issue in caught.value.issues] == [
        "Syntax error: token recognition error at: '= '",
        "Syntax error: extraneous input ''gpu.nvidia.com'' expecting <EOF>",
    ]


def test_a_missing_attribute_names_the_key() -> None:
    program = compile_selector("device.attributes['gpu.nvidia.com'].type == 'gpu'")
    with pytest.raises(CelRuntimeError, match=r"^no such key: type$"):
        program.evaluate(DeviceView(driver="dra.net"))
