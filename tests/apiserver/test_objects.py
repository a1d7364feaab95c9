"""What a create, update or patch does to an object, and what it may not do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from baro.apiserver.patching import Patch, apply_merge_patch
from baro.apiserver.registry import WriteOptions
from tests.support import apiserver as support
from tests.support.apiserver import CLAIMS, JSON_PATCH, MAPS, NODES, PODS, SLICES, STRATEGIC, Api

Body = dict[str, Any]


@pytest.fixture
def api() -> Api:
    return Api()


# --- create ---------------------------------------------------------------------------------------------


def test_a_new_object_gets_identity_time_and_revision(api: Api) -> None:
    created = api.made(MAPS, support.config_map(resourceVersion="99", uid="mine", generation=7))
    metadata = created["metadata"]
    assert metadata["creationTimestamp"] == "2026-01-02T12:00:00Z"
    assert metadata["namespace"] == "default"
    assert metadata["uid"] != "mine"
    assert metadata["resourceVersion"] == str(api.registry.store.revision)
    assert "generation" not in metadata
    assert api.get(f"{MAPS}/m1").body == created


def test_a_taken_name_is_a_conflict_in_the_servers_words(api: Api) -> None:
    api.made(CLAIMS, support.claim())
    result = api.post(CLAIMS, support.claim())
    assert (result.code, result.body["reason"]) == (409, "AlreadyExists")
    assert result.body["message"] == 'resourceclaims.resource.k8s.io "tp4" already exists'
    assert result.body["details"] == {"name": "tp4", "group": "resource.k8s.io", "kind": "resourceclaims"}


def test_generate_name_makes_distinct_names_with_the_prefix(api: Api) -> None:
    body = support.config_map()
    body["metadata"] = {"generateName": "train-"}
    names = {api.made(MAPS, body)["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("train-") and len(name) == 11 for name in names)


def test_an_object_needs_a_name(api: Api) -> None:
    result = api.post(MAPS, {"metadata": {}})
    assert result.code == 422
    assert result.body["message"] == (
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )


def test_a_namespace_must_exist(api: Api) -> None:
    result = api.post("/api/v1/namespaces/nope/configmaps", support.config_map())
    assert (result.code, result.body["message"]) == (404, 'namespaces "nope" not found')


def test_the_namespace_of_body_and_url_must_agree(api: Api) -> None:
    result = api.post(MAPS, support.config_map(namespace="kube-system"))
    assert result.code == 400
    assert "does not match the namespace sent on the request" in result.body["message"]


def test_the_server_sets_the_defaults_of_claims_and_pods(api: Api) -> None:
    claim = support.claim()
    exactly = claim["spec"]["devices"]["requests"][0]["exactly"]
    del exactly["count"]
    exactly["tolerations"] = [{"key": "a"}]
    made = api.made(CLAIMS, claim)
    assert made["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": "gpu.example.com",
        "allocationMode": "ExactCount",
        "count": 1,
        "tolerations": [{"key": "a", "operator": "Equal"}],
    }
    spec = api.made(PODS, support.pod())["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"]) == ("Always", "ClusterFirst")
    assert (spec["schedulerName"], spec["terminationGracePeriodSeconds"]) == ("default-scheduler", 30)
    assert "tolerations" not in spec


def test_a_gated_pod_says_so_in_its_status(api: Api) -> None:
    status = api.made(PODS, {**support.pod(gate="baro.dev/placement"), "status": {"phase": "Running"}})[
        "status"
    ]
    assert (status["phase"], status["qosClass"]) == ("Pending", "BestEffort")
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("PodScheduled", "False", "SchedulingGated")
    ]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}},
            "Guaranteed",
        ),
        ({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}, "Burstable"),
    ],
)
def test_the_quality_of_service_follows_from_requests_and_limits(
    api: Api, resources: Body, expected: str
) -> None:
    pod = support.pod()
    pod["spec"]["containers"][0]["resources"] = resources
    assert api.made(PODS, pod)["status"]["qosClass"] == expected


def test_status_is_not_taken_on_create_except_for_nodes(api: Api) -> None:
    claim = {**support.claim(), "status": {"allocation": support.allocation("gpu-0")}}
    assert api.made(CLAIMS, claim)["status"] == {}
    assert api.made(NODES, support.node())["status"]["allocatable"] == {"cpu": "4", "pods": "110"}


def test_a_dry_run_changes_nothing_and_shows_what_would_be(api: Api) -> None:
    before = api.registry.store.revision
    shown = api.post(f"{CLAIMS}?dryRun=All", support.claim())
    assert shown.code == 201
    assert shown.body["spec"]["devices"]["requests"][0]["exactly"]["allocationMode"] == "ExactCount"
    assert api.registry.store.revision == before
    assert api.get(f"{CLAIMS}/tp4").code == 404
    assert api.post(f"{CLAIMS}?dryRun=Some", support.claim()).code == 422


def test_unknown_fields_follow_the_field_validation_mode(api: Api) -> None:
    body = support.claim()
    body["spec"]["foo"] = 1
    strict = api.post(f"{CLAIMS}?fieldValidation=Strict", body)
    assert strict.code == 400
    assert strict.body["message"] == (
        'ResourceClaim in version "v1" cannot be handled as a ResourceClaim: strict decoding error: '
        'unknown field "spec.foo"'
    )
    warned = api.post(f"{CLAIMS}?dryRun=All", body)
    assert (warned.code, warned.warnings) == (201, ['299 - "unknown field \\"spec.foo\\""'])
    assert "foo" not in warned.body["spec"]
    ignored = api.post(f"{CLAIMS}?fieldValidation=Ignore", body)
    assert (ignored.code, ignored.warnings) == (201, [])
    assert api.post(f"{CLAIMS}?fieldValidation=Loose", body).code == 422


def test_wrong_types_and_broken_rules_are_refused_in_every_mode(api: Api) -> None:
    wrong = support.claim()
    wrong["spec"]["devices"]["requests"] = {"name": "gpu"}
    assert api.post(f"{CLAIMS}?fieldValidation=Ignore", wrong).code == 400
    result = api.post(CLAIMS, support.claim(count=-1))
    assert (result.code, result.body["reason"]) == (422, "Invalid")
    assert result.body["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": "Invalid value: -1: must be greater than zero",
            "field": "spec.devices.requests[0].exactly.count",
        }
    ]


def test_admin_access_needs_the_consent_of_the_namespace(api: Api) -> None:
    claim = support.claim()
    claim["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    refused = api.post(CLAIMS, claim)
    assert refused.code == 422
    assert "spec.devices.requests[0].adminAccess: Forbidden" in refused.body["message"]
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    assert api.patch("/api/v1/namespaces/default", labels).code == 200
    api.made(CLAIMS, claim)


# --- update ---------------------------------------------------------------------------------------------


def test_a_stale_update_is_refused_in_the_servers_words(api: Api) -> None:
    first = api.made(MAPS, support.config_map())
    assert api.put(f"{MAPS}/m1", {**first, "data": {"key": "2"}}).code == 200
    result = api.put(f"{MAPS}/m1", {**first, "data": {"key": "3"}})
    assert (result.code, result.body["reason"]) == (409, "Conflict")
    assert result.body["message"] == (
        'Operation cannot be fulfilled on configmaps "m1": the object has been modified; please apply your '
        "changes to the latest version and try again"
    )
    unconditional = support.config_map(data={"key": "4"})
    assert api.put(f"{MAPS}/m1", unconditional).body["data"] == {"key": "4"}


def test_an_update_without_a_change_is_no_write(api: Api) -> None:
    first = api.made(CLAIMS, support.claim())
    before = api.registry.store.revision
    assert api.put(f"{CLAIMS}/tp4", first).body == first
    assert api.patch(f"{CLAIMS}/tp4", {"metadata": {"labels": None}}).body == first
    assert api.registry.store.revision == before


def test_identity_and_birth_cannot_be_changed(api: Api) -> None:
    first = api.made(MAPS, support.config_map())
    patch = {"metadata": {"creationTimestamp": "2000-01-01T00:00:00Z", "generation": 9}}
    assert api.patch(f"{MAPS}/m1", patch).body == first
    other_uid = api.put(f"{MAPS}/m1", support.config_map(uid="other"))
    assert (other_uid.code, other_uid.body["reason"]) == (409, "Conflict")
    renamed = api.put(f"{MAPS}/m1", support.config_map("m2"))
    assert renamed.body["message"] == "the name of the object (m2) does not match the name on the URL (m1)"


def test_generations_count_changes_of_the_spec_only(api: Api) -> None:
    assert api.made(SLICES, support.resource_slice())["metadata"]["generation"] == 1
    labelled = api.patch(f"{SLICES}/s1", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.body["metadata"]["generation"] == 1
    pool = {"spec": {"pool": {"generation": 2}}}
    assert api.patch(f"{SLICES}/s1", pool).body["metadata"]["generation"] == 2


def test_leases_can_be_created_by_an_update_and_need_a_revision_afterwards(api: Api) -> None:
    url = "/apis/coordination.k8s.io/v1/namespaces/default/leases/lock"
    lease = {"metadata": {"name": "lock"}, "spec": {"holderIdentity": "a"}}
    assert api.put(url, lease).code == 201
    blind = api.put(url, {**lease, "spec": {"holderIdentity": "b"}})
    assert blind.code == 422
    assert blind.body["message"] == (
        'leases.coordination.k8s.io "lock" is invalid: metadata.resourceVersion: Invalid value: 0: must be '
        "specified for an update"
    )
    assert api.put(f"{MAPS}/m1", support.config_map()).code == 404


def test_the_resource_keeps_its_status_and_the_status_keeps_the_spec(api: Api) -> None:
    api.made(NODES, support.node())
    main = {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "9"}}}
    changed = api.patch(f"{NODES}/n1", main).body
    assert changed["spec"]["unschedulable"] is True
    assert changed["status"]["capacity"]["cpu"] == "4"
    status = {"spec": {"unschedulable": False}, "status": {"capacity": {"cpu": "8"}}}
    changed = api.patch(f"{NODES}/n1/status", status).body
    assert changed["spec"]["unschedulable"] is True
    assert changed["status"]["capacity"]["cpu"] == "8"


def test_conditions_merge_by_type_in_a_strategic_patch(api: Api) -> None:
    api.made(NODES, support.node())
    patch = {"status": {"conditions": [{"type": "GPUReady", "status": "Unknown"}]}}
    changed = api.patch(f"{NODES}/n1/status", patch, STRATEGIC).body
    assert sorted(c["type"] for c in changed["status"]["conditions"]) == ["GPUReady", "Ready"]


def test_a_patch_with_a_stale_revision_is_refused_and_one_without_is_not(api: Api) -> None:
    first = api.made(MAPS, support.config_map())
    old = first["metadata"]["resourceVersion"]
    assert api.patch(f"{MAPS}/m1", {"data": {"a": "1"}}).code == 200
    assert api.patch(f"{MAPS}/m1", {"metadata": {"resourceVersion": old}, "data": {"a": "2"}}).code == 409
    test_first = [
        {"op": "test", "path": "/data/a", "value": "0"},
        {"op": "replace", "path": "/data/a", "value": "3"},
    ]
    misfit = api.patch(f"{MAPS}/m1", test_first, JSON_PATCH)
    assert misfit.code == 422
    assert misfit.body["message"] == "the server rejected our request due to an error in our request"
    assert api.get(f"{MAPS}/m1").body["data"]["a"] == "1"


def test_patches_of_many_threads_are_all_carried_out(api: Api) -> None:
    api.made(MAPS, support.config_map())
    maps = api.registry.catalogue.find("", "v1", "configmaps")
    assert maps is not None

    def patch(number: int) -> None:
        def add(body: Body) -> Body:
            return apply_merge_patch(body, {"data": {f"k{number}": "x"}})  # type: ignore[no-any-return]

        api.registry.patch(maps, ("default", "m1"), Patch(add), WriteOptions())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(patch, range(40)))
    assert len(api.get(f"{MAPS}/m1").body["data"]) == 41


def test_an_unknown_field_in_a_patch_is_422_when_strict(api: Api) -> None:
    api.made(MAPS, support.config_map())
    result = api.patch(f"{MAPS}/m1?fieldValidation=Strict", {"foo": 1})
    assert result.code == 422
    assert result.body["message"].startswith(' "" is invalid: patch: Invalid value: "{\\"apiVersion\\"')
    assert result.body["message"].endswith('": strict decoding error: unknown field "foo"')
    assert api.patch(f"{MAPS}/m1", {"data": "text"}).code == 422


def test_foreign_patch_kinds_are_refused_with_the_accepted_ones(api: Api) -> None:
    api.made(MAPS, support.config_map())
    result = api.patch(f"{MAPS}/m1?fieldManager=x", {}, "application/apply-patch+cbor")
    assert (result.code, result.body["reason"]) == (415, "UnsupportedMediaType")
    topologies = "/apis/baro.dev/v1alpha1/nodetopologies"
    api.made(topologies, {"metadata": {"name": "n1"}, "spec": {"gpus": [0, 1], "any": {"deep": None}}})
    assert api.patch(f"{topologies}/n1", {"spec": {"gpus": [0]}}, STRATEGIC).code == 415
    assert api.patch(f"{topologies}/n1", {"spec": {"gpus": [0]}}).body["spec"]["gpus"] == [0]


# --- claims ---------------------------------------------------------------------------------------------


def test_a_claims_spec_is_immutable_and_its_metadata_is_not(api: Api) -> None:
    api.made(CLAIMS, support.claim())
    devices = [{"op": "replace", "path": "/spec/devices/requests/0/exactly/count", "value": 5}]
    refused = api.patch(f"{CLAIMS}/tp4", devices, JSON_PATCH)
    assert refused.code == 422
    assert refused.body["message"] == (
        'ResourceClaim.resource.k8s.io "tp4" is invalid: spec: Invalid value: null: field is immutable'
    )
    finalizers = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    assert api.patch(f"{CLAIMS}/tp4", finalizers).code == 200


def test_an_allocation_is_set_once_and_can_be_cleared(api: Api) -> None:
    api.made(CLAIMS, support.claim())
    allocated = {"status": {"allocation": support.allocation("gpu-0", "gpu-1")}}
    assert api.patch(f"{CLAIMS}/tp4/status", allocated).code == 200
    changed = {"status": {"allocation": support.allocation("gpu-0", "gpu-2")}}
    refused = api.patch(f"{CLAIMS}/tp4/status", changed)
    assert (
        "status.allocation: Invalid value: null: field cannot be modified once set" in refused.body["message"]
    )
    cleared = api.patch(f"{CLAIMS}/tp4/status", {"status": {"allocation": None}})
    assert (cleared.code, cleared.body["status"]) == (200, {})


def test_consumers_need_an_allocation_and_the_status_takes_no_metadata(api: Api) -> None:
    api.made(CLAIMS, support.claim())
    consumer = {"resource": "pods", "name": "p1", "uid": "u1"}
    early = api.patch(f"{CLAIMS}/tp4/status", {"status": {"reservedFor": [consumer]}})
    assert "status.reservedFor: Forbidden" in early.body["message"]
    both = {
        "metadata": {"labels": {"a": "b"}, "finalizers": ["x.com/y"]},
        "status": {"allocation": support.allocation("gpu-0"), "reservedFor": [consumer]},
    }
    done = api.patch(f"{CLAIMS}/tp4/status", both)
    assert done.body["status"]["reservedFor"] == [consumer]
    assert "labels" not in done.body["metadata"]
    assert "finalizers" not in done.body["metadata"]


def test_a_result_must_be_for_a_request_of_the_claim(api: Api) -> None:
    api.made(CLAIMS, support.claim())
    stray = support.allocation("gpu-0")
    stray["devices"]["results"][0]["request"] = "nope"
    result = api.patch(f"{CLAIMS}/tp4/status", {"status": {"allocation": stray}})
    assert 'status.allocation.devices.results[0].request: Invalid value: "nope"' in result.body["message"]


def test_the_identity_of_a_slice_is_immutable_and_its_devices_are_not(api: Api) -> None:
    api.made(SLICES, support.resource_slice())
    moved = api.patch(f"{SLICES}/s1", {"spec": {"pool": {"name": "other"}}})
    assert moved.body["message"] == (
        'ResourceSlice.resource.k8s.io "s1" is invalid: spec.pool.name: Invalid value: "other": '
        "field is immutable"
    )
    assert api.patch(f"{SLICES}/s1", {"spec": {"devices": [{"name": "gpu-9"}]}}).code == 200


def test_all_versions_serve_one_stored_object(api: Api) -> None:
    old = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims"
    flat = {
        "metadata": {"name": "tp4"},
        "spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu.example.com"}]}},
    }
    made = api.post(old, flat)
    assert made.code == 201
    assert made.body["apiVersion"] == "resource.k8s.io/v1beta1"
    assert made.warnings == [
        '299 - "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"'
    ]
    assert made.body["spec"]["devices"]["requests"][0]["count"] == 1
    exactly = api.get(f"{CLAIMS}/tp4").body["spec"]["devices"]["requests"][0]["exactly"]
    assert exactly == {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}
    listed = api.get("/apis/resource.k8s.io/v1beta1/resourceclaims").body
    assert (listed["apiVersion"], len(listed["items"])) == ("resource.k8s.io/v1beta1", 1)
    assert "exactly" not in listed["items"][0]["spec"]["devices"]["requests"][0]


def test_both_apis_of_events_show_the_same_event(api: Api) -> None:
    event = {
        "metadata": {"name": "e1"},
        "regarding": {"kind": "Pod", "name": "p1", "namespace": "default"},
        "note": "placed",
        "reason": "Placed",
        "type": "Normal",
        "action": "Placing",
        "eventTime": "2026-01-02T12:00:00.000000Z",
        "reportingController": "baro",
        "reportingInstance": "baro-0",
    }
    api.made("/apis/events.k8s.io/v1/namespaces/default/events", event)
    core = api.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=p1").body["items"]
    assert [(e["message"], e["involvedObject"]["kind"], e["reportingComponent"]) for e in core] == [
        ("placed", "Pod", "baro")
    ]


# --- pods -----------------------------------------------------------------------------------------------


def test_a_pod_is_bound_once_and_not_while_it_is_gated(api: Api) -> None:
    api.made(PODS, support.pod(gate="baro.dev/placement"))
    binding = {"metadata": {"name": "p1"}, "target": {"kind": "Node", "name": "n1"}}
    gated = api.post(f"{PODS}/p1/binding", binding)
    assert (gated.code, gated.body["reason"]) == (409, "Conflict")
    assert "pod p1 has non-empty .spec.schedulingGates" in gated.body["message"]
    assert api.patch(f"{PODS}/p1", {"spec": {"schedulingGates": None}}).code == 200
    assert api.post(f"{PODS}/p1/binding", binding).code == 201
    bound = api.get(f"{PODS}/p1").body
    assert bound["spec"]["nodeName"] == "n1"
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    again = api.post(f"{PODS}/p1/binding", binding)
    assert 'pod p1 is already assigned to node "n1"' in again.body["message"]
    assert [
        p["metadata"]["name"] for p in api.get(f"{PODS}?fieldSelector=spec.nodeName=n1").body["items"]
    ] == ["p1"]


def test_a_binding_must_name_pod_and_node(api: Api) -> None:
    api.made(PODS, support.pod())
    assert api.post(f"{PODS}/p1/binding", {"target": {"name": ""}}).code == 422
    assert api.post(f"{PODS}/p1/binding", {"metadata": {"name": "p2"}, "target": {"name": "n1"}}).code == 400
    assert api.post(f"{PODS}/p1/binding", {"target": {"kind": "Pod", "name": "n1"}}).code == 422
    assert api.post(f"{PODS}/p2/binding", {"target": {"name": "n1"}}).code == 404


def test_a_pods_spec_changes_only_where_the_server_allows(api: Api) -> None:
    api.made(PODS, support.pod(gate="baro.dev/placement"))
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "registry.example.com/train:2"}]
    assert api.patch(f"{PODS}/p1", image, JSON_PATCH).body["metadata"]["generation"] == 2
    assert api.patch(f"{PODS}/p1", {"spec": {"nodeSelector": {"zone": "a"}}}).code == 200
    for spec, text in (
        ({"nodeName": "n1"}, "spec: Forbidden: pod updates may not change fields other than"),
        ({"nodeSelector": {"zone": "b"}}, "only additions to spec.nodeSelector are allowed"),
        (
            {"schedulingGates": [{"name": "x.com/y"}, {"name": "baro.dev/placement"}]},
            "only deletion is allowed",
        ),
    ):
        refused = api.patch(f"{PODS}/p1", {"spec": spec})
        assert refused.code == 422
        assert text in refused.body["message"]


def test_a_selector_that_does_not_compile_is_refused_with_the_compilers_words(api: Api) -> None:
    classes = "/apis/resource.k8s.io/v1/deviceclasses"
    bad = {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "device.driver ="}}]}}
    result = api.post(classes, bad)
    assert result.code == 422
    assert "spec.selectors[0].cel.expression: Invalid value" in result.body["message"]
    assert "compilation failed: ERROR: <input>:1:" in result.body["message"]
    never = {"metadata": {"name": "gpu.baro.dev"}, "spec": {"selectors": [{"cel": {"expression": "false"}}]}}
    api.made(classes, never)
