"""What random expressions beside the scheduler's own CEL (1.37.2) brought to light, with upstream's answers.

These run everywhere; ``test_beside_upstream`` asks upstream itself where it has been built.
"""

from __future__ import annotations

import pytest

from baro.cel import CelRuntimeError, DeviceView, compile_selector
from baro.cel.environment import EnvironmentName
from tests.support.cel import refusal

_DEVICE = DeviceView(driver="d", attributes={"d": {"index": 3}}, allow_multiple_allocations=True)
_PANIC = "PANIC: runtime error: index out of range [0] with length 0"


def _result(text: str) -> bool | str:
    try:
        return compile_selector(text).evaluate(_DEVICE)
    except CelRuntimeError as error:
        return error.message


def _shown(text: str) -> str:
    """A text that an expression makes, read from the error of a function that cannot use it."""
    message = str(_result(f"ip({text}).isLoopback()"))
    return message.removeprefix('IP Address "').partition('" parse error')[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{?'key': dyn(1)} == {}", _PANIC),
        ("[?dyn(1), 2] == []", _PANIC),
        ("cel.bind(t, type(1), true)", "program instantiation failed: reference to undefined type: t"),
        ("type(duration) == type", "program instantiation failed: reference to undefined type: duration"),
        ("dyn(google.protobuf.Any) == 1",
         "program instantiation failed: reference to undefined type: google.protobuf.Any"),
    ],
)  # fmt: skip
def test_what_upstreams_planner_refuses_is_refused(text: str, message: str) -> None:
    assert refusal(text) == message


@pytest.mark.parametrize(
    ("text", "environment", "named"),
    [
        ("x.key.indexOf('a') == 1 && x.key == 1", "stored", "(string, int)"),
        ("x.key.indexOf('a') == 1 && x.key == 1", "admission", "(list(string), int)"),
        ("x.key.getHours() == 1 && x.key == 1u", "stored", "(timestamp, uint)"),
        ("x.key < 1u && x.key == b''", "stored", "(int, bytes)"),
        ("x.key >= 1.5 && x.key == b''", "stored", "(int, bytes)"),
    ],
)
def test_the_first_overload_decides_what_is_of_unknown_type(
    text: str, environment: EnvironmentName, named: str
) -> None:
    found = refusal(f"cel.bind(x, {{}}, {text})", environment)
    assert found is not None
    assert f"found no matching overload for '_==_' applied to '{named}'" in found


@pytest.mark.parametrize(
    ("text", "heads"),
    [
        ("device{}", ["1:7: undeclared reference to 'device' (in container '')"]),
        ("cel{?'key': 1}).all(n, true)",
         ["1:5: unsupported ident kind",
          "1:6: Syntax error: mismatched input ''key'' expecting {IDENTIFIER, ESC_IDENTIFIER}",
          "1:15: Syntax error: mismatched input ')' expecting <EOF>"]),
        ("has(a.) || (.'i' in c)",
         ["1:5: invalid argument to has() macro", "1:7: Syntax error: no viable alternative at input '.)'",
          "1:14: Syntax error: no viable alternative at input '.'i''",
          "1:22: Syntax error: extraneous input ')' expecting <EOF>"]),
        ("--!b'q'", ["1:3: Syntax error: no viable alternative at input '-!'"]),
    ],
)  # fmt: skip
def test_recovery_from_a_syntax_error_goes_on_as_upstreams_does(text: str, heads: list[str]) -> None:
    found = refusal(text)
    assert found is not None
    lines = found.removeprefix("compilation failed: ").splitlines()
    assert [line.removeprefix("ERROR: <input>:") for line in lines if line.startswith("ERROR")] == heads


def test_recovery_gives_up_after_256_tokens_and_after_100_errors() -> None:
    found = refusal("(1 " + "x " * 300)
    assert found is not None
    assert "ERROR: <input>:-1:0: error recovery token lookahead limit exceeded: 256" in found
    assert str(refusal("#" * 300)).endswith("\n1 more errors were truncated")
    assert str(refusal("&" * 99)).count("token recognition error") == 0  # never read that far


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("'%e'.format([1e-7])", "1.000000×10⁻⁰⁷"),
        ("'%e'.format([-1.0 / 0.0])", "    -∞"),
        ("'%.20e'.format([123456.789])", "       1.234568×10⁰⁵"),
        ("'%.2f'.format([-0.0])", "0.00"),
        ("format.dns1123Label().validate('1.2.3').value()[0]", "must not contain dots"),
        ("format.byte().validate('').value()[0]", "invalid base64"),
        ("format.datetime().validate('2024-01-02T03:04:60Z').value()[0]", "invalid datetime"),
        (
            "format.labelValue().validate('a' + '" + "a" * 63 + "').value()[0]",
            "must be no more than 63 bytes",
        ),
    ],
)
def test_texts_are_gos(text: str, shown: str) -> None:
    assert _shown(text) == shown


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("google.protobuf.BoolValue{value: true}", True),
        ("google.protobuf.BoolValue{} || google.protobuf.Int64Value{value: 1} + 1 == 2", True),
        ("google.protobuf.FloatValue{value: 1.1} == 1.1", False),
        ("google.protobuf.Duration{seconds: dyn('a')} == duration('1s')",
         "field type conversion error for google.protobuf.Duration.seconds value type:"
         " unsupported native conversion from string to 'int64'"),
        ("'%s'.format([[?dyn(duration('90s'))]]) == 'a'",
         "cannot initialize optional list element from non-optional value 1m30s"),
        ("'%s'.format([[b'\\xff']]) == 'a'",
         'error during formatting: could not convert argument "invalid UTF-8 in bytes, cannot convert to'
         ' string" to string'),
        ("quantity('1').sub(-9223372036854775808).isLessThan(quantity('0'))", True),
        ("quantity('-1').sub(-9223372036854775808).isGreaterThan(quantity('0'))", True),
        ("quantity('0').add(-9223372036854775808).isInteger()", True),
        ("optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00Z')).hasValue()", False),
        ("optional.ofNonZeroValue(optional.none()).hasValue()", True),
        ("[1][dyn(1.0 / 0.0)] == 1", "unsupported index value +Inf in list"),
        ("[1][dyn(18446744073709551615u)] == 1", "unsupported index value 18446744073709551615 in list"),
    ],
)  # fmt: skip
def test_results_are_upstreams(text: str, result: bool | str) -> None:
    assert _result(text) == result


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("'a'.substring(9).format([timestamp(device.driver)]) == ''", 1),
        ("'%s'.format([[?dyn(1)]]) == 'a'", 2),
    ],
)
def test_costs_are_upstreams(text: str, cost: int) -> None:
    assert compile_selector(text).evaluate_with_cost(_DEVICE).cost == cost


def test_halves_of_characters_count_as_the_replacement_character() -> None:
    assert _result("'\ud800' == '\ufffd'") is True
    assert "token recognition error at: '\ufffd'" in str(refusal("\udfff"))
