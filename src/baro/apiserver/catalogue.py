"""Which resources this server serves, in which versions, and in which form their objects are stored.

The table of kinds is ``baro.model.schema``; this adds only what a server decides: one stored form per
resource, the subresources that are really served, and the verbs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from baro.apiserver.customs import DEFINITION_KIND, DEFINITION_SCHEMA, Version, versions_of
from baro.apiserver.ownership import BuiltinShape, SchemaShape, Shape
from baro.apiserver.status import Resource
from baro.apiserver.storage import ResourceKey
from baro.model.schema import Column, Kind, ObjectType, TypeRef, kinds, resolve
from baro.model.validation.rules import DEFAULT_KUBE_VERSION, parse

SCALE: Final = Kind(
    group="autoscaling",
    version="v1",
    kind="Scale",
    plural="scales",
    singular="scale",
    type="io.k8s.api.autoscaling.v1.Scale",
    columns=(
        Column("Name", format="name"), Column("Desired", "integer"), Column("Available", "integer"),
        Column("Age", "date"),
    ),
)  # fmt: skip
"""What the ``scale`` subresource of every kind is."""

SERVED_SUBRESOURCES: Final = frozenset({"status", "binding", "finalize"})
"""The others that the schema knows (log, eviction, scale …) need a node or a controller and answer 404."""

NOT_STORED: Final = frozenset({("", "bindings")})
"""Kinds that are only the body of a subresource request."""

_ALSO_SERVED: Final = frozenset({("resource.k8s.io/v1beta2", "DeviceTaintRule")})
"""Old versions that the catalogue of kinds has for readers only, and a real server serves with its betas."""

_SINCE: Final = {
    ("resource.k8s.io/v1beta2", "DeviceTaintRule"): "1.36",
    ("resource.k8s.io/v1", "DeviceTaintRule"): "1.37",
}
"""Kinds that older Kubernetes versions do not serve, not even with their betas."""

_STORED_ELSEWHERE: Final = {ResourceKey("events.k8s.io", "events"): ResourceKey("", "events")}
"""One store for both APIs of events, as in the real server."""

VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Served(msgspec.Struct, frozen=True):
    """One resource in one version: ``kind`` as clients see it, ``stored`` as the store keeps it.

    ``custom`` is set for kinds whose schema stands in a definition (and for definitions themselves).
    ``storage`` is the version of its definition in which objects are kept. ``kube_version`` is the Kubernetes
    whose fields and rules apply.
    """

    kind: Kind
    stored: Kind
    key: ResourceKey
    subresources: tuple[str, ...]
    custom: Version | None = None
    storage: Version | None = None
    kube_version: str = DEFAULT_KUBE_VERSION

    @property
    def resource(self) -> Resource:
        """Group and plural as errors name them."""
        return Resource(self.kind.group, self.kind.plural)

    @property
    def shape(self) -> ObjectType:
        return resolve(self.kind.type)

    @property
    def merging(self) -> Shape:
        """How the parts of an object merge in server-side apply."""
        if self.custom is not None:
            return SchemaShape(self.custom.schema, root=True)
        return BuiltinShape(TypeRef("object", self.kind.kind, self.kind.type))

    @property
    def builtin(self) -> bool:
        """Whether Kubernetes compiles the kind in (strategic merge patches are for those only)."""
        group = self.kind.group
        return self.custom is None and ("." not in group or group.endswith(".k8s.io"))

    @property
    def converted(self) -> bool:
        """Whether clients of this version see another form than the stored one."""
        return self.kind.api_version != self.stored.api_version

    @property
    def verbatim(self) -> bool:
        """Whether the stored bytes are what clients get; custom kinds may change their stored version."""
        return self.custom is None and not self.converted


def _is_served(kind: Kind, version: tuple[int, int]) -> bool:
    """Whether a Kubernetes of that version serves the kind, all betas on."""
    named = (kind.api_version, kind.kind)
    return (kind.served or named in _ALSO_SERVED) and version >= parse(_SINCE.get(named, "1.0"))


def _binding() -> Served:
    kind = next(kind for kind in kinds() if (kind.group, kind.kind) == ("", "Binding"))
    return Served(kind, kind, ResourceKey("", "bindings"), ())


BINDING: Final = _binding()
"""What ``POST pods/NAME/binding`` takes; it is checked like any kind and never stored."""


SCALED: Final = Served(
    SCALE,
    SCALE,
    ResourceKey(SCALE.group, SCALE.plural),
    (),
    Version(SCALE, {}, True, (".spec.replicas", ".status.replicas", ".metadata.creationTimestamp")),
)
"""How a Scale is shown; it is never stored."""


DEFINITIONS: Final = ResourceKey(DEFINITION_KIND.group, DEFINITION_KIND.plural)
_DEFINITION: Final = Served(
    DEFINITION_KIND,
    DEFINITION_KIND,
    DEFINITIONS,
    ("status",),
    Version(DEFINITION_KIND, DEFINITION_SCHEMA, True, (".metadata.creationTimestamp",)),
)


class Catalogue:
    """The served resources, found by URL or by stored resource. Iteration gives preferred versions first.

    Definitions come and go; a kind that is compiled in stays as it is, whatever a definition says of it.
    """

    def __init__(
        self, known: Iterable[Kind] | None = None, *, kube_version: str = DEFAULT_KUBE_VERSION
    ) -> None:
        self.kube_version = kube_version
        every = kinds() if known is None else known
        served = [kind for kind in every if _is_served(kind, parse(kube_version))]
        stored: dict[ResourceKey, Kind] = {}
        for kind in served:
            stored.setdefault(ResourceKey(kind.group, kind.plural), kind)
        self._compiled: list[Served] = []
        self._defined: dict[str, tuple[Served, ...]] = {}
        for kind in served:
            if (kind.group, kind.plural) in NOT_STORED:
                continue
            own = ResourceKey(kind.group, kind.plural)
            key = _STORED_ELSEWHERE.get(own, own)
            subresources = tuple(name for name in kind.subresources if name in SERVED_SUBRESOURCES)
            self._compiled.append(
                Served(kind, stored.get(key, kind), key, subresources, kube_version=kube_version)
            )
        self._compiled.append(_DEFINITION)
        self._rebuild()

    def _rebuild(self) -> None:
        defined = [served for group in self._defined.values() for served in group]
        self._served: list[Served] = [*self._compiled, *defined]
        self._by_url = {(s.kind.group, s.kind.version, s.kind.plural): s for s in self._served}
        self._by_key = {s.key: s for s in self._served if not s.converted}

    def define(self, definition: dict[str, Any]) -> None:
        """Serves what a valid, established definition describes, in place of what it described before."""
        versions, storage = versions_of(definition)
        found: list[Served] = []
        for version in versions:
            kind = version.kind
            key = ResourceKey(kind.group, kind.plural)
            if not any(served.key == key for served in self._compiled):
                found.append(
                    Served(
                        kind, versions[0].kind, key, kind.subresources, version, storage, self.kube_version
                    )
                )
        self._defined[str(definition["metadata"]["name"])] = tuple(found)
        self._rebuild()

    def undefine(self, name: str) -> None:
        """Stops serving what the definition ``name`` described."""
        if self._defined.pop(name, None) is not None:
            self._rebuild()

    def is_defined(self, name: str) -> bool:
        """Whether the definition ``name`` is what a resource is served from (and not compiled in)."""
        return bool(self._defined.get(name))

    def names_in_use(self, definition: dict[str, Any]) -> tuple[frozenset[str], frozenset[str]]:
        """Names of resources and of kinds that others in the group of a definition have."""
        spec = definition["spec"]
        others = [
            served.kind
            for served in self._served
            if served.kind.group == spec["group"] and served.kind.plural != spec["names"]["plural"]
        ]
        resources = {
            name for kind in others for name in (kind.plural, kind.singular, *kind.short_names)
        }  # fmt: skip
        kinds = {name for kind in others for name in (kind.kind, f"{kind.kind}List")}
        return frozenset(resources), frozenset(kinds)

    def __iter__(self) -> Iterator[Served]:
        return iter(self._served)

    def find(self, group: str, version: str, plural: str) -> Served | None:
        return self._by_url.get((group, version, plural))

    def find_kind(self, api_version: str, kind: str) -> Served | None:
        return next(
            (s for s in self._served if (s.kind.api_version, s.kind.kind) == (api_version, kind)), None
        )

    def stored(self, key: ResourceKey) -> Served:
        """The resource in its stored version. Raises ``KeyError`` for one that is not served."""
        return self._by_key[key]

    def group_versions(self) -> tuple[tuple[str, str], ...]:
        """(group, version) pairs, core first, preferred versions before others."""
        found = dict.fromkeys((s.kind.group, s.kind.version) for s in self._served)
        groups = dict.fromkeys(group for group, _ in found)
        return tuple(pair for group in groups for pair in found if pair[0] == group)

    def of_version(self, group: str, version: str) -> tuple[Served, ...]:
        return tuple(s for s in self._served if (s.kind.group, s.kind.version) == (group, version))
