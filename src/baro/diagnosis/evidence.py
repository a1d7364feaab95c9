"""Evidence: everything a diagnosis, an explanation or a lint knows of a cluster, and what it does not know.

One value for both ways of reading: a live cluster (``baro.kube.reading``) and files
(``baro.diagnosis.files``). It holds raw documents for those who need positions, a typed snapshot for those
who calculate, captures for what is not a Kubernetes object (kernel log, pod-resources dump, CDI spec), and
``missing``: a check that needs a source which is missing says so instead of judging. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from baro.inventory.snapshot import Snapshot
from baro.model.errors import BaroError, InputError, Where
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Event, Namespace
from baro.model.kinds.resource import ResourceClaimTemplate
from baro.model.load import Loaded
from baro.model.names import API_VERSION

RECORD_KIND = "SnapshotRecord"


class Missing(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A source that could not be read. ``source`` is a resource (``pods``) or a path, ``why`` one sentence.

    ``next_step`` is a command or an act that makes it readable; ``partial`` says that some of it was read
    and is in the evidence all the same (bounded events; one namespace instead of all).
    """

    source: str
    why: str
    next_step: str = ""
    partial: bool = False


class SnapshotRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What ``baro snapshot`` writes beside the objects: when, from where, and what could not be read.

    Stands in a dump as an object ``{apiVersion: baro.dev/v1alpha1, kind: SnapshotRecord, …}``, so a dump
    stays a plain list of objects.
    """

    api_version: str = API_VERSION
    kind: str = RECORD_KIND
    taken_at: str = ""
    origin: str = ""
    server_version: str = ""
    served: dict[str, tuple[str, ...]] = {}
    missing: tuple[Missing, ...] = ()
    anonymised: bool = False
    feature_gates: dict[str, bool] = {}
    """Of the API server, as its metrics tell them; empty when they are not known."""


class CaptureKind(StrEnum):
    """What a text that is no Kubernetes object turned out to be."""

    POD_RESOURCES = "pod-resources"
    CDI_SPEC = "cdi-spec"
    SMI_XML = "nvidia-smi-xml"
    TOPO = "topo-m"
    LOG = "log"
    """Kernel log, kubelet log, device-plugin log: lines with or without a prefix, possibly mixed."""
    METRICS = "metrics"
    """A page of a component's metrics: ``kubectl get --raw /metrics``."""
    VERSION = "version"
    """``kubectl version -o json|yaml``, ``kubectl get --raw /version``."""
    DESCRIBE = "describe"
    """``kubectl describe`` or a piece of it."""
    TEXT = "text"
    """A piece of terminal output that some check understands: an error of a runtime, a listing."""


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """One file that is no Kubernetes object. ``node`` is None where nothing says whose it is.

    ``text`` is the whole file; ``data`` the decoded value for JSON and YAML formats, else None.
    """

    kind: CaptureKind
    where: Where
    text: str
    node: str | None = None
    data: object = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known. ``documents`` are all objects read, in order; ``snapshot`` those that matter, typed.

    ``namespace`` is the namespace asked for (``""``: none, or all). ``served`` maps an API group to the
    versions that the server serves, empty when unknown (files). ``taken_at`` is RFC 3339, UTC.
    """

    documents: tuple[Loaded, ...] = ()
    snapshot: Snapshot = Snapshot()
    events: tuple[Event, ...] = ()
    templates: tuple[ResourceClaimTemplate, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    captures: tuple[Capture, ...] = ()
    missing: tuple[Missing, ...] = ()
    unreadable: tuple[BaroError, ...] = ()
    """Objects whose fields have wrong types, and kinds that no server has any more."""
    origin: str = ""
    namespace: str = ""
    served: Mapping[str, tuple[str, ...]] = {}
    server_version: str = ""
    taken_at: str = ""
    feature_gates: Mapping[str, bool] = {}
    """Gates of the control plane that differ by cluster; empty when they are not known."""

    def lacks(self, *sources: str) -> tuple[Missing, ...]:
        """Those of these sources that are missing altogether, in the order asked."""
        return tuple(
            item for source in sources for item in self.missing if item.source == source and not item.partial
        )

    def captured(self, kind: CaptureKind, node: str | None = None) -> tuple[Capture, ...]:
        """The captures of a kind; with ``node`` only those known to be of that node."""
        return tuple(
            item for item in self.captures if item.kind is kind and (node is None or item.node == node)
        )


def from_documents(
    documents: Iterable[Loaded],
    *,
    captures: Iterable[Capture] = (),
    missing: Iterable[Missing] = (),
    origin: str = "",
    namespace: str = "",
    record: SnapshotRecord | None = None,
) -> Evidence:
    """Types the documents. An object that cannot be typed is kept in ``unreadable``, the rest still counts.

    The same object twice (two overlapping dumps) counts once: the last one read wins. ``record`` says
    when and from where; by default it is that of the snapshot among the documents.
    """
    documents = tuple(documents)
    record = record or _record(documents)
    documents = tuple(item for item in documents if item.kind != RECORD_KIND)
    typed: dict[tuple[str, str, str], KubeObject] = {}
    unreadable: list[BaroError] = []
    for number, document in enumerate(documents):
        try:
            item = document.as_kind()
        except BaroError as error:
            unreadable.append(error)
            continue
        if item is None:
            continue
        meta = item.metadata
        key = (item.kind, meta.namespace, meta.name or f"#{number}")
        typed.pop(key, None)  # so that the last one also has the last place
        typed[key] = item
    objects = typed.values()
    return Evidence(
        documents=documents,
        snapshot=Snapshot.from_objects(objects),
        events=tuple(item for item in objects if isinstance(item, Event)),
        templates=tuple(item for item in objects if isinstance(item, ResourceClaimTemplate)),
        namespaces=tuple(item for item in objects if isinstance(item, Namespace)),
        captures=tuple(captures),
        missing=(*missing, *record.missing),
        unreadable=tuple(unreadable),
        origin=origin,
        namespace=namespace,
        served=record.served,
        server_version=record.server_version,
        taken_at=record.taken_at,
        feature_gates=record.feature_gates,
    )


def _record(documents: tuple[Loaded, ...]) -> SnapshotRecord:
    """The record of a snapshot among the documents, or an empty one. Raises ``InputError``."""
    for document in documents:
        if document.kind == RECORD_KIND and document.api_version == API_VERSION:
            try:
                return msgspec.convert(document.body, SnapshotRecord)
            except msgspec.ValidationError as error:
                raise InputError(f"not the record of a snapshot: {error}", where=document.where) from None
    return SnapshotRecord()
