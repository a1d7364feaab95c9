"""What a request asks for: path and query become values that the registry understands.

No answer is made here, except the errors of paths and parameters that make no sense.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

import msgspec

from baro.apiserver.catalogue import Catalogue, Served
from baro.apiserver.negotiation import decode, decode_json, media_type
from baro.apiserver.openapi import STRATEGIC_PATCH
from baro.apiserver.patching import Patch, apply_json_patch, apply_merge_patch, apply_strategic_patch, go_map
from baro.apiserver.registry import DeleteOptions, Window, WriteOptions
from baro.apiserver.registry.fields import check
from baro.apiserver.selectors import Selector, parse_fields, parse_labels
from baro.apiserver.status import Cause, Resource, bad_request, invalid, no_such_path, unsupported_media_type
from baro.apiserver.validation import FIELD_VALIDATION, FieldValidation


class Request(msgspec.Struct, frozen=True):
    """A request without its connection. Headers are lower-case; of a repeated query key the last counts."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""

    @classmethod
    def of(
        cls, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Request:
        path, _, query = url.partition("?")
        return cls(method, path, dict(parse_qsl(query, keep_blank_values=True)), dict(headers or {}), body)


class Target(msgspec.Struct, frozen=True):
    """The resource behind a path. ``namespace`` None means all of them; ``name`` "" means the collection."""

    served: Served
    namespace: str | None
    name: str = ""
    subresource: str = ""

    @property
    def place(self) -> str:
        """The namespace of a key: "" for cluster-scoped objects."""
        return self.namespace or ""


def find_target(path: str, catalogue: Catalogue, method: str = "") -> Target:
    """Raises 404 for a path that no served resource has."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path()
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    served = catalogue.find(group, version, rest[0])
    asked = " ".join(filter(None, [method.lower(), str(Resource(group, rest[0])), *rest[1:2]]))
    if served is None or len(rest) > 3 or not all(rest):
        raise no_such_path(asked)
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    fits = served.kind.namespaced == (namespace is not None)
    listing_everywhere = served.kind.namespaced and namespace is None and not name
    if not (fits or listing_everywhere) or (subresource and subresource not in served.subresources):
        raise no_such_path(asked)
    return Target(served, namespace if served.kind.namespaced else "", name, subresource)


# --- options ---------------------------------------------------------------------------------------------


APPLY_PATCH: Final = "application/apply-patch+yaml"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
_MAX_MANAGER: Final = 128


def patch_of(request: Request, served: Served) -> Patch:
    """The patch in a request's body. Raises 415 for kinds of patch that the resource does not take."""
    media = media_type(request.headers.get("content-type", ""))
    strategic = [STRATEGIC_PATCH] if served.builtin else []
    accepted = [JSON_PATCH, MERGE_PATCH, *strategic, APPLY_PATCH]
    if media not in accepted:
        raise unsupported_media_type(accepted)
    patch = decode_json(request.body)
    if media == JSON_PATCH:
        return Patch(lambda body: apply_json_patch(body, patch))
    if media == MERGE_PATCH:
        return Patch(lambda body: apply_merge_patch(body, patch))
    apply = partial(apply_strategic_patch, patch=patch, shape=served.shape)
    return Patch(apply, go_map(patch), converted=True)


def write_options(request: Request, kind: str = "CreateOptions") -> WriteOptions:
    """Raises 422 for values that mean nothing."""
    query = request.query
    mode = query.get("fieldValidation") or "Warn"
    if mode not in FIELD_VALIDATION:
        message = f'Unsupported value: "{mode}": supported values: "Ignore", "Strict", "Warn"'
        raise invalid("meta.k8s.io", kind, "", [Cause("FieldValueNotSupported", "fieldValidation", message)])
    checked: FieldValidation = next(known for known in FIELD_VALIDATION if known == mode)
    applying = media_type(request.headers.get("content-type", "")) == APPLY_PATCH
    manager = query.get("fieldManager", "")
    if len(manager) > _MAX_MANAGER:
        message = f"Too long: may not be more than {_MAX_MANAGER} bytes"
        raise invalid("meta.k8s.io", kind, "", [Cause("FieldValueTooLong", "fieldManager", message)])
    if applying and not manager:
        message = "Required value: is required for apply patch"
        raise invalid("meta.k8s.io", kind, "", [Cause("FieldValueRequired", "fieldManager", message)])
    if "force" in query and not applying and kind == "PatchOptions":
        message = "Forbidden: may not be specified for non-apply patch"
        raise invalid("meta.k8s.io", kind, "", [Cause("FieldValueForbidden", "force", message)])
    return WriteOptions(
        dry_run=_dry_run(query.get("dryRun"), kind),
        field_validation=checked,
        manager=manager or _manager(request.headers.get("user-agent", "")),
        force=flag(query, "force"),
    )


def _manager(user_agent: str) -> str:
    """The name of a writer that gives none: its program, as the User-Agent calls it."""
    return user_agent.partition("/")[0][:_MAX_MANAGER] or "unknown"


def delete_options(request: Request) -> DeleteOptions:
    """From the ``DeleteOptions`` in the body, else from the query. Raises 400, 415 and 422."""
    query, content_type = request.query, request.headers.get("content-type", "")
    given: Any = decode(request.body, content_type, "DeleteOptions") if request.body.strip() else {}
    if not isinstance(given, Mapping) or given.get("kind") not in (None, "", "DeleteOptions"):
        raise bad_request("the body of a delete must be DeleteOptions")
    preconditions = given.get("preconditions") or {}
    if not isinstance(preconditions, Mapping):
        raise bad_request("preconditions must be an object")
    dry_run = given.get("dryRun") or []
    orphan = given.get("orphanDependents", query.get("orphanDependents"))
    propagation = given.get("propagationPolicy") or query.get("propagationPolicy")
    if not propagation:
        propagation = "Orphan" if orphan in (True, "true") else "Background"
    grace = given.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    return DeleteOptions(
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
        propagation=str(propagation),
        grace_period=_integer("gracePeriodSeconds", grace),
        dry_run=_dry_run(
            dry_run[0] if isinstance(dry_run, list) and dry_run else query.get("dryRun"), "DeleteOptions"
        ),
    )


def _dry_run(value: Any, kind: str) -> bool:
    if value in (None, ""):
        return False
    if value != "All":
        message = f'Unsupported value: "{value}": supported values: "All"'
        raise invalid("meta.k8s.io", kind, "", [Cause("FieldValueNotSupported", "dryRun", message)])
    return True


def list_window(query: Mapping[str, str], served: Served) -> Window:
    """Raises 400 for selectors, limits and revisions that cannot be read."""
    revision = query.get("resourceVersion", "")
    limit = _integer("limit", query.get("limit")) or 0
    return Window(
        selector=selector(query, served),
        limit=max(limit, 0),
        continue_token=query.get("continue", ""),
        revision=parse_revision(revision),
        match=query.get("resourceVersionMatch", ""),
    )


def selector(query: Mapping[str, str], served: Served) -> Selector:
    fields = parse_fields(query.get("fieldSelector", ""))
    return Selector(parse_labels(query.get("labelSelector", "")), check(served, fields))


def parse_revision(text: str) -> int | None:
    """None for the empty text. Raises 422 for what is no number."""
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        message = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise invalid(
            "meta.k8s.io", "ListOptions", "", [Cause("FieldValueInvalid", "resourceVersion", message)]
        )
    return int(text)


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean parameter: absent, empty, ``0`` and ``false`` are false."""
    return query.get(name, "").lower() not in ("", "0", "false")


def timeout_seconds(query: Mapping[str, str], default: float) -> float:
    given = _integer("timeoutSeconds", query.get("timeoutSeconds"))
    return float(given) if given else default


def _integer(name: str, raw: Any) -> int | None:
    if raw in (None, ""):
        return None
    try:
        return int(raw)
    except (TypeError, ValueError):
        raise bad_request(f'{name}: strconv.ParseInt: parsing "{raw}": invalid syntax') from None


Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]

_ON_COLLECTION: Final[dict[str, Verb]] = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_ON_OBJECT: Final[dict[str, Verb]] = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def find_verb(request: Request, target: Target) -> Verb | None:
    """The API verb of a request; None when the path does not take its method."""
    method = "GET" if request.method == "HEAD" else request.method
    if target.subresource in ("binding", "finalize"):
        allowed: dict[str, Verb] = (
            {"POST": "create"} if target.subresource == "binding" else {"PUT": "update"}
        )
        return allowed.get(method)
    if target.name:
        verb = _ON_OBJECT.get(method)
        if verb == "get" and flag(request.query, "watch"):
            return "watch"
        return None if target.subresource and verb == "delete" else verb
    if target.namespace is None and method != "GET":
        return None
    verb = _ON_COLLECTION.get(method)
    return "watch" if verb == "list" and flag(request.query, "watch") else verb
