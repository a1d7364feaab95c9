"""Whether a body may come in: decoding strictness, the kind it claims to be, and the rules of its kind.

The rules themselves live in ``baro.model``; this room turns them into the server's answers. It knows
neither store nor HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from baro.apiserver.catalogue import Served
from baro.apiserver.status import Cause, StatusError, bad_request, invalid
from baro.cel import CelCompileError, compile_selector
from baro.model.decode import Pairs, rejection, strict_errors
from baro.model.validation import Problems, validate_create

FieldValidation = Literal["Strict", "Warn", "Ignore"]
FIELD_VALIDATION: Final[tuple[FieldValidation, ...]] = ("Strict", "Warn", "Ignore")

KUBE_VERSION: Final = "1.37"


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
        named = [(key, value) for key, value in body.pairs if key not in ("apiVersion", "kind")]
        return Pairs([("apiVersion", kind.api_version), ("kind", kind.kind), *named])
    return {**body, "apiVersion": kind.api_version, "kind": kind.kind}


def check_decoding(
    body: Mapping[str, Any], served: Served, mode: FieldValidation, warnings: list[str]
) -> None:
    """Raises 400 for what cannot be decoded; unknown and duplicate fields as ``mode`` says."""
    errors = strict_errors(body, kube_version=KUBE_VERSION)
    lax = tuple(error for error in errors if error.trouble in ("unknown", "duplicate"))
    if mode != "Strict" and len(lax) == len(errors):
        if mode == "Warn":
            warnings.extend(dict.fromkeys(error.message for error in lax))
        return
    grave = errors if mode == "Strict" else tuple(error for error in errors if error not in lax)
    message = rejection(grave, served.kind.api_version, served.kind.kind)
    if message is not None:
        raise bad_request(message)


def check_patched(body: Mapping[str, Any], patch: str, mode: FieldValidation, warnings: list[str]) -> None:
    """As :func:`check_decoding`, for the result of a patch: the server answers 422 there."""
    errors = strict_errors(body, kube_version=KUBE_VERSION)
    grave = [error.message for error in errors if error.trouble in ("value", "type")][:1]
    lax = list(dict.fromkeys(error.message for error in errors if error.trouble in ("unknown", "duplicate")))
    if not grave and lax and mode == "Strict":
        grave = ["strict decoding error: " + ", ".join(lax)]
    if grave:
        shown = msgspec.json.encode(patch).decode()
        raise invalid(
            "", "", "", [Cause("FieldValueInvalid", "patch", f"Invalid value: {shown}: {grave[0]}")]
        )
    if mode == "Warn":
        warnings.extend(lax)


def check_rules(stored: Mapping[str, Any], served: Served) -> None:
    """Raises 422 with every rule that the object, in its stored form, breaks."""
    causes = [Cause(c.code, c.path, c.message) for c in validate_create(stored, cel=_check_selector)]
    if causes:
        name = str(stored["metadata"].get("name") or stored["metadata"].get("generateName") or "")
        raise invalid(served.kind.group, served.kind.kind, name, causes)


def _check_selector(problems: Problems, path: str, expression: str) -> None:
    """Compiles a device selector as the server does for new objects."""
    try:
        compile_selector(expression, "admission")
    except CelCompileError as error:
        problems.invalid(path, expression, error.message)


def missing_name(served: Served) -> StatusError:
    cause = Cause("FieldValueRequired", "metadata.name", "Required value: name or generateName is required")
    return invalid(served.kind.group, served.kind.kind, "", [cause])


def _package(group: str) -> str:
    return group.partition(".")[0] or "core"


def _json_name(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "string" if isinstance(value, str) else "null"
