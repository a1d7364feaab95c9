"""Kubernetes' quantity and semver libraries: ``quantity("80Gi")``, ``semver("12.8", true)`` and their
methods."""

from __future__ import annotations

import math

from baro.cel.errors import CelRuntimeError
from baro.cel.functions import Implementation
from baro.cel.values import INT_MAX, UINT_MAX, ComputedQuantity
from baro.model.quantity import Quantity, QuantityError, is_quantity
from baro.model.semver import SemVer, SemVerError


def _quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        raise CelRuntimeError(str(error)) from None


def _as_float(quantity: Quantity) -> float:
    try:
        return quantity.as_approximate_float()
    except OverflowError:
        return quantity.sign * math.inf


def _as_integer(quantity: Quantity) -> int:
    if not quantity.is_integer():
        raise CelRuntimeError("cannot convert value to integer")
    return quantity.as_integer()


def _semver(text: str, normalize: bool = False) -> SemVer:
    try:
        return SemVer.normalize(text) if normalize else SemVer.parse(text)
    except SemVerError as error:
        raise CelRuntimeError(str(error)) from None


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except CelRuntimeError:
        return False
    return True


def _compare(left: Quantity | SemVer, right: Quantity | SemVer) -> int:
    return (left > right) - (left < right)  # type: ignore[operator] # both of one type by the overload


def _less(left: Quantity, right: Quantity) -> bool:
    return left < right


def _greater(left: Quantity, right: Quantity) -> bool:
    return left > right


def _version_part(value: int) -> int:
    """Go turns the uint64 part into an int64 without a check."""
    return value if value <= INT_MAX else value - UINT_MAX - 1


def _int_quantity(value: int) -> Quantity:
    return Quantity.from_int(value, "DecimalExponent")


IMPLEMENTATIONS: dict[str, Implementation] = {
    "string_to_quantity": _quantity,
    "is_quantity_string": is_quantity,
    "quantity_add": lambda left, right: ComputedQuantity.of(left + right),
    "quantity_add_int": lambda left, right: ComputedQuantity.of(left + _int_quantity(right)),
    "quantity_sub": lambda left, right: ComputedQuantity.of(left - right),
    "quantity_sub_int": lambda left, right: ComputedQuantity.of(left - _int_quantity(right)),
    "quantity_get_float": _as_float,
    "quantity_get_int": _as_integer,
    "quantity_is_integer": lambda quantity: quantity.is_integer(),
    "quantity_sign": lambda quantity: quantity.sign,
    "quantity_compare_to": _compare,
    "quantity_is_greater_than": _greater,
    "quantity_is_less_than": _less,
    "string_to_semver": _semver,
    "string_bool_to_semver": _semver,
    "is_semver_string": _is_semver,
    "is_semver_string_bool": _is_semver,
    "semver_major": lambda version: _version_part(version.major),
    "semver_minor": lambda version: _version_part(version.minor),
    "semver_patch": lambda version: _version_part(version.patch),
    "semver_compare_to": _compare,
    "semver_is_greater_than": _greater,
    "semver_is_less_than": _less,
}
