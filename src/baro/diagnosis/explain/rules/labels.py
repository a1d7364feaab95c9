"""Label selectors as ``metav1.LabelSelectorAsSelector`` reads them: absent selects nothing, empty all.

For sets of labels of pods, namespaces and volumes; selectors of nodes are ``inventory.node_selection``.
"""

from __future__ import annotations

from collections.abc import Mapping

from baro.diagnosis.explain.rules.wire import LabelSelector
from baro.inventory.node_selection import requirement_matches


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether the selector matches these labels."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        requirement_matches(item, labels) for item in selector.match_expressions
    )


def is_empty(selector: LabelSelector | None) -> bool:
    """Whether it is there and asks for nothing, and so selects everything."""
    return selector is not None and not selector.match_labels and not selector.match_expressions


def shown(selector: LabelSelector | None) -> str:
    """``app=web,tier in (a,b)`` as kubectl writes it."""
    if selector is None:
        return "no selector"
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    for item in selector.match_expressions:
        match item.operator:
            case "Exists":
                parts.append(item.key)
            case "DoesNotExist":
                parts.append(f"!{item.key}")
            case _:
                parts.append(f"{item.key} {item.operator.lower()} ({','.join(item.values)})")
    return ",".join(parts) or "any labels"
