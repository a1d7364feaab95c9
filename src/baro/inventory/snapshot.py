"""The objects of a cluster at one moment, sorted by kind.

Plain data, whichever way it came (files, a list call, a watch cache). Nothing here judges or indexes:
that is ``Inventory``.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What baro needs to know of a cluster. Slices are in the order in which they were read."""

    nodes: tuple[Node, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    taint_rules: tuple[DeviceTaintRule, ...] = ()
    node_topologies: tuple[NodeTopology, ...] = ()
    pods: tuple[Pod, ...] = ()

    @classmethod
    def from_objects(cls, objects: Iterable[KubeObject]) -> Snapshot:
        """Sort objects by kind; kinds that do not matter for placement are left out."""
        nodes: list[Node] = []
        slices: list[ResourceSlice] = []
        classes: list[DeviceClass] = []
        claims: list[ResourceClaim] = []
        rules: list[DeviceTaintRule] = []
        topologies: list[NodeTopology] = []
        pods: list[Pod] = []
        for item in objects:
            match item:
                case ResourceSlice():
                    slices.append(item)
                case Node():
                    nodes.append(item)
                case DeviceClass():
                    classes.append(item)
                case ResourceClaim():
                    claims.append(item)
                case DeviceTaintRule():
                    rules.append(item)
                case NodeTopology():
                    topologies.append(item)
                case Pod():
                    pods.append(item)
                case _:
                    pass
        return cls(
            nodes=tuple(nodes),
            slices=tuple(slices),
            classes=tuple(classes),
            claims=tuple(claims),
            taint_rules=tuple(rules),
            node_topologies=tuple(topologies),
            pods=tuple(pods),
        )
