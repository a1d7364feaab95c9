"""``KubeApi`` over HTTP: lightkube finds the server and authenticates, msgspec decodes into our own Structs.

lightkube's models, lists and watches are not used: they know no bookmarks, and its model classes would be
a second set of kinds. Every failure leaves here as an error of baro's tree: a refused call names verb and
resource, a silent server its URL. Nothing is retried here; the watch machine and the reconcile loop do.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar

import httpx2
import msgspec
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ConfigError

from baro.kube import config as kubeconfig
from baro.kube.api import EventType, Listed, WatchEvent
from baro.kube.errors import GoneError, from_status
from baro.kube.routes import Route, route
from baro.model.errors import BaroError, InputError, UnreachableError, Where
from baro.model.kinds.base import KubeObject
from baro.model.names import FIELD_MANAGER

T = TypeVar("T", bound=KubeObject)

PAGE = 500
"""Objects asked for in one page of a list, as kubectl does."""
LIST_RESTARTS = 3
"""How often a list begins again because its continue token expired under way."""


class _Status(msgspec.Struct, rename="camel"):
    code: int | None = None
    reason: str | None = None
    message: str | None = None


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, Generic[T]):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[T] | None = None


class _Line(msgspec.Struct):
    type: EventType
    object: msgspec.Raw


class _Versioned(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class KubeClient:
    """One server. Safe to use from several threads at once; ``close`` when done.

    ``timeout_s`` bounds each call except an open watch, which ends by the server's own timeout.
    ``transport`` is the seam for tests: what carries the requests instead of sockets.
    """

    def __init__(
        self,
        config: SingleConfig,
        *,
        timeout_s: float = 15.0,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self.url = config.cluster.server
        self.namespace = config.namespace
        self._timeout_s = timeout_s
        timeout = httpx2.Timeout(timeout_s)
        try:
            self._http = client_adapter.Client(
                config, client_adapter.ConnectionParams(timeout=timeout, transport=transport)
            )
        except (ConfigError, OSError, ValueError) as error:  # a certificate that is no certificate, a bad URL
            raise InputError(
                f"the credentials for {self.url} cannot be used: {error}",
                where=Where(file=str(config.fname) if config.fname else None),
            ) from error
        self._http.headers["User-Agent"] = "baro"

    @classmethod
    def connect(
        cls,
        *,
        url: str | None = None,
        kubeconfig_path: str | None = None,
        context: str | None = None,
        timeout_s: float = 15.0,
    ) -> KubeClient:
        """A client by kubectl's rules (see ``baro.kube.config``). Does not call the server yet."""
        return cls(kubeconfig.load(url=url, kubeconfig=kubeconfig_path, context=context), timeout_s=timeout_s)

    def __enter__(self) -> KubeClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections; open watches end."""
        self._http.close()

    # --- reading -------------------------------------------------------------------------------------------

    def get(self, kind: type[T], namespace: str, name: str) -> T:
        """See ``KubeApi.get``."""
        r = route(kind)
        body = self._send("get", "GET", r, r.path(namespace, name), namespace, name)
        return self._object(kind, body)

    def list(
        self, kind: type[T], namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Listed[T]:
        """See ``KubeApi.list``."""
        params = {"labelSelector": label_selector, "fieldSelector": field_selector}
        params = {name: value for name, value in params.items() if value}
        for attempt in range(LIST_RESTARTS + 1):
            try:
                return self._list_once(kind, namespace, params)
            except GoneError:  # the continue token expired: what was read is no consistent list
                if attempt == LIST_RESTARTS:
                    raise
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def _list_once(self, kind: type[T], namespace: str, params: Mapping[str, str]) -> Listed[T]:
        r = route(kind)
        items: list[T] = []
        token = ""
        while True:
            query = {**params, "limit": str(PAGE), **({"continue": token} if token else {})}
            body = self._send("list", "GET", r, r.path(namespace), namespace, "", params=query)
            page = self._decode(_Page[kind], body)  # type: ignore[valid-type]
            items += page.items or []
            token = page.metadata.continue_
            if not token:
                return Listed(tuple(items), page.metadata.resource_version)

    def watch(
        self, kind: type[T], namespace: str = "", *, resource_version: str, timeout_s: int = 300
    ) -> HttpWatch[T]:
        """See ``KubeApi.watch``."""
        r = route(kind)
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_s),
        }
        # The server ends the watch at timeout_s; a read that lasts much longer means that it is gone.
        timeout = httpx2.Timeout(self._timeout_s, read=timeout_s + 30)
        with self._mapped("watch", r):
            request = self._http.build_request("GET", r.path(namespace), params=params, timeout=timeout)
            response = self._http.send(request, stream=True)
            if response.status_code >= 400:
                response.read()
                raise self._refusal(response, "watch", r, namespace, "")
        return HttpWatch(self, response, kind, r)

    def read_until(
        self,
        path: str,
        *,
        params: Mapping[str, str],
        verb: str,
        resource: Route,
        until: float,
        accept: str = "application/json",
        enough: Callable[[bytes], bool] | None = None,
    ) -> bytes:
        """The body of one GET, given up at ``until`` (by ``time.monotonic``) however slowly bytes trickle in.

        For readers with a deadline of their own. ``UnreachableError`` when the time is over. ``enough`` is
        shown each piece of a good answer as it comes; once it says so, the rest is not read.
        """
        pieces: list[bytes] = []
        left = until - time.monotonic()
        with self._mapped(verb, resource):
            if left <= 0:
                raise TimeoutError("no time left")
            request = self._http.build_request(
                "GET", path, params=params, headers={"Accept": accept}, timeout=left
            )
            try:
                response = self._http.send(request, stream=True)
            except httpx2.ConnectError:  # nothing was sent: a busy server may drop a handshake
                if time.monotonic() > until:
                    raise
                response = self._http.send(request, stream=True)
            try:
                for piece in response.iter_bytes():
                    pieces.append(piece)
                    if enough is not None and response.status_code < 400 and enough(piece):
                        break
                    if time.monotonic() > until:
                        raise TimeoutError("the answer comes too slowly")
            finally:
                response.close()
        body = b"".join(pieces)
        if response.status_code >= 400:
            raise self._refused(body, response, verb, resource)
        return body

    # --- writing -------------------------------------------------------------------------------------------

    def create(
        self,
        kind: type[T],
        namespace: str,
        body: T | Mapping[str, Any],
        *,
        subresource: tuple[str, str] | None = None,
    ) -> T:
        """See ``KubeApi.create``."""
        r = route(kind)
        name, part = subresource or ("", None)
        answer = self._send("create", "POST", r, r.path(namespace, name, part), namespace, name, body=body)
        if subresource is not None:  # a binding answers with a Status, not with the pod
            return kind()
        return self._object(kind, answer)

    def replace(self, kind: type[T], namespace: str, name: str, body: T | Mapping[str, Any]) -> T:
        """See ``KubeApi.replace``."""
        r = route(kind)
        answer = self._send("update", "PUT", r, r.path(namespace, name), namespace, name, body=body)
        return self._object(kind, answer)

    def patch_merge(
        self,
        kind: type[T],
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        subresource: str | None = None,
    ) -> T:
        """See ``KubeApi.patch_merge``."""
        r = route(kind)
        path = r.path(namespace, name, subresource)
        answer = self._send(
            "patch", "PATCH", r, path, namespace, name, body=body, media="application/merge-patch+json"
        )
        return self._object(kind, answer)

    def delete(
        self,
        kind: type[T],
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_s: int | None = None,
    ) -> None:
        """See ``KubeApi.delete``."""
        r = route(kind)
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        conditions = {"uid": uid, "resourceVersion": resource_version}
        if any(conditions.values()):
            body["preconditions"] = {key: value for key, value in conditions.items() if value}
        if grace_period_s is not None:
            body["gracePeriodSeconds"] = grace_period_s
        self._send("delete", "DELETE", r, r.path(namespace, name), namespace, name, body=body)

    # --- how -----------------------------------------------------------------------------------------------

    def _send(  # noqa: PLR0913 - the parts of one HTTP call, used only here
        self,
        verb: str,
        method: str,
        r: Route,
        path: str,
        namespace: str,
        name: str,
        *,
        params: Mapping[str, str] | None = None,
        body: KubeObject | Mapping[str, Any] | None = None,
        media: str = "application/json",
    ) -> bytes:
        content = None
        headers = {"Accept": "application/json"}
        query = dict(params or {})
        if body is not None:
            plain = body.to_dict() if isinstance(body, KubeObject) else body
            content = msgspec.json.encode(plain)
            headers["Content-Type"] = media
            if method != "DELETE":
                query["fieldManager"] = FIELD_MANAGER
        with self._mapped(verb, r):
            response = self._http.request(method, path, params=query, content=content, headers=headers)
        if response.status_code >= 400:
            raise self._refusal(response, verb, r, namespace, name)
        return response.content

    def _object(self, kind: type[T], body: bytes) -> T:
        obj: T = self._decode(kind, body)
        return obj

    def _decode(self, kind: Any, body: bytes | msgspec.Raw) -> Any:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:  # ValidationError too
            raise UnreachableError(
                f"{self.url} answers something that is not Kubernetes' API: {error}",
                next_step="check that the URL is that of an API server",
            ) from error

    def _refusal(
        self, response: httpx2.Response, verb: str, r: Route, namespace: str, name: str
    ) -> BaroError:
        return self._refused(response.content, response, verb, r, namespace, name)

    def _refused(
        self,
        body: bytes,
        response: httpx2.Response,
        verb: str,
        r: Route,
        namespace: str = "",
        name: str = "",
    ) -> BaroError:
        try:
            status = msgspec.json.decode(body, type=_Status)
        except msgspec.DecodeError:  # a proxy's page rather than a Status
            shown = body[:200].decode("utf-8", "replace").strip()
            status = _Status(message=shown or response.reason_phrase)
        thing = f"{r.plural} {namespace}/{name}" if namespace and name else f"{r.plural} {namespace or name}"
        seconds = response.headers.get("Retry-After", "")
        _, _, part = response.request.url.path.partition(f"/{name}/") if name else ("", "", "")
        return from_status(
            code=response.status_code,
            reason=status.reason or "",
            message=status.message or response.reason_phrase,
            verb=verb,
            resource=f"{r.resource}/{part}" if part else r.resource,
            where=Where(object=thing.strip()),
            retry_after=float(seconds) if seconds.isdigit() else None,
        )

    @contextlib.contextmanager
    def _mapped(self, verb: str, r: Route) -> Iterator[None]:
        """Turns what the HTTP library and lightkube raise into errors that name the server."""
        try:
            yield
        except ConfigError as error:  # an exec plugin or token file failed
            raise InputError(f"cannot authenticate to {self.url}: {error}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, RuntimeError) as error:
            raise self._unreachable(error, verb, r) from error

    def _unreachable(self, error: Exception, verb: str, r: Route) -> UnreachableError:
        cause = str(error) or type(error).__name__
        return UnreachableError(
            f"the API server at {self.url} does not answer ({verb} {r.resource}: {cause})",
            next_step="check that it runs and that --kubeconfig and --context name it: kubectl cluster-info",
        )


class HttpWatch(Generic[T]):
    """An open watch over HTTP. See ``WatchStream``."""

    def __init__(self, client: KubeClient, response: httpx2.Response, kind: type[T], r: Route) -> None:
        self._client = client
        self._response = response
        self._kind = kind
        self._route = r
        self._closed = False

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        lines = _lines(self._response.iter_bytes())
        try:
            while True:
                try:
                    with self._client._mapped("watch", self._route):
                        line = next(lines, None)
                except UnreachableError:
                    if self._closed:  # the reader was told to stop; the broken read is our own doing
                        return
                    raise
                if line is None:
                    return
                if line.strip():
                    yield self._event(line)
        finally:
            with contextlib.suppress(httpx2.HTTPError, OSError, RuntimeError):
                self._response.close()

    def _event(self, line: bytes) -> WatchEvent[T]:
        parsed: _Line = self._client._decode(_Line, line)
        if parsed.type is EventType.ERROR:
            status: _Status = self._client._decode(_Status, parsed.object)
            error = from_status(
                code=status.code or 500,
                reason=status.reason or "",
                message=status.message or "the watch failed",
                verb="watch",
                resource=self._route.resource,
            )
            return WatchEvent(EventType.ERROR, error=error)
        if parsed.type is EventType.BOOKMARK:
            mark: _Versioned = self._client._decode(_Versioned, parsed.object)
            return WatchEvent(EventType.BOOKMARK, mark.metadata.resource_version)
        obj: T = self._client._decode(self._kind, parsed.object)
        return WatchEvent(parsed.type, obj.metadata.resource_version, obj)

    def close(self) -> None:
        """Ends the iteration, from any thread: a blocked read returns at once."""
        self._closed = True
        stream = self._response.extensions.get("network_stream")
        raw = stream.get_extra_info("socket") if stream is not None else None
        if raw is not None:
            with contextlib.suppress(OSError):
                raw.shutdown(socket.SHUT_RDWR)


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines of a byte stream. As text, thousands of events would be decoded and encoded again."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk if rest else chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest
