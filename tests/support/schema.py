"""Helpers for tests of the schema, strict decoding, conversion and validation.

``bodies`` draws well-typed JSON objects of a kind from the schema; ``oracle`` reads what a real API server
said about objects (in place, never copied).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from baro.model.schema import Field, TypeRef, find_kind, resolve
from tests.support import shared

NAMES: Final = st.sampled_from(["a", "gpu-0", "node-a", "gpu.example.com", "A_b", "", "x" * 64, "a/b"])
"""Names that are right, wrong, empty and too long: they all decode."""

_FLOATS: Final = st.floats(allow_nan=False, allow_infinity=False)
_TEXTS: Final = st.text(max_size=5) | st.just("\ud800")

JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | _FLOATS | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)

_SCALARS: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "string": NAMES,
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-2, 200),
    "float": st.floats(0, 1),
    "quantity": st.sampled_from(["80Gi", "1", 2, "1500m", "0", "81559Mi", "-1"]),
    "time": st.just("2026-01-02T03:04:05Z"),
    "microTime": st.just("2026-01-02T03:04:05.000006Z"),
    "intOrString": st.sampled_from([80, "http"]),
    "any": st.dictionaries(st.sampled_from(["a", "b"]), st.integers(), max_size=2),
    "bytes": st.sampled_from(["", "YQ==", "YWI="]),
}


def _value(type_: TypeRef, depth: int) -> st.SearchStrategy[Any]:
    if type_.kind == "object" and type_.ref:
        return _object(type_.ref, depth - 1)
    if type_.items is None:
        return _SCALARS[type_.kind]
    items = _value(type_.items, depth)
    return st.lists(items, max_size=2) if type_.kind == "array" else st.dictionaries(NAMES, items, max_size=2)


def _object(ref: str, depth: int) -> st.SearchStrategy[dict[str, Any]]:
    if depth <= 0:
        return st.just({})
    fields = list(resolve(ref).fields.values())

    def filled(chosen: list[Field]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({field.name: _value(field.type, depth) for field in chosen})

    if not fields:
        return st.just({})
    some = st.lists(st.sampled_from(fields), unique_by=lambda field: field.name, max_size=6)
    return some.flatmap(filled)


def bodies(api_version: str, kind: str, depth: int = 8) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of ``kind`` whose fields have the right types, and any values."""
    known = find_kind(api_version, kind)
    assert known is not None
    parts = {
        name: _value(field.type, depth)
        for name, field in resolve(known.type).fields.items()
        if name not in ("apiVersion", "kind")
    }
    identity = {"apiVersion": st.just(api_version), "kind": st.just(kind)}
    return st.fixed_dictionaries(identity, optional=parts)


def slice_body(*devices: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """A ResourceSlice that a server takes when ``devices`` are right; ``spec`` overrides fields."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "node-a-gpu"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-a",
            "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
            **spec,
        },
    }


def claim_body(**exactly: Any) -> dict[str, Any]:
    """A ResourceClaim with one request; ``exactly`` holds its fields."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", **exactly}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }


class Answer(msgspec.Struct, frozen=True):
    """What kube-apiserver 1.37.2 said to one request. ``causes`` are (path, message)."""

    name: str
    category: str
    operation: str
    text: bytes
    accepted: bool
    code: int | None
    message: str
    causes: tuple[tuple[str, str], ...]


def oracle() -> Iterator[Answer]:
    """All recorded answers; skips the calling test when the file is absent."""
    with shared.path("data/strict-oracle.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            newer = record.get("v1_37")
            answer = {**record, **newer} if isinstance(newer, dict) else record
            raw = record.get("raw")
            yield Answer(
                name=record["name"],
                category=record["category"],
                operation=record["operation"],
                text=(raw if isinstance(raw, str) else json.dumps(record["object"])).encode(),
                accepted=answer["accepted"],
                code=answer.get("code"),
                message=answer.get("message") or "",
                causes=tuple((cause["field"], cause["message"]) for cause in answer.get("causes") or ()),
            )
