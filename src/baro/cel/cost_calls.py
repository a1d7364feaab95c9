"""Counted steps of calls, logic, aggregates and folds; see ``cost_steps`` for the rules of the game."""

from __future__ import annotations

from typing import Any

from baro.cel.code import Failure, Run
from baro.cel.cost_actual import call_cost
from baro.cel.cost_steps import State, Step, attempt
from baro.cel.device import DeviceView
from baro.cel.errors import CelRuntimeError
from baro.cel.folds import rounds
from baro.cel.values import Optional

_NO_GUARD = 2**62  # the rough guard of the closures is off: the tracker counts exactly
_NO_DEVICE = DeviceView(driver="")
LAZY = object()
"""A variable whose value is computed when it is first read."""


class Growing:
    """The list that ``map`` and ``filter`` collect in, appended to in place as upstream does."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[Any] = []


def append_or(compute: Run) -> Run:
    """``accumulator + [element]`` in place where the accumulator is a growing list."""

    def run(device: DeviceView, frame: list[Any]) -> Any:
        if type(frame[1]) is Growing:
            frame[1].items.extend(frame[2])
            return frame[1]
        return compute(device, frame)

    return run


def _computed(compute: Run, values: list[Any]) -> Any:
    return attempt(lambda: compute(_NO_DEVICE, [_NO_GUARD, *values]))


class CallStep(Step):
    """A function on its arguments. ``eager``: all are evaluated before the first error counts."""

    def __init__(
        self, owner: int, function: str, overload: str, args: list[Step], compute: Run, eager: bool
    ) -> None:
        super().__init__(owner)
        self.function = function
        self.overload = overload
        self.args = args
        self.compute = compute
        self.eager = eager

    def run(self, state: State) -> Any:
        values: list[Any] = []
        failure: Failure | None = None
        for arg in self.args:
            value = arg.run(state)
            values.append(value)
            if type(value) is Failure and failure is None:
                failure = value
                if not self.eager:
                    break
        result = failure if failure is not None else _computed(self.compute, values)
        tracker = state.tracker
        taken = tracker.take([arg.owner for arg in self.args])
        if taken is not None:
            tracker.cost += call_cost(self.function, self.overload, taken, result)
        tracker.push(self._owner, result)
        return result


class NotStrictlyFalseStep(Step):
    """The condition of ``all`` and ``exists``: an error lets the loop go on."""

    def __init__(self, owner: int, arg: Step) -> None:
        super().__init__(owner)
        self.arg = arg

    def run(self, state: State) -> Any:
        result = self.arg.run(state) is not False
        tracker = state.tracker
        if tracker.take([self.arg.owner]) is not None:
            tracker.cost += 1
        tracker.push(self._owner, result)
        return result


class LogicStep(Step):
    """``&&`` and ``||`` on two terms: free but for the terms."""

    def __init__(self, owner: int, decisive: bool, terms: tuple[Step, Step]) -> None:
        super().__init__(owner)
        self.decisive = decisive
        self.terms = terms

    def run(self, state: State) -> Any:
        result = self.decide(state)
        for term in self.terms:
            state.tracker.drop(term.owner)
        state.tracker.push(self._owner, result)
        return result

    def decide(self, state: State) -> Any:
        failure: Failure | None = None
        for term in self.terms:
            value = term.run(state)
            if value is self.decisive:
                return self.decisive
            if type(value) is not bool and failure is None:
                failure = value if type(value) is Failure else Failure(CelRuntimeError("no such overload"))
        return not self.decisive if failure is None else failure


class MembershipStep(Step):
    """``x in ["a", "b"]`` with constants, a lookup: free."""

    def __init__(self, owner: int, element: Step, compute: Run) -> None:
        super().__init__(owner)
        self.element = element
        self.compute = compute

    def run(self, state: State) -> Any:
        value = self.element.run(state)
        result = value if type(value) is Failure else _computed(self.compute, [value])
        state.tracker.push(self._owner, result)
        return result


class OptionalOrStep(Step):
    """``a.or(b)`` and ``a.orValue(b)``: free but for what is evaluated."""

    def __init__(self, owner: int, left: Step, right: Step, unwrap: bool) -> None:
        super().__init__(owner)
        self.left = left
        self.right = right
        self.unwrap = unwrap

    def run(self, state: State) -> Any:
        value = self.left.run(state)
        if type(value) is not Optional:
            if type(value) is not Failure:
                value = Failure(CelRuntimeError("no such overload"))
        elif not value.present:
            value = self.right.run(state)
        elif self.unwrap:
            value = value.value
        state.tracker.push(self._owner, value)
        return value


class ConstructorStep(Step):
    """A list, map or message: a fixed cost, also when a part fails."""

    def __init__(self, owner: int, parts: list[Step], compute: Run, charge: int) -> None:
        super().__init__(owner)
        self.parts = parts
        self.compute = compute
        self.charge = charge

    def run(self, state: State) -> Any:
        result: Any = None
        values = []
        for part in self.parts:
            value = part.run(state)
            if type(value) is Failure:
                result = value
                break
            values.append(value)
        else:
            result = _computed(self.compute, values)
        tracker = state.tracker
        tracker.take([part.owner for part in self.parts])
        tracker.cost += self.charge
        tracker.push(self._owner, result)
        return result


class FoldStep(Step):
    """A loop, or a binding (a loop over nothing). The accumulator starts when it is first read."""

    def __init__(
        self, owner: int, over: Step, slots: tuple[int, int, int | None], init: Step, grows: bool
    ) -> None:
        super().__init__(owner)
        self.over = over
        self.grows = grows
        self.accu, self.first, self.second = slots
        self.init = self.condition = self.step = self.result = init

    def set_parts(self, condition: Step, step: Step, result: Step) -> None:
        """The parts that read the variables, planned after them."""
        self.condition, self.step, self.result = condition, step, result

    def run(self, state: State) -> Any:
        result = self.fold(state)
        state.tracker.drop(self.over.owner)
        state.tracker.push(self._owner, result)
        return result

    def fold(self, state: State) -> Any:
        value = self.over.run(state)
        if type(value) is Failure:
            return value
        pairs = attempt(lambda: rounds(value, self.second is not None))
        if type(pairs) is Failure:
            return pairs
        slots = state.slots
        slots[self.accu] = LAZY
        for one, other in pairs:
            slots[self.first] = one
            if self.second is not None:
                slots[self.second] = other
            go_on = self.condition.run(state)
            if go_on is False:
                break
            slots[self.accu] = self.step.run(state)
        result = self.result.run(state)
        return tuple(result.items) if type(result) is Growing else result

    def read(self, state: State) -> Any:
        """The accumulator."""
        value = state.slots[self.accu]
        if value is LAZY:
            value = self.init.run(state)
            if self.grows and value == ():
                value = Growing()
            state.slots[self.accu] = value
        return value
