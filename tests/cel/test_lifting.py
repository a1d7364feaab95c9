"""A selector taken apart over many devices gives what the scalar program gives, its errors word by word."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.cel import CelCompileError, CelRuntimeError, DeviceView, compile_selector
from baro.cel.columns import evaluate_columns
from baro.cel.folds import WORK_LIMIT
from baro.cel.lifting import outcomes
from baro.cel.vectors import NotLifted, Space
from baro.model.quantity import Quantity
from baro.model.semver import SemVer
from tests.support.cel_generator import VIEWS, many, texts, well_typed
from tests.support.cel_table import ListTable

_HERE, _THERE = "device.attributes['d']", "device.attributes['e']"


def _scalar(expression: str, view: DeviceView) -> tuple[int, str | None]:
    try:
        return int(compile_selector(expression).evaluate(view)), None
    except CelRuntimeError as error:
        return 2, error.message


def _agree(expression: str, views: list[DeviceView]) -> None:
    table = ListTable(views)
    result = evaluate_columns(compile_selector(expression), table, lift_from=0)
    found = [(int(outcome), result.error(row)) for row, outcome in enumerate(result.outcome)]
    assert found == [_scalar(expression, table.view(row)) for row in range(table.size)]


_VERSION = SemVer.parse("1.0.0")
_VALUES = st.one_of(
    st.booleans(),
    st.integers(-1, 2),
    st.sampled_from(["a", "b", "x", "y", "d"]),
    st.sampled_from([_VERSION, SemVer.parse("2.0.0")]),
    st.sampled_from([("a", "b"), (), (1, 2)]),
)
_AMOUNTS = st.sampled_from([Quantity.parse("1"), Quantity.parse("2"), Quantity.parse("1000m")])
_VIEWS = st.builds(
    DeviceView,
    driver=st.sampled_from(["d", "e"]),
    attributes=st.dictionaries(  # a domain is only there when it has a value
        st.sampled_from(["d", "e", "f"]), st.dictionaries(st.sampled_from("xyz"), _VALUES, min_size=1)
    ),
    capacity=st.dictionaries(
        st.sampled_from("de"), st.dictionaries(st.sampled_from("mn"), _AMOUNTS, min_size=1)
    ),
    allow_multiple_allocations=st.booleans(),
    broken=st.sampled_from([None, None, None, None, "attribute v: broken"]),
)
_MAPS = (
    _HERE, _THERE, "device.attributes['none']", "device.attributes[device.driver]", "device.capacity['d']",
    "device.attributes", "device.capacity", "cel.bind(m, device.attributes, m['d'])",
    f"(device.driver == 'd' ? {_HERE} : {_THERE})", f"dyn({_HERE})", "device.attributes[?'d'].orValue({})",
)  # fmt: skip
_KEYS = ("k", "'x'", "device.driver", f"string({_HERE}.x)", "dyn(1)")
_TESTS = (
    "k == 'x'", "k != 'd'", "k < 'y'", "k.startsWith('x')", f"{_HERE}[k] == 'a'", f"{_HERE}[k] == dyn(1)",
    f"{_HERE}[k] != true", f"{_THERE}[k] == {_HERE}[k]", f"has({_HERE}.x)", f"k in {_THERE}",
    f"{_HERE}[k] > 0", f"{_HERE}[k]", f"{_HERE}[?k].orValue(dyn('a')) == 'a'", f"{_HERE}[k] in ['a', k]",
    f"{_HERE}[k].compareTo(semver('1.0.0')) == 0", "device.allowMultipleAllocations",
    f"{_HERE}.exists(j, j != k && {_HERE}[j] == {_HERE}[k])", f"{_HERE}.y == k", f"{_HERE}.size() > 1",
    f"int({_HERE}[k]) == 1", "int(k) == 1", f"{_HERE}[k].includes('a')", f"{_HERE}.x == {_THERE}.z",
    "device.attributes[k].size() == 1", "device.attributes[k].exists(j, device.attributes[k][j] == 'a')",
    "device.capacity[k].all(j, device.capacity[k][j].isGreaterThan(quantity('1')))", f"{_HERE}[k][0] == 'a'",
    "1 / (size(k) - 1) > 0", f"[{_HERE}[k], 1].exists(v, v == {_HERE}[k])", "k.matches('^[xd]$')",
    f"cel.bind(v, {_HERE}[k], v == 1 || v == 'a')", f"{_HERE}.all(k, {_HERE}[k] != 'a')",
    "1 in [k, 'a'].map(s, s)",
    f"sets.contains([{_HERE}[k]], [1])", f"{_HERE}[k] == {_HERE}[k]", f"{_HERE} == device.attributes[k]",
)  # fmt: skip
_PAIR_TESTS = (
    "v == 'a'", "v == dyn(1)", "v != true", "k == v", "v > 0", "v", "v in [1, 2]", f"v == {_THERE}[k]",
    "type(v) == string", "v.size() == 2", "v.exists(j, j == 'a')", "v.exists(j, w, w == 'a')", "v == {}",
    "v.isGreaterThan(quantity('1'))", "v.includes('a')", "cel.bind(w, v, w == w)", "string(v) == 'a'",
    f"{_HERE}.exists(j, w, w == v && j != k)", "v[0] == 'a'", "v.x == 'a'", "has(v.x)", "'x' in v", "!v",
)  # fmt: skip
_WALKS = (
    "M.exists(k, T)", "M.all(k, T)", "M.exists_one(k, T)", "M.filter(k, T).size() > 0",
    "'x' in M.filter(k, T)",
    "M.map(k, T).exists(t, t)", f"M.map(k, T, {_HERE}[k]).exists(t, t == 'a')", "M.map(k, T).size() == 2",
    "M.exists(k, v, P)", "M.all(k, v, P)", "M.existsOne(k, v, P)", "M.transformList(k, v, P).all(t, t)",
    "M.transformList(k, v, P, v).exists(t, t == 'a')", "M.transformMap(k, v, P).exists(t, t == 'x')",
    "M.transformMap(k, v, P, k).size() == 1", "M.transformMapEntry(k, v, {v: k}).size() == 1",
    "M == {}", "M == {'x': dyn('a'), 'y': dyn(1)}", "{'x': dyn('a')} == M",
    "M != {'x': dyn(semver('1.0.0'))}",
    "M == {'d': {'x': dyn(1)}}", "{'d': {'x': dyn('a')}, 'q': {}} == M", "{'d': dyn(1)} != M", "M == N",
    "M != N",
    "M == {'m': quantity('1')}", "{'m': dyn(quantity('1000m'))} == M", "{dyn(1): dyn('a')} == M",
    "M.size() == 1",
    "M[K] == 'a'", "M[K] != dyn(1)", "has(M.x)", "M.?x.orValue(dyn('a')) == 'a'", "K in M",
    "M[?K].hasValue()", "M.map(k, k).filter(s, s != 'x').size() == K.size()", "N.x in M.map(k, M[k])",
    "cel.bind(l, M.map(k, k), l.exists(s, s == 'x') || l.size() > 2)", "cel.bind(b, M.exists(k, T), b && b)",
    "M.map(k, k).join(',') == 'x,y'", "M.all(k, T) == M.exists(k, T)", "(M.exists(k, T) ? M : N).size() > 1",
    "M[K].exists(k, T)", "M.exists(k, T) || device.driver == 'd'", "[M.exists(k, T), true].all(b, b)",
    "optional.of(M.exists(k, T)).or(optional.none()).orValue(false)", "M.map(k, M[k]) == N.map(k, N[k])",
)  # fmt: skip


@st.composite
def _walks(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(_WALKS))
    for name, choice in (("M", _MAPS), ("N", _MAPS), ("K", _KEYS), ("T", _TESTS), ("P", _PAIR_TESTS)):
        chosen = draw(st.sampled_from(choice))
        text = "".join(chosen if part == name else part for part in _split(text, name))
    return text


def _split(text: str, name: str) -> list[str]:
    """The text around a letter that stands alone."""
    found = [""]
    for place, char in enumerate(text):
        around = text[max(place - 1, 0) : place] + text[place + 1 : place + 2]
        if char == name and not any(other.isalnum() or other == "'" for other in around):
            found += [name, ""]
        else:
            found[-1] += char
    return found


_EXPRESSIONS = st.recursive(
    _walks(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" && ", " || "]), inner).map(lambda parts: f"({''.join(parts)})"),
        inner.map(lambda part: f"!({part})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} ? {t[1]} : {t[2]})"),
    ),
    max_leaves=3,
)


@settings(deadline=None, max_examples=many(400))
@given(_EXPRESSIONS, st.lists(_VIEWS, min_size=1, max_size=12))
def test_walks_over_maps_agree_with_the_scalar_program(expression: str, views: list[DeviceView]) -> None:
    try:
        compile_selector(expression)
    except CelCompileError:
        return
    _agree(expression, views)


@settings(deadline=None, max_examples=many(400))
@given(texts(well_typed))
def test_any_expression_agrees_with_the_scalar_program(expression: str) -> None:
    try:
        compile_selector(expression)
    except CelCompileError:
        return
    _agree(expression, list(VIEWS))


def _numbered(count: int) -> list[DeviceView]:
    return [
        DeviceView(
            driver="d",
            attributes={"d": {"uuid": f"GPU-{number}", "clique": number // 8, "type": "gpu"}},
            capacity={"d": {"memory": Quantity.parse(f"{number + 1}Gi")}},
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        (f"{_HERE}.exists(k, {_HERE}[k] == dyn('GPU-7'))", [7]),
        (f"{_HERE}.exists(k, v, k == 'clique' && v == 1)", list(range(8, 16))),
        (f"!{_HERE}.all(k, {_HERE}[k] != dyn('GPU-3'))", [3]),
        ("device.attributes.exists(d, m, m.exists(k, v, v == 'GPU-9'))", [9]),
        (f"{_HERE}.exists_one(k, string({_HERE}[k]).endsWith('9'))", [9, 19]),
        (f"{_HERE}.filter(k, string({_HERE}[k]).endsWith('5')).size() == 1", [5, 15]),
        (f"dyn('GPU-4') in {_HERE}.map(k, {_HERE}[k])", [4]),
        (f"{_HERE} == {{'uuid': dyn('GPU-2'), 'clique': dyn(0), 'type': dyn('gpu')}}", [2]),
        ("device.attributes[device.driver].uuid.endsWith('-6')", [6]),
        ("device.capacity['d'].all(k, v, v.isLessThan(quantity('3Gi')))", [0, 1]),
        ("device.attributes != {}", list(range(20))),
        (f"{_HERE}.uuid.endsWith('1') && {_HERE}.clique == 1", [11]),
    ],
)
def test_devices_that_all_differ_are_found(expression: str, selected: list[int]) -> None:
    views = _numbered(20)
    table = ListTable(views)
    answers = outcomes(compile_selector(expression), table, np.arange(20))
    assert answers is not None
    assert [row for row, answer in enumerate(answers) if answer is True] == selected
    _agree(expression, views)


def test_the_order_of_domains_decides_which_error_is_told() -> None:
    views = [
        DeviceView(driver="d", attributes={"d": {"x": 1}, "e": {"y": "a"}}),
        DeviceView(driver="d", attributes={"e": {"y": "a"}, "d": {"z": 1}}),
    ]
    expression = "device.attributes.all(d, device.attributes[d][d] == 1)"
    _agree(expression, views)
    result = evaluate_columns(compile_selector(expression), ListTable(views), lift_from=0)
    assert [result.error(row) for row in range(2)] == ["no such key: d", "no such key: e"]


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (f"{_HERE}.exists(k, {_THERE}[k] == 1)", "no such key: x"),
        (f"{_HERE}.exists_one(k, {_THERE}[k] == 1)", "no such key: y"),
        (f"{_HERE}.map(k, {_THERE}[k]).size() == 0", "no such key: x"),
        (f"{_HERE}.filter(k, {_THERE}[k] == 1).size() == 0", "no such key: y"),
        (f"{_HERE}.filter(k, k == 'x' ? {_HERE}[k] : {_THERE}[k]).size() == 0", "no such overload"),
        (f"{_HERE}.map(k, {_THERE}[k]).exists(v, v == 1)", "no such key: x"),
        (f"{_HERE}.none in {_HERE}.map(k, {_THERE}[k])", "no such key: none"),
        (f"{_HERE}.none == 1 && {_THERE}.none == 1 && {_HERE}.exists(k, k == 'x')", "no such key: none"),
        (f"{_HERE}.exists(k, k == 'x') && {_HERE}.x == 1 && {_THERE}.y == 1", "no such key: y"),
    ],
)
def test_the_error_that_counts_is_that_of_the_scalar_program(expression: str, error: str) -> None:
    views = [DeviceView(driver="d", attributes={"d": {"x": 1, "y": 2}, "e": {"q": row}}) for row in range(3)]
    answers = outcomes(compile_selector(expression), ListTable(views), np.arange(3))
    assert answers is not None
    assert [str(answer) for answer in answers] == [error] * 3
    _agree(expression, views)


def test_a_walk_of_very_many_rounds_is_left_to_the_scalar_program() -> None:
    views = [
        DeviceView(driver="d", attributes={"d": {f"k{key}": key + row for key in range(30)}})
        for row in range(3)
    ]
    pairs = f"{_HERE}.all(a, {_HERE}.all(b, {_HERE}[a] != 7 || a != b || {_HERE}[b] == 7))"
    assert outcomes(compile_selector(pairs), ListTable(views), np.arange(3)) is None
    _agree(pairs, views)


def test_work_that_may_pass_the_limit_on_one_device_is_left_to_the_scalar_program() -> None:
    space = Space(ListTable(_numbered(3)), np.arange(3))
    space.spend(WORK_LIMIT // 2)
    with pytest.raises(NotLifted):
        space.spend(WORK_LIMIT // 2)


def test_what_may_cost_too_much_by_its_estimate_is_never_taken_apart() -> None:
    costly = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, a + b + c != a)))"
    program = compile_selector(f"{costly} && {costly}")
    assert program.counting
    assert outcomes(program, ListTable(_numbered(3)), np.arange(3)) is None


def test_a_selector_without_joints_is_not_taken_apart() -> None:
    program = compile_selector(f"{_HERE}.uuid.endsWith('7')")
    assert outcomes(program, ListTable(_numbered(3)), np.arange(3)) is None
