"""Costs: the estimate at compile time, the count at run time, the limit, and what admission says of them.

What cannot be compared with the recorded figures: a fold that stops early over a map of the device, whose
order upstream draws anew each time.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.cel import (
    MAX_COST,
    MAX_EXPRESSION_BYTES,
    CelRuntimeError,
    CostEstimate,
    admission_problems,
    check_expression,
    compile_selector,
    estimate_cost,
    view_of,
)
from baro.cel.cost_bounds import U64, FieldPath, declared_size
from baro.cel.environment import EnvironmentName
from baro.model.kinds.resource import DeviceAttribute, DeviceCapacity
from baro.model.validation import Problems
from tests.support.cel import answer, device
from tests.support.shared import path

LIMIT = "operation cancelled: actual cost limit exceeded"
DOMAIN = "gpu.nvidia.com"
GPU = f"device.attributes['{DOMAIN}']"
DEVICE = view_of(
    DOMAIN,
    {
        "model": DeviceAttribute(string="H100"),
        "index": DeviceAttribute(int_=3),
        "driverVersion": DeviceAttribute(version="570.1.0"),
        "resource.kubernetes.io/numaNode": DeviceAttribute(int_=0),
    },
    {"memory": DeviceCapacity(value="80Gi")},
)
ORDER_MATTERS = frozenset({"macro-all-exists-005", "capacity-102"})
"""Records that stop early in a walk over a map."""


def _estimate(expression: str, environment: EnvironmentName = "stored") -> CostEstimate:
    return compile_selector(expression, environment).cost_estimate


def _cost(expression: str) -> int:
    return compile_selector(expression).evaluate_with_cost(DEVICE).cost


# --- the recorded answers ----------------------------------------------------------------------------------


def test_every_recorded_estimate_is_found() -> None:
    compared = 0
    for line in path("data/cel-oracle.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        newer = record.get("v1_37", {})
        environments: tuple[tuple[str, EnvironmentName], ...] = (
            ("compile", "stored"),
            ("admission", "admission"),
        )
        for key, environment in environments:
            answered = {**record.get(key, {}), **newer.get(key, {})}
            if answered.get("ok") and "costEstimate" in answered:
                found = _estimate(record["expr"], environment)
                assert found.max == answered["costEstimate"], (record["name"], key)
                assert found.min >= 0, record["name"]
                compared += 1
    assert compared > 2400


def test_every_recorded_cost_result_and_error_is_counted_out() -> None:
    compared = 0
    for line in path("data/cel-oracle.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        newer = record.get("v1_37", {})
        evaluated = {**record.get("eval", {}), **newer.get("eval", {})}
        if "actualCost" not in evaluated or record["name"] in ORDER_MATTERS:
            continue
        counted = compile_selector(record["expr"]).evaluate_with_cost(device(record["device"]))
        if evaluated["result"] == "error":
            assert counted.error == evaluated["error"], record["name"]
        else:
            assert counted.result == evaluated["result"], record["name"]
        assert counted.cost == evaluated["actualCost"], record["name"]
        compared += 1
    assert compared > 2300


def test_the_short_list_of_selectors_has_its_estimates() -> None:
    compared = 0
    for line in path("data/cel-cases.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "maxCost=" in record["Upstream"]:
            expected = int(record["Upstream"].split("maxCost=")[1].split()[0])
            assert _estimate(record["Expr"], "admission").max == expected, record["Name"]
            compared += 1
    assert compared > 15


# --- the estimate ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "least", "most"),
    [
        ("true", 0, 0),
        ("device.driver == 'a'", 3, 3),
        (f"{GPU}.model == 'H100'", 5, 5),
        (f"has({GPU}.model)", 3, 3),
        (f"{GPU}.model.matches('^H')", 5, 11),
        ("device.attributes.all(d, true)", 3, 99),
        ("[1, 2, 3].all(x, x > 0)", 20, 26),
        ("3 in [1, 2, 3]", 13, 13),
        ("cel.bind(unused, [device.driver], true)", 22, 22),
        ("true || lists.range(1000000).size() > 0", 0, 1_000_013),
    ],
)
def test_sizes_come_from_literals_and_from_the_limits_of_the_api(
    expression: str, least: int, most: int
) -> None:
    assert _estimate(expression) == CostEstimate(least, most)


def test_nested_loops_multiply() -> None:
    inner = "true"
    for name in "abcdefg":
        inner = f"[1,2,3,4,5,6,7,8,9,10].all({name}, {inner})"
    assert _estimate(inner).max > MAX_COST


def test_an_attribute_map_reached_by_a_field_has_no_known_size() -> None:
    assert _estimate("device.attributes.domain.all(k, true)").max == U64


def test_a_tree_can_be_estimated_without_a_program() -> None:
    program = compile_selector(f"{GPU}.model == 'H100'")
    assert estimate_cost(program.tree) == estimate_cost(program) == program.cost_estimate


def test_paths_from_one_variable_share_their_last_name_as_upstreams_do() -> None:
    base = FieldPath.of("device").extended("attributes").extended("@values")
    key = base.extended("@keys")
    assert declared_size(key) == CostEstimate(0, 32)
    base.extended("@values")
    assert key.names()[-1] == "@values"


# --- the count ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("true", 0),
        ("device.driver == 'x'", 3),
        (f"{GPU}.model == 'H100'", 5),
        (f"has({GPU}.model)", 3),
        (f"(true ? {GPU} : {GPU}).model == 'H100'", 4),
        (f"has((true ? {GPU} : {GPU}).model)", 2),
        (f"{GPU}.missing == 'H100'", 5),
        ("[1, 2, 3].all(x, x > 0)", 16),
        ("3 in [1, 2, 3]", 0),
        (f"{GPU}.index in [1, 2, 3]", 4),
        ("1 in []", 0),
        ("cel.bind(unused, [device.driver], true)", 0),
    ],
)
def test_each_step_is_charged(expression: str, cost: int) -> None:
    assert _cost(expression) == cost


def test_a_broken_device_costs_nothing() -> None:
    broken = view_of("x", {"v": DeviceAttribute(version="1")}, {})
    counted = compile_selector("true").evaluate_with_cost(broken)
    assert (counted.result, counted.cost) == (None, 0)
    assert counted.error is not None


def test_a_result_that_is_no_bool_is_an_error_with_its_cost() -> None:
    counted = compile_selector(f"{GPU}.model").evaluate_with_cost(DEVICE)
    assert counted.error is not None
    assert counted.error.startswith("CEL result of type string could not be converted to bool")
    assert counted.cost == 4


def test_the_limit_can_be_chosen() -> None:
    program = compile_selector("[1, 2, 3].all(x, x > 0)")
    assert program.evaluate_with_cost(DEVICE, limit=16).result is True
    stopped = program.evaluate_with_cost(DEVICE, limit=15)
    assert (stopped.error, stopped.cost) == (LIMIT, 16)


# --- the limit ---------------------------------------------------------------------------------------------


def test_evaluation_stops_just_above_the_limit_and_not_below() -> None:
    def loop(rounds: int) -> str:
        return f"lists.range({rounds}).all(x, x >= 0)"

    assert _cost(loop(166_664)) == 999_996
    assert answer(loop(166_664), DEVICE) is True
    assert _cost(loop(166_665)) == 1_000_001
    assert answer(loop(166_665), DEVICE) == LIMIT


def test_the_limit_is_not_absorbed_by_logic() -> None:
    assert answer("true || lists.range(1000000).size() > 0", DEVICE) is True
    assert answer("lists.range(1000000).size() > 0 || true", DEVICE) == LIMIT


def test_a_loop_over_the_limit_by_its_estimate_runs_when_it_is_cheap() -> None:
    expression = "true"
    for name in "abcd":
        expression = f"device.attributes.all({name}, {expression})"
    assert _estimate(expression).max > MAX_COST
    assert answer(expression, DEVICE) is True


def test_a_panic_of_the_tracking_shows_even_behind_an_earlier_error() -> None:
    expression = f"{GPU}.missing in [{GPU}.missing == 1 ? 1 : 2].sort()"
    panic = "internal error: interface conversion: *types.Err is not traits.Lister: missing method Add"
    assert answer(expression, DEVICE) == panic


# --- words and results found while comparing costs ---------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "outcome"),
    [
        ("quantity('1').add(1) == quantity('2')", True),
        ("quantity('2') == quantity('1').add(1)", "no such overload"),
        ("quantity('1').add(1) == quantity('3').sub(1)", "no such overload"),
        ("quantity('2') != quantity('1').add(1)", True),
        ("lists.range(1000001).size() > 0", "lists.range: size 1000001 exceeds maximum allowed (1000000)"),
        ("int(cel.bind(v, device.driver, 'x')) > 0", "type conversion error from 'string' to 'int'"),
    ],
)
def test_upstreams_oddities_are_kept(expression: str, outcome: bool | str) -> None:
    assert answer(expression, DEVICE) == outcome
    counted = compile_selector(expression).evaluate_with_cost(DEVICE)
    assert (counted.result if counted.error is None else counted.error) == outcome


# --- both ways of running ----------------------------------------------------------------------------------

_ATOMS = st.sampled_from([
    "true", "false", f"{GPU}.model == 'H100'", f"{GPU}.index > 2", f"{GPU}.missing == 1", f"has({GPU}.x)",
    f"{GPU}.?model.orValue('') != ''", f"'index' in {GPU}", f"{GPU}.index in [1, 3]", f"{GPU}.model",
    f"device.capacity['{DOMAIN}'].memory.isGreaterThan(quantity('40Gi'))", "1 / 0 == 1",
    f"{GPU}.driverVersion.major() == 570", "[1, 2].map(x, x * 2) == [2, 4]",
    "device.driver.startsWith('gpu')",
])  # fmt: skip


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} ? {t[1]} : {t[2]})"),
        inner.map(lambda text: f"!({text})"),
        inner.map(lambda text: f"[1, 2].all(x, {text})"),
        inner.map(lambda text: f"{GPU}.exists(k, {text})"),
        inner.map(lambda text: f"[1, 2, 3].filter(x, {text}).size() > 1"),
        inner.map(lambda text: f"cel.bind(v, {text}, v || [v].size() == 1)"),
    )


SELECTORS = st.recursive(_ATOMS, _larger, max_leaves=8)


def _compiled(expression: str) -> bool:
    return not admission_problems(expression)


@given(SELECTORS.filter(_compiled))
@settings(deadline=None, max_examples=300)
def test_counting_does_not_change_the_outcome_and_stays_within_the_estimate(expression: str) -> None:
    program = compile_selector(expression)
    counted = program.evaluate_with_cost(DEVICE)
    try:
        plain: bool | str = program.evaluate(DEVICE)
    except CelRuntimeError as error:
        plain = error.message
    assert plain == (counted.result if counted.error is None else counted.error)
    assert counted.cost <= program.cost_estimate.max


@given(SELECTORS.filter(_compiled), SELECTORS.filter(_compiled))
@settings(deadline=None, max_examples=100)
def test_a_chain_costs_at_most_its_parts(left: str, right: str) -> None:
    parts = [_estimate(f"({text}) == true") for text in (left, right)]
    chain = _estimate(f"({left}) == true && ({right}) == true")
    assert chain == CostEstimate(parts[0].min, parts[0].max + parts[1].max)


# --- admission ---------------------------------------------------------------------------------------------


def test_admission_looks_at_length_then_compilation_then_cost() -> None:
    assert admission_problems(f"{GPU}.model == 'H100'") == ()
    too_long = admission_problems(f"'{'é' * (MAX_EXPRESSION_BYTES // 2)}' == 1")
    assert [(problem.reason, problem.detail) for problem in too_long] == [
        ("Too long", "may not be more than 10240 bytes")
    ]
    wrong = admission_problems("device.foo == 1")
    assert [problem.reason for problem in wrong] == ["Invalid value"]
    assert wrong[0].detail.startswith("compilation failed: ERROR: <input>:1:7: undefined field 'foo'")
    ahead = admission_problems("int('x') == 1")
    assert [(problem.reason, problem.detail) for problem in ahead] == [
        (
            "Internal error",
            "program instantiation failed: type conversion error from 'string' to 'int'",
        )
    ]
    dear = admission_problems("lists.range(1000000).all(x, x >= 0)")
    assert [(problem.reason, problem.detail) for problem in dear] == [
        ("Forbidden", "too complex, exceeds cost limit")
    ]


def test_the_longest_expression_is_let_through() -> None:
    longest = f"'{'a' * (MAX_EXPRESSION_BYTES - 8)}' != ''"
    assert len(longest) == MAX_EXPRESSION_BYTES
    assert admission_problems(longest) == ()
    assert admission_problems(longest + " ") != ()


def test_the_hook_of_validation_words_it_as_the_server_does() -> None:
    problems = Problems()
    place = "spec.selectors[0].cel.expression"
    for expression in ("true", "lists.range(1000000).all(x, x >= 0)", "device.foo == 1", "x" * 10_241):
        check_expression(problems, place, expression)
    messages = [cause.message.splitlines()[0] for cause in problems.causes]
    assert messages == [
        "Forbidden: too complex, exceeds cost limit",
        "Invalid value: \"device.foo == 1\": compilation failed: ERROR: <input>:1:7: undefined field 'foo'",
        "Too long: may not be more than 10240 bytes",
    ]
    assert {cause.path for cause in problems.causes} == {place}


def test_recorded_admission_of_selectors_agrees_with_the_server() -> None:
    compared = 0
    for line in path("data/strict-oracle.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["category"] != "cel" or record["code"] == 0 or "spec" not in record.get("object", {}):
            continue
        selectors = record["object"]["spec"].get("selectors", [])
        if len(selectors) != 1 or "expression" not in selectors[0].get("cel", {}):
            continue
        newer = {**record, **record.get("v1_37", {})}
        problems = Problems()
        check_expression(problems, "spec.selectors[0].cel.expression", selectors[0]["cel"]["expression"])
        theirs = [] if newer["accepted"] else [cause["message"] for cause in newer["causes"]]
        assert [cause.message for cause in problems.causes] == theirs, record["name"]
        compared += 1
    assert compared > 10
