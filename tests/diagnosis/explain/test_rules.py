"""Host ports, spread, affinity between pods, volumes and requests of the pod as a whole, each in
kube-scheduler's words; what is not in the evidence is said and nothing is assumed.

Pods without devices, so that nothing else decides. The same rules are tried on kube-scheduler itself in
``tests/cluster/test_explain.py``.
"""

from __future__ import annotations

from typing import Any

import pytest

from baro.diagnosis.evidence import Evidence, Missing
from baro.diagnosis.explain import Step, Verdict, World, alike, pending
from baro.diagnosis.explain.rules import rules_of
from tests.support.explain import pod_explained, text
from tests.support.explain_documents import HOST, Body, known, namespace, node, pod
from tests.support.real_pending_rules import apart, spread, terms, together, volume, volume_claim, with_claim

A, B = node("a", zone="east"), node("b", zone="west")
WEB = {"app": "web"}


def words(evidence: Evidence, name: str = "p") -> dict[str, tuple[str, ...]]:
    """Node → what kube-scheduler counts for it."""
    said = pod_explained(evidence, name)
    return {one: group.answer.scheduler for group in said.groups for one in group.nodes}


PORTS = "node(s) didn't have free ports for the requested pod ports"
NEAR = "node(s) didn't match pod affinity rules"
APART = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD = "node(s) didn't match pod topology spread constraints"
CLASS: Body = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "pend-local"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def bound(claim: Body, to: Body) -> Body:
    """The claim as it is once it has that volume."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    return {
        **claim,
        "metadata": {**claim["metadata"], "annotations": annotations},
        "spec": {**claim["spec"], "volumeName": to["metadata"]["name"]},
    }


EAST = volume("local", "east", "east-1")
DATA = volume_claim("data", "local")
ROWS: dict[str, tuple[tuple[Body, ...], str, Step, dict[str, tuple[str, ...]], tuple[str, ...]]] = {
    "a port that another pod has": (
        (pod("x", "a", ports=[80]), pod("y", "b", ports=[80]), pod("p", ports=[80])),
        "pending-host-port", Step.PORTS, {"a": (PORTS,), "b": (PORTS,)},
        ("host port 80/TCP of node a is taken by pod default/x",),
    ),
    "a pod that must not be near": (
        (pod("x", "a", labels=WEB), pod("y", "b", labels=WEB), pod("p", **apart(terms(WEB, HOST)))),
        "pending-pod-affinity", Step.NEAR, {"a": (APART,), "b": (APART,)}, ("pod default/x",),
    ),
    "a pod that runs does not want it": (
        (pod("x", "a", **apart(terms(WEB, "all"))), pod("p", labels=WEB)),
        "pending-pod-affinity", Step.NEAR, {"a": (EXISTING,), "b": (EXISTING,)},
        ("a pod in its all has an anti-affinity against this pod (app=web)",),
    ),
    "nobody to be near": (
        (pod("p", **together(terms(WEB, "zone"))),),
        "pending-pod-affinity", Step.NEAR, {"a": (NEAR,), "b": (NEAR,)}, ("no such pod runs on any node",),
    ),
    "one more would be too many": (
        (pod("x", "a", labels=WEB), pod("y", "b", labels=WEB),
         pod("p", labels=WEB, **spread("zone", WEB, minDomains=3))),
        "pending-spread", Step.SPREAD, {"a": (SPREAD,), "b": (SPREAD,)},
        ("zone=east would have 2", "2 of at least 3 domains"),
    ),
    "a label to spread over is missing": (
        (pod("p", labels=WEB, **spread("rack", WEB)),),
        "pending-spread", Step.SPREAD, dict.fromkeys("ab", (f"{SPREAD} (missing required label)",)),
        ("has no label rack",),
    ),
    "a claim that is not there": (
        (with_claim(pod("p"), "data"),),
        "pending-volume", Step.VOLUMES, {}, ("PersistentVolumeClaim default/data does not exist",),
    ),
    "a class that is not there": (
        (DATA, with_claim(pod("p"), "data")),
        "pending-volume", Step.VOLUMES, {}, ("storage class pend-local does not exist",),
    ),
    "a volume that is somewhere else": (
        (bound(DATA, volume("local", "north", "n")), volume("local", "north", "n"), CLASS,
         with_claim(pod("p"), "data")),
        "pending-volume", Step.VOLUMES,
        dict.fromkeys("ab", ("node(s) didn't match PersistentVolume's node affinity",)),
        ("volume pend-n is at zone In [north]",),
    ),
    "no free volume": (
        (DATA, CLASS, EAST, with_claim(pod("p"), "data")),
        "pending-volume", Step.VOLUMES,
        dict.fromkeys("ab", ("node(s) didn't find available persistent volumes to bind",)),
        ("class pend-local makes none",),
    ),
    "more than a node has, for the pod as a whole": (
        (pod("p", requests={"cpu": "1"}, resources={"requests": {"cpu": "20"}}),),
        "pending-resources", Step.RESOURCES, {"a": ("Insufficient cpu",), "b": ("Insufficient cpu",)},
        ("20 cpu needed",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_rule_is_told_with_its_code_its_words_and_who_is_in_the_way(row: Any) -> None:
    bodies, code, step, expected, pieces = row
    nodes = (node("a", zone="east", all="1"), node("b", zone="west", all="1"))
    evidence = known(*nodes, *bodies)
    said = pod_explained(evidence)
    shown = " ".join(text(said, wide=True).split())
    assert (said.verdict, said.step, said.causes[0].code) == (Verdict.PENDING, step, code), shown
    if expected:
        assert words(evidence) == expected
    for piece in pieces:
        assert piece in shown, shown


def test_what_is_free_again_fits() -> None:
    """Each row without what is in the way."""
    for bodies in (
        (pod("x", "a", ports=[80]), pod("p", ports=[80])),
        (pod("x", "a", labels=WEB), pod("p", **apart(terms(WEB, HOST)))),
        (pod("x", "a", **apart(terms(WEB, HOST))), pod("p", labels=WEB)),
        (pod("x", "b", labels=WEB), pod("p", **together(terms(WEB, "zone")))),
        (pod("x", "a", labels=WEB), pod("p", labels=WEB, **spread("zone", WEB))),
        (
            DATA,
            CLASS,
            {**volume("local", "west", "w"), "status": {"phase": "Available"}},
            with_claim(pod("p"), "data"),
        ),
        (
            bound(DATA, volume("local", "west", "w")),
            volume("local", "west", "w"),
            with_claim(pod("p"), "data"),
        ),
    ):
        said = pod_explained(known(A, B, *bodies))
        assert said.verdict is Verdict.FITS, text(said)
        assert said.headline == "would fit now, on node b", text(said)


def test_addresses_and_protocols_of_ports_are_different_ports() -> None:
    def with_port(name: str, on: str = "", **port: Any) -> Body:
        body = pod(name, on)
        body["spec"]["containers"][0]["ports"] = [{"containerPort": 53, "hostPort": 53, **port}]
        return body

    taken = with_port("x", "a", protocol="UDP", hostIP="10.0.0.1")
    for port, free in (
        ({"protocol": "UDP"}, False),
        ({"protocol": "UDP", "hostIP": "10.0.0.1"}, False),
        ({"protocol": "UDP", "hostIP": "10.0.0.2"}, True),
        ({"protocol": "TCP"}, True),
    ):
        said = pod_explained(known(A, taken, with_port("p", **port)))
        assert (said.verdict is Verdict.FITS) == free, port


def test_a_sidecars_port_counts_and_an_init_containers_does_not() -> None:
    for policy, free in (("Always", False), (None, True)):
        body = pod("p")
        init = {"name": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}
        body["spec"]["initContainers"] = [{**init, "restartPolicy": policy} if policy else init]
        said = pod_explained(known(A, pod("x", "a", ports=[80]), body))
        assert (said.verdict is Verdict.FITS) == free


def test_the_first_of_a_group_that_wants_its_own_near_may_go_anywhere_with_the_label() -> None:
    first = pod("p", labels=WEB, **together(terms(WEB, "zone")))
    evidence = known(A, node("c"), first)
    assert words(evidence) == {"a": (), "c": (NEAR,)}


def test_ended_and_terminating_pods_count_as_kube_scheduler_counts_them() -> None:
    ended = pod("x", "a", labels=WEB, ports=[80])
    ended["status"]["phase"] = "Succeeded"
    assert (
        pod_explained(known(A, ended, pod("p", ports=[80], **apart(terms(WEB, HOST))))).verdict
        is Verdict.FITS
    )
    going = pod("x", "a", labels=WEB)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    near = known(A, going, pod("p", **apart(terms(WEB, HOST))))
    assert words(near) == {"a": (APART,)}, "it is still there"
    assert (
        pod_explained(known(A, B, going, pod("p", labels=WEB, **spread("zone", WEB)))).verdict is Verdict.FITS
    )


@pytest.mark.parametrize(
    ("more", "meant"),
    [
        ({}, False),
        ({"namespaces": ["other"]}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, True),
    ],
)
def test_terms_are_about_the_pods_of_their_namespaces(more: Body, meant: bool) -> None:
    spaces = (namespace("default"), namespace("other", team="x"))
    theirs = pod("x", "a", labels=WEB, namespace="other")
    own = known(*spaces, A, theirs, pod("p", **apart(terms(WEB, HOST, **more))))
    assert words(own) == {"a": (APART,) if meant else ()}


def test_a_namespace_that_is_not_in_the_evidence_is_named() -> None:
    selector = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    theirs = pod("x", "a", labels=WEB, namespace="other")
    said = pod_explained(known(A, theirs, pod("p", **apart(terms(WEB, HOST, **selector)))))
    assert any("labels of namespace other are not in the evidence" in note for note in said.notes)


def test_volumes_that_are_not_in_the_evidence_are_named_and_nothing_is_assumed() -> None:
    waiting = with_claim(pod("p"), "data")
    files = pod_explained(known(A, waiting, live=False))
    assert files.verdict is Verdict.FITS
    assert any("persistentvolumeclaims are not in the evidence" in note for note in files.notes)
    refused = Missing("persistentvolumeclaims", "the server does not allow to list it")
    said = pod_explained(known(A, waiting, missing=(refused,)))
    assert said.verdict is Verdict.FITS
    assert any(
        "does not allow to list it; the pod's volumes are not looked at" in note for note in said.notes
    )


def test_a_word_of_kube_schedulers_about_what_is_not_known_is_never_would_fit() -> None:
    for word, body in (
        ("node(s) exceed max volume count", pod("p")),
        ("node(s) didn't find available persistent volumes to bind", with_claim(pod("p"), "data")),
        ("node(s) didn't satisfy existing pods anti-affinity rules", pod("p")),
    ):
        body["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "False", "message": f"0/1 nodes are available: 1 {word}."}
        ]
        said = pod_explained(known(A, body, live=False))
        assert (said.verdict, said.causes[0].code) == (Verdict.PENDING, "pending-other-rule"), word


def test_a_word_about_a_rule_that_was_looked_at_is_an_old_word() -> None:
    body = pod("p", ports=[80], said="0/1 nodes are available: 1 " + PORTS + ".")
    said = pod_explained(known(A, body))
    assert said.verdict is Verdict.FITS
    assert said.scheduler is not None
    assert said.scheduler.agrees is False


def test_replicas_with_other_labels_are_alike_only_where_labels_do_not_matter() -> None:
    one, two = pod("p", labels={"n": "1"}), pod("q", labels={"n": "2"})
    world = World(known(A, one, two))
    assert len(alike(world, pending(world))) == 1
    world = World(known(A, one, two, pod("x", "a", **apart(terms({"n": "1"}, HOST)))))
    assert len(alike(world, pending(world))) == 2


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"affinity": {"podAntiAffinity": "none"}}, True),
        ({"topologySpreadConstraints": [{"maxSkew": "one"}]}, True),
        ({"volumes": [3]}, True),
        ({"affinity": None, "topologySpreadConstraints": None, "volumes": None}, False),
    ],
)
def test_fields_of_a_wrong_type_are_said_and_nulls_are_nothing(spec: Body, wrong: bool) -> None:
    body = pod("p")
    body["spec"].update(spec)
    notes = pod_explained(known(A, body)).notes
    assert any("cannot be read" in note for note in notes) == wrong


def test_rules_of_a_pod_are_computed_once() -> None:
    world = World(known(A, pod("p", ports=[80])))
    asked = world.pods["default", "p"]
    assert rules_of(world, asked) is rules_of(world, asked)
