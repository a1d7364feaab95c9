"""What a part of an object was before an update: by field names, and by keys in lists of the type ``map``.

Ratcheting rests on it: what an update leaves as it was is not refused for rules that came later.
Source: ``CorrelatedObject`` and ``MapList`` of ``k8s.io/apiserver/pkg/cel/common``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baro.apiserver.rules.declared import Schema, properties, subschema


class Correlated:
    """A value beside its old value."""

    __slots__ = ("_unchanged", "old", "schema", "value")

    def __init__(self, value: Any, old: Any, schema: Schema) -> None:
        self.value = value
        self.old = old
        self.schema = schema
        self._unchanged: bool | None = None

    def field(self, name: str) -> Correlated | None:
        """A member that both have and the schema declares."""
        if not isinstance(self.value, Mapping) or not isinstance(self.old, Mapping):
            return None
        if name not in self.value or name not in self.old:
            return None
        below = properties(self.schema).get(name) or subschema(self.schema.get("additionalProperties"))
        return None if below is None else Correlated(self.value[name], self.old[name], below)

    def item(self, index: int) -> Correlated | None:
        """A list item whose old value is known."""
        items = subschema(self.schema.get("items"))
        if not isinstance(self.value, list) or not isinstance(self.old, list) or items is None:
            return None
        before = old_item(self.schema, self.old, self.value[index])
        return None if before is None else Correlated(self.value[index], before, items)

    @property
    def unchanged(self) -> bool:
        """Whether value and old value are the same, keyed lists in any order."""
        if self._unchanged is None:
            self._unchanged = self._compare()
        return self._unchanged

    def _compare(self) -> bool:
        value, old = self.value, self.old
        if isinstance(value, list) and isinstance(old, list):
            if len(value) != len(old) or self.schema.get("x-kubernetes-list-type") != "map":
                return same_json(value, old)
            children = [self.item(index) for index in range(len(value))]
            return all(child is not None and child.unchanged for child in children)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            fields = [self.field(str(name)) for name in value]
            return len(value) == len(old) and all(child is not None and child.unchanged for child in fields)
        return same_json(value, old)


def same_json(left: Any, right: Any) -> bool:
    """Deep equality in which true is not 1."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            same_json(item, right[name]) for name, item in left.items()
        )
    return type(left) is type(right) and bool(left == right)


def old_item(schema: Schema, old: list[Any], item: Any) -> Any:
    """The item of ``old`` with the keys of ``item``; None where items cannot be told apart by keys."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if schema.get("x-kubernetes-list-type") != "map" or not keys:
        return None
    wanted = _identity(item, keys)
    if wanted is None:
        return None
    return next((other for other in old if _identity(other, keys) == wanted), None)


def _identity(item: Any, keys: Any) -> list[tuple[type, Any]] | None:
    if not isinstance(item, Mapping):
        return None
    found = [item.get(key) for key in keys]
    if not all(isinstance(value, bool | int | float | str) for value in found):
        return None
    return [(type(value), value) for value in found]
