"""Validation of updates: what may not change, what a claim's status may hold, in the server's words."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.model.schema import kinds
from baro.model.validation import (
    GATES,
    KUBE_VERSIONS,
    Problems,
    default_gates,
    judge_create,
    validate_create,
    validate_update,
)
from baro.model.validation.rules import Rules, known_gates
from tests.support.oracle_inputs import inputs
from tests.support.schema import bodies, claim_body, slice_body

RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d0"}
USER = {"resource": "pods", "name": "p", "uid": "u"}


def _claim(status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    body = claim_body()
    body["metadata"] |= metadata
    return {**body, "status": status} if status is not None else body


def _allocated(*results: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"allocation": {"devices": {"results": list(results or (RESULT,))}}, **status}


def _status(new: dict[str, Any], old: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
    before = _claim(old) if old is not None else _claim()
    return [str(cause) for cause in validate_update(before, _claim(new), subresource="status", **kwargs)]


# --- immutable parts -------------------------------------------------------------------------------------


def test_the_spec_of_a_claim_never_changes() -> None:
    assert validate_update(claim_body(), claim_body()) == ()
    (cause,) = validate_update(claim_body(), claim_body(count=2))
    assert str(cause) == "spec: Invalid value: null: field is immutable"
    (cause,) = validate_update(claim_body(), claim_body(count=2), kube_version="1.36")
    assert cause.message.startswith('Invalid value: {"Devices":{"Requests":[{"Name":"gpu","Exactly":{')
    assert cause.message.endswith('"Constraints":null,"Config":null}}: field is immutable')


def test_defaults_are_no_change() -> None:
    assert validate_update(claim_body(), claim_body(allocationMode="ExactCount", count=1)) == ()


def test_the_spec_of_a_template_never_changes() -> None:
    def template(**exactly: Any) -> dict[str, Any]:
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "t", "namespace": "default"},
            "spec": {"spec": claim_body(**exactly)["spec"]},
        }

    assert validate_update(template(), template()) == ()
    (cause,) = validate_update(template(), template(count=3))
    assert cause.path == "spec"
    assert cause.message.startswith('Invalid value: {"Spec":{"Devices":{"Requests":[{"Name":"gpu"')


def test_driver_pool_and_node_of_a_slice_stay() -> None:
    old = slice_body({"name": "d0"})
    new = slice_body({"name": "d0"}, driver="other.example.com", nodeName="node-b")
    new["spec"]["pool"] = {**new["spec"]["pool"], "name": "other"}
    assert [str(cause) for cause in validate_update(old, new)] == [
        'spec.pool.name: Invalid value: "other": field is immutable',
        'spec.driver: Invalid value: "other.example.com": field is immutable',
        'spec.nodeName: Invalid value: "node-b": field is immutable',
    ]
    grown = slice_body({"name": "d0"}, {"name": "d1"})
    grown["spec"]["pool"] = {**grown["spec"]["pool"], "generation": 2}
    assert validate_update(old, grown) == ()


def test_capacities_and_taints_that_do_not_change_are_not_judged_again() -> None:
    device = {"name": "d0", "capacity": {"memory": {"value": "1Gi", "requestPolicy": {}}}}
    path = "spec.devices[0].capacity[memory].requestPolicy"
    (cause,) = validate_create(slice_body(device))
    assert str(cause) == f"{path}: Forbidden: allowMultipleAllocations must be true"
    same = copy.deepcopy(device)
    same["capacity"]["memory"]["value"] = "1024Mi"  # type: ignore[index]
    assert validate_update(slice_body(device), slice_body(same)) == ()


def test_declared_rules_are_silent_about_what_an_update_leaves_alone() -> None:
    sets = [{"name": "c", "counters": {"m": {"value": "1"}}}] * 2
    old = slice_body(sharedCounters=sets)
    del old["spec"]["devices"]
    (cause,) = validate_create(old)
    assert cause.message == 'Duplicate value: {"name":"c","counters":{"m":{"value":"1"}}}'
    (cause,) = validate_update(old, {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}})
    assert cause.message == 'Duplicate value: "c"'  # the hand-written rule still says so


def test_unchanged_selectors_of_a_class_are_not_compiled_again() -> None:
    def device_class(expression: str, *configs: Any) -> dict[str, Any]:
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "c"},
            "spec": {"selectors": [{"cel": {"expression": expression}}], "config": list(configs)},
        }

    asked: list[str] = []

    def compiles(_problems: Problems, _path: str, text: str, *, derived: bool = False) -> int:
        asked.append(text)
        return 0

    config = {"opaque": {"driver": "d.example.com", "parameters": {}}}
    validate_update(device_class("old"), device_class("old", config), cel=compiles)
    assert asked == []
    validate_update(device_class("old"), device_class("new"), cel=compiles)
    assert asked == ["new"]


def test_no_finalizer_comes_to_an_object_that_goes() -> None:
    old = _claim(deletionTimestamp="2026-01-02T03:04:05Z", finalizers=["example.com/a"])
    new = _claim(finalizers=["example.com/a", "example.com/b"])
    (cause,) = validate_update(old, new)
    assert str(cause) == (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"example.com/b"}'
    )
    assert validate_update(old, _claim(finalizers=[])) == ()
    assert validate_update(_claim(), new) == ()


# --- the status of a claim -------------------------------------------------------------------------------


def test_an_allocation_comes_and_goes_but_never_changes() -> None:
    assert _status(_allocated()) == []
    assert _status({}, _allocated()) == []
    other = _allocated({**RESULT, "device": "d1"})
    assert _status(other, _allocated()) == [
        "status.allocation: Invalid value: null: field cannot be modified once set"
    ]
    (line,) = _status(other, _allocated(), kube_version="1.36")
    assert line.startswith('status.allocation: Invalid value: {"Devices":{"Results":[{"Request":"gpu"')
    assert line.endswith('"AllocationTimestamp":null}: field is immutable')


def test_results_name_requests_of_the_claim() -> None:
    (line,) = _status(_allocated({**RESULT, "request": "nope"}))
    start = (
        'status.allocation.devices.results[0].request: Invalid value: "nope": must be the name of a request'
    )
    assert line.startswith(start)


@pytest.mark.parametrize(("count", "limit"), [(33, 32)])
def test_a_claim_holds_32_devices(count: int, limit: int) -> None:
    many = [{**RESULT, "device": f"d{number}"} for number in range(count)]
    assert _status(_allocated(*many)) == [
        f"status.allocation.devices.results: Too many: {count}: must have at most {limit} items"
    ]
    assert _status(_allocated(*many[:limit])) == []


def test_a_claim_is_reserved_for_at_most_256_and_only_while_it_is_allocated() -> None:
    users = [{**USER, "uid": f"u{number}"} for number in range(257)]
    assert _status(_allocated(reservedFor=users[:256])) == []
    assert _status(_allocated(reservedFor=users)) == [
        "status.reservedFor: Too many: 257: must have at most 256 items"
    ]
    assert _status({"reservedFor": [USER]}) == [
        "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    ]
    assert _status(_allocated(reservedFor=[USER, USER]))[0].startswith(
        'status.reservedFor[1]: Duplicate value: {"resource":"pods","name":"p","uid":"u"}'
    )


def test_a_claim_that_goes_takes_no_new_users() -> None:
    old = _claim(_allocated(), deletionTimestamp="2026-01-02T03:04:05Z", finalizers=["example.com/a"])
    new = _claim(_allocated(reservedFor=[USER]))
    (cause,) = validate_update(old, new, subresource="status")
    assert str(cause).startswith("status.reservedFor: Forbidden: new entries may not be added while")


def test_device_status_is_about_allocated_devices() -> None:
    about = {"driver": "gpu.example.com", "pool": "p", "device": "d7"}
    (line,) = _status(_allocated(devices=[about]), _allocated())
    shown = '{"Driver":"gpu.example.com","Pool":"p","Device":"d7","ShareID":""}'
    assert line == f"status.devices[0]: Invalid value: {shown}: must be an allocated device in the claim"


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("10.9.8.7/24", None),
        ("2001:db8::1/64", None),
        ("2001:DB8::1/64", 'must be in canonical form ("2001:db8::1/64")'),
        ("::ffff:192.168.0.1/120", 'must be in canonical form ("192.168.0.1/24")'),
        ("10.9.8.007/24", 'must be in canonical form ("10.9.8.7/24")'),
        ("10.9.8.7", "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"),
        ("10.9.8.7/33", "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"),
    ],
)
def test_addresses_of_network_devices_are_canonical(address: str, complaint: str | None) -> None:
    about = {"driver": "gpu.example.com", "pool": "p", "device": "d0", "networkData": {"ips": [address]}}
    lines = _status(_allocated(devices=[about]), _allocated())
    path = "status.devices[0].networkData.ips[0]"
    assert lines == ([f'{path}: Invalid value: "{address}": {complaint}'] if complaint else [])


def test_conditions_are_complete_and_unique() -> None:
    condition = {
        "type": "Ready", "status": "Maybe", "reason": "", "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    about = {"driver": "gpu.example.com", "pool": "p", "device": "d0", "conditions": [condition, condition]}
    lines = _status(_allocated(devices=[about]), _allocated())
    path = "status.devices[0].conditions"
    unknown = 'Unsupported value: "Maybe": supported values: "False", "True", "Unknown"'
    assert lines == [
        f"{path}[0].status: {unknown}",
        f"{path}[0].reason: Required value",
        f'{path}[1]: Duplicate value: "Ready"',
        f"{path}[1].status: {unknown}",
        f"{path}[1].reason: Required value",
    ]


def test_admin_access_needs_the_label_on_the_namespace() -> None:
    result = {**RESULT, "adminAccess": True}
    label = {"resource.kubernetes.io/admin-access": "true"}
    assert _status(_allocated(result), namespace_labels=label) == []
    (line,) = _status(_allocated(result), namespace_labels={})
    assert line.startswith("status.allocation.devices.results[0].adminAccess: Forbidden: admin access to dev")
    (cause,) = validate_create(claim_body(adminAccess=True), namespace_labels={})
    assert cause.path == "spec.devices.requests[0].adminAccess"
    assert validate_create(claim_body(adminAccess=True)) == ()


# --- other kinds -----------------------------------------------------------------------------------------


def _pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "x"}]
    metadata = {"name": "p", "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
    }


def test_a_pod_loses_gates_and_gets_none() -> None:
    gate = {"name": "baro.dev/placement"}
    assert validate_update(_pod(schedulingGates=[gate]), _pod()) == ()
    (cause,) = validate_update(_pod(), _pod(schedulingGates=[gate]))
    assert str(cause) == (
        "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate "
        "'baro.dev/placement'"
    )


def test_the_spec_of_a_pod_stays_but_for_what_the_server_lists() -> None:
    toleration = {"key": "k", "operator": "Exists"}
    assert validate_update(_pod(), _pod(tolerations=[toleration])) == ()
    (cause,) = validate_update(_pod(tolerations=[toleration]), _pod())
    assert cause.path == "spec.tolerations"
    (cause,) = validate_update(_pod(), _pod(hostNetwork=True))
    assert (cause.path, cause.code) == ("spec", "FieldValueForbidden")
    gated = {"schedulingGates": [{"name": "baro.dev/placement"}]}
    assert validate_update(_pod(**gated), _pod(**gated, nodeSelector={"a": "b"})) == ()


def test_the_affinity_of_a_gated_pod_only_gets_narrower() -> None:
    def pod(*requirements: str, gated: bool = True, **affinity: Any) -> dict[str, Any]:
        found = [{"key": key, "operator": "Exists"} for key in requirements]
        required = {"nodeSelectorTerms": [{"matchExpressions": found}]}
        if found:
            affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        gates = [{"name": "baro.dev/placement"}] if gated else []
        return _pod(schedulingGates=gates, affinity=affinity)

    assert validate_update(pod(), pod("a")) == ()
    assert validate_update(pod("a"), pod("a", "b")) == ()
    for wider in (pod("b", "a"), pod()):
        (cause,) = validate_update(pod("a", "b"), wider)
        assert cause.path.startswith("spec.affinity.nodeAffinity.requiredDuringScheduling")
    (cause,) = validate_update(pod("a", gated=False), pod("a", "b", gated=False))
    assert (cause.path, cause.code) == ("spec", "FieldValueForbidden")
    (cause,) = validate_update(
        pod("a"), pod("a", podAffinity={"preferredDuringSchedulingIgnoredDuringExecution": []})
    )
    assert (cause.path, cause.code) == ("spec", "FieldValueForbidden")


def test_an_immutable_config_map_or_secret_stays_as_it_is() -> None:
    for kind, other in (("ConfigMap", "2"), ("Secret", "Mg==")):
        old = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "c"}, "immutable": True}
        assert validate_update(old, {**old, "metadata": {"name": "c", "labels": {"a": "b"}}}) == ()
        changed = validate_update(old, {**old, "immutable": False, "data": {"a": other}})
        assert [cause.path for cause in changed] == ["immutable", "data"]
        assert validate_update({**old, "immutable": False}, {**old, "data": {"a": other}}) == ()


def test_the_status_of_a_pod_names_claims_of_its_spec_once() -> None:
    pod = _pod(resourceClaims=[{"name": "gpus", "resourceClaimTemplateName": "t"}])

    def status(*names: str) -> list[str]:
        made = [{"name": name, "resourceClaimName": "made"} for name in names]
        new = {**pod, "status": {"resourceClaimStatuses": made}}
        return [cause.path for cause in validate_update(pod, new, subresource="status")]

    assert status("gpus") == []
    assert status("gpus", "gpus") == ["status.resourceClaimStatuses[1].name"]
    assert status("other") == ["status.resourceClaimStatuses[0].name"]


def test_a_nodes_provider_stays() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    (cause,) = validate_update({**node, "spec": {"providerID": "a"}}, {**node, "spec": {"providerID": "b"}})
    assert str(cause) == "spec.providerID: Invalid value: null: field cannot be modified once set"
    assert validate_update(node, {**node, "spec": {"unschedulable": True}}) == ()


def test_an_unknown_kind_or_a_wrong_type_has_no_causes() -> None:
    assert validate_update({}, {"apiVersion": "example.com/v1", "kind": "Foo"}) == ()
    assert validate_update(claim_body(), claim_body(count="2")) == ()


# --- gates and versions ----------------------------------------------------------------------------------


def test_fields_of_gates_that_are_off_are_not_seen() -> None:
    listed = slice_body({"name": "d0", "attributes": {"a": {"ints": [1]}}})
    (cause,) = validate_create(listed)
    assert "must specify one of" in cause.message
    assert validate_create(listed, gates=default_gates() | {"DRAListTypeAttributes"}) == ()


def test_a_field_that_is_in_use_stays_when_its_gate_goes_off() -> None:
    taints = [{"key": "k", "effect": "NoSchedule"}]
    old = slice_body({"name": "d0", "taints": taints})
    wrong = slice_body({"name": "d0", "taints": [{"key": "k", "effect": "Never"}]})
    off = default_gates() - {"DRADeviceTaints"}
    assert validate_create(wrong, gates=off) == ()
    assert len(validate_update(old, wrong, gates=off)) == 1


def test_list_attributes_count_by_their_items() -> None:
    values = {f"a{number}": {"ints": [1, 2, 3, 4]} for number in range(13)}
    (cause,) = validate_create(slice_body({"name": "d0", "attributes": values}), gates=GATES)
    assert str(cause) == (
        "spec.devices[0]: Invalid value: 52: the total number of attribute values must not exceed 48"
    )


def test_a_stored_object_has_no_empty_list_but_keeps_other_empty_values() -> None:
    body = claim_body()
    body["spec"]["devices"].update(requests=[], constraints=[])
    assert judge_create(body, Rules()).body == {**body, "spec": {"devices": {}}}
    other = slice_body({"name": "d0", "attributes": {}, "taints": []})
    kept = judge_create(other, Rules()).body
    assert kept is not None
    assert kept["spec"]["devices"] == [{"name": "d0", "attributes": {}}]


def test_a_version_knows_the_gates_that_it_or_an_older_one_brought() -> None:
    assert "DRADeviceTaintRules" not in known_gates("1.34")
    assert set(known_gates("1.37")) == set(GATES)
    for older, newer in itertools.pairwise(KUBE_VERSIONS):
        assert default_gates(older) <= set(known_gates(older)) <= set(known_gates(newer))


def test_default_gates_grow_with_the_versions() -> None:
    assert {"DRAAdminAccess", "DRAPrioritizedList"} <= default_gates("1.34")
    assert "DRADeviceTaints" not in default_gates("1.35")
    assert "DRADeviceTaints" in default_gates("1.36")
    for older, newer in itertools.pairwise(KUBE_VERSIONS):
        assert default_gates(older) <= default_gates(newer)


# --- properties ------------------------------------------------------------------------------------------

_ANY_KIND = st.sampled_from([(kind.api_version, kind.kind) for kind in kinds()]).flatmap(
    lambda kind: st.tuples(bodies(*kind), bodies(*kind))
)


@settings(deadline=None, max_examples=60)
@given(_ANY_KIND, st.sampled_from(["", "status"]), st.sampled_from(KUBE_VERSIONS))
def test_any_update_is_judged_without_a_traceback(
    pair: tuple[dict[str, Any], dict[str, Any]], subresource: str, version: str
) -> None:
    before = copy.deepcopy(pair)
    causes = validate_update(*pair, subresource=subresource, kube_version=version)
    assert all(cause.message.startswith(cause.reason) for cause in causes)
    assert pair == before


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000))
def test_what_may_be_created_may_be_written_again(seed: int) -> None:
    for record in inputs(3, seed):
        stored = judge_create(record["object"], Rules())
        if record["operation"] == "create" and not stored.causes:
            assert stored.body is not None
            assert validate_update(stored.body, stored.body) == ()
