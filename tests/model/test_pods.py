"""What a pod asks of a node and of the resource API."""

from __future__ import annotations

import msgspec
import pytest

from baro.model import pods
from baro.model.kinds.base import ObjectMeta, OwnerReference
from baro.model.kinds.core import Container, Pod, PodResourceClaim, PodSpec, PodStatus, ResourceRequirements
from baro.model.kinds.resource import ResourceClaim, ResourceClaimTemplate, ResourceClaimTemplateSpec


def _container(cpu: str, *, restart: str = "", **more: str) -> Container:
    asked: dict[str, str | int | float] = {
        "cpu": cpu,
        **{name.replace("__", "/"): value for name, value in more.items()},
    }
    return Container(resources=ResourceRequirements(requests=asked), restart_policy=restart)


def test_containers_run_together_and_init_containers_one_at_a_time() -> None:
    spec = PodSpec(
        containers=(_container("1"), _container("500m")),
        init_containers=(_container("1200m"), _container("4")),
        overhead={"cpu": "100m"},
    )
    asked = pods.requests(Pod(spec=spec))
    assert asked == {"cpu": 4_100 * pods.UNIT // 1000, "pods": pods.UNIT}


def test_a_sidecar_counts_beside_all_that_comes_after_it() -> None:
    sidecar = _container("1", restart="Always")
    spec = PodSpec(containers=(_container("2"),), init_containers=(sidecar, _container("3")))
    assert pods.requests(Pod(spec=spec))["cpu"] == 4 * pods.UNIT
    spec = PodSpec(containers=(_container("2"),), init_containers=(_container("3"), sidecar))
    assert pods.requests(Pod(spec=spec))["cpu"] == 3 * pods.UNIT


def test_a_limit_without_a_request_is_the_request_and_garbage_is_nothing() -> None:
    limits = ResourceRequirements(limits={"nvidia.com/gpu": "2", "memory": "lots"})
    asked = pods.requests(Pod(spec=PodSpec(containers=(Container(resources=limits),))))
    assert asked == {"nvidia.com/gpu": 2 * pods.UNIT, "pods": pods.UNIT}


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/mig-1g.10gb", True),
        ("deviceclass.resource.kubernetes.io/x", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/x", False),
        ("attachable-volumes.kubernetes.io/x", False),
        ("requests.nvidia.com/gpu", False),
    ],
)
def test_extended_resources_are_those_of_the_scheduler(name: str, extended: bool) -> None:
    assert pods.is_extended(name) is extended


@pytest.mark.parametrize(
    ("raw", "resource", "shown"),
    [
        ("8", "cpu", "8"),
        ("500m", "cpu", "500m"),
        ("64Gi", "memory", "64Gi"),
        ("1536Mi", "memory", "1.5Gi"),
        ("3", "x/y", "3"),
    ],
)
def test_amounts_are_shown_as_people_write_them(raw: str, resource: str, shown: str) -> None:
    amount = pods.scaled(raw)
    assert amount is not None
    assert pods.shown(amount, resource) == shown


def test_entries_name_claims_templates_or_neither() -> None:
    entries = (
        PodResourceClaim(name="a", resource_claim_name="x"),
        PodResourceClaim(name="b", resource_claim_template_name="t"),
        PodResourceClaim(name="c", resource_claim_template_name="t"),
        PodResourceClaim(name="d", resource_claim_template_name="t"),
        PodResourceClaim(name="e"),
    )
    body = {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-x7k"}, {"name": "c"}]}

    pod = Pod(spec=PodSpec(resource_claims=entries), status=msgspec.convert(body, PodStatus))
    made = ResourceClaim(metadata=ObjectMeta(name="p-d-1", annotations={pods.POD_CLAIM_ANNOTATION: "d"}))
    assert pods.claim_refs(pod, [made]) == (
        pods.ClaimRef("a", "x"),
        pods.ClaimRef("b", "p-b-x7k", "t"),
        pods.ClaimRef("c", None, "t", needed=False),
        pods.ClaimRef("d", "p-d-1", "t"),
        pods.ClaimRef("e", None, None),
    )


def test_a_claim_belongs_to_one_very_pod() -> None:
    def owned(uid: str, *, kind: str = "Pod", controller: bool = True) -> ResourceClaim:
        owner = OwnerReference(kind=kind, name="p", uid=uid, controller=controller)
        return ResourceClaim(metadata=ObjectMeta(owner_references=(owner,)))

    pod = Pod(metadata=ObjectMeta(name="p", uid="1"))
    assert pods.owned_by(owned("1"), pod)
    assert not pods.owned_by(owned("2"), pod)
    assert not pods.owned_by(owned("1", controller=False), pod)
    bare = Pod(metadata=ObjectMeta(name="p"))
    assert pods.owned_by(owned("2"), bare), "a manifest has no UID: the name has to do"
    assert not pods.owned_by(owned("2", kind="Job"), bare)


def test_a_claim_of_a_template_has_the_templates_labels_and_nothing_else_of_it() -> None:
    spec = ResourceClaimTemplateSpec(metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}})
    template = ResourceClaimTemplate(metadata=ObjectMeta(name="t", uid="9", labels={"x": "y"}), spec=spec)
    made = pods.made_from(template, "ns", "p-gpu")
    assert made.metadata == ObjectMeta(
        name="p-gpu", namespace="ns", labels={"a": "b"}, annotations={"c": "d"}
    )


def test_pods_that_have_ended_use_nothing() -> None:
    ended = [phase for phase in ("", "Running", "Failed", "Succeeded") if pods.done(_in_phase(phase))]
    assert ended == ["Failed", "Succeeded"]


def _in_phase(phase: str) -> Pod:
    return Pod(status=PodStatus(phase=phase))
