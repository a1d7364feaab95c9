"""A compiled selector: source text in, a program that answers for one device out."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from baro.cel.ast import Node
from baro.cel.computation import MAX_COST, Computation, deep_stack
from baro.cel.device import DeviceView
from baro.cel.environment import Environment, EnvironmentName, environment
from baro.cel.errors import CelCompileError, CelRuntimeError
from baro.cel.expression import planning, typed_tree
from baro.cel.native import selected
from baro.cel.types import BOOL, wrapper

if TYPE_CHECKING:
    from baro.cel.explanation import Clause, Explanation

MAX_EXPRESSION_BYTES = 10 * 1024
"""What the API server accepts; the compiler itself has no such limit."""

_BOOL_MESSAGE = wrapper("bool")


class Program(Computation):
    """One selector, compiled. ``evaluate`` may be called from several threads."""

    __slots__ = ("_explanation", "environment", "expression")

    def __init__(self, expression: str, environment: EnvironmentName, tree: Node) -> None:
        super().__init__(tree, len(expression))
        self.expression = expression
        self.environment = environment
        self._explanation: Explanation | None = None

    def evaluate(self, device: DeviceView) -> bool:
        """Whether the device is selected. Raises ``CelRuntimeError`` with the scheduler's words."""
        if device.broken is not None:
            raise CelRuntimeError(device.broken)
        result = self.value(device)
        return result if type(result) is bool else selected(result)

    def evaluate_with_cost(self, device: DeviceView, *, limit: int = MAX_COST) -> CountedResult:
        """The outcome on a device and what it cost, in upstream's units. Several times slower.

        An error is part of the result, with the cost up to there. A fold that stops early over a map visits
        the keys in the order of the device; upstream's order is random.
        """
        if device.broken is not None:
            return CountedResult(None, device.broken, 0)
        result, error, cost = self.count(device, limit)
        if error is not None:
            return CountedResult(None, error.message, cost)
        try:
            return CountedResult(selected(result), None, cost)
        except CelRuntimeError as unfit:
            return CountedResult(None, unfit.message, cost)

    def explain(self, device: DeviceView) -> tuple[Clause, ...]:
        """The conditions of the selector with the outcome of each on a device, nested as written.

        One clause per operand of the outermost ``&&`` (so those with another value than true are why a device
        is not selected), each with its parts where it is itself joined by ``||`` or ``&&``. A selector
        without ``&&`` is one clause. Raises ``CelRuntimeError`` for a device that no selector can be run on.
        """
        if device.broken is not None:
            raise CelRuntimeError(device.broken)
        with deep_stack():
            if self._explanation is None:
                from baro.cel.explanation import explain  # noqa: PLC0415 only where reasons are asked for

                self._explanation = explain(self.tree, self.expression)
            return self._explanation(device)

    def __repr__(self) -> str:
        return f"Program({self.expression!r})"


class CountedResult(msgspec.Struct, frozen=True):
    """Outcome of one evaluation: ``result``, or ``error`` in the scheduler's words; ``cost`` in upstream's
    units."""

    result: bool | None
    error: str | None
    cost: int


@functools.lru_cache(maxsize=1024)
def compile_selector(expression: str, environment_name: EnvironmentName = "stored") -> Program:
    """Compile a device selector; compiled programs are kept and shared.

    ``environment_name``: ``stored`` as the scheduler compiles, ``admission`` as the API server checks a new
    object with the default gates of 1.37 (attributes are ``any``, no ``includes``).
    Raises ``CelCompileError`` with the API server's exact words.
    """
    with deep_stack(), planning():
        return Program(expression, environment_name, checked_tree(expression, environment(environment_name)))


def checked_tree(expression: str, env: Environment) -> Node:
    """The tree of an expression of the type that a selector has."""
    tree = typed_tree(expression, env)
    if tree.type not in (BOOL, _BOOL_MESSAGE, env.attribute):
        raise CelCompileError(f"must evaluate to bool or the unknown type, not {tree.type}")
    return tree
