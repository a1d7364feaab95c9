"""A compiled selector: source text in, a program that answers for one device out."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from baro.cel.ast import Node, walk
from baro.cel.checker import check
from baro.cel.code import PlanError, Run
from baro.cel.compiler import Compiler
from baro.cel.device import ColumnRef, DeviceView
from baro.cel.environment import Environment, EnvironmentName, environment
from baro.cel.errors import CelCompileError, CelRuntimeError, Source
from baro.cel.folds import LIMIT_MESSAGE, WORK_LIMIT
from baro.cel.native import refusal
from baro.cel.parser import parse
from baro.cel.types import BOOL, wrapper
from baro.cel.validators import validate
from baro.cel.values import Optional, type_name

if TYPE_CHECKING:
    from baro.cel.cost_bounds import Bounds
    from baro.cel.cost_tracking import CountedProgram
    from baro.cel.explanation import Clause, Explanation
    from baro.cel.reading import Reads

MAX_EXPRESSION_BYTES = 10 * 1024
"""What the API server accepts; the compiler itself has no such limit."""

MAX_COST = WORK_LIMIT
"""What a selector may be estimated to cost (admission), and may cost on one device (evaluation)."""

_BOOL_MESSAGE = wrapper("bool")
_NO_TEXT = re.compile("[\ud800-\udfff]")  # halves of characters; upstream never sees what is no UTF-8
_LONG = 2048  # literals of this length may make a pattern costly without a loop
_DEEP = 60  # nesting from which Python's default stack may not suffice
_STACK = 40_000


class Program:
    """One selector, compiled. ``evaluate`` may be called from several threads.

    ``columns``: the values of a device that the outcome depends on; ``None`` when the program walks or counts
    a whole map of the device, so that any value may matter. ``reads``: the values it names, in either case.
    ``compared``: those columns whose value is only tested for equality with constants, with the constants;
    any two other values of one type act alike.
    """

    __slots__ = (
        "__weakref__",
        "_counted",
        "_deep",
        "_estimate",
        "_explanation",
        "_panics",
        "_plain",
        "_run",
        "_slots",
        "_whole_reads",
        "columns",
        "compared",
        "environment",
        "expression",
        "reads",
        "tree",
    )  # fmt: skip

    def __init__(self, expression: str, environment: EnvironmentName, tree: Node) -> None:
        compiler = Compiler()
        code = compiler.compile(tree)
        self.expression = expression
        self.environment = environment
        self.tree = tree
        self.reads = frozenset(compiler.columns)
        self.columns: frozenset[ColumnRef] | None = None if compiler.whole else self.reads
        self.compared = compiler.compared_columns()
        self._run: Run = self._choose if len(expression) > _LONG or compiler.costly else code.run
        self._panics = compiler.panics
        self._plain = code.run
        self._slots = compiler.slots
        self._deep = _depth(tree) > _DEEP
        self._estimate: Bounds | None = None
        self._counted: CountedProgram | None = None
        self._explanation: Explanation | None = None
        self._whole_reads: Reads | None = None

    def evaluate(self, device: DeviceView) -> bool:
        """Whether the device is selected. Raises ``CelRuntimeError`` with the scheduler's words.

        A selector that costs more than ``MAX_COST`` on this device stops with upstream's error: what may cost
        so much by its estimate is evaluated counting, and a rough guard catches the rest.
        """
        if device.broken is not None:
            raise CelRuntimeError(device.broken)
        result = self.value(device)
        return result if type(result) is bool else selected(result)

    def value(self, device: DeviceView) -> Any:
        """What the expression gives on a sound device, whether or not that is a bool. Raises as ``evaluate``
        does."""
        frame: list[Any] = [WORK_LIMIT, *[None] * (self._slots - 1)]
        if self._deep:
            with deep_stack():
                return self._run(device, frame)
        return self._run(device, frame)

    @property
    def whole_reads(self) -> Reads:
        """What is read of whole maps, and the single values beside; found when first asked for."""
        if self._whole_reads is None:
            from baro.cel.reading import reads_of  # noqa: PLC0415 only for programs over columns

            with deep_stack():
                found = reads_of(self.tree)
            self._whole_reads = msgspec.structs.replace(found, columns=found.columns | self.reads)
        return self._whole_reads

    @property
    def cost_estimate(self) -> Bounds:
        """What an evaluation may cost by upstream's estimate; found when first asked for."""
        if self._estimate is None:
            from baro.cel.cost_estimate import estimate  # noqa: PLC0415 only where costs are asked for

            with deep_stack():
                self._estimate = estimate(self.tree)
        return self._estimate

    def evaluate_with_cost(self, device: DeviceView, *, limit: int = MAX_COST) -> CountedResult:
        """The outcome on a device and what it cost, in upstream's units. Several times slower.

        An error is part of the result, with the cost up to there. A fold that stops early over a map visits
        the keys in the order of the device; upstream's order is random.
        """
        if device.broken is not None:
            return CountedResult(None, device.broken, 0)
        result, error, cost = self._count(device, limit)
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

                self._explanation = explain(self)
            return self._explanation(device)

    def _count(self, device: DeviceView, limit: int) -> tuple[Any, CelRuntimeError | None, int]:
        with deep_stack():
            if self._counted is None:
                from baro.cel.cost_tracking import CountedProgram  # noqa: PLC0415 only where costs are counted

                self._counted = CountedProgram(self.tree)
            return self._counted.evaluate(device, limit)

    def _choose(self, device: DeviceView, frame: list[Any]) -> Any:
        """The first run: from now on what may cost too much, or panic while it is counted, is counted."""
        counting = self._panics or self.cost_estimate.max > MAX_COST
        self._run = self._run_counting if counting else self._run_guarded
        return self._run(device, frame)

    def _run_counting(self, device: DeviceView, frame: list[Any]) -> Any:
        result, error, _ = self._count(device, MAX_COST)
        if error is not None:
            raise error
        return result

    def _run_guarded(self, device: DeviceView, frame: list[Any]) -> Any:
        try:
            return self._plain(device, frame)
        except CelRuntimeError as error:
            if error.message != LIMIT_MESSAGE:
                raise
            return self._run_counting(device, frame)

    def __repr__(self) -> str:
        return f"Program({self.expression!r})"


class CountedResult(msgspec.Struct, frozen=True):
    """Outcome of one evaluation: ``result``, or ``error`` in the scheduler's words; ``cost`` in upstream's
    units."""

    result: bool | None
    error: str | None
    cost: int


def selected(result: Any) -> bool:
    """The result as upstream converts it to a Go bool. Raises ``CelRuntimeError`` when it cannot."""
    try:
        return _native_bool(result)
    except ValueError as error:
        text = f"CEL result of type {type_name(result)} could not be converted to bool: {error}"
        raise CelRuntimeError(text) from None


def _depth(tree: Node) -> int:
    return max(depth for _, depth in walk(tree))


def _native_bool(value: Any) -> bool:
    """Upstream's conversion of the result to a Go bool; an optional is its value. Raises ``ValueError``."""
    if type(value) is bool:
        return value
    if type(value) is not Optional:
        raise ValueError(refusal(value, "bool"))
    if not value.present:
        raise ValueError("optional.none() dereference")
    return _native_bool(value.value)


@contextlib.contextmanager
def deep_stack() -> Iterator[None]:
    """Room for 250 levels of nesting; Python's own frames do not use the machine's stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _STACK))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@functools.lru_cache(maxsize=1024)
def compile_selector(expression: str, environment_name: EnvironmentName = "stored") -> Program:
    """Compile a device selector; compiled programs are kept and shared.

    ``environment_name``: ``stored`` as the scheduler compiles, ``admission`` as the API server checks a new
    object with the default gates of 1.37 (attributes are ``any``, no ``includes``).
    Raises ``CelCompileError`` with the API server's exact words.
    """
    with deep_stack():
        tree = checked_tree(expression, environment(environment_name))
        try:
            return Program(expression, environment_name, tree)
        except PlanError as error:
            text = str(error)
            text = text if text.startswith("PANIC") else f"program instantiation failed: {text}"
            raise CelCompileError(text) from None


def checked_tree(expression: str, env: Environment) -> Node:
    """Parse, check the types, run the validators, check the result type."""
    source = Source(_NO_TEXT.sub("\ufffd", expression))
    tree = parse(source)
    issues = check(tree, env, source) or validate(tree, source)
    if issues:
        raise source.compile_error(issues)
    if tree.type not in (BOOL, _BOOL_MESSAGE, env.attribute):
        raise CelCompileError(f"must evaluate to bool or the unknown type, not {tree.type}")
    return tree
