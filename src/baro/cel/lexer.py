"""Tokens of CEL. Text that is no token is reported the way ANTLR's lexer does, and skipped.

ANTLR takes the longest text that is a token; when none is, it skips the longest text that could have begun
one, together with the character that ended the hope.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple

from baro.cel.errors import Issue, Source


class T(IntEnum):
    """Kinds of tokens, in the grammar's order (messages list expected tokens in it)."""

    EOF = 0
    EQUALS = 1
    NOT_EQUALS = 2
    IN = 3
    LESS = 4
    LESS_EQUALS = 5
    GREATER_EQUALS = 6
    GREATER = 7
    AND = 8
    OR = 9
    LBRACKET = 10
    RBRACKET = 11
    LBRACE = 12
    RBRACE = 13
    LPAREN = 14
    RPAREN = 15
    DOT = 16
    COMMA = 17
    MINUS = 18
    EXCLAM = 19
    QUESTION = 20
    COLON = 21
    PLUS = 22
    STAR = 23
    SLASH = 24
    PERCENT = 25
    TRUE = 26
    FALSE = 27
    NULL = 28
    FLOAT = 29
    INT = 30
    UINT = 31
    STRING = 32
    BYTES = 33
    IDENT = 34
    ESC_IDENT = 35


LITERALS = {
    "==": T.EQUALS, "!=": T.NOT_EQUALS, "in": T.IN, "<": T.LESS, "<=": T.LESS_EQUALS,
    ">=": T.GREATER_EQUALS, ">": T.GREATER, "&&": T.AND, "||": T.OR, "[": T.LBRACKET, "]": T.RBRACKET,
    "{": T.LBRACE, "}": T.RBRACE, "(": T.LPAREN, ")": T.RPAREN, ".": T.DOT, ",": T.COMMA, "-": T.MINUS,
    "!": T.EXCLAM, "?": T.QUESTION, ":": T.COLON, "+": T.PLUS, "*": T.STAR, "/": T.SLASH, "%": T.PERCENT,
    "true": T.TRUE, "false": T.FALSE, "null": T.NULL,
}  # fmt: skip

DISPLAY = {kind: f"'{text}'" for text, kind in LITERALS.items()} | {
    T.EOF: "<EOF>", T.FLOAT: "NUM_FLOAT", T.INT: "NUM_INT", T.UINT: "NUM_UINT", T.STRING: "STRING",
    T.BYTES: "BYTES", T.IDENT: "IDENTIFIER", T.ESC_IDENT: "ESC_IDENTIFIER",
}  # fmt: skip

OPERATORS = {kind: f"_{text}_" for text, kind in LITERALS.items()} | {T.IN: "@in"}
"""Names of binary operators as functions."""

RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
"""Identifiers that are not allowed as names of variables and functions."""

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRING = (
    rf'(?:"""(?:{_ESCAPE}|[^\\])*?"""|\'\'\'(?:{_ESCAPE}|[^\\])*?\'\'\''
    r'|[rR]"""[\s\S]*?"""' r"|[rR]'''[\s\S]*?'''"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"|\'(?:{_ESCAPE}|[^\\\'\n\r])*\''
    r'|[rR]"[^"\n\r]*"' r"|[rR]'[^'\n\r]*')"
)  # fmt: skip
_TOKEN = re.compile(
    r"(?P<skip>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<bytes>[bB]{_STRING})|(?P<string>{_STRING})"
    r"|(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])|(?P<int>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<ident>[A-Za-z_][A-Za-z0-9_]*)|(?P<esc>`[A-Za-z0-9_.\-/ ]+`)"
    r"|(?P<op>==|!=|<=|>=|&&|\|\||[\[\]{}().,?:+*/%<>!\-])"
)
_GROUPS = {
    "bytes": T.BYTES, "string": T.STRING, "float": T.FLOAT, "uint": T.UINT, "int": T.INT, "esc": T.ESC_IDENT,
}  # fmt: skip
# The beginnings that may come to nothing: an open string, an open `, a single = & |.
_HOPE = re.compile(
    rf"'(?:{_ESCAPE}|[^\\'\n\r])*(?P<half>\\(?:[0-3][0-7]?|[xX][0-9a-fA-F]?|u[0-9a-fA-F]{{0,3}}"
    r"|U[0-9a-fA-F]{0,7})?)?"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*(?:\\(?:[0-3][0-7]?|[xX][0-9a-fA-F]?|u[0-9a-fA-F]{{0,3}}'
    r"|U[0-9a-fA-F]{0,7})?)?"
    r"|`[A-Za-z0-9_.\-/ ]*|[=&|]"
)


class Token(NamedTuple):
    """``text`` as written; ``end`` is the offset just behind it."""

    kind: T
    text: str
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)


def tokenize(source: Source) -> tuple[list[Token], list[tuple[int, Issue]]]:
    """Tokens (the last one is EOF), and the complaints about what is no token, each with the number of tokens
    before it."""
    text, at = source.text, 0
    tokens: list[Token] = []
    issues: list[tuple[int, Issue]] = []
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            hope = _HOPE.match(text, at)
            end = min((hope.end() if hope else at) + 1, len(text))
            message = f"Syntax error: token recognition error at: '{text[at:end]}'"
            issues.append((len(tokens), source.issue(at, message)))
            source.skipped.append((at, end))
            at = end
            continue
        group = match.lastgroup or "op"
        if group != "skip":
            value = match.group()
            kind = _GROUPS.get(group) or LITERALS.get(value, T.IDENT)
            tokens.append(Token(kind, value, at))
        at = match.end()
    tokens.append(Token(T.EOF, "", len(text)))
    return tokens, issues
