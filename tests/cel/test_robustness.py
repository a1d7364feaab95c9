"""No text and no device makes the engine do anything but answer or raise its two documented errors."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.cel import (
    MAX_EXPRESSION_BYTES,
    CelCompileError,
    CelRuntimeError,
    DeviceView,
    admission_problems,
    compile_selector,
)
from tests.support.cel_generator import VIEWS, ill_typed, many, mixed, texts

_PIECES = [
    *"()[]{}.,?:!-+*/%<>=&|@#\\'\"`\n\t \0é日🎉",
    *("==", "&&", "||", " in ", "1", "0x", "1e", "1u", "9" * 30, "'a'", '"""', "r'", "b'", "true", "null"),
    *("x", "if", "device", ".attributes", "['a']", "has(", "size(", "exists(", "map(", "cel.bind(", ".?"),
    *("[?", "//"),
    *("\\x", "\\u12", "matches('", "(a*)*", "x{1000}", "format([", "%s", "%.99999999f", "duration('"),
    *("timestamp('", "quantity('"),
]  # fmt: skip


def _answers(text: str, *devices: DeviceView) -> None:
    """Every way in; anything but the documented errors is let through."""
    admission_problems(text)
    try:
        program = compile_selector.__wrapped__(text)
    except CelCompileError as error:
        assert error.message
        return
    assert program.cost_estimate.max >= 0
    for device in devices:
        try:
            program.evaluate(device)
        except CelRuntimeError as error:
            assert error.message
        program.evaluate_with_cost(device)
        program.explain(device)


@settings(deadline=None, max_examples=many(300))
@given(st.text(max_size=60))
def test_any_text_is_answered(text: str) -> None:
    _answers(text, *VIEWS)


@settings(deadline=None, max_examples=many(300))
@given(st.lists(st.sampled_from(_PIECES), max_size=40))
def test_any_sequence_of_tokens_is_answered(pieces: list[str]) -> None:
    _answers("".join(pieces), *VIEWS)


@settings(deadline=None, max_examples=many(200))
@given(texts(mixed, depth=6))
def test_any_expression_is_answered_on_any_device(text: str) -> None:
    _answers(text, *VIEWS)


@settings(deadline=None, max_examples=many(100))
@given(st.binary(max_size=60))
def test_bytes_that_are_no_text_are_answered(data: bytes) -> None:
    _answers(data.decode("utf-8", "surrogateescape"), VIEWS[0])


@pytest.mark.parametrize("count", [249, 250, 251, 500, 3000])
@pytest.mark.parametrize(
    "nested",
    [
        "{open}true{close}", "{not_}true", "{dyn}1{close} == 1", "[1]{index}", "a{select}",
        "{list}{unlist} == []", "true{and_}", "1{plus} > 0", "{ternary}true{colon}", "{map}1{unmap} == 1",
        "[1]{all_}true{close}",
        "{open}", "{list}", "{and_}", "{select}", "'a'{method}", "{bind}true{close}", "{minus}1 == 1",
        "{cond}true", "true{alternatives}",
    ],
)  # fmt: skip
def test_nesting_is_refused_or_answered_and_never_overflows_the_stack(nested: str, count: int) -> None:
    parts = {
        "open": "(", "close": ")", "not_": "!(", "dyn": "dyn(", "index": "[0]", "select": ".b", "list": "[",
        "unlist": "]", "and_": " && true", "plus": " + 1", "ternary": "true ? (", "colon": ") : false",
        "map": "{'a': ", "unmap": "}", "all_": ".all(x, [1]", "method": ".trim()", "bind": "cel.bind(a, 1, ",
        "minus": "-(", "cond": "true ? true : ", "alternatives": " || true",
    }  # fmt: skip
    limit = sys.getrecursionlimit()
    _answers(nested.format(**{name: part * count for name, part in parts.items()}), VIEWS[0])
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize(
    "text",
    [
        "'" + "a" * 60_000 + "' == ''",
        "[" + "1, " * 20_000 + "1].size() > 1",
        "{" + ", ".join(f"'{key}': {key}" for key in range(5_000)) + "}.size() > 1",
        "9" * 50_000 + " == 1",
        "1." + "9" * 50_000 + " == 1.0",
        "0x" + "f" * 50_000 + " == 1",
        "a" * 90_000,
        "a" * 150_000,
        "'%." + "9" * 500 + "f'.format([1.0]) == ''",
        "'%s'.format([" * 100 + "1" + "])" * 100 + " == ''",
        "lists.range(9223372036854775807).size() > 1",
        "lists.range(1000000).map(x, lists.range(1000000)).size() > 1",
        "'a'.matches('" + "(a*)*" * 500 + "$')",
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'.matches('^(a+)+$')",
        "'a'.matches('a{1000}{1000}')",
        "'a'.matches('" + "(" * 2_000 + ")" * 2_000 + "')",
        "'x'.replace('', 'yyyyyyyyyy').replace('', 'zzzzzzzzzz').replace('', 'wwwwwwwwwwwwwwwww').size() > 1",
        "[1, 2, 3, 4].map(a, [1, 2, 3, 4].map(b, [1, 2, 3, 4].map(c, [1, 2, 3, 4].map(d, 'x')))).size() == 4",
        "google.protobuf.Duration{seconds: dyn('aaaaaaaaaaaaaaaaaaaa')} == duration('1s')",
        "'\\ud800' == 'x'",
        "'\\U00110000' == 'x'",
        "'\\x00'.size() == 1 && '\\000' == '\\u0000'",
        "timestamp(9223372036854775807) > timestamp(0)",
        "timestamp('9999-12-31T23:59:59Z') + duration('2562047h') > timestamp(0)",
        "duration('9223372036854775807ns') + duration('1ns') > duration('0s')",
        "-9223372036854775808 / -1 == 0 || -(-9223372036854775808) == 0 || -9223372036854775808 % -1 == 0",
        "quantity('1e9223372036854775807').isGreaterThan(quantity('1'))",
        "quantity('1e-99999999999').add(quantity('9E')).isInteger()",
        "semver('99999999999999999999.0.0').major() == 0",
        "int('" + "9" * 10_000 + "') == 1 || double('1e999999999') == 1.0",
        "url('http://[' ).getHost() == ''",
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_extremes_are_answered(text: str) -> None:
    _answers(text, *VIEWS)


@pytest.mark.parametrize("length", [MAX_EXPRESSION_BYTES, MAX_EXPRESSION_BYTES + 1])
def test_the_limit_of_10_kib_counts_bytes(length: int) -> None:
    text = f"'{'é' * ((length - len(' != ') - 4) // 2)}{'a' * (length % 2)}' != ''"
    assert len(text.encode()) == length
    refused = [problem.reason for problem in admission_problems(text)]
    assert refused == (["Too long"] if length > MAX_EXPRESSION_BYTES else [])


def test_what_costs_too_much_on_a_device_stops_with_upstreams_words() -> None:
    text = "lists.range(1000).all(a, lists.range(1000).all(b, a + b >= 0))"
    with pytest.raises(CelRuntimeError, match="operation cancelled: actual cost limit exceeded"):
        compile_selector(text).evaluate(VIEWS[0])


def test_compiled_programs_are_kept_in_a_bounded_cache() -> None:
    limit = compile_selector.cache_info().maxsize
    assert limit is not None
    for number in range(limit + 50):
        compile_selector(f"{number} == 1")
    assert compile_selector.cache_info().currsize == limit


@settings(deadline=None, max_examples=many(100))
@given(texts(ill_typed, depth=3))
def test_a_compile_error_stands_inside_of_the_text(text: str) -> None:
    try:
        compile_selector.__wrapped__(text)
    except CelCompileError as error:
        lines = text.split("\n")
        for issue in error.issues:
            if issue.line > 0:
                assert issue.line <= len(lines)
                assert issue.column <= len(lines[issue.line - 1]) + 1
