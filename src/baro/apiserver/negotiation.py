"""Media types: which form an answer takes, and what a body may be written in.

JSON and YAML in both directions, Tables and bare metadata as answers. Protobuf is read for a few kinds
(``protobuf``), and passed over as an answer.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
import yaml

from baro.apiserver.protobuf import MEDIA as PROTOBUF
from baro.apiserver.protobuf import ProtobufError, UnknownKindError, decode_protobuf
from baro.apiserver.status import bad_request, not_acceptable, unsupported_media_type
from baro.model.decode import BodyError, decode_body
from baro.model.errors import InputError
from baro.model.yamlio import documents

Form = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList", "APIGroupDiscoveryList"]

JSON: Final = "application/json"
YAML: Final = "application/yaml"
ACCEPTED: Final = (JSON, YAML)
_YAML_DEPTH: Final = 200
_YAML_ALIASES: Final = 10_000
_ANY: Final = frozenset({"", "*/*", "application/*"})


class Wanted(msgspec.Struct, frozen=True):
    """The chosen form of an answer: media type, and what to show of the object."""

    media: str = JSON
    form: Form = ""

    @property
    def content_type(self) -> str:
        if self.form == "APIGroupDiscoveryList":
            return "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        return self.media


def choose(accept: str, *, discovery: bool = False) -> Wanted:
    """The first entry of an ``Accept`` header that can be served. Raises 406 when none can."""
    for entry in accept.split(","):
        media, *rest = (part.strip() for part in entry.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        if media not in (*ACCEPTED, *_ANY):
            continue
        form = parameters.get("as", "")
        chosen = YAML if media == YAML else JSON
        if not form:
            return Wanted(chosen)
        if discovery and form == "APIGroupDiscoveryList" and parameters.get("v") == "v2":
            return Wanted(JSON, "APIGroupDiscoveryList")
        if discovery or parameters.get("v") not in ("v1", None):
            continue
        if form == "Table":
            return Wanted(chosen, "Table")
        if form == "PartialObjectMetadata":
            return Wanted(chosen, "PartialObjectMetadata")
        if form == "PartialObjectMetadataList":
            return Wanted(chosen, "PartialObjectMetadataList")
    raise not_acceptable(ACCEPTED)


def encode(body: Any, media: str) -> bytes:
    """``body`` in JSON, or in block YAML with the fields in their order."""
    if media == YAML:
        return yaml.dump(body, sort_keys=False, Dumper=_dumper()).encode()
    return msgspec.json.encode(body)


def media_type(content_type: str) -> str:
    """The bare media type of a ``Content-Type`` header."""
    return content_type.partition(";")[0].strip().lower()


def decode(data: bytes, content_type: str, kind: str) -> Any:
    """The value in a request body, sent where an object of ``kind`` is expected. Raises 400 and 415."""
    media = media_type(content_type)
    if media in ("", JSON):
        try:
            return decode_body(data, kind)
        except BodyError as error:
            raise bad_request(str(error)) from None
    if media in (YAML, "application/x-yaml", "text/yaml"):
        return _decode_yaml(data, kind)
    if media == PROTOBUF:
        return _decode_protobuf(data, kind)
    raise unsupported_media_type(ACCEPTED)


def decode_json(data: bytes) -> Any:
    """Any JSON value, for patches and options. Raises 400."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from None


def _decode_protobuf(data: bytes, kind: str) -> Any:
    try:
        return decode_protobuf(data)
    except UnknownKindError:
        raise unsupported_media_type(ACCEPTED) from None
    except ProtobufError as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
            f"protobuf error: {error}"
        ) from None


def _decode_yaml(data: bytes, kind: str) -> Any:
    try:
        found = list(documents(data, file="body", depth=_YAML_DEPTH, alias_nodes=_YAML_ALIASES))
    except InputError as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
            f"yaml parse error: {error.what}"
        ) from None
    if len(found) > 1:
        raise bad_request("a request body holds one YAML document")
    return found[0].body if found else None


def _dumper() -> Any:
    return getattr(yaml, "CSafeDumper", yaml.SafeDumper)
