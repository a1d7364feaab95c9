"""Counted evaluation: a checked tree as steps that add up what upstream's interpreter would charge.

A second way to run a selector, several times slower than the closures of ``compiler``, with the same results.
Each call is computed by the very closures of ``calls``, fed with the argument values; what differs is only
that every step of the tree is taken one by one, in upstream's order, and charged.
"""

from __future__ import annotations

from typing import Any

from baro.cel import ast
from baro.cel.ast import Node
from baro.cel.code import Code, Failure, constant
from baro.cel.compilation import Path, device_map
from baro.cel.compiler import Compiler
from baro.cel.cost_bounds import LIST_COST, MAP_COST, MESSAGE_COST
from baro.cel.cost_calls import (
    CallStep,
    ConstructorStep,
    FoldStep,
    LogicStep,
    MembershipStep,
    NotStrictlyFalseStep,
    OptionalOrStep,
    append_or,
)
from baro.cel.cost_steps import (
    Attribute,
    AttributeQualifier,
    AttributeStep,
    Conditional,
    Constant,
    Fault,
    Qualifier,
    State,
    Step,
    StepQualifier,
    TestQualifier,
    Tracker,
)
from baro.cel.device import DeviceView
from baro.cel.errors import CelRuntimeError
from baro.cel.folds import WORK_LIMIT
from baro.cel.macros import ACCUMULATOR
from baro.cel.values import Map, UInt

# Functions of two arguments with one implementation for all types: both arguments are evaluated even when the
# overload is not known. Others are then dispatched like functions of many arguments.
_ONE_IMPLEMENTATION = frozenset(
    [
        *("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_+_", "_-_", "_*_", "_/_", "_%_", "@in"),
        *("matches", "@sortByAssociatedKeys"),
    ]
)
_VARIADIC = frozenset(["string_format"])  # of two arguments, but bound as if of any number
_REGEX = frozenset(["matches", "find", "findAll"])


class CountedProgram:
    """A plan for counted evaluations of one tree."""

    __slots__ = ("_root", "_slots")

    def __init__(self, tree: Node) -> None:
        planner = _Planner()
        self._root = planner.plan(tree)
        self._slots = planner.slots

    def evaluate(self, device: DeviceView, limit: int) -> tuple[Any, CelRuntimeError | None, int]:
        """Result (before its conversion to bool) or error, and the cost up to there."""
        tracker = Tracker(limit)
        state = State(device_map(device), self._slots, tracker)
        try:
            result = self._root.run(state)
        except CelRuntimeError as error:
            return None, error, tracker.cost
        if type(result) is Failure:
            return None, result.error, tracker.cost
        return result, None, tracker.cost


class _Parts(Compiler):
    """The compiler of one node whose parts are values in the frame already."""

    def __init__(self, nodes: list[Node], steps: list[Step]) -> None:
        super().__init__()
        self.codes = {
            id(node): constant(step.value) if isinstance(step, Constant) else _frame_value(position)
            for position, (node, step) in enumerate(zip(nodes, steps, strict=True), start=1)
        }

    def compile(self, node: Node) -> Code:
        found = self.codes.get(id(node))
        return super().compile(node) if found is None else found

    def path(self, node: Node) -> Path | None:
        return None


def _frame_value(position: int) -> Code:
    return Code(lambda device, frame: frame[position])


Variable = Any  # what reads a variable: a function of the state


class _Planner:
    """Plans the steps of a tree. ``slots`` counts the variables."""

    def __init__(self) -> None:
        self.slots = 0
        self.scopes: list[dict[str, Variable]] = []
        self.unnamed = 0  # steps that stand for no node of ours get negative identities

    def plan(self, node: Node) -> Step:
        step: Step = self._rules[type(node)](self, node)
        return step

    def compute(self, node: Node, nodes: list[Node], steps: list[Step]) -> Code:
        return _Parts(nodes, steps).compile(node)

    # --- names and fields ----------------------------------------------------------------------------

    def literal(self, node: ast.Literal) -> Step:
        return Constant(id(node), node.value)

    def ident(self, node: ast.Ident) -> Step:
        for scope in reversed(self.scopes):
            if node.name in scope:
                return AttributeStep(Attribute(id(node), scope[node.name]))
        if node.type.kind == "type":
            return Constant(id(node), self.compute(node, [], []).value)
        return AttributeStep(Attribute(id(node), lambda state: state.root))

    def select(self, node: ast.Select) -> Step:
        if not node.field:  # a qualified name
            return self.plan(node.operand)
        step = self.attribute(self.plan(node.operand))
        if node.test:
            step = AttributeStep(step.attribute, test=id(node))
            step.attribute.add(TestQualifier(id(node), node.field, False))
        else:
            step.attribute.add(Qualifier(id(node), node.field, node.optional))
        return step

    def attribute(self, step: Step) -> AttributeStep:
        """The step itself when it reads an attribute, else one that reads the step's value."""
        return step if isinstance(step, AttributeStep) else AttributeStep(Attribute(step.owner, step.run))

    # --- calls ---------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Step:
        function = node.function
        if function in ("_&&_", "_||_"):
            terms = [self.plan(arg) for arg in node.args]
            return self.logic(id(node), function == "_||_", terms)
        nodes = list(node.args) if node.target is None else [node.target, *node.args]
        steps = [self.plan(part) for part in nodes]
        if function == "_?_:_":
            branches = [self.branch(step) for step in steps[1:]]
            return AttributeStep(Conditional(id(node), steps[0], branches[0], branches[1]))
        if function in ("_[_]", "_[?_]"):
            return self.index(node, steps)
        if function == "@not_strictly_false":
            return NotStrictlyFalseStep(id(node), steps[0])
        if function in ("or", "orValue"):
            return OptionalOrStep(id(node), steps[0], steps[1], function == "orValue")
        return self.function(node, nodes, steps)

    def function(self, node: ast.Call, nodes: list[Node], steps: list[Step]) -> Step:
        code = self.compute(node, nodes, steps)
        if code.constant:
            return Constant(id(node), code.value)
        overload = node.overloads[0] if len(node.overloads) == 1 else ""
        if overload == "in_list" and _is_lookup(steps[1]):
            return MembershipStep(id(node), steps[0], code.run)
        eager = len(steps) <= 2 and (bool(overload) or node.function in _ONE_IMPLEMENTATION)
        eager = eager and overload not in _VARIADIC
        if node.function in _REGEX and isinstance(steps[1], Constant) and type(steps[1].value) is str:
            eager = False
        run = append_or(code.run) if nodes and _is_accumulator(nodes[0]) else code.run
        return CallStep(id(node), node.function, overload, steps, run, eager)

    def logic(self, owner: int, decisive: bool, terms: list[Step]) -> Step:
        """Upstream balances chains into trees of two; the root of ours has the node's identity."""
        if len(terms) == 1:
            return terms[0]
        middle = (len(terms) - 2 + 1) // 2 + 1
        left = self.logic(self.identity(), decisive, terms[:middle])
        right = self.logic(self.identity(), decisive, terms[middle:])
        return LogicStep(owner, decisive, (left, right))

    def identity(self) -> int:
        self.unnamed -= 1
        return self.unnamed

    def branch(self, step: Step) -> Attribute:
        return step.attribute if isinstance(step, AttributeStep) else Attribute(step.owner, step.run)

    def index(self, node: ast.Call, steps: list[Step]) -> Step:
        target, key = self.attribute(steps[0]), steps[1]
        optional = node.function == "_[?_]"
        if isinstance(key, Constant):
            qualifier = Qualifier(id(node), key.value, optional)
        elif isinstance(key, AttributeStep):
            qualifier = AttributeQualifier(id(node), key.attribute, optional)
        else:
            qualifier = StepQualifier(id(node), key, optional)
        target.attribute.add(qualifier)
        return target

    # --- aggregates ----------------------------------------------------------------------------------

    def constructor(self, node: Node, nodes: list[Node], charge: int) -> Step:
        steps = [self.plan(part) for part in nodes]
        code = self.compute(node, nodes, steps)
        if code.constant and not isinstance(node, ast.Message):
            return Constant(id(node), code.value)
        step = ConstructorStep(id(node), steps, code.run, charge)
        if steps and all(part.constant for part in steps) and not isinstance(node, ast.Message):
            made = step.run(State(Map(), 0, Tracker(WORK_LIMIT)))
            if type(made) is Failure:
                return Fault(id(node), made)
        return step

    def list_node(self, node: ast.ListNode) -> Step:
        return self.constructor(node, list(node.elements), LIST_COST)

    def map_node(self, node: ast.MapNode) -> Step:
        nodes = [part for entry in node.entries for part in (entry.key, entry.value)]
        return self.constructor(node, nodes, MAP_COST)

    def message(self, node: ast.Message) -> Step:
        return self.constructor(node, [entry.value for entry in node.entries], MESSAGE_COST)

    # --- folds ---------------------------------------------------------------------------------------

    def comprehension(self, node: ast.Comprehension) -> Step:
        init, over = self.plan(node.init), self.plan(node.range)
        accu, first = self.slot(), self.slot()
        second = self.slot() if node.var2 is not None else None
        grows = node.accu == ACCUMULATOR and isinstance(node.init, ast.ListNode)
        step = FoldStep(id(node), over, (accu, first, second), init, grows)
        names: dict[str, Variable] = {node.var: _load(first)}
        if node.var2 is not None and second is not None:
            names[node.var2] = _load(second)
        self.scopes += [{node.accu: step.read}, names]
        condition, each = self.plan(node.condition), self.plan(node.step)
        self.scopes.pop()
        step.set_parts(condition, each, self.plan(node.result))
        self.scopes.pop()
        return step

    def slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    _rules: dict[type[Node], Any] = {
        ast.Literal: literal, ast.Ident: ident, ast.Select: select, ast.Call: call, ast.ListNode: list_node,
        ast.MapNode: map_node, ast.Message: message, ast.Comprehension: comprehension,
    }  # fmt: skip


def _load(slot: int) -> Variable:
    return lambda state: state.slots[slot]


def _is_accumulator(node: Node) -> bool:
    return isinstance(node, ast.Ident) and node.name == ACCUMULATOR


def _is_lookup(container: Step) -> bool:
    """Whether ``in`` becomes a lookup: a list of constants that Go can hash."""
    if not isinstance(container, Constant) or type(container.value) is not tuple:
        return False
    return all(type(item) in (bool, int, UInt, float, str) for item in container.value)
