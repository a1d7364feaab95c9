"""The web face: a Starlette application around :class:`~baro.apiserver.handling.Handler`.

It reads bodies up to a limit, hands requests over, and keeps watches open. Every path goes through one
endpoint, so that nothing is ever answered by the framework instead of the API.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from baro.apiserver.catalogue import Catalogue
from baro.apiserver.handling import Answer, Handler, Watch
from baro.apiserver.negotiation import JSON, encode
from baro.apiserver.registry import Registry
from baro.apiserver.registry.naming import Clock, utc_now
from baro.apiserver.requests import Request
from baro.apiserver.status import StatusError, entity_too_large, internal
from baro.apiserver.storage import MemoryStore, Store
from baro.model.validation.rules import DEFAULT_KUBE_VERSION

BODY_LIMIT: Final = 3 * 1024 * 1024
"""Bytes of a request body; the real server has the same limit."""
BOOKMARK_SECONDS: Final = 60.0
"""A quiet watch that allows bookmarks gets one this often."""
_DRAIN_LIMIT: Final = 64 * 1024 * 1024
"""So much of an over-long body is read and dropped, so that the client hears the answer."""


def create_app(
    *,
    store: Store | None = None,
    catalogue: Catalogue | None = None,
    kube_version: str = DEFAULT_KUBE_VERSION,
    clock: Clock = utc_now,
    random: Random | None = None,
    bookmark_seconds: float = BOOKMARK_SECONDS,
) -> Starlette:
    """The API server as an ASGI application. ``app.state.registry`` is its registry, for calls from within.

    ``clock`` gives creation times and ages, ``random`` UIDs and generated names; fixed ones make answers
    reproducible. Objects live in ``store``, by default in memory and only as long as the application.
    ``kube_version`` (1.34 to 1.37) is the Kubernetes whose kinds, fields and rules apply.
    """
    registry = Registry(
        store if store is not None else MemoryStore(),
        catalogue=catalogue if catalogue is not None else Catalogue(kube_version=kube_version),
        clock=clock,
        random=random,
    )
    watches = OpenWatches()
    endpoint = _Endpoint(Handler(registry, clock=clock), watches, bookmark_seconds)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        watches.open()
        yield
        watches.end()

    app = Starlette(routes=[Route("/{path:path}", endpoint)], lifespan=lifespan)
    app.state.registry = registry
    app.state.watches = watches
    return app


class OpenWatches:
    """Tells every open watch to end, which is what lets the server stop at once."""

    def __init__(self) -> None:
        self.ending = False
        self._wakers: set[asyncio.Event] = set()

    def open(self) -> None:
        self.ending = False

    def end(self) -> None:
        """To be called in the event loop of the server."""
        self.ending = True
        for waker in self._wakers:
            waker.set()

    @contextlib.contextmanager
    def registered(self, waker: asyncio.Event) -> Iterator[None]:
        self._wakers.add(waker)
        try:
            yield
        finally:
            self._wakers.discard(waker)


class _Endpoint:
    """An ASGI application: one request, one answer or one watch."""

    def __init__(self, handler: Handler, watches: OpenWatches, bookmark_seconds: float) -> None:
        self._handler = handler
        self._watches = watches
        self._bookmark_seconds = bookmark_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await _read_body(receive)
        except StatusError as error:
            await _respond(Answer(error.code, encode(error.to_dict(), JSON)), scope, receive, send)
            return
        if body is None:
            return  # the client has gone
        try:
            answer = self._handler.answer(_request(scope, body))
        except Exception:  # whatever went wrong here, the client gets a Status; then the server's log gets it
            failed = internal("Internal error occurred: see the log of the server")
            await _respond(Answer(failed.code, encode(failed.to_dict(), JSON)), scope, receive, send)
            raise
        if isinstance(answer, Watch):
            await self._watch(answer, receive, send)
        else:
            await _respond(answer, scope, receive, send)

    async def _watch(self, watch: Watch, receive: Receive, send: Send) -> None:
        waker, loop = asyncio.Event(), asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed by the time a late writer calls
                loop.call_soon_threadsafe(waker.set)

        unsubscribe = self._handler.registry.store.subscribe(wake)
        gone = asyncio.ensure_future(_disconnected(receive))
        gone.add_done_callback(lambda _task: waker.set())
        try:
            with self._watches.registered(waker):
                await _start_stream(watch, send)
                await _send_frames(send, watch.state.start())
                await self._follow(watch, waker, gone, send)
            if not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:
            return  # the client went away while being written to
        finally:
            unsubscribe()
            gone.cancel()

    async def _follow(
        self, watch: Watch, waker: asyncio.Event, gone: asyncio.Future[None], send: Send
    ) -> None:
        """Sends changes as they come, until the client, the server or the time asks for the end."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + watch.timeout
        next_bookmark = loop.time() + self._bookmark_seconds
        while not (gone.done() or self._watches.ending):
            waker.clear()
            await _send_frames(send, watch.state.step())
            if watch.state.ended:
                return
            now = loop.time()
            if watch.bookmarks and now >= min(next_bookmark, deadline):
                await _send_frames(send, iter([watch.state.bookmark()]))
                next_bookmark = now + self._bookmark_seconds
            if now >= deadline:
                return
            until = min(deadline, next_bookmark) if watch.bookmarks else deadline
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(waker.wait(), max(until - now, 0.0))


# --- ASGI ------------------------------------------------------------------------------------------------


def _request(scope: Scope, body: bytes) -> Request:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = scope.get("query_string", b"").decode("latin-1")
    return Request.of(scope["method"], f"{scope['path']}?{query}", body, headers)


async def _read_body(receive: Receive) -> bytes | None:
    """The whole body, or None when the client went away. Raises 413."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size <= BODY_LIMIT:
            chunks.append(chunk)
        if size > _DRAIN_LIMIT or not message.get("more_body", False):
            break
    if size > BODY_LIMIT:
        raise entity_too_large(f"Request entity too large: limit is {BODY_LIMIT}")
    return b"".join(chunks)


async def _respond(answer: Answer, scope: Scope, receive: Receive, send: Send) -> None:
    response = Response(
        answer.body,
        answer.status,
        headers={"content-type": answer.content_type, "cache-control": "no-cache, private"},
    )
    for name, value in answer.headers:
        response.headers.append(name, value)
    await response(scope, receive, send)


async def _start_stream(watch: Watch, send: Send) -> None:
    pairs = (("content-type", JSON), ("cache-control", "no-cache, private"), *watch.headers)
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _send_frames(send: Send, frames: Iterator[dict[str, Any]]) -> None:
    for frame in frames:
        line = msgspec.json.encode(frame) + b"\n"
        await send({"type": "http.response.body", "body": line, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
