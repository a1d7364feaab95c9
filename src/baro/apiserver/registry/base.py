"""What every operation on objects needs: store, served resources, time, and reading one object."""

from __future__ import annotations

from typing import Any

from baro.apiserver.catalogue import Catalogue, Served
from baro.apiserver.registry.naming import Clock, timestamp
from baro.apiserver.status import MODIFIED, conflict, not_found
from baro.apiserver.storage import Key, Record, Store

Body = dict[str, Any]


class Objects:
    """The objects of a server as ``binding``, ``deletion`` and the registry find them."""

    def __init__(self, store: Store, catalogue: Catalogue, clock: Clock) -> None:
        self.store = store
        self.catalogue = catalogue
        self._clock = clock

    def now(self) -> str:
        return timestamp(self._clock())

    def get(self, served: Served, namespace: str, name: str) -> Record:
        """Raises 404."""
        record = self.store.get(Key(served.key, namespace, name))
        if record is None:
            raise not_found(served.resource, name)
        return record


def check_revision(served: Served, metadata: Body, record: Record, name: str) -> bool:
    """Whether the client insists on the revision that was read. Raises 409 for another one."""
    uid, revision = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != record.index.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.index.uid}"
        raise conflict(served.resource, name, why)
    if not revision or revision == "0":
        return False
    if revision != str(record.revision):
        raise conflict(served.resource, name, MODIFIED)
    return True
