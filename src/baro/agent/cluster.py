"""``SliceApi`` over an API client: the publisher's calls as calls on ResourceSlices and NodeTopologies."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from baro.kube.api import KubeApi
from baro.kube.errors import AlreadyExistsError, NotFoundError
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.core import Node
from baro.model.kinds.resource import ResourceSlice


class ClusterSlices:
    """Slices of one cluster. Errors are those of ``KubeApi``.

    Slices are replaced whole: baro alone writes the slices of its driver, so no field of others is lost.
    """

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    def list_slices(self, driver: str, node: str) -> Sequence[ResourceSlice]:
        """Slices by field selector, which the node authorizer demands of an agent on a node."""
        fields = f"spec.nodeName={node},spec.driver={driver}"
        return self._api.list(ResourceSlice, field_selector=fields).items

    def create_slice(self, item: ResourceSlice) -> ResourceSlice:
        return self._api.create(ResourceSlice, "", item)

    def update_slice(self, item: ResourceSlice) -> ResourceSlice:
        return self._api.replace(ResourceSlice, "", item.metadata.name, item)

    def delete_slice(self, item: ResourceSlice) -> None:
        self._api.delete(
            ResourceSlice,
            "",
            item.metadata.name,
            uid=item.metadata.uid,
            resource_version=item.metadata.resource_version,
        )

    def apply_node_topology(self, topology: NodeTopology) -> bool:
        """Creates it, or replaces one that says something else; false without the CRD."""
        name = topology.metadata.name
        stored = self._topology(name)
        if stored is None:
            try:
                self._api.create(NodeTopology, "", topology)
            except NotFoundError:  # not the object but the whole kind
                return False
            except AlreadyExistsError:  # made in between, by this node's former agent
                stored = self._topology(name)
        if stored is not None and stored.spec != topology.spec:
            self._api.replace(NodeTopology, "", name, msgspec.structs.replace(stored, spec=topology.spec))
        return True

    def _topology(self, name: str) -> NodeTopology | None:
        try:
            return self._api.get(NodeTopology, "", name)
        except NotFoundError:
            return None


def node_uid(api: KubeApi, node: str) -> str | None:
    """The uid of the Node, which then owns its slices; ``None`` when there is no such Node yet."""
    try:
        return api.get(Node, "", node).metadata.uid or None
    except NotFoundError:
        return None
