"""Expressions that make an attribute: what is refused, in which words, and what comes out."""

from __future__ import annotations

from typing import Any

import pytest

from baro.cel import (
    CelCompileError,
    CelRuntimeError,
    DeviceView,
    admission_problems,
    check_expression,
    compile_attribute,
    compile_selector,
)
from baro.cel.environment import EnvironmentName
from baro.model.semver import SemVer
from baro.model.validation import Problems, judge_create
from baro.model.validation.rules import Rules

_GPU = DeviceView(driver="d", attributes={"d": {"numa": 1, "version": SemVer.parse("1.2.0"), "tags": ("a",)}})
_SCALAR = "must evaluate to a primitive scalar (string, integer, boolean, semver)"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("true", ("bool", True)),
        ("device.attributes['d'].numa * 2", ("int", 2)),
        ("device.driver + '-0'", ("string", "d-0")),
        ("device.attributes['d'].version", ("version", "1.2.0")),
        ("[device.attributes['d'].version]", ("versions", ("1.2.0",))),
        ("device.attributes['d'].tags", ("strings", ("a",))),
        ("device.attributes['d'].map(k, k)", ("strings", ("numa", "version", "tags"))),
        ("[1, 2].filter(x, x > 5)", ("strings", ())),
    ],
)
def test_the_result_is_an_attribute_of_its_type(expression: str, value: object) -> None:
    assert compile_attribute(expression).evaluate(_GPU) == value


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("dyn(1.5)", "unsupported CEL return type: float64"),
        ("dyn([[1]])", "unsupported list element type: list"),
        ("[dyn(1), dyn('a')]", "expected list element at index 1 to be int, got string"),
        ("device.attributes['d'].missing", "no such key: missing"),
        ("lists.range(100000).map(x, x).size()", "operation cancelled: actual cost limit exceeded"),
    ],
)
def test_a_result_that_is_no_attribute_is_an_error(expression: str, error: str) -> None:
    with pytest.raises(CelRuntimeError) as caught:
        compile_attribute(expression).evaluate(_GPU)
    assert caught.value.message == error


@pytest.mark.parametrize(
    ("expression", "environment", "error"),
    [
        ("[1, 2, 3]", "admission", f"{_SCALAR}, not list(int)"),
        (
            "device.attributes",
            "admission",
            f"{_SCALAR}, not map(string, map(string, google.protobuf.Any))",
        ),
        (
            "[device.attributes]",
            "stored",
            f"{_SCALAR} or a list of these scalars, not list(map(string, map(string, dyn)))",
        ),
        ("null", "stored", f"{_SCALAR} or a list of these scalars, not null_type"),
        ("1.5", "stored", f"{_SCALAR} or a list of these scalars, not double"),
        (
            "int('x')",
            "stored",
            "program instantiation failed: type conversion error from 'string' to 'int'",
        ),
    ],
)
def test_other_types_and_what_cannot_be_planned_are_refused_in_upstreams_words(
    expression: str, environment: EnvironmentName, error: str
) -> None:
    with pytest.raises(CelCompileError) as caught:
        compile_attribute(expression, environment)
    assert caught.value.message == error


def test_any_attribute_may_be_taken_over_and_a_list_only_by_stored_expressions() -> None:
    assert admission_problems("device.attributes['d'].numa", derived=True) == ()
    assert admission_problems("dyn('a')", derived=True) == ()
    assert admission_problems("[1]", derived=True) != ()
    assert admission_problems("[1]", "stored", derived=True) == ()


def test_a_selector_and_an_attribute_of_the_same_text_are_not_confused() -> None:
    assert compile_attribute("42").evaluate(_GPU) == ("int", 42)
    with pytest.raises(CelCompileError, match="must evaluate to bool"):
        compile_selector("42")
    assert compile_attribute("42").evaluate(_GPU) == ("int", 42)


def _claim(*expressions: str) -> dict[str, Any]:
    names = [f"example.com/a{number}" for number in range(len(expressions))]
    derived = [{"name": name, "expression": text} for name, text in zip(names, expressions, strict=True)]
    exactly = {"deviceClassName": "gpu", "count": 2, "derivedAttributes": derived}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [{"name": "r", "exactly": exactly}],
                "constraints": [{"matchAttribute": name} for name in names],
            }
        },
    }


_RULES = Rules("1.37", frozenset({"DRADerivedAttributes"}))
_FIRST = "spec.devices.requests[0].exactly.derivedAttributes[0].expression"
_HEAVY = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, a + b != c)))"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("device.attributes['d'].numa / 2", None),
        ("true", None),
        ("[1]", f'Invalid value: "[1]": {_SCALAR}, not list(int)'),
        ("1 +", 'Invalid value: "1 +": compilation failed: ERROR: <input>:1:4: Syntax error: '),
        ("'" + "x" * 10_240 + "'", "Too long: may not be more than 10240 bytes"),
    ],
)
def test_validation_of_a_claim_judges_its_derived_attributes(expression: str, message: str | None) -> None:
    causes = judge_create(_claim(expression), _RULES, cel=check_expression).causes
    if message is None:
        assert causes == ()
    else:
        (cause,) = causes
        assert cause.path == _FIRST
        assert cause.message.startswith(message)


def test_the_derived_attributes_of_a_claim_have_one_budget_together() -> None:
    problems = Problems()
    cost = check_expression(problems, "x", _HEAVY, derived=True)
    assert problems.causes == ()
    assert 400_000 < cost <= 1_000_000
    assert judge_create(_claim(_HEAVY), _RULES, cel=check_expression).causes == ()
    (cause,) = judge_create(_claim(*[_HEAVY] * (1_000_000 // cost + 1)), _RULES, cel=check_expression).causes
    assert (cause.path, cause.message) == (
        "spec.devices",
        "Forbidden: too complex, total cost of derived attribute CEL expressions in the claim exceeds cost "
        "limit",
    )


def test_a_derived_attribute_that_costs_too_much_alone_is_told_twice() -> None:
    expression = f"{_HEAVY} && {_HEAVY} && {_HEAVY}"
    causes = judge_create(_claim(expression), _RULES, cel=check_expression).causes
    assert [cause.path for cause in causes] == [_FIRST, "spec.devices"]
    assert causes[0].message == "Forbidden: too complex, exceeds cost limit"
