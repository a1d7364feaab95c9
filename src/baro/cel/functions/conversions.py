"""Type conversions: ``int(…)``, ``string(…)``, ``duration(…)`` and the rest."""

from __future__ import annotations

import math
import re
from typing import Any

from baro.cel.errors import CelRuntimeError
from baro.cel.functions import Implementation
from baro.cel.functions.times import duration_text, parse_duration, parse_timestamp, timestamp_text
from baro.cel.gotext import format_double
from baro.cel.operators import checked_timestamp
from baro.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    type_name,
)

_SECOND = 10**9
_FLOAT = re.compile(
    r"[+-]?(?:[0-9_]*\.?[0-9_]*(?:[eE][+-]?[0-9_]+)?|inf(?:inity)?|nan"
    r"|0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*[pP][+-]?[0-9]+)",
    re.IGNORECASE,
)
_STRAY_UNDERSCORE = re.compile(r"(?<![0-9])_|_(?![0-9])")
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _fail(source: str, wanted: str) -> CelRuntimeError:
    return CelRuntimeError(f"type conversion error from '{source}' to '{wanted}'")


def _int_of_text(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise _fail("string", "int")
    digits = text.lstrip("+-0") or "0"
    if len(digits) > 19 or not INT_MIN <= int(text) <= INT_MAX:
        raise _fail("string", "int")
    return int(text)


def _uint_of_text(text: str) -> UInt:
    if not re.fullmatch(r"[0-9]+", text, re.ASCII) or len(text.lstrip("0")) > 20 or int(text) > UINT_MAX:
        raise _fail("string", "uint")
    return UInt(int(text))


def _int_of_double(value: float) -> int:
    if not math.isfinite(value) or value <= float(INT_MIN) or value >= float(INT_MAX):
        raise CelRuntimeError("integer overflow")
    return int(value)


def _uint_of_double(value: float) -> UInt:
    if not math.isfinite(value) or value < 0 or value >= float(UINT_MAX):
        raise CelRuntimeError("unsigned integer overflow")
    return UInt(int(value))


def _int_of_uint(value: UInt) -> int:
    if value > INT_MAX:
        raise CelRuntimeError("integer overflow")
    return int(value)


def _uint_of_int(value: int) -> UInt:
    if value < 0:
        raise CelRuntimeError("unsigned integer overflow")
    return UInt(value)


def _double_of_text(text: str) -> float:
    if (
        not text
        or re.search(r"(?<![0-9])_|_(?![0-9])", text)
        or not _FLOAT.fullmatch(text)
        or text.strip("+-") in ("", ".")
    ):
        raise _fail("string", "double")
    try:
        value = float.fromhex(text) if "x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        raise _fail("string", "double") from None
    if math.isinf(value) and "inf" not in text.lower():
        raise _fail("string", "double")
    return value


def _bool_of_text(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _fail("string", "bool")


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelRuntimeError("invalid UTF-8 in bytes, cannot convert to string") from None


def to_string(value: Any) -> str:
    """``string(value)`` for the types that have it."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return format_double(value)
    if kind is bytes:
        return _text_of_bytes(value)
    if kind is Duration:
        return duration_text(value)
    if kind is Timestamp:
        return timestamp_text(value)
    if kind is int or kind is UInt:
        return str(int(value))
    raise CelRuntimeError(f"no such overload: string({type_name(value)})")


def _same(value: Any) -> Any:
    return value


_SAME = [
    "bool_to_bool",
    "bytes_to_bytes",
    "double_to_double",
    "duration_to_duration",
    "int64_to_int64",
    "string_to_string",
    "timestamp_to_timestamp",
    "uint64_to_uint64",
    "to_dyn",
]
_TO_STRING = [
    "bool_to_string",
    "bytes_to_string",
    "double_to_string",
    "duration_to_string",
    "int64_to_string",
    "timestamp_to_string",
    "uint64_to_string",
]

IMPLEMENTATIONS: dict[str, Implementation] = (
    dict.fromkeys(_SAME, _same)
    | dict.fromkeys(_TO_STRING, to_string)
    | {
        "string_to_bool": _bool_of_text,
        "string_to_bytes": lambda text: text.encode(),
        "int64_to_double": float,
        "uint64_to_double": float,
        "string_to_double": _double_of_text,
        "string_to_duration": parse_duration,
        "double_to_int64": _int_of_double,
        "duration_to_int64": lambda value: value.nanos,
        "string_to_int64": _int_of_text,
        "timestamp_to_int64": lambda value: value.nanos // _SECOND,
        "uint64_to_int64": _int_of_uint,
        "int64_to_timestamp": lambda value: checked_timestamp(value * _SECOND),
        "string_to_timestamp": parse_timestamp,
        "double_to_uint64": _uint_of_double,
        "int64_to_uint64": _uint_of_int,
        "string_to_uint64": _uint_of_text,
        "type": lambda value: TypeValue(type_name(value)),
        "size_string": len,
        "string_size": len,
        "size_bytes": len,
        "bytes_size": len,
        "size_list": len,
        "list_size": len,
        "size_map": len,
        "map_size": len,
    }
)
