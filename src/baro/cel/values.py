"""Run-time values of CEL and what all of them share: type names, equality, order, text.

int, double, bool, string, bytes and null are Python's ``int``, ``float``, ``bool``, ``str``, ``bytes`` and
``None``; lists are tuples. The rest are the small classes below, ``Quantity`` and ``SemVer`` of the model.
Dispatch is always on the exact ``type(value)``, since Python's ``True`` is an ``int``.
"""

from __future__ import annotations

import functools
import ipaddress
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from baro.cel import types
from baro.cel.errors import CelRuntimeError
from baro.cel.gotext import format_double, show_duration, show_timestamp
from baro.cel.types import Type
from baro.model.quantity import Quantity
from baro.model.semver import SemVer

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class UInt(int):
    """An unsigned 64-bit integer, a type of its own in CEL."""

    __slots__ = ()


@functools.total_ordering
class Timestamp(msgspec.Struct, frozen=True, eq=False):
    """Nanoseconds since 1970 UTC. ``offset`` (seconds east) is only kept for printing."""

    nanos: int
    offset: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)


class Duration(msgspec.Struct, frozen=True, order=True):
    nanos: int


class TypeValue(msgspec.Struct, frozen=True):
    """A type as a value: what ``type(x)`` and the name ``int`` give."""

    name: str


class Optional(msgspec.Struct, frozen=True, eq=False):
    present: bool
    value: Any = None


NONE = Optional(False)


class ComputedQuantity(Quantity, frozen=True, eq=False, gc=False):
    """What ``add`` and ``sub`` give. Upstream holds it by reference, and ``==`` refuses it on the right."""

    @classmethod
    def of(cls, amount: Quantity) -> ComputedQuantity:
        return cls(amount.scaled, amount.format, amount.exponent, amount.small, amount.text)


class Url(msgspec.Struct, frozen=True):
    """A parsed URL; ``text`` is its canonical form."""

    text: str
    scheme: str
    host: str
    path: str
    query: str


class NamedFormat(msgspec.Struct, frozen=True):
    name: str


class Cidr(msgspec.Struct, frozen=True):
    """``address`` may have host bits set; ``prefix`` is the number of leading bits."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    prefix: int

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix}"


class BoolKey(msgspec.Struct, frozen=True):
    """Key form of a bool, so that it never meets the number 1."""

    value: bool


class Map:
    """An immutable map. Equal ints and uints are one key, as in CEL.

    ``default``: what a lookup of a missing key gives instead of an error (the domains of a device);
    ``native``: upstream holds it as a Go map with string keys, which any value can be looked up in. Ours is
    then the mapping it was made of, not a copy.
    """

    __slots__ = ("_entries", "_plain", "default")

    def __init__(self, entries: Iterable[tuple[Any, Any]] = ()) -> None:
        self._entries = {_key(key): (key, value) for key, value in entries}
        self._plain: Mapping[str, Any] | None = None
        self.default: Any = None

    @classmethod
    def of_native(cls, mapping: Mapping[str, Any], default: Any = None) -> Map:
        """A map with strings for keys."""
        made = cls.__new__(cls)
        made._entries = _NOTHING
        made._plain = mapping
        made.default = default
        return made

    @property
    def native(self) -> bool:
        return self._plain is not None

    def _entry(self, key: Any) -> tuple[Any, Any] | None:
        entry = self._entries.get(_key(key))
        if entry is None and type(key) is float and key.is_integer():
            return self._entries.get(int(key))
        return entry

    def find(self, key: Any) -> tuple[bool, Any]:
        if self._plain is not None:
            if type(key) is str and key in self._plain:
                return True, self._plain[key]
        else:
            entry = self._entry(key)
            if entry is not None:
                return True, entry[1]
        return (False, None) if self.default is None else (True, self.default)

    def __contains__(self, key: Any) -> bool:
        if self._plain is not None:
            return type(key) is str and key in self._plain
        return self._entry(key) is not None

    def __len__(self) -> int:
        return len(self._entries if self._plain is None else self._plain)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._entries.values() if self._plain is None else self._plain.items()

    def added(self, key: Any, value: Any) -> Map:
        """A copy with one more entry; an existing key is an error."""
        if type(key) in UNHASHABLE:
            raise unhashable(key)
        if key in self:
            raise CelRuntimeError(f"insert failed: key {show(key)} already exists")
        grown = Map()
        entries = (
            self._entries if self._plain is None else {name: (name, item) for name, item in self.items()}
        )
        grown._entries = entries | {_key(key): (key, value)}
        return grown


_NOTHING: dict[Any, tuple[Any, Any]] = {}


class _DoubleKey(msgspec.Struct, frozen=True):
    """Key form of a double: a double finds the equal whole number, a whole number never finds a double."""

    value: float


def _key(key: Any) -> Any:
    if type(key) is bool:
        return BoolKey(key)
    return _DoubleKey(key) if type(key) is float else key


_TYPE_NAMES: dict[type, str] = {
    bool: "bool", int: "int", UInt: "uint", float: "double", str: "string", bytes: "bytes",
    type(None): "null_type", tuple: "list", Map: "map", Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration", TypeValue: "type", Optional: "optional_type",
    Quantity: "kubernetes.Quantity", ComputedQuantity: "kubernetes.Quantity",
    SemVer: "kubernetes.Semver", Url: "kubernetes.URL",
    ipaddress.IPv4Address: "net.IP", ipaddress.IPv6Address: "net.IP", Cidr: "net.CIDR",
    NamedFormat: "kubernetes.NamedFormat",
}  # fmt: skip


def type_name(value: Any) -> str:
    """The run-time name of the value's type, without parameters."""
    return _TYPE_NAMES.get(type(value), "kubernetes.DRADevice")


_LITERAL_TYPES: dict[type, Type] = {
    bool: types.BOOL, int: types.INT, UInt: types.UINT, float: types.DOUBLE, str: types.STRING,
    bytes: types.BYTES, type(None): types.NULL,
}  # fmt: skip


def type_of_value(value: Any) -> Type:
    """The static type of a literal."""
    return _LITERAL_TYPES[type(value)]


def no_overload(function: str | None = None, *args: Any) -> CelRuntimeError:
    """cel-go's "no such overload", with the argument types when they are given."""
    if function is None:
        return CelRuntimeError("no such overload")
    names = f"({', '.join(map(type_name, args))})" if args else ""
    return CelRuntimeError(f"no such overload: {function}{names}")


def lacks(operator: str, value: Any) -> CelRuntimeError:
    """The error for a first operand whose type has no such operator. Upstream leaves the name out for
    the types that can receive method calls."""
    return no_overload(*() if type(value) in (str, Duration, Timestamp) else (operator,))


_GO_NAMES = {
    "int": "types.Int", "uint": "types.Uint", "double": "types.Double", "bool": "types.Bool",
    "string": "types.String",
    "bytes": "types.Bytes", "null_type": "types.Null", "list": "*types.baseList", "map": "*types.baseMap",
    "google.protobuf.Duration": "types.Duration", "google.protobuf.Timestamp": "types.Timestamp",
    "type": "*types.Type", "optional_type": "*types.Optional", "kubernetes.Quantity": "cel.Quantity",
    "kubernetes.Semver": "cel.Semver", "kubernetes.URL": "cel.URL", "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR", "kubernetes.NamedFormat": "cel.Format",
}  # fmt: skip


def go_type(value: Any) -> str:
    """The Go type behind a value, which shows in some messages."""
    return _GO_NAMES.get(type_name(value), "types.Unknown")


def not_a_list(value: Any) -> CelRuntimeError:
    """Upstream panics where it trusts that a value is a list; ``&&`` and ``||`` cannot absorb that."""
    method = "Contains" if type(value) in (str, int, UInt, float, bytes, Duration, Timestamp) else "Add"
    fault = f"{go_type(value)} is not traits.Lister: missing method {method}"
    text = f"internal error: interface conversion: {fault}"
    return CelRuntimeError(text, absorbable=False)


UNHASHABLE = frozenset({SemVer, bytes})


def unhashable(value: Any) -> CelRuntimeError:
    """Upstream panics on map keys that Go cannot hash; ``&&`` and ``||`` cannot absorb that."""
    text = f"internal error: runtime error: hash of unhashable type {go_type(value)}"
    return CelRuntimeError(text, absorbable=False)


_NUMBERS = (int, UInt, float)


def equal(left: Any, right: Any) -> bool:
    """CEL's ``==``. Numbers compare across types; most other pairs of types are simply unequal.

    Quantities, versions and URLs refuse to be compared with anything else (``no such overload``), but only
    when they stand on the left: that is how upstream's values behave.
    """
    kind, other = type(left), type(right)
    if left is None or right is None:
        return left is right
    if kind is ComputedQuantity and other is Quantity:
        return bool(left == right)
    if kind is other and kind is not ComputedQuantity:
        if kind is tuple or kind is Map or kind is Optional:
            return bool(_EQUAL[kind](left, right))
        return bool(left == right)
    if kind in _NUMBERS:
        return other in _NUMBERS and left == right
    if kind in _STRICT:
        raise no_overload()
    if kind in (ipaddress.IPv4Address, ipaddress.IPv6Address) and type_name(right) != "net.IP":
        raise no_overload()
    return False


_STRICT = (Quantity, ComputedQuantity, SemVer, Url, Cidr, NamedFormat)


def _equal_lists(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return len(left) == len(right) and all(equal_or_unclear(*pair) for pair in zip(left, right, strict=True))


def equal_or_unclear(left: Any, right: Any) -> bool:
    """Inside aggregates a refused comparison does not count as different."""
    try:
        return equal(left, right)
    except CelRuntimeError:
        return True


def equal_or_false(left: Any, right: Any) -> bool:
    """For membership a refused comparison counts as different."""
    try:
        return equal(left, right)
    except CelRuntimeError:
        return False


def _equal_maps(left: Map, right: Map) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        found, other = right.find(key)
        if not found or not equal_or_unclear(value, other):
            return False
    return True


def _equal_optionals(left: Optional, right: Optional) -> bool:
    if not left.present or not right.present:
        return left.present == right.present
    return equal(left.value, right.value)


_EQUAL: dict[type, Any] = {tuple: _equal_lists, Map: _equal_maps, Optional: _equal_optionals}
_ORDERED = (bool, str, bytes, Timestamp, Duration)


def compare(left: Any, right: Any, operator: str) -> int:
    """-1, 0 or 1. Raises ``no such overload`` for pairs without an order and for NaN."""
    kind, other = type(left), type(right)
    if kind in _NUMBERS:
        if kind is float and math.isnan(left):
            raise CelRuntimeError("NaN values cannot be ordered")
        if other not in _NUMBERS:
            raise no_overload()
        if other is float and math.isnan(right):
            raise CelRuntimeError("NaN values cannot be ordered")
    elif kind not in _ORDERED:
        raise lacks(operator, left)
    elif kind is not other:
        raise no_overload()
    return int(left > right) - int(left < right)


def show(value: Any) -> str:
    """A value inside an error message, as Go's ``%v`` prints it."""
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return format_double(value)
    if kind is bytes:
        return f"[{' '.join(map(str, value))}]"
    if kind is TypeValue or kind is NamedFormat:
        return str(value.name)
    if kind is tuple:
        return f"[{', '.join(map(show, value))}]"
    if kind is Map:
        return f"{{{', '.join(f'{show(key)}: {show(item)}' for key, item in value.items())}}}"
    if kind is Duration:
        return show_duration(value.nanos)
    if kind is Timestamp:
        return show_timestamp(value.nanos)
    if kind is Url:
        return str(value.text)
    return "0" if value is None else str(value)  # Go's null is a number
