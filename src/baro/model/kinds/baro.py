"""baro's own kinds (``baro.dev/v1alpha1``)."""

from __future__ import annotations

from typing import Any

from baro.model.kinds.base import KubeObject
from baro.model.names import API_VERSION


class NodeTopology(KubeObject, frozen=True):
    """The graph of one node, named as the node.

    ``spec`` is a ``MachineTopology`` document without ``apiVersion`` and ``kind`` (see
    ``baro.topology.document``), plus ``devices``: device key ``driver/pool/device`` → GPU index, so that a
    planner can rank devices that another vendor's driver publishes.
    """

    api_version: str = API_VERSION
    kind: str = "NodeTopology"
    spec: dict[str, Any] = {}
