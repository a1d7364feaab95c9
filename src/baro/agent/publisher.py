"""Writes what ``slices`` decided, through four calls of an API, and checks what the server kept.

One ``publish`` is idempotent and may be cut off anywhere: the next one converges. A conflict means that
somebody wrote in between; everything is read again and decided again, a few times. The server silently
drops fields of features that are off (device taints, list attributes); that is reported as
``DroppedFieldsError`` after all writes, so that one dropped field does not keep a node's devices from the
cluster. When to publish, and over which connection, is the caller's business.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec

from baro.agent.slices import SliceChanges, reconcile
from baro.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from baro.model.errors import BaroError, UnreachableError, Where
from baro.model.kinds.baro import NodeTopology
from baro.model.kinds.resource import ResourceSlice

ATTEMPTS: Final = 5
"""Readings of the cluster per ``publish``; another writer of the same slices is rare and soon done."""


class SliceApi(Protocol):
    """What the publisher needs of an API server. ``baro.kube.errors`` says what each error means."""

    def list_slices(self, driver: str, node: str) -> Sequence[ResourceSlice]:
        """All slices of a driver on a node, as new as the server has them."""
        ...

    def create_slice(self, item: ResourceSlice) -> ResourceSlice:
        """Creates under ``metadata.name``; gives what the server stored. ``AlreadyExistsError``."""
        ...

    def update_slice(self, item: ResourceSlice) -> ResourceSlice:
        """Replaces, guarded by ``metadata.resourceVersion``. ``ConflictError``, ``NotFoundError``."""
        ...

    def delete_slice(self, item: ResourceSlice) -> None:
        """Deletes if uid and resourceVersion still match. ``ConflictError``, ``NotFoundError``."""
        ...

    def apply_node_topology(self, topology: NodeTopology) -> bool:
        """Creates or replaces the NodeTopology of that name; false when the server knows no such kind."""
        ...


class DroppedFieldsError(BaroError):
    """The server took an object but not all of its fields: a feature gate is off. ``fields`` names them."""

    def __init__(self, fields: tuple[str, ...], where: Where) -> None:
        shown = ", ".join(fields[:5]) + (f" and {len(fields) - 5} more" if len(fields) > 5 else "")
        super().__init__(
            f"the API server dropped {shown}",
            where=where,
            next_step="its feature gate is off: kubectl get --raw /metrics | grep feature_enabled",
        )
        self.fields = fields


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What one ``publish`` did."""

    generation: int
    created: int = 0
    updated: int = 0
    deleted: int = 0
    attempts: int = 1
    topology: bool = True
    """False: the server has no NodeTopology kind, only slices were published."""

    @property
    def writes(self) -> int:
        return self.created + self.updated + self.deleted


class Publisher:
    """Publishes the slices of one pool. Remembers what the server dropped, to not write it for ever."""

    def __init__(self, api: SliceApi) -> None:
        self._api = api
        self._kept: dict[str, tuple[str, str, ResourceSlice]] = {}
        """Slice name → uid, resourceVersion and what was sent when the server stored something less."""

    def publish(self, desired: Sequence[ResourceSlice], topology: NodeTopology | None = None) -> Published:
        """Brings the cluster to ``desired`` (from ``desired_slices``: at least one slice).

        Raises ``DroppedFieldsError`` when all is written but the server dropped fields,
        ``UnreachableError`` when others keep writing the same slices, and whatever the API raises.
        """
        dropped: dict[str, tuple[str, ...]] = {}
        for attempt in range(1, ATTEMPTS + 1):
            changes = reconcile(self._read(desired[0]), desired)
            try:
                self._write(changes, dropped)
            except (ConflictError, AlreadyExistsError, NotFoundError) as error:
                last = error
                continue
            known = topology is None or self._api.apply_node_topology(topology)
            if dropped:
                name, fields = next(iter(sorted(dropped.items())))
                raise DroppedFieldsError(fields, Where(object=f"ResourceSlice {name}"))
            return Published(
                generation=changes.generation,
                created=len(changes.create),
                updated=len(changes.update),
                deleted=len(changes.delete),
                attempts=attempt,
                topology=known,
            )
        driver, node = desired[0].spec.driver, desired[0].spec.node_name
        raise UnreachableError(
            f"the slices of {node} changed under each of {ATTEMPTS} attempts: {last.what}",
            next_step=f"look for a second publisher of driver {driver} on this node",
        )

    def _read(self, item: ResourceSlice) -> list[ResourceSlice]:
        """The stored slices; one whose fields were dropped counts as what was sent, until it changes."""
        stored = self._api.list_slices(item.spec.driver, item.spec.node_name or "")
        result = []
        for found in stored:
            uid, version, sent = self._kept.get(found.metadata.name, ("", "", found))
            unchanged = (uid, version) == (found.metadata.uid, found.metadata.resource_version)
            result.append(msgspec.structs.replace(found, spec=sent.spec) if unchanged else found)
        return result

    def _write(self, changes: SliceChanges, dropped: dict[str, tuple[str, ...]]) -> None:
        for item in changes.delete:
            with contextlib.suppress(NotFoundError):  # gone already, which is what was wanted
                self._api.delete_slice(item)
            self._kept.pop(item.metadata.name, None)
        for item in changes.update:
            self._check(item, self._api.update_slice(item), dropped)
        for item in changes.create:
            self._check(item, self._api.create_slice(item), dropped)

    def _check(self, sent: ResourceSlice, stored: ResourceSlice, dropped: dict[str, tuple[str, ...]]) -> None:
        name = sent.metadata.name
        fields = dropped_fields(sent, stored)
        if not fields:
            self._kept.pop(name, None)
            dropped.pop(name, None)
            return
        dropped[name] = fields
        self._kept[name] = (stored.metadata.uid, stored.metadata.resource_version, sent)


def dropped_fields(sent: ResourceSlice, stored: ResourceSlice) -> tuple[str, ...]:
    """Paths of ``spec`` that were sent and did not come back, such as ``spec.devices[3].taints``."""
    return tuple(_missing(sent.to_dict()["spec"], stored.to_dict().get("spec"), "spec"))


def _missing(sent: Any, stored: Any, path: str) -> Iterator[str]:
    if isinstance(sent, dict):
        kept = stored if isinstance(stored, dict) else {}
        for key, value in sent.items():
            here = f"{path}[{key}]" if path.endswith(("attributes", "capacity")) else f"{path}.{key}"
            if key in kept:
                yield from _missing(value, kept[key], here)
            elif value not in ({}, [], None):
                yield here
    elif isinstance(sent, list):
        kept_items = stored if isinstance(stored, list) else []
        for i, value in enumerate(sent):
            if i < len(kept_items):
                yield from _missing(value, kept_items[i], f"{path}[{i}]")
            else:
                yield f"{path}[{i}]"
