"""From a request to an answer, without a connection: everything the server does except waiting.

:meth:`Handler.answer` is a plain function of the request and the objects, which is how most tests call it.
A watch comes back as a :class:`Watch`, for ``serving`` to send.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from baro.apiserver import discovery, openapi, openapi2, reviews
from baro.apiserver.catalogue import SCALE, SCALED, Served
from baro.apiserver.negotiation import JSON, YAML, Wanted, choose, decode, encode, media_type
from baro.apiserver.registry import (
    Page,
    Registry,
    Window,
    WriteOptions,
    patch_scale,
    read_scale,
    update_scale,
)
from baro.apiserver.registry.naming import Clock, utc_now
from baro.apiserver.registry.strategy import NAMESPACES
from baro.apiserver.registry.versions import from_stored
from baro.apiserver.requests import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    Request,
    Target,
    Verb,
    delete_options,
    find_target,
    find_verb,
    flag,
    list_window,
    parse_revision,
    patch_of,
    selector,
    timeout_seconds,
    write_options,
)
from baro.apiserver.status import (
    StatusError,
    bad_request,
    method_not_allowed,
    success,
    unsupported_media_type,
)
from baro.apiserver.storage import Record
from baro.apiserver.tables import partial_metadata, table
from baro.apiserver.warnings import deprecation, headers
from baro.apiserver.watching import WatchOptions, WatchState, check_options

Body = dict[str, Any]

DEFAULT_WATCH_SECONDS: Final = 1800.0
_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})


class Answer(msgspec.Struct, frozen=True):
    """A complete response."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


class Watch(msgspec.Struct, frozen=True):
    """A response that goes on: frames of ``state``, each one line of JSON."""

    state: WatchState
    timeout: float
    bookmarks: bool
    headers: tuple[tuple[str, str], ...] = ()


class Handler:
    """Answers requests out of a registry."""

    def __init__(self, registry: Registry, *, clock: Clock = utc_now) -> None:
        self.registry = registry
        self.catalogue = registry.catalogue
        self._clock = clock

    def answer(self, request: Request) -> Answer | Watch:
        """Never raises for what a client sent: errors become Status answers."""
        try:
            plain = self._plain(request)
            return plain if plain is not None else self._resource(request)
        except StatusError as error:
            return Answer(error.code, encode(error.to_dict(), JSON))

    # --- paths without resources --------------------------------------------------------------------------

    def _plain(self, request: Request) -> Answer | None:
        path = request.path.rstrip("/") or "/"
        if path in _HEALTH or path.startswith(("/livez/", "/readyz/", "/healthz/")):
            self._only_get(request)
            return Answer(200, b"ok", "text/plain; charset=utf-8")
        if path == "/openapi/v2":
            self._only_get(request)
            if openapi2.wants_protobuf(request.headers.get("accept", "")):
                return Answer(200, openapi2.protobuf(self.catalogue), openapi2.MEDIA)
            return Answer(200, encode(openapi2.document(self.catalogue), JSON))
        review = reviews.find_review(path)
        if review is not None:
            return self._review(review, request)
        found = self._document(path, request)
        if found is None:
            return None
        self._only_get(request)
        wanted = choose(request.headers.get("accept", ""), discovery=True)
        if wanted.form and path in ("/api", "/apis"):
            found = discovery.aggregated(self.catalogue, core=path == "/api")
        else:
            wanted = Wanted(wanted.media)
        return Answer(200, encode(found, wanted.media), wanted.content_type)

    @staticmethod
    def _review(review: reviews.Review, request: Request) -> Answer:
        if request.method != "POST":
            raise method_not_allowed(None, request.method)
        wanted = choose(request.headers.get("accept", ""))
        body = decode(request.body, request.headers.get("content-type", ""), review.kind)
        return Answer(201, encode(reviews.answer(review, body), wanted.media), wanted.media)

    def _document(self, path: str, request: Request) -> Body | None:
        match path.strip("/").split("/"):
            case ["version"]:
                return discovery.version(self.catalogue.kube_version)
            case [""]:
                return {"paths": self._paths()}
            case ["api"]:
                return discovery.api_versions(request.headers.get("host", ""))
            case ["apis"]:
                return discovery.group_list(self.catalogue)
            case ["apis", group]:
                return discovery.api_group(self.catalogue, group)
            case ["api", version]:
                return discovery.resource_list(self.catalogue, "", version)
            case ["apis", group, version]:
                return discovery.resource_list(self.catalogue, group, version)
            case ["openapi", "v3", *rest]:
                return self._openapi(rest)
        return None

    def _openapi(self, rest: list[str]) -> Body | None:
        match rest:
            case []:
                return openapi.index(self.catalogue)
            case ["api", version]:
                return openapi.document(self.catalogue, "", version)
            case ["apis", group, version]:
                return openapi.document(self.catalogue, group, version)
        return None

    def _paths(self) -> list[str]:
        versions = self.catalogue.group_versions()
        groups = [f"/apis/{group}/{version}" if group else f"/api/{version}" for group, version in versions]
        return ["/api", "/apis", *groups, *sorted(_HEALTH), "/openapi/v3", "/version"]

    @staticmethod
    def _only_get(request: Request) -> None:
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed(None, request.method)

    # --- resources ----------------------------------------------------------------------------------------

    def _resource(self, request: Request) -> Answer | Watch:
        target = find_target(request.path, self.catalogue, request.method)
        verb = find_verb(request, target)
        if verb is None:
            raise method_not_allowed(None, request.method)
        old = deprecation(target.served)
        warnings = headers([old] if old else [])
        handle: dict[Verb, Callable[[Request, Target], Answer | Watch]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._bind if target.subresource == "binding" else self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }
        try:
            answer = (self._scale if target.subresource == "scale" else handle[verb])(request, target)
        except StatusError as error:
            answer = Answer(error.code, encode(error.to_dict(), JSON))
        return msgspec.structs.replace(answer, headers=warnings + answer.headers)

    def _get(self, request: Request, target: Target) -> Answer:
        wanted = choose(request.headers.get("accept", ""))
        record = self.registry.get(target.served, target.place, target.name)
        return self._one(target.served, record.body(), wanted, request)

    def _list(self, request: Request, target: Target) -> Answer:
        wanted = choose(request.headers.get("accept", ""))
        page = self.registry.list(target.served, target.namespace, list_window(request.query, target.served))
        return Answer(200, self._encode_page(target.served, page, wanted, request), wanted.content_type)

    def _watch(self, request: Request, target: Target) -> Watch:
        wanted = choose(request.headers.get("accept", ""))
        chosen = selector(request.query, target.served)
        if target.name:
            named = msgspec.structs.replace(
                chosen.fields, terms=(*chosen.fields.terms, ("metadata.name", True, target.name))
            )
            chosen = msgspec.structs.replace(chosen, fields=named)
        initial = request.query.get("sendInitialEvents")
        options = WatchOptions(
            selector=chosen,
            revision=parse_revision(request.query.get("resourceVersion", "")),
            match=request.query.get("resourceVersionMatch", ""),
            send_initial_events=None if initial is None else flag(request.query, "sendInitialEvents"),
            bookmarks=flag(request.query, "allowWatchBookmarks"),
            timeout=timeout_seconds(request.query, DEFAULT_WATCH_SECONDS),
        )
        check_options(options, self.registry.store)
        render = self._renderer(target.served, wanted, request)
        state = WatchState(self.registry.store, target.served, target.namespace, options, render)
        return Watch(state, options.timeout, options.bookmarks)

    def _renderer(self, served: Served, wanted: Wanted, request: Request) -> Callable[[Record], Body]:
        """How a watch shows a record. The column definitions go out with the first Table only."""
        first = True

        def render(record: Record) -> Body:
            nonlocal first
            body = self._shown(served, record.body(), wanted, request, headers=first)
            first = False
            return body

        return render

    def _create(self, request: Request, target: Target) -> Answer:
        if target.name:
            raise method_not_allowed(target.served.resource, "create")
        wanted = choose(request.headers.get("accept", ""))
        options = write_options(request)
        body = self._body(request, target.served)
        created = self.registry.create(target.served, target.place, body, options)
        answer = self._one(target.served, created, wanted, request, status=201)
        return msgspec.structs.replace(answer, headers=headers(options.warnings))

    def _bind(self, request: Request, target: Target) -> Answer:
        body = self._body(request, target.served)
        options = write_options(request)
        self.registry.bind(target.place, target.name, body, dry_run=options.dry_run)
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return Answer(201, encode(status, JSON))

    def _update(self, request: Request, target: Target) -> Answer:
        wanted = choose(request.headers.get("accept", ""))
        options = write_options(request, "UpdateOptions")
        body = self._body(request, target.served)
        key = (target.place, target.name)
        updated, created = self.registry.update(target.served, key, body, options, target.subresource)
        answer = self._one(target.served, updated, wanted, request, status=201 if created else 200)
        return msgspec.structs.replace(answer, headers=headers(options.warnings))

    def _patch(self, request: Request, target: Target) -> Answer:
        wanted = choose(request.headers.get("accept", ""))
        options = write_options(request, "PatchOptions")
        if media_type(request.headers.get("content-type", "")) == APPLY_PATCH:
            return self._apply(request, target, options, wanted)
        patch = patch_of(request, target.served)
        key = (target.place, target.name)
        patched = self.registry.patch(target.served, key, patch, options, target.subresource)
        answer = self._one(target.served, patched, wanted, request)
        return msgspec.structs.replace(answer, headers=headers(options.warnings))

    def _apply(self, request: Request, target: Target, options: WriteOptions, wanted: Wanted) -> Answer:
        config = decode(request.body, YAML, target.served.kind.kind)
        key = (target.place, target.name)
        applied, created = self.registry.apply(target.served, key, config, options, target.subresource)
        answer = self._one(target.served, applied, wanted, request, status=201 if created else 200)
        return msgspec.structs.replace(answer, headers=headers(options.warnings))

    def _delete(self, request: Request, target: Target) -> Answer:
        wanted = choose(request.headers.get("accept", ""))
        options = delete_options(request)
        body, gone = self.registry.delete(target.served, target.place, target.name, options)
        if gone and not _shows_deleted(target.served):
            status = success(target.served.resource, target.name, str(body["metadata"].get("uid", "")))
            return Answer(200, encode(status, wanted.media), wanted.media)
        return self._one(target.served, body, wanted, request)

    def _delete_collection(self, request: Request, target: Target) -> Answer:
        wanted = choose(request.headers.get("accept", ""))
        if target.served.key == NAMESPACES:
            raise method_not_allowed(target.served.resource, "deletecollection")
        options = delete_options(request)
        window = Window(selector=selector(request.query, target.served))
        page = self.registry.list(target.served, target.namespace, window)
        for record in page.records:
            try:
                self.registry.delete(target.served, record.key.namespace, record.key.name, options)
            except StatusError as error:
                if error.code != 404:
                    raise
        return Answer(200, self._encode_page(target.served, page, wanted, request), wanted.content_type)

    def _scale(self, request: Request, target: Target) -> Answer:
        """The ``scale`` subresource of a custom kind: get, update and patch."""
        wanted = choose(request.headers.get("accept", ""))
        key = (target.place, target.name)
        options = WriteOptions()
        if request.method in ("GET", "HEAD"):
            scale = read_scale(self.registry, target.served, *key)
        elif request.method == "PUT":
            options = write_options(request, "UpdateOptions")
            body = decode(request.body, request.headers.get("content-type", ""), SCALE.kind)
            scale = update_scale(self.registry, target.served, key, body, options)
        else:
            options = write_options(request, "PatchOptions")
            if media_type(request.headers.get("content-type", "")) == APPLY_PATCH:
                raise unsupported_media_type([JSON_PATCH, MERGE_PATCH])
            patch = patch_of(request, SCALED)
            scale = patch_scale(self.registry, target.served, key, patch, options)
        answer = self._one(SCALED, scale, wanted, request)
        return msgspec.structs.replace(answer, headers=headers(options.warnings))

    # --- bodies -------------------------------------------------------------------------------------------

    @staticmethod
    def _body(request: Request, served: Served) -> Any:
        return decode(request.body, request.headers.get("content-type", ""), served.kind.kind)

    def _one(
        self, served: Served, stored: Body, wanted: Wanted, request: Request, *, status: int = 200
    ) -> Answer:
        body = self._shown(served, stored, wanted, request)
        return Answer(status, encode(body, wanted.media), wanted.content_type)

    def _shown(
        self, served: Served, stored: Body, wanted: Wanted, request: Request, *, headers: bool = True
    ) -> Body:
        if wanted.form == "Table":
            return self._table(served, [stored], request, {}, headers=headers)
        if wanted.form:
            return partial_metadata(stored)
        return from_stored(stored, served)

    def _table(
        self, served: Served, stored: list[Body], request: Request, metadata: Body, *, headers: bool = True
    ) -> Body:
        include = request.query.get("includeObject", "Metadata")
        if include not in ("None", "Metadata", "Object"):
            raise bad_request(f"unrecognized includeObject value: {include}")
        now: datetime = self._clock()
        seen = include == "Object" or served.custom is not None
        bodies = [from_stored(body, served) for body in stored] if seen else stored
        if not metadata and len(stored) == 1:
            metadata = {"resourceVersion": stored[0]["metadata"].get("resourceVersion", "")}
        return table(served, bodies, now=now, metadata=metadata, include=include, headers=headers)

    def _encode_page(self, served: Served, page: Page, wanted: Wanted, request: Request) -> bytes:
        metadata: Body = {"resourceVersion": str(page.revision)}
        if page.continue_token:
            metadata["continue"] = page.continue_token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
        head: Body = {
            "kind": f"{served.kind.kind}List",
            "apiVersion": served.kind.api_version,
            "metadata": metadata,
        }
        if not wanted.form and wanted.media == JSON and served.verbatim:
            # The stored bytes are what the client wants: nothing is decoded.
            start = msgspec.json.encode(head)[:-1]
            return start + b',"items":[' + b",".join([record.data for record in page.records]) + b"]}"
        bodies = [record.body() for record in page.records]
        if wanted.form == "Table":
            return encode(self._table(served, bodies, request, metadata), wanted.media)
        if wanted.form:
            head = {**head, "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
            items = [partial_metadata(body) for body in bodies]
        else:
            items = [from_stored(body, served) for body in bodies]
        return encode({**head, "items": items}, wanted.media)


def _shows_deleted(served: Served) -> bool:
    """Whether a delete answers with the object instead of a Status, as the real server does for these."""
    return served.kind.group == "resource.k8s.io" or served.kind.plural in (
        "pods",
        "namespaces",
        "serviceaccounts",
    )
