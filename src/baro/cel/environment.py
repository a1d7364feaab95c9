"""The names a device selector sees: ``device`` and its fields, types as values, wrapper messages.

Two environments exist upstream: *stored* expressions (what the scheduler runs) see attributes as ``dyn`` and
have ``includes()``; *admission* of new expressions, with the default gates of 1.37, sees them as ``any``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Literal

import msgspec

from baro.cel import types
from baro.cel.declarations import NAMED, Functions, functions
from baro.cel.types import Type

EnvironmentName = Literal["stored", "admission"]

DEVICE = types.struct("kubernetes.DRADevice")


class Environment(msgspec.Struct, frozen=True):
    functions: Functions
    attribute: Type
    fields: Mapping[str, Mapping[str, Type]]
    variables: Mapping[str, Type]
    messages: Mapping[str, Type]


_TYPE_NAMES: dict[str, Type] = {
    "bool": types.BOOL, "bytes": types.BYTES, "double": types.DOUBLE, "int": types.INT,
    "string": types.STRING,
    "uint": types.UINT, "null_type": types.NULL, "timestamp": types.TIMESTAMP, "duration": types.DURATION,
    "list": types.list_of(types.DYN), "map": types.map_of(types.DYN, types.DYN),
    "type": Type("type", (), "type"), "optional_type": types.optional_of(types.param("V")),
    "google.protobuf.Timestamp": types.TIMESTAMP, "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Any": types.ANY, "google.protobuf.Value": types.DYN,
    "google.protobuf.Struct": types.map_of(types.STRING, types.DYN),
    "google.protobuf.ListValue": types.list_of(types.DYN),
    "google.protobuf.Empty": types.struct("google.protobuf.Empty"),
    "net.IP": NAMED["ip"], "net.CIDR": NAMED["cidr"], "kubernetes.DRADevice": DEVICE,
}  # fmt: skip
NAMES_OF_TYPES = frozenset(
    [
        *("bool", "bytes", "double", "int", "string", "uint", "null_type", "list", "map", "type"),
        *("optional_type", "google.protobuf.Timestamp", "google.protobuf.Duration", "google.protobuf.Empty"),
        *("net.IP", "net.CIDR"),
    ]
)
"""Types that are values by their name. The checker knows more, which upstream's planner then cannot find."""
_WRAPPERS = {
    "BoolValue": types.BOOL, "BytesValue": types.BYTES, "DoubleValue": types.DOUBLE,
    "FloatValue": types.DOUBLE,
    "Int32Value": types.INT, "Int64Value": types.INT, "StringValue": types.STRING, "UInt32Value": types.UINT,
    "UInt64Value": types.UINT,
}  # fmt: skip


@functools.cache
def environment(name: EnvironmentName) -> Environment:
    """The environment of that name."""
    attribute = types.DYN if name == "stored" else types.ANY
    inner = types.map_of(types.STRING, attribute)
    device_fields = {
        "driver": types.STRING,
        "attributes": types.map_of(types.STRING, inner),
        "capacity": types.map_of(types.STRING, types.map_of(types.STRING, NAMED["quantity"])),
        "allowMultipleAllocations": types.BOOL,
    }
    messages = {f"google.protobuf.{short}": types.wrapper(kind.name) for short, kind in _WRAPPERS.items()}
    moment = {"seconds": types.INT, "nanos": types.INT}
    plain = {DEVICE.name: device_fields, "google.protobuf.Empty": {}, types.TIMESTAMP.name: moment,
             types.DURATION.name: moment}  # fmt: skip
    fields = plain | {f"google.protobuf.{short}": {"value": kind} for short, kind in _WRAPPERS.items()}
    variables = {"device": DEVICE} | {
        type_name: types.type_of(kind) for type_name, kind in (_TYPE_NAMES | messages).items()
    }
    return Environment(functions(name == "stored"), attribute, fields, variables, messages)
