"""Actual cost of one call, from its argument values and its result.

The figures are those of Kubernetes' library and of cel-go's runtime tracker and extensions (apiserver 0.37.2,
cel-go 0.29.2). A function that is not named here costs 1. An error in place of a value has size 1.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable
from typing import Any

from baro.cel.code import Failure
from baro.cel.cost_bounds import LIST_COST, REGEX, SCAN
from baro.cel.errors import CelRuntimeError
from baro.cel.values import Cidr, ComputedQuantity, Map, NamedFormat, Optional, Url, go_type
from baro.model.quantity import Quantity
from baro.model.semver import SemVer

Values = list[Any]
Rule = Callable[[str, Values, Any], "int | None"]


def call_cost(function: str, overload: str, args: Values, result: Any) -> int:
    """The cost of a call; ``overload`` is empty when several were possible.

    Raises ``CelRuntimeError`` where upstream's tracking panics on the argument.
    """
    for rule in (_EXTENSIONS.get(function) if overload else None, _KUBERNETES.get(function)):
        found = rule(overload, args, result) if rule is not None else None
        if found is not None:
            return found
    standard = _STANDARD.get(overload)
    return 1 if standard is None else standard(args)


_SIZED = frozenset({str, bytes, tuple, Map})


def size_of(value: Any) -> int:
    """Characters, bytes, elements or entries; 1 for everything else."""
    kind = type(value)
    if kind in _SIZED:
        return len(value)
    if kind is Cidr:
        return math.ceil(int(value.prefix) / 8)
    if kind is ipaddress.IPv4Address or kind is ipaddress.IPv6Address:
        return int(value.max_prefixlen) // 8
    return 1


def inner_size(value: Any) -> int:
    """As ``size_of``, but of an optional the size of what it holds."""
    while type(value) is Optional and value.present:
        value = value.value
    return size_of(value)


def _up(value: float) -> int:
    return math.ceil(value)


# --- lists and sets ----------------------------------------------------------------------------------------


def _new_list(factor: float, size: int) -> int:
    return int(float(size) * (factor if factor >= 0 else 1.0)) + 1 + LIST_COST


def _by_result(overload: str, args: Values, result: Any) -> int:
    return _new_list(1, size_of(result))


def _panic(value: Any, wanted: str) -> CelRuntimeError:
    if wanted == "types.Int":
        fault = f"ref.Val is {_go_name(value)}, not types.Int"
    else:
        fault = f"{_go_name(value)} is not traits.Lister: missing method Add"
    return CelRuntimeError(f"internal error: interface conversion: {fault}", absorbable=False)


def _go_name(value: Any) -> str:
    return "*types.Err" if type(value) is Failure else go_type(value)


def _flatten(overload: str, args: Values, result: Any) -> int:
    depth = 1.0
    if len(args) == 2:
        if type(args[1]) is not int:
            raise _panic(args[1], "types.Int")
        depth = float(args[1])
    return _new_list(depth, size_of(args[0]))


def _self_compared(overload: str, args: Values, result: Any) -> int:
    items = args[-1]  # the list, or the keys of ``sortBy``
    if type(items) is not tuple:
        raise _panic(items, "traits.Lister")
    text = bool(items) and type(items[0]) in (str, bytes)
    return _new_list(2.0 + SCAN if text else 2.0, len(items) ** 2)


def _sets(factor: float) -> Rule:
    return lambda overload, args, result: 1 + int(float(size_of(args[0]) * size_of(args[1])) * factor)


_EXTENSIONS: dict[str, Rule] = {
    "slice": _by_result, "lists.range": _by_result, "reverse": _by_result, "flatten": _flatten,
    "distinct": _self_compared, "sort": _self_compared, "@sortByAssociatedKeys": _self_compared,
    "sets.contains": _sets(1), "sets.intersects": _sets(1), "sets.equivalent": _sets(2),
}  # fmt: skip


# --- Kubernetes' functions ---------------------------------------------------------------------------------


def _one(overload: str, args: Values, result: Any) -> int:
    return 1


def _traverse(value: Any) -> int:
    kind = type(value)
    if kind is str:
        return int(float(len(value.encode("utf-8", "surrogatepass"))) * SCAN)
    if kind is bytes:
        return int(float(len(value)) * SCAN)
    if kind is tuple:
        return sum(map(_traverse, value))
    if kind is Map:
        return sum(_traverse(key) + _traverse(item) for key, item in value.items())
    return 1


def _scan(factor: float) -> Rule:
    return lambda overload, args, result: _up(float(size_of(args[0])) * factor * SCAN) if args else None


def _join(overload: str, args: Values, result: Any) -> int:
    return _up(float(size_of(result)) * 2 * SCAN)


def _regex(text: int, pattern: int) -> int:
    return _up((1.0 + float(text)) * SCAN) * _up(float(pattern) * REGEX)


def _find(overload: str, args: Values, result: Any) -> int:
    return _regex(size_of(args[0]), size_of(args[1]))


def _ip(overload: str, args: Values, result: Any) -> int | None:
    return 1 if overload == "cidr_ip" else _scan(1)(overload, args, result)


def _contains_ip(overload: str, args: Values, result: Any) -> int:
    cost = _up(float(2 * size_of(args[0])) * SCAN)
    return cost + _text(overload == "cidr_contains_ip_string", args[1])


def _contains_cidr(overload: str, args: Values, result: Any) -> int:
    cost = _up(float(2 * size_of(args[0])) * SCAN) + _up(float(size_of(args[0])) * SCAN) + 1
    return cost + _text(overload == "cidr_contains_cidr_string", args[1])


def _text(parsed: bool, value: Any) -> int:
    return _up(float(size_of(value)) * SCAN) if parsed else 0


_PATTERN_LENGTHS = {
    "dns1123Label": 30, "dns1123Subdomain": 60, "dns1035Label": 30, "qualifiedName": 60,
    "dns1123LabelPrefix": 30, "dns1123SubdomainPrefix": 60, "dns1035LabelPrefix": 30, "labelValue": 40,
    "uri": 1103, "uuid": 70, "byte": 84, "date": 71, "datetime": 71,
}  # fmt: skip


def _validate(overload: str, args: Values, result: Any) -> int | None:
    if type(args[0]) is not NamedFormat:
        return None
    return _regex(size_of(args[1]), _PATTERN_LENGTHS[args[0].name])


_CONSTANT_EQUALITY = frozenset(
    {Quantity, ComputedQuantity, ipaddress.IPv4Address, ipaddress.IPv6Address, Cidr, NamedFormat, Url, SemVer}
)


def _equality(overload: str, args: Values, result: Any) -> int | None:
    return 1 if type(args[0]) in _CONSTANT_EQUALITY else None


_KUBERNETES: dict[str, Rule] = {
    **dict.fromkeys(
        ["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"],
        lambda overload, args, result: _traverse(args[0]),
    ),
    **dict.fromkeys([
        "url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR", "quantity",
        "isQuantity", "semver", "isSemver",
    ], _scan(1)),
    "replace": _scan(2), "split": _scan(2), "ip.isCanonical": _scan(2), "join": _join, "find": _find,
    "findAll": _find, "ip": _ip, "containsIP": _contains_ip, "containsCIDR": _contains_cidr,
    "validate": _validate, "_==_": _equality,
    **dict.fromkeys([
        "masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
        "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger",
        "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor",
        "patch", "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery",
    ], _one),
}  # fmt: skip


# --- the standard library ----------------------------------------------------------------------------------


def _compare(args: Values) -> int:
    return _up(float(min(inner_size(args[0]), inner_size(args[1]))) * SCAN)


def _first(args: Values) -> int:
    return _up(float(inner_size(args[0])) * SCAN)


def _second(args: Values) -> int:
    return _up(float(inner_size(args[1])) * SCAN)


def _concatenate(args: Values) -> int:
    return _up(float(inner_size(args[0]) + inner_size(args[1])) * SCAN)


def _matches(args: Values) -> int:
    return _regex(inner_size(args[0]), inner_size(args[1]))


_ORDERINGS = ("less", "greater", "less_equals", "greater_equals")
_STANDARD: dict[str, Callable[[Values], int]] = {
    **dict.fromkeys(["starts_with_string", "ends_with_string"], _second),
    **dict.fromkeys(["string_to_bytes", "bytes_to_string", "strings_quote", "string_format"], _first),
    "in_list": lambda args: inner_size(args[1]),
    **dict.fromkeys([f"{word}_{kind}" for word in _ORDERINGS for kind in ("string", "bytes")], _compare),
    "equals": _compare, "not_equals": _compare,
    "add_string": _concatenate, "add_bytes": _concatenate, "matches": _matches, "matches_string": _matches,
    "contains_string": lambda args: _first(args) * _second(args),
}  # fmt: skip
