"""The devices of a cluster, indexed: columns, pools per node, what is in use, taints.

Built from a ``Snapshot`` and kept up to date by single changes, each of which touches only the nodes that
it concerns. Answers questions of fact; which device to take is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from baro.inventory.changes import ChangeLog
from baro.inventory.columns import DeviceExtra, DeviceTable
from baro.inventory.pools import NodePools, PoolKey, SliceRecord, gather
from baro.inventory.snapshot import Snapshot
from baro.inventory.taints import RuleIndex
from baro.inventory.usage import DeviceKey, Usage, claim_name
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.core import Node
from baro.model.kinds.resource import DeviceClass, DeviceTaint, DeviceTaintRule, ResourceClaim, ResourceSlice

_WIDE_POOL = 64
"""A pool of more slices than this spans many nodes: a change counts as one for all nodes."""


class Inventory:
    """Columns and indexes over the objects of a cluster.

    Not safe for concurrent changes. ``stamp(node)`` changes whenever an answer about that node may change,
    which is what caches over nodes should key on; ``changes`` tells which nodes those are.
    """

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self.table = DeviceTable()
        self.usage = Usage()
        self.nodes: dict[str, Node] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.topologies: dict[str, NodeTopology] = {}
        self._rules = RuleIndex(())
        self.changes = ChangeLog()
        self.class_stamp = 0
        """Changes whenever a device class does."""
        self.derived: dict[object, Any] = {}
        """What readers have worked out from this inventory; it lives as long as the inventory."""
        self._slices: dict[str, SliceRecord] = {}
        self._by_node: dict[str, dict[str, SliceRecord]] = {}
        self._floating: dict[str, SliceRecord] = {}
        """Slices without a node name: candidates everywhere."""
        self._by_pool: dict[PoolKey, dict[str, SliceRecord]] = {}
        self._record_of: list[SliceRecord | None] = []
        self._retained: dict[PoolKey, dict[DeviceKey, DeviceExtra]] = {}
        self._names: tuple[int, tuple[str, ...]] = (-1, ())
        self._pools: dict[str, dict[tuple[bool, bool], NodePools]] = {}
        self._stamps: dict[str, int] = {}
        self._epoch = 0
        if snapshot is not None:
            self._load(snapshot)

    def _load(self, snapshot: Snapshot) -> None:
        for node in snapshot.nodes:
            self.nodes[node.metadata.name] = node
        self.classes = {item.metadata.name: item for item in snapshot.classes}
        self.topologies = {item.metadata.name: item for item in snapshot.node_topologies}
        self._rules = RuleIndex(snapshot.taint_rules)
        for item in snapshot.slices:
            self.set_slice(item)
        for claim in snapshot.claims:
            if claim.status.allocation is not None:
                self.usage.hold(claim)
        # Readers that look for changes must see nodes also where there are no slices yet.
        self._bump(None)

    # --- questions ---------------------------------------------------------------------------------------

    def node_names(self) -> tuple[str, ...]:
        """Nodes that exist or that slices name, sorted."""
        if self._names[0] != self.changes.structured:
            named = {name for name, held in self._by_node.items() if held}
            self._names = (self.changes.structured, tuple(sorted(self.nodes.keys() | named)))
        return self._names[1]

    def has_node(self, name: str) -> bool:
        """Whether the node is one of ``node_names``."""
        return name in self.nodes or bool(self._by_node.get(name))

    def labels(self, node: str) -> Mapping[str, str]:
        found = self.nodes.get(node)
        return found.metadata.labels if found else {}

    def pools(
        self, node: str, *, partitionable: bool = True, compatibility_groups: bool = False
    ) -> NodePools:
        """The pools of a node in allocation order; kept until something about them changes.

        The flags are feature gates; the defaults are those of 1.37.
        """
        known = self._pools.get(node)
        if known is None:
            known = self._pools[node] = {}
        flags = (partitionable, compatibility_groups)
        found = known.get(flags)
        if found is None:
            candidates = chain(self._by_node.get(node, {}).values(), self._floating.values())
            found = known[flags] = gather(
                self.table,
                candidates,
                self._by_pool,
                node=node,
                labels=self.labels(node),
                partitionable=partitionable,
                compatibility_groups=compatibility_groups,
            )
        return found

    def key(self, row: int) -> DeviceKey:
        """The name of the device in a row. Raises ``KeyError`` for a free row."""
        record = self._record_of[row] if row < len(self._record_of) else None
        if record is None:
            raise KeyError(row)
        return DeviceKey(record.driver, record.pool, self.table.device_name(row))

    def row(self, key: DeviceKey) -> int | None:
        """The row of a device in the highest generation of its pool, or ``None`` when not published."""
        records = self._by_pool.get((key.driver, key.pool), {}).values()
        newest = max((record.generation for record in records), default=0)
        for record in records:
            if record.generation == newest:
                for row in record.rows:
                    if self.table.device_name(row) == key.device:
                        return row
        return None

    def taints(self, row: int) -> tuple[DeviceTaint, ...]:
        """Taints of a device: its own, then those of matching ``DeviceTaintRule`` objects."""
        own = self.table.rare(row).taints
        return own + self._rules.taints(*self.key(row)) if self._rules.rules else own

    @property
    def taint_rules(self) -> tuple[DeviceTaintRule, ...]:
        return self._rules.rules

    def unpublished(self) -> tuple[DeviceKey, ...]:
        """Devices that claims hold although no slice publishes them any more, sorted."""
        return tuple(sorted(key for key in self.usage.holders if self.row(key) is None))

    def kept_consumption(self, pool: PoolKey) -> Iterator[tuple[DeviceKey, DeviceExtra]]:
        """What devices in use consumed when they were last published, for those no longer published.

        Upstream frees their counters silently (kubernetes#140802), which hands out one partition twice.
        """
        retained = self._retained.get(pool, {})
        yield from retained.items()
        records = self._by_pool.get(pool, {}).values()
        if len(records) < 2:
            return
        newest = max(record.generation for record in records)
        for record in records:
            for row in record.rows if record.generation < newest else ():
                key = DeviceKey(record.driver, record.pool, self.table.device_name(row))
                if key in self.usage.holders and key not in retained and self.row(key) is None:
                    yield key, self.table.rare(row)

    def keeps_consumption(self, pool: PoolKey) -> bool:
        """Whether ``kept_consumption`` has anything for the pool."""
        alone = pool not in self._retained and len(self._by_pool.get(pool, ())) < 2
        return not alone and next(self.kept_consumption(pool), None) is not None

    def slices(self) -> Iterator[SliceRecord]:
        return iter(self._slices.values())

    def pool_slices(self, pool: PoolKey) -> tuple[SliceRecord, ...]:
        return tuple(self._by_pool.get(pool, {}).values())

    def stamp(self, node: str) -> tuple[int, int]:
        """Changes with every change that concerns the node, and never goes back."""
        return (self._epoch, self._stamps.get(node, 0))

    def problems(self) -> tuple[str, ...]:
        """What a reader of the cluster should know: pools and devices that do not count, and why."""
        found = list(chain.from_iterable(map(self._pool_problems, self.node_names())))
        found += [f"allocated device {key} is no longer published" for key in self.unpublished()]
        for key, claims in self.usage.doubly_held():
            found.append(f"device {key} is held by more than one claim: {', '.join(claims)}")
        return tuple(dict.fromkeys(found))

    def _pool_problems(self, node: str) -> Iterator[str]:
        pools = self.pools(node)
        if pools.error:
            yield pools.error
        for name in pools.stale_slices:
            yield f"resource slice {name} is of an older generation of its pool and does not count"
        for name in pools.obsolete:
            yield f"pool {name} is obsolete on node {node}: a newer generation exists elsewhere"
        for pool in pools.pools:
            if pool.incomplete:
                yield f"pool {pool.id} is incomplete: slices of generation {pool.generation} are missing"
            if pool.invalid:
                yield f"pool {pool.id} is invalid: {pool.invalid}"
            if pool.inconsistent_count:
                yield (
                    f"pool {pool.id} is invalid: ResourceSlices in the pool generation declare "
                    "inconsistent resourceSliceCount"
                )

    # --- changes -----------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """Add or update a node object."""
        self.nodes[node.metadata.name] = node
        self._touch(node.metadata.name)

    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self._touch(name)

    def set_class(self, item: DeviceClass) -> None:
        self.classes[item.metadata.name] = item
        self._epoch += 1
        self.class_stamp += 1

    def remove_class(self, name: str) -> None:
        self.classes.pop(name, None)
        self._epoch += 1
        self.class_stamp += 1

    def remove_topology(self, name: str) -> None:
        self.topologies.pop(name, None)
        self._touch(name)

    def set_topology(self, item: NodeTopology) -> None:
        self.topologies[item.metadata.name] = item
        self._touch(item.metadata.name)

    def set_taint_rules(self, rules: Iterable[DeviceTaintRule]) -> None:
        """Replace all taint rules. Nodes whose devices no changed rule names stay untouched."""
        old, self._rules = self._rules, RuleIndex(rules)
        for rule in _differing(old.rules, self._rules.rules):
            selector = rule.spec.device_selector
            if selector is None:
                continue
            if selector.driver is None or selector.pool is None:
                self._bump(None)
                continue
            for record in self.pool_slices((selector.driver, selector.pool)):
                self._bump(record.node_name)

    def set_slice(self, item: ResourceSlice) -> None:
        """Add or update one slice. Devices that keep their name keep their row."""
        spec = item.spec
        name = item.metadata.name
        old = self._slices.get(name)
        free = {}
        if old is not None:
            free = {self.table.device_name(row): row for row in old.rows}
            self._unlink(old)
        rows: list[int] = []
        for device in spec.devices:
            row = free.pop(device.name, None)
            if row is None:
                row = self.table.add(spec.driver, device)
            else:
                self.table.replace(row, spec.driver, device)
            rows.append(row)
        record = SliceRecord(
            name=name,
            driver=spec.driver,
            pool=spec.pool.name,
            generation=spec.pool.generation,
            slice_count=spec.pool.resource_slice_count,
            node_name=spec.node_name or None,
            node_selector=spec.node_selector,
            all_nodes=bool(spec.all_nodes),
            per_device=bool(spec.per_device_node_selection),
            counter_sets=spec.shared_counters,
            skip_node_operations=spec.skip_node_operations,
            grouped=any(
                part.compatibility_groups for item in spec.devices for part in item.consumes_counters
            ),
            rows=tuple(rows),
        )
        self._link(record)
        if old is not None:
            for row in set(old.rows) - set(rows):
                self._drop_row(old, row)
        if record.pool_key in self._retained:
            for row in rows:
                self._forget_retained(self.key(row))

    def remove_slice(self, name: str) -> None:
        """Forget a slice. What its devices consume is kept as long as claims hold them."""
        old = self._slices.get(name)
        if old is not None:
            self._unlink(old)
            for row in old.rows:
                self._drop_row(old, row)

    def replace_slices(self, node: str, slices: Iterable[ResourceSlice]) -> None:
        """Make these the only slices with that node name."""
        fresh = tuple(slices)
        keep = {item.metadata.name for item in fresh}
        for name in [name for name in self._by_node.get(node, {}) if name not in keep]:
            self.remove_slice(name)
        for item in fresh:
            self.set_slice(item)

    def hold_claim(self, claim: ResourceClaim) -> Inventory:
        """Count (or count anew) what a claim holds, in place. Returns the inventory, so calls chain."""
        self._after_usage(self.usage.hold(claim))
        return self

    def release_claim(self, claim: ResourceClaim | str) -> Inventory:
        """Release what a claim (or ``namespace/name``) holds, in place. Returns the inventory."""
        name = claim if isinstance(claim, str) else claim_name(claim)
        self._after_usage(self.usage.release(name))
        return self

    # --- inner -------------------------------------------------------------------------------------------

    def _after_usage(self, touched: frozenset[DeviceKey]) -> None:
        for key in touched:
            if key not in self.usage.holders:
                self._forget_retained(key)
        for pool in {(key.driver, key.pool) for key in touched}:
            records = self._by_pool.get(pool, {})
            wide = len(records) > _WIDE_POOL
            for node in {None} if wide else {record.node_name for record in records.values()}:
                self._stamp_anew(node)
                self.changes.use(node)

    def _link(self, record: SliceRecord) -> None:
        self._slices[record.name] = record
        self._by_pool.setdefault(record.pool_key, {})[record.name] = record
        if record.node_name:
            self._by_node.setdefault(record.node_name, {})[record.name] = record
        else:
            self._floating[record.name] = record
        missing = self.table.size - len(self._record_of)
        if missing > 0:
            self._record_of.extend([None] * missing)
        for row in record.rows:
            self._record_of[row] = record
        self._touch_pool(record)

    def _unlink(self, record: SliceRecord) -> None:
        del self._slices[record.name]
        del self._by_pool[record.pool_key][record.name]
        if not self._by_pool[record.pool_key]:
            del self._by_pool[record.pool_key]
        if record.node_name:
            del self._by_node[record.node_name][record.name]
        else:
            del self._floating[record.name]
        self._touch_pool(record)

    def _drop_row(self, record: SliceRecord, row: int) -> None:
        key = DeviceKey(record.driver, record.pool, self.table.device_name(row))
        if key in self.usage.holders:
            self._retained.setdefault(record.pool_key, {})[key] = self.table.rare(row)
        self._record_of[row] = None
        self.table.remove(row)

    def _touch_pool(self, record: SliceRecord) -> None:
        """Forget what was gathered on nodes that this slice concerns: its own and those sharing its pool."""
        if not self._pools:
            # While loading there is nothing to forget, and a pool may span thousands of nodes.
            self._bump(None)
            return
        others = {other.node_name for other in self._by_pool.get(record.pool_key, {}).values()}
        for node in others | {record.node_name}:
            self._touch(node)

    def _touch(self, node: str | None) -> None:
        if node is None:
            self._pools.clear()
        else:
            self._pools.pop(node, None)
        self._bump(node)

    def _forget_retained(self, key: DeviceKey) -> None:
        pool = (key.driver, key.pool)
        held = self._retained.get(pool)
        if held is not None:
            held.pop(key, None)
            if not held:
                del self._retained[pool]

    def _bump(self, node: str | None) -> None:
        self._stamp_anew(node)
        self.changes.structure(node)

    def _stamp_anew(self, node: str | None) -> None:
        if node is None:
            self._epoch += 1
        else:
            self._stamps[node] = self._stamps.get(node, 0) + 1


def _differing(
    old: tuple[DeviceTaintRule, ...], new: tuple[DeviceTaintRule, ...]
) -> Iterator[DeviceTaintRule]:
    """Rules of which taint, selector or order changed. The order of taints is part of what is told."""
    before, after = ([rule for rule in rules if rule.spec.device_selector] for rules in (old, new))
    same = 0
    while same < min(len(before), len(after)) and before[same].spec == after[same].spec:
        same += 1
    yield from before[same:]
    yield from after[same:]
