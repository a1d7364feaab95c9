"""Where each kind that baro reads or writes lies under an API server's URL: the schema knows."""

from __future__ import annotations

from functools import cache

import msgspec

from baro.model.errors import InternalError
from baro.model.kinds.base import KubeObject
from baro.model.schema import find_kind


class Route(msgspec.Struct, frozen=True):
    """``api_version`` as in the object, ``plural`` as in the path."""

    api_version: str
    plural: str
    namespaced: bool

    @property
    def group(self) -> str:
        """API group; empty for core."""
        return self.api_version.rpartition("/")[0]

    @property
    def resource(self) -> str:
        """The resource as RBAC messages name it: ``resourceclaims.resource.k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str | None = None) -> str:
        """The URL path, without a leading slash."""
        parts = ["apis" if self.group else "api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


@cache
def route(kind: type[KubeObject]) -> Route:
    """The route of a kind. ``InternalError`` for a kind that the schema does not know."""
    empty = kind()
    found = find_kind(empty.api_version, empty.kind)
    if found is None:
        raise InternalError(f"no route for kind {kind.__name__}")
    return Route(empty.api_version, found.plural, found.namespaced)
