"""The answers that are not objects: ``Status`` documents with the reasons, codes and texts of Kubernetes.

Texts follow ``k8s.io/apimachinery/pkg/api/errors``; clients (kubectl among them) match on ``reason`` and
print ``message``. Raise :class:`StatusError` anywhere below ``serving``; it becomes the HTTP answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec


class Cause(msgspec.Struct, frozen=True):
    """One reason why an object is invalid. ``reason`` is an error type such as ``FieldValueInvalid``."""

    reason: str
    field: str
    message: str


class Resource(msgspec.Struct, frozen=True):
    """Group and plural as errors name them."""

    group: str
    plural: str

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


class StatusError(Exception):
    """An answer with ``status: Failure``. ``continue_token`` lets a client go on after an expired list."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.continue_token = continue_token

    def to_dict(self) -> dict[str, Any]:
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        if self.continue_token:
            body["metadata"] = {"continue": self.continue_token}
        if self.message:
            body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details or self.reason == "NotFound":  # kubectl debug reads them without a look
            body["details"] = self.details
        body["code"] = self.code
        return body


def success(resource: Resource, name: str, uid: str) -> dict[str, Any]:
    """The answer to a delete that left nothing to show."""
    details = {"name": name, "group": resource.group, "kind": resource.plural, "uid": uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def _details(resource: Resource, name: str, **more: Any) -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": resource.plural, **more}
    return {key: value for key, value in details.items() if value}


def not_found(resource: Resource, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{resource} "{name}" not found', _details(resource, name))


def no_such_path(asked: str = "") -> StatusError:
    """A path that this server does not serve at all.

    The real server answers with plain text there, from which Go clients make this message; ``asked`` is what
    they put in brackets: verb, resource and name.
    """
    message = "the server could not find the requested resource"
    return StatusError(404, "NotFound", f"{message} ({asked})" if asked else message, {})


def already_exists(resource: Resource, name: str) -> StatusError:
    return StatusError(409, "AlreadyExists", f'{resource} "{name}" already exists', _details(resource, name))


def conflict(resource: Resource, name: str, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, _details(resource, name))


def apply_conflict(message: str, causes: Sequence[Cause]) -> StatusError:
    """409 of server-side apply, with every field that somebody else owns."""
    return StatusError(409, "Conflict", message, {"causes": _causes(causes)})


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def forbidden(resource: Resource, name: str, why: str, causes: Sequence[Cause] = ()) -> StatusError:
    message = f'{resource} "{name}" is forbidden: {why}' if name else f"{resource} is forbidden: {why}"
    more = {"causes": _causes(causes)} if causes else {}
    return StatusError(403, "Forbidden", message, _details(resource, name, **more))


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """422 with every cause. ``causes`` is not empty."""
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    details = {"name": name, "group": group, "kind": kind, "causes": _causes(causes)}
    return StatusError(
        422,
        "Invalid",
        f'{qualified} "{name}" is invalid: {joined}',
        {key: value for key, value in details.items() if value},
    )


def bad_patch() -> StatusError:
    """A well-formed patch that does not fit the object. The real server keeps the cause to itself."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def method_not_allowed(resource: Resource | None, verb: str) -> StatusError:
    if resource is None:
        return StatusError(
            405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
        )
    message = f"{verb} is not supported on resources of kind {json.dumps(str(resource))}"
    return StatusError(405, "MethodNotAllowed", message, _details(resource, ""))


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    message = "the body of the request was in an unknown format - accepted media types include: "
    return StatusError(415, "UnsupportedMediaType", message + ", ".join(accepted))


def not_acceptable(accepted: Sequence[str]) -> StatusError:
    message = "only the following media types are accepted: " + ", ".join(accepted)
    return StatusError(406, "NotAcceptable", message)


def expired(message: str, continue_token: str = "") -> StatusError:
    """410: the revision is no longer kept; list again."""
    return StatusError(410, "Expired", message, None, continue_token)


def too_old(revision: int, oldest: int) -> StatusError:
    return expired(f"too old resource version: {revision} ({oldest})")


def too_new(revision: int, current: int) -> StatusError:
    """504: the client has seen a revision that this server has not reached."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    return StatusError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def entity_too_large(message: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", message)


def internal(message: str) -> StatusError:
    return StatusError(500, "InternalError", message)


def _causes(causes: Sequence[Cause]) -> list[dict[str, str]]:
    return [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
