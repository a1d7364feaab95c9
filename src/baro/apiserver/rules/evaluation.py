"""The rules of a schema, run on an object: in the server's order, with its messages and limits.

:class:`RuleTree` mirrors the schema where it has rules. Source: the ``Validator`` of
``apiextensions-apiserver/pkg/apiserver/schema/cel``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from baro.apiserver.rules.correlation import Correlated, old_item
from baro.apiserver.rules.declared import (
    Declared,
    Schema,
    declared_of,
    is_embedded,
    properties,
    subschema,
)
from baro.apiserver.rules.expressions import Activation, Expression, compile_expression, old_value
from baro.apiserver.rules.paths import FieldPathError, normalized
from baro.apiserver.rules.values import Lists, cel_value
from baro.apiserver.status import Cause
from baro.cel import types
from baro.cel.errors import CelCompileError, CelRuntimeError
from baro.cel.values import NONE
from baro.model.validation.causes import shown

NO_BOOL: Final = "cel expression must evaluate to a bool"
NO_STRING: Final = "messageExpression must evaluate to a string"
_BUDGET: Final = 10_000_000
"""What all rules together may cost on one object."""
_LONGEST_MESSAGE: Final = 5 * 1024
_SPENT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_TOO_COSTLY: Final = "operation cancelled: actual cost limit exceeded"


class Rule(msgspec.Struct, frozen=True):
    """One entry of ``x-kubernetes-validations``. ``expression`` is None when there is nothing to run."""

    text: str
    message: str
    reason: str
    path: str
    optional_old: bool
    expression: Expression | None
    message_expression: Expression | None
    error: str = ""


class RuleTree(msgspec.Struct, frozen=True):
    """The rules of a schema and below it. ``everywhere`` holds those of its ``allOf``."""

    schema: Schema
    root: bool
    rules: tuple[Rule, ...]
    fields: Mapping[str, RuleTree]
    values: RuleTree | None
    items: RuleTree | None
    everywhere: tuple[RuleTree, ...]


def rule_tree(schema: Schema, *, root: bool = True) -> RuleTree | None:
    """The compiled rules of a schema; None when it has none."""
    return _tree(schema, schema, declared_of(schema, root=root), root=root)


def _tree(ruled: Schema, schema: Schema, declared: Declared | None, *, root: bool) -> RuleTree | None:
    """``ruled`` has the rules (it may be a part of ``allOf``), ``schema`` the types."""
    fields: dict[str, RuleTree] = {}
    typed = properties(schema)
    for name, below in sorted(properties(ruled).items()):
        found = _below(below, typed.get(name))
        if found is not None:
            fields[name] = found
    values = _below(
        subschema(ruled.get("additionalProperties")), subschema(schema.get("additionalProperties"))
    )
    items = _below(subschema(ruled.get("items")), subschema(schema.get("items")))
    parts = [part for part in ruled.get("allOf") or () if isinstance(part, Mapping)]
    everywhere = tuple(
        tree for part in parts if (tree := _tree(part, schema, declared, root=root)) is not None
    )
    rules = (
        tuple(compiled(rule, schema, declared) for rule in rules_of(ruled)) if declared is not None else ()
    )
    if not (rules or fields or values or items or everywhere):
        return None
    return RuleTree(schema, root, rules, fields, values, items, everywhere)


def _below(ruled: Schema | None, schema: Schema | None) -> RuleTree | None:
    if ruled is None or schema is None:
        return None
    return _tree(ruled, schema, declared_of(schema), root=is_embedded(schema))


def rules_of(schema: Schema) -> Sequence[Mapping[str, Any]]:
    """The entries of ``x-kubernetes-validations``."""
    found = schema.get("x-kubernetes-validations")
    return [rule for rule in found if isinstance(rule, Mapping)] if isinstance(found, list) else []


def compiled(rule: Mapping[str, Any], schema: Schema, declared: Declared) -> Rule:
    """A rule ready to run; ``error`` says why it is not."""
    text = str(rule.get("rule") or "")
    optional = rule.get("optionalOldSelf") is True
    expression, message, error = None, None, ""
    if text.strip():
        try:
            expression = compile_expression(text, declared, types.BOOL, optional_old=optional, wrong=NO_BOOL)
        except CelCompileError as problem:
            error = problem.message
    source = str(rule.get("messageExpression") or "")
    if expression is not None and source:
        try:
            message = compile_expression(
                source, declared, types.STRING, optional_old=optional, wrong=NO_STRING
            )
        except CelCompileError:
            message = None  # the definition was refused for it, or is older than that check
    try:
        path = normalized(str(rule.get("fieldPath") or ""), schema)
    except FieldPathError:
        path = ""
    said = str(rule.get("message") or "").strip()
    return Rule(text.strip(), said, str(rule.get("reason") or ""), path, optional, expression, message, error)


# --- running ---------------------------------------------------------------------------------------------


class Findings:
    """What rules have found: ``causes`` refuse the object, ``warnings`` are about what stayed as it was."""

    def __init__(self) -> None:
        self.causes: list[Cause] = []
        self.warnings: list[str] = []
        self.budget = _BUDGET

    def is_spent(self) -> bool:
        return self.budget < 0


class _Place(msgspec.Struct, frozen=True):
    """Where a value is: its path, itself and its old value, and what tells whether it changed."""

    path: str
    value: Any
    old: Any = None
    now: Correlated | None = None
    parent: Correlated | None = None

    @property
    def unchanged(self) -> bool:
        known = self.now if self.now is not None else self.parent
        return known is not None and known.unchanged

    def field(self, name: str, *, key: bool = False) -> _Place:
        here = f"[{name}]" if key else f".{name}" if self.path else name
        old = self.old.get(name) if isinstance(self.old, Mapping) else None
        now, parent = self._child(None if self.now is None else self.now.field(name))
        if self.now is not None and self.parent is None and name in ("apiVersion", "kind"):
            now = parent = None  # these cannot be compared: both are read in one version
        return _Place(f"{self.path}{here}", self.value[name], old, now, parent)

    def item(self, index: int, schema: Schema) -> _Place:
        old = old_item(schema, self.old, self.value[index]) if isinstance(self.old, list) else None
        now, parent = self._child(None if self.now is None else self.now.item(index))
        return _Place(f"{self.path}[{index}]", self.value[index], old, now, parent)

    def _child(self, child: Correlated | None) -> tuple[Correlated | None, Correlated | None]:
        return (None, self.parent) if self.now is None else (child, self.now)


def run_rules(tree: RuleTree, value: Any, old: Any = None) -> Findings:
    """Every rule that ``value`` breaks, as a replacement of ``old`` where there is one."""
    findings = Findings()
    now = None if old is None else Correlated(value, old, tree.schema)
    _visit(tree, _Place("", value, old, now), findings)
    return findings


def _visit(tree: RuleTree, place: _Place, findings: Findings) -> None:
    if place.value is None or findings.is_spent():
        return
    _run_all(tree, place, findings)
    for part in tree.everywhere:
        if not findings.is_spent():
            _visit(part, _Place(place.path, place.value, place.old, None, place.parent), findings)
    for below, child in _children(tree, place):
        if findings.is_spent():
            return
        _visit(below, child, findings)


def _children(tree: RuleTree, place: _Place) -> Iterator[tuple[RuleTree, _Place]]:
    value = place.value
    if isinstance(value, list) and tree.items is not None:
        for index in range(len(value)):
            yield tree.items, place.item(index, tree.schema)
    elif isinstance(value, Mapping):
        for name in value if tree.values is not None else ():
            assert tree.values is not None  # noqa: S101 for the type checker
            yield tree.values, place.field(str(name), key=True)
        for name, below in tree.fields.items():
            if name in value:
                yield below, place.field(name)


def _run_all(tree: RuleTree, place: _Place, findings: Findings) -> None:
    if not tree.rules:
        return
    kind = str(tree.schema.get("type") or "")
    if findings.budget <= 0:
        findings.causes.append(_invalid(place.path, kind, _SPENT))
        findings.budget = -1
        return
    lists = Lists()
    values: dict[str, Any] = {}
    failed: dict[str, CelRuntimeError] = {}
    for name, raw in (("self", place.value), ("oldSelf", place.old)):
        if raw is None:
            continue
        try:
            values[name] = cel_value(raw, tree.schema, lists, root=tree.root)
        except CelRuntimeError as error:
            failed[name] = error
    for rule in tree.rules:
        if findings.is_spent():
            return
        if rule.error:
            findings.causes.append(_invalid(place.path, kind, f"rule compile error: {rule.error}"))
        elif rule.expression is not None:
            _run(
                rule, rule.expression, Activation(lists, _seen(rule, values), failed), (tree, place), findings
            )


def _seen(rule: Rule, values: Mapping[str, Any]) -> dict[str, Any]:
    if not rule.optional_old:
        return dict(values)
    old = old_value(values["oldSelf"], optional=True) if "oldSelf" in values else NONE
    return {**values, "oldSelf": old}


def _run(
    rule: Rule,
    expression: Expression,
    activation: Activation,
    at: tuple[RuleTree, _Place],
    findings: Findings,
) -> None:
    tree, place = at
    kind = str(tree.schema.get("type") or "")
    if expression.uses_old and place.old is None and not rule.optional_old:
        return  # a rule about a transition, and there is none
    try:
        result, cost = expression.run(activation)
    except CelRuntimeError as error:
        findings.causes.append(_invalid(place.path, kind, _failure(error, rule)))
        if error.message.startswith(_TOO_COSTLY):
            findings.budget = -1
        return
    if cost > findings.budget:
        findings.causes.append(_invalid(place.path, kind, _SPENT))
        findings.budget = -1
        return
    findings.budget -= cost
    if result is True:
        return
    cause = _broken(rule, _message(rule, activation, findings), place, kind)
    if not expression.uses_old and place.unchanged:
        findings.warnings.append(f"{cause.field}: {cause.message}")
    else:
        findings.causes.append(cause)


def _failure(error: CelRuntimeError, rule: Rule) -> str:
    """What the server says of a rule that could not be run."""
    named = rule.message or rule.text
    if error.message.startswith("no such overload"):
        call = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{error.message}': {call}: {named}"
    if error.message.startswith(_TOO_COSTLY):
        return (
            f"'{error.message}': no further validation rules will be run due to call cost exceeds limit "
            f"for rule: {named}"
        )
    return f"{error.message} evaluating rule: {named}"


def _message(rule: Rule, activation: Activation, findings: Findings) -> str:
    """What is said of a broken rule: its computed message, else its own, else the rule itself."""
    fallback = rule.message or f"failed rule: {rule.text}"
    if rule.message_expression is None:
        return fallback
    try:
        value, cost = rule.message_expression.run(activation)
    except CelRuntimeError:
        return fallback
    findings.budget -= min(cost, findings.budget)
    text = value.strip() if isinstance(value, str) else ""
    if not text or "\n" in text or len(text.encode()) > _LONGEST_MESSAGE:
        return fallback
    return text


def _broken(rule: Rule, detail: str, place: _Place, kind: str) -> Cause:
    path = place.path
    if rule.path:
        path = f"{path}.{rule.path}" if path else rule.path
    path = path or "<nil>"
    if rule.reason == "FieldValueForbidden":
        return Cause(rule.reason, path, f"Forbidden: {detail}")
    if rule.reason == "FieldValueRequired":
        return Cause(rule.reason, path, f"Required value: {detail}")
    value = "" if kind in ("object", "array") else f": {shown(place.value)}"
    if rule.reason == "FieldValueDuplicate":
        return Cause(rule.reason, path, f"Duplicate value{value}")
    return Cause("FieldValueInvalid", path, f"Invalid value{value}: {detail}")


def _invalid(path: str, kind: str, detail: str) -> Cause:
    return Cause("FieldValueInvalid", path or "<nil>", f"Invalid value: {shown(kind)}: {detail}")
