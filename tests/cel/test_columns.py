"""A selector over a table gives, row by row, what the scalar program gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.cel import CelRuntimeError, DeviceView, compile_selector
from baro.cel.columns import ERROR, FALSE, TRUE, evaluate_columns
from baro.model.quantity import Quantity
from baro.model.semver import SemVer
from tests.support.cel_generator import many
from tests.support.cel_table import ListTable


def _scalar(expression: str, view: DeviceView) -> int:
    try:
        return TRUE if compile_selector(expression).evaluate(view) else FALSE
    except CelRuntimeError:
        return ERROR


_VALUES = st.one_of(
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from(["a", "b", "1"]),
    st.sampled_from([SemVer.parse("1.0.0"), SemVer.parse("2.0.0")]),
    st.sampled_from([("a", "b"), ()]),
)
_VIEWS = st.builds(
    DeviceView,
    driver=st.sampled_from(["d", "e"]),
    attributes=st.dictionaries(  # a domain is only there when it has a value
        st.sampled_from(["d", "e"]), st.dictionaries(st.sampled_from("xyz"), _VALUES, min_size=1)
    ),
    capacity=st.dictionaries(
        st.just("d"),
        st.dictionaries(
            st.just("m"), st.sampled_from([Quantity.parse("1"), Quantity.parse("2")]), min_size=1
        ),
    ),
    allow_multiple_allocations=st.booleans(),
    broken=st.sampled_from([None, None, None, "attribute v: broken"]),
)
_ATOMS = (
    "device.driver == 'd'", "device.attributes['d'].x == 'a'", "device.attributes['d'].x != 1",
    "device.attributes['d'].y in ['a', 'b']", "device.attributes['e'].y in [1, 2]",
    "has(device.attributes['d'].z)", "'z' in device.attributes['e']",
    "device.attributes['d'].?x.orValue(1) == 1",
    "device.attributes['d'].x > 1", "device.attributes['e'].z.compareTo(semver('1.0.0')) == 0",
    "device.capacity['d'].m.isGreaterThan(quantity('1'))", "device.allowMultipleAllocations",
    "device.attributes['d'].x.includes('a')", "device.attributes['d'].size() == 1",
    "device.attributes['d'].x",
    "device.attributes['d'].exists(k, k == 'x')", "device.attributes.exists(d, d == 'e')",
    "device.attributes.all(d, device.attributes[d].exists(k, k in ['x', 'y']))",
    "device.attributes['d'].all(k, device.attributes['d'][k] != 'a')",
    "device.attributes == device.attributes", "device.attributes['d'] == {'x': dyn('a'), 'y': dyn('b')}",
    "'d' in device.attributes", "device.capacity['d'].size() > 0", "has(device.attributes[device.driver].x)",
    "device.attributes[device.driver].x == 'a'", "device == device", "size(device.capacity) == 1",
    "cel.bind(m, device.attributes, m['d'].size() + m.size() > 2)",
    "device.attributes.exists(d, m, m.exists(k, k == 'z'))", "device.attributes['d'].exists(k, v, v == 'a')",
    "device.attributes['e'].map(k, device.attributes['e'][k]).size() == 1",
    "device.attributes[?'d'].hasValue()", "dyn(device.attributes).size() == 1",
    "device.attributes['d'].exists(k, device.attributes['e'][k] == device.attributes['d'][k])",
    "cel.bind(d, device.attributes['d'], d.all(k, has(d.x) && k < 'z'))",
    "device.capacity.all(d, m, m.all(k, v, v.isGreaterThan(quantity('1'))))",
    "device.attributes['d'][?device.driver].orValue(dyn(1)) == 1",
    "(true ? device.attributes['d'] : {}).size() == 1",
)  # fmt: skip
_EXPRESSIONS = st.recursive(
    st.sampled_from(_ATOMS),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" && ", " || "]), inner).map(lambda parts: f"({''.join(parts)})"),
        inner.map(lambda part: f"!({part})"),
    ),
    max_leaves=4,
)


@settings(deadline=None, max_examples=many(400))
@given(_EXPRESSIONS, st.lists(_VIEWS, max_size=12))
def test_columns_and_scalar_program_agree(expression: str, views: list[DeviceView]) -> None:
    result = evaluate_columns(compile_selector(expression), ListTable(views))
    assert result.outcome.tolist() == [_scalar(expression, view) for view in views]
    if result.columns is not None:
        assert sum(entry.count for entry in result.tuples if entry.values or not result.columns) <= len(views)


def _numbered(count: int) -> list[DeviceView]:
    return [
        DeviceView(driver="d", attributes={"d": {"uuid": f"GPU-{number}", "type": "gpu"} if number else {}})
        for number in range(count)
    ]


def test_a_column_of_unique_values_is_not_enumerated_when_it_is_only_compared() -> None:
    expression = "device.attributes['d'].uuid == 'GPU-7' || device.attributes['d'].uuid in ['GPU-9', 'none']"
    result = evaluate_columns(compile_selector(expression), ListTable(_numbered(200)))
    assert np.flatnonzero(result.outcome == TRUE).tolist() == [7, 9]
    assert result.outcome[0] == ERROR
    assert result.error(0) == "no such key: uuid"
    assert len(result.tuples) == 4


def test_the_outcome_per_tuple_explains_why_nothing_matches() -> None:
    views = [DeviceView(driver="d", attributes={"d": {"model": model}}) for model in ("A100", "A100", "L40S")]
    result = evaluate_columns(compile_selector("device.attributes['d'].model == 'H100'"), ListTable(views))
    assert {(entry.values, entry.outcome, entry.count) for entry in result.tuples} == {
        (("A100",), FALSE, 2),
        (("L40S",), FALSE, 1),
    }


def test_an_empty_table_has_no_outcomes() -> None:
    assert evaluate_columns(compile_selector("device.driver == 'd'"), ListTable([])).outcome.tolist() == []
