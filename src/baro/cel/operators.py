"""Arithmetic, membership and access: the operators of CEL on run-time values.

Errors carry cel-go's words. An operand type that has no such operator at all gives ``no such overload: _+_``;
a second operand that does not suit the first gives a bare ``no such overload``.
"""

from __future__ import annotations

import math
from typing import Any

from baro.cel.errors import CelRuntimeError
from baro.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    UINT_MAX,
    UNHASHABLE,
    Duration,
    Map,
    Optional,
    Timestamp,
    UInt,
    equal_or_false,
    go_type,
    lacks,
    no_overload,
    show,
    type_name,
    unhashable,
)

TIMESTAMP_MIN = -62135596800 * 10**9
TIMESTAMP_MAX = 253402300799 * 10**9 + 999_999_999


def checked_int(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise CelRuntimeError("integer overflow")
    return value


def checked_uint(value: int) -> UInt:
    if not 0 <= value <= UINT_MAX:
        raise CelRuntimeError("unsigned integer overflow")
    return UInt(value)


def checked_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    if not TIMESTAMP_MIN <= nanos <= TIMESTAMP_MAX:
        raise CelRuntimeError("timestamp overflow")
    return Timestamp(nanos, offset)


def checked_duration(nanos: int) -> Duration:
    if not INT_MIN <= nanos <= INT_MAX:
        raise CelRuntimeError("integer overflow")
    return Duration(nanos)


def add(left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind is other:
        if kind is int:
            return checked_int(left + right)
        if kind in (str, bytes, tuple, float):
            return left + right
        if kind is UInt:
            return checked_uint(int(left) + int(right))
        if kind is Duration:
            return checked_duration(left.nanos + right.nanos)
    if (kind, other) in ((Timestamp, Duration), (Duration, Timestamp)):
        moment = left if kind is Timestamp else right
        return checked_timestamp(left.nanos + right.nanos, moment.offset)
    raise _unsuited(left, "_+_", (int, UInt, float, str, bytes, tuple, Duration, Timestamp))


def subtract(left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind is other:
        if kind is int:
            return checked_int(left - right)
        if kind is float:
            return left - right
        if kind is UInt:
            return checked_uint(int(left) - int(right))
        if kind in (Duration, Timestamp):
            return checked_duration(left.nanos - right.nanos)
    if kind is Timestamp and other is Duration:
        return checked_timestamp(left.nanos - right.nanos, left.offset)
    raise _unsuited(left, "_-_", (int, UInt, float, Duration, Timestamp))


def multiply(left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return checked_int(left * right)
        if kind is float:
            return left * right
        if kind is UInt:
            return checked_uint(int(left) * int(right))
    raise _unsuited(left, "_*_", (int, UInt, float))


def divide(left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right):
        if kind is float:
            return _divide_doubles(left, right)
        if kind is int or kind is UInt:
            if right == 0:
                raise CelRuntimeError("division by zero")
            quotient = abs(left) // abs(right)
            if kind is UInt:
                return UInt(quotient)
            return checked_int(quotient if (left < 0) == (right < 0) else -quotient)
    raise _unsuited(left, "_/_", (int, UInt, float))


def _divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def modulo(left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right) and (kind is int or kind is UInt):
        if right == 0:
            raise CelRuntimeError("modulus by zero")
        if kind is UInt:
            return UInt(int(left) % int(right))
        if left == INT_MIN and right == -1:
            raise CelRuntimeError("integer overflow")
        return int(math.copysign(1, left)) * (abs(left) % abs(right))
    raise _unsuited(left, "_%_", (int, UInt))


def negate(value: Any) -> Any:
    kind = type(value)
    if kind is int:
        return checked_int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return checked_duration(-value.nanos)
    if kind is bool:
        raise no_overload()
    raise lacks("-_", value)


def logical_not(value: Any) -> bool:
    if type(value) is not bool:
        raise no_overload()
    return not value


def _unsuited(left: Any, operator: str, having: tuple[type, ...]) -> CelRuntimeError:
    """No such overload, by the fault of the second operand or of the first."""
    return no_overload() if type(left) in having else lacks(operator, left)


def contains(element: Any, container: Any) -> bool:
    """``element in container``."""
    if type(container) is tuple:
        return any(equal_or_false(element, other) for other in container)
    if isinstance(container, Map):
        if type(element) in UNHASHABLE and not container.native and len(container):
            raise unhashable(element)
        try:
            return element in container
        except TypeError:
            return False
    raise no_overload("@in", element, container)


def list_index(index: Any) -> int:
    """The position an index value names. Doubles and unsigned integers serve when they are whole."""
    kind = type(index)
    if kind is int:
        return int(index)
    if kind is UInt or kind is float:
        if index % 1 == 0 and abs(index) <= INT_MAX:
            return int(index)
        raise CelRuntimeError(f"unsupported index value {show(index)} in list")
    raise CelRuntimeError(f"unsupported index type '{type_name(index)}' in list")


_MISSING = object()


_KEYS = frozenset({str, int, UInt, bool, float})


def check_key(key: Any) -> None:
    """Only strings, numbers and bools can be keys or positions."""
    if type(key) not in _KEYS:
        raise CelRuntimeError(f"invalid qualifier type: {go_type(key)}")


def lookup(container: Any, key: Any) -> Any:
    """``container[key]``, or the marker that ``is_missing`` knows; never raises for a missing key."""
    if isinstance(container, Map):
        try:
            found, value = container.find(key)
        except TypeError:
            return _MISSING
        return value if found else _MISSING
    if type(container) is tuple:
        position = list_index(key)
        return container[position] if 0 <= position < len(container) else _MISSING
    return _MISSING


def index(container: Any, key: Any) -> Any:
    """``container[key]`` and ``container.key``; on an optional container the result is optional."""
    if type(container) is Optional:
        return optional_index(container, key)
    check_key(key)
    value = lookup(container, key)
    if value is _MISSING:
        text = "index out of bounds" if type(container) is tuple else "no such key"
        raise CelRuntimeError(f"{text}: {show(key)}")
    return value


def optional_index(container: Any, key: Any) -> Optional:
    """``container[?key]`` and ``container.?key``."""
    if type(container) is Optional:
        if not container.present:
            return NONE
        container = container.value
    check_key(key)
    value = lookup(container, key)
    return NONE if value is _MISSING else Optional(True, value)


def has(container: Any, field: str) -> bool:
    """``has(container.field)``; false, not an error, on values that have no fields."""
    if type(container) is Optional:
        return container.present and has(container.value, field)
    return type(container) is not tuple and lookup(container, field) is not _MISSING
