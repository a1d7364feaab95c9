"""The device table as the CEL engine reads it."""

from __future__ import annotations

import msgspec
import numpy as np

from baro.allocator.cel_selectors import CelSelectors
from baro.cel import ColumnRef, compile_selector, view_of
from baro.cel.table import DeviceTable as Protocol_
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


def test_a_shape_is_the_keys_or_the_values_that_a_selector_of_whole_maps_can_tell() -> None:
    inventory, table = _table(
        PLAIN, msgspec.structs.replace(PLAIN, name="other", attributes=_typed("mig")), ODD
    )
    keys = compile_selector(f"device.attributes['{DOMAIN}'].exists(id, id == 'type')")
    values = compile_selector(f"device.attributes['{DOMAIN}'].exists(id, value, value == 'mig')")
    assert table.shape(keys, 0) == table.shape(keys, 1) != table.shape(keys, 2)
    assert table.shape(values, 0) != table.shape(values, 1)
    assert [keys.evaluate(table.view(row)) for row in range(3)] == [True, True, False]
    more = msgspec.structs.replace(PLAIN, attributes={**PLAIN.attributes, "new": DeviceAttribute(int_=1)})
    inventory.set_slice(node_slice("n2", [more]))
    assert table.shape(keys, 3) not in {table.shape(keys, row) for row in range(3)}


def _typed(kind: str) -> dict[str, DeviceAttribute]:
    return {**PLAIN.attributes, "type": DeviceAttribute(string=kind)}


def test_rows_of_one_shape_get_one_answer_and_a_change_of_a_row_gets_its_own() -> None:
    inventory, _ = _table(PLAIN, BROKEN, ODD)
    engine = CelSelectors.of(inventory)
    text = f"device.attributes['{DOMAIN}'].exists(id, id == 'type') || device.capacity.size() > 0"
    assert [engine.verdict(text, 0), engine.verdict(text, 2)] == [True, True]
    assert str(engine.verdict(text, 1)).startswith("attribute v: ")
    gone = msgspec.structs.replace(PLAIN, attributes={"index": DeviceAttribute(int_=3)})
    inventory.set_slice(node_slice("n", [gone, BROKEN, ODD]))
    assert engine.verdict(text, 0) is False
