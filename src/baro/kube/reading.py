"""Reads a whole cluster for a diagnosis: many kinds at once, in pages, each under a deadline.

A source that is refused, silent, cut off or not served becomes ``Missing`` and never stops the others; a
list that is not complete when the time is over is left out whole (half the slices of a pool would look like
a broken pool), except events, of which some are better than none. Which versions of ``resource.k8s.io``
are served is asked first. Reads only; Secrets are not among the sources.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import msgspec

from baro.diagnosis.evidence import Evidence, Missing, SnapshotRecord, from_documents
from baro.kube.client import KubeClient
from baro.kube.errors import GoneError, NotFoundError
from baro.kube.gates import GatesReader
from baro.kube.routes import Route
from baro.model.errors import BaroError, ForbiddenError, UnreachableError
from baro.model.load import Limits, Loaded, load_bytes

PAGE = 500
EVENT_LIMIT = 5000
"""Warnings read at most: a cluster in trouble has more than anybody reads."""
RESTARTS = 2
"""How often a list begins again when its continue token expired."""
RESOURCE_GROUP = "resource.k8s.io"
_VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3")
"""In the order of preference."""
_LATE_S = 0.1
_LAZY = Limits(checked_json_bytes=0)
"""A server writes no key twice; objects are decoded when asked for."""

Progress = Callable[[str], None]
Outcome = tuple[tuple[Loaded, ...], tuple[Missing, ...]]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One kind to list. ``group`` without a version means: whatever version the server serves."""

    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = False
    field_selector: str = ""
    at_most: int | None = None
    """Objects after which reading stops; None: all or nothing."""
    optional: bool = False
    """A cluster without this resource is a usual cluster: nothing is missing."""

    @property
    def resource(self) -> str:
        """As RBAC and ``Missing.source`` name it: ``resourceslices``, ``pods``."""
        return self.plural

    def route(self, version: str | None = None) -> Route:
        """The route under one version."""
        shown = version or self.version
        return Route(f"{self.group}/{shown}" if self.group else shown, self.plural, self.namespaced)


SOURCES: tuple[Source, ...] = (
    Source(plural="nodes"),
    Source(plural="pods", namespaced=True),
    Source(plural="namespaces"),
    Source(plural="events", namespaced=True, field_selector="type=Warning", at_most=EVENT_LIMIT),
    Source(plural="daemonsets", group="apps", namespaced=True, optional=True),
    Source(plural="resourceslices", group=RESOURCE_GROUP),
    Source(plural="resourceclaims", group=RESOURCE_GROUP, namespaced=True),
    Source(plural="resourceclaimtemplates", group=RESOURCE_GROUP, namespaced=True),
    Source(plural="deviceclasses", group=RESOURCE_GROUP),
    Source(plural="devicetaintrules", group=RESOURCE_GROUP, optional=True),
    Source(plural="persistentvolumeclaims", namespaced=True, optional=True),
    Source(plural="persistentvolumes", optional=True),
    Source(plural="storageclasses", group="storage.k8s.io", optional=True),
    Source(plural="podgroups", group="scheduling.k8s.io", version="v1beta1", namespaced=True, optional=True),
    Source(plural="workloads", group="scheduling.k8s.io", version="v1alpha1", namespaced=True, optional=True),
    Source(plural="nodetopologies", group="baro.dev", version="v1alpha1", optional=True),
)
"""Everything that diagnose, explain, place and snapshot look at. Least privilege: get and list on these."""


def read_cluster(
    client: KubeClient,
    *,
    namespace: str = "",
    deadline_s: float = 10.0,
    sources: Iterable[Source] = SOURCES,
    progress: Progress | None = None,
) -> Evidence:
    """The evidence of a cluster, whatever can be had of it in ``deadline_s`` seconds.

    ``namespace`` is what the user asked for; everything is read in all namespaces where that is allowed
    (who holds a device matters wherever he is), else in ``namespace`` alone, which ``missing`` tells.
    Raises ``UnreachableError`` when the server answers nothing at all, ``ForbiddenError`` when it refuses
    every list.
    """
    until = time.monotonic() + deadline_s
    wanted = tuple(sources)
    discovered = _discover(client, until)
    readers = [_Reader(client, source, discovered, namespace, until) for source in wanted]
    gates = GatesReader(client, until)
    threads = [threading.Thread(target=reader.run, daemon=True) for reader in readers]
    beside = threading.Thread(target=gates.run, daemon=True)
    for thread in (*threads, beside):
        thread.start()
    for thread, reader in zip(threads, readers, strict=True):
        thread.join(max(0.0, until - time.monotonic()) + 0.2)
        if progress and reader.succeeded:
            progress(f"{reader.source.plural}: {reader.count}")
    beside.join(max(0.0, until - time.monotonic()) + 0.2)
    outcomes = [reader.outcome(deadline_s) for reader in readers]
    required = [outcome for source, outcome in zip(wanted, outcomes, strict=True) if not source.optional]
    _raise_if_nothing(client, required)
    return from_documents(
        (document for documents, _ in outcomes for document in documents),
        missing=(*discovered.missing, *(item for _, found in outcomes for item in found), *gates.missing),
        origin=f"cluster {client.url}",
        namespace=namespace,
        record=SnapshotRecord(
            served=discovered.served,
            server_version=discovered.server_version,
            feature_gates=dict(gates.gates),
            taken_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        ),
    )


def _raise_if_nothing(client: KubeClient, outcomes: list[Outcome]) -> None:
    """Some answer is better than none; none at all is an error, which names the first cause."""
    whole = [item for _, found in outcomes for item in found if not item.partial]
    if len(whole) < len(outcomes) or not whole:
        return
    refused = all("does not allow" in item.why for item in whole)
    kind = ForbiddenError if refused else UnreachableError
    raise kind(f"nothing could be read from {client.url}: {whole[0].why}", next_step=whole[0].next_step)


# --- which versions are served ----------------------------------------------------------------------------


class _Name(msgspec.Struct):
    name: str = ""


class _Group(msgspec.Struct):
    class Version(msgspec.Struct):
        version: str = ""

    versions: list[Version] = []


class _Resources(msgspec.Struct):
    resources: list[_Name] = []


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


class _Discovered(msgspec.Struct):
    """``versions`` maps ``group/plural`` to the best version; None where discovery did not work."""

    served: dict[str, tuple[str, ...]] = {}
    versions: dict[str, str] | None = None
    server_version: str = ""
    missing: tuple[Missing, ...] = ()

    def version_of(self, source: Source) -> str | None:
        """The version to ask for, or None when the server has no such resource."""
        if self.versions is None or source.group not in self.served:
            return source.version if self.versions is None else None
        return self.versions.get(f"{source.group}/{source.plural}")


def _discover(client: KubeClient, until: float) -> _Discovered:
    """Asks for versions; a server that does not answer this is asked for v1."""
    limit = min(until, time.monotonic() + 3.0)
    found, versions = _Discovered(), dict[str, str]()
    routes = Route("v1", "discovery", False)

    def ask(path: str, kind: type[msgspec.Struct]) -> msgspec.Struct | None:
        try:
            body = client.read_until(path, params={}, verb="get", resource=routes, until=limit)
            return msgspec.json.decode(body, type=kind)
        except NotFoundError:
            return None

    try:
        version = ask("version", _Version)
        found.server_version = version.git_version if isinstance(version, _Version) else ""
        for group in (RESOURCE_GROUP, "apps", "storage.k8s.io", "scheduling.k8s.io", "baro.dev"):
            answer = ask(f"apis/{group}", _Group)
            names = [item.version for item in answer.versions] if isinstance(answer, _Group) else []
            if not names:
                continue
            found.served[group] = tuple(names)
            for name in sorted(names, key=lambda item: (*_VERSIONS, item).index(item), reverse=True):
                listed = ask(f"apis/{group}/{name}", _Resources)
                for item in listed.resources if isinstance(listed, _Resources) else ():
                    versions[f"{group}/{item.name}"] = name
    except (BaroError, msgspec.DecodeError) as error:
        why = error.what if isinstance(error, BaroError) else str(error)
        missing = Missing("discovery", f"which API versions are served is not known: {why}")
        return _Discovered(missing=(missing,))
    found.versions = versions
    return found


# --- one source -------------------------------------------------------------------------------------------


class _Reader:
    """Lists one source in a thread of its own. ``outcome`` may be asked at any moment."""

    def __init__(
        self, client: KubeClient, source: Source, discovered: _Discovered, namespace: str, until: float
    ) -> None:
        self.source = source
        self.done = False
        self._client = client
        self._version = discovered.version_of(source) if source.group else source.version
        self._served = discovered.served.get(source.group, ())
        self._namespace = namespace
        self._until = until
        self._pages: list[tuple[bytes, str]] = []
        self._read = 0
        self._error: BaroError | None = None
        self._late = False
        self._notes: list[Missing] = []

    def run(self) -> None:
        try:
            if self._version is None:
                self._error = None if self.source.optional else self._not_served()
            else:
                self._list_with_fallback(self.source.route(self._version))
        except BaroError as error:
            if not (self.source.optional and isinstance(error, NotFoundError)):
                self._error = error
                # A read that ends with the deadline was not refused: it was given up.
                self._late = isinstance(error, UnreachableError) and time.monotonic() > self._until - _LATE_S
        except Exception as error:
            self._error = UnreachableError(f"{type(error).__name__}: {error}")
        finally:
            self.done = True

    @property
    def succeeded(self) -> bool:
        return self.done and self._error is None

    @property
    def count(self) -> int:
        return self._read

    def outcome(self, deadline_s: float) -> Outcome:
        """The objects and what is missing of this source, as things stand now."""
        error = self._error
        if not self.done or self._late:
            error = UnreachableError(
                f"no complete answer within {deadline_s:g} s ({self._read} objects had come)",
                next_step="give it more time: --deadline 60",
            )
        if error is None:
            return self._documents(), tuple(self._notes)
        step = error.next_step or ""
        if self.source.at_most is not None and self._pages:
            return self._documents(), (Missing(self.source.resource, error.what, step, partial=True),)
        return (), (Missing(self.source.resource, error.what, step),)

    def _documents(self) -> tuple[Loaded, ...]:
        return tuple(
            item for body, name in tuple(self._pages) for item in load_bytes(body, name, limits=_LAZY)
        )

    def _not_served(self) -> BaroError:
        group = self.source.group
        served = f"; served are {', '.join(self._served)}" if self._served else ""
        return NotFoundError(
            f"the server does not serve {self.source.plural}.{group}{served}",
            code=404,
            next_step=f"kubectl api-resources --api-group={group}",
        )

    def _list_with_fallback(self, r: Route) -> None:
        """All namespaces, or the one asked for where that alone is allowed."""
        try:
            self._list(r, "")
        except ForbiddenError as error:
            if not (self.source.namespaced and self._namespace):
                raise
            try:
                self._list(r, self._namespace)
            except ForbiddenError:
                raise error from None
            self._notes.append(
                Missing(
                    self.source.resource,
                    f"only those of namespace {self._namespace}: {error.what}",
                    error.next_step or "",
                    partial=True,
                )
            )

    def _list(self, r: Route, namespace: str) -> None:
        for attempt in range(RESTARTS + 1):
            try:
                return self._list_once(r, namespace)
            except GoneError:  # the continue token expired: what was read is no consistent list
                self._pages.clear()
                self._read = 0
                if attempt == RESTARTS:
                    raise
        return None

    def _list_once(self, r: Route, namespace: str) -> None:
        token, number = "", 0
        while True:
            query = {"limit": str(PAGE)}
            if self.source.field_selector:
                query["fieldSelector"] = self.source.field_selector
            if token:
                query["continue"] = token
            body = self._client.read_until(
                r.path(namespace), params=query, verb="list", resource=r, until=self._until
            )
            head = _page(body, self._client.url)
            number += 1
            if head.count:
                self._pages.append((body, f"{self._client.url}/{r.path(namespace)}?page={number}"))
                self._read += head.count
            token = head.token
            if not token:
                return
            if self.source.at_most is not None and self._read >= self.source.at_most:
                self._notes.append(
                    Missing(self.source.resource, f"only the first {self._read} were read", partial=True)
                )
                return


class _Head(msgspec.Struct):
    count: int
    token: str


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(default="", name="continue")


class _ListHead(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


def _page(body: bytes, url: str) -> _Head:
    try:
        head = msgspec.json.decode(body, type=_ListHead)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreachableError(
            f"{url} answers something that is not Kubernetes' API: {error}",
            next_step="check that the URL is that of an API server",
        ) from None
    return _Head(len(head.items or ()), head.metadata.continue_)
