"""Affinity between pods and topology spread against their definition, written again as plain loops."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.explain import pod_explained
from tests.support.explain_documents import HOST, Body, known, node, pod
from tests.support.real_pending_rules import terms

NEAR = "node(s) didn't match pod affinity rules"
APART = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD = "node(s) didn't match pod topology spread constraints"
KEYS = (HOST, "zone", "rack")
LABELS = st.fixed_dictionaries({}, optional={"app": st.sampled_from("ab"), "tier": st.sampled_from("xy")})
TERM = st.builds(
    terms, st.sampled_from([{"app": "a"}, {"tier": "x"}, {"app": "b", "tier": "y"}]), st.sampled_from(KEYS)
)
NODES = st.lists(
    st.fixed_dictionaries({}, optional={"zone": st.sampled_from("ew"), "rack": st.sampled_from("12")}),
    min_size=1,
    max_size=5,
)


def affinity(near: list[Body], apart: list[Body]) -> Body:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"podAffinity": {required: near}, "podAntiAffinity": {required: apart}}}


def meant(term: Body, labels: Body) -> bool:
    return all(labels.get(key) == value for key, value in term["labelSelector"]["matchLabels"].items())


@st.composite
def crowds(draw: Any) -> tuple[list[Body], list[Body]]:
    """Nodes, and pods that run on them; some of these do not want others near."""
    nodes = [node(f"n{number}", **labels) for number, labels in enumerate(draw(NODES))]
    running = []
    for number in range(draw(st.integers(0, 6))):
        on = draw(st.sampled_from(nodes))["metadata"]["name"]
        spec = affinity([], draw(st.lists(TERM, max_size=1)))
        running.append(pod(f"r{number}", on, labels=draw(LABELS), **spec))
    return nodes, running


def answers(bodies: list[Body]) -> dict[str, tuple[str, ...]]:
    said = pod_explained(known(*bodies))
    return {name: group.answer.scheduler for group in said.groups for name in group.nodes}


@given(crowds(), st.lists(TERM, max_size=2), st.lists(TERM, max_size=2), LABELS)
@settings(max_examples=150, deadline=None)
def test_affinity_between_pods_is_its_definition(
    crowd: tuple[list[Body], list[Body]], near: list[Body], apart: list[Body], labels: Body
) -> None:
    nodes, running = crowd
    place = {item["metadata"]["name"]: item["metadata"]["labels"] for item in nodes}

    def in_domain(one: str, other: str, key: str) -> bool:
        return key in place[one] and place[one][key] == place[other].get(key)

    def expected(name: str) -> tuple[str, ...]:
        whole = [item for item in running if all(meant(term, item["metadata"]["labels"]) for term in near)]
        lone = not any(
            term["topologyKey"] in place[item["spec"]["nodeName"]] for item in whole for term in near
        ) and all(meant(term, labels) for term in near)
        for term in near:
            key = term["topologyKey"]
            there = any(in_domain(name, item["spec"]["nodeName"], key) for item in whole)
            if key not in place[name] or not (there or lone):
                return (NEAR,)
        for term in apart:
            if any(
                meant(term, item["metadata"]["labels"])
                and in_domain(name, item["spec"]["nodeName"], term["topologyKey"])
                for item in running
            ):
                return (APART,)
        for item in running:
            theirs = item["spec"]["affinity"]["podAntiAffinity"]
            for term in theirs["requiredDuringSchedulingIgnoredDuringExecution"]:
                if meant(term, labels) and in_domain(name, item["spec"]["nodeName"], term["topologyKey"]):
                    return (EXISTING,)
        return ()

    found = answers([*nodes, *running, pod("p", labels=labels, **affinity(near, apart))])
    assert found == {name: expected(name) for name in place}


@given(
    crowds(),
    st.sampled_from(KEYS),
    st.integers(1, 2),
    st.sampled_from([None, 1, 2, 4]),
    LABELS,
    st.sampled_from([None, "Honor", "Ignore"]),
    st.sampled_from([{}, {"zone": "e"}]),
)
@settings(max_examples=150, deadline=None)
def test_spread_is_its_definition(
    crowd: tuple[list[Body], list[Body]],
    key: str,
    skew: int,
    least_domains: int | None,
    labels: Body,
    policy: str | None,
    selector: dict[str, str],
) -> None:
    nodes, running = crowd
    bare = [{**item, "spec": {**item["spec"], "affinity": {}}} for item in running]
    place = {item["metadata"]["name"]: item["metadata"]["labels"] for item in nodes}
    wanted = {"app": "a"}
    constraint: Body = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": wanted},
    }
    constraint |= {"minDomains": least_domains} if least_domains else {}
    constraint |= {"nodeAffinityPolicy": policy} if policy else {}
    asked = pod("p", labels=labels, topologySpreadConstraints=[constraint], nodeSelector=selector)

    def is_wanted(name: str) -> bool:
        return all(place[name].get(at) == value for at, value in selector.items())

    domains: dict[str, int] = {}
    for name, has in place.items():
        if key in has and (policy == "Ignore" or is_wanted(name)):
            domains.setdefault(has[key], 0)
            domains[has[key]] += sum(
                item["spec"]["nodeName"] == name and item["metadata"]["labels"].get("app") == "a"
                for item in bare
            )
    fewest = min(domains.values()) if domains and len(domains) >= (least_domains or 1) else 0

    def expected(name: str) -> tuple[str, ...]:
        if not is_wanted(name):
            return ("node(s) didn't match Pod's node affinity/selector",)
        if key not in place[name]:
            return (f"{SPREAD} (missing required label)",)
        here = domains.get(place[name][key], 0) + (labels.get("app") == "a")
        return (SPREAD,) if here - fewest > skew else ()

    assert answers([*nodes, *bare, asked]) == {name: expected(name) for name in place}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9_999) | st.sampled_from(["", "a", "zone", HOST, "1Gi"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
        st.sampled_from([
            "labelSelector", "matchLabels", "matchExpressions", "key", "operator", "values", "topologyKey",
            "maxSkew", "minDomains", "whenUnsatisfiable", "claimName", "persistentVolumeClaim", "ephemeral",
            "hostPort", "protocol", "requests", "cpu", "namespaces", "namespaceSelector", "matchLabelKeys",
        ]),
        inner, max_size=3,
    ),
    max_leaves=12,
)  # fmt: skip
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@given(ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING)
@settings(max_examples=100, deadline=None)
def test_no_shape_of_these_fields_ends_in_a_traceback(
    term: object, spread: object, volume: object, port: object, whole: object
) -> None:
    """A server refuses most of them; a file may hold any. What cannot be read is told."""
    body = pod("p", labels={"app": "a"})
    body["spec"] |= {
        "affinity": {"podAffinity": {REQUIRED: [term]}, "podAntiAffinity": {REQUIRED: [term]}},
        "topologySpreadConstraints": [spread],
        "volumes": [volume],
        "resources": whole,
    }
    body["spec"]["containers"][0]["ports"] = [port]
    running = {
        **body,
        "metadata": {**body["metadata"], "name": "r"},
        "spec": {**body["spec"], "nodeName": "n0"},
    }
    evidence = known(node("n0", zone="e"), running, body)
    if evidence.snapshot.pods:
        assert pod_explained(evidence).headline
