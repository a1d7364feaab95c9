"""A node whose machine graph is published as a ``NodeTopology`` and whose devices tell little else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from baro.inventory import Snapshot
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.base import ObjectMeta
from baro.model.kinds.resource import Device
from baro.topology.document import to_document
from baro.topology.machine import Machine
from tests.support.cluster import DRIVER, cluster, device


def with_graph(
    machine: Machine,
    busy: Collection[int] = (),
    *,
    facts: Mapping[int, Mapping[str, Any]] | None = None,
    more: Collection[Device] = (),
) -> Snapshot:
    """A node ``n``. ``facts`` are attributes per GPU index, ``more`` further devices of the same pool."""
    told = facts or {}
    devices = [
        device(f"gpu-{gpu.index}", type="gpu", **{"numaNode": 0, **told.get(gpu.index, {})})
        for gpu in machine.gpus
    ]
    snapshot = cluster({"n": [*devices, *more]}, busy={"n": [f"gpu-{index}" for index in sorted(busy)]})
    spec = {name: part for name, part in to_document(machine).items() if name not in ("apiVersion", "kind")}
    keys = {f"{DRIVER}/n/gpu-{gpu.index}": gpu.index for gpu in machine.gpus}
    spec["devices"] = {**spec["devices"], **keys}
    topology = NodeTopology(metadata=ObjectMeta(name="n"), spec=spec)
    return msgspec.structs.replace(snapshot, node_topologies=(topology,))
