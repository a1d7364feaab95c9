"""What a selector reads of whole maps: their keys only, or their values too.

A selector such as ``device.attributes["gpu.example.com"].exists(id, id.startsWith("nv"))`` names no single
value. This pass over the checked tree finds which maps of the device it looks at and how, so that devices
that look the same to it can be told without running it. When in doubt it says "values": more is read, never
less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from baro.cel import ast
from baro.cel.ast import Node, children
from baro.cel.device import ColumnRef
from baro.cel.macros import is_binding

MapKind = Literal["attribute", "capacity"]


class MapRef(msgspec.Struct, frozen=True):
    """The attributes or capacities of a device in one domain; in all of them where ``domain`` is ``None``."""

    kind: MapKind
    domain: str | None = None


class Reads(msgspec.Struct, frozen=True):
    """Everything that the outcome depends on: single values, keys of maps, and maps with their values."""

    columns: frozenset[ColumnRef]
    keys: frozenset[MapRef]
    values: frozenset[MapRef]


class _Place(NamedTuple):
    """A place in the device: the keys after ``device``, ``None`` for one that is computed."""

    keys: tuple[str | None, ...]


_KINDS: dict[str, MapKind] = {"attributes": "attribute", "capacity": "capacity"}
_FIXED: dict[str, ColumnRef] = {
    "driver": ColumnRef("driver"),
    "allowMultipleAllocations": ColumnRef("allowMultipleAllocations"),
}
_EVERYTHING = frozenset({MapRef("attribute"), MapRef("capacity")})
_DEEPEST = 3  # device.attributes["domain"].id


def reads_of(
    tree: Node, places: Mapping[str, tuple[str, ...] | None] = {}, known: frozenset[int] = frozenset()
) -> Reads:
    """What a checked tree reads of the device.

    A part of a tree may have free variables: ``places`` has the keys after ``device`` of those that name a
    place in it. ``known`` are identities of nodes inside that are computed elsewhere.
    """
    reader = _Reader(known)
    reader.scopes.append({name: None if keys is None else _Place(keys) for name, keys in places.items()})
    reader.visit(tree)
    return Reads(frozenset(reader.columns), frozenset(reader.keys), frozenset(reader.values))


class _Reader:
    def __init__(self, known: frozenset[int]) -> None:
        self.known = known
        self.columns: set[ColumnRef] = set()
        self.keys: set[MapRef] = set()
        self.values: set[MapRef] = set()
        self.scopes: list[dict[str, _Place | None]] = []

    # --- places --------------------------------------------------------------------------------------

    def place(self, node: Node) -> _Place | None:
        """The place in the device that a node denotes, ``None`` if it is something else."""
        if isinstance(node, ast.Ident):
            for scope in reversed(self.scopes):
                if node.name in scope:
                    return scope[node.name]
            return _Place(()) if node.name.removeprefix(".") == "device" else None
        if isinstance(node, ast.Select) and not node.test:
            operand = self.place(node.operand)
            return operand if not node.field else _inside(operand, node.field)
        if isinstance(node, ast.Call) and node.function in ("_[_]", "_[?_]"):
            key = node.args[1]
            constant = key.value if isinstance(key, ast.Literal) and type(key.value) is str else None
            return _inside(self.place(node.args[0]), constant)
        return None

    def visit_keys_of(self, node: Node) -> None:
        """The computed keys on the way to a place are expressions themselves."""
        if isinstance(node, ast.Select):
            self.visit_keys_of(node.operand)
        elif isinstance(node, ast.Call):
            self.visit_keys_of(node.args[0])
            self.visit(node.args[1])

    def note(self, place: _Place, *, only_keys: bool = False) -> None:
        """A place is read: what is there, or only which keys it has."""
        if not place.keys:
            if not only_keys:  # the fields of a device are always the same
                self.columns.update(_FIXED.values())
                self.values |= _EVERYTHING
            return
        field, *rest = place.keys
        if field in _FIXED:
            self.columns.add(_FIXED[field])
            return
        if field not in _KINDS:
            self.values |= _EVERYTHING
            return
        domain = rest[0] if rest else None
        name = rest[1] if len(rest) > 1 else None
        if domain is not None and name is not None:
            self.columns.add(ColumnRef(_KINDS[field], domain, name))
        elif only_keys and len(rest) < 2:
            self.keys.add(MapRef(_KINDS[field], domain))
        else:
            self.values.add(MapRef(_KINDS[field], domain))

    # --- nodes ---------------------------------------------------------------------------------------

    def visit(self, node: Node, *, only_keys: bool = False) -> None:
        if id(node) in self.known:
            return
        place = self.place(node)
        if place is not None:
            self.note(place, only_keys=only_keys)
            self.visit_keys_of(node)
        elif isinstance(node, ast.Select) and node.test:
            self.presence(node)
        elif isinstance(node, ast.Call) and node.function == "size":
            for part in children(node):
                self.visit(part, only_keys=True)
        elif isinstance(node, ast.Call) and node.function == "@in":
            self.visit(node.args[0])
            self.visit(node.args[1], only_keys=True)
        elif isinstance(node, ast.Comprehension):
            (self.binding if is_binding(node) else self.fold)(node)
        else:
            for part in children(node):
                self.visit(part)

    def presence(self, node: ast.Select) -> None:
        """``has(…)``: whether a place has a key."""
        place = self.place(node.operand)
        if place is None:
            self.visit(node.operand)
            return
        found = _inside(place, node.field)
        exact = found is not None and len(found.keys) == _DEEPEST and None not in found.keys
        self.note(found if exact and found is not None else place, only_keys=True)
        self.visit_keys_of(node.operand)

    def binding(self, node: ast.Comprehension) -> None:
        place = self.place(node.init)
        if place is None:
            self.visit(node.init)
        else:
            self.visit_keys_of(node.init)
        self.scopes.append({node.accu: place})
        self.visit(node.result)
        self.scopes.pop()

    def fold(self, node: ast.Comprehension) -> None:
        place = self.place(node.range)
        second: _Place | None = None
        if node.var2 is not None and place is not None and len(place.keys) == 1:
            second = _inside(place, None)  # the map of a domain, of which again only the keys may matter
        self.visit(node.range, only_keys=node.var2 is None or second is not None)
        self.visit(node.init)
        self.scopes.append({node.accu: None})
        names: dict[str, _Place | None] = {node.var: None}
        if node.var2 is not None:
            names[node.var2] = second
        self.scopes.append(names)
        self.visit(node.condition)
        self.visit(node.step)
        self.scopes.pop()
        self.visit(node.result)
        self.scopes.pop()


def _inside(place: _Place | None, key: str | None) -> _Place | None:
    """One level deeper; nothing is deeper than the values, and the plain fields have no inside."""
    if (
        place is None
        or len(place.keys) >= _DEEPEST
        or place.keys[:1] in (("driver",), ("allowMultipleAllocations",))
    ):
        return None
    return _Place((*place.keys, key))
