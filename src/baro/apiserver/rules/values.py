"""Objects as rules see them: JSON turned into CEL values by its schema, when it is looked at.

A null field of an object counts as absent. Lists of the types ``set`` and ``map`` compare without regard to
order and add up without repeats; which tuples are such lists is noted in the :class:`Lists` that travels
with one evaluation, since CEL values themselves are plain.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from baro.apiserver.rules.declared import Schema, is_embedded, properties, subschema, with_object_fields
from baro.apiserver.rules.names import escaped
from baro.cel.errors import CelRuntimeError
from baro.cel.functions.times import parse_duration, parse_timestamp
from baro.cel.operators import add
from baro.cel.values import Map, Optional, equal

_UNSEEN: Final = "\0"
"""Before the names of fields that rules cannot name: they count in comparisons only."""


class Lists:
    """The keyed lists among the values of one evaluation, by identity; they live as long as this does."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[Any, ...], tuple[str, ...] | None]] = {}

    def note(self, value: tuple[Any, ...], keys: tuple[str, ...] | None) -> tuple[Any, ...]:
        """Marks a list as a map by ``keys``, or as a set where they are None."""
        if value:  # all empty lists are one
            self._known[id(value)] = (value, keys)
        return value

    def find(self, value: tuple[Any, ...]) -> tuple[bool, tuple[str, ...] | None]:
        """Whether the list is keyed, and its keys."""
        known = self._known.get(id(value))
        return (False, None) if known is None else (True, known[1])


class _Fields(Mapping[str, Any]):
    """The members of an object, converted one by one as they are asked for."""

    def __init__(self, members: Mapping[str, tuple[Any, Schema | None]], lists: Lists) -> None:
        self._members = members
        self._made: dict[str, Any] = {}
        self._lists = lists

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            raw, schema = self._members[name]
            self._made[name] = _free(raw) if schema is None else cel_value(raw, schema, self._lists)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def cel_value(value: Any, schema: Schema, lists: Lists, *, root: bool = False) -> Any:
    """The CEL value of ``value``. Raises ``CelRuntimeError`` for data that does not fit its schema."""
    if value is None:
        if schema.get("nullable") is True:
            return None
        raise CelRuntimeError("invalid data, got null for schema with nullable=false")
    if schema.get("x-kubernetes-int-or-string") is True:
        if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise CelRuntimeError("invalid data, expected XIntOrString value to be either a string or integer")
    kind = schema.get("type")
    if kind == "object":
        return _object(value, schema, lists, root=root)
    if kind == "array":
        return _array(value, schema, lists)
    if kind == "string":
        return _text(value, schema)
    return _scalar(value, str(kind or ""), schema)


def _object(value: Any, schema: Schema, lists: Lists, *, root: bool) -> Map:
    if not isinstance(value, Mapping):
        raise CelRuntimeError("invalid data, expected a map for the provided schema with type=object")
    values = subschema(schema.get("additionalProperties"))
    if values is not None and not properties(schema) and not root and not is_embedded(schema):
        return Map.of_native(_Fields({str(name): (item, values) for name, item in value.items()}, lists))
    declared = properties(with_object_fields(schema) if root or is_embedded(schema) else schema)
    members: dict[str, tuple[Any, Schema | None]] = {}
    for name, item in value.items():
        below = declared.get(name)
        identifier = escaped(str(name)) if below is not None and below.keys() & _TYPED else None
        if below is None or identifier is None:
            members[f"{_UNSEEN}{name}"] = (item, None)
        elif item is not None:
            members[identifier] = (item, below)
    return Map.of_native(_Fields(members, lists))


_TYPED: Final = frozenset({"type", "x-kubernetes-int-or-string"})


def _array(value: Any, schema: Schema, lists: Lists) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise CelRuntimeError("invalid data, expected an array for the provided schema with type=array")
    items = subschema(schema.get("items"))
    if items is None:
        raise CelRuntimeError("invalid array type, expected Items with a non-empty Schema")
    made = tuple([cel_value(item, items, lists) for item in value])
    how = schema.get("x-kubernetes-list-type")
    if how == "set":
        return lists.note(made, None)
    if how == "map":
        keys = schema.get("x-kubernetes-list-map-keys") or ()
        return lists.note(made, tuple(escaped(str(key)) or str(key) for key in keys))
    return made


def _text(value: Any, schema: Schema) -> Any:
    if not isinstance(value, str):
        raise CelRuntimeError(f"invalid data, expected string, got {_go_type(value)}")
    format_ = schema.get("format")
    try:
        if format_ == "byte":
            return base64.b64decode(value, validate=True)
        if format_ == "duration":
            return parse_duration(value)
        if format_ in ("date", "date-time"):
            return parse_timestamp(_moment(value, dated=format_ == "date"))
    except (CelRuntimeError, binascii.Error):
        what = {"byte": "Invalid byte", "date": "Invalid date", "date-time": "Invalid date-time"}
        text = f"{what.get(str(format_), 'Invalid duration')} formatted string {value}"
        raise CelRuntimeError(text) from None
    return value


def _moment(text: str, *, dated: bool) -> str:
    if dated:
        return f"{text}T00:00:00Z"
    spaced = re.sub(r"^(\d{4}-\d\d-\d\d)[ t]", r"\1T", text)
    return re.sub(r"z$", "Z", spaced)


def _scalar(value: Any, kind: str, schema: Schema) -> Any:
    boolean = isinstance(value, bool)
    if kind == "number" and isinstance(value, int | float) and not boolean:
        return float(value)
    if kind == "integer" and isinstance(value, int) and not boolean:
        return value
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "boolean" and boolean:
        return value
    if not kind and schema.get("x-kubernetes-preserve-unknown-fields") is True:
        return _free(value)
    wanted = {"number": "float", "integer": "int", "boolean": "bool"}.get(kind, kind)
    raise CelRuntimeError(f"invalid data, expected {wanted}, got {_go_type(value)}")


def _go_type(value: Any) -> str:
    kinds = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}
    return kinds.get(type(value), "map[string]interface {}")


def _free(value: Any) -> Any:
    """Data without a schema, good for comparisons."""
    if isinstance(value, Mapping):
        return Map.of_native({str(name): _free(item) for name, item in value.items()})
    return tuple([_free(item) for item in value]) if isinstance(value, list | tuple) else value


# --- comparison and sums ---------------------------------------------------------------------------------


def same(left: Any, right: Any, lists: Lists) -> bool:
    """CEL's ``==``, with sets and maps among lists compared by their keys."""
    if type(left) is tuple and type(right) is tuple:
        return _same_lists(left, right, lists)
    if type(left) is Map and type(right) is Map:
        if len(left) != len(right):
            return False
        for name, item in left.items():
            found, other = right.find(name)
            if not found or not same(item, other, lists):
                return False
        return True
    if type(left) is Optional and type(right) is Optional and left.present and right.present:
        return same(left.value, right.value, lists)
    return equal(left, right)


def _same_lists(left: tuple[Any, ...], right: tuple[Any, ...], lists: Lists) -> bool:
    if len(left) != len(right):
        return False
    keyed, keys = lists.find(left)
    if not keyed:
        return all(same(one, other, lists) for one, other in zip(left, right, strict=True))
    place = {_key(item, keys): item for item in left}
    return all(
        (key := _key(item, keys)) in place and same(place[key], item, lists) for item in right
    ) and len({_key(item, keys) for item in right}) == len(place)


def total(left: Any, right: Any, lists: Lists) -> Any:
    """CEL's ``+``: keyed lists keep the places of the first and take what the second has more."""
    if type(left) is not tuple or type(right) is not tuple:
        return add(left, right)
    keyed, keys = lists.find(left)
    if not keyed:
        return left + right
    merged: dict[Any, Any] = {_key(item, keys): item for item in left}
    for item in right:
        merged[_key(item, keys)] = item
    return lists.note(tuple(merged.values()), keys)


def _key(item: Any, keys: tuple[str, ...] | None) -> Any:
    """What tells the items of a keyed list apart, hashable. 1 and true are different."""
    if keys is None or not isinstance(item, Map):
        return _hashable(item)
    return tuple(_hashable(item.find(key)[1]) for key in keys)


def _hashable(value: Any) -> Any:
    if type(value) is Map:
        return frozenset((name, _hashable(item)) for name, item in value.items())
    if type(value) is tuple:
        return tuple(map(_hashable, value))
    return type(value) is bool, value
