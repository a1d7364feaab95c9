"""One expression of a rule: compiled against the type of the value it judges, and run on values.

The engine is ``baro.cel``; here it gets variables (``self``, ``oldSelf``) in place of a device, comparison
and sums of keyed lists, and declared sizes for its estimate. What an evaluation costs is counted by rounds of
loops, as the engine does without a device's exact counting: roughly what a real server charges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from baro.apiserver.rules.declared import Declared, scope
from baro.apiserver.rules.values import Lists, same, total
from baro.cel import ast
from baro.cel.ast import Node, walk
from baro.cel.checker import check
from baro.cel.code import Code, Frame, PlanError, Run
from baro.cel.compiler import Compiler
from baro.cel.computation import deep_stack
from baro.cel.cost_bounds import Bounds
from baro.cel.cost_estimate import Estimator
from baro.cel.errors import CelCompileError, CelRuntimeError, Source
from baro.cel.folds import WORK_LIMIT
from baro.cel.parser import parse
from baro.cel.types import Type
from baro.cel.validators import validate
from baro.cel.values import Optional

OLD: Final = "oldSelf"
_VARIABLES: Final = ("self", OLD)
_DEEP: Final = 60
"""Nesting from which Python's default stack may not suffice."""


class Activation:
    """The variables of one evaluation. ``failed``: why ``self`` or ``oldSelf`` has no CEL value."""

    __slots__ = ("failed", "lists", "values")

    def __init__(self, lists: Lists, values: dict[str, Any], failed: dict[str, CelRuntimeError]) -> None:
        self.lists = lists
        self.values = values
        self.failed = failed

    def read(self, name: str) -> Any:
        if name in self.failed:
            raise self.failed[name]
        return self.values[name]


class Expression:
    """A compiled expression. ``uses_old``: it names ``oldSelf``. ``most``: what it may cost at most."""

    def __init__(self, tree: Node, declared: Declared) -> None:
        compiler = _RuleCompiler()
        self._run = compiler.compile(tree).run
        self._slots = compiler.slots
        nodes = list(walk(tree))
        self._deep = max(depth for _, depth in nodes) > _DEEP
        self.uses_old = any(isinstance(n, ast.Ident) and n.name.removeprefix(".") == OLD for n, _ in nodes)
        self.most = _RuleEstimator(declared).cost(tree).max

    def run(self, activation: Activation) -> tuple[Any, int]:
        """The result and what it cost. Raises ``CelRuntimeError``."""
        frame: list[Any] = [WORK_LIMIT, *[None] * (self._slots - 1)]
        run: Callable[[Any, Frame], Any] = self._run
        if self._deep:
            with deep_stack():
                value = run(activation, frame)
        else:
            value = run(activation, frame)
        return value, WORK_LIMIT - frame[0]


def compile_expression(
    text: str, declared: Declared, result: Type, *, optional_old: bool, wrong: str
) -> Expression:
    """Raises ``CelCompileError`` in the server's words; ``wrong`` is what it says of another result type."""
    with deep_stack():
        source = Source(text)
        tree = parse(source)
        issues = check(tree, scope(declared, optional_old=optional_old), source) or validate(tree, source)
        if issues:
            raise source.compile_error(issues)
        if tree.type != result:
            raise CelCompileError(wrong)
        try:
            return Expression(tree, declared)
        except PlanError as error:
            raise CelCompileError(f"program instantiation failed: {error}") from None


class _RuleCompiler(Compiler):
    """The engine's compiler with two variables instead of a device."""

    def path(self, node: Node) -> None:
        return None

    def compile(self, node: Node) -> Code:
        if isinstance(node, ast.Call) and node.target is None and node.function in _KEYED:
            left, right = (self.compile(arg).run for arg in node.args)
            return Code(_KEYED[node.function](left, right))
        return super().compile(node)

    def ident(self, node: ast.Ident) -> Code:
        name = node.name.removeprefix(".")
        own = node.name.startswith(".") or self.variable(node.name) is None
        return Code(_reader(name)) if own and name in _VARIABLES else super().ident(node)


def _reader(name: str) -> Run:
    def read(activation: Any, frame: Frame) -> Any:
        return activation.read(name)

    return read


def _equals(left: Run, right: Run) -> Run:
    return lambda activation, frame: same(
        left(activation, frame), right(activation, frame), _lists(activation)
    )


def _differs(left: Run, right: Run) -> Run:
    def run(activation: Any, frame: Frame) -> bool:
        one, other = left(activation, frame), right(activation, frame)
        try:
            return not same(one, other, _lists(activation))
        except CelRuntimeError:
            return True

    return run


def _plus(left: Run, right: Run) -> Run:
    return lambda activation, frame: total(
        left(activation, frame), right(activation, frame), _lists(activation)
    )


def _lists(activation: Any) -> Lists:
    found: Lists = activation.lists
    return found


_KEYED: Final[dict[str, Callable[[Run, Run], Run]]] = {"_==_": _equals, "_!=_": _differs, "_+_": _plus}


class _RuleEstimator(Estimator):
    """The engine's estimator with the sizes of a schema."""

    def __init__(self, declared: Declared) -> None:
        super().__init__()
        self._declared = declared

    def size(self, node: Node) -> Bounds | None:
        if id(node) not in self.sizes and not isinstance(node, ast.Literal | ast.ListNode | ast.MapNode):
            found = _declared_at(self._declared, self.path(node).names())
            if found is not None:
                self.sizes[id(node)] = Bounds(0, found.most)
        return super().size(node)


def _declared_at(declared: Declared, path: list[str]) -> Declared | None:
    """The type at a path, whatever variable it starts from."""
    current: Declared | None = declared if path else None
    for name in path[1:]:
        if current is None:
            return None
        if name in ("@items", "@values"):
            current = current.element
        elif name == "@keys":
            current = current.key
        else:
            current = (current.fields or {}).get(name)
    return current


def old_value(value: Any, *, optional: bool) -> Any:
    """``oldSelf`` as rules of either kind see it."""
    return Optional(True, value) if optional else value
