"""Whether the rules of a definition may be: their shape, whether they compile, what they may cost.

Source: ``ValidateCustomResourceDefinitionOpenAPISchema`` and ``CELSchemaContext`` of
``apiextensions-apiserver/pkg/apis/apiextensions/validation``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from baro.apiserver.rules.declared import (
    REQUEST_BYTES,
    Declared,
    Schema,
    declared_of,
    is_embedded,
    properties,
    subschema,
)
from baro.apiserver.rules.evaluation import NO_BOOL, NO_STRING, rules_of
from baro.apiserver.rules.expressions import Expression, compile_expression
from baro.apiserver.rules.names import escaped
from baro.apiserver.rules.paths import FieldPathError, normalized
from baro.apiserver.status import Cause
from baro.cel import types
from baro.cel.errors import CelCompileError
from baro.model.gotext import go_quote
from baro.model.validation.causes import shown

_ONE_LIMIT: Final = 10_000_000
_ALL_LIMIT: Final = 100_000_000
_MOST_NAMED: Final = 4
_U64: Final = 2**64 - 1
_REASONS: Final = tuple(
    f"FieldValue{name}" for name in ("Duplicate", "Forbidden", "Invalid", "Required")
)  # sorted, as the server lists them
_HINT: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and "
    "strings are declared)"
)


class _Scope(msgspec.Struct, frozen=True):
    """Where in a schema a check is. ``times``: how often a value can be there, None without a bound.

    ``declared`` is None where rules see nothing; ``loose`` is the path above which old values are unknown.
    """

    path: str
    declared: Declared | None
    times: int | None = 1
    loose: str = ""
    compiled: bool = True

    def below(self, step: str, schema: Schema, declared: Declared | None, loose: str = "") -> _Scope:
        most = _most(schema)
        times = None if self.times is None or most is None else min(self.times * most, _U64)
        path = f"{self.path}.{step}"
        return _Scope(path, declared, times, loose or self.loose, self.compiled)

    def unseen(self, step: str) -> _Scope:
        """A part of the schema in which the server compiles no rules (``allOf`` and its kin)."""
        return _Scope(f"{self.path}.{step}", None, None, self.loose, compiled=False)


def _most(schema: Schema) -> int | None:
    """How many values of the part below one value of ``schema`` can have; None without a bound."""
    name = "maxItems" if schema.get("type") == "array" else "maxProperties"
    if schema.get("type") == "array" or (
        schema.get("type") == "object" and schema.get("additionalProperties") is not None
    ):
        most = schema.get(name)
        return max(most, 0) if isinstance(most, int) else None
    return 1


class _Checks:
    """One walk over a schema: complaints about shapes, about expressions, and the costs seen."""

    def __init__(self) -> None:
        self.costs: list[tuple[int, str]] = []
        self.total = 0

    def observe(self, path: str, cost: int) -> None:
        self.total = min(self.total + cost, _U64)
        if cost >= _ALL_LIMIT // 100:
            self.costs = sorted([*self.costs, (cost, path)], key=lambda pair: -pair[0])[:_MOST_NAMED]

    def visit(self, schema: Schema, at: _Scope) -> tuple[list[Cause], list[Cause]]:
        """Causes about shapes and causes about expressions, here and below."""
        shapes: list[Cause] = []
        expressions: list[Cause] = []
        for below, scope in _parts(schema, at):
            inner = self.visit(below, scope)
            shapes += inner[0]
            expressions += inner[1]
        rules = rules_of(schema)
        for index, rule in enumerate(rules):
            shapes += _shape(rule, f"{at.path}.x-kubernetes-validations[{index}]", schema)
        if not shapes and at.compiled and at.declared is not None:
            for index, rule in enumerate(rules):
                here = f"{at.path}.x-kubernetes-validations[{index}]"
                expressions += self.expression(rule, here, at, at.declared)
        return shapes, expressions

    def expression(
        self, rule: Mapping[str, Any], path: str, at: _Scope, declared: Declared
    ) -> Iterator[Cause]:
        optional = rule.get("optionalOldSelf")
        text = str(rule.get("rule"))
        try:
            found = compile_expression(
                text, declared, types.BOOL, optional_old=optional is True, wrong=NO_BOOL
            )
        except CelCompileError as error:
            self.observe(f"{path}.rule", 0)
            yield _refused(f"{path}.rule", rule, error.message)
            if optional is not None:
                yield _unused(path, optional)
            return
        times = REQUEST_BYTES // (declared.least + 1) if at.times is None else at.times
        cost = min(found.most * times, _U64)
        if cost > _ONE_LIMIT:
            yield _forbidden(f"{path}.rule", _too_much("estimated rule cost", cost, _ONE_LIMIT))
        self.observe(f"{path}.rule", cost)
        yield from self.message(rule, path, declared, optional_old=optional is True)
        yield from _old(rule, path, found, at)

    def message(
        self, rule: Mapping[str, Any], path: str, declared: Declared, *, optional_old: bool
    ) -> Iterator[Cause]:
        source = str(rule.get("messageExpression") or "")
        if not source:
            return
        where = f"{path}.messageExpression"
        try:
            found = compile_expression(
                source, declared, types.STRING, optional_old=optional_old, wrong=NO_STRING
            )
        except CelCompileError as error:
            detail = error.message if error.message == NO_STRING else f"messageExpression {error.message}"
            yield _refused(where, rule, detail)
            return
        if found.most > _ONE_LIMIT:
            yield _forbidden(where, _too_much("estimated messageExpression cost", found.most, _ONE_LIMIT))
        self.observe(where, found.most)


def check_rules(schema: Schema, path: str, *, compiled: bool) -> list[Cause]:
    """Why the rules of a schema at ``path`` cannot be accepted.

    ``compiled`` is false for a schema that is not structural: then only the shape of rules is looked at.
    """
    checks = _Checks()
    declared = declared_of(schema, root=True)
    shapes, expressions = checks.visit(schema, _Scope(path, declared, compiled=compiled))
    causes = shapes + expressions
    if checks.total > _ALL_LIMIT:
        for _, where in checks.costs:
            text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            causes.append(_forbidden(where, text))
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        causes.append(_forbidden(path, _too_much(name, checks.total, _ALL_LIMIT)))
    return causes


def _parts(schema: Schema, at: _Scope) -> Iterator[tuple[Schema, _Scope]]:
    """The schemas right below, in the server's order."""
    declared = at.declared
    values = subschema(schema.get("additionalProperties"))
    if values is not None:
        yield values, at.below("additionalProperties", schema, _declared(values, declared))
    for name, below in sorted(properties(schema).items()):
        fields = {} if declared is None or declared.fields is None else declared.fields
        own = fields.get(escaped(name) or "") or _declared(below, None)
        yield below, at.below(f"properties[{name}]", schema, own)
    negated = subschema(schema.get("not"))
    if negated is not None:
        yield negated, at.unseen("not")
    for name in ("allOf", "oneOf", "anyOf"):
        parts = schema.get(name)
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, Mapping):
                yield part, at.unseen(f"{name}[{index}]")
    items = subschema(schema.get("items"))
    if items is not None:
        loose = "" if schema.get("x-kubernetes-list-type") == "map" else at.path
        yield items, at.below("items", schema, _declared(items, declared), loose)


def _declared(schema: Schema, parent: Declared | None) -> Declared | None:
    """The type of a part: as its parent has it, else its own."""
    own = None if parent is None else parent.element
    return own if own is not None else declared_of(schema, root=is_embedded(schema))


# --- shapes ----------------------------------------------------------------------------------------------


def _shape(rule: Mapping[str, Any], path: str, schema: Schema) -> Iterator[Cause]:
    """What can be said of a rule without compiling it."""
    text, message = str(rule.get("rule") or ""), str(rule.get("message") or "")
    if not text.strip():
        yield _required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield _invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _breaks(message.strip()):
        yield _invalid(f"{path}.message", message, "must not contain line breaks")
    elif _breaks(text.strip()) and not message.strip():
        yield _required(f"{path}.message", "message must be specified if rule contains line breaks")
    computed = str(rule.get("messageExpression") or "")
    if computed and not computed.strip():
        yield _required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        listed = ", ".join(map(go_quote, _REASONS))
        text = f"Unsupported value: {shown(reason)}: supported values: {listed}"
        yield Cause("FieldValueNotSupported", f"{path}.reason", text)
    field = str(rule.get("fieldPath") or "")
    if field and not field.strip():
        yield _invalid(f"{path}.fieldPath", field, "must be non-empty if specified")
    if _breaks(field):
        yield _invalid(f"{path}.fieldPath", field, "must not contain line breaks")
    try:
        normalized(field, schema)
    except FieldPathError:
        yield _invalid(f"{path}.fieldPath", field, "must be a valid path")


def _breaks(text: str) -> bool:
    return re.search(r"[\n\r]", text) is not None


def _old(rule: Mapping[str, Any], path: str, found: Expression, at: _Scope) -> Iterator[Cause]:
    """Whether old values are known where a rule asks for them."""
    optional = rule.get("optionalOldSelf")
    if found.uses_old and at.loose:
        text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {at.loose}"
        yield _invalid(f"{path}.rule", rule.get("rule"), text)
    elif not found.uses_old and optional is not None:
        yield _unused(path, optional)


def _unused(path: str, optional: Any) -> Cause:
    return _invalid(f"{path}.optionalOldSelf", optional, "may not be set if oldSelf is not used in rule")


def _too_much(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    named = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {named} {_HINT}"


def _refused(path: str, rule: Mapping[str, Any], detail: str) -> Cause:
    """A rule that does not compile, shown whole in the form that Go gives it."""
    value = {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Cause("FieldValueInvalid", path, f"Invalid value: {text}: {detail}")


def _invalid(path: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", path, f"Invalid value: {shown(value)}: {detail}")


def _required(path: str, detail: str) -> Cause:
    return Cause("FieldValueRequired", path, f"Required value: {detail}")


def _forbidden(path: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", path, f"Forbidden: {detail}")
