"""Nodes that are near to each other: one NVLink domain over several nodes, one rack, one block, one zone.

What is near is read from what the cluster publishes: the attribute ``clique`` of devices (a rack such as
GB200 NVL72 is one), an ``nvlinkDomain`` that several nodes name, and labels of nodes. A node of which a level
is not known is a domain of its own there: unknown is never near to anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from baro.inventory import Inventory

NVLINK: Final = "NVLink domain"
"""The level that devices tell of."""
LEVELS: Final = (
    "nvidia.com/gpu.clique",
    "network.topology.nvidia.com/accelerator",
    "accelerator.topograph.run/domain",
    "cloud.google.com/gce-topology-host",
    "cloud.google.com/gce-topology-subblock",
    "fabric.topograph.run/tier-1",
    "network.topology.nvidia.com/leaf",
    "topology.k8s.aws/network-node-layer-3",
    "topology.kubernetes.io/rack",
    "cloud.google.com/gce-topology-block",
    "fabric.topograph.run/tier-2",
    "network.topology.nvidia.com/spine",
    "topology.k8s.aws/network-node-layer-2",
    "fabric.topograph.run/tier-3",
    "network.topology.nvidia.com/core",
    "topology.k8s.aws/network-node-layer-1",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
"""Labels of nodes by which nodes are near, the nearest first. Labels that no node has do not count."""
_CLIQUE_IDS: Final = ("clique", "cliqueID")

Domain: TypeAlias = tuple[str, str]
"""Level and value."""


class Domains:
    """The levels that some candidate publishes, nearest first, and each node's domain in each."""

    def __init__(self, inventory: Inventory, nodes: Sequence[str], labels: Sequence[str] = LEVELS) -> None:
        self._inventory = inventory
        cliques = _cliques(inventory, nodes)
        self._of: dict[str, Mapping[str, str]] = {NVLINK: cliques} if cliques else {}
        for label in labels:
            known = {
                node: value for node in nodes if (value := inventory.labels(node).get(label)) is not None
            }
            if known:
                self._of[label] = known

    @property
    def levels(self) -> tuple[str, ...]:
        return tuple(self._of)

    def split(self, nodes: Iterable[str], level: str) -> dict[Domain, list[str]]:
        """The nodes by domain, in order of first mention. A node of unknown place is alone."""
        of = self._of[level]
        found: dict[Domain, list[str]] = {}
        for node in nodes:
            value = of.get(node)
            found.setdefault((level, value) if value is not None else ("node", node), []).append(node)
        return found

    def hold(self, domain: Domain, nodes: Iterable[str]) -> bool:
        """Whether all these nodes are in the domain."""
        level, value = domain
        if level not in self._of:
            return all(node == value for node in nodes)
        return all(self._of[level].get(node) == value for node in nodes)


def within(
    inventory: Inventory, nodes: Iterable[str], labels: Sequence[str]
) -> dict[tuple[str, ...], list[str]]:
    """The nodes by the values of labels that one domain must share; nodes that lack one are left out."""
    found: dict[tuple[str, ...], list[str]] = {}
    for node in nodes:
        values = tuple(inventory.labels(node).get(label) for label in labels)
        if None not in values:
            found.setdefault(tuple(value for value in values if value is not None), []).append(node)
    return found


# --- NVLink between nodes --------------------------------------------------------------------------------


class _Told(msgspec.Struct, frozen=True):
    """What the devices of a node say: one clique, one domain; ``None`` when none or several."""

    clique: str | None
    domain: str | None


class _Known:
    """What was found per node, good until more than its use changes."""

    def __init__(self) -> None:
        self.of: dict[str, tuple[int, _Told]] = {}


def _cliques(inventory: Inventory, nodes: Sequence[str]) -> dict[str, str]:
    """Node → NVLink domain that it shares, or could share, with other nodes."""
    told = {node: _told(inventory, node) for node in nodes}
    named: dict[str, int] = {}
    for found in told.values():
        if found.clique is None and found.domain is not None:
            named[found.domain] = named.get(found.domain, 0) + 1
    result = {}
    for node, found in told.items():
        if found.clique is not None:
            result[node] = found.clique
        elif found.domain is not None and named[found.domain] > 1:
            result[node] = found.domain
    return result


def _told(inventory: Inventory, node: str) -> _Told:
    known: _Known = inventory.derived.setdefault(_Known, _Known())
    moment = inventory.changes.structure_of(node)
    found = known.of.get(node)
    if found is None or found[0] != moment:
        found = known.of[node] = (moment, _read(inventory, node))
    return found[1]


def _read(inventory: Inventory, node: str) -> _Told:
    rows = [row for pool in inventory.pools(node).pools for row in pool.rows]
    return _Told(_only(inventory, rows, _CLIQUE_IDS), _only(inventory, rows, ("nvlinkDomain",)))


def _only(inventory: Inventory, rows: Sequence[int], identifiers: Sequence[str]) -> str | None:
    columns = [column for (_, name), column in inventory.table.attributes.items() if name in identifiers]
    values = {str(value[1]) for row in rows for column in columns if (value := column.value(row)) is not None}
    return values.pop() if len(values) == 1 else None
