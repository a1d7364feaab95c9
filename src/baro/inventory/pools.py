"""Resource pools as one node sees them: which slices count, in which order, and what is wrong with them.

The rules are those of ``GatherPools`` (``structured/internal/incubating/pools_incubating.go``, 1.37): the
highest generation among the slices that target the node wins; a pool with a newer generation elsewhere is
obsolete and ignored; one whose slices are not all there is incomplete; duplicates and unknown counters make
it invalid. Slices are ordered by name, pools by driver and name, pools with binding conditions last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from baro.inventory.columns import DeviceTable
from baro.inventory.node_selection import NodeSelectorError, matches
from baro.model.kinds.core import NodeSelector
from baro.model.kinds.resource import CounterSet

PoolKey = tuple[str, str]
"""(driver, pool name)."""


class SliceRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is kept of a ResourceSlice; its devices are rows of the table."""

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device: bool = False
    counter_sets: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()
    grouped: bool = False
    """A device of it declares compatibility groups."""
    rows: tuple[int, ...] = ()

    @property
    def pool_key(self) -> PoolKey:
        return (self.driver, self.pool)


class NodePool(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pool for one node. ``rows`` are in allocation order; ``on_node`` is false for devices of slices
    with per-device node selection that lie on other nodes (their selectors still run upstream). Pools that
    are incomplete or invalid count as having no devices, but keep their rows for whoever explains."""

    driver: str
    name: str
    generation: int
    slices: tuple[SliceRecord, ...]
    counter_slices: tuple[SliceRecord, ...]
    """All slices of the pool's generation that are known, for counters; those of other nodes included."""
    rows: tuple[int, ...] = ()
    on_node: tuple[bool | str, ...] = ()
    """Per row; a text is why the device's own node selector cannot be parsed."""
    slice_of: tuple[int, ...] = ()
    """Index into ``slices`` per row."""
    incomplete: bool = False
    invalid: str | None = None
    """Why no device of this pool may be used."""
    inconsistent_count: bool = False
    """Slices of this generation disagree on ``resourceSliceCount``. Upstream does not look at it."""

    @property
    def id(self) -> str:
        return f"{self.driver}/{self.name}"


class NodePools(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All pools of a node in allocation order, and the errors met on the way."""

    pools: tuple[NodePool, ...] = ()
    obsolete: tuple[str, ...] = ()
    """Pools whose slices here are older than slices elsewhere in the cluster."""
    stale_slices: tuple[str, ...] = ()
    """Slices that target the node and belong to an older generation."""
    error: str | None = None
    """A node selector that cannot be parsed; nothing can be allocated on this node."""


def gather(
    table: DeviceTable,
    candidates: Iterable[SliceRecord],
    pool_slices: Mapping[PoolKey, Mapping[str, SliceRecord]],
    *,
    node: str,
    labels: Mapping[str, str],
    partitionable: bool,
    compatibility_groups: bool,
) -> NodePools:
    """Pools for a node. ``candidates`` are the slices of this node and those without a node name.

    ``partitionable`` and ``compatibility_groups`` are the feature gates. Slices that need a gate that is off
    do not count, neither as part of their pool: without them it is incomplete.
    """
    groups: dict[PoolKey, list[SliceRecord]] = {}
    stale: list[str] = []
    for record in candidates:
        if not partitionable and (record.per_device or record.counter_sets):
            continue
        if record.grouped and not compatibility_groups:
            continue
        try:
            relevant = _targets(table, record, node, labels)
        except NodeSelectorError as problem:
            what = f"failed to perform node selection for slice {record.name}"
            return NodePools(
                error=f"gather pool information: {what}: failed to parse node selector: {problem}"
            )
        if not relevant:
            continue
        group = groups.setdefault(record.pool_key, [])
        if group and record.generation < group[0].generation:
            stale.append(record.name)
        elif group and record.generation > group[0].generation:
            stale += [old.name for old in group]
            groups[record.pool_key] = [record]
        else:
            group.append(record)
    pools: list[NodePool] = []
    obsolete: list[str] = []
    for key, group in groups.items():
        everywhere = pool_slices.get(key, {}).values()
        pool = _pool(
            table, key, group, everywhere, node=node, labels=labels,
            partitionable=partitionable, compatibility_groups=compatibility_groups,
        )  # fmt: skip
        if pool is None:
            obsolete.append("/".join(key))
        else:
            pools.append(pool)
    pools.sort(key=lambda pool: (_binds(table, pool), pool.driver, pool.name))
    return NodePools(pools=tuple(pools), obsolete=tuple(obsolete), stale_slices=tuple(sorted(stale)))


def device_targets(table: DeviceTable, row: int, node: str, labels: Mapping[str, str]) -> bool:
    """Whether a device of a slice with per-device node selection is available on the node."""
    extra = table.rare(row)
    if extra.node_name is not None:
        return extra.node_name == node
    if extra.all_nodes:
        return True
    return extra.node_selector is not None and matches(extra.node_selector, node, labels)


def _targets_or_why(table: DeviceTable, row: int, node: str, labels: Mapping[str, str]) -> bool | str:
    try:
        return device_targets(table, row, node, labels)
    except NodeSelectorError as problem:
        return f"failed to parse node selector: {problem}"


def _targets(table: DeviceTable, record: SliceRecord, node: str, labels: Mapping[str, str]) -> bool:
    if record.node_name:
        return record.node_name == node
    if record.all_nodes:
        return True
    if record.node_selector is not None:
        return matches(record.node_selector, node, labels)
    return record.per_device and any(device_targets(table, row, node, labels) for row in record.rows)


def _pool(  # noqa: PLR0913
    table: DeviceTable,
    key: PoolKey,
    group: list[SliceRecord],
    everywhere: Collection[SliceRecord],
    *,
    node: str,
    labels: Mapping[str, str],
    partitionable: bool,
    compatibility_groups: bool,
) -> NodePool | None:
    generation = group[0].generation
    known = group
    incomplete = False
    if len(group) != group[0].slice_count:
        if any(record.generation > generation for record in everywhere):
            return None
        known = [
            record
            for record in everywhere
            if record.generation == generation and (compatibility_groups or not record.grouped)
        ]
        incomplete = len(known) != group[0].slice_count
    slices = sorted(group, key=lambda record: record.name)
    here = {record.name for record in group}
    elsewhere = sorted((r for r in known if r.name not in here), key=lambda record: record.name)
    rows: list[int] = []
    on_node: list[bool | str] = []
    slice_of: list[int] = []
    for index, record in enumerate(slices):
        rows += record.rows
        slice_of += [index] * len(record.rows)
        on_node += [not record.per_device or _targets_or_why(table, row, node, labels) for row in record.rows]
    return NodePool(
        driver=key[0],
        name=key[1],
        generation=generation,
        slices=tuple(slices),
        counter_slices=(*slices, *elsewhere),
        rows=tuple(rows),
        on_node=tuple(on_node),
        slice_of=tuple(slice_of),
        incomplete=incomplete,
        invalid=None if incomplete else _invalid(table, slices, known, partitionable),
        inconsistent_count=len({record.slice_count for record in known}) > 1,
    )


def _invalid(
    table: DeviceTable, slices: list[SliceRecord], known: list[SliceRecord], partitionable: bool
) -> str | None:
    return _duplicate_device(table, slices) or (_bad_counters(table, known) if partitionable else None)


def _duplicate_device(table: DeviceTable, slices: list[SliceRecord]) -> str | None:
    names = [name for record in slices for name in table.device_names(record.rows)]
    if len(set(names)) == len(names):
        return None
    twice = next(name for at, name in enumerate(names) if name in names[:at])
    return f"duplicate device name {twice}"


def _bad_counters(table: DeviceTable, known: list[SliceRecord]) -> str | None:
    sets: dict[str, CounterSet] = {}
    for record in known:
        for counter_set in record.counter_sets:
            if counter_set.name in sets:
                return f"duplicate counter set name {counter_set.name}"
            sets[counter_set.name] = counter_set
    for record in known:
        for row in record.rows:
            if row not in table.extras:
                continue
            for consumption in table.rare(row).consumes_counters:
                name, device = consumption.counter_set, table.device_name(row)
                found = sets.get(name)
                if found is None:
                    return f"device {device} uses unknown counter set {name}"
                unknown = next((key for key in consumption.counters if key not in found.counters), None)
                if unknown is not None:
                    return f"device {device} uses unknown counter {unknown} of counter set {name}"
    return None


def _binds(table: DeviceTable, pool: NodePool) -> bool:
    extras = table.extras
    if pool.incomplete or pool.invalid:
        return False
    return bool(extras) and any(row in extras and extras[row].binding_conditions for row in pool.rows)
