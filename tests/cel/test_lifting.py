"""A selector taken apart over many devices gives what the scalar program gives, to the words of its errors."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from baro.cel import CelCompileError, CelRuntimeError, DeviceView, compile_selector
from baro.cel.columns import evaluate_columns
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
    f"cel.bind(v, {_HERE}[k], v == 1 || v == 'a')", f"{_HERE}.all(k, {_HERE}[k] != 'a')", "1 in [k, 'a'].map(s, s)",
    f"sets.contains([{_HERE}[k]], [1])", f"{_HERE}[k] == {_HERE}[k]", f"{_HERE} == device.attributes[k]",
)  # fmt: skip
_PAIR_TESTS = (
    "v == 'a'", "v == dyn(1)", "v != true", "k == v", "v > 0", "v", "v in [1, 2]", f"v == {_THERE}[k]",
    "type(v) == string", "v.size() == 2", "v.exists(j, j == 'a')", "v.exists(j, w, w == 'a')", "v == {}",
    "v.isGreaterThan(quantity('1'))", "v.includes('a')", "cel.bind(w, v, w == w)", "string(v) == 'a'",
    f"{_HERE}.exists(j, w, w == v && j != k)", "v[0] == 'a'", "v.x == 'a'", "has(v.x)", "'x' in v", "!v",
)  # fmt: skip
_WALKS = (
    "M.exists(k, T)", "M.all(k, T)", "M.exists_one(k, T)", "M.filter(k, T).size() > 0", "'x' in M.filter(k, T)",
    "M.map(k, T).exists(t, t)", f"M.map(k, T, {_HERE}[k]).exists(t, t == 'a')", "M.map(k, T).size() == 2",
    "M.exists(k, v, P)", "M.all(k, v, P)", "M.existsOne(k, v, P)", "M.transformList(k, v, P).all(t, t)",
    "M.transformList(k, v, P, v).exists(t, t == 'a')", "M.transformMap(k, v, P).exists(t, t == 'x')",
    "M.transformMap(k, v, P, k).size() == 1", "M.transformMapEntry(k, v, {v: k}).size() == 1",
    "M == {}", "M == {'x': dyn('a'), 'y': dyn(1)}", "{'x': dyn('a')} == M", "M != {'x': dyn(semver('1.0.0'))}",
    "M == {'d': {'x': dyn(1)}}", "{'d': {'x': dyn('a')}, 'q': {}} == M", "{'d': dyn(1)} != M", "M == N", "M != N",
    "M == {'m': quantity('1')}", "{'m': dyn(quantity('1000m'))} == M", "{dyn(1): dyn('a')} == M", "M.size() == 1",
    "M[K] == 'a'", "M[K] != dyn(1)", "has(M.x)", "M.?x.orValue(dyn('a')) == 'a'", "K in M", "M[?K].hasValue()",
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
