"""What makes a node alike to others whatever is asked for: its devices, its graph, and what is rare.

Independent of claims, so every index over nodes shares it. Knows nothing of what is in use.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import TypeAlias

import msgspec

from baro.allocator.frame import OPERATIONS_GATE
from baro.allocator.graph import document_of
from baro.inventory import DeviceExtra, DeviceKey, Inventory, NodePool, Share
from baro.inventory.columns import Column

READ_BY_GRAPH = ("type", "productName", "model", "nvlinkPeers", "numaNode")
"""Attribute ids whose values the graph of a node is made of."""
GROUPED_BY_GRAPH = ("nvlinkDomain", "nvlink8", "nvlink4", "nvlink2", "pcieSwitch", "pcieRoot")
"""Attribute ids of which the graph only takes who shares a value."""
Span: TypeAlias = tuple[int, int] | None
"""(first row, rows) of rows that are consecutive, as they mostly are."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One node. ``alike`` is equal for nodes that are alike as far as claims do not tell; ``None``: the node
    has to be judged by itself."""

    rows: tuple[int, ...] = ()
    keys: tuple[DeviceKey, ...] = ()
    pools: tuple[tuple[str, str], ...] = ()
    span: Span = None
    alike: int | None = None

    def in_use(self, holders: Mapping[DeviceKey, Sequence[Share]]) -> int | None:
        """Mask of devices that are taken as a whole; ``None`` when one is taken in part."""
        mask = 0
        bit = 1
        for key in self.keys:
            shares = holders.get(key)
            if shares:
                for share in shares:
                    if share.share_id is not None:
                        return None
                mask |= bit
            bit <<= 1
        return mask


class FactsTable:
    """Facts of the nodes of an inventory, found again where something but the use changed."""

    def __init__(self, inventory: Inventory, *, partitionable: bool) -> None:
        self._inventory = inventory
        self._partitionable = partitionable
        self._known: dict[str, NodeFacts] = {}
        self._ids: dict[object, int] = {}
        self._next = count()
        self._exact: list[Column] = []
        self._grouped: dict[str, list[Column]] = {}
        self._attributes = 0
        self._seen = 0

    def sync(self) -> None:
        """Forget what may have changed."""
        log = self._inventory.changes
        if self._seen == log.now:
            return
        changed = log.since(self._seen).structure
        self._seen = log.now
        if self._new_columns() or changed is None or len(self._ids) > self._limit():
            self._known.clear()
            self._ids.clear()
        else:
            for node in changed:
                self._known.pop(node, None)

    def _new_columns(self) -> bool:
        """Take over the columns that graphs are made of. Whether there are other ones than before."""
        attributes = self._inventory.table.attributes
        if self._attributes == len(attributes):
            return False
        self._attributes = len(attributes)
        before = (len(self._exact), sum(map(len, self._grouped.values())))
        self._exact = [column for (_, name), column in attributes.items() if name in READ_BY_GRAPH]
        self._grouped = {}
        for (_, name), column in attributes.items():
            if name in GROUPED_BY_GRAPH:
                self._grouped.setdefault(name, []).append(column)
        return before != (len(self._exact), sum(map(len, self._grouped.values())))

    def _limit(self) -> int:
        return 8 * len(self._known) + 8192

    def get(self, node: str) -> NodeFacts:
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = self._find(node)
        return found

    def _find(self, node: str) -> NodeFacts:
        inventory = self._inventory
        gathered = inventory.pools(node, partitionable=self._partitionable)
        pools = gathered.pools
        if gathered.error is not None or not all(map(self._comparable, pools)):
            return NodeFacts()
        rows = tuple(chain.from_iterable(pool.rows for pool in pools))
        extras = inventory.table.extras
        if any(row in extras and extras[row].shareable for row in rows):
            return NodeFacts()
        keys = tuple(
            DeviceKey(pool.driver, pool.name, name)
            for pool in pools
            for name in inventory.table.device_names(pool.rows)
        )
        span = (rows[0], len(rows)) if rows and rows == tuple(range(rows[0], rows[0] + len(rows))) else None
        alike = (
            tuple(map(_shape_of_pool, pools)),
            self._operations(node, pools),
            self._rare(rows) if extras or inventory.taint_rules else (),
            self._document(node, keys),
            *(codes_of(column, rows, span).tobytes() for column in self._exact),
            *(pattern_of(columns, rows, span) for columns in self._grouped.values()),
        )
        return NodeFacts(
            rows=rows,
            keys=keys,
            pools=tuple((pool.driver, pool.name) for pool in pools),
            span=span,
            alike=self._ids.setdefault(alike, next(self._next)),
        )

    def _comparable(self, pool: NodePool) -> bool:
        """Devices on the network are the same devices on many nodes, and counters of a pool that spans nodes
        depend on what is in use elsewhere: no classes there."""
        if pool.incomplete or pool.invalid:
            return False
        if not all(record.node_name and not record.per_device for record in pool.slices):
            return False
        return len(pool.counter_slices) == len(pool.slices)

    def _rare(self, rows: Sequence[int]) -> tuple[object, ...]:
        """What only some devices have, with their position."""
        inventory = self._inventory
        found: list[object] = []
        for at, row in enumerate(rows):
            extra = inventory.table.extras.get(row)
            taints = inventory.taints(row)
            if extra is not None or taints:
                body = None if extra is None else msgspec.json.encode(_encodable(extra))
                found.append((at, body, msgspec.json.encode(taints)))
        return tuple(found)

    def _operations(self, node: str, pools: Sequence[NodePool]) -> object:
        """Which slices skip node operations, and whether the node declares that it knows this."""
        skipped = [record.skip_node_operations for pool in pools for record in pool.slices]
        if not any(skipped):
            return None
        found = self._inventory.nodes.get(node)
        return tuple(skipped), found is not None and OPERATIONS_GATE in found.status.declared_features

    def _document(self, node: str, keys: Sequence[DeviceKey]) -> object:
        """The published graph: the shape by identity, which the key keeps alive, and what lies where."""
        topology = self._inventory.topologies.get(node)
        document = None if topology is None else document_of(topology)
        if document is None:
            return None
        return document.shape, tuple(document.index_of.get(str(key)) for key in keys)


def _shape_of_pool(pool: NodePool) -> object:
    counters = [record.counter_sets for record in pool.slices if record.counter_sets]
    encoded = msgspec.json.encode(counters) if counters else None
    return pool.driver, len(pool.rows), pool.inconsistent_count, encoded


def _encodable(extra: DeviceExtra) -> object:
    body = msgspec.structs.asdict(extra)
    body["policies"] = sorted(("/".join(name), policy) for name, policy in body["policies"].items())
    return body


def codes_of(column: Column, rows: Sequence[int], span: Span) -> array[int]:
    """The codes of some rows, which ``span`` tells where they are consecutive."""
    codes = column.codes
    if span is not None:
        first, size = span
        if first + size <= len(codes):
            return codes[first : first + size]
    return array("i", map(column.code, rows))


def pattern_of(columns: Sequence[Column], rows: Sequence[int], span: Span) -> object:
    """Which devices share a value, what type each value has, and lists in full: those may overlap."""
    if len(columns) == 1:
        vocabulary = columns[0].vocabulary
        distinct = {0: 0}
        pattern = [distinct.setdefault(code, len(distinct)) for code in codes_of(columns[0], rows, span)]
        values = [vocabulary[code] for code in distinct]
    else:
        # The same attribute from several drivers: equal values count as equal across them.
        seen: dict[object, int] = {None: 0}
        found = (column.value(row) for row in rows for column in columns)
        pattern = [seen.setdefault(value, len(seen)) for value in found]
        values = list(seen)  # type: ignore[arg-type]
    kinds = [value if value is None or isinstance(value[1], tuple) else value[0] for value in values]
    return tuple(pattern), tuple(kinds)
