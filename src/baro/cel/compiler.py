"""Checked tree to closures: each node becomes a Python function of (device, frame).

``frame`` is a list: slot 0 holds what is left of the work limit, the others the variables of folds and
bindings. Errors are exceptions; only where CEL keeps an error as a value (accumulators, bindings) it is
stored as ``Failure`` and raised when read. While compiling, the columns of the device that the program reads
are noted (``compilation``).
"""

from __future__ import annotations

from typing import Any

from baro.cel import ast, calls, folds, messages, operators
from baro.cel.ast import Node
from baro.cel.code import Code, Frame, PlanError, Run, constant
from baro.cel.compilation import Compilation, Fixed
from baro.cel.device import DeviceView
from baro.cel.environment import NAMES_OF_TYPES
from baro.cel.errors import CelRuntimeError
from baro.cel.macros import is_binding
from baro.cel.values import UNHASHABLE, Map, TypeValue, show, unhashable


class Compiler(Compilation):
    """Compiles one tree: knows the closure of every kind of node."""

    def compile(self, node: Node) -> Code:
        path = self.path(node)
        if path is not None:
            return self.read(path)
        if isinstance(node, ast.Literal):
            return constant(node.value)
        if isinstance(node, ast.Ident):
            return self.ident(node)
        if isinstance(node, ast.Select):
            return self.select(node)
        if isinstance(node, ast.Call):
            return calls.compile_call(self, node)
        if isinstance(node, ast.ListNode):
            return self.list(node)
        if isinstance(node, ast.MapNode):
            return self.map(node)
        if isinstance(node, ast.Message):
            return messages.message_code(self, node)
        assert isinstance(node, ast.Comprehension)  # noqa: S101 the last kind of node
        return self.comprehension(node)

    def ident(self, node: ast.Ident) -> Code:
        slot = self.variable(node.name)
        if isinstance(slot, Fixed):
            return Code(lambda device, frame: slot.value)  # no constant: upstream computes nothing ahead
        if isinstance(slot, int):
            if node.type.kind == "type":  # upstream takes a variable of this type for the name of a type
                raise PlanError(f"reference to undefined type: {node.name}")
            return Code(folds.load(slot))
        name = node.name.removeprefix(".")
        if name not in NAMES_OF_TYPES:
            raise PlanError(f"reference to undefined type: {name}")
        named = node.type.params[0] if node.type.params else node.type
        return constant(TypeValue(named.name))

    def select(self, node: ast.Select) -> Code:
        if not node.field:  # a qualified name, resolved by the checker
            return self.compile(node.operand)
        field = node.field
        if node.test:
            path = self.path(node.operand)
            code = self.presence(path, field) if path is not None else None
            if code is not None:
                return code
            operand = self.compile(node.operand).run
            return Code(lambda device, frame: operators.has(operand(device, frame), field))
        operand = self.compile(node.operand).run
        access = operators.optional_index if node.optional else operators.index
        return Code(lambda device, frame: access(operand(device, frame), field))

    def list(self, node: ast.ListNode) -> Code:
        parts = [self.compile(element) for element in node.elements]
        if not node.optional:
            if all(part.constant for part in parts):
                return constant(tuple(part.value for part in parts))
            runs = tuple(part.run for part in parts)
            return Code(lambda device, frame: tuple([run(device, frame) for run in runs]))
        pairs = [(part.run, index in node.optional) for index, part in enumerate(parts)]

        def with_optionals(device: DeviceView, frame: Frame) -> tuple[Any, ...]:
            found = []
            for run, optional in pairs:
                value = run(device, frame)
                if not optional:
                    found.append(value)
                elif messages.unwrapped(value, "list element").present:
                    found.append(value.value)
            return tuple(found)

        return self.folded(with_optionals, all(part.constant for part in parts))

    def folded(self, run: Run, is_constant: bool) -> Code:
        """The code, run now when all its parts are constant. A failure is left to the run."""
        if is_constant:
            try:
                return constant(run(_NO_DEVICE, [0]))
            except CelRuntimeError:
                pass
        return Code(run)

    def map(self, node: ast.MapNode) -> Code:
        keys = [self.compile(entry.key) for entry in node.entries]
        values = [self.compile(entry.value) for entry in node.entries]
        triples = [
            (key.run, value.run, entry.optional)
            for key, value, entry in zip(keys, values, node.entries, strict=True)
        ]

        def run(device: DeviceView, frame: Frame) -> Map:
            entries = []
            for run_key, run_value, optional in triples:
                key, value = run_key(device, frame), run_value(device, frame)
                if type(key) in UNHASHABLE:
                    raise unhashable(key)
                if not optional:
                    entries.append((key, value))
                elif messages.unwrapped(value, f"entry '{show(key)}'").present:
                    entries.append((key, value.value))
            return Map(entries)

        is_constant = all(part.constant for part in (*keys, *values))
        if is_constant and any(type(key.value) in UNHASHABLE for key in keys):
            raise PlanError("PANIC: runtime error: hash of unhashable type types.Bytes")
        return self.folded(run, is_constant)

    # --- folds and bindings --------------------------------------------------------------------------

    def comprehension(self, node: ast.Comprehension) -> Code:
        if is_binding(node):
            return self.binding(node)
        self.costly = True
        return folds.compile_fold(self, node)

    def binding(self, node: ast.Comprehension) -> Code:
        path = self.path(node.init)
        if path is not None and path.keys and not path.optional:
            self.scopes.append({node.accu: path})
            body = self.compile(node.result)
            self.scopes.pop()
            return Code(body.run)  # upstream computes nothing ahead of a binding
        value = self.compile(node.init).run
        slot = self.slot()
        self.scopes.append({node.accu: slot})
        self.compile(node.step)  # the variable alone: the planner refuses one of type ``type``
        result = self.compile(node.result).run
        self.scopes.pop()
        return Code(folds.bind(slot, value, result))


_NO_DEVICE = DeviceView(driver="")
