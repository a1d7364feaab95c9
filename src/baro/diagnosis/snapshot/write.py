"""The objects of a snapshot in the order in which they are written: the record, then as they were read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from baro.diagnosis.evidence import Evidence, SnapshotRecord
from baro.diagnosis.shapes import mapping, mappings
from baro.diagnosis.snapshot.anonymise import anonymised, pseudonyms_of
from baro.diagnosis.snapshot.prune import pruned
from baro.model.errors import BaroError

NEVER = frozenset({"Secret", "ConfigMap"})
"""Kinds that no snapshot has, whatever files they were read from."""


def objects(evidence: Evidence, *, anonymise: bool = False) -> Iterator[dict[str, Any]]:
    """All objects of a snapshot as JSON types, one at a time."""
    names = pseudonyms_of(_typed(evidence)) if anonymise else None
    missing = evidence.missing
    if names is not None:
        missing = tuple(msgspec.structs.replace(item, why=names.text(item.why)) for item in missing)
    record = SnapshotRecord(
        taken_at=evidence.taken_at,
        origin="" if anonymise else evidence.origin,
        server_version=evidence.server_version,
        served=dict(evidence.served),
        missing=missing,
        anonymised=anonymise,
        feature_gates=dict(evidence.feature_gates),
    )
    plain: dict[str, Any] = msgspec.to_builtins(record)
    yield {"apiVersion": record.api_version, "kind": record.kind, **plain}
    if names is not None:
        yield from anonymised(_typed(evidence), names)
    else:
        yield from map(pruned, _bodies(evidence))


def _typed(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Objects through the Structs that baro reads: known fields of the right types, nothing else.

    Kinds that baro does not model, and objects that cannot be typed, are left out.
    """
    for document in evidence.documents:
        try:
            item = document.as_kind()
        except BaroError:
            continue
        if item is None:
            continue
        body = item.to_dict()
        if body["kind"] == "Pod":
            # Names of claims are the cluster's own, and nobody reads them under a pseudonym.
            volumes = [
                volume
                for volume in mappings(mapping(pruned(document.body).get("spec")).get("volumes"))
                if "hostPath" in volume
            ]
            body.setdefault("spec", {}).update({"volumes": volumes} if volumes else {})
        yield body


def _bodies(evidence: Evidence) -> Iterator[dict[str, Any]]:
    for document in evidence.documents:
        if document.kind not in NEVER:
            yield document.body
