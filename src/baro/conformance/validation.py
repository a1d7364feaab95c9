"""Writes, and what an API server answers: decoding, validation, and the object that it would store.

A record names its ``operation`` (``create``, ``update``, ``update-status``) and carries the request's
``object``, or ``raw`` where the text itself matters, and ``old`` for updates. It may carry
``namespaceLabels``, and the ``path`` of the collection it was sent to (else that of the object's own kind,
and of v1 slices for texts). An answer is that of a server with default gates which serves all versions of the
group and knows no other object. The two updates that a store refuses before validation are known by the end
of their record's name (``stale-rv``, ``wrong-uid``): recorded objects carry no resource version or UID.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from baro.cel import check_expression
from baro.conformance.tally import Agreement
from baro.model.convert import convert
from baro.model.decode import BodyError, decode_body, named_kind, rejection, strict_errors
from baro.model.errors import InputError, Where
from baro.model.schema import Kind, find_kind, find_plural
from baro.model.validation import Cause, Verdict, created, judge_create, judge_update
from baro.model.validation.goview import versioned
from baro.model.validation.rules import DEFAULT_KUBE_VERSION, Rules

OPERATIONS: Final = ("create", "update", "update-status")
MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_ADMIN_NAMESPACE: Final = "oracle-admin"
"""Namespace of recorded objects that carries the label for admin access."""
_SERVER_SET: Final = (
    "uid", "creationTimestamp", "resourceVersion", "generation", "managedFields", "selfLink",
)  # fmt: skip
_CONDITIONAL: Final = ("DeviceTaintRule", "Lease")
"""Kinds whose updates need a resource version."""
_WITHOUT_BETAS: Final = ("1.34", "1.35", "1.36")
"""Versions recorded on servers without the beta API versions, which therefore take no other than v1."""


class Answer(msgspec.Struct, frozen=True):
    """A server's answer to one write. ``read_back`` is the object as stored, None when it was refused."""

    accepted: bool
    code: int
    message: str = ""
    reason: str = ""
    causes: tuple[Cause, ...] = ()
    read_back: dict[str, Any] | None = None

    def document(self, name: str) -> dict[str, Any]:
        """The JSON line that ``baro conformance validate`` writes."""
        errors = [
            {"path": cause.path, "message": cause.message, "reason": cause.code} for cause in self.causes
        ]
        found = {"name": name, "accepted": self.accepted, "code": self.code, "errors": errors}
        found["message"] = self.message
        if self.read_back is not None:
            found["readBack"] = self.read_back
        return found


def answer(record: Mapping[str, Any], kube_version: str = DEFAULT_KUBE_VERSION) -> Answer:
    """What a server of ``kube_version`` says to ``record``. Raises ``InputError`` for what is no record."""
    _check_record(record)
    raw = record.get("raw")
    data = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else _text(record.get("object"))
    expected = _kind_at(record.get("path")) or _kind_of(record.get("object"))
    if expected is None:
        expected = find_kind("resource.k8s.io/v1", "ResourceSlice")
        assert expected is not None  # noqa: S101 - the schema has it
    try:
        body = decode_body(data, expected.kind)
    except BodyError as error:
        return _bad_request(str(error))
    # A body that does not say what it is, is what its URL says.
    version, named = named_kind(body)
    body |= {"apiVersion": version or expected.api_version, "kind": named or expected.kind}
    kind = _kind_of(body)
    if kind is None:
        return _bad_request(_unregistered(body, expected, kube_version))
    if kind.version != expected.version and kube_version in _WITHOUT_BETAS:
        return _bad_request(
            f"the API version in the data ({kind.api_version}) does not match the expected API version "
            f"({expected.api_version})"
        )
    misplaced = _misplaced(kind, expected)
    refused = rejection(strict_errors(body, kube_version=kube_version), kind.api_version, kind.kind)
    if misplaced is not None and kube_version in _WITHOUT_BETAS:
        return _bad_request(misplaced)
    if refused is not None or misplaced is not None:
        return _bad_request(refused or misplaced or "")
    conflict = _conflict(record, kind, body) or _without_version(record, kind, body)
    return conflict if conflict is not None else _judged(record, kind, body, kube_version)


def _check_record(record: Mapping[str, Any]) -> None:
    raw, old = record.get("raw"), record.get("old")
    wrong = None
    if record.get("operation", "create") not in OPERATIONS:
        wrong = f"operation is one of {', '.join(OPERATIONS)}"
    elif "object" not in record and not isinstance(raw, str):
        wrong = "a record has an object, or a text in raw"
    elif record.get("operation", "create") != "create" and not isinstance(old, Mapping):
        wrong = "an update has the object that was there in old"
    if wrong is not None:
        where = Where(object=str(record.get("name") or "") or None)
        raise InputError(wrong, where=where, next_step="docs/conformance.md tells what a record is made of")


def _unregistered(body: Mapping[str, Any], expected: Kind, kube_version: str) -> str:
    """What the server says about a kind that nobody knows."""
    version, named, line = body["apiVersion"], body["kind"], 110 if kube_version == "1.34" else 111
    return (
        f'{named} in version "{version.rpartition("/")[2]}" cannot be handled as a {expected.kind}: no kind '
        f'"{named}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:{line}"'
    )


def _misplaced(kind: Kind, expected: Kind) -> str | None:
    """What the server says about an object of another kind than its URL's."""
    if kind.kind == expected.kind:
        return None
    package = expected.group.partition(".")[0] or "core"
    return (
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {expected.kind}: converting '
        f"({kind.version}.{kind.kind}) to ({package}.{expected.kind}): unknown conversion"
    )


def _kind_at(path: Any) -> Kind | None:
    """The kind of the collection or object behind a URL."""
    if not isinstance(path, str):
        return None
    parts = path.partition("?")[0].strip("/").split("/")
    if len(parts) < 3 or parts[0] not in ("api", "apis"):
        return None
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    return find_plural(group, version, rest[0]) if rest else None


def _text(document: Any) -> bytes:
    return json.dumps(document).encode()


def _kind_of(body: Any) -> Kind | None:
    if not isinstance(body, Mapping):
        return None
    return find_kind(str(body.get("apiVersion", "")), str(body.get("kind", "")))


def _bad_request(message: str) -> Answer:
    return Answer(False, 400, message, "BadRequest")


def _conflict(record: Mapping[str, Any], kind: Kind, body: Mapping[str, Any]) -> Answer | None:
    if record.get("operation", "create") == "create":
        return None
    ending = str(record.get("name", "")).rpartition("/")[2]
    why = {
        "stale-rv": MODIFIED,
        "wrong-uid": "StorageError: invalid object, Code: 4, AdditionalErrorMsg: Precondition failed: UID",
    }.get(ending)
    if why is None:
        return None
    name = (body.get("metadata") or {}).get("name", "")
    resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    return Answer(False, 409, f'Operation cannot be fulfilled on {resource} "{name}": {why}', "Conflict")


def _without_version(record: Mapping[str, Any], kind: Kind, body: Mapping[str, Any]) -> Answer | None:
    """Updates of some kinds must say which version they replace; objects of records always do."""
    metadata = body.get("metadata") or {}
    if "raw" not in record or record.get("operation") != "update" or metadata.get("resourceVersion"):
        return None
    if kind.kind not in _CONDITIONAL:
        return None
    cause = Cause(
        "Invalid value", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
    )
    return Answer(False, 422, invalid_message(kind, metadata.get("name", ""), (cause,)), "Invalid", (cause,))


def _judged(record: Mapping[str, Any], kind: Kind, body: Mapping[str, Any], kube_version: str) -> Answer:
    rules = Rules(kube_version, version=kind.version)
    labels = _labels(record, body)
    if record.get("operation", "create") == "create":
        verdict = judge_create(body, rules, cel=check_expression, namespace_labels=labels)
    else:
        verdict = judge_update(
            _before(record["old"], rules),
            body,
            rules,
            subresource="status" if record.get("operation", "create") == "update-status" else "",
            cel=check_expression,
            namespace_labels=labels,
        )
    if verdict.causes:
        name = str((body.get("metadata") or {}).get("name", ""))
        return Answer(False, 422, invalid_message(kind, name, verdict.causes), "Invalid", verdict.causes)
    code = 201 if record.get("operation", "create") == "create" else 200
    return Answer(True, code, read_back=_read_back(verdict, kind, kube_version))


def _before(old: Mapping[str, Any], rules: Rules) -> Mapping[str, Any]:
    """What was there before: recorders create it, and the server drops what it does not do."""
    return created(old, rules) or old


def _labels(record: Mapping[str, Any], body: Mapping[str, Any]) -> Mapping[str, str]:
    if "namespaceLabels" in record:
        labels: Mapping[str, str] = record["namespaceLabels"]
        return labels
    namespace = (body.get("metadata") or {}).get("namespace")
    return {"resource.kubernetes.io/admin-access": "true"} if namespace == _ADMIN_NAMESPACE else {}


def invalid_message(kind: Kind, name: str, causes: Iterable[Cause]) -> str:
    """The sentence of a 422: one cause bare, several in brackets, none twice."""
    lines = list(dict.fromkeys(str(cause) for cause in causes))
    listed = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    resource = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return f'{resource} "{name}" is invalid: {listed}'


def _read_back(verdict: Verdict, kind: Kind, kube_version: str) -> dict[str, Any] | None:
    if verdict.body is None:
        return None
    converted = convert(verdict.body, kind.api_version)
    if kind.group != "resource.k8s.io":
        return _without_server_fields(converted)
    shown = versioned(converted, kind.api_version, kind.kind)
    if kind.kind == "ResourceSlice" and kube_version == "1.34":  # which writes the list in any case
        shown["spec"].setdefault("devices", None)
    return _without_server_fields({"apiVersion": kind.api_version, "kind": kind.kind, **shown})


def _without_server_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in body.get("metadata", {}).items() if key not in _SERVER_SET}
    return {**body, "metadata": metadata}


# --- comparison ------------------------------------------------------------------------------------------


def recorded(record: Mapping[str, Any], kube_version: str = DEFAULT_KUBE_VERSION) -> dict[str, Any] | None:
    """The recorded answer of ``kube_version``; None when there is none, or it was not asked.

    The record itself is of 1.36; ``v1_37`` holds what 1.37 answers otherwise.
    """
    if "accepted" not in record:
        return None
    newer = record.get("v1_37")
    if kube_version in ("1.34", "1.35", "1.36") or newer is None:
        return dict(record)
    return {**record, **newer} if isinstance(newer, dict) else dict(record)


def sent(record: Mapping[str, Any]) -> Any:
    """The object of the request, None for a text that is none."""
    if isinstance(record.get("raw"), str):
        try:
            return json.loads(record["raw"])
        except ValueError:
            return None
    return record.get("object")


def agreement(ours: Answer, expected: Mapping[str, Any], sent: Any) -> Agreement:
    """In which aspects ``ours`` is the ``expected`` answer to ``sent``.

    ``verdict``: accepted or not; ``paths``: the fields that are named; ``text``: the whole message, causes
    in any order; ``readBack``: the stored object. A request that crashed the server counts as refused: only
    that ours refuses it cleanly is asked.
    """
    found = {"verdict": ours.accepted == expected["accepted"]}
    if not found["verdict"] or expected.get("code") == 0:
        return found
    if not expected["accepted"]:
        causes = expected.get("causes") or ()
        if causes:
            found["paths"] = {cause.path for cause in ours.causes} == {cause["field"] for cause in causes}
        if "message" in expected:
            found["text"] = _same_text(ours, expected)
    elif "readBack" in expected:
        wanted = sent if expected["readBack"] == "same" else expected["readBack"]
        found["readBack"] = _comparable(ours.read_back) == _comparable(wanted)
    return found


def _same_text(ours: Answer, expected: Mapping[str, Any]) -> bool:
    if ours.message == expected.get("message"):
        return True
    causes = [(cause["field"], cause["message"]) for cause in expected.get("causes") or ()]
    if causes:  # the server walks maps in any order
        return Counter((cause.path, cause.message) for cause in ours.causes) == Counter(set(causes))
    masked = "Precondition failed: UID"
    return masked in ours.message and masked in (expected.get("message") or "")


def _comparable(body: Any) -> Any:
    """``body`` without what a server sets by its clock, and without empty defaults that clients leave out."""
    if not isinstance(body, Mapping):
        return body
    plain = json.loads(json.dumps(body))
    metadata = plain.setdefault("metadata", {})
    for name in _SERVER_SET:
        metadata.pop(name, None)
    for device in (
        (plain.get("spec") or {}).get("devices") or () if plain.get("kind") == "ResourceSlice" else ()
    ):
        for taint in (device.get("basic") or device).get("taints") or ():
            taint.pop("timeAdded", None)
    if plain.get("kind") == "DeviceTaintRule":
        ((plain.get("spec") or {}).get("taint") or {}).pop("timeAdded", None)
    return plain
