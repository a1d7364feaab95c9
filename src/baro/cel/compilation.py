"""What one compilation knows: the variables in scope, and what of the device is read, with the code for it.

The modules that make closures of nodes (``calls``, ``folds``, ``function_calls``, ``messages``) are handed a
``Compilation`` and let it compile the parts of their node; ``compiler`` has the one that knows them all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

from baro.cel import ast
from baro.cel.ast import Node
from baro.cel.code import Code, Frame, Run
from baro.cel.device import ColumnRef, DeviceView
from baro.cel.errors import CelRuntimeError
from baro.cel.values import NONE, Map, Optional


class Path:
    """A place in the device reached by constant keys: ``keys`` after ``device``; ``optional`` if any was
    asked so."""

    __slots__ = ("keys", "optional")

    def __init__(self, keys: tuple[str, ...], optional: bool) -> None:
        self.keys = keys
        self.optional = optional


class Fixed:
    """A variable that is known to hold one text while the tree is compiled: a key of a map of the device."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value


Variable = int | Path | Fixed
"""What a name stands for: a slot of the frame, a place in the device, or a known key."""


class Compilation(ABC):
    """State of the compilation of one tree. ``columns`` and ``whole`` tell what of the device is read;
    ``costly`` whether there are loops or functions that work like loops; ``panics`` whether a function may
    make upstream's cost tracking panic, which happens even where an earlier error decides."""

    def __init__(self) -> None:
        self.columns: set[ColumnRef] = set()
        self.reads: Counter[ColumnRef] = Counter()
        self.compared: Counter[ColumnRef] = Counter()
        self.constants: dict[ColumnRef, set[tuple[type, Any]]] = {}
        self.whole = False
        self.costly = False
        self.panics = False
        self.slots = 1
        self.scopes: list[dict[str, Variable]] = []

    @abstractmethod
    def compile(self, node: Node) -> Code:
        """The closure of a node."""

    def slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def path(self, node: Node) -> Path | None:
        """The device path a node denotes, or ``None``."""
        if isinstance(node, ast.Ident):
            found = self.variable(node.name)
            if isinstance(found, Path):
                return found
            return Path((), False) if found is None and node.name.removeprefix(".") == "device" else None
        key, operand, optional = self._access(node)
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

    def _access(self, node: Node) -> tuple[str | None, Node | None, bool]:
        """(key, operand, optional) of ``operand.key``, ``operand["key"]`` and their optional forms."""
        if isinstance(node, ast.Select) and not node.test and node.field:
            return node.field, node.operand, node.optional
        if isinstance(node, ast.Call) and node.function in ("_[_]", "_[?_]") and len(node.args) == 2:
            key = self.known_key(node.args[1])
            if key is not None:
                return key, node.args[0], node.function == "_[?_]"
        return None, None, False

    def known_key(self, node: Node) -> str | None:
        """The text that a key is known to be, ``None`` for others."""
        known = self.variable(node.name) if isinstance(node, ast.Ident) else node
        is_text = isinstance(known, (ast.Literal, Fixed)) and type(known.value) is str
        return known.value if is_text else None  # type: ignore[union-attr] # one of the two

    def variable(self, name: str) -> Variable | None:
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
