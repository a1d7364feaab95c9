"""Rules for lists of ``metav1.Condition``, as in the status of devices and of taint rules.

Source: ``pkg/apis/meta/v1/validation`` of k8s.io/apimachinery 0.37.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from baro.model.validation.causes import Problems
from baro.model.validation.names import byte_size, label_key, regex_text

MAX_REASON_BYTES: Final = 1024
MAX_MESSAGE_BYTES: Final = 32 * 1024

_STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_TEXT: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
)


def check_conditions(problems: Problems, conditions: Sequence[Mapping[str, Any]], path: str) -> None:
    """Unique types; each condition complete."""
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        place, kind = f"{path}[{index}]", condition.get("type", "")
        if kind in seen:
            # Servers before 1.37 name the field that is the key.
            problems.duplicate(place if problems.rules.newest else f"{place}.type", kind)
        seen.add(kind)
        _check_condition(problems, condition, place)


def _check_condition(problems: Problems, condition: Mapping[str, Any], path: str) -> None:
    kind, status = condition.get("type", ""), condition.get("status", "")
    newest = problems.rules.newest
    if not kind and newest:
        problems.required(f"{path}.type", "is required")
    else:
        problems.invalid(f"{path}.type", kind, *label_key(kind))
    if not status and newest:
        problems.required(f"{path}.status")
    elif status not in _STATUSES:
        problems.unsupported(f"{path}.status", status, _STATUSES)
    if (generation := condition.get("observedGeneration", 0)) < 0:
        text = "must be greater than or equal to zero"
        problems.invalid(f"{path}.observedGeneration", generation, text)
    if not condition.get("lastTransitionTime"):
        problems.required(f"{path}.lastTransitionTime")
    reason = condition.get("reason", "")
    if not reason:
        problems.required(f"{path}.reason")
    else:
        if not re.fullmatch(_REASON, reason):
            examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
            problems.invalid(f"{path}.reason", reason, regex_text(_REASON_TEXT, _REASON, *examples))
        if byte_size(reason) > MAX_REASON_BYTES:
            problems.too_long(f"{path}.reason", MAX_REASON_BYTES)
    if byte_size(condition.get("message", "")) > MAX_MESSAGE_BYTES:
        problems.too_long(f"{path}.message", MAX_MESSAGE_BYTES)
