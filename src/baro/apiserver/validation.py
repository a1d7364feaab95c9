"""Whether a body may come in: decoding strictness, the kind it claims to be, and the rules of its kind.

The rules themselves live in ``baro.model``; this room turns them into the server's answers. It knows
neither store nor HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from baro.apiserver.catalogue import DEFINITIONS, Served
from baro.apiserver.customs import (
    DEFINITION_SCHEMA,
    Version,
    check_definition,
    check_definition_update,
    duplicates,
    problems,
    scale_problems,
    unknown_fields,
)
from baro.apiserver.patching import Patch
from baro.apiserver.rules import Correlated, run_rules
from baro.apiserver.status import Cause, StatusError, bad_request, invalid
from baro.cel import check_expression
from baro.model.decode import Pairs, StrictError, rejection, strict_errors
from baro.model.gotext import go_quote
from baro.model.validation import Problems, judge_create, judge_update
from baro.model.validation.goview import versioned
from baro.model.validation.metadata import check_metadata, check_metadata_update
from baro.model.validation.names import dns_subdomain
from baro.model.validation.rules import Rules, parse

FieldValidation = Literal["Strict", "Warn", "Ignore"]
FIELD_VALIDATION: Final[tuple[FieldValidation, ...]] = ("Strict", "Warn", "Ignore")

DRA: Final = "resource.k8s.io"


def check_kind(body: Any, served: Served) -> dict[str, Any]:
    """The body, if it is an object of the served kind and version. Raises 400 as the real decoder does."""
    kind = served.kind
    if not isinstance(body, Mapping):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get version/kind; "
            f"json parse error: json: cannot unmarshal {_json_name(body)} into Go value of type struct "
            '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
    named_version, named_kind = body.get("apiVersion") or kind.api_version, body.get("kind") or kind.kind
    if not isinstance(named_version, str) or not isinstance(named_kind, str):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get version/kind"
        )
    if named_version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({named_version}) does not match the expected API version "
            f"({kind.api_version})"
        )
    if named_kind != kind.kind:
        raise bad_request(
            f'{named_kind} in version "{kind.version}" cannot be handled as a {kind.kind}: converting '
            f"({kind.version}.{named_kind}) to ({_package(kind.group)}.{kind.kind}): unknown conversion"
        )
    if isinstance(body, Pairs):  # keeps the duplicate keys for check_decoding
        return Pairs([("apiVersion", kind.api_version), ("kind", kind.kind), *_after_kind(body)])
    return {**body, "apiVersion": kind.api_version, "kind": kind.kind}


def _after_kind(body: Pairs) -> Iterator[tuple[str, Any]]:
    """The pairs of a body without the first ``apiVersion`` and the first ``kind``."""
    seen: set[str] = set()
    for key, value in body.pairs:
        if key in ("apiVersion", "kind") and key not in seen:
            seen.add(key)
        else:
            yield key, value


def check_decoding(
    body: Mapping[str, Any], served: Served, mode: FieldValidation, warnings: list[str]
) -> None:
    """Raises 400 for what cannot be decoded; unknown and duplicate fields as ``mode`` says."""
    errors = _strict_errors(body, served)
    lax = tuple(error for error in errors if error.trouble in ("unknown", "duplicate"))
    if mode != "Strict" and len(lax) == len(errors):
        if mode == "Warn":
            warnings.extend(dict.fromkeys(error.message for error in lax))
        return
    grave = errors if mode == "Strict" else tuple(error for error in errors if error not in lax)
    message = rejection(grave, served.kind.api_version, served.kind.kind)
    if message is not None:
        raise bad_request(message)


def _strict_errors(body: Mapping[str, Any], served: Served) -> tuple[StrictError, ...]:
    if served.custom is None:
        return strict_errors(body, kube_version=served.kube_version)
    like = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": body.get("metadata")}
    found = [*strict_errors(like, kube_version=served.kube_version), *_duplicates(body, "")]
    for path in unknown_fields(body, served.custom.schema, root=True):
        found.append(StrictError(path, f"unknown field {go_quote(path)}", "unknown"))
    return tuple(found)


def _duplicates(value: Any, path: str) -> Iterator[StrictError]:
    """Fields of a custom object that occur twice; those of its metadata are found with the schema."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _duplicates(item, f"{path}[{index}]")
    if not isinstance(value, Mapping):
        return
    seen: set[str] = set()
    for name, item in value.pairs if isinstance(value, Pairs) else value.items():
        here = f"{path}.{name}" if path else name
        if here == "metadata":
            continue
        if name in seen:
            yield StrictError(here, f"duplicate field {go_quote(here)}", "duplicate")
        seen.add(name)
        yield from _duplicates(item, here)


def check_patched(
    body: Mapping[str, Any], served: Served, patch: Patch, mode: FieldValidation, warnings: list[str]
) -> None:
    """As :func:`check_decoding`, for the result of a patch: the server answers 422 there."""
    errors = _strict_errors(body, served)
    grave = [error.message for error in errors if error.trouble in ("value", "type")][:1]
    if patch.converted:
        grave = [_converter_text(message) for message in grave]
    lax = list(dict.fromkeys(error.message for error in errors if error.trouble in ("unknown", "duplicate")))
    if not grave and lax and mode == "Strict":
        grave = ["strict decoding error: " + ", ".join(lax)]
    if grave:
        result = msgspec.json.encode(dict(sorted(body.items()))).decode()
        shown = msgspec.json.encode(patch.shown if patch.converted else result).decode()
        raise invalid(
            "", "", "", [Cause("FieldValueInvalid", "patch", f"Invalid value: {shown}: {grave[0]}")]
        )
    if mode == "Warn":
        warnings.extend(lax)


_UNMARSHAL: Final = re.compile(
    r"json: cannot unmarshal (\w+)(?: \S+)? into Go struct field \S+ of type (\S+)"
)
_GO_KINDS: Final = {"number": "int64", "object": "map", "array": "slice"}


def _converter_text(message: str) -> str:
    """The sentence of the decoder, as the converter from maps says it."""
    found = _UNMARSHAL.fullmatch(message)
    if found is None:
        return message
    value, wanted = found.groups()
    kind = _GO_KINDS.get(value, value)
    if wanted.startswith("[]"):
        return f"cannot restore slice from {kind}"
    if wanted.startswith("map["):
        return f"cannot restore map from {kind}"
    if "." in wanted:
        return f"cannot restore struct from: {kind}"
    # Go can make a string of a number, though not this converter; it names other pairs by what is wanted.
    convertible = value == "number" and wanted == "string"
    return f"cannot convert {kind} to {wanted}" if convertible else f"unrecognized type: {wanted}"


def check_rules(
    stored: dict[str, Any],
    served: Served,
    *,
    old: Mapping[str, Any] | None = None,
    subresource: str = "",
    namespace_labels: Mapping[str, str] | None = None,
    warnings: list[str] | None = None,
) -> None:
    """Raises 422 with every rule that the object, in its stored form, breaks as a replacement of ``old``.

    ``warnings`` gets what a custom object breaks in parts that stay as they were.

    Objects of ``resource.k8s.io`` also lose the fields of features that are off, and get the form in which
    Go writes them: nulls and empty structs where it has them, canonical quantities.
    """
    cel = check_expression
    if served.key == DEFINITIONS:
        causes = _definition_causes(stored, old)
    elif served.custom is not None:
        seen = {"apiVersion": served.kind.api_version}
        before = None if old is None else {**old, **seen}
        heard = [] if warnings is None else warnings
        causes = _custom_causes({**stored, **seen}, served.custom, before, subresource, heard)
    else:
        rules = Rules(served.kube_version, None, served.kind.version)
        if old is not None:
            verdict = judge_update(
                old, stored, rules, subresource=subresource, cel=cel, namespace_labels=namespace_labels
            )
        else:
            verdict = judge_create(stored, rules, cel=cel, namespace_labels=namespace_labels)
        causes = [Cause(c.code, c.path, c.message) for c in verdict.causes]
        if served.kind.group == DRA and verdict.body is not None and not causes:
            written = versioned(verdict.body, served.stored.api_version, served.kind.kind)
            stored.update({name: written[name] for name in ("spec", "status") if name in written})
    if causes:
        name = str(stored["metadata"].get("name") or stored["metadata"].get("generateName") or "")
        raise invalid(served.kind.group, served.kind.kind, name, causes)


def _metadata_causes(stored: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[Cause]:
    names = Problems()
    check_metadata(names, stored.get("metadata", {}), dns_subdomain)
    if old is not None:
        check_metadata_update(names, stored.get("metadata", {}), old.get("metadata", {}))
    return [Cause(c.code, c.path, c.message) for c in dict.fromkeys(names.causes)]


def _definition_causes(stored: dict[str, Any], old: Mapping[str, Any] | None) -> list[Cause]:
    causes = _metadata_causes(stored, old) + problems(stored, DEFINITION_SCHEMA, root=True)
    if causes:
        return causes
    changed = check_definition_update(stored, dict(old)) if old is not None else []
    return changed + check_definition(stored, new=old is None)


_BLOCKING: Final = frozenset(
    f"FieldValue{name}" for name in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)
"""After these the rules in CEL are not run, since their types would not hold."""
_UNCHECKED: Final = Cause(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation",
)


def _custom_causes(
    stored: dict[str, Any],
    version: Version,
    old: Mapping[str, Any] | None,
    subresource: str,
    warnings: list[str],
) -> list[Cause]:
    """The rules of an object whose schema stands in a definition."""
    causes = _metadata_causes(stored, old)
    was = None if old is None else Correlated(stored, old, version.schema)
    if subresource == "status":
        causes += _status_causes(stored, version, was)
    else:
        causes += problems(stored, version.schema, root=True, was=was)
    if version.scale is not None:
        causes += scale_problems(stored, version.scale, spec=subresource != "status")
    if old is None or not any(duplicates(old, version.schema, root=True)):
        causes += duplicates(stored, version.schema, root=True)
    if version.rules is None:
        return causes
    if any(cause.reason in _BLOCKING for cause in causes):
        return [*causes, _UNCHECKED]
    findings = run_rules(version.rules, stored, old)
    warnings.extend(findings.warnings)
    return causes + findings.causes


def _status_causes(stored: Mapping[str, Any], version: Version, was: Correlated | None) -> list[Cause]:
    """A write to the status is checked there only."""
    below = (version.schema.get("properties") or {}).get("status")
    if "status" not in stored or not isinstance(below, Mapping):
        return []
    return problems(stored["status"], below, "status", was=None if was is None else was.field("status"))


def missing_name(served: Served) -> StatusError:
    cause = Cause("FieldValueRequired", "metadata.name", "Required value: name or generateName is required")
    return invalid(served.kind.group, served.kind.kind, "", [cause])


def unconditional(served: Served, name: str) -> StatusError:
    """422 for a PUT without a resourceVersion, where the kind wants one."""
    value = "0" if parse(served.kube_version) >= (1, 37) else "0x0"
    text = f"Invalid value: {value}: must be specified for an update"
    cause = Cause("FieldValueInvalid", "metadata.resourceVersion", text)
    return invalid(served.kind.group, served.kind.plural, name, [cause])


def _package(group: str) -> str:
    return group.partition(".")[0] or "core"


def _json_name(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "string" if isinstance(value, str) else "null"
