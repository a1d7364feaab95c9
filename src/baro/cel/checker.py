"""Type check: resolves names and overloads, writes ``Node.type``, and notes what cel-go would.

The result is the list of complaints in the order found; the tree is annotated in place. Qualified names such
as ``optional.of`` or ``google.protobuf.Timestamp`` are rewritten to calls and identifiers here.
"""

from __future__ import annotations

from typing import Any

from baro.cel import ast, types
from baro.cel.ast import Node
from baro.cel.declarations import Overload
from baro.cel.environment import Environment
from baro.cel.errors import Issue, Source
from baro.cel.types import BOOL, DYN, ERROR, Bindings, Type, unwrap_optional
from baro.cel.values import type_of_value


def check(tree: Node, environment: Environment, source: Source) -> list[Issue]:
    """Annotate the tree with types; the complaints, empty when it is well typed."""
    checker = _Checker(environment, source)
    checker.check(tree)
    for node in checker.nodes:
        node.type = checker.bindings.substitute(node.type, True)
    return checker.issues


class _Checker:
    def __init__(self, environment: Environment, source: Source) -> None:
        self.environment = environment
        self.source = source
        self.bindings = Bindings()
        self.scopes: list[dict[str, Type]] = []
        self.issues: list[Issue] = []
        self.nodes: list[Node] = []
        self.rules: dict[type[Node], Any] = {
            ast.Literal: self.literal, ast.Ident: self.ident, ast.Select: self.select, ast.Call: self.call,
            ast.ListNode: self.list, ast.MapNode: self.map, ast.Message: self.message,
            ast.Comprehension: self.comprehension,
        }  # fmt: skip

    def check(self, node: Node) -> Type:
        """The type of a node. A node shared by a macro's expansion is checked once."""
        if node.type is None:
            node.type = self.rules[type(node)](node)
            self.nodes.append(node)
        checked: Type = node.type
        return checked

    def note(self, at: int, message: str) -> Type:
        self.issues.append(self.source.issue(at, message))
        return ERROR

    def mismatch(self, at: int, wanted: Type, given: Type) -> Type:
        return self.note(at, f"expected type '{wanted.display()}' but found '{given.display()}'")

    def agrees(self, given: Type, wanted: Type) -> bool:
        return self.bindings.assignable((given,), (wanted,))

    def undeclared(self, at: int, name: str) -> Type:
        return self.note(at, f"undeclared reference to '{name}' (in container '')")

    # --- names and fields ----------------------------------------------------------------------------

    def literal(self, node: ast.Literal) -> Type:
        return type_of_value(node.value)

    def lookup(self, name: str) -> Type | None:
        if not name.startswith("."):
            for scope in reversed(self.scopes):
                if name in scope:
                    return scope[name]
        return self.environment.variables.get(name.removeprefix("."))

    def ident(self, node: ast.Ident) -> Type:
        found = self.lookup(node.name)
        return self.undeclared(node.at, node.name) if found is None else found

    def select(self, node: ast.Select) -> Type:
        name = None if node.test or node.optional else qualified_name(node)
        if name is not None and not any(name.split(".")[0] in scope for scope in self.scopes):
            found = self.environment.variables.get(name.removeprefix("."))
            if found is not None:
                node.operand = ast.Ident(node.at, name)
                node.operand.type = found
                node.field = ""
                return found
        result = self.field(node)
        return BOOL if node.test else self.bindings.substitute(result, False)

    def field(self, node: ast.Select) -> Type:
        operand = self.bindings.substitute(self.check(node.operand), False)
        target, is_optional = unwrap_optional(operand)
        result = ERROR
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            result = self.struct_field(node.at, target.name, node.field)
        else:
            if target.kind == "param":
                self.agrees(DYN, target)
            elif not target.is_wild:
                self.note(node.at, f"type '{target.display()}' does not support field selection")
            result = DYN
        return types.optional_of(result) if is_optional or node.optional else result

    def struct_field(self, at: int, struct: str, field: str) -> Type:
        if struct not in self.environment.fields:
            return self.note(at, f"unexpected failed resolution of '{struct}'")
        found = self.environment.fields[struct].get(field)
        return self.note(at, f"undefined field '{field}'") if found is None else found

    # --- calls ---------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Type:
        for arg in node.args:
            self.check(arg)
        if node.target is not None:
            prefix = qualified_name(node.target)
            full = f"{prefix}.{node.function}".removeprefix(".") if prefix else None
            if full is not None and full in self.environment.functions:
                node.function, node.target = full, None
            else:
                self.check(node.target)
        overloads = self.environment.functions.get(node.function.removeprefix("."))
        if overloads is None:
            return self.undeclared(node.at, node.function)
        node.function = node.function.removeprefix(".")
        return self.resolve(node, overloads)

    def resolve(self, node: ast.Call, overloads: tuple[Overload, ...]) -> Type:
        if node.function in ("_&&_", "_||_"):
            return self.logic(node)
        parts = node.args if node.target is None else (node.target, *node.args)
        given = [part.type for part in parts]
        result: Type | None = None
        matching = []
        for overload in overloads:
            if overload.member != (node.target is not None):
                continue
            wanted, returned = self.instance(overload)
            if not self.bindings.assignable(given, wanted):
                continue
            matching.append(overload.id)
            returned = self.bindings.substitute(returned, False)
            if result is None:
                result = returned
            elif not result.is_dyn and returned != result:
                result = DYN
        if result is None:
            return self.no_overload(node, given)
        node.overloads = tuple(matching)
        return result

    def instance(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """The overload's types with fresh parameters."""
        if not overload.params:
            return overload.args, overload.result
        fresh = Bindings()
        for name in sorted(overload.params):
            fresh.assignable((self.bindings.fresh(),), (types.param(name),))
        return tuple(fresh.substitute(arg, False) for arg in overload.args), fresh.substitute(
            overload.result, False
        )

    def no_overload(self, node: ast.Call, given: list[Type]) -> Type:
        names = [self.bindings.substitute(part, True).display() for part in given]
        target = f"{names.pop(0)}." if node.target is not None else ""
        signature = f"{target}({', '.join(names)})"
        return self.note(
            node.at, f"found no matching overload for '{node.function}' applied to '{signature}'"
        )

    def logic(self, node: ast.Call) -> Type:
        result = BOOL
        for arg in node.args:
            if not self.agrees(arg.type, BOOL):
                result = self.mismatch(arg.at, BOOL, arg.type)
        node.overloads = ("logical_and" if node.function == "_&&_" else "logical_or",)
        return result

    # --- aggregates ----------------------------------------------------------------------------------

    def join(self, node: Node, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self.agrees(previous, current):
            return types.most_general(previous, current)
        return DYN  # the validator of homogeneous literals speaks about it, if nothing else is wrong

    def optional_value(self, node: Node) -> Type:
        """The value type of an element with a question mark."""
        given = self.check(node)
        value, is_optional = unwrap_optional(given)
        if not is_optional and not given.is_dyn:
            self.mismatch(node.at, types.optional_of(given), given)
        return value

    def list(self, node: ast.ListNode) -> Type:
        element: Type | None = None
        for index, part in enumerate(node.elements):
            given = self.optional_value(part) if index in node.optional else self.check(part)
            element = self.join(part, element, given)
        return types.list_of(self.bindings.fresh() if element is None else element)

    def map(self, node: ast.MapNode) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self.join(entry.key, key, self.check(entry.key))
            given = self.optional_value(entry.value) if entry.optional else self.check(entry.value)
            value = self.join(entry.value, value, given)
        if key is None or value is None:
            key, value = self.bindings.fresh(), self.bindings.fresh()
        return types.map_of(key, value)

    def message(self, node: ast.Message) -> Type:
        name = node.name.removeprefix(".")
        declared = self.environment.variables.get(name)
        if declared is None or declared.kind != "type":
            return self.undeclared(node.at, node.name)
        result = ERROR
        if name in self.environment.messages:
            result = self.environment.messages[name]
        elif declared.params and declared.params[0].kind in ("struct", "well-known"):
            result = declared.params[0]
        else:
            kind = declared.params[0] if declared.params else declared
            self.note(node.at, f"'{kind.name}' is not a message type")
        node.name = name
        fields = result.name if result.kind == "well-known" else name
        for entry in node.entries:
            self.message_field(fields, entry)
        return result

    def message_field(self, message: str, entry: ast.Entry) -> None:
        given = self.optional_value(entry.value) if entry.optional else self.check(entry.value)
        fields = self.environment.fields.get(message)
        if fields is None:
            self.note(entry.at, f"unexpected failed resolution of '{message}'")
            return
        wanted = self.struct_field(entry.at, message, entry.key)
        if not self.agrees(wanted, given):
            text = f"expected type of field '{entry.key}' is '{wanted.display()}'"
            self.note(entry.at, f"{text} but provided type is '{given.display()}'")

    # --- folds ---------------------------------------------------------------------------------------

    def comprehension(self, node: ast.Comprehension) -> Type:
        self.check(node.range)
        accu = self.check(node.init)
        over = self.bindings.substitute(node.range.type, False)
        first, second = self.iteration_types(node, over)
        self.scopes.append({node.accu: accu})
        names = {node.var: first}
        if node.var2 is not None:
            names[node.var2] = second
        self.scopes.append(names)
        self.expect(node.condition, BOOL)
        self.expect(node.step, accu)
        self.scopes.pop()
        result = self.check(node.result)
        self.scopes.pop()
        return self.bindings.substitute(result, False)

    def iteration_types(self, node: ast.Comprehension, over: Type) -> tuple[Type, Type]:
        """Types of the one or two variables: element, or index and element; key, or key and value."""
        if over.kind == "list":
            return (types.INT, over.params[0]) if node.var2 is not None else (over.params[0], ERROR)
        if over.kind == "map":
            return over.params[0], over.params[1]
        if over.kind in ("dyn", "error", "param"):
            self.agrees(DYN, over)
            return DYN, DYN
        text = f"expression of type '{over.display()}' cannot be range of a comprehension"
        self.note(node.range.at, f"{text} (must be list, map, or dynamic)")
        return ERROR, ERROR

    def expect(self, node: Node, wanted: Type) -> None:
        given = self.check(node)
        if not self.agrees(wanted, given):
            self.mismatch(node.at, wanted, given)


def qualified_name(node: Node) -> str | None:
    """``a.b.c`` as one name, or ``None`` when the node is more than plain selections."""
    parts: list[str] = []
    while isinstance(node, ast.Select) and not node.test and not node.optional and node.field:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, ast.Ident):
        return None
    return ".".join([node.name, *reversed(parts)])
