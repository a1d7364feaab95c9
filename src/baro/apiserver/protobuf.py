"""Bodies in the protobuf form of Kubernetes, as ``kubectl create namespace`` and Go clients send them.

A body is ``k8s\\0`` and a ``runtime.Unknown``: kind and version beside the bytes of the object. This reads
the wire format and turns the messages of the few kinds below into JSON objects; answers are always JSON.
Kinds without a table here get 415, like any other unknown format.

A line of the tables is ``NUMBER NAME TYPE``. ``[]`` is a repeated field, ``{}`` a map of strings, ``*`` a
pointer, whose zero value is kept; zero values of the others are absent, as ``omitempty`` leaves them out.
Source of the numbers: the ``generated.proto`` files of ``k8s.io/api`` and ``k8s.io/apimachinery``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import msgspec

MEDIA: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_DEPTH: Final = 32
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_ROOTS: Final = {
    ("v1", "Namespace"): "Namespace",
    ("v1", "ConfigMap"): "ConfigMap",
    ("v1", "Secret"): "Secret",
    ("v1", "ServiceAccount"): "ServiceAccount",
    ("v1", "Binding"): "Binding",
    ("v1", "Event"): "Event",
    ("v1", "DeleteOptions"): "DeleteOptions",
    ("meta.k8s.io/v1", "DeleteOptions"): "DeleteOptions",
    ("events.k8s.io/v1", "Event"): "NewEvent",
    ("coordination.k8s.io/v1", "Lease"): "Lease",
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): "SelfSubjectAccessReview",
    ("authorization.k8s.io/v1", "SubjectAccessReview"): "SubjectAccessReview",
    ("authorization.k8s.io/v1", "LocalSubjectAccessReview"): "SubjectAccessReview",
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): "SelfSubjectRulesReview",
    ("authentication.k8s.io/v1", "SelfSubjectReview"): "SelfSubjectReview",
}
"""apiVersion and kind → the message of its body."""

_TABLES: Final = """
Unknown = 1 typeMeta TypeMeta; 2 raw raw; 3 contentEncoding string; 4 contentType string
TypeMeta = 1 apiVersion string; 2 kind string
ObjectMeta = 1 name string; 2 generateName string; 3 namespace string; 4 selfLink string; 5 uid string;
  6 resourceVersion string; 7 generation int; 8 creationTimestamp time; 9 deletionTimestamp time;
  10 deletionGracePeriodSeconds *int; 11 labels {}string; 12 annotations {}string;
  13 ownerReferences []OwnerReference; 14 finalizers []string; 17 managedFields []ManagedFieldsEntry
OwnerReference = 1 kind string; 3 name string; 4 uid string; 5 apiVersion string; 6 controller *bool;
  7 blockOwnerDeletion *bool
ManagedFieldsEntry = 1 manager string; 2 operation string; 3 apiVersion string; 4 time time;
  6 fieldsType string; 7 fieldsV1 json; 8 subresource string
ObjectReference = 1 kind string; 2 namespace string; 3 name string; 4 uid string; 5 apiVersion string;
  6 resourceVersion string; 7 fieldPath string
LocalObjectReference = 1 name string
DeleteOptions = 1 gracePeriodSeconds *int; 2 preconditions Preconditions; 3 orphanDependents *bool;
  4 propagationPolicy string; 5 dryRun []string
Preconditions = 1 uid string; 2 resourceVersion string
Namespace = 1 metadata ObjectMeta; 2 spec NamespaceSpec; 3 status NamespaceStatus
NamespaceSpec = 1 finalizers []string
NamespaceStatus = 1 phase string
ConfigMap = 1 metadata ObjectMeta; 2 data {}string; 3 binaryData {}bytes; 4 immutable *bool
Secret = 1 metadata ObjectMeta; 2 data {}bytes; 3 type string; 4 stringData {}string; 5 immutable *bool
ServiceAccount = 1 metadata ObjectMeta; 2 secrets []ObjectReference;
  3 imagePullSecrets []LocalObjectReference; 4 automountServiceAccountToken *bool
Binding = 1 metadata ObjectMeta; 2 target ObjectReference
EventSource = 1 component string; 2 host string
EventSeries = 1 count int; 2 lastObservedTime microTime
Event = 1 metadata ObjectMeta; 2 involvedObject ObjectReference; 3 reason string; 4 message string;
  5 source EventSource; 6 firstTimestamp time; 7 lastTimestamp time; 8 count int; 9 type string;
  10 eventTime microTime; 11 series EventSeries; 12 action string; 13 related ObjectReference;
  14 reportingComponent string; 15 reportingInstance string
NewEvent = 1 metadata ObjectMeta; 2 eventTime microTime; 3 series EventSeries; 4 reportingController string;
  5 reportingInstance string; 6 action string; 7 reason string; 8 regarding ObjectReference;
  9 related ObjectReference; 10 note string; 11 type string; 12 deprecatedSource EventSource;
  13 deprecatedFirstTimestamp time; 14 deprecatedLastTimestamp time; 15 deprecatedCount int
Lease = 1 metadata ObjectMeta; 2 spec LeaseSpec
LeaseSpec = 1 holderIdentity *string; 2 leaseDurationSeconds *int; 3 acquireTime microTime;
  4 renewTime microTime; 5 leaseTransitions *int; 6 strategy string; 7 preferredHolder *string
SelfSubjectAccessReview = 1 metadata ObjectMeta; 2 spec AccessSpec
SubjectAccessReview = 1 metadata ObjectMeta; 2 spec SubjectAccessSpec
AccessSpec = 1 resourceAttributes ResourceAttributes; 2 nonResourceAttributes NonResourceAttributes
SubjectAccessSpec = 1 resourceAttributes ResourceAttributes; 2 nonResourceAttributes NonResourceAttributes;
  3 user string; 4 groups []string; 6 uid string
ResourceAttributes = 1 namespace string; 2 verb string; 3 group string; 4 version string; 5 resource string;
  6 subresource string; 7 name string
NonResourceAttributes = 1 path string; 2 verb string
SelfSubjectRulesReview = 1 metadata ObjectMeta; 2 spec RulesSpec
RulesSpec = 1 namespace string
SelfSubjectReview = 1 metadata ObjectMeta
"""


class ProtobufError(Exception):
    """The bytes are no well-formed body. The text says where."""


class UnknownKindError(Exception):
    """The kind has no table here. The text is ``apiVersion, Kind=kind``."""


class _Field(msgspec.Struct, frozen=True):
    name: str
    type: str
    repeated: bool = False
    map: bool = False
    pointer: bool = False


def decode_protobuf(data: bytes) -> dict[str, Any]:
    """The object in ``data`` as JSON types. Raises ``ProtobufError`` and ``UnknownKindError``."""
    if not data.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix k8s")
    envelope = _message("Unknown", data[len(_MAGIC) :], 0)
    named = envelope.get("typeMeta") or {}
    api_version, kind = str(named.get("apiVersion", "")), str(named.get("kind", ""))
    root = _ROOTS.get((api_version, kind))
    if root is None and kind == "DeleteOptions":  # clients name it in the version of what they delete
        root = kind
    if root is None:
        raise UnknownKindError(f"{api_version or 'no apiVersion'}, Kind={kind}")
    body = _message(root, envelope.get("raw", b""), 0)
    return {"apiVersion": api_version, "kind": kind, **body}


def _message(name: str, data: bytes, depth: int) -> dict[str, Any]:
    if depth > _DEPTH:
        raise ProtobufError("messages are nested too deep")
    fields = _tables()[name]
    found: dict[str, Any] = {}
    for number, wire, raw in _wire(data):
        field = fields.get(number)
        if field is None:
            continue  # what newer clients know more of
        if field.map:
            key, value = _entry(field, raw, depth)
            found.setdefault(field.name, {})[key] = value
            continue
        value = _value(field, wire, raw, depth)
        if field.repeated:
            found.setdefault(field.name, []).append(value)
        elif value is not None and (field.pointer or value not in ("", 0, False)):
            found[field.name] = value
    return found


def _entry(field: _Field, raw: int | bytes, depth: int) -> tuple[str, Any]:
    """One entry of a map: a message with key 1 and value 2."""
    key, value = "", "" if field.type in ("string", "bytes") else None
    for number, wire, part in _wire(_bytes(raw)):
        if number == 1:
            key = _text(part)
        elif number == 2:
            value = _value(field, wire, part, depth)
    return key, value


def _value(field: _Field, wire: int, raw: int | bytes, depth: int) -> Any:
    match field.type:
        case "string":
            return _text(raw)
        case "raw":
            return _bytes(raw)
        case "bytes":
            return base64.b64encode(_bytes(raw)).decode()
        case "int":
            return _signed(_integer(raw, wire))
        case "bool":
            return bool(_integer(raw, wire))
        case "time" | "microTime":
            return _time(_bytes(raw), micro=field.type == "microTime")
        case "json":
            return _json(_bytes(raw))
        case _:
            return _message(field.type, _bytes(raw), depth + 1)


def _time(data: bytes, *, micro: bool) -> str | None:
    """A ``meta.Time``; an empty message is the zero time, which JSON leaves out."""
    parts = {number: _signed(_integer(raw, wire)) for number, wire, raw in _wire(data)}
    if not parts:
        return None
    try:
        moment = _EPOCH + timedelta(seconds=parts.get(1, 0), microseconds=parts.get(2, 0) // 1000)
    except OverflowError:
        raise ProtobufError("a time is out of range") from None
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _json(data: bytes) -> Any:
    """A ``FieldsV1``: its only field holds JSON."""
    text = next((_bytes(raw) for number, _, raw in _wire(data) if number == 1), b"{}")
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ProtobufError(str(error)) from None


# --- the wire format -------------------------------------------------------------------------------------


def _wire(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(field number, wire type, value) of every field, in order."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ProtobufError("illegal field number 0")
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"illegal wire type {wire}")
        if at + size > len(data):
            raise ProtobufError("unexpected end of message")
        yield number, wire, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ProtobufError("a number ends too late" if shift > 63 else "unexpected end of message")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & (2**64 - 1), at


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _integer(raw: int | bytes, wire: int) -> int:
    if not isinstance(raw, int):
        raise ProtobufError(f"wire type {wire} where a number was expected")
    return raw


def _bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise ProtobufError("a number where a message or text was expected")
    return raw


def _text(raw: int | bytes) -> str:
    try:
        return _bytes(raw).decode()
    except UnicodeDecodeError:
        raise ProtobufError("a text is no UTF-8") from None


@cache
def _tables() -> dict[str, dict[int, _Field]]:
    tables: dict[str, dict[int, _Field]] = {}
    for block in _TABLES.replace("\n  ", " ").strip().splitlines():
        name, _, text = block.partition(" = ")
        tables[name] = {}
        for entry in filter(None, (part.strip() for part in text.split(";"))):
            number, field, type_ = entry.split()
            bare = type_.lstrip("[]{}*")
            mark = type_.removesuffix(bare)
            tables[name][int(number)] = _Field(field, bare, mark == "[]", mark == "{}", mark == "*")
    return tables
