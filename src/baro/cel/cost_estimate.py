"""What a selector may cost at least and at most, found without running it.

Follows cel-go's estimator over the checked tree: sizes flow from literals and from the declared limits of a
device through bindings, folds and calls; each call's cost is a function of the sizes of its arguments. The
order of the walk matters, because sizes once found are kept.
"""

from __future__ import annotations

from typing import Any

import msgspec

from baro.cel import ast
from baro.cel.ast import Node
from baro.cel.cost_bounds import (
    LIST_COST,
    MAP_COST,
    MESSAGE_COST,
    NO_PATH,
    ONE,
    U64,
    UNKNOWN,
    ZERO,
    Bounds,
    FieldPath,
    declared_size,
    exactly,
)
from baro.cel.cost_functions import Argument, call_estimate
from baro.cel.types import Type

ACCUMULATORS = ("@result", "__result__")


class _Entries(msgspec.Struct, frozen=True):
    """Sizes of the keys (or positions) and values of a container."""

    kind: str
    key: Bounds
    value: Bounds

    def union(self, other: _Entries | None) -> _Entries | None:
        if other is None:
            return None
        return _Entries(self.kind, self.key.union(other.key), self.value.union(other.value))


class _Local(msgspec.Struct, frozen=True):
    path: FieldPath
    size: Bounds | None
    entries: _Entries | None


def estimate(tree: Node) -> Bounds:
    """Bounds of the cost of a checked tree. The caller provides for a deep Python stack."""
    return Estimator().cost(tree)


class Estimator:
    """One estimate. Whoever knows of other sizes than a device's gives them in a subclass."""

    def __init__(self) -> None:
        self.paths: dict[int, FieldPath] = {}
        self.sizes: dict[int, Bounds] = {}
        self.entries: dict[int, _Entries] = {}
        self.locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Bounds:
        rule = self._rules[type(node)]
        found: Bounds = rule(self, node)
        return found

    # --- names and fields ----------------------------------------------------------------------------

    def literal(self, node: ast.Literal) -> Bounds:
        return ZERO

    def ident(self, node: ast.Ident) -> Bounds:
        local = self.local(node.name)
        self.paths[id(node)] = FieldPath.of(node.name) if local is None else local.path
        return ONE

    def select(self, node: ast.Select) -> Bounds:
        if not node.field:  # a qualified name
            return ONE
        cost = self.cost(node.operand)
        if node.optional:
            self.argument(node.operand)
            self.keep_size(node, self.size(node))
            return cost.plus(ONE)
        if node.test:
            return cost
        if node.operand.type.kind in ("map", "struct", "param"):
            cost = cost.plus(ONE)
        self.paths[id(node)] = self.path(node.operand).extended(node.field)
        return cost

    # --- calls ---------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Bounds:
        if node.function == "dyn":
            cost = self.cost(node.args[0]).plus(ONE)
            self.copy_sizes(node, node.args[0])
            return cost
        costs, args = [], []
        for arg in node.args:
            costs.append(self.cost(arg))
            args.append(self.argument(arg))
        target_cost, target = ZERO, None
        if node.target is not None:
            target_cost = self.cost(node.target)
            target = self.argument(node.target)
        if node.function in ("_&&_", "_||_"):
            self.keep_size(node, ONE)
            return Bounds(costs[0].min, _sum(costs).max)
        bounds, size = Bounds(U64, 0), None
        for overload in node.overloads:
            call = self.overload(node, overload, target, args, costs)
            bounds = bounds.union(call[0])
            if call[1] is not None:
                size = call[1] if size is None else size.union(call[1])
            if overload in ("index_list", "index_map"):
                size = self.indexed(node, "@items" if overload == "index_list" else "@values")
            if size is None:
                size = self.size(node)
        self.keep_size(node, size)
        return target_cost.plus(bounds)

    def overload(
        self,
        node: ast.Call,
        overload: str,
        target: Argument | None,
        args: list[Argument],
        costs: list[Bounds],
    ) -> tuple[Bounds, Bounds | None]:
        """Cost with the arguments, and size of the result, if this overload is the one."""
        if overload == "conditional":
            condition, when_true, when_false = costs
            first, second = (self.entries_of(arg) for arg in node.args[1:])
            self.keep_entries(node, first.union(second) if first is not None else None)
            size = args[1].size_or_unknown().union(args[2].size_or_unknown())
            return condition.plus(when_true.union(when_false)), size
        if overload in ("add_string", "add_bytes", "add_list"):
            first, second = (self.entries_of(arg) for arg in node.args)
            self.keep_entries(node, first.union(second) if first is not None else None)
        cost, result = call_estimate(node.function, overload, target, args)
        return cost.plus(_sum(costs)), result

    def indexed(self, node: ast.Call, step: str) -> Bounds | None:
        container = node.args[0]
        entries = self.entries_of(container)
        self.paths[id(node)] = self.path(container).extended(step)
        return None if entries is None else entries.value

    # --- aggregates ----------------------------------------------------------------------------------

    def list_node(self, node: ast.ListNode) -> Bounds:
        total, size = ZERO, Bounds(U64 if node.elements else 0, 0)
        for element in node.elements:
            total = total.plus(self.cost(element))
            size = size.union(self.size_or_unknown(element))
        self.keep_entries(node, _Entries("list", ONE, size))
        return total.plus(exactly(LIST_COST))

    def map_node(self, node: ast.MapNode) -> Bounds:
        total = ZERO
        keys = values = Bounds(U64 if node.entries else 0, 0)
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self.size_or_unknown(entry.key))
            values = values.union(self.size_or_unknown(entry.value))
        self.keep_entries(node, _Entries("map", keys, values))
        return total.plus(exactly(MAP_COST))

    def message(self, node: ast.Message) -> Bounds:
        return _sum([self.cost(entry.value) for entry in node.entries]).plus(exactly(MESSAGE_COST))

    # --- folds ---------------------------------------------------------------------------------------

    def comprehension(self, node: ast.Comprehension) -> Bounds:
        total = self.cost(node.range).plus(self.cost(node.init))
        self.push(node.accu, _Local(self.path(node.init), self.size(node.init), self.entries_of(node.init)))
        if _is_binding(node):
            total = total.plus(self.cost(node.result))
            self.locals[node.accu].pop()
            self.copy_sizes(node, node.result)
            return total
        self.push_variables(node)
        each = self.cost(node.condition)
        each = self.cost(node.step).plus(each)
        for name in (node.var, node.var2):
            if name is not None:
                self.locals[name].pop()
        total = total.plus(self.cost(node.result))
        self.locals[node.accu].pop()
        rounds = self.size_or_unknown(node.range)
        total = total.plus(rounds.times(each))
        if isinstance(node.init, ast.Literal):
            self.keep_size(node, self.size(node.init))
        elif isinstance(node.init, (ast.ListNode, ast.MapNode)):
            self.keep_size(node, rounds)
            self.keep_entries(node, self.entries_of(node.step))
        return total

    def push_variables(self, node: ast.Comprehension) -> None:
        """The one or two variables of a fold: element, or position and element; key, or key and value."""
        kind = entries.kind if (entries := self.entries_of(node.range)) is not None else node.range.type.kind
        is_list = kind == "list"
        key = None if entries is None else entries.key
        value = None if entries is None else entries.value
        if node.var2 is None:
            single = ("@items", value) if is_list else ("@keys", key)
            steps: list[tuple[str | None, tuple[str, Bounds | None]]] = [(node.var, single)]
        else:
            steps = [
                (node.var, ("@indices" if is_list else "@keys", key)),
                (node.var2, ("@items" if is_list else "@values", value)),
            ]
        for name, (step, size) in steps:
            assert name is not None  # noqa: S101 for the type checker
            self.push(name, _Local(self.path(node.range).extended(step), size, None))

    def push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def local(self, name: str) -> _Local | None:
        stack = self.locals.get(name)
        return stack[-1] if stack else None

    # --- paths and sizes -----------------------------------------------------------------------------

    def path(self, node: Node) -> FieldPath:
        if isinstance(node, ast.Ident):
            local = self.local(node.name)
            if local is not None:
                return local.path
        return self.paths.get(id(node), NO_PATH)

    def argument(self, node: Node) -> Argument:
        path = self.path(node)
        if path.length and path.cells[0] in ACCUMULATORS:
            path = NO_PATH
        return Argument(node, node.type, path, self.size(node))

    def size(self, node: Node) -> Bounds | None:
        """The size of a node's value, ``None`` when nothing is known about it."""
        known = self.sizes.get(id(node)) or _literal_size(node)
        if known is not None:
            return known
        declared = declared_size(self.path(node))
        if declared is not None:
            self.sizes[id(node)] = declared
            return declared
        if _is_scalar(node.type):
            return ONE
        local = self.local(node.name) if isinstance(node, ast.Ident) else None
        return None if local is None else local.size

    def size_or_unknown(self, node: Node) -> Bounds:
        found = self.size(node)
        return UNKNOWN if found is None else found

    def entries_of(self, node: Node) -> _Entries | None:
        found = self.entries.get(id(node))
        if found is None and isinstance(node, ast.Ident):
            local = self.local(node.name)
            return None if local is None else local.entries
        return found

    def keep_size(self, node: Node, size: Bounds | None) -> None:
        if size is not None:
            self.sizes[id(node)] = size

    def keep_entries(self, node: Node, entries: _Entries | None) -> None:
        if entries is not None:
            self.entries[id(node)] = entries

    def copy_sizes(self, node: Node, source: Node) -> None:
        self.keep_size(node, self.size(source))
        self.keep_entries(node, self.entries_of(source))

    _rules: dict[type[Node], Any] = {
        ast.Literal: literal, ast.Ident: ident, ast.Select: select, ast.Call: call, ast.ListNode: list_node,
        ast.MapNode: map_node, ast.Message: message, ast.Comprehension: comprehension,
    }  # fmt: skip


def _sum(costs: list[Bounds]) -> Bounds:
    total = ZERO
    for cost in costs:
        total = total.plus(cost)
    return total


def _is_binding(node: ast.Comprehension) -> bool:
    """Whether the fold is a ``cel.bind``."""
    return (
        isinstance(node.range, ast.ListNode)
        and not node.range.elements
        and isinstance(node.condition, ast.Literal)
        and node.condition.value is False
        and node.accu != "__result__"
    )


def _literal_size(node: Node) -> Bounds | None:
    if isinstance(node, ast.Literal):
        return exactly(len(node.value)) if type(node.value) in (str, bytes) else ONE
    if isinstance(node, ast.ListNode):
        return exactly(len(node.elements))
    return exactly(len(node.entries)) if isinstance(node, ast.MapNode) else None


_SCALARS = frozenset({
    "bool", "double", "int", "uint", "google.protobuf.Timestamp", "google.protobuf.Duration",
})  # fmt: skip


def _is_scalar(given: Type) -> bool:
    if given.kind == "opaque" and given.name == "optional_type":
        return _is_scalar(given.params[0])
    return given.kind in ("primitive", "well-known", "wrapper") and given.name in _SCALARS
