"""The device table as the CEL engine reads it."""

from __future__ import annotations

import numpy as np

from baro.cel import ColumnRef, view_of
from baro.cel.columns import DeviceTable as Protocol_
from baro.inventory import Inventory, Snapshot
from baro.inventory.cel_table import CelTable
from baro.model.kinds.resource import Device, DeviceAttribute, DeviceCapacity
from tests.support.cluster import node_slice

DOMAIN = "gpu.nvidia.com"
ODD = Device(
    name="odd",
    attributes={
        "index": DeviceAttribute(int_=3),
        "other.example.com/flag": DeviceAttribute(bool_=True),
        "driverVersion": DeviceAttribute(version="550.163.1"),
        "names": DeviceAttribute(strings=("a", "b")),
    },
    capacity={"memory": DeviceCapacity(value="80Gi")},
    allow_multiple_allocations=True,
)
PLAIN = Device(
    name="plain", attributes={"index": DeviceAttribute(int_=3), "type": DeviceAttribute(string="gpu")}
)
BROKEN = Device(name="broken", attributes={"v": DeviceAttribute(version="nonsense")})


def _table(*devices: Device) -> tuple[Inventory, CelTable]:
    inventory = Inventory(Snapshot(slices=(node_slice("n", devices),)))
    return inventory, CelTable(inventory.table)


def test_the_view_of_a_row_is_that_of_the_api_device() -> None:
    _, table = _table(ODD, PLAIN, BROKEN)
    for row, item in enumerate((ODD, PLAIN, BROKEN)):
        expected = view_of(DOMAIN, item.attributes, item.capacity, bool(item.allow_multiple_allocations))
        assert table.view(row) == expected


def test_columns_are_codes_into_a_vocabulary_of_values() -> None:
    _, table = _table(ODD, PLAIN)
    protocol: Protocol_ = table
    index = ColumnRef(kind="attribute", domain=DOMAIN, name="index")
    codes = protocol.codes(index)
    assert codes is not None and codes.dtype == np.int32 and codes[0] == codes[1] != 0
    assert protocol.vocabulary(index)[codes[0]] == 3
    assert protocol.code_of(index, 3) == codes[0] and protocol.code_of(index, 4) == 0
    kind = ColumnRef(kind="attribute", domain=DOMAIN, name="type")
    kinds = protocol.codes(kind)
    assert kinds is not None and kinds.tolist() == [0, 1]
    assert protocol.codes(ColumnRef(kind="attribute", domain="x", name="y")) is None
    shared = protocol.codes(ColumnRef(kind="allowMultipleAllocations"))
    assert shared is not None and shared.tolist() == [1, 0]


def test_a_device_with_an_attribute_that_is_no_version_is_broken() -> None:
    _, table = _table(PLAIN, BROKEN)
    assert table.broken.tolist() == [1]
    assert str(table.broken_text(1)).startswith("attribute v: ")
