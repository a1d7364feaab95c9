"""Estimated cost of each function: bounds from the sizes of its arguments, and the size of its result.

The figures are those of Kubernetes' library and of cel-go's list and set extensions (apiserver 0.37.2,
cel-go 0.29.2). A function that is not named here costs 1. Costs of the arguments are the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from baro.cel import ast
from baro.cel.ast import Node
from baro.cel.cost_bounds import (
    LIST_COST,
    NO_PATH,
    ONE,
    REGEX,
    SCAN,
    U64,
    UNKNOWN,
    ZERO,
    Bounds,
    FieldPath,
    add,
    declared_size,
    exactly,
    wrapped,
)
from baro.cel.types import Type

_FORMAT_SIZE, _FORMAT_REGEX = 64, 128


class Argument(msgspec.Struct, frozen=True):
    """An argument as the estimator sees it. ``node`` is ``None`` for the elements of a list."""

    node: Node | None
    type: Type
    path: FieldPath
    size: Bounds | None

    def size_or_unknown(self) -> Bounds:
        return UNKNOWN if self.size is None else self.size

    def any_size(self) -> Bounds:
        """The size, or the declared one: for list elements nothing else is known."""
        found = self.size or declared_size(self.path)
        return UNKNOWN if found is None else found

    def whole(self, default: int) -> int:
        """The value of a literal int, at least 0."""
        if isinstance(self.node, ast.Literal) and type(self.node.value) is int:
            return max(self.node.value, 0)
        return default

    def element(self) -> Argument | None:
        """An element of a list; ``None`` when the type has no parameters."""
        if not self.type.params:
            return None
        path = self.path.extended("@items") if self.path.length else NO_PATH
        return Argument(None, self.type.params[0], path, None)


Args = list[Argument]
Estimate = tuple[Bounds, Bounds | None]
Rule = Callable[[str, "Argument | None", Args], "Estimate | None"]


def call_estimate(function: str, overload: str, target: Argument | None, args: Args) -> Estimate:
    """Bounds of one call's own cost, and of the size of its result where they follow from the arguments."""
    for rule in (_EXTENSIONS.get(function), _KUBERNETES.get(function), _STANDARD.get(overload)):
        found = rule(overload, target, args) if rule is not None else None
        if found is not None:
            return found
    return ONE, None


# --- lists and sets ----------------------------------------------------------------------------------------


def _new_list(factor: float, size: Bounds) -> Estimate:
    return size.scaled(factor).plus(ONE).plus(exactly(LIST_COST)), size


def _slice(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    if target is None:
        return None
    start, end = args[0].whole(0), args[1].whole(target.any_size().max)
    return _new_list(1, exactly(wrapped(end - start)))


def _range(overload: str, target: Argument | None, args: Args) -> Estimate:
    return _new_list(1, exactly(args[0].whole(U64)))


def _reverse(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    return None if target is None else _new_list(1, target.any_size())


def _flatten(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    if target is None:
        return None
    return _new_list(float(args[0].whole(U64)) if args else 1.0, target.any_size())


def _self_compared(factor: float, size: Bounds) -> Estimate:
    return _new_list(factor, size.times(size))


def _distinct(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    return None if target is None else _self_compared(2.0, target.any_size())


def _sort(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    """``sort`` by the elements, ``sortBy`` by its list of keys."""
    by = args[0] if args else target
    text = overload.startswith(("list_string_", "list_bytes_"))
    return None if by is None else _self_compared(2.0 + SCAN if text else 2.0, by.any_size())


def _sets(factor: float) -> Rule:
    def rule(overload: str, target: Argument | None, args: Args) -> Estimate:
        return args[0].any_size().times(args[1].any_size()).scaled(factor).plus(ONE), None

    return rule


_EXTENSIONS: dict[str, Rule] = {
    "slice": _slice, "lists.range": _range, "reverse": _reverse, "flatten": _flatten, "distinct": _distinct,
    "sort": _sort, "@sortByAssociatedKeys": _sort, "sets.contains": _sets(1), "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
}  # fmt: skip


# --- Kubernetes' functions ---------------------------------------------------------------------------------


def _fixed(overload: str, target: Argument | None, args: Args) -> Estimate:
    return ONE, None


def _traversal(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    """Once over a list (each element costs 1, text also its length), or once over a string."""
    if target is None:
        return None
    element = target.element()
    if element is not None:
        each = ONE
        if element.type.name in ("string", "bytes"):
            each = each.plus(element.any_size().scaled(SCAN))
        return target.any_size().times(each), None
    if overload == "list_includes_dyn_dyn":
        return target.any_size().times(ONE), None
    return target.any_size().scaled(SCAN), None


def _text(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    size = None if target is None else target.any_size()
    return None if size is None else (size.scaled(SCAN), size)


def _url(overload: str, target: Argument | None, args: Args) -> Estimate:
    size = args[0].any_size()
    return size.scaled(SCAN), size


def _parse(factor: float) -> Rule:
    def rule(overload: str, target: Argument | None, args: Args) -> Estimate | None:
        return (args[0].any_size().scaled(factor), None) if args else None

    return rule


def _ip(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    return (ONE, None) if overload == "cidr_ip" else _parse(SCAN)(overload, target, args)


def _replace(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    if target is None:
        return None
    size, old, new = target.any_size(), args[0].any_size(), args[1].any_size()
    count_max, kept_max = 0, 0
    if old.min == 0:  # an empty text is found around every character
        count_max, kept_max = add(size.max, 1), size.max
    elif new.max <= old.min:
        kept_max = size.max
    else:
        count_max = math.ceil(float(size.max) / float(old.min))
    count_min, kept_min = 0, 0
    if old.max == 0:
        count_min, kept_min = add(size.min, 1), size.min
    elif old.max <= new.min:
        kept_min = size.min
    else:
        count_min = math.ceil(float(size.min) / float(old.max))
    result = Bounds(count_min, min(count_max, U64)).times(new).plus(Bounds(kept_min, kept_max))
    return size.scaled(2 * SCAN), result


def _split(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    if target is None:
        return None
    size = target.any_size()
    most = size.max
    if len(args) > 1 and isinstance(limit := args[1].node, ast.Literal) and type(limit.value) is int:
        most = wrapped(limit.value)
    return size.scaled(2 * SCAN), Bounds(0, most)


def _join(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    if target is None:
        return None
    count, size = target.any_size(), ZERO
    element = target.element()
    if element is not None:
        size = count.times(element.any_size())
    if args:
        separators = Bounds(max(count.min - 1, 0), max(count.max - 1, 0))
        size = size.plus(args[0].any_size().times(separators))
    return size.scaled(SCAN), size


def _regex_cost(text: Bounds, pattern: Bounds) -> Bounds:
    return text.plus(ONE).scaled(SCAN).times(pattern.scaled(REGEX))


def _find(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    if target is None:
        return None
    size = target.any_size()
    return _regex_cost(size, args[0].any_size()), Bounds(0, size.max)


_ADDRESS = Bounds(4, 16)  # bytes of an IP address


def _contains_ip(overload: str, target: Argument | None, args: Args) -> Estimate:
    cost = _ADDRESS.plus(_ADDRESS).scaled(SCAN)
    if overload == "cidr_contains_ip_string":
        cost = cost.plus(args[0].any_size().scaled(SCAN))
    return cost, None


def _contains_cidr(overload: str, target: Argument | None, args: Args) -> Estimate:
    cost = _ADDRESS.plus(_ADDRESS).scaled(SCAN).plus(_ADDRESS.scaled(SCAN)).plus(ONE)
    if overload == "cidr_contains_cidr_string":
        cost = cost.plus(args[0].any_size().scaled(SCAN))
    return cost, None


def _validate(overload: str, target: Argument | None, args: Args) -> Estimate:
    return args[0].any_size().scaled(SCAN).scaled(_FORMAT_REGEX * REGEX), None


_CONSTANT_EQUALITY = frozenset({"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"})


def _equality(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    """Values of Kubernetes' own types compare in constant time, but formats and URLs."""
    left, right = args
    if left.type != right.type or left.type.kind not in ("opaque", "struct"):
        return None
    name = left.type.name
    if name in _CONSTANT_EQUALITY:
        return ONE, None
    if name == "kubernetes.NamedFormat":
        return Bounds(1, _FORMAT_SIZE).scaled(SCAN), None
    if name == "kubernetes.URL":
        size = right.size or ONE  # upstream looks at the right side twice
        return Bounds(1, size.max).scaled(SCAN), None
    return None


_KUBERNETES: dict[str, Rule] = {
    **dict.fromkeys(["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"], _traversal),
    **dict.fromkeys(["lowerAscii", "upperAscii", "substring", "trim"], _text),
    "url": _url, "replace": _replace, "split": _split, "join": _join, "find": _find, "findAll": _find,
    **dict.fromkeys(["cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"], _parse(SCAN)),
    "ip": _ip, "ip.isCanonical": _parse(2 * SCAN), "containsIP": _contains_ip, "containsCIDR": _contains_cidr,
    "validate": _validate, "_==_": _equality,
    **dict.fromkeys([
        "masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
        "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger",
        "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor",
        "patch", "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery",
    ], _fixed),
}  # fmt: skip


# --- the standard library ----------------------------------------------------------------------------------


def _format(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    return None if target is None else (target.size_or_unknown().scaled(SCAN), None)


def _to_bytes(overload: str, target: Argument | None, args: Args) -> Estimate:
    size = args[0].size_or_unknown()
    return size.scaled(SCAN), Bounds(size.min, wrapped(size.max * 4))


def _to_string(overload: str, target: Argument | None, args: Args) -> Estimate:
    size = args[0].size_or_unknown()
    return size.scaled(SCAN), Bounds(size.min // 4, size.max)


def _quote(overload: str, target: Argument | None, args: Args) -> Estimate:
    size = args[0].size_or_unknown()
    return size.scaled(SCAN), Bounds(wrapped(size.min + 2), wrapped(size.max * 2 + 2))


def _affix(overload: str, target: Argument | None, args: Args) -> Estimate:
    return args[0].size_or_unknown().scaled(SCAN), None


def _in_list(overload: str, target: Argument | None, args: Args) -> Estimate:
    return args[1].size_or_unknown().scaled(1), None


def _matches(overload: str, target: Argument | None, args: Args) -> Estimate:
    text, pattern = (target, args[0]) if target is not None else args
    return _regex_cost(text.size_or_unknown(), pattern.size_or_unknown()), None


def _contains(overload: str, target: Argument | None, args: Args) -> Estimate | None:
    if target is None:
        return None
    return target.size_or_unknown().scaled(SCAN).times(args[0].size_or_unknown().scaled(SCAN)), None


def _concatenate(overload: str, target: Argument | None, args: Args) -> Estimate:
    size = args[0].size_or_unknown().plus(args[1].size_or_unknown())
    return (ONE if overload == "add_list" else size.scaled(SCAN)), size


def _compare(overload: str, target: Argument | None, args: Args) -> Estimate:
    most = min(args[0].size_or_unknown().max, args[1].size_or_unknown().max)
    return Bounds(min(most, 1), most).scaled(SCAN), None


_ORDERINGS = ("less", "greater", "less_equals", "greater_equals")
_STANDARD: dict[str, Rule] = {
    "string_format": _format, "string_to_bytes": _to_bytes, "bytes_to_string": _to_string,
    "strings_quote": _quote, "starts_with_string": _affix, "ends_with_string": _affix, "in_list": _in_list,
    "matches": _matches, "matches_string": _matches, "contains_string": _contains, "equals": _compare,
    "not_equals": _compare,
    **dict.fromkeys(["add_string", "add_bytes", "add_list"], _concatenate),
    **dict.fromkeys([f"{word}_{kind}" for word in _ORDERINGS for kind in ("string", "bytes")], _compare),
}  # fmt: skip
