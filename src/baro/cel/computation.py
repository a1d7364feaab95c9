"""A checked tree ready to run on devices: its value, what it reads, what it may cost and what it did cost.

What the value stands for is not known here: ``program`` makes a device selector of it, ``derived`` an
attribute, ``explanation`` one of the conditions of a selector.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from baro.cel.ast import Node, walk
from baro.cel.code import Run
from baro.cel.compiler import Compiler
from baro.cel.device import ColumnRef, DeviceView
from baro.cel.errors import CelRuntimeError
from baro.cel.folds import LIMIT_MESSAGE, WORK_LIMIT

if TYPE_CHECKING:
    from baro.cel.cost_bounds import Bounds
    from baro.cel.cost_tracking import CountedProgram
    from baro.cel.reading import Reads

MAX_COST = WORK_LIMIT
"""What an expression may be estimated to cost (admission), and may cost on one device (evaluation)."""

_LONG = 2048  # literals of this length may make a pattern costly without a loop
_DEEP = 60  # nesting from which Python's default stack may not suffice
_STACK = 40_000


class Computation:
    """One tree, compiled. ``value`` may be called from several threads.

    ``columns``: the values of a device that the outcome depends on; ``None`` when the program walks or counts
    a whole map of the device, so that any value may matter. ``reads``: the values it names, in either case.
    ``compared``: those columns whose value is only tested for equality with constants, with the constants;
    any two other values of one type act alike.
    """

    __slots__ = (
        "__weakref__",
        "_cheap",
        "_counted",
        "_deep",
        "_estimate",
        "_panics",
        "_plain",
        "_run",
        "_slots",
        "_whole_reads",
        "columns",
        "compared",
        "reads",
        "tree",
    )

    def __init__(self, tree: Node, length: int) -> None:
        """``length``: characters of the expression that the tree is of, or is part of."""
        compiler = Compiler()
        code = compiler.compile(tree)
        self.tree = tree
        self.reads = frozenset(compiler.columns)
        self.columns: frozenset[ColumnRef] | None = None if compiler.whole else self.reads
        self.compared = compiler.compared_columns()
        self._cheap = length <= _LONG and not compiler.costly
        self._run: Run = code.run if self._cheap else self._choose
        self._panics = compiler.panics
        self._plain = code.run
        self._slots = compiler.slots
        self._deep = _depth(tree) > _DEEP
        self._estimate: Bounds | None = None
        self._counted: CountedProgram | None = None
        self._whole_reads: Reads | None = None

    def value(self, device: DeviceView) -> Any:
        """What the expression gives on a sound device, of any type. Raises ``CelRuntimeError``.

        What costs more than ``MAX_COST`` on this device stops with upstream's error: what may cost so much by
        its estimate is evaluated counting, and a rough guard catches the rest.
        """
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

    @property
    def counting(self) -> bool:
        """Whether ``value`` counts costs, since they may pass the limit by the estimate."""
        return not self._cheap and (self._panics or self.cost_estimate.max > MAX_COST)

    def count(self, device: DeviceView, limit: int) -> tuple[Any, CelRuntimeError | None, int]:
        """The value or the error on a sound device, and what it cost in upstream's units. Several times
        slower than ``value``."""
        with deep_stack():
            if self._counted is None:
                from baro.cel.cost_tracking import CountedProgram  # noqa: PLC0415 only where costs are counted

                self._counted = CountedProgram(self.tree)
            return self._counted.evaluate(device, limit)

    def _choose(self, device: DeviceView, frame: list[Any]) -> Any:
        """The first run: from now on what may cost too much, or panic while it is counted, is counted."""
        self._run = self._run_counting if self.counting else self._run_guarded
        return self._run(device, frame)

    def _run_counting(self, device: DeviceView, frame: list[Any]) -> Any:
        result, error, _ = self.count(device, MAX_COST)
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


def _depth(tree: Node) -> int:
    return max(depth for _, depth in walk(tree))


@contextlib.contextmanager
def deep_stack() -> Iterator[None]:
    """Room for 250 levels of nesting; Python's own frames do not use the machine's stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _STACK))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
