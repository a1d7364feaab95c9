"""Texts that are no CEL: the words, the place and the picture of the complaint."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.cel import CelCompileError, CelRuntimeError, DeviceView, compile_selector

NO_OPERAND = (
    "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null',"
    " NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
DEVICE = DeviceView(driver="d", attributes={"d": {"a": 1, "b": "x"}})


@pytest.mark.parametrize(
    ("expression", "issues"),
    [
        ("1 == 80Gi", [(1, 8, "Syntax error: extraneous input 'Gi' expecting <EOF>")]),
        ("(true", [(1, 6, "Syntax error: missing ')' at '<EOF>'")]),
        ("a and b", [(1, 3, "Syntax error: mismatched input 'and' expecting <EOF>")]),
        ("a.in", [(1, 3, "Syntax error: no viable alternative at input '.in'"), (1, 5, NO_OPERAND)]),
        ("a.true", [(1, 3, "Syntax error: mismatched input 'true' expecting IDENTIFIER")]),
        ("true ? 1", [(1, 9, "Syntax error: mismatched input '<EOF>' expecting ':'")]),
        ("[1 2]", [(1, 4, "Syntax error: extraneous input '2' expecting {']', ','}")]),
        ("'abc", [(1, 1, "Syntax error: token recognition error at: ''abc'"), (1, 5, NO_OPERAND)]),
        ("1 == 1 # no", [(1, 8, "Syntax error: token recognition error at: '#'"),
                         (1, 10, "Syntax error: extraneous input 'no' expecting <EOF>")]),
        ("let x = 1", [(1, 1, "reserved identifier: let"),
                       (1, 5, "Syntax error: mismatched input 'x' expecting <EOF>"),
                       (1, 7, "Syntax error: token recognition error at: '= '")]),
        ("true &&\n  (1 ==", [(2, 8, NO_OPERAND)]),
        ("9223372036854775808 == 1", [(1, 1, "invalid int literal")]),
        ("has(device)", [(1, 5, "invalid argument to has() macro")]),
        ("[1].all(1, true)", [(1, 9, "argument must be a simple name")]),
        ("[1].all(i, i, true)", [(1, 12, "duplicate variable name: i")]),
    ],
)  # fmt: skip
def test_a_slip_is_reported_with_line_column_and_words(
    expression: str, issues: list[tuple[int, int, str]]
) -> None:
    with pytest.raises(CelCompileError) as caught:
        compile_selector(expression)
    assert [(issue.line, issue.column, issue.message) for issue in caught.value.issues] == issues
    assert (caught.value.line, caught.value.column) == issues[0][:2]


def test_the_picture_marks_the_column_and_wide_characters_keep_their_width() -> None:
    with pytest.raises(CelCompileError) as caught:
        compile_selector("'é' ==\t80Gi")
    assert caught.value.message == (
        "compilation failed: ERROR: <input>:1:10: Syntax error: extraneous input 'Gi' expecting <EOF>\n"
        " | 'é' == 80Gi\n"
        " | .．.......^"
    )


_PIECES = st.sampled_from(
    [
        "device",
        ".",
        "driver",
        "attributes",
        "capacity",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        "'d'",
        '"b"',
        "1",
        "2u",
        "1.5",
        "true",
        "null",
        "&&",
        "||",
        "!",
        "-",
        "+",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        ">=",
        "in",
        "?",
        ":",
        ",",
        ".?",
        "[?",
        "has(",
        "size(",
        ".all(x,",
        "x",
        ".map(x,",
        ".exists(i,v,",
        "cel.bind(x,",
        "quantity('1')",
        "semver('1.0.0')",
        "#",
        "$",
        "`",
        "=",
        "&",
        "|",
        "'",
        "\\",
        "optional.of(",
        ".orValue(",
        ".matches(",
        "b''",
        "r''",
        "0x",
        "timestamp(",
        "duration(",
        "a.b",
        "type(",
        "dyn(",
        "\n",
        "é",
        ".format(",
    ]
)


@settings(deadline=None, max_examples=400)
@given(st.lists(_PIECES, max_size=14).map(" ".join) | st.text(max_size=30))
def test_any_text_gives_a_program_or_a_compile_error_and_any_program_a_bool_or_an_error(text: str) -> None:
    try:
        program = compile_selector(text)
    except CelCompileError as error:
        assert error.message
        assert list(error.issues) == sorted(error.issues, key=lambda issue: (issue.line, issue.column))
        return
    try:
        assert isinstance(program.evaluate(DEVICE), bool)
    except CelRuntimeError as error:
        assert error.message
