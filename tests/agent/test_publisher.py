"""Writing slices: generations, order, conflicts, dropped fields, and being killed between writes."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.agent.publisher import ATTEMPTS, DroppedFieldsError, Publisher, dropped_fields
from baro.agent.slices import desired_slices, node_topology, reconcile, slice_name
from baro.model.errors import UnreachableError
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.resource import (
    Device,
    DeviceAttribute,
    DeviceTaint,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from baro.topology.profiles import load_profile
from tests.support.agent import KilledError, MemoryApi, usable_devices

NODE, DRIVER = "node-a", "gpu.baro.dev"
TAINT = DeviceTaint(key="gpu.baro.dev/xid", value="79", effect="NoSchedule")

Content = tuple[tuple[int, ...], ...]
"""Slices of a pool, each the versions of its devices: the device at a place is named by the place."""


def slices_of(content: Content, generation: int = 0) -> tuple[ResourceSlice, ...]:
    """Desired slices with any split, which machines of today's size never need."""
    made = []
    for i, versions in enumerate(content):
        devices = tuple(
            Device(name=f"gpu-{i}-{j}", attributes={"version": DeviceAttribute(int_=version)})
            for j, version in enumerate(versions)
        )
        pool = ResourcePool(name=NODE, generation=generation, resource_slice_count=len(content))
        spec = ResourceSliceSpec(driver=DRIVER, pool=pool, node_name=NODE, devices=devices)
        made.append(ResourceSlice(metadata=ObjectMeta(name=slice_name(i, DRIVER, NODE, NODE)), spec=spec))
    return tuple(made)


def devices_of(content: Content) -> tuple[Device, ...]:
    return tuple(device for item in slices_of(content) for device in item.spec.devices)


def generations(api: MemoryApi) -> list[int]:
    return [s.spec.pool.generation for s in api.list_slices(DRIVER, NODE)]


def test_a_fresh_pool_is_created_in_order_at_generation_one() -> None:
    api = MemoryApi()
    result = Publisher(api).publish(slices_of(((1, 2), (3,))))
    assert (result.generation, result.created, result.writes) == (1, 2, 2)
    assert [line.split()[1][:5] for line in api.log] == ["00000", "00001"]


def test_publishing_the_same_again_writes_nothing() -> None:
    api = MemoryApi()
    publisher = Publisher(api)
    publisher.publish(slices_of(((1,), (2,))))
    assert publisher.publish(slices_of(((1,), (2,)))).writes == 0
    assert Publisher(api).publish(slices_of(((1,), (2,)))).writes == 0


def test_one_changed_slice_keeps_the_generation_and_is_the_only_write() -> None:
    api = MemoryApi()
    publisher = Publisher(api)
    publisher.publish(slices_of(((1,), (2,), (3,))))
    result = publisher.publish(slices_of(((1,), (9,), (3,))))
    assert (result.generation, result.updated, result.writes) == (1, 1, 1)
    assert generations(api) == [1, 1, 1]


def test_two_changed_slices_move_all_to_the_next_generation() -> None:
    api = MemoryApi()
    publisher = Publisher(api)
    publisher.publish(slices_of(((1,), (2,), (3,))))
    result = publisher.publish(slices_of(((7,), (9,), (3,))))
    assert (result.generation, result.updated) == (2, 3)
    assert generations(api) == [2, 2, 2]


def test_obsolete_slices_go_first_and_the_generation_moves() -> None:
    api = MemoryApi()
    publisher = Publisher(api)
    publisher.publish(slices_of(((1,), (2,), (3,))))
    api.log.clear()
    publisher.publish(slices_of(((1,),)))
    assert [line.split()[0] for line in api.log] == ["delete", "delete", "update"]
    assert generations(api) == [2]


def test_an_added_slice_moves_the_generation() -> None:
    api = MemoryApi()
    publisher = Publisher(api)
    publisher.publish(slices_of(((1,),)))
    assert publisher.publish(slices_of(((1,), (2,)))).generation == 2


def test_a_slice_that_somebody_deleted_comes_back_in_the_same_generation() -> None:
    api = MemoryApi()
    publisher = Publisher(api)
    publisher.publish(slices_of(((1,), (2,))))
    del api.slices[slice_name(1, DRIVER, NODE, NODE)]
    result = publisher.publish(slices_of(((1,), (2,))))
    assert (result.generation, result.created, result.writes) == (1, 1, 1)


def test_slices_of_other_drivers_and_nodes_are_not_touched() -> None:
    (mine,) = slices_of(((1,),), generation=4)
    foreign = [
        msgspec.structs.replace(
            mine,
            metadata=ObjectMeta(name=f"foreign-{i}"),
            spec=msgspec.structs.replace(mine.spec, driver=driver, node_name=node),
        )
        for i, (driver, node) in enumerate([("gpu.nvidia.com", NODE), (DRIVER, "node-b")])
    ]
    changes = reconcile(foreign, slices_of(((1,),)))
    assert (changes.generation, len(changes.create), changes.delete) == (1, 1, ())


def test_leftovers_of_an_older_generation_are_removed_oldest_first() -> None:
    (current,) = slices_of(((1,),), generation=5)
    old = [
        msgspec.structs.replace(s, metadata=ObjectMeta(name=f"old-{g}"))
        for g in (3, 2)
        for s in slices_of(((8,),), generation=g)
    ]
    changes = reconcile([*old, current], slices_of(((1,),)))
    assert [s.metadata.name for s in changes.delete] == ["old-2", "old-3"]
    assert (changes.generation, changes.update, changes.create) == (5, (), ())


def test_a_pool_under_a_former_name_is_removed() -> None:
    machine = load_profile("l40s-4").machine()
    api = MemoryApi()
    Publisher(api).publish(desired_slices(machine, node=NODE, pool="old"))
    Publisher(api).publish(desired_slices(machine, node=NODE, pool="new"))
    assert [s.spec.pool.name for s in api.slices.values()] == ["new"]


def test_what_the_server_fills_in_is_no_difference() -> None:
    machine = load_profile("hgx-a100-8").machine()
    api = MemoryApi()
    (desired,) = desired_slices(machine, node=NODE, taints={0: (TAINT,)})
    Publisher(api).publish((desired,))
    (stored,) = api.slices.values()
    first = stored.spec.devices[0]
    filled = msgspec.structs.replace(
        first,
        taints=(msgspec.structs.replace(TAINT, time_added="2026-01-01T00:00:00Z"),),
        capacity={
            key: msgspec.structs.replace(value, value=str(int(str(value.value)[:-2]) * 1024) + "Mi")
            if str(value.value).endswith("Gi")
            else value
            for key, value in first.capacity.items()
        },
    )
    spec = msgspec.structs.replace(stored.spec, devices=(filled, *stored.spec.devices[1:]))
    api.slices[stored.metadata.name] = msgspec.structs.replace(stored, spec=spec)
    assert reconcile(api.list_slices(DRIVER, NODE), (desired,)).none


def test_a_new_taint_is_one_write_in_the_same_generation() -> None:
    machine = load_profile("hgx-h100-8").machine()
    api = MemoryApi()
    publisher = Publisher(api)
    publisher.publish(desired_slices(machine, node=NODE))
    result = publisher.publish(desired_slices(machine, node=NODE, taints={3: (TAINT,)}))
    assert (result.generation, result.writes) == (1, 1)
    (stored,) = api.slices.values()
    assert stored.spec.devices[3].taints == (TAINT,)


def test_labels_and_owners_of_others_survive_an_update() -> None:
    api = MemoryApi()
    publisher = Publisher(api)
    publisher.publish(slices_of(((1,),)))
    (stored,) = api.slices.values()
    labelled = msgspec.structs.replace(stored.metadata, labels={"team": "a"})
    api.slices[stored.metadata.name] = msgspec.structs.replace(stored, metadata=labelled)
    publisher.publish(slices_of(((2,),)))
    (after,) = api.slices.values()
    assert after.metadata.labels == {"team": "a"}
    assert after.metadata.uid == stored.metadata.uid


def test_a_conflict_is_read_again_and_retried() -> None:
    api = MemoryApi()
    publisher = Publisher(api)
    publisher.publish(slices_of(((1,),)))
    name = slice_name(0, DRIVER, NODE, NODE)
    conflicts = iter([True, False, False])
    api.before_write = lambda: api.touch(name) if next(conflicts) else None
    result = publisher.publish(slices_of(((2,),)))
    assert (result.attempts, result.updated) == (2, 1)


def test_endless_conflicts_end_in_an_error_that_names_the_suspect() -> None:
    api = MemoryApi()
    publisher = Publisher(api)
    publisher.publish(slices_of(((1,),)))
    tries: list[None] = []

    def interfere() -> None:
        tries.append(None)
        api.touch(slice_name(0, DRIVER, NODE, NODE))

    api.before_write = interfere
    with pytest.raises(UnreachableError, match="changed under each") as caught:
        publisher.publish(slices_of(((2,),)))
    assert len(tries) == ATTEMPTS
    assert "second publisher" in (caught.value.next_step or "")


def without_taints(item: ResourceSlice) -> ResourceSlice:
    devices = tuple(msgspec.structs.replace(device, taints=()) for device in item.spec.devices)
    return msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, devices=devices))


def test_dropped_fields_are_named_after_everything_else_is_written() -> None:
    api = MemoryApi()
    api.store = without_taints
    machine = load_profile("hgx-h100-8").machine()
    desired = desired_slices(machine, node=NODE, taints={3: (TAINT,)})
    publisher = Publisher(api)
    with pytest.raises(DroppedFieldsError, match=r"spec\.devices\[3\]\.taints") as caught:
        publisher.publish(desired, node_topology(machine, NODE))
    assert caught.value.fields == ("spec.devices[3].taints",)
    assert len(api.slices[desired[0].metadata.name].spec.devices) == 8
    assert NODE in api.topologies


def test_dropped_fields_are_not_written_again_and_again() -> None:
    api = MemoryApi()
    api.store = without_taints
    machine = load_profile("hgx-h100-8").machine()
    publisher = Publisher(api)
    desired = desired_slices(machine, node=NODE, taints={3: (TAINT,)})
    with pytest.raises(DroppedFieldsError):
        publisher.publish(desired)
    assert publisher.publish(desired).writes == 0
    api.touch(desired[0].metadata.name)
    with pytest.raises(DroppedFieldsError):
        publisher.publish(desired)


def test_a_dropped_attribute_type_is_named_by_its_key() -> None:
    (sent,) = slices_of(((1,),))
    listed = Device(name="gpu-0-0", attributes={"numa": DeviceAttribute(ints=(0, 1))})
    sent = msgspec.structs.replace(sent, spec=msgspec.structs.replace(sent.spec, devices=(listed,)))
    bare = Device(name="gpu-0-0", attributes={"numa": DeviceAttribute()})
    stored = msgspec.structs.replace(sent, spec=msgspec.structs.replace(sent.spec, devices=(bare,)))
    assert dropped_fields(sent, stored) == ("spec.devices[0].attributes[numa].ints",)
    assert dropped_fields(sent, sent) == ()


CONTENT: st.SearchStrategy[Content] = st.lists(
    st.lists(st.integers(1, 3), max_size=2).map(tuple), min_size=1, max_size=4
).map(tuple)


@settings(max_examples=300)
@given(st.lists(st.tuples(CONTENT, st.integers(0, 6)), min_size=1, max_size=5), CONTENT)
def test_killed_anywhere_it_converges_and_no_reader_ever_sees_a_mixture(
    attempts: list[tuple[Content, int]], final: Content
) -> None:
    api = MemoryApi()
    wanted = [content for content, _ in attempts] + [final]
    for content, writes in attempts:
        api.writes_left = writes
        with contextlib.suppress(KilledError):
            Publisher(api).publish(slices_of(content))
    api.writes_left = None
    Publisher(api).publish(slices_of(final))
    whole = [None, *map(devices_of, wanted)]
    for state in api.history:
        assert usable_devices(state, NODE) in whole
    assert usable_devices(list(api.slices.values()), NODE) == devices_of(final)
    assert Publisher(api).publish(slices_of(final)).writes == 0


@given(CONTENT, CONTENT)
def test_applying_the_changes_leaves_none(before: Content, after: Content) -> None:
    api = MemoryApi()
    Publisher(api).publish(slices_of(before))
    top = max(generations(api))
    result = Publisher(api).publish(slices_of(after))
    changed = sum(a != b for a, b in zip(before, after, strict=False))
    expected = top if len(before) == len(after) and changed <= 1 else top + 1
    assert result.generation == expected
    assert reconcile(api.list_slices(DRIVER, NODE), slices_of(after)).none


def stored(name: str, content: Content, generation: int, count: int) -> ResourceSlice:
    """A slice under a name of its own, as another version of the agent may have left it."""
    (item, *_) = slices_of(content, generation)
    pool = msgspec.structs.replace(item.spec.pool, resource_slice_count=count)
    spec = msgspec.structs.replace(item.spec, pool=pool)
    return msgspec.structs.replace(item, metadata=ObjectMeta(name=name), spec=spec)


@pytest.mark.parametrize(
    "left",
    [
        [stored("a", ((1, 2, 3),), 1, 1), stored("b", ((1,),), 2, 1)],
        [stored("a", ((1,),), 5, 2), stored("b", ((2,),), 5, 3)],
        [stored("a", ((),), 0, 1)],
    ],
    ids=["two generations", "inconsistent counts", "generation zero"],
)
def test_a_pool_that_was_left_in_disorder_is_put_right(left: list[ResourceSlice]) -> None:
    api = MemoryApi(left)
    top = max(item.spec.pool.generation for item in left)
    result = Publisher(api).publish(slices_of(((7,),)))
    assert result.generation == top + 1
    assert usable_devices(list(api.slices.values()), NODE) == devices_of(((7,),))
    assert len(api.slices) == 1
