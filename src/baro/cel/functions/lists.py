"""Functions on lists, sets and optionals, and the map insertion behind ``transformMap``."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from baro.cel import operators
from baro.cel.errors import CelRuntimeError
from baro.cel.functions import Implementation
from baro.cel.values import (
    NONE,
    Duration,
    Map,
    Optional,
    Timestamp,
    UInt,
    compare,
    equal_or_false,
    show,
)

List = tuple[Any, ...]
_MAX_RANGE = 1_000_000


def _distinct(items: List) -> List:
    found: list[Any] = []
    for item in items:
        if not any(equal_or_false(item, other) for other in found):
            found.append(item)
    return tuple(found)


def _flatten(items: List, depth: int = 1) -> List:
    if depth < 0:
        raise CelRuntimeError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        if type(item) is tuple and depth > 0:
            flat += _flatten(item, depth - 1)
        else:
            flat.append(item)
    return tuple(flat)


def _slice(items: List, start: int, end: int) -> List:
    where = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise CelRuntimeError(f"{where}, negative indexes not supported")
    if start > end:
        raise CelRuntimeError(f"{where}, start index must be less than or equal to end index")
    if end > len(items):
        raise CelRuntimeError(f"{where}, list is length {len(items)}")
    return items[start:end]


def _range(size: int) -> List:
    if size < 0:
        raise CelRuntimeError(f"lists.range: size must be non-negative, got {size}")
    if size > _MAX_RANGE:
        raise CelRuntimeError(f"lists.range: size {size} exceeds maximum allowed ({_MAX_RANGE})")
    return tuple(range(size))


_SORTABLE = (int, UInt, float, bool, Duration, Timestamp, str, bytes)


def _sort(items: List) -> List:
    return _sort_by(items, items)


def _sort_by(items: List, keys: List) -> List:
    if not items:
        return items
    if type(keys[0]) not in _SORTABLE:
        raise CelRuntimeError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise CelRuntimeError("list elements must have the same type")
    ordered_key = functools.cmp_to_key(lambda left, right: compare(left, right, "_<_"))
    order = sorted(range(len(keys)), key=lambda position: ordered_key(keys[position]))
    return tuple(items[position] for position in order)


def _order(left: Any, right: Any) -> int | None:
    """The order of two values; ``None`` where they have none, which upstream ignores here."""
    try:
        return compare(left, right, "_<_")
    except CelRuntimeError:
        return None


def _is_sorted(items: List) -> bool:
    return all(_order(a, b) != 1 for a, b in itertools.pairwise(items))


def _extreme(name: str, prefer: int) -> Implementation:
    def pick(items: List) -> Any:
        if not items:
            raise CelRuntimeError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if _order(best, item) == prefer:
                best = item
        return best

    return pick


def _sum(zero: Any) -> Implementation:
    def total(items: List) -> Any:
        return functools.reduce(operators.add, items, zero)

    return total


def _index_of(items: List, wanted: Any) -> int:
    return next((at for at, item in enumerate(items) if equal_or_false(item, wanted)), -1)


def _last_index_of(items: List, wanted: Any) -> int:
    return next((at for at in range(len(items) - 1, -1, -1) if equal_or_false(items[at], wanted)), -1)


def _includes(target: Any, wanted: Any) -> bool:
    if type(target) is tuple:
        return any(equal_or_false(item, wanted) for item in target)
    return equal_or_false(target, wanted)


def _set_contains(items: List, wanted: List) -> bool:
    return all(operators.contains(element, items) for element in wanted)


def _set_equivalent(left: List, right: List) -> bool:
    return _set_contains(left, right) and _set_contains(right, left)


def _set_intersects(left: List, right: List) -> bool:
    return any(operators.contains(element, right) for element in left)


def _insert_all(into: Map, entries: Map) -> Map:
    for key, value in entries.items():
        into = into.added(key, value)
    return into


def _unwrap(items: List) -> List:
    for item in items:
        if type(item) is not Optional:
            raise CelRuntimeError(f"value {show(item)} is not optional")
    return tuple(item.value for item in items if item.present)


def _value(optional: Optional) -> Any:
    if not optional.present:
        raise CelRuntimeError("optional.none() dereference")
    return optional.value


def _of_non_zero(value: Any) -> Optional:
    return NONE if _is_zero(value) else Optional(True, value)


def _is_zero(value: Any) -> bool:
    if type(value) is Duration:
        return bool(value.nanos == 0)
    if type(value) is Timestamp:
        return bool(value.nanos == operators.TIMESTAMP_MIN)  # Go's zero time is the first day of year 1
    if type(value) in (bool, int, UInt, float, str, bytes, tuple, Map):
        return not value if type(value) is not Map else len(value) == 0
    return value is None


_KINDS = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")

IMPLEMENTATIONS: dict[str, Implementation] = {
    "@mapInsert_map_key_value": lambda into, key, value: into.added(key, value),
    "@mapInsert_map_map": _insert_all,
    "list_distinct": _distinct,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_reverse": lambda items: items[::-1],
    "list_slice": _slice,
    "lists_range": _range,
    "list_first": lambda items: Optional(True, items[0]) if items else NONE,
    "list_last": lambda items: Optional(True, items[-1]) if items else NONE,
    "list_a_index_of_int": _index_of,
    "list_a_last_index_of_int": _last_index_of,
    "list_includes_dyn_dyn": _includes,
    "list_sets_contains_list": _set_contains,
    "list_sets_equivalent_list": _set_equivalent,
    "list_sets_intersects_list": _set_intersects,
    "optional_none": lambda: NONE,
    "optional_of": lambda value: Optional(True, value),
    "optional_ofNonZeroValue": _of_non_zero,
    "optional_unwrap": _unwrap,
    "optional_unwrapOpt": _unwrap,
    "optional_hasValue": lambda optional: optional.present,
    "optional_value": _value,
    "list_int_sum_int": _sum(0),
    "list_uint_sum_uint": _sum(UInt(0)),
    "list_double_sum_double": _sum(0.0),
    "list_duration_sum_duration": _sum(Duration(0)),
}
for _kind in _KINDS:
    IMPLEMENTATIONS[f"list_{_kind}_is_sorted_bool"] = _is_sorted
    IMPLEMENTATIONS[f"list_{_kind}_sort"] = _sort
    IMPLEMENTATIONS[f"list_{_kind}_sortBy"] = _sort_by
    IMPLEMENTATIONS[f"list_{_kind}_min_{_kind}"] = _extreme("min", 1)
    IMPLEMENTATIONS[f"list_{_kind}_max_{_kind}"] = _extreme("max", -1)
