"""CEL's grammar as data, with the token sets that error recovery needs.

Only ``syntax_errors`` uses it. The shape of the rules (which parts are options, loops and left recursions)
decides the messages, so it follows the published grammar of the language as cel-go arranges it.
"""

from __future__ import annotations

from enum import Enum, auto

from baro.cel.lexer import T

EPSILON = -2  # "the rule may end here"


class Kind(Enum):
    TOKEN = auto()
    RULE = auto()
    OPTION = auto()
    STAR = auto()
    PLUS = auto()
    CHOICE = auto()
    LEFT = auto()


class Elem:
    """One place of a rule.

    ``first``: tokens the element itself can begin with; ``after``: tokens that may follow within the rule;
    ``look``: what is possible when standing before the element (``EPSILON``: the rule may end).
    """

    def __init__(
        self, kind: Kind, *bodies: tuple[Elem, ...], rule: str = "", precedence: int = 0,
        tokens: tuple[T, ...] = (), levels: tuple[int, ...] = (), trailing_comma: bool = False,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.bodies = bodies
        self.rule = rule  # for RULE the rule called, else the rule it stands in
        self.precedence = precedence
        self.levels = levels
        self.trailing_comma = trailing_comma
        self.first: frozenset[int] = frozenset(int(token) for token in tokens)
        self.after: frozenset[int] = frozenset()
        self.look: frozenset[int] = frozenset()
        self.state = -1

    @property
    def skippable(self) -> bool:
        return self.kind in (Kind.OPTION, Kind.STAR, Kind.LEFT)


def _t(*tokens: T) -> Elem:
    return Elem(Kind.TOKEN, tokens=tokens)


def _r(rule: str, precedence: int = 0) -> Elem:
    return Elem(Kind.RULE, rule=rule, precedence=precedence)


def _opt(*body: Elem) -> Elem:
    return Elem(Kind.OPTION, body)


def _star(*body: Elem, trailing_comma: bool = False) -> Elem:
    return Elem(Kind.STAR, body, trailing_comma=trailing_comma)


def _plus(*body: Elem) -> Elem:
    return Elem(Kind.PLUS, body)


def _choice(*bodies: tuple[Elem, ...]) -> Elem:
    return Elem(Kind.CHOICE, *bodies)


_RELATIONS = (T.LESS, T.LESS_EQUALS, T.GREATER_EQUALS, T.GREATER, T.EQUALS, T.NOT_EQUALS, T.IN)

RULES: dict[str, tuple[Elem, ...]] = {
    "start": (_r("expr"), _t(T.EOF)),
    "expr": (_r("conditionalOr"), _opt(_t(T.QUESTION), _r("conditionalOr"), _t(T.COLON), _r("expr"))),
    "conditionalOr": (_r("conditionalAnd"), _star(_t(T.OR), _r("conditionalAnd"))),
    "conditionalAnd": (_r("relation"), _star(_t(T.AND), _r("relation"))),
    "relation": (_r("calc"), Elem(Kind.LEFT, (_t(*_RELATIONS), _r("relation", 2)), levels=(1,))),
    "calc": (
        _r("unary"),
        Elem(
            Kind.LEFT,
            (_t(T.STAR, T.SLASH, T.PERCENT), _r("calc", 3)),
            (_t(T.PLUS, T.MINUS), _r("calc", 2)),
            levels=(2, 1),
        ),
    ),
    "unary": (
        _choice((_r("member"),), (_plus(_t(T.EXCLAM)), _r("member")), (_plus(_t(T.MINUS)), _r("member"))),
    ),
    "member": (
        _r("primary"),
        Elem(
            Kind.LEFT,
            (_t(T.DOT), _opt(_t(T.QUESTION)), _r("escapeIdent")),
            (_t(T.DOT), _t(T.IDENT), _t(T.LPAREN), _opt(_r("exprList")), _t(T.RPAREN)),
            (_t(T.LBRACKET), _opt(_t(T.QUESTION)), _r("expr"), _t(T.RBRACKET)),
        ),
    ),
    "primary": (
        _choice(
            (_opt(_t(T.DOT)), _t(T.IDENT)),
            (_opt(_t(T.DOT)), _t(T.IDENT), _t(T.LPAREN), _opt(_r("exprList")), _t(T.RPAREN)),
            (_t(T.LPAREN), _r("expr"), _t(T.RPAREN)),
            (_t(T.LBRACKET), _opt(_r("listInit")), _opt(_t(T.COMMA)), _t(T.RBRACKET)),
            (_t(T.LBRACE), _opt(_r("mapInit")), _opt(_t(T.COMMA)), _t(T.RBRACE)),
            (
                _opt(_t(T.DOT)), _t(T.IDENT), _star(_t(T.DOT), _t(T.IDENT)),
                _t(T.LBRACE), _opt(_r("fieldInit")), _opt(_t(T.COMMA)), _t(T.RBRACE),
            ),
            (_r("literal"),),
        ),
    ),
    "exprList": (_r("expr"), _star(_t(T.COMMA), _r("expr"))),
    "listInit": (_r("optExpr"), _star(_t(T.COMMA), _r("optExpr"), trailing_comma=True)),
    "fieldInit": (
        _r("optField"), _t(T.COLON), _r("expr"),
        _star(_t(T.COMMA), _r("optField"), _t(T.COLON), _r("expr"), trailing_comma=True),
    ),
    "optField": (_opt(_t(T.QUESTION)), _r("escapeIdent")),
    "mapInit": (
        _r("optExpr"), _t(T.COLON), _r("expr"),
        _star(_t(T.COMMA), _r("optExpr"), _t(T.COLON), _r("expr"), trailing_comma=True),
    ),
    "escapeIdent": (_choice((_t(T.IDENT),), (_t(T.ESC_IDENT),)),),
    "optExpr": (_opt(_t(T.QUESTION)), _r("expr")),
    "literal": (
        _choice(
            (_opt(_t(T.MINUS)), _t(T.INT)), (_t(T.UINT),), (_opt(_t(T.MINUS)), _t(T.FLOAT)), (_t(T.STRING),),
            (_t(T.BYTES),), (_t(T.TRUE),), (_t(T.FALSE),), (_t(T.NULL),),
        ),
    ),
}  # fmt: skip

FIRST: dict[str, frozenset[int]] = {name: frozenset() for name in RULES}


def _set_first(body: tuple[Elem, ...]) -> frozenset[int]:
    """First tokens of a sequence (no rule of CEL is empty); fills ``first`` of its elements."""
    found: set[int] = set()
    open_ = True
    for elem in body:
        if elem.kind is Kind.RULE:
            elem.first = FIRST[elem.rule]
        elif elem.bodies:
            elem.first = frozenset[int]().union(*(_set_first(inner) for inner in elem.bodies))
        if open_:
            found |= elem.first
            open_ = elem.skippable
    return frozenset(found)


def _set_follow(body: tuple[Elem, ...], after: frozenset[int], rule: str) -> None:
    for elem in reversed(body):
        elem.after = after
        elem.look = elem.first | after if elem.skippable else elem.first
        loops = elem.kind in (Kind.STAR, Kind.PLUS, Kind.LEFT)
        for inner in elem.bodies:
            _set_follow(inner, (elem.first | after) if loops else after, rule)
        if elem.kind is Kind.PLUS:
            elem.look = elem.first | after
        if elem.kind is not Kind.RULE:
            elem.rule = rule
        after = elem.look


def _number(body: tuple[Elem, ...], state: int) -> int:
    for elem in body:
        elem.state = state
        state += 1
        for inner in elem.bodies:
            state = _number(inner, state)
    return state


def _prepare() -> None:
    changed = True
    while changed:
        changed = False
        for name, body in RULES.items():
            first = _set_first(body)
            changed |= first != FIRST[name]
            FIRST[name] = first
    state = 0
    for name, body in RULES.items():
        _set_follow(body, frozenset({EPSILON}), name)
        state = _number(body, state)


_prepare()
