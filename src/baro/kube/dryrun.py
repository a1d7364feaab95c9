"""What a live API server says to an object, without storing it: ``dryRun=All``, ``fieldValidation=Strict``.

An object that exists already is updated instead of created, with the resource version that the server has.
Nothing is changed in the cluster; the rights needed are those of the real write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from baro.kube.client import KubeClient
from baro.kube.routes import Route
from baro.model.schema import find_kind

_PARAMS: Final = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "baro-lint"}
_ALREADY: Final = 409
_FORBIDDEN: Final = (401, 403)
_NOT_FOUND: Final = 404


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. ``accepted`` is None where the server did not judge; ``message`` says why."""

    accepted: bool | None
    message: str = ""
    code: int = 0
    warnings: tuple[str, ...] = ()


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""


class _Versioned(msgspec.Struct):
    metadata: dict[str, Any] = {}


def dry_run(client: KubeClient, body: Mapping[str, Any], namespace: str) -> DryRun:
    """Asks the server. ``namespace`` is for namespaced objects that name none.

    Raises ``UnreachableError`` when it does not answer.
    """
    api_version, kind_name = str(body.get("apiVersion", "")), str(body.get("kind", ""))
    kind = find_kind(api_version, kind_name)
    if kind is None:
        return DryRun(accepted=None, message=f"baro does not know where {api_version} {kind_name} is served")
    route = Route(api_version, kind.plural, kind.namespaced)
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    space = str(metadata.get("namespace") or namespace) if kind.namespaced else ""
    name = str(metadata.get("name") or "")
    answer, reason = _send(client, "POST", route, route.path(space), body)
    if answer.code == _ALREADY and reason == "AlreadyExists" and name:
        return _update(client, route, route.path(space, name), body)
    return answer


def _update(client: KubeClient, route: Route, path: str, body: Mapping[str, Any]) -> DryRun:
    answer, _, content = _ask(client, "GET", route, path, None)
    if answer.accepted is not True:
        why = f"the object exists, and it cannot be read for an update: {answer.message}"
        return DryRun(accepted=None, message=why, code=answer.code)
    version = msgspec.json.decode(content, type=_Versioned).metadata.get("resourceVersion", "")
    metadata = {**(body.get("metadata") or {}), "resourceVersion": version}
    answer, _ = _send(client, "PUT", route, path, {**body, "metadata": metadata})
    return answer


def _send(
    client: KubeClient, method: str, route: Route, path: str, body: Mapping[str, Any] | None
) -> tuple[DryRun, str]:
    answer, reason, _ = _ask(client, method, route, path, body)
    return answer, reason


def _ask(
    client: KubeClient, method: str, route: Route, path: str, body: Mapping[str, Any] | None
) -> tuple[DryRun, str, bytes]:
    content = msgspec.json.encode(body) if body is not None else None
    headers = {"Accept": "application/json"}
    if content is not None:
        headers["Content-Type"] = "application/json"
    verb = {"POST": "create", "PUT": "update", "GET": "get"}[method]
    with client._mapped(verb, route):
        params = _PARAMS if method != "GET" else {}
        response = client._http.request(method, path, params=params, content=content, headers=headers)
    warnings = tuple(_warning(text) for text in response.headers.get_list("Warning"))
    if response.status_code < 400:
        return DryRun(accepted=True, code=response.status_code, warnings=warnings), "", response.content
    try:
        status = msgspec.json.decode(response.content, type=_Status)
    except msgspec.DecodeError:
        status = _Status(message=response.text[:200].strip() or response.reason_phrase)
    accepted: bool | None = False
    message = status.message or response.reason_phrase
    if response.status_code in _FORBIDDEN:
        accepted = None
        message = f"not allowed to {verb} {route.resource} there: {message}"
    elif response.status_code == _NOT_FOUND and method == "POST":
        message = f"{route.api_version} {route.plural} is not served, or the namespace is missing: {message}"
    elif response.status_code >= 500 or response.status_code == 429:
        accepted = None
    return (
        DryRun(accepted=accepted, message=message, code=response.status_code, warnings=warnings),
        status.reason,
        b"",
    )


def _warning(header: str) -> str:
    """The text of a ``Warning: 299 - "…"`` header."""
    first, last = header.find('"'), header.rfind('"')
    return header[first + 1 : last].replace('\\"', '"') if 0 <= first < last else header
