"""What cel-go still says about the parts of a broken text that could be parsed.

After a syntax error cel-go walks the tree that recovery left and complains about macros, literals and
reserved words in it as usual. This walk does the same, for the messages only.
"""

from __future__ import annotations

from baro.cel import ast
from baro.cel.ast import Node
from baro.cel.errors import LOST, MAX_DEPTH, NOWHERE, Issue, Source
from baro.cel.lexer import OPERATORS, RESERVED, T, Token
from baro.cel.literals import LiteralError, parse_literal
from baro.cel.macros import MacroError, expand
from baro.cel.syntax_errors import ParseTree


def tree_issues(source: Source, tree: ParseTree) -> list[Issue]:
    """The complaints in the order of the walk."""
    walk = _Walk(source)
    try:
        walk.visit(tree)
    except _TooDeepError:
        walk.issues.append(source.issue(NOWHERE, "max recursion depth exceeded"))
    return walk.issues


class _TooDeepError(Exception):
    """Upstream's walk ends here."""


def _trees(tree: ParseTree) -> list[ParseTree]:
    return [part for part in tree.parts if isinstance(part, ParseTree)]


def _tokens(tree: ParseTree, kind: T) -> list[Token]:
    return [part for part in tree.parts if isinstance(part, Token) and part.kind == kind]


def _is_operation(tree: ParseTree) -> bool:
    """Whether upstream counts it as a level of depth."""
    if tree.rule == "expr":
        return bool(_tokens(tree, T.QUESTION))
    return tree.rule in ("relation", "calc", "member") and tree.alternative is not None


class _Walk:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.issues: list[Issue] = []
        self.depth = 0

    def complain(self, at: int, message: str) -> Node:
        self.issues.append(self.source.issue(at, message))
        return ast.Broken(at)

    def visit(self, tree: ParseTree | None) -> Node:
        if tree is None:
            return ast.Broken(LOST)
        counts = _is_operation(tree)
        self.depth += counts
        if self.depth > MAX_DEPTH:
            raise _TooDeepError
        node = self.visit_rule(tree)
        self.depth -= counts
        return node

    def visit_rule(self, tree: ParseTree) -> Node:
        if tree.rule in ("start", "optExpr"):
            return self.visit(next(iter(_trees(tree)), None))
        if tree.rule in ("relation", "calc"):
            return self.binary(tree)
        handler = {
            "expr": self.expr, "conditionalOr": self.chain, "conditionalAnd": self.chain, "unary": self.unary,
            "member": self.member, "primary": self.primary, "literal": self.literal,
        }[tree.rule]  # fmt: skip
        return handler(tree)

    def visit_all(self, tree: ParseTree | None) -> tuple[Node, ...]:
        return () if tree is None else tuple(self.visit(part) for part in _trees(tree))

    def call(self, at: int, name: str, args: tuple[Node, ...], target: Node | None = None) -> Node:
        try:
            node = expand(at, name, target, args)
        except MacroError as error:
            return self.complain(error.at, error.message)
        return ast.Call(at, name, args, target) if node is None else node

    def expr(self, tree: ParseTree) -> Node:
        parts, question = _trees(tree), _tokens(tree, T.QUESTION)
        first = self.visit(parts[0] if parts else None)
        if not question:
            return first
        when_true = self.visit(parts[1] if len(parts) > 1 else None)
        when_false = self.visit(parts[2] if len(parts) > 2 else None)
        return self.call(question[0].at, "_?_:_", (first, when_true, when_false))

    def chain(self, tree: ParseTree) -> Node:
        terms = self.visit_all(tree)
        if len(terms) < 2:
            return terms[0] if terms else ast.Broken(LOST)
        is_or = tree.rule == "conditionalOr"
        operators = _tokens(tree, T.OR if is_or else T.AND)
        return ast.Call(operators[len(operators) // 2].at, "_||_" if is_or else "_&&_", terms)

    def binary(self, tree: ParseTree) -> Node:
        parts = _trees(tree)
        if tree.alternative is None:
            return self.visit(parts[0] if parts else None)
        operator = next(part for part in tree.parts if isinstance(part, Token))
        right = parts[1] if len(parts) > 1 else None
        return self.call(operator.at, OPERATORS[operator.kind], (self.visit(parts[0]), self.visit(right)))

    def unary(self, tree: ParseTree) -> Node:
        if tree.alternative is None:
            return ast.Literal(tree.start, "<<error>>")
        kind = T.EXCLAM if tree.alternative == 1 else T.MINUS
        signs = _tokens(tree, kind) if tree.alternative else []
        operand = self.visit(next(iter(_trees(tree)), None))
        if len(signs) % 2 == 0:
            return operand
        return self.call(signs[0].at, "!_" if kind == T.EXCLAM else "-_", (operand,))

    def member(self, tree: ParseTree) -> Node:
        parts = _trees(tree)
        operand = self.visit(parts[0] if parts else None)
        if tree.alternative is None:
            return operand
        if tree.alternative == 1:
            return self.selection(tree, operand)
        optional = bool(_tokens(tree, T.QUESTION))
        if tree.alternative == 2:
            names, opened = _tokens(tree, T.IDENT), _tokens(tree, T.LPAREN)
            if not names or not opened:
                return ast.Broken(tree.start)
            args = self.visit_all(parts[1] if len(parts) > 1 else None)
            return self.call(opened[0].at, names[0].text, args, operand)
        index = self.visit(parts[1] if len(parts) > 1 else None)
        at = _tokens(tree, T.LBRACKET)[0].at
        return self.call(at, "_[?_]" if optional else "_[_]", (operand, index))

    def selection(self, tree: ParseTree, operand: Node) -> Node:
        dots, names = _tokens(tree, T.DOT), [part for part in _trees(tree) if part.rule == "escapeIdent"]
        if not dots or not names:
            return ast.Broken(tree.start)
        name = next((part for part in names[0].parts if isinstance(part, Token)), None)
        if name is None:
            self.complain(names[0].start, "unsupported ident kind")
        field = "" if name is None else name.text.strip("`")
        return ast.Select(dots[0].at, operand, field, optional=bool(_tokens(tree, T.QUESTION)))

    def primary(self, tree: ParseTree) -> Node:
        parts = _trees(tree)
        inner = parts[0] if parts else None
        if tree.alternative in (0, 1):
            return self.name(tree, inner)
        if tree.alternative in (2, 6):
            return self.visit(inner)
        if tree.alternative == 3:
            return ast.ListNode(_at(tree, T.LBRACKET), self.visit_all(inner))
        if tree.alternative == 4:
            return ast.MapNode(_at(tree, T.LBRACE), self.entries(inner))
        if tree.alternative == 5:
            self.fields(inner)
            return ast.Message(_at(tree, T.LBRACE), "", ())
        return ast.Broken(LOST)

    def name(self, tree: ParseTree, args: ParseTree | None) -> Node:
        names = _tokens(tree, T.IDENT)
        if not names:
            return ast.Broken(tree.start)
        if names[0].text in RESERVED:
            return self.complain(tree.start, f"reserved identifier: {names[0].text}")
        dot = "." if _tokens(tree, T.DOT) else ""
        if tree.alternative == 0:
            return ast.Ident(names[0].at, dot + names[0].text)
        return self.call(_at(tree, T.LPAREN), dot + names[0].text, self.visit_all(args))

    def entries(self, tree: ParseTree | None) -> tuple[ast.Entry, ...]:
        if tree is None:
            return ()
        keys = [part for part in _trees(tree) if part.rule == "optExpr"]
        values = [part for part in _trees(tree) if part.rule == "expr"]
        found = []
        for colon, key, value in zip(_tokens(tree, T.COLON), keys, values, strict=False):
            found.append(ast.Entry(colon.at, self.visit(key), self.visit(value), False))
        return tuple(found)

    def fields(self, tree: ParseTree | None) -> None:
        if tree is None:
            return
        fields = [part for part in _trees(tree) if part.rule == "optField"]
        values = [part for part in _trees(tree) if part.rule == "expr"]
        for _, field, value in zip(_tokens(tree, T.COLON), fields, values, strict=False):
            names = [part for part in _trees(field) if part.rule == "escapeIdent"]
            if not names or not any(isinstance(part, Token) for part in names[0].parts):
                self.complain(tree.start, "unsupported ident kind")
            else:
                self.visit(value)

    def literal(self, tree: ParseTree) -> Node:
        tokens = [part for part in tree.parts if isinstance(part, Token)]
        if not tokens or tokens[-1].kind == T.MINUS or tokens[-1].text == "<missing>":
            return ast.Broken(LOST)
        sign = "-" if tokens[0].kind == T.MINUS else ""
        try:
            return ast.Literal(tree.start, parse_literal(tokens[-1].kind, sign + tokens[-1].text))
        except LiteralError as error:
            return self.complain(tree.start, str(error))


def _at(tree: ParseTree, kind: T) -> int:
    found = _tokens(tree, kind)
    return found[0].at if found else tree.start
