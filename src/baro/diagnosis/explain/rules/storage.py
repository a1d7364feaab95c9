"""PersistentVolumeClaims, PersistentVolumes and StorageClasses in the evidence, and which of them are not."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from baro.diagnosis.evidence import Evidence
from baro.diagnosis.explain.rules.wire import StorageClass, Volume, VolumeClaim, read

Key = tuple[str, str]
"""(namespace, name)."""


class Storage(msgspec.Struct):
    """Claims, volumes and classes in the evidence. What is not ``known`` may exist all the same."""

    claims: dict[Key, VolumeClaim]
    volumes: dict[str, Volume]
    classes: dict[str, StorageClass]
    unknown: tuple[str, ...]
    """Of the three resources those that were not read, with the reason."""

    def knows(self, resource: str) -> bool:
        """Whether what is not here does not exist."""
        return not any(item.startswith(resource) for item in self.unknown)


def storage(evidence: Evidence) -> Storage:
    """Reads them from the documents. Files have a resource when they have one object of it; a cluster or a
    snapshot has them all, unless they are missing."""
    found = Storage({}, {}, {}, ())
    seen: set[str] = set()
    for document in evidence.documents:
        match document.kind:
            case "PersistentVolumeClaim":
                claim = read(document, VolumeClaim)
                if claim is not None:
                    key = (claim.metadata.namespace or "default", claim.metadata.name)
                    found.claims[key] = claim
            case "PersistentVolume":
                volume = read(document, Volume)
                if volume is not None:
                    found.volumes[volume.metadata.name] = volume
            case "StorageClass":
                item = read(document, StorageClass)
                if item is not None:
                    found.classes[item.metadata.name] = item
            case _:
                continue
        seen.add(document.kind)
    found.unknown = tuple(_not_read(evidence, seen))
    return found


_RESOURCES = {
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "storageclasses": "StorageClass",
}


def _not_read(evidence: Evidence, seen: set[str]) -> Iterator[str]:
    whole = "storage.k8s.io" in evidence.served
    for resource, kind in _RESOURCES.items():
        lacking = evidence.lacks(resource)
        if lacking:
            yield f"{resource} could not be read: {lacking[0].why}"
        elif kind not in seen and not whole:
            yield f"{resource} are not in the evidence"
