"""Text to syntax tree: recursive descent over the tokens, macros expanded on the way.

The tree is the one cel-go builds, except that chains of ``&&`` and ``||`` stay flat (their meaning does not
depend on the grouping). Messages about text that is no CEL come from ``syntax_errors``.
"""

from __future__ import annotations

from collections.abc import Callable

from baro.cel import ast
from baro.cel.ast import Node
from baro.cel.errors import MAX_DEPTH, MOST_ISSUES, NOWHERE, CelCompileError, Issue, Source
from baro.cel.lexer import OPERATORS, RESERVED, T, Token, tokenize
from baro.cel.literals import LiteralError, parse_literal
from baro.cel.macros import MacroError, expand

_CODE_POINT_LIMIT = 100_000

_RELATIONS = frozenset({T.LESS, T.LESS_EQUALS, T.GREATER_EQUALS, T.GREATER, T.EQUALS, T.NOT_EQUALS, T.IN})
_NUMBERS = frozenset({T.INT, T.FLOAT})
_LITERALS = frozenset({*_NUMBERS, T.UINT, T.STRING, T.BYTES, T.TRUE, T.FALSE, T.NULL})
_PRODUCTS = frozenset({T.STAR, T.SLASH, T.PERCENT})
_SUMS = frozenset({T.PLUS, T.MINUS})


class _NotCelError(Exception):
    """The tokens do not follow the grammar; ``syntax_errors`` finds the words for it."""


class _LimitError(Exception):
    """Too deeply nested."""


def parse(source: Source) -> Node:
    """The tree of an expression. Raises ``CelCompileError`` with every complaint found.

    The caller provides for a deep Python stack (nesting up to 250 levels is legal).
    """
    if len(source.text) > _CODE_POINT_LIMIT:
        size = (
            f"expression code point size exceeds limit: size: {len(source.text)}, limit {_CODE_POINT_LIMIT}"
        )
        raise source.compile_error([source.issue(NOWHERE, size)])
    tokens, lexical = tokenize(source)
    issues = [issue for _, issue in lexical]
    parser = _Parser(source, tokens)
    try:
        tree = parser.run()
    except _LimitError as error:
        raise source.compile_error([*issues, source.issue(NOWHERE, str(error))]) from None
    except _NotCelError:
        raise _syntax_error(source, tokens, lexical) from None
    if len(issues) > MOST_ISSUES:  # where upstream gives up
        raise source.compile_error(issues[: MOST_ISSUES + 1])
    issues += parser.issues
    if issues:
        raise source.compile_error(issues)
    return tree


def _syntax_error(source: Source, tokens: list[Token], lexical: list[tuple[int, Issue]]) -> CelCompileError:
    # Much to load, and only for a broken text.
    from baro.cel.error_tree import tree_issues  # noqa: PLC0415
    from baro.cel.syntax_errors import replay  # noqa: PLC0415

    issues, tree = replay(source, tokens, lexical)
    if tree is not None:
        issues += tree_issues(source, tree)
    return source.compile_error(issues)


class _Parser:
    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self.index = 0
        self.token = tokens[0]
        self.issues: list[Issue] = []
        self.depth = {"expr": 0, "relation": 0, "calc": 0}

    def run(self) -> Node:
        tree = self.expr()
        if self.token.kind != T.EOF:
            raise _NotCelError
        if tree.depth > MAX_DEPTH:
            raise _LimitError("max recursion depth exceeded")
        return tree

    # --- tokens --------------------------------------------------------------------------------------

    def next(self) -> Token:
        token = self.token
        self.index += 1
        self.token = self.tokens[min(self.index, len(self.tokens) - 1)]
        return token

    def take(self, kind: T) -> Token:
        if self.token.kind != kind:
            raise _NotCelError
        return self.next()

    def skip(self, kind: T) -> bool:
        if self.token.kind != kind:
            return False
        self.next()
        return True

    def peek(self, ahead: int = 1) -> T:
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)].kind

    def enter(self, rule: str) -> None:
        self.depth[rule] += 1
        if self.depth[rule] > MAX_DEPTH:
            raise _LimitError(f"expression recursion limit exceeded: {MAX_DEPTH}")

    def complain(self, at: int, message: str) -> Node:
        self.issues.append(self.source.issue(at, message))
        return ast.Broken(at)

    def spanned(self, node: Node, start: int) -> Node:
        """The node with its text from ``start`` to the last token read, if it has none yet."""
        if node.start < 0:
            node.start = start
            node.end = self.tokens[self.index - 1].end
        return node

    # --- operators -----------------------------------------------------------------------------------

    def expr(self) -> Node:
        self.enter("expr")
        start = self.token.at
        result = self.chain(T.OR, "_||_")
        if self.token.kind == T.QUESTION:
            at = self.next().at
            when_true = self.chain(T.OR, "_||_")
            self.take(T.COLON)
            choice = self.call(at, "_?_:_", (result, when_true, self.expr()), deeper=True)
            result = self.spanned(choice, start)
        self.depth["expr"] -= 1
        return result

    def chain(self, operator: T, name: str) -> Node:
        """``a || b || c`` or ``a && b && c``; it stands at its middle operator, as upstream balances it."""
        start = self.token.at
        terms, places = [self.chain_term(operator)], []
        while self.token.kind == operator:
            places.append(self.next().at)
            terms.append(self.chain_term(operator))
        if not places:
            return terms[0]
        return self.spanned(self.call(places[len(places) // 2], name, tuple(terms)), start)

    def chain_term(self, operator: T) -> Node:
        return self.chain(T.AND, "_&&_") if operator == T.OR else self.relation(0)

    def relation(self, level: int) -> Node:
        self.enter("relation")
        start = self.token.at
        left = self.calc(0)
        while self.token.kind in _RELATIONS and level <= 1:
            left = self.spanned(self.binary(left, lambda: self.relation(2)), start)
        self.depth["relation"] -= 1
        return left

    def calc(self, level: int) -> Node:
        self.enter("calc")
        start = self.token.at
        left = self.unary()
        while True:
            if self.token.kind in _PRODUCTS and level <= 2:
                left = self.spanned(self.binary(left, lambda: self.calc(3)), start)
            elif self.token.kind in _SUMS and level <= 1:
                left = self.spanned(self.binary(left, lambda: self.calc(2)), start)
            else:
                break
        self.depth["calc"] -= 1
        return left

    def binary(self, left: Node, parse_right: Callable[[], Node]) -> Node:
        operator = self.next()
        return self.call(operator.at, OPERATORS[operator.kind], (left, parse_right()), deeper=True)

    def unary(self) -> Node:
        kind = self.token.kind
        if kind == T.MINUS and self.peek() in (T.INT, T.FLOAT):
            return self.member()
        if kind not in (T.EXCLAM, T.MINUS):
            return self.member()
        at, count = self.token.at, 0
        while self.skip(kind):
            count += 1
        operand = self.member()
        if count % 2 == 0:
            return operand
        return self.spanned(self.call(at, "!_" if kind == T.EXCLAM else "-_", (operand,)), at)

    # --- postfix -------------------------------------------------------------------------------------

    def member(self) -> Node:
        start = self.token.at
        node = self.spanned(self.primary(), start)
        while True:
            kind = self.token.kind
            if kind == T.DOT:
                node = self.spanned(self.dotted(node), start)
            elif kind == T.LBRACKET:
                at = self.next().at
                name = "_[?_]" if self.skip(T.QUESTION) else "_[_]"
                index = self.expr()
                self.take(T.RBRACKET)
                node = self.spanned(self.call(at, name, (node, index), deeper=True), start)
            else:
                return node

    def dotted(self, operand: Node) -> Node:
        at = self.next().at
        optional = self.skip(T.QUESTION)
        name = self.token
        if name.kind == T.ESC_IDENT:
            self.next()
            field = name.text[1:-1]
        else:
            field = self.take(T.IDENT).text
            if self.token.kind == T.LPAREN and not optional:
                return self.method(operand, field)
        node = ast.Select(at, operand, field, optional=optional)
        node.field_at = name.at
        node.depth = operand.depth + (not optional or 1)
        return node

    def method(self, operand: Node, name: str) -> Node:
        at = self.next().at
        args = self.arguments()
        return self.call(at, name, args, operand, deeper=True)

    def arguments(self) -> tuple[Node, ...]:
        args: list[Node] = []
        if self.token.kind != T.RPAREN:
            args.append(self.expr())
            while self.skip(T.COMMA):
                args.append(self.expr())
        self.take(T.RPAREN)
        return tuple(args)

    def call(
        self,
        at: int,
        function: str,
        args: tuple[Node, ...],
        target: Node | None = None,
        *,
        deeper: bool = False,
    ) -> Node:
        """A call, or what its macro expands to."""
        depth = max((arg.depth for arg in (args if target is None else (target, *args))), default=0) + deeper
        try:
            node = expand(at, function, target, args)
        except MacroError as error:
            node = self.complain(error.at, error.message)
        if node is None:
            node = ast.Call(at, function, args, target)
        node.depth = depth
        return node

    # --- primaries -----------------------------------------------------------------------------------

    def primary(self) -> Node:
        kind = self.token.kind
        if kind in (T.IDENT, T.DOT):
            return self.name()
        if kind == T.LPAREN:
            self.next()
            node = self.expr()
            self.take(T.RPAREN)
            return node
        if kind == T.LBRACKET:
            return self.list()
        if kind == T.LBRACE:
            at = self.next().at
            return self.deep(ast.MapNode(at, self.entries(self.map_key)))
        return self.literal()

    def deep(self, node: ast.MapNode | ast.Message) -> Node:
        parts = [entry.value for entry in node.entries]
        parts += [entry.key for entry in node.entries if isinstance(entry.key, Node)]
        node.depth = max((part.depth for part in parts), default=0)
        return node

    def name(self) -> Node:
        first = self.token.at
        dot = "." if self.skip(T.DOT) else ""
        ident = self.take(T.IDENT)
        ahead = 0
        while self.peek(ahead - 0) == T.DOT and self.peek(ahead + 1) == T.IDENT:
            ahead += 2
        if self.peek(ahead) == T.LBRACE:
            return self.message(dot + ident.text, ahead)
        if ident.text in RESERVED:
            at = first
            if self.skip(T.LPAREN):
                self.arguments()
            return self.complain(at, f"reserved identifier: {ident.text}")
        if self.token.kind == T.LPAREN:
            at = self.next().at
            return self.call(at, dot + ident.text, self.arguments())
        return ast.Ident(ident.at, dot + ident.text)

    def message(self, name: str, ahead: int) -> Node:
        for _ in range(ahead // 2):
            self.next()
            name += "." + self.next().text
        at = self.next().at
        return self.deep(ast.Message(at, name, self.entries(self.field_name)))

    def list(self) -> Node:
        at = self.next().at
        elements: list[Node] = []
        optional: set[int] = set()
        while self.token.kind != T.RBRACKET:
            if self.token.kind == T.COMMA and not elements:
                self.next()
                break
            if self.skip(T.QUESTION):
                optional.add(len(elements))
            elements.append(self.expr())
            if not self.skip(T.COMMA):
                break
        self.take(T.RBRACKET)
        node = ast.ListNode(at, tuple(elements), frozenset(optional))
        node.depth = max((element.depth for element in elements), default=0)
        return node

    def map_key(self) -> Node:
        return self.expr()

    def field_name(self) -> str:
        if self.token.kind == T.ESC_IDENT:
            return self.next().text[1:-1]
        return self.take(T.IDENT).text

    def entries(self, parse_key: Callable[[], Node | str]) -> tuple[ast.Entry, ...]:
        entries: list[ast.Entry] = []
        while self.token.kind != T.RBRACE:
            if self.token.kind == T.COMMA and not entries:
                self.next()
                break
            optional = self.skip(T.QUESTION)
            key = parse_key()
            colon = self.take(T.COLON)
            entries.append(ast.Entry(colon.at, key, self.expr(), optional))
            if not self.skip(T.COMMA):
                break
        self.take(T.RBRACE)
        return tuple(entries)

    def literal(self) -> Node:
        at = self.token.at
        sign = "-" if self.skip(T.MINUS) else ""
        token = self.token
        if token.kind not in (_NUMBERS if sign else _LITERALS):
            raise _NotCelError
        self.next()
        try:
            return ast.Literal(at, parse_literal(token.kind, sign + token.text))
        except LiteralError as error:
            return self.complain(at, str(error))
