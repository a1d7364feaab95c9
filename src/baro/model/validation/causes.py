"""Causes: what is wrong with which field, worded as the API server words it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from baro.model.gotext import go_quote

Reason = Literal[
    "Required value", "Invalid value", "Unsupported value", "Duplicate value", "Not found", "Too long",
    "Too many", "Forbidden",
]  # fmt: skip
_CODES: Final = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Not found": "FieldValueNotFound",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
    "Forbidden": "FieldValueForbidden",
}


class Cause(msgspec.Struct, frozen=True):
    """One refused field. ``message`` starts with the reason: ``Invalid value: 0: must be greater than zero``.

    ``str(cause)`` is the line the server prints; ``code`` the reason in a Status's ``details.causes``.
    """

    reason: Reason
    path: str
    message: str

    @property
    def code(self) -> str:
        return _CODES[self.reason]

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Problems:
    """Collects causes in the order of the checks."""

    def __init__(self) -> None:
        self._causes: list[Cause] = []

    @property
    def causes(self) -> tuple[Cause, ...]:
        return tuple(self._causes)

    def required(self, path: str, detail: str = "") -> None:
        self._add("Required value", path, detail)

    def forbidden(self, path: str, detail: str) -> None:
        self._add("Forbidden", path, detail)

    def invalid(self, path: str, value: Any, *details: str) -> None:
        """One cause per detail; none when there are no details."""
        for detail in details:
            self._add(f"Invalid value: {shown(value)}", path, detail)

    def unsupported(self, path: str, value: str, supported: Iterable[str]) -> None:
        listed = ", ".join(go_quote(item) for item in supported)
        self._add(f"Unsupported value: {shown(value)}", path, f"supported values: {listed}")

    def duplicate(self, path: str, value: Any) -> None:
        self._add(f"Duplicate value: {shown(value)}", path, "")

    def not_found(self, path: str, value: str, detail: str) -> None:
        self._add(f"Not found: {shown(value)}", path, detail)

    def too_long(self, path: str, limit: int, unit: str = "bytes") -> None:
        self._add("Too long", path, f"may not be more than {limit} {unit}")

    def too_many(self, path: str, have: int, limit: int) -> bool:
        """Reports when ``have`` is over ``limit``, and whether it did."""
        if have <= limit:
            return False
        self._add(f"Too many: {have}", path, f"must have at most {limit} items")
        return True

    def _add(self, head: str, path: str, detail: str) -> None:
        reason: Reason = head.partition(":")[0]  # type: ignore[assignment]
        self._causes.append(Cause(reason, path, f"{head}: {detail}" if detail else head))


def shown(value: Any) -> str:
    """``value`` as the server puts it into a message."""
    if isinstance(value, str):
        return go_quote(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
