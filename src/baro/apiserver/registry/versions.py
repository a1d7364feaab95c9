"""Between the form that a client sees and the form that is stored, for every served version.

``resource.k8s.io`` converts in ``baro.model.convert``; the two APIs of events are renamings of each other;
an object of a custom kind is kept as its storage version knows it, and shown as far as a version knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from baro.apiserver.catalogue import Served
from baro.apiserver.customs import Version, with_defaults, without_null_fields, without_unknown
from baro.apiserver.registry.pruning import pruned
from baro.apiserver.status import bad_request
from baro.model.convert import convert
from baro.model.errors import InputError
from baro.model.schema import object_type

Body = dict[str, Any]

_DRA: Final = "resource.k8s.io"
_METADATA: Final = object_type("meta/v1", "ObjectMeta")

_EVENT_NAMES: Final = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedCount": "count",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
}
"""Fields of ``events.k8s.io/v1`` → fields of core ``v1``."""


def to_stored(body: Mapping[str, Any], served: Served) -> Body:
    """A deep copy of the known fields, in the stored form."""
    if served.custom is not None:
        return _custom(body, served, served.custom)
    known = pruned(body, served.shape, served.kube_version, empty=served.kind.group == _DRA)
    if isinstance(metadata := known.get("metadata"), dict):
        known["metadata"] = pruned(metadata, _METADATA, served.kube_version)
    if not served.converted:
        return known
    if served.kind.group == "events.k8s.io":
        renamed = {_EVENT_NAMES.get(name, name): value for name, value in known.items()}
        return {**renamed, "apiVersion": "v1"}
    try:
        return convert(known, served.stored.api_version)
    except InputError as error:
        raise bad_request(error.what) from None


def kept(body: Body, served: Served) -> Body:
    """A stored form as it is kept: of a custom kind what its storage version knows, with its defaults."""
    if served.storage is None or served.storage.kind == served.kind:
        return body
    return _known(body, served.storage)


def _known(body: Mapping[str, Any], version: Version) -> Body:
    metadata = body["metadata"]
    return {**_filled(body, version), "metadata": metadata}


def _filled(body: Mapping[str, Any], version: Version) -> Body:
    """What the version knows of a body, with its defaults."""
    known = without_null_fields(without_unknown(body, version.schema, root=True), version.schema)
    filled: Body = with_defaults(known, version.schema)
    return filled


def _custom(body: Mapping[str, Any], served: Served, version: Version) -> Body:
    known = _filled(body, version)
    metadata = known.get("metadata")
    if isinstance(metadata, Mapping):
        known["metadata"] = pruned(metadata, _METADATA, served.kube_version)
    else:
        known.pop("metadata", None)
    return {**known, "apiVersion": served.stored.api_version}


def without_nulls(value: Any) -> Any:
    """A deep copy without the null members of objects: an applied null says nothing."""
    if isinstance(value, Mapping):
        return {str(name): without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list | tuple) else value


def _read(body: Body, served: Served, version: Version) -> Body:
    """What a version shows of an object: what the storage version knows of it by now, less what it lacks."""
    if served.storage is None:
        return body
    known = _known(body, served.storage)
    if served.storage.kind != served.kind:
        metadata = known["metadata"]
        known = without_null_fields(without_unknown(known, version.schema, root=True), version.schema)
        known["metadata"] = metadata
    return known


def from_stored(body: Body, served: Served) -> Body:
    """The stored ``body`` as clients of ``served`` see it."""
    if served.custom is not None:
        return {**_read(body, served, served.custom), "apiVersion": served.kind.api_version}
    if not served.converted:
        return body
    if served.kind.group == "events.k8s.io":
        back = {core: new for new, core in _EVENT_NAMES.items()}
        renamed = {back.get(name, name): value for name, value in body.items()}
        return {**renamed, "apiVersion": served.kind.api_version}
    return convert(body, served.kind.api_version)
