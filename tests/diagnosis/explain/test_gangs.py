"""A pod of a gang waits for its gang: how many exist, how many fit at once, what would let all of it in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.diagnosis.evidence import Evidence
from baro.diagnosis.explain import Explanation, Step, Subject, Verdict, World, alike, explain, pending
from baro.model.names import GANG_LABEL, GANG_SIZE_ANNOTATION, PLACEMENT_GATE
from tests.support.cluster import claim, device_class, gpus, holding, node_slice, request
from tests.support.explain import reserved, text
from tests.support.explain_documents import Body, known, node, pod

GATES: dict[str, Any] = {"schedulingGates": [{"name": PLACEMENT_GATE}]}
CODE = "pending-gang"


def site(free: dict[str, int]) -> list[Body]:
    """Nodes with eight GPUs each, of which so many are free; the others are held by ``old-NODE``."""
    made: list[Body] = [device_class().to_dict()]
    for name, count in free.items():
        made += [node(name), node_slice(name, gpus({"i": range(8)})).to_dict()]
        taken = [f"gpu-{number}" for number in range(8 - count)]
        if taken:
            made.append(reserved(holding(name, *taken, name=f"old-{name}"), f"old-{name}").to_dict())
    return made


def gang(names: str, size: int | None = None, each: int = 4, *, cpu: str = "0", **spec: Any) -> list[Body]:
    """Pods ``g-a``, ``g-b`` … of one gang, each with a claim of so many GPUs."""
    made: list[Body] = []
    for letter in names:
        name = f"g-{letter}"
        entry = [{"name": "gpu", "resourceClaimName": name}]
        body = pod(name, labels={GANG_LABEL: "g"}, requests={"cpu": cpu}, resourceClaims=entry, **spec)
        if size is not None:
            body["metadata"]["annotations"] = {GANG_SIZE_ANNOTATION: str(size)}
        made += [claim(request(count=each), name=name).to_dict(), body]
    return made


def said_of(evidence: Evidence, name: str = "g-a") -> Explanation:
    return explain(World(evidence), Subject("pod", ("default", name)))


def test_too_few_pods_of_the_gang_exist() -> None:
    said = said_of(known(*site({"a": 8, "b": 8}), *gang("abc", 4, **GATES)))
    assert (said.verdict, said.step, said.causes[0].code) == (Verdict.PENDING, Step.GANG, CODE)
    assert said.headline == "gang default/g needs 4 pods, and 3 exist"
    assert "0 run, 3 wait: default/g-a, default/g-b, default/g-c" in text(said)


def test_how_many_fit_and_whose_release_lets_all_of_it_in() -> None:
    said = said_of(known(*site({"a": 8, "b": 4}), *gang("abcd", **GATES)))
    assert said.causes[0].code == CODE
    assert said.headline == "gang default/g needs a place for 4 pods at once, and 3 fit"
    assert any("freeing gpu-0, gpu-1, gpu-2, gpu-3 (pod default/old-b) would let all of it in" in miss.text
               for miss in said.misses)  # fmt: skip
    assert "pending-planner" in {cause.code for cause in said.causes}, "the gate is told as well"


def test_a_release_that_is_told_lets_the_gang_in() -> None:
    bodies = [*site({"a": 8, "b": 4}), *gang("abcd", **GATES)]
    miss = said_of(known(*bodies)).misses[0]
    name = miss.changes[0].claim.rpartition("/")[2]
    left = [
        body for body in bodies if not (body["kind"] == "ResourceClaim" and body["metadata"]["name"] == name)
    ]
    said = said_of(known(*left))
    assert CODE not in {cause.code for cause in said.causes}
    assert any(note.startswith("gang default/g would fit now: 4 pods") for note in said.notes)


def test_the_inventory_is_as_it_was_after_releases_were_tried() -> None:
    world = World(known(*site({"a": 8, "b": 4}), *gang("abcd", **GATES)))
    before = dict(world.inventory.usage.holders)
    explain(world, Subject("pod", ("default", "g-a")))
    assert dict(world.inventory.usage.holders) == before


def test_cpu_of_nodes_bounds_the_gang_as_devices_do() -> None:
    said = said_of(known(*site({"a": 8, "b": 8}), *gang("abcd", each=1, cpu="10", **GATES)))
    assert said.headline == "gang default/g needs a place for 4 pods at once, and 2 fit"


def test_pods_that_run_count_and_enough_is_enough() -> None:
    bodies = [*site({"a": 8}), *gang("ab", 3, **GATES)]
    run = {**pod("g-r", "a", labels={GANG_LABEL: "g"})}
    assert said_of(known(*bodies, run)).step is Step.GATE, "one runs and two fit"
    many = [{**pod(f"g-{n}", "a", labels={GANG_LABEL: "g"})} for n in range(3)]
    assert any("runs with 3 pods, and needs 3" in note for note in said_of(known(*bodies, *many)).notes)


def test_without_the_gate_the_label_has_no_effect_and_that_is_said() -> None:
    said = said_of(known(*site({"a": 4}), *gang("ab")))
    assert said.verdict is Verdict.FITS
    assert any("no effect: the pod has no gate" in note for note in said.notes)


def test_a_pod_that_has_no_place_by_itself_says_so_first() -> None:
    said = said_of(known(*site({"a": 8}), *gang("ab", each=9, **GATES)))
    assert said.causes[0].code == "pending-planner"
    assert said.causes[-1].code == CODE


def test_another_gate_comes_before_the_gang() -> None:
    both: dict[str, Any] = {"schedulingGates": [{"name": PLACEMENT_GATE}, {"name": "example.com/budget"}]}
    said = said_of(known(*site({"a": 8}), *gang("abc", 4, **both)))
    assert [said.causes[0].code, said.causes[-1].code] == ["pending-gate", CODE]


def _pod_group(policy: Body) -> Body:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "pg", "namespace": "default"},
        "spec": {"schedulingPolicy": policy},
    }


@pytest.mark.parametrize(
    ("objects", "codes", "note"),
    [
        ([_pod_group({"gang": {"minCount": 3}})], [CODE], ""),
        ([_pod_group({"gang": {"minCount": 2}})], [], "would fit now"),
        ([_pod_group({"basic": {}})], [], ""),
        ([], [], "the object that describes it is not in the evidence; all pods are needed"),
        ([_pod_group({"gang": {"minCount": "many"}})], [], "is not in the evidence"),
    ],
)
def test_a_pod_group_of_kubernetes_says_how_many(objects: list[Body], codes: list[str], note: str) -> None:
    group: dict[str, Any] = {"schedulingGroup": {"podGroupName": "pg"}}
    pods = [pod(f"g-{letter}", **group) for letter in "ab"]
    said = said_of(known(*site({"a": 8}), *objects, *pods))
    assert [cause.code for cause in said.causes] == codes
    assert said.verdict is (Verdict.PENDING if codes else Verdict.FITS)
    assert not note or any(note in item for item in said.notes)


def test_a_size_that_is_no_number_is_a_note_and_no_crash() -> None:
    bodies = gang("a", **GATES)
    bodies[1]["metadata"]["annotations"] = {GANG_SIZE_ANNOTATION: "four"}
    assert any(
        "'four' is no number of pods" in note for note in said_of(known(*site({"a": 8}), *bodies)).notes
    )


def test_a_claim_that_is_missing_is_told_by_the_pod() -> None:
    bodies = [body for body in gang("ab", **GATES) if body["kind"] == "Pod"]
    said = said_of(known(*site({"a": 8}), *bodies))
    assert "pending-claim-missing" in {cause.code for cause in said.causes}


def test_pods_of_two_gangs_are_not_alike() -> None:
    one, two = gang("a", **GATES), gang("b", **GATES)
    two[1]["metadata"]["labels"] = {GANG_LABEL: "other"}
    world = World(known(*site({"a": 8}), *one, *two))
    assert len(alike(world, pending(world))) == 2


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 4), st.booleans()
)
@settings(max_examples=40, deadline=None)
def test_how_many_fit_is_the_sum_over_nodes(free: list[int], pods: int, each: int, cpus: bool) -> None:
    """Pods of one kind without constraints: a node takes as many as its free GPUs and CPUs divide into."""
    cpu = 5 if cpus else 0
    names = "abcde"[:pods]
    nodes = {f"n{number}": count for number, count in enumerate(free)}
    said = said_of(known(*site(nodes), *gang(names, each=each, cpu=str(cpu), **GATES)))
    room = sum(min(count // each, 16 // cpu if cpu else pods) for count in free)
    blocked = CODE in {cause.code for cause in said.causes}
    assert blocked == (room < pods), text(said)
    if blocked:
        told = next(cause.message for cause in said.causes if cause.code == CODE)
        assert told.endswith(f"and {room} fit"), told
