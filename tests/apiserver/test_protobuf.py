"""Protobuf bodies: the wire format, the kinds with a table, and what is refused."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.apiserver.protobuf import MEDIA, ProtobufError, UnknownKindError, decode_protobuf
from tests.support.apiserver import MAPS, NAMESPACES, Api


def varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value % 2**64)


def part(field: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(data)) + data


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    return (
        b"k8s\x00" + part(1, part(1, api_version) + part(2, kind)) + part(2, raw) + part(3, "") + part(4, "")
    )


def entry(key: str, value: bytes | str) -> bytes:
    return part(1, key) + part(2, value)


def test_a_config_map_with_everything_becomes_json() -> None:
    owner = part(1, "Node") + part(3, "n1") + part(4, "u-1") + part(5, "v1") + number(6, 0)
    metadata = (
        part(1, "m1") + part(2, "") + part(3, "default") + number(7, 0) + part(8, b"")
        + part(9, number(1, 1767355200) + number(2, 0)) + part(11, entry("app", "a")) + part(13, owner)
        + part(14, "x.example.com/f") + part(99, "from the future")
    )  # fmt: skip
    raw = part(1, metadata) + part(2, entry("k", "v")) + part(2, entry("empty", ""))
    raw += part(3, entry("b", b"\x00\xff")) + number(4, 0)
    assert decode_protobuf(body("v1", "ConfigMap", raw)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "m1",
            "namespace": "default",
            "deletionTimestamp": "2026-01-02T12:00:00Z",
            "labels": {"app": "a"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u-1", "controller": False}
            ],
            "finalizers": ["x.example.com/f"],
        },
        "data": {"k": "v", "empty": ""},
        "binaryData": {"b": base64.b64encode(b"\x00\xff").decode()},
        "immutable": False,
    }


def test_times_and_negative_numbers_survive() -> None:
    spec = part(1, "holder") + number(2, -7) + part(3, number(1, 1767355200) + number(2, 1_500_000))
    lease = decode_protobuf(body("coordination.k8s.io/v1", "Lease", part(1, part(1, "l")) + part(2, spec)))
    assert lease["spec"] == {
        "holderIdentity": "holder",
        "leaseDurationSeconds": -7,
        "acquireTime": "2026-01-02T12:00:00.001500Z",
    }


def test_the_server_creates_what_came_in_protobuf_and_answers_in_json() -> None:
    api = Api()
    data = body("v1", "Namespace", part(1, part(1, "demo") + part(8, b"")) + part(2, b"") + part(3, b""))
    made = api.call("POST", NAMESPACES, data, MEDIA, accept=f"{MEDIA},application/json")
    assert (made.code, made.body["status"]) == (201, {"phase": "Active"})
    stale = body("", "DeleteOptions", part(2, part(1, "another uid")))
    assert api.call("DELETE", f"{NAMESPACES}/demo", stale, MEDIA).code == 409


def test_unknown_kinds_are_415_and_broken_bytes_400() -> None:
    api = Api()
    unknown = api.call("POST", MAPS, body("apps/v1", "Deployment", b""), MEDIA)
    assert (unknown.code, unknown.body["reason"]) == (415, "UnsupportedMediaType")
    broken = api.call("POST", MAPS, body("v1", "ConfigMap", b"\xff"), MEDIA)
    assert (broken.code, broken.body["reason"]) == (400, "BadRequest")
    other = api.call("POST", MAPS, body("v1", "Namespace", b""), MEDIA)
    assert other.code == 400
    assert api.call("POST", MAPS, b"no protobuf", MEDIA).code == 400


@pytest.mark.parametrize(
    "raw",
    [b"\x0a\x05ab", b"\x00", b"\x0f", b"\x0a\x02\xff\xfe", b"\x08\x01", b"\xff" * 11, part(11, b"\x08\x01")],
)
def test_malformed_messages_say_so(raw: bytes) -> None:
    with pytest.raises(ProtobufError):
        decode_protobuf(body("v1", "ConfigMap", part(1, raw) if raw[:1] not in (b"\x0f", b"\x00") else raw))


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=80), st.sampled_from(["ConfigMap", "Secret", "Event", "Frob"]), st.booleans())
def test_any_bytes_give_an_object_or_a_clear_error(raw: bytes, kind: str, whole: bool) -> None:
    data = body("v1", kind, raw) if whole else b"k8s\x00" + raw
    try:
        assert decode_protobuf(data)["kind"] == kind
    except (ProtobufError, UnknownKindError) as error:
        assert str(error)


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=5))
def test_maps_of_text_come_back_as_they_were(data: dict[str, str]) -> None:
    raw = b"".join(part(2, entry(key, value)) for key, value in data.items())
    assert decode_protobuf(body("v1", "ConfigMap", raw)).get("data", {}) == data
