"""The schema of the kinds that baro reads, checks and serves.

One table answers what strict decoding, OpenAPI, strategic merge and printer columns ask: which kinds there
are (``kinds``), which fields their types have (``object_type``, ``resolve``), how their lists merge.
It knows shapes only; rules about values live in ``baro.model.validation``.
"""

from baro.model.schema.kinds import Column, Kind, find_kind, find_plural, kinds
from baro.model.schema.types import (
    Field,
    ObjectType,
    TypeKind,
    TypeRef,
    group_versions,
    object_type,
    resolve,
    type_names,
)

__all__ = [
    "Column",
    "Field",
    "Kind",
    "ObjectType",
    "TypeKind",
    "TypeRef",
    "find_kind",
    "find_plural",
    "group_versions",
    "kinds",
    "object_type",
    "resolve",
    "type_names",
]
