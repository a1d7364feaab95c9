"""Whole-object validation: the server's verdicts, paths and words."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from baro.model.decode import BodyError, decode_body, strict_errors
from baro.model.schema import find_kind, kinds, resolve
from baro.model.validation import Problems, validate_create
from tests.support import shared
from tests.support.schema import JSON, Answer, bodies, claim_body, oracle, slice_body

CEL_CATEGORY = "cel"


def _lines(body: dict[str, Any]) -> list[str]:
    return [str(cause) for cause in validate_create(body)]


# --- public cases ----------------------------------------------------------------------------------------


def test_case_021_a_version_of_four_numbers_is_refused_with_its_path() -> None:
    inputs, expect = shared.case("021")
    (cause,) = validate_create(yaml.safe_load(inputs["slice.yaml"]))
    assert cause.path == expect["path"]
    assert expect["message_contains"] in cause.message


def test_case_022_an_empty_version_is_refused() -> None:
    inputs, _ = shared.case("022")
    devices = yaml.safe_load(inputs["slice-part.yaml"])["devices"]
    (line,) = _lines(slice_body(*devices))
    start = (
        'spec.devices[0].attributes[driverVersion].version: Invalid value: "": must be a string compatible'
    )
    assert line.startswith(start)


def test_case_023_names_with_dashes_are_no_c_identifiers() -> None:
    inputs, expect = shared.case("023")
    devices = yaml.safe_load(inputs["slice-part.yaml"])["devices"]
    causes = validate_create(slice_body(*devices))
    assert len(causes) == len(expect["paths"])
    for cause, name in zip(causes, ("numa-1", "socket-268435456"), strict=True):
        # 1.37 names the map, older servers named the key as well.
        assert cause.path == "spec.devices[0].attributes"
        assert cause.message.startswith(f'Invalid value: "{name}": {expect["message_contains"]}')


@pytest.mark.parametrize(
    ("devices", "extra", "limit"),
    [
        (129, {}, 128),
        (65, {"taints": [{"key": "k", "effect": "NoSchedule"}]}, 64),
        (304, {"consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1"}}}]}, 64),
    ],
    ids="ABC",
)
def test_case_024_a_slice_holds_128_devices_or_64_with_taints_or_counters(
    devices: int, extra: dict[str, Any], limit: int
) -> None:
    entries = [{"name": f"d{index}"} for index in range(devices)]
    entries[-1] |= extra
    assert _lines(slice_body(*entries)) == [
        f"spec.devices: Too many: {devices}: must have at most {limit} items"
    ]
    assert _lines(slice_body(*entries[devices - limit :])) == []


def test_case_029_a_counter_set_needs_counters() -> None:
    inputs, expect = shared.case("029")
    body = slice_body(**yaml.safe_load(inputs["slice-part.yaml"]))
    del body["spec"]["devices"]
    assert _lines(body) == [f"{expect['path']}: {expect['message']}"]


def test_case_059_g_all_takes_no_count() -> None:
    inputs, expect = shared.case("059")
    (line,) = _lines(claim_body(**yaml.safe_load(inputs["cases.yaml"])["G"]))
    assert line == "spec.devices.requests[0].exactly.count: Invalid value: 2: " + expect["G"].removeprefix(
        "count: "
    )


def test_case_061_a_pod_claim_needs_one_of_the_two_names() -> None:
    inputs, _ = shared.case("061")
    (line,) = _lines(yaml.safe_load(inputs["pod.yaml"]))
    assert line.startswith("spec.resourceClaims[0]: Invalid value: {")
    assert line.endswith("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")


def test_a_container_may_only_use_claims_of_its_pod() -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "x", "resources": {"claims": [{"name": "gpus"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
        },
    }
    path = "spec.containers[0].resources.claims[0]"
    text = "must be one of the names in pod.spec.resourceClaims: gpu"
    assert _lines(body) == [f'{path}: Not found: "gpus": {text}']


# --- the server's answers --------------------------------------------------------------------------------


def _judged() -> list[tuple[Answer, dict[str, Any]]]:
    """Creations that decode and need neither CEL nor another object to be judged."""
    found = []
    for answer in oracle():
        if answer.operation != "create" or answer.category == CEL_CATEGORY or "cel" in answer.name:
            continue
        if "expr" in answer.name or answer.name == "admin/unlabelled-ns":
            continue
        try:
            body = decode_body(answer.text, "object")
        except BodyError:
            continue
        if not strict_errors(body):
            found.append((answer, body))
    return found


def test_every_creation_of_the_oracle_gets_the_servers_verdict() -> None:
    judged = _judged()
    assert len(judged) > 200
    wrong = [answer.name for answer, body in judged if bool(validate_create(body)) == answer.accepted]
    # All agree today; the floor leaves room for a larger oracle.
    assert len(wrong) <= 0.02 * len(judged), wrong


def test_the_causes_are_the_servers_word_for_word() -> None:
    refused = [(answer, body) for answer, body in _judged() if not answer.accepted]
    different = [
        answer.name
        for answer, body in refused
        if Counter(answer.causes) != Counter((cause.path, cause.message) for cause in validate_create(body))
    ]
    assert len(refused) > 100
    assert len(different) <= 0.05 * len(refused), different


# --- details ---------------------------------------------------------------------------------------------


def test_a_right_slice_and_a_right_claim_have_no_causes() -> None:
    assert _lines(slice_body({"name": "gpu-0", "attributes": {"model": {"string": "H200"}}})) == []
    assert _lines(claim_body(count=4)) == []


def test_an_empty_metadata_needs_a_name() -> None:
    body = {**claim_body(), "metadata": {}}
    assert _lines(body) == ["metadata.name: Required value: name or generateName is required"]
    assert _lines({**body, "metadata": {"generateName": "c-"}}) == []


def test_an_old_version_is_judged_in_the_v1_shape_and_answered_in_its_own() -> None:
    flat = {"name": "gpu", "deviceClassName": "c", "allocationMode": "Some"}
    body = {
        **claim_body(),
        "apiVersion": "resource.k8s.io/v1beta1",
        "spec": {"devices": {"requests": [flat]}},
    }
    (cause,) = validate_create(body)
    # What 1.37 declares is checked in the version of the request, what is written by hand is not.
    assert (cause.code, cause.path) == (
        "FieldValueNotSupported",
        "spec.devices.requests[0].allocationMode",
    )
    (cause,) = validate_create(body, kube_version="1.36")
    assert cause.path == "spec.devices.requests[0].exactly.allocationMode"


def test_the_caller_judges_cel() -> None:
    asked: list[tuple[str, str, bool]] = []

    def cel(problems: Problems, path: str, expression: str, /, *, derived: bool = False) -> int:
        asked.append((path, expression, derived))
        problems.invalid(path, expression, "no")
        return 0

    body = claim_body(selectors=[{"cel": {"expression": "x"}}, {"cel": {"expression": "y" * 10_241}}])
    path = "spec.devices.requests[0].exactly.selectors"
    assert [str(cause) for cause in validate_create(body, cel=cel)] == [
        f'{path}[0].cel.expression: Invalid value: "x": no',
        f"{path}[1].cel.expression: Too long: may not be more than 10240 bytes",
    ]
    assert asked == [(f"{path}[0].cel.expression", "x", False)]


def test_a_body_that_does_not_decode_has_no_causes() -> None:
    assert validate_create(claim_body(count="2")) == ()
    assert validate_create({"apiVersion": "example.com/v1", "kind": "Foo"}) == ()
    assert validate_create({}) == ()


# --- properties ------------------------------------------------------------------------------------------

_ANY_KIND = st.sampled_from([(kind.api_version, kind.kind) for kind in kinds()]).flatmap(lambda k: bodies(*k))


@given(_ANY_KIND)
def test_every_cause_names_a_field_of_the_object(body: dict[str, Any]) -> None:
    kind = find_kind(body["apiVersion"], body["kind"])
    assert kind is not None
    for cause in validate_create(body):
        root = cause.path.split(".")[0].split("[")[0]
        assert root in resolve(kind.type).fields
        assert cause.message.startswith(cause.reason)


@given(
    st.sampled_from(["ResourceSlice", "ResourceClaim", "DeviceClass"]), st.dictionaries(st.just("spec"), JSON)
)
def test_garbage_is_judged_without_a_traceback(kind: str, parts: dict[str, Any]) -> None:
    validate_create({"apiVersion": "resource.k8s.io/v1", "kind": kind, **parts})


# --- config maps and secrets -----------------------------------------------------------------------------


def _config(kind: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "c", "namespace": "default"}, **parts}


def test_a_config_map_holds_a_mebibyte_and_no_byte_more() -> None:
    half = 512 * 1024
    encoded = base64.b64encode(b"x" * half).decode()
    fits = _config("ConfigMap", data={"a": "ü" * (half // 2)}, binaryData={"b": encoded})
    assert validate_create(fits) == ()
    fits["data"]["c"] = "x"
    assert [str(cause) for cause in validate_create(fits)] == [
        "[]: Too long: may not be more than 1048576 bytes"
    ]


def test_a_secret_holds_a_mebibyte_and_no_byte_more() -> None:
    data = {"a": base64.b64encode(b"x" * 1024 * 1024).decode()}
    assert validate_create(_config("Secret", data=data)) == ()
    data["b"] = "eA=="
    assert [str(cause) for cause in validate_create(_config("Secret", data=data))] == [
        "data: Too long: may not be more than 1048576 bytes"
    ]


@given(st.text(max_size=6))
def test_a_key_is_a_file_name(key: str) -> None:
    body = _config("ConfigMap", data={key: ""})
    allowed = set("-._abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
    right = key != "" and set(key) <= allowed and not (key.startswith("..") or key == ".")
    assert (validate_create(body) == ()) == right
