"""A minimal OpenAPI v2 document, for the one thing that kubectl still asks of it: files that hold a ``List``.

For a ``List`` kubectl checks on the client with the v2 schemas, which it takes as protobuf only, and then
sends every item with its field validation to the server anyway. So the document names each kind and says no
more; the server stays the one that validates.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from baro.apiserver.catalogue import Catalogue, Served

MEDIA: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_OLD_MEDIA: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""What clients still ask for; it is no well-formed media type, so the answer carries the other name."""
_TITLE: Final = "Kubernetes (embedded in baro)"
_GVK: Final = "x-kubernetes-group-version-kind"


def wants_protobuf(accept: str) -> bool:
    """Whether an ``Accept`` header asks for the document as protobuf."""
    return MEDIA in accept or _OLD_MEDIA in accept


def document(catalogue: Catalogue) -> dict[str, Any]:
    """The document as JSON types."""
    definitions = {served.kind.type: {"type": "object", _GVK: [_gvk(served)]} for served in catalogue}
    info = {"title": _TITLE, "version": f"v{catalogue.kube_version}"}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": definitions}


def protobuf(catalogue: Catalogue) -> bytes:
    """The document as ``openapi.v2.Document`` of gnostic-models."""
    found = document(catalogue)
    info = _text(1, found["info"]["title"]) + _text(2, found["info"]["version"])
    schemas = b"".join(_named_schema(name, schema) for name, schema in found["definitions"].items())
    return _text(1, found["swagger"]) + _field(2, info) + _field(8, b"") + _field(9, schemas)


def _named_schema(name: str, schema: dict[str, Any]) -> bytes:
    kinds = _text(2, msgspec.json.encode(schema[_GVK]).decode())  # JSON is YAML
    extension = _text(1, _GVK) + _field(2, kinds)
    body = _field(22, _text(1, schema["type"])) + _field(31, extension)
    return _field(1, _text(1, name) + _field(2, body))


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field of the protobuf wire format."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _gvk(served: Served) -> dict[str, str]:
    return {"group": served.kind.group, "version": served.kind.version, "kind": served.kind.kind}
