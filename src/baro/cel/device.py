"""What a selector sees of one device, and the columns a selector refers to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from baro.model.quantity import Quantity
from baro.model.semver import SemVer, SemVerError

if TYPE_CHECKING:  # much to load for their names
    from baro.model.kinds.resource import DeviceAttribute, DeviceCapacity

Value = bool | int | str | SemVer | tuple[bool, ...] | tuple[int, ...] | tuple[str, ...] | tuple[SemVer, ...]
"""An attribute's value; lists are tuples."""

ColumnKind = Literal["driver", "attribute", "capacity", "allowMultipleAllocations"]


class ColumnRef(msgspec.Struct, frozen=True):
    """One column of the device table. ``domain`` and ``name`` are empty for the two fields without them."""

    kind: ColumnKind
    domain: str = ""
    name: str = ""


class DeviceView(msgspec.Struct, frozen=True, kw_only=True):
    """One device as CEL sees it: attributes and capacity as domain → id → value.

    ``broken`` holds the error that upstream raises for *any* selector on a device whose attributes it cannot
    convert, such as ``attribute v: parse semantic version: …``; ``None`` for a sound device.
    """

    driver: str
    attributes: Mapping[str, Mapping[str, Value]] = {}
    capacity: Mapping[str, Mapping[str, Quantity]] = {}
    allow_multiple_allocations: bool = False
    broken: str | None = None


class AttributeError_(ValueError):  # noqa: N801, N818 Python has an AttributeError
    """An attribute has no value that CEL can see."""


def split_name(name: str, driver: str) -> tuple[str, str]:
    """Domain and id of a qualified name; a bare name belongs to the driver's domain."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def attribute_value(attribute: DeviceAttribute) -> Value:
    """The one value of an API attribute. Raises ``AttributeError_`` with upstream's words."""
    lists: tuple[tuple[int, ...] | tuple[bool, ...] | tuple[str, ...] | None, ...]
    lists = (attribute.ints, attribute.bools, attribute.strings)
    for values in lists:
        if values is not None:
            return tuple(values)  # type: ignore[return-value] # homogeneous by the field it came from
    if attribute.versions is not None:
        return tuple(_version(text) for text in attribute.versions)
    for value in (attribute.int_, attribute.bool_, attribute.string):
        if value is not None:
            return value
    if attribute.version is not None:
        return _version(attribute.version)
    raise AttributeError_("unsupported attribute value")


def _version(text: str) -> SemVer:
    try:
        return SemVer.parse(text)
    except SemVerError as error:
        raise AttributeError_(f"parse semantic version: {error}") from None


def view_of(
    driver: str,
    attributes: Mapping[str, DeviceAttribute],
    capacity: Mapping[str, DeviceCapacity],
    allow_multiple_allocations: bool = False,
) -> DeviceView:
    """The view of an API device of that driver. Bad attributes make it ``broken``, they do not raise.

    Raises ``QuantityError`` for a capacity that is no quantity: no API server lets one through.
    """
    broken: str | None = None
    by_domain: dict[str, dict[str, Value]] = {}
    for name, attribute in attributes.items():
        domain, identifier = split_name(name, driver)
        try:
            by_domain.setdefault(domain, {})[identifier] = attribute_value(attribute)
        except AttributeError_ as error:
            broken = broken or f"attribute {name}: {error}"
    amounts: dict[str, dict[str, Quantity]] = {}
    for name, amount in capacity.items():
        domain, identifier = split_name(name, driver)
        amounts.setdefault(domain, {})[identifier] = Quantity.parse(amount.value)
    return DeviceView(
        driver=driver,
        attributes=by_domain,
        capacity=amounts,
        allow_multiple_allocations=allow_multiple_allocations,
        broken=broken,
    )


__all__ = [
    "AttributeError_",
    "ColumnRef",
    "DeviceView",
    "Value",
    "attribute_value",
    "split_name",
    "view_of",
]
