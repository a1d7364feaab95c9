"""Causes: what is wrong with which field, worded as the API server words it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from baro.model.gotext import go_quote
from baro.model.validation.goview import versioned
from baro.model.validation.rules import Rules

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

_KEY_FIELDS: Final = {
    "AllocatedDeviceStatus": ".deviceID", "CounterSet": ".name", "Device": ".name",
    "DeviceCounterConsumption": ".counterSet", "DeviceRequest": ".name", "DeviceSubRequest": ".name",
    "ResourceClaimConsumerReference": ".uid",
}  # fmt: skip
"""Type of list items → the key that 1.34 named in the path of a duplicate."""
_LENGTH: Final = re.compile(r"(must be no more than \d+) bytes")
"""1.34 counts "characters" everywhere, and means bytes."""
_LABEL_KEY: Final = ("a valid label key must", "a qualified name must")
"""What keys are called, and what 1.34 calls them."""
_HTML: Final = re.compile("[<>&\u2028\u2029]")
"""What Go escapes in JSON, so that it may stand in a page."""


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
    """Collects causes in the server's order: those of hand-written rules, then those of declared ones.

    Since 1.37 the server checks a part of its rules by generated ("declarative") code, in the version of the
    request: their causes come last, and name fields as that version does. Rules of that part report to
    ``declared``. Both know the ``rules`` that apply.
    """

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules if rules is not None else Rules()
        self._causes: list[Cause] = []
        self._declared: Problems | None = None

    @property
    def declared(self) -> Problems:
        """Where rules report that 1.37 declares; older servers have them by hand, in the usual place."""
        if not self.rules.declarative:
            return self
        if self._declared is None:
            self._declared = _Declared(self.rules)
        return self._declared

    @property
    def by_hand(self) -> tuple[Cause, ...]:
        """The causes of hand-written rules only."""
        return tuple(self._causes)

    @property
    def causes(self) -> tuple[Cause, ...]:
        return self.by_hand if self._declared is None else self.by_hand + self._declared.causes

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

    def duplicate(self, path: str, value: Any, detail: str = "") -> None:
        self._add(f"Duplicate value: {shown(value)}", path, detail)

    def duplicate_items(
        self, items: Sequence[Mapping[str, Any]], path: str, type_name: str, key: Callable[[Any], Any]
    ) -> None:
        """A cause for each item of the list at ``path`` whose ``key`` an earlier item has."""
        seen: list[Any] = []
        for index, item in enumerate(items):
            value = key(item)
            if value in seen:
                self.duplicate_item(f"{path}[{index}]", item, type_name, value)
            seen.append(value)

    def duplicate_item(self, path: str, item: Mapping[str, Any], type_name: str, key: Any) -> None:
        """A list item whose key another has: 1.37 shows the item as its version writes it, others the key.

        ``type_name`` is the item's type in ``resource.k8s.io``.
        """
        if self.rules.declarative:
            where = f"resource.k8s.io/{self.rules.version}"
            self.declared.duplicate(path, versioned(self.rules.item(item, type_name), where, type_name))
        else:
            key_field = "" if self.rules.since("1.35") else _KEY_FIELDS.get(type_name, "")
            unprintable = key_field == ".deviceID"  # 1.34 could not print the parts of this key
            self.duplicate(f"{path}{key_field}", {part: {} for part in key} if unprintable else key)

    def not_found(self, path: str, value: str, detail: str) -> None:
        self._add(f"Not found: {shown(value)}", path, detail)

    def too_long(self, path: str, limit: int, unit: str = "bytes") -> None:
        self._add("Too long", path, f"may not be more than {limit} {unit}")

    def too_many(self, path: str, have: int, limit: int) -> bool:
        """Reports when ``have`` is over ``limit``, and whether the items are not looked at then."""
        if have <= limit:
            return False
        self._add(f"Too many: {have}", path, f"must have at most {limit} items")
        return self.rules.since("1.35")  # older servers look all the same

    def unchanged(self, *, when: bool) -> Problems:
        """Where to report about a part that this update left alone (``when``): no declared rule speaks.

        Its causes come back with ``take``.
        """
        return Problems(self.rules.by_hand()) if when and self.rules.declarative else Problems(self.rules)

    def take(self, other: Problems) -> None:
        """The causes of ``other``, each where it belongs."""
        self._causes.extend(other.by_hand)
        if self.rules.declarative and other.rules.declarative:
            self.declared.absorb(other.declared.causes)

    def absorb(self, causes: Iterable[Cause]) -> None:
        """Causes that were found elsewhere."""
        self._causes.extend(causes)

    def _add(self, head: str, path: str, detail: str) -> None:
        reason: Reason = head.partition(":")[0]  # type: ignore[assignment]
        if not self.rules.since("1.35"):
            detail = _LENGTH.sub(r"\1 characters", detail.replace(*_LABEL_KEY))
        self._causes.append(Cause(reason, path, f"{head}: {detail}" if detail else head))


class _Declared(Problems):
    """Causes of declared rules, on paths of the request's version."""

    @property
    def declared(self) -> Problems:
        return self

    def _add(self, head: str, path: str, detail: str) -> None:
        super()._add(head, self.rules.path(path), detail)


def shown(value: Any) -> str:
    """``value`` as the server puts it into a message."""
    if isinstance(value, str):
        return go_quote(value)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return _HTML.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
