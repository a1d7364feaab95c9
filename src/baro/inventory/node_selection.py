"""Node selectors as the scheduler evaluates them (``component-helpers/scheduling/corev1/nodeaffinity``).

Terms are ORed, requirements ANDed; an empty term matches nothing. ``matchFields`` knows only
``metadata.name``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from baro.model.kinds.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")


class NodeSelectorError(ValueError):
    """A selector that the scheduler cannot parse: unknown operator, wrong number of values."""


def matches(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node with that name and those labels is selected. Raises ``NodeSelectorError``."""
    for term in selector.node_selector_terms:
        _check(term)
    return any(_term_matches(term, name, labels) for term in selector.node_selector_terms)


def requirement_matches(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """One ``matchExpressions`` entry against labels; ``NotIn`` also holds when the label is absent."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or not _INTEGER.match(value):
                return False
            bound = int(requirement.values[0])
            return int(value) > bound if requirement.operator == "Gt" else int(value) < bound
    return False


def _term_matches(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": name}
    return all(requirement_matches(r, labels) for r in term.match_expressions) and all(
        requirement_matches(r, fields) for r in term.match_fields
    )


def _check(term: NodeSelectorTerm) -> None:
    for requirement in term.match_expressions:
        count = len(requirement.values)
        match requirement.operator:
            case "In" | "NotIn":
                if count == 0:
                    raise NodeSelectorError(
                        f"key {requirement.key!r}: for 'in', 'notin' operators, values set can't be empty"
                    )
            case "Exists" | "DoesNotExist":
                if count:
                    raise NodeSelectorError(
                        f"key {requirement.key!r}: values set must be empty for exists and does not exist"
                    )
            case "Gt" | "Lt":
                if count != 1 or not _INTEGER.match(requirement.values[0]):
                    raise NodeSelectorError(
                        f"key {requirement.key!r}: for 'Gt', 'Lt' operators, exactly one integer is required"
                    )
            case _:
                raise NodeSelectorError(f"{requirement.operator!r} is not a valid label selector operator")
    for requirement in term.match_fields:
        if requirement.key != "metadata.name":
            raise NodeSelectorError(f"field {requirement.key!r} is not a valid field selector")
        if requirement.operator not in ("In", "NotIn") or len(requirement.values) != 1:
            raise NodeSelectorError("a field selector needs 'In' or 'NotIn' with exactly one value")
