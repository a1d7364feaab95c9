"""Deletion: finalizers, preconditions, dependents, namespaces."""

from __future__ import annotations

import pytest

from tests.support import apiserver as support
from tests.support.apiserver import CLAIMS, MAPS, NAMESPACES, PODS, Api

PROTECTION = "resource.kubernetes.io/delete-protection"


@pytest.fixture
def api() -> Api:
    return Api()


def test_a_delete_answers_as_the_kind_does_on_a_real_server(api: Api) -> None:
    uid = api.made(MAPS, support.config_map())["metadata"]["uid"]
    result = api.delete(f"{MAPS}/m1")
    assert (result.code, result.body["status"]) == (200, "Success")
    assert result.body["details"] == {"name": "m1", "kind": "configmaps", "uid": uid}
    assert api.delete(f"{MAPS}/m1").code == 404
    api.made(CLAIMS, support.claim())
    assert api.delete(f"{CLAIMS}/tp4").body["kind"] == "ResourceClaim"


def test_an_object_with_finalizers_stays_until_they_are_gone(api: Api) -> None:
    api.made(CLAIMS, support.claim(finalizers=[PROTECTION]))
    deleted = api.delete(f"{CLAIMS}/tp4")
    assert deleted.body["metadata"]["deletionTimestamp"] == "2026-01-02T12:00:00Z"
    assert deleted.body["metadata"]["deletionGracePeriodSeconds"] == 0
    assert api.delete(f"{CLAIMS}/tp4").body == deleted.body
    more = api.patch(f"{CLAIMS}/tp4", {"metadata": {"finalizers": [PROTECTION, "x.com/y"]}})
    assert more.code == 422
    assert 'found new finalizers []string{"x.com/y"}' in more.body["message"]
    undead = api.patch(f"{CLAIMS}/tp4", {"metadata": {"deletionTimestamp": None}})
    assert undead.body["metadata"]["deletionTimestamp"] == "2026-01-02T12:00:00Z"
    assert api.patch(f"{CLAIMS}/tp4", {"metadata": {"finalizers": None}}).code == 200
    assert api.get(f"{CLAIMS}/tp4").code == 404


def test_a_deletion_that_waits_takes_no_new_consumers(api: Api) -> None:
    api.made(CLAIMS, support.claim(finalizers=[PROTECTION]))
    api.patch(f"{CLAIMS}/tp4/status", {"status": {"allocation": support.allocation("gpu-0")}})
    api.delete(f"{CLAIMS}/tp4")
    consumer = {"resource": "pods", "name": "p1", "uid": "u1"}
    result = api.patch(f"{CLAIMS}/tp4/status", {"status": {"reservedFor": [consumer]}})
    assert "new entries may not be added while" in result.body["message"]


def test_preconditions_guard_a_delete(api: Api) -> None:
    made = api.made(MAPS, support.config_map())
    wrong_uid = api.delete(f"{MAPS}/m1", {"preconditions": {"uid": "other"}})
    assert (wrong_uid.code, wrong_uid.body["reason"]) == (409, "Conflict")
    assert "the UID in the precondition (other) does not match the UID in record" in wrong_uid.body["message"]
    stale = api.delete(f"{MAPS}/m1", {"preconditions": {"resourceVersion": "1"}})
    assert "the ResourceVersion in the precondition (1) does not match" in stale.body["message"]
    good = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    assert api.delete(f"{MAPS}/m1", {"preconditions": good}).code == 200


def test_delete_options_that_mean_nothing_are_refused_and_dry_runs_delete_nothing(api: Api) -> None:
    api.made(MAPS, support.config_map())
    assert api.delete(f"{MAPS}/m1", {"propagationPolicy": "Sideways"}).code == 422
    assert api.delete(f"{MAPS}/m1", {"kind": "Pod"}).code == 400
    assert api.delete(f"{MAPS}/m1", ["x"]).code == 400
    assert api.delete(f"{MAPS}/m1?dryRun=All").code == 200
    assert api.delete(f"{MAPS}/m1?gracePeriodSeconds=soon").code == 400
    assert api.get(f"{MAPS}/m1").code == 200


def owner_of(owner: dict[str, object], uid: object) -> dict[str, object]:
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "p1", "uid": uid}


def test_dependents_go_with_their_last_owner(api: Api) -> None:
    pod = api.made(PODS, support.pod())
    owner = owner_of(pod, pod["metadata"]["uid"])
    other = api.made(MAPS, support.config_map("other"))
    second = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other["metadata"]["uid"]}
    api.made(CLAIMS, support.claim("only", ownerReferences=[owner]))
    api.made(CLAIMS, support.claim("shared", ownerReferences=[owner, second]))
    api.made(CLAIMS, support.claim("held", ownerReferences=[owner], finalizers=[PROTECTION]))
    api.delete(f"{PODS}/p1")
    assert api.get(f"{CLAIMS}/only").code == 404
    assert api.get(f"{CLAIMS}/shared").body["metadata"]["ownerReferences"] == [second]
    assert "deletionTimestamp" in api.get(f"{CLAIMS}/held").body["metadata"]
    api.delete(f"{MAPS}/other")
    assert api.get(f"{CLAIMS}/shared").code == 404


def test_orphans_are_released_instead(api: Api) -> None:
    pod = api.made(PODS, support.pod())
    api.made(CLAIMS, support.claim(ownerReferences=[owner_of(pod, pod["metadata"]["uid"])]))
    api.delete(f"{PODS}/p1", {"propagationPolicy": "Orphan"})
    assert "ownerReferences" not in api.get(f"{CLAIMS}/tp4").body["metadata"]


def test_a_namespace_is_emptied_before_it_goes(api: Api) -> None:
    api.made(NAMESPACES, {"metadata": {"name": "team"}})
    maps = f"{NAMESPACES}/team/configmaps"
    api.made(maps, support.config_map("free"))
    api.made(maps, support.config_map("held", finalizers=["x.com/y"]))
    deleted = api.delete(f"{NAMESPACES}/team")
    assert deleted.body["status"]["phase"] == "Terminating"
    assert api.get(f"{maps}/free").code == 404
    late = api.post(maps, support.config_map("late"))
    assert (late.code, late.body["reason"]) == (403, "Forbidden")
    assert late.body["message"] == (
        'configmaps "late" is forbidden: unable to create new content in namespace team because it is being '
        "terminated"
    )
    api.patch(f"{maps}/held", {"metadata": {"finalizers": None}})
    assert api.get(f"{NAMESPACES}/team").code == 404
    assert not api.registry.store.in_namespace("team")


def test_a_namespace_waits_for_its_own_finalizers_and_can_be_finalized_by_hand(api: Api) -> None:
    api.made(NAMESPACES, {"metadata": {"name": "held", "finalizers": ["x.com/y"]}})
    api.delete(f"{NAMESPACES}/held")
    assert api.get(f"{NAMESPACES}/held").body["status"]["phase"] == "Terminating"
    api.patch(f"{NAMESPACES}/held", {"metadata": {"finalizers": None}})
    assert api.get(f"{NAMESPACES}/held").code == 404
    api.made(NAMESPACES, {"metadata": {"name": "stuck"}})
    stuck = api.made(f"{NAMESPACES}/stuck/configmaps", support.config_map(finalizers=["x.com/y"]))
    body = api.delete(f"{NAMESPACES}/stuck").body
    del body["spec"]
    assert api.put(f"{NAMESPACES}/stuck/finalize", body).code == 200
    assert api.get(f"{NAMESPACES}/stuck").code == 404
    left = api.get("/api/v1/configmaps").body["items"]
    assert [item["metadata"]["uid"] for item in left] == [stuck["metadata"]["uid"]]


def test_the_namespaces_of_the_system_stay(api: Api) -> None:
    for name in ("default", "kube-system"):
        result = api.delete(f"{NAMESPACES}/{name}")
        assert (result.code, result.body["reason"]) == (403, "Forbidden")
    assert api.delete(NAMESPACES).code == 405


def test_a_collection_is_deleted_by_selector(api: Api) -> None:
    for number in range(4):
        api.made(MAPS, support.config_map(f"m{number}", labels={"even": str(number % 2 == 0)}))
    deleted = api.delete(f"{MAPS}?labelSelector=even=True")
    assert [item["metadata"]["name"] for item in deleted.body["items"]] == ["m0", "m2"]
    assert [item["metadata"]["name"] for item in api.get(MAPS).body["items"]] == ["m1", "m3"]


def test_equal_owners_are_kept_once_and_said_in_a_warning() -> None:
    api = Api()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u-1"}
    other = {**owner, "uid": "u-2"}
    made = api.post(MAPS, support.config_map("owned", ownerReferences=[owner, owner, other, other, other]))
    assert made.body["metadata"]["ownerReferences"] == [owner, other]
    assert [text.rpartition(": ")[2] for text in made.warnings] == ['u-1, u-2, u-2"']
    patched = api.patch(f"{MAPS}/owned", {"metadata": {"ownerReferences": [owner, owner]}})
    assert patched.body["metadata"]["ownerReferences"] == [owner]
    assert "duplicate entries after mutating admission happens" in patched.warnings[0]
    assert api.put(f"{MAPS}/owned", patched.body).warnings == []
