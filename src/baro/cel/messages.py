"""Message literals as closures: ``google.protobuf.BoolValue{value: true}`` and its kind.

A wrapper is the value in it, a ``Duration`` or ``Timestamp`` is one; there are no others here (upstream
can make ``Value``, ``Struct`` and ``Any`` as well, which no selector has a use for). What goes into a field
is converted as upstream converts it to Go.
"""

from __future__ import annotations

import struct
from typing import Any

from baro.cel import ast
from baro.cel.code import Code, Frame, Run, constant
from baro.cel.compilation import Compilation
from baro.cel.device import DeviceView
from baro.cel.errors import CelRuntimeError
from baro.cel.native import refusal
from baro.cel.values import Duration, Optional, Timestamp, UInt, show

_ZEROS: dict[str, Any] = {"bool": False, "bytes": b"", "double": 0.0, "int": 0, "string": "", "uint": UInt(0)}
_GO_TYPES = {
    "BoolValue": "bool", "BytesValue": "[]uint8", "DoubleValue": "float64", "FloatValue": "float32",
    "Int32Value": "int32", "Int64Value": "int64", "StringValue": "string", "UInt32Value": "uint32",
    "UInt64Value": "uint64",
}  # fmt: skip
_HOLDS: dict[str, type[Any]] = {
    "bool": bool, "[]uint8": bytes, "float64": float, "float32": float, "int32": int, "int64": int,
    "string": str, "uint32": UInt, "uint64": UInt,
}  # fmt: skip


def message_code(compiler: Compilation, node: ast.Message) -> Code:
    """The closure of a message literal."""
    if node.type.kind == "struct" or node.name in ("duration", "timestamp"):
        return _unknown(node.name)
    fields = [(entry.key, compiler.compile(entry.value).run, entry.optional) for entry in node.entries]
    if node.type.kind == "well-known":
        return Code(_moment(node, fields))
    if not fields:
        return constant(_ZEROS.get(node.type.name))
    return Code(_wrapper(node, fields))


def _unknown(name: str) -> Code:
    def fail(device: DeviceView, frame: Frame) -> Any:
        raise CelRuntimeError(f"unknown type '{name}'")

    return Code(fail)


Field = tuple[str, Run, bool]


def _wrapper(node: ast.Message, fields: list[Field]) -> Run:
    go_type = _GO_TYPES[node.name.rpartition(".")[2]]
    zero = _ZEROS.get(node.type.name)

    def run(device: DeviceView, frame: Frame) -> Any:
        values = _read(fields, device, frame)
        return _converted(values["value"], go_type, node.name, "value") if "value" in values else zero

    return run


def _moment(node: ast.Message, fields: list[Field]) -> Run:
    """``google.protobuf.Duration{seconds: 1}`` and its sibling."""
    name = node.type.name
    kind = Duration if name.endswith("Duration") else Timestamp

    def run(device: DeviceView, frame: Frame) -> Duration | Timestamp:
        values = _read(fields, device, frame)
        seconds = _converted(values.get("seconds", 0), "int64", name, "seconds")
        nanos = _converted(values.get("nanos", 0), "int32", name, "nanos")
        return kind(seconds * 10**9 + nanos)

    return run


def _read(fields: list[Field], device: DeviceView, frame: Frame) -> dict[str, Any]:
    """The values of the fields that are set; a later one of the same name wins."""
    values = {}
    for name, run, optional in fields:
        value = run(device, frame)
        if not optional:
            values[name] = value
        elif unwrapped(value, f"entry '{name}'").present:
            values[name] = value.value
    return values


def _converted(value: Any, go_type: str, message: str, field: str) -> Any:
    problem = None
    kind: Any = type(value)
    if kind is not _HOLDS[go_type]:
        problem = refusal(value, go_type)
    elif go_type == "int32" and not -(2**31) <= value < 2**31:
        problem = "integer overflow"
    elif go_type == "uint32" and value >= 2**32:
        problem = "unsigned integer overflow"
    elif go_type == "float32":
        return _single(value)
    if problem is not None:
        raise CelRuntimeError(f"field type conversion error for {message}.{field} value type: {problem}")
    return value


def _single(value: float) -> float:
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def unwrapped(value: Any, place: str) -> Optional:
    if type(value) is not Optional:
        text = f"cannot initialize optional {place} from non-optional value {show(value)}"
        raise CelRuntimeError(text)
    return value
