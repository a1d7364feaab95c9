"""Checked tree to closures: each node becomes a Python function of (device, frame).

``frame`` is a list: slot 0 holds what is left of the work limit, the others the variables of folds and
bindings. Errors are exceptions; only where CEL keeps an error as a value (accumulators, bindings) it is
stored as ``_Failure`` and raised when read. While compiling, the columns of the device that the program reads
are noted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from baro.cel import ast, calls, folds, messages, operators
from baro.cel.ast import Node
from baro.cel.code import Code, Frame, PlanError, Run, constant
from baro.cel.device import ColumnRef, DeviceView
from baro.cel.environment import NAMES_OF_TYPES
from baro.cel.errors import CelRuntimeError
from baro.cel.macros import UNUSED
from baro.cel.values import (
    NONE,
    UNHASHABLE,
    Map,
    Optional,
    TypeValue,
    show,
    unhashable,
)


class Path:
    """A place in the device reached by constant keys: ``keys`` after ``device``; ``optional`` if any was
    asked so."""

    __slots__ = ("keys", "optional")

    def __init__(self, keys: tuple[str, ...], optional: bool) -> None:
        self.keys = keys
        self.optional = optional


class Compiler:
    """Compiles one tree. ``columns`` and ``whole`` tell what of the device is read; ``costly`` whether there
    are loops or functions that work like loops; ``panics`` whether a function may make upstream's cost
    tracking panic, which happens even where an earlier error decides."""

    def __init__(self) -> None:
        self.columns: set[ColumnRef] = set()
        self.reads: Counter[ColumnRef] = Counter()
        self.compared: Counter[ColumnRef] = Counter()
        self.constants: dict[ColumnRef, set[tuple[type, Any]]] = {}
        self.whole = False
        self.costly = False
        self.panics = False
        self.slots = 1
        self.scopes: list[dict[str, int | Path]] = []

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

    # --- the device ----------------------------------------------------------------------------------

    def path(self, node: Node) -> Path | None:
        """The device path a node denotes, or ``None``."""
        if isinstance(node, ast.Ident):
            found = self.variable(node.name)
            if isinstance(found, Path):
                return found
            return Path((), False) if found is None and node.name.removeprefix(".") == "device" else None
        key, operand, optional = _access(node)
        if key is None or operand is None:
            return None
        inner = self.path(operand)
        if (
            inner is None
            or len(inner.keys) > 2
            or inner.keys[:1] in (("driver",), ("allowMultipleAllocations",))
        ):
            return None
        return Path((*inner.keys, key), inner.optional or optional)

    def variable(self, name: str) -> int | Path | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def read(self, path: Path) -> Code:
        if path.optional and len(path.keys) == 3:
            return self.optional_leaf(*path.keys)
        getter = self.getter(path)
        if not path.optional:
            return Code(getter)

        def run(device: DeviceView, frame: Frame) -> Optional:
            try:
                return Optional(True, getter(device, frame))
            except CelRuntimeError:
                return NONE

        return Code(run)

    def getter(self, path: Path) -> Run:
        if path.keys == ("driver",):
            self.columns.add(ColumnRef("driver"))
            return lambda device, frame: device.driver
        if path.keys == ("allowMultipleAllocations",):
            self.columns.add(ColumnRef("allowMultipleAllocations"))
            return lambda device, frame: device.allow_multiple_allocations
        if len(path.keys) == 3:
            return self.leaf(*path.keys)
        self.whole = True
        if not path.keys:
            return lambda device, frame: device_map(device)
        field, *rest = path.keys
        if not rest:
            return lambda device, frame: domains(getattr(device, field))
        domain = rest[0]
        nothing: dict[str, Any] = {}
        if field == "attributes":
            return lambda device, frame: Map.of_native(device.attributes.get(domain, nothing))
        return lambda device, frame: Map.of_native(device.capacity.get(domain, nothing))

    def column(self, field: str, domain: str, name: str) -> ColumnRef:
        column = ColumnRef("attribute" if field == "attributes" else "capacity", domain, name)
        self.columns.add(column)
        return column

    def note_comparison(self, node: Node, constants: tuple[Any, ...]) -> None:
        """The node is only tested for equality with these constants; see ``compared_columns``."""
        path = self.path(node)
        if path is None or path.optional or len(path.keys) != 3 or path.keys[0] != "attributes":
            return
        if not all(type(value) in (str, int, bool) for value in constants):
            return
        column = self.column(*path.keys)
        self.compared[column] += 1
        self.constants.setdefault(column, set()).update((type(value), value) for value in constants)

    def compared_columns(self) -> dict[ColumnRef, tuple[str | int | bool, ...]]:
        """Columns whose value is only compared with constants: other values of one type are all the same."""
        return {
            column: tuple(value for _, value in self.constants[column])
            for column, count in self.compared.items()
            if count == self.reads[column]
        }

    def leaf(self, field: str, domain: str, name: str) -> Run:
        self.reads[self.column(field, domain, name)] += 1
        message = f"no such key: {name}"
        if field == "attributes":

            def attribute(device: DeviceView, frame: Frame) -> Any:
                try:
                    return device.attributes[domain][name]
                except KeyError:
                    raise CelRuntimeError(message) from None

            return attribute

        def capacity(device: DeviceView, frame: Frame) -> Any:
            try:
                return device.capacity[domain][name]
            except KeyError:
                raise CelRuntimeError(message) from None

        return capacity

    def optional_leaf(self, field: str, domain: str, name: str) -> Code:
        """``device.attributes["domain"].?name`` and its other spellings."""
        self.reads[self.column(field, domain, name)] += 1
        nothing: dict[str, Any] = {}
        if field == "attributes":

            def attribute(device: DeviceView, frame: Frame) -> Optional:
                value = device.attributes.get(domain, nothing).get(name)
                return NONE if value is None else Optional(True, value)

            return Code(attribute)

        def capacity(device: DeviceView, frame: Frame) -> Optional:
            amount = device.capacity.get(domain, nothing).get(name)
            return NONE if amount is None else Optional(True, amount)

        return Code(capacity)

    def presence(self, path: Path, name: str) -> Code | None:
        """``has(path.name)`` and ``"name" in path`` for one domain of the device, else ``None``."""
        if len(path.keys) != 2:
            return None
        field, domain = path.keys
        self.column(field, domain, name)
        if field == "attributes":
            return Code(lambda device, frame: name in device.attributes.get(domain, ()))
        return Code(lambda device, frame: name in device.capacity.get(domain, ()))

    # --- other nodes ---------------------------------------------------------------------------------

    def ident(self, node: ast.Ident) -> Code:
        slot = self.variable(node.name)
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

    def slot(self) -> int:
        self.slots += 1
        return self.slots - 1

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


def is_binding(node: ast.Comprehension) -> bool:
    """Whether it is no loop but a name for a value: ``cel.bind`` and what is made of it."""
    return node.var == UNUSED and isinstance(node.range, ast.ListNode) and not node.range.elements


def _access(node: Node) -> tuple[str | None, Node | None, bool]:
    """(key, operand, optional) of ``operand.key``, ``operand["key"]`` and their optional forms."""
    if isinstance(node, ast.Select) and not node.test and node.field:
        return node.field, node.operand, node.optional
    if isinstance(node, ast.Call) and node.function in ("_[_]", "_[?_]") and len(node.args) == 2:
        key = node.args[1]
        if isinstance(key, ast.Literal) and type(key.value) is str:
            return key.value, node.args[0], node.function == "_[?_]"
    return None, None, False


_EMPTY_MAP = Map.of_native({})


def domains(mapping: Any) -> Map:
    """Attributes or capacity as a CEL map; an unknown domain gives an empty map."""
    inner = {domain: Map.of_native(values) for domain, values in mapping.items()}
    return Map.of_native(inner, default=_EMPTY_MAP)


def device_map(device: DeviceView) -> Map:
    """The whole device as a map, as upstream passes it in."""
    return Map.of_native(
        {
            "driver": device.driver,
            "allowMultipleAllocations": device.allow_multiple_allocations,
            "attributes": domains(device.attributes),
            "capacity": domains(device.capacity),
        }
    )
