"""Which pods form a gang: every spelling, and what is no gang."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from baro.model.errors import InputError
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaimTemplate
from baro.placement import requests
from baro.placement.gang.objects import Gang, Groups, gangs, key_of_gang
from tests.support.cluster import claim


def pod(name: str, metadata: dict[str, Any] | None = None, **spec: Any) -> Pod:
    body = {"metadata": {"name": name, "namespace": "team", **(metadata or {})}, "spec": spec}
    return msgspec.convert(body, Pod)


def pod_group(
    name: str, policy: dict[str, Any], *, api: str = "scheduling.k8s.io/v1beta1", **spec: Any
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team"}
    return {
        "apiVersion": api,
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"schedulingPolicy": policy, **spec},
    }


def only(pods: list[Pod], *bodies: dict[str, Any]) -> Gang:
    found, rest = gangs(pods, Groups(bodies))
    assert len(found) == 1 and not rest
    return found[0]


GROUPED = [pod(f"w{index}", schedulingGroup={"podGroupName": "train"}) for index in range(3)]


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
def test_a_pod_group_of_kubernetes_tells_how_many_are_enough_and_what_must_be_near(version: str) -> None:
    body = pod_group(
        "train",
        {"gang": {"minCount": 2}},
        api=f"scheduling.k8s.io/{version}",
        schedulingConstraints={"topology": [{"key": "topology.kubernetes.io/rack"}]},
    )
    found = only(GROUPED, body)
    assert found.title == "gang team/train"
    assert (found.at_least, found.same) == (2, ("topology.kubernetes.io/rack",))
    assert [item.metadata.name for item in found.pods] == ["w0", "w1", "w2"]


def test_a_group_with_the_basic_policy_is_no_gang() -> None:
    found, rest = gangs(GROUPED, Groups([pod_group("train", {"basic": {}})]))
    assert not found
    assert rest == tuple(GROUPED)


def test_a_group_whose_object_is_not_known_needs_all_its_pods() -> None:
    found = only(GROUPED)
    assert (found.known, found.at_least) == (False, None)


def test_a_workload_of_1_35_holds_its_groups_itself() -> None:
    reference = {"name": "job", "podGroup": "workers", "podGroupReplicaKey": "r1"}
    body = {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "job", "namespace": "team"},
        "spec": {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 4}}}]},
    }
    pods = [pod("a", workloadRef=reference), pod("b", workloadRef={**reference, "podGroupReplicaKey": "r2"})]
    found, _ = gangs(pods, Groups([body]))
    assert [gang.key[2] for gang in found] == ["job/workers/r1", "job/workers/r2"]
    assert {gang.at_least for gang in found} == {4}


def test_baros_label_needs_no_object_and_may_say_how_many_are_enough() -> None:
    meta = {"labels": {"baro.dev/gang": "g"}, "annotations": {"baro.dev/gang-size": "2"}}
    found = only([pod("a", meta), pod("b", meta), pod("c", {"annotations": {"baro.dev/gang": "g"}})])
    assert (found.title, found.at_least, found.known) == ("gang team/g", 2, True)


@pytest.mark.parametrize("size", ["", "0", "two", "-1", "²"])
def test_a_size_that_is_no_number_is_an_error(size: str) -> None:
    meta = {"labels": {"baro.dev/gang": "g"}, "annotations": {"baro.dev/gang-size": size}}
    with pytest.raises(InputError, match="is no number of pods"):
        gangs([pod("a", meta)], Groups())


@pytest.mark.parametrize(
    ("metadata", "api"),
    [
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, "scheduling.x-k8s.io/v1alpha1"),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, "scheduling.volcano.sh/v1beta1"),
    ],
)
def test_groups_of_other_schedulers_count_too(metadata: dict[str, Any], api: str) -> None:
    body = {
        "apiVersion": api,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "team"},
        "spec": {"minMember": 3},
    }
    assert only([pod("a", metadata)], body).at_least == 3


def test_gangs_of_one_name_in_two_namespaces_are_two() -> None:
    labels = {"labels": {"baro.dev/gang": "g"}}
    found, _ = gangs([pod("a", labels), pod("b", {**labels, "namespace": "other"})], Groups())
    assert len(found) == 2
    assert key_of_gang(pod("c")) is None


@pytest.mark.parametrize(
    "body",
    [
        pod_group("train", {"gang": {"minCount": "three"}}),
        {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": [], "spec": {}},
        {"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload", "spec": {"podGroups": 7}},
    ],
)
def test_a_group_of_wrong_types_is_an_error_that_names_it(body: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        Groups([body])
    assert str(body["kind"]) in str(caught.value)


def test_nulls_are_absent_and_other_kinds_are_nobodys() -> None:
    groups = Groups()
    assert groups.add(pod_group("g", {"gang": {"minCount": None}, "basic": None}))
    assert not groups.add({"apiVersion": "v1", "kind": "Pod"})
    assert not groups.add({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload"})


# --- claims of gangs -------------------------------------------------------------------------------------


def template(name: str) -> ResourceClaimTemplate:
    body = {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"spec": msgspec.to_builtins(claim().spec)},
    }
    return msgspec.convert(body, ResourceClaimTemplate)


def test_each_pod_has_its_own_claim_from_a_template_and_shares_that_of_the_group() -> None:
    entries = [
        {"name": "own", "resourceClaimTemplateName": "t"},
        {"name": "shared", "resourceClaimTemplateName": "s"},
    ]
    pods = [
        pod(name, schedulingGroup={"podGroupName": "train"}, resourceClaims=entries) for name in ("w0", "w1")
    ]
    body = pod_group("train", {"gang": {}}, resourceClaims=[entries[1]])
    known = requests.Claims([], [template("t"), template("s")], "the files")
    first, second = requests.members(only(pods, body), known)
    assert [item.metadata.name for item in first.claims] == ["w0-own", "train-shared"]
    assert [item.metadata.name for item in second.claims] == ["w1-own", "train-shared"]


def test_a_claim_that_nobody_has_is_named() -> None:
    wanted = pod(
        "w0", {"labels": {"baro.dev/gang": "g"}}, resourceClaims=[{"name": "x", "resourceClaimName": "gone"}]
    )
    with pytest.raises(InputError, match="the claim team/gone is not in the files"):
        requests.members(only([wanted]), requests.Claims([], [], "the files"))
