"""Strict decoding speaks the API server's words."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from baro.model.decode import BodyError, StrictError, decode_body, rejection, strict_errors
from baro.model.decode.gotime import time_error
from baro.model.decode.jsontext import json_error
from baro.model.schema import kinds
from tests.support import shared
from tests.support.schema import JSON, bodies, claim_body, oracle, slice_body


def _messages(body: dict[str, Any], kube_version: str = "1.37") -> list[str]:
    return [error.message for error in strict_errors(body, kube_version=kube_version)]


# --- public cases ----------------------------------------------------------------------------------------


def test_case_030_a_slice_from_a_generated_page_gets_all_three_errors_at_once() -> None:
    inputs, expect = shared.case("030")
    found = _messages(yaml.safe_load(inputs["slice.yaml"]))
    assert [message.removeprefix("json: ") for message in found] == expect["errors"]


def test_case_058_a_flat_v1_claim_names_each_field_that_moved() -> None:
    inputs, expect = shared.case("058")
    body = yaml.safe_load(inputs["template.yaml"])
    found = _messages(body)
    assert found[0] == expect["message_contains"]
    assert len(found) == 4
    assert _messages({**body, "apiVersion": "resource.k8s.io/v1beta2"}) == found
    assert _messages({**body, "apiVersion": "resource.k8s.io/v1beta1"}) == []


def test_case_059_wrong_nestings_get_the_decoders_words() -> None:
    inputs, expect = shared.case("059")
    cases = {key: value for key, value in yaml.safe_load(inputs["cases.yaml"]).items() if key in "ABCDE"}
    for key in "CDE":
        cases[key] = claim_body(**cases[key]["exactly"])
    for key, body in cases.items():
        found = [message.removeprefix("json: ") for message in _messages(body)]
        assert found == [expect[key]], key


def test_case_061_the_removed_source_level_is_an_unknown_field() -> None:
    inputs, expect = shared.case("061")
    body = yaml.safe_load(inputs["pod.yaml"])
    path = expect["lint"]["path"]
    assert strict_errors(body) == (StrictError(path, f'unknown field "{path}"', "unknown"),)


def test_case_049_the_articles_manifest_decodes_as_v1beta1() -> None:
    inputs, _ = shared.case("049")
    assert _messages(yaml.safe_load(inputs["template.yaml"])) == []


# --- the server's answers --------------------------------------------------------------------------------


def _server_says(text: bytes) -> str | None:
    try:
        body = decode_body(text, "ResourceSlice")
    except BodyError as error:
        return str(error)
    return rejection(strict_errors(body), body["apiVersion"], body["kind"])


def test_the_oracles_decoding_errors_are_reproduced_word_for_word() -> None:
    wanted = {answer.name: answer.message for answer in oracle() if answer.code == 400}
    found = {answer.name: _server_says(answer.text) for answer in oracle() if answer.name in wanted}
    same = sum(found[name] == message for name, message in wanted.items())
    # All of them agree today; a larger oracle may hold messages that nobody has seen yet.
    assert same >= 0.95 * len(wanted), f"{same} of {len(wanted)}"


def test_what_the_server_decodes_decodes_here() -> None:
    for answer in oracle():
        if answer.code != 400:
            assert _server_says(answer.text) is None, answer.name


# --- details ---------------------------------------------------------------------------------------------


def test_an_integer_too_long_to_print_is_named_in_hexadecimal() -> None:
    (text,) = _messages(claim_body(count=16**5000))
    assert "cannot unmarshal number 0x1000" in text
    assert len(_messages(slice_body({"name": "d", "capacity": {"m": {"value": 16**5000}}}))) <= 1


def test_unknown_fields_are_listed_together_in_document_order() -> None:
    errors = strict_errors(slice_body(b=1, a=2))
    assert rejection(errors, "resource.k8s.io/v1", "ResourceSlice") == (
        'ResourceSlice in version "v1" cannot be handled as a ResourceSlice: '
        'strict decoding error: unknown field "spec.b", unknown field "spec.a"'
    )


def test_a_value_that_cannot_be_read_comes_before_all_other_errors() -> None:
    body = slice_body({"name": 1, "foo": 2, "capacity": {"memory": {"value": "x"}}})
    text = rejection(strict_errors(body), "resource.k8s.io/v1", "ResourceSlice")
    assert text is not None and text.endswith("[-+]?[0-9]*)$'")
    assert [error.trouble for error in strict_errors(body)] == ["type", "unknown", "value"]


@pytest.mark.parametrize(
    ("count", "value"),
    [
        (1.5, "number 1.5"),
        (2**63, f"number {2**63}"),
        (True, "bool"),
        ("2", "string"),
        ([], "array"),
        ({}, "object"),
    ],
)
def test_a_count_of_the_wrong_type_is_named(count: Any, value: str) -> None:
    place = "ExactDeviceRequest.spec.devices.requests.exactly.count"
    text = f"json: cannot unmarshal {value} into Go struct field {place} of type int64"
    assert _messages(claim_body(count=count)) == [text]


def test_nulls_decode_everywhere() -> None:
    assert _messages(claim_body(count=None, selectors=None, tolerations=[None])) == []


def test_new_fields_are_unknown_to_older_servers() -> None:
    body = slice_body({"name": "d"}, skipNodeOperations=["*"])
    assert _messages(body) == []
    assert _messages(body, "1.36") == ['unknown field "spec.skipNodeOperations"']
    former = slice_body({"name": "d", "nodeAllocatableResourceMappings": {}})
    assert _messages(former, "1.36") == []
    assert _messages(former) == ['unknown field "spec.devices[0].nodeAllocatableResourceMappings"']


def test_duplicate_keys_of_json_are_reported() -> None:
    text = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","name":"b","labels":{"x":"1","x":"2"}}}'
    assert _messages(decode_body(text, "Pod")) == [
        'duplicate field "metadata.name"',
        'duplicate field "metadata.labels.x"',
    ]


def test_half_a_surrogate_pair_is_replaced_as_in_go() -> None:
    text = rb'{"kind":"Pod","a":"\ud83d\ude00","b":"\ud83d","c":"\\ud83d","d":"\udE00\u0041"}'
    body = decode_body(text, "Pod")
    assert (body["a"], body["b"], body["c"], body["d"]) == ("\U0001f600", "\ufffd", "\\ud83d", "\ufffdA")


def test_a_kind_nobody_knows_has_no_errors() -> None:
    assert strict_errors({"apiVersion": "example.com/v1", "kind": "Foo", "x": 1}) == ()
    assert strict_errors({}) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2026-01-02T03:04:05Z", None),
        ("2026-01-02T03:04:05.123+02:00", None),
        ("2024-02-29T00:00:00Z", None),
        ("2023-02-29T00:00:00Z", 'parsing time "2023-02-29T00:00:00Z": day out of range'),
        ("2026-13-02T03:04:05Z", 'parsing time "2026-13-02T03:04:05Z": month out of range'),
        ("x", 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
        ("2026-01-02T03:04:05Zx", 'parsing time "2026-01-02T03:04:05Zx": extra text: "x"'),
    ],
)  # fmt: skip
def test_times_are_read_as_go_reads_them(text: str, problem: str | None) -> None:
    assert time_error(text) == problem


@given(st.datetimes(min_value=datetime.datetime(1, 1, 1), timezones=st.just(datetime.UTC)))
def test_every_time_that_python_prints_is_read(moment: datetime.datetime) -> None:
    text = moment.strftime("%H:%M:%S.%fZ")
    assert time_error(f"{moment:%m-%d}".join((f"{moment.year:04}-", f"T{text}")), micro=True) is None


# --- properties ------------------------------------------------------------------------------------------

_ANY_KIND = st.sampled_from([(kind.api_version, kind.kind) for kind in kinds()]).flatmap(lambda k: bodies(*k))


@given(_ANY_KIND)
def test_a_well_typed_body_has_no_errors(body: dict[str, Any]) -> None:
    assert strict_errors(body) == ()


def _objects(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All structs of a slice body that hold known fields, with their paths."""
    yield "", value
    yield "spec", value["spec"]
    yield "spec.pool", value["spec"]["pool"]
    for index, device in enumerate(value["spec"]["devices"]):
        yield f"spec.devices[{index}]", device
        for key, attribute in device.get("attributes", {}).items():
            yield f"spec.devices[{index}].attributes.{key}", attribute


@given(st.data(), st.integers(1, 4))
def test_one_unknown_field_is_found_where_it_was_put(data: st.DataObject, devices: int) -> None:
    body = slice_body(*({"name": f"d{i}", "attributes": {"a": {"int": i}}} for i in range(devices)))
    path, holder = data.draw(st.sampled_from(list(_objects(body))))
    holder["bogus"] = data.draw(JSON)
    place = f"{path}.bogus" if path else "bogus"
    assert _messages(body) == [f'unknown field "{place}"']


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status", "x"]), JSON))
def test_garbage_never_breaks_the_walk(body: dict[str, Any]) -> None:
    for kind in ("ResourceSlice", "ResourceClaim", "DeviceClass"):
        strict_errors({"apiVersion": "resource.k8s.io/v1", "kind": kind, **body})


@given(st.text(alphabet='{}[]:,"\\ntrue0-1.e ', max_size=12) | JSON.map(json.dumps))
def test_go_accepts_json_exactly_when_python_does(text: str) -> None:
    try:
        json.loads(text)
        python_reads = True
    except ValueError:
        python_reads = False
    assert (json_error(text) is None) == python_reads


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "unexpected end of JSON input"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("1 2", "invalid character '2' after top-level value"),
        ("tru]", "invalid character ']' in literal true (expecting 'e')"),
        ('"\\x"', "invalid character 'x' in string escape code"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("[" * 20_000, "exceeded max depth"),
    ],
)
def test_json_errors_have_gos_words(text: str, problem: str) -> None:
    assert json_error(text) == problem


def test_a_body_that_is_no_object_is_refused_without_a_traceback() -> None:
    for data in (b"", b"[]", b"1", b"\xff", b"[" * 100_000, b'{"a":'):
        with pytest.raises(BodyError, match="the object provided is unrecognized"):
            decode_body(data, "Pod")
