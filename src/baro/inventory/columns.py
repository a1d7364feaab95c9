"""Devices as columns: one int32 code per device and attribute, and a vocabulary of typed values.

A row is a device; its number is stable while the device is published. No Python object is kept per
attribute: 80,000 devices with 16 attributes are 80,000 x 16 x 4 bytes plus the distinct values. What few
devices have (taints, counters, policies, node selection) is a ``DeviceExtra`` beside the columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from baro.model.kinds.base import RawQuantity
from baro.model.kinds.core import NodeSelector
from baro.model.kinds.resource import (
    CapacityRequestPolicy,
    Device,
    DeviceAttribute,
    DeviceCounterConsumption,
    DeviceTaint,
)

MISSING: Final = 0
"""Code of a value that the device does not have."""

Name = tuple[str, str]
"""(domain, id) of an attribute or capacity; without a domain on the wire it is the driver's name."""
TypedValue = tuple[str, object]
"""(API field, value): ``("int", 0)``, ``("version", "1.2.3")``, ``("strings", ("a",))``, ``("unset", None)``;
capacities are ``("quantity", raw)``."""


class DeviceExtra(msgspec.Struct, frozen=True, kw_only=True):
    """What only some devices have."""

    taints: tuple[DeviceTaint, ...] = ()
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    shareable: bool = False
    """``allowMultipleAllocations``."""
    policies: Mapping[Name, CapacityRequestPolicy] = {}


NO_EXTRA: Final = DeviceExtra()


class Column:
    """Codes per row and the vocabulary: ``vocabulary[code]`` is the value, code 0 means missing."""

    __slots__ = ("_codes_of", "codes", "vocabulary")

    def __init__(self) -> None:
        self.codes = array("i")
        self.vocabulary: list[TypedValue | None] = [None]
        self._codes_of: dict[TypedValue, int] = {}

    def code(self, row: int) -> int:
        """The code of a row; rows beyond the last one written are missing."""
        return self.codes[row] if row < len(self.codes) else MISSING

    def value(self, row: int) -> TypedValue | None:
        return self.vocabulary[self.code(row)]

    def set(self, row: int, value: TypedValue) -> None:
        code = self._codes_of.get(value)
        if code is None:
            code = self._codes_of[value] = len(self.vocabulary)
            self.vocabulary.append(value)
        codes = self.codes
        if row == len(codes):
            codes.append(code)
        elif row < len(codes):
            codes[row] = code
        else:
            codes.frombytes(bytes(codes.itemsize * (row - len(codes))))
            codes.append(code)

    def clear(self, row: int) -> None:
        if row < len(self.codes):
            self.codes[row] = MISSING


def typed(attribute: DeviceAttribute) -> TypedValue:
    """The one value that is set. An attribute without any is ``("unset", None)``."""
    if attribute.string is not None:
        return ("string", attribute.string)
    if attribute.int_ is not None:
        return ("int", attribute.int_)
    if attribute.bool_ is not None:
        return ("bool", attribute.bool_)
    if attribute.version is not None:
        return ("version", attribute.version)
    for name in ("ints", "bools", "strings", "versions"):
        values = getattr(attribute, name)
        if values is not None:
            return (name, values)
    return ("unset", None)


class DeviceTable:
    """All devices. Rows of removed devices are reused; everything of a removed row is missing."""

    def __init__(self) -> None:
        self.attributes: dict[Name, Column] = {}
        self.capacities: dict[Name, Column] = {}
        self.extras: dict[int, DeviceExtra] = {}
        self.spelled_out: dict[int, frozenset[str]] = {}
        """Row → capacities of the driver's own domain that are published with the domain."""
        self.drivers = Column()
        self.shareable = Column()
        """``allowMultipleAllocations``, only where it is true."""
        self._names = Column()
        self.revision = 0
        """Grows with every write, so that readers know when to look for new values."""
        self._free: list[int] = []
        self._size = 0
        self._split: dict[tuple[str, str], Name] = {}

    @property
    def size(self) -> int:
        """Number of rows, free ones included."""
        return self._size

    def driver(self, row: int) -> str:
        value = self.drivers.value(row)
        return "" if value is None else str(value[1])

    def device_name(self, row: int) -> str:
        value = self._names.value(row)
        return "" if value is None else str(value[1])

    def device_names(self, rows: Sequence[int]) -> list[str]:
        """The names of the devices in these rows, each of which must hold one."""
        codes, vocabulary = self._names.codes, self._names.vocabulary
        return [vocabulary[codes[row]][1] for row in rows]  # type: ignore[index, misc]

    def rare(self, row: int) -> DeviceExtra:
        return self.extras.get(row, NO_EXTRA)

    def qualified(self, driver: str, name: str) -> Name:
        """(domain, id) of a name as a driver writes it."""
        key = (driver, name)
        found = self._split.get(key)
        if found is None:
            domain, slash, identifier = name.rpartition("/")
            found = self._split[key] = (domain, identifier) if slash else (driver, name)
        return found

    def attributes_of(self, row: int) -> Iterator[tuple[Name, TypedValue]]:
        for name, column in self.attributes.items():
            value = column.value(row)
            if value is not None:
                yield name, value

    def capacities_of(self, row: int) -> Iterator[tuple[Name, RawQuantity]]:
        for name, column in self.capacities.items():
            value = column.value(row)
            if value is not None:
                yield name, value[1]  # type: ignore[misc]

    def add(self, driver: str, device: Device) -> int:
        """Store a device and return its row."""
        if self._free:
            row = self._free.pop()
        else:
            row = self._size
            self._size += 1
        self._write(row, driver, device)
        return row

    def replace(self, row: int, driver: str, device: Device) -> None:
        """Write a device over the one in that row."""
        self._wipe(row)
        self._write(row, driver, device)

    def remove(self, row: int) -> None:
        """Forget a device; its row may be given to another."""
        self._wipe(row)
        self._free.append(row)

    def _write(self, row: int, driver: str, device: Device) -> None:
        self.revision += 1
        self._names.set(row, ("string", device.name))
        self.drivers.set(row, ("string", driver))
        for name, attribute in device.attributes.items():
            _column(self.attributes, self.qualified(driver, name)).set(row, typed(attribute))
        policies: dict[Name, CapacityRequestPolicy] = {}
        for name, capacity in device.capacity.items():
            qualified = self.qualified(driver, name)
            _column(self.capacities, qualified).set(row, ("quantity", capacity.value))
            if capacity.request_policy is not None:
                policies[qualified] = capacity.request_policy
            if qualified[0] == driver and "/" in name:
                self.spelled_out[row] = self.spelled_out.get(row, frozenset()) | {qualified[1]}
        extra = DeviceExtra(
            taints=device.taints,
            consumes_counters=device.consumes_counters,
            node_name=device.node_name,
            node_selector=device.node_selector,
            all_nodes=bool(device.all_nodes),
            binds_to_node=bool(device.binds_to_node),
            binding_conditions=device.binding_conditions,
            binding_failure_conditions=device.binding_failure_conditions,
            shareable=bool(device.allow_multiple_allocations),
            policies=policies,
        )
        if extra != NO_EXTRA:
            self.extras[row] = extra
            if extra.shareable:
                self.shareable.set(row, ("bool", True))

    def _wipe(self, row: int) -> None:
        for table in (self.attributes, self.capacities):
            for column in table.values():
                column.clear(row)
        self.extras.pop(row, None)
        self.spelled_out.pop(row, None)
        for column in (self._names, self.drivers, self.shareable):
            column.clear(row)


def _column(table: dict[Name, Column], name: Name) -> Column:
    column = table.get(name)
    if column is None:
        column = table[name] = Column()
    return column
