"""Which resources this server serves, in which versions, and in which form their objects are stored.

The table of kinds is ``baro.model.schema``; this adds only what a server decides: one stored form per
resource, the subresources that are really served, and the verbs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from baro.apiserver.status import Resource
from baro.apiserver.storage import ResourceKey
from baro.model.schema import Kind, ObjectType, kinds, resolve

SERVED_SUBRESOURCES: Final = frozenset({"status", "binding", "finalize"})
"""The others that the schema knows (log, eviction, scale …) need a node or a controller and answer 404."""

NOT_STORED: Final = frozenset({("", "bindings")})
"""Kinds that are only the body of a subresource request."""

_STORED_ELSEWHERE: Final = {ResourceKey("events.k8s.io", "events"): ResourceKey("", "events")}
"""One store for both APIs of events, as in the real server."""

VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Served(msgspec.Struct, frozen=True):
    """One resource in one version: ``kind`` as clients see it, ``stored`` as the store keeps it."""

    kind: Kind
    stored: Kind
    key: ResourceKey
    subresources: tuple[str, ...]

    @property
    def resource(self) -> Resource:
        """Group and plural as errors name them."""
        return Resource(self.kind.group, self.kind.plural)

    @property
    def shape(self) -> ObjectType:
        return resolve(self.kind.type)

    @property
    def builtin(self) -> bool:
        """Whether Kubernetes compiles the kind in (strategic merge patches are for those only)."""
        group = self.kind.group
        return "." not in group or group.endswith(".k8s.io")

    @property
    def converted(self) -> bool:
        """Whether clients of this version see another form than the stored one."""
        return self.kind.api_version != self.stored.api_version


def _binding() -> Served:
    kind = next(kind for kind in kinds() if (kind.group, kind.kind) == ("", "Binding"))
    return Served(kind, kind, ResourceKey("", "bindings"), ())


BINDING: Final = _binding()
"""What ``POST pods/NAME/binding`` takes; it is checked like any kind and never stored."""


class Catalogue:
    """The served resources, found by URL or by stored resource. Iteration gives preferred versions first."""

    def __init__(self, known: Iterable[Kind] | None = None) -> None:
        served = [kind for kind in (kinds() if known is None else known) if kind.served]
        stored: dict[ResourceKey, Kind] = {}
        for kind in served:
            stored.setdefault(ResourceKey(kind.group, kind.plural), kind)
        self._served: list[Served] = []
        for kind in served:
            if (kind.group, kind.plural) in NOT_STORED:
                continue
            own = ResourceKey(kind.group, kind.plural)
            key = _STORED_ELSEWHERE.get(own, own)
            subresources = tuple(name for name in kind.subresources if name in SERVED_SUBRESOURCES)
            self._served.append(Served(kind, stored.get(key, kind), key, subresources))
        self._by_url = {(s.kind.group, s.kind.version, s.kind.plural): s for s in self._served}
        self._by_key = {s.key: s for s in self._served if not s.converted}

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
