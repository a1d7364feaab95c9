"""Nodes that are alike for a set of claims: one evaluation serves them all.

Two nodes are in one class if their devices, in allocation order, agree in everything that the claims'
selectors read, in the *pattern* of everything of which only equality matters (constraints, islands,
switches), in what is in use and in what few devices have (taints, counters, capacities). The key is exact:
nodes with the same key get the same decision, up to the names of devices.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from baro.allocator import Plan
from baro.allocator.graph import document_of
from baro.cel.device import ColumnRef
from baro.inventory import DeviceExtra, Inventory, NodePool
from baro.inventory.columns import Column

_READ_BY_GRAPH = ("type", "productName", "model", "nvlinkPeers", "numaNode")
_GROUPED_BY_GRAPH = ("nvlinkDomain", "nvlink8", "nvlink4", "nvlink2", "pcieSwitch", "pcieRoot")


@runtime_checkable
class KnowsColumns(Protocol):
    """A selector engine that can tell what an expression reads."""

    def columns(self, expression: str) -> tuple[ColumnRef, ...] | None:
        """The columns, or ``None`` for whole maps (then nodes cannot be compared)."""


class NodeClasses:
    """Keys of nodes for one plan. ``key`` is ``None`` where a node must be judged by itself."""

    def __init__(self, inventory: Inventory, plan: Plan, selectors: object) -> None:
        self._inventory = inventory
        self._exact: list[Column] = []
        self._grouped: list[Column] = []
        self._comparable = isinstance(selectors, KnowsColumns) and self._collect(plan, selectors)

    def _collect(self, plan: Plan, selectors: KnowsColumns) -> bool:
        table = self._inventory.table
        exact: list[Column | None] = []
        grouped: list[Column | None] = []
        for _, _, alternative in plan.alternatives():
            for selector in alternative.selectors:
                read = selectors.columns(selector.expression)
                if read is None:
                    return False
                for ref in read:
                    if ref.kind == "attribute":
                        exact.append(table.attributes.get((ref.domain, ref.name)))
                    elif ref.kind == "capacity":
                        exact.append(table.capacities.get((ref.domain, ref.name)))
            if alternative.capacity:
                exact += table.capacities.values()
        wanted = {c.attribute.rpartition("/")[2] for claim in plan.claims for c in claim.constraints}
        for (_, identifier), column in table.attributes.items():
            if identifier in _READ_BY_GRAPH:
                exact.append(column)
            elif identifier in wanted or identifier in _GROUPED_BY_GRAPH:
                grouped.append(column)
        self._exact = [column for column in dict.fromkeys(exact) if column is not None]
        self._grouped = [column for column in dict.fromkeys(grouped) if column is not None]
        return True

    def key(self, node: str) -> object | None:
        """Equal keys: equal decisions. ``None`` when the node must be judged by itself."""
        inventory = self._inventory
        if not self._comparable:
            return None
        pools = inventory.pools(node)
        if pools.error is not None or any(pool.incomplete or pool.invalid for pool in pools.pools):
            return None
        topology = inventory.topologies.get(node)
        document = None if topology is None else document_of(topology)
        parts: list[object] = [None if document is None else id(document.shape)]
        numbering: dict[tuple[int, int], int] = {}
        for pool in pools.pools:
            if not self._comparable_pool(pool):
                return None
            parts.append((pool.driver, len(pool.rows)))
            for row in pool.rows:
                parts += self._row(row, numbering)
                if document is not None:
                    parts.append(document.index_of.get(str(inventory.key(row))))
            counters = [record.counter_sets for record in pool.slices if record.counter_sets]
            parts.append(msgspec.json.encode(counters) if counters else None)
        return tuple(parts)

    def _comparable_pool(self, pool: NodePool) -> bool:
        """Devices on the network and shared ones are the same device on many nodes: no classes there."""
        inventory = self._inventory
        return (
            all(record.node_name for record in pool.slices)
            and not any(inventory.table.rare(row).shareable for row in pool.rows)
            and not any(inventory.kept_consumption((pool.driver, pool.name)))
        )

    def _row(self, row: int, numbering: dict[tuple[int, int], int]) -> list[object]:
        inventory = self._inventory
        parts: list[object] = [column.code(row) for column in self._exact]
        for position, column in enumerate(self._grouped):
            code = column.code(row)
            parts.append(code and numbering.setdefault((position, code), len(numbering) + 1))
        parts.append(inventory.key(row) in inventory.usage.holders)
        extra = inventory.table.extras.get(row)
        parts.append(None if extra is None else msgspec.json.encode(_encodable(extra)))
        if inventory.taint_rules:
            parts.append(msgspec.json.encode(inventory.taints(row)))
        return parts


def _encodable(extra: DeviceExtra) -> object:
    body = msgspec.structs.asdict(extra)
    body["policies"] = sorted(("/".join(name), policy) for name, policy in body["policies"].items())
    return body
