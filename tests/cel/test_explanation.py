"""Conditions of a selector one by one: they add up to what the selector gives, and stand where they say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from baro.cel import (
    CelCompileError,
    CelRuntimeError,
    Clause,
    ColumnRef,
    DeviceView,
    Reading,
    compile_selector,
)
from tests.support.cel_generator import texts, views, well_typed

_DEVICE = DeviceView(driver="gpu.nvidia.com", attributes={"a": {"x": 1, "y": 3, "model": "L40S"}})


def _outcomes(text: str, device: DeviceView = _DEVICE) -> list[tuple[str, bool | str | None]]:
    clauses = compile_selector(text).explain(device)
    return [(clause.text, clause.error or clause.value) for clause in clauses]


def _all(clauses: tuple[Clause, ...]) -> Iterator[Clause]:
    for clause in clauses:
        yield clause
        yield from _all(clause.parts)


def test_each_operand_of_the_outermost_and_is_a_clause_with_its_outcome() -> None:
    text = (
        "device.driver == 'gpu.nvidia.com' && (device.attributes['a'].x > 1) && device.attributes['a'].gone"
    )
    assert _outcomes(text) == [
        ("device.driver == 'gpu.nvidia.com'", True),
        ("device.attributes['a'].x > 1", False),
        ("device.attributes['a'].gone", "no such key: gone"),
    ]


def test_alternatives_are_the_parts_of_a_clause() -> None:
    text = "device.driver == 'x' || device.attributes['a'].x == 1 && device.attributes['a'].y == 4"
    (clause,) = compile_selector(text).explain(_DEVICE)
    assert (clause.operator, clause.value) == ("||", False)
    assert [(part.operator, part.value) for part in clause.parts] == [("", False), ("&&", False)]
    assert [part.value for part in clause.parts[1].parts] == [True, False]


def test_a_clause_stands_at_its_line_and_column() -> None:
    text = "device.driver == 'x'\n  && (\n\tdevice.attributes['a'].x == 2)"
    clause = compile_selector(text).explain(_DEVICE)[1]
    assert (clause.line, clause.column, clause.start) == (3, 2, text.index("device.attributes"))
    assert text[clause.start : clause.end] == clause.text == "device.attributes['a'].x == 2"


def test_a_clause_tells_the_values_it_looked_at() -> None:
    clause, other = compile_selector(
        "device.attributes['a'].model == 'H100' && has(device.attributes['b'].gone)"
    ).explain(_DEVICE)
    assert clause.reads == (Reading(ColumnRef("attribute", "a", "model"), "L40S"),)
    assert other.reads == (Reading(ColumnRef("attribute", "b", "gone"), None),)


def test_conditions_inside_of_a_binding_are_told_apart() -> None:
    text = "cel.bind(a, device.attributes['a'], cel.bind(n, a.x + 1, a.model == 'H100' && n == 2))"
    assert _outcomes(text) == [("a.model == 'H100'", False), ("n == 2", True)]


def test_a_macro_or_a_negation_is_one_condition_that_may_read_the_whole_map() -> None:
    first, second = compile_selector(
        "device.attributes['a'].exists(k, k == 'x') && !(device.driver == 'x' && true)"
    ).explain(_DEVICE)
    assert (first.value, first.parts, first.whole_map) == (True, (), True)
    assert (second.value, second.parts, second.whole_map) == (True, (), False)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("device.attributes['a'].x", "unsupported type conversion from 'int' to bool"),
        ("device.attributes['a'].x && true", "no such overload"),
    ],
)
def test_a_condition_that_is_no_bool_has_an_error(text: str, outcome: str) -> None:
    clause = compile_selector(text).explain(_DEVICE)[0]
    assert clause.value is None
    assert clause.error is not None and outcome in clause.error


def test_a_device_that_cannot_be_converted_has_no_conditions() -> None:
    broken = DeviceView(driver="d", broken="attribute v: unsupported attribute value")
    with pytest.raises(CelRuntimeError, match="unsupported attribute value"):
        compile_selector("device.driver == 'd' && true").explain(broken)


def test_the_deepest_nesting_that_compiles_is_explained() -> None:
    text = "true && (" * 240 + "false" + ")" * 240
    clauses = compile_selector(text).explain(_DEVICE)
    assert [clause.value for clause in clauses] == [True] * 240 + [False]


@settings(deadline=None, max_examples=200)
@given(texts(well_typed), views())
def test_clauses_add_up_to_the_result(text: str, device: DeviceView) -> None:
    try:
        program = compile_selector(text)
    except CelCompileError:  # a bad literal
        return
    clauses = program.explain(device)
    try:
        result: bool | str = program.evaluate(device)
    except CelRuntimeError as error:
        result = error.message
    values = [clause.value for clause in clauses]
    if result is True:
        assert all(values)
    elif result is False:
        assert False in values
    else:
        assert result in [clause.error for clause in clauses]
    for clause in _all(clauses):
        assert text[clause.start : clause.end] == clause.text
        assert (clause.value is None) == (clause.error is not None)
