"""What keeps a pod off a node before any device is looked at, in kube-scheduler's order and words.

Order of the filter plugins in 1.37: NodeName, NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts,
NodeResourcesFit, volumes, PodTopologySpread, InterPodAffinity; DynamicResources comes last (and is in
``answer``). The first plugin that rejects a node names its reasons, NodeResourcesFit all of them. Ports,
volumes, spread and affinity between pods are in ``rules``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from baro.diagnosis.explain.rejection import Rejection
from baro.diagnosis.explain.result import Step
from baro.diagnosis.explain.rules import rules_of
from baro.diagnosis.explain.world import World
from baro.inventory.node_selection import NodeSelectorError, matches, requirement_matches
from baro.inventory.taints import BLOCKING_EFFECTS, tolerates
from baro.model import pods
from baro.model.kinds.core import Node, NodeSelector, Pod, Taint, Toleration
from baro.model.names import GPU_READY_CONDITION

UNSCHEDULABLE = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
TOO_MANY_PODS = "Too many pods"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"


def rejection(
    world: World,
    name: str,
    pod: Pod | None,
    *,
    planner: bool,
    of: Pod | None = None,
    without: Collection[Step] = (),
) -> Rejection | None:
    """The first filter that rejects the node, or ``None``. A node without an object is not judged.

    ``planner``: judge as baro's planner, which also minds the condition ``GPUReady`` and no rules between
    pods. ``of`` is the pod whose ``rules`` count where ``pod`` is one that differs from it; ``without`` names
    steps of ``rules`` to leave out.
    """
    node = world.inventory.nodes.get(name)
    if node is None or pod is None:
        return None
    first = _named_elsewhere(node, pod) or _unschedulable(node, pod) or _tainted(node, pod)
    first = first or _not_wanted(node, pod)
    if planner:
        return first or _no_room(world, node, pod) or _gpu_not_ready(node)
    rules = rules_of(world, of or pod)
    return (
        first
        or rules.before_room(node, without)
        or _no_room(world, node, pod)
        or rules.after_room(node, without)
    )


def _named_elsewhere(node: Node, pod: Pod) -> Rejection | None:
    """Required affinity that names nodes: kube-scheduler then does not look at any other (PreFilter)."""
    names = _nodes_named(pod)
    if names is None or node.metadata.name in names:
        return None
    return Rejection(
        step=Step.NODE,
        plugin="NodeAffinity",
        reason=f"the pod's node affinity names other nodes: {', '.join(sorted(names)[:4]) or 'none'}",
        key="affinity",
        scheduler=(NOT_NAMED,),
    )


def _nodes_named(pod: Pod) -> set[str] | None:
    """The only nodes that the affinity's terms name; ``None`` where a term names none."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None or affinity.required is None:
        return None
    found: set[str] = set()
    for term in affinity.required.node_selector_terms:
        fields = [item for item in term.match_fields if item.key == "metadata.name" and item.operator == "In"]
        if not fields:
            return None
        found |= set.intersection(*(set(item.values) for item in fields))
    return found


def _unschedulable(node: Node, pod: Pod) -> Rejection | None:
    taint = Taint(key=UNSCHEDULABLE_TAINT, effect="NoSchedule")
    if not node.spec.unschedulable or _tolerated(taint, pod.spec.tolerations):
        return None
    return Rejection(
        step=Step.NODE,
        plugin="NodeUnschedulable",
        reason="cordoned (unschedulable)",
        key="cordon",
        scheduler=(UNSCHEDULABLE,),
    )


def _tainted(node: Node, pod: Pod) -> Rejection | None:
    for taint in node.spec.taints:
        if taint.effect in BLOCKING_EFFECTS and not _tolerated(taint, pod.spec.tolerations):
            return Rejection(
                step=Step.NODE,
                plugin="TaintToleration",
                reason=f"taint {taint_text(taint)} is not tolerated{_why(taint)}",
                key=taint_text(taint),
                scheduler=(TAINTED,),
            )
    return None


def taint_text(taint: Taint) -> str:
    """``key=value:effect`` as kubectl writes a taint."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


_MEANING = {
    "node.kubernetes.io/not-ready": " (the node is not ready)",
    "node.kubernetes.io/unreachable": " (the node does not answer)",
    UNSCHEDULABLE_TAINT: " (the node is cordoned)",
    "baro.dev/gpu-not-ready": " (its GPUs are not ready)",
}


def _why(taint: Taint) -> str:
    return _MEANING.get(taint.key, "")


def _tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def _not_wanted(node: Node, pod: Pod) -> Rejection | None:
    labels = node.metadata.labels
    for key, value in pod.spec.node_selector.items():
        if labels.get(key) != value:
            has = f"it has {key}={labels[key]}" if key in labels else f"it has no label {key}"
            return _affinity(f"does not match the nodeSelector {key}={value}: {has}", f"{key}={value}")
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None or affinity.required is None:
        return None
    try:
        if matches(affinity.required, node.metadata.name, labels):
            return None
    except NodeSelectorError as error:
        return _affinity(f"the pod's node affinity cannot be evaluated: {error}", "affinity")
    return _affinity(
        f"does not match the required node affinity{_unmet(affinity.required, node)}", "affinity"
    )


def _unmet(selector: NodeSelector, node: Node) -> str:
    """The requirement that fails, where the affinity has one term."""
    if len(selector.node_selector_terms) != 1:
        return ""
    term = selector.node_selector_terms[0]
    fields = {"metadata.name": node.metadata.name}
    for requirements, values in (
        (term.match_expressions, node.metadata.labels),
        (term.match_fields, fields),
    ):
        for item in requirements:
            if not requirement_matches(item, values):
                listed = f" [{', '.join(item.values)}]" if item.values else ""
                return f": {item.key} {item.operator}{listed}"
    return ""


def _affinity(reason: str, key: str) -> Rejection:
    return Rejection(step=Step.NODE, plugin="NodeAffinity", reason=reason, key=key, scheduler=(AFFINITY,))


def _no_room(world: World, node: Node, pod: Pod) -> Rejection | None:
    short = shortages(world, node, pod)
    if not short:
        return None
    return Rejection(
        step=Step.RESOURCES,
        plugin="NodeResourcesFit",
        reason="; ".join(item.text for item in short),
        key=",".join(item.resource for item in short),
        scheduler=tuple(item.word for item in short),
        states=tuple(item.state for item in short),
    )


class Shortage(NamedTuple):
    """A resource that does not suffice, in words, and in kube-scheduler's word."""

    resource: str
    text: str
    word: str
    state: str


def shortages(world: World, node: Node, pod: Pod) -> list[Shortage]:
    """All resources of a node that do not suffice for the pod.

    An extended resource that a DeviceClass serves is left to DRA where the node has none of it.
    """
    allocatable = node.status.allocatable
    if not allocatable:
        return []  # a dump without status: unknown
    name = node.metadata.name
    used = world.used.get(name, {})
    asked = world.asked(pod)
    order = ("pods", "cpu", "memory", "ephemeral-storage")
    found: list[Shortage] = []
    for resource in (*order, *sorted(asked.keys() - set(order))):
        amount = asked.get(resource, 0)
        has = pods.scaled(allocatable.get(resource)) or 0
        if not amount or (resource in order and resource not in allocatable):
            continue
        if resource not in order and not has and resource in world.class_of_resource:
            continue
        taken = used.get(resource, 0)
        if amount <= has - taken:
            continue
        word = TOO_MANY_PODS if resource == "pods" else f"Insufficient {resource}"
        state = _state(node, resource, amount, has)
        found.append(Shortage(resource, _short(node, resource, amount, has, taken), word, state))
    return found


def _state(node: Node, resource: str, amount: int, has: int) -> str:
    if not pods.is_extended(resource):
        return "used" if amount <= has else "never"
    if resource not in node.status.allocatable:
        return "absent"
    total = pods.scaled(node.status.capacity.get(resource)) or 0
    if has:
        return "used" if amount <= max(has, total) else "never"
    return "sick" if total else "gone"


def _short(node: Node, resource: str, amount: int, has: int, taken: int) -> str:
    def text(value: int) -> str:
        return pods.shown(value, resource)

    if pods.is_extended(resource):
        return _short_extended(node, resource, amount, has, taken)
    if amount > has:
        return f"{text(amount)} {resource} needed, the node has {text(has)} in all"
    return f"{text(amount)} {resource} needed, {text(max(has - taken, 0))} of {text(has)} free"


def _short_extended(node: Node, resource: str, amount: int, has: int, taken: int) -> str:
    """Absent, 0 of 0, unhealthy and used up are four different things."""
    need = f"{pods.shown(amount)} {resource} needed"
    total = pods.scaled(node.status.capacity.get(resource))
    if resource not in node.status.allocatable:
        return f"{need}, the node has never had any"
    if not has and not total:
        return f"{need}, the node has 0 of 0: its device plugin is gone or lost its connection"
    unhealthy = max((total or 0) - has, 0)
    if not has:
        return f"{need}, all {pods.shown(unhealthy)} are unhealthy"
    more = [f"{pods.shown(unhealthy)} more unhealthy"] if unhealthy else []
    if taken > has:
        more.append(f"pods ask for {pods.shown(taken - has)} more than are healthy")
    sick = f" ({', '.join(more)})" if more else ""
    return f"{need}, {pods.shown(max(has - taken, 0))} of {pods.shown(has)} free{sick}"


def _gpu_not_ready(node: Node) -> Rejection | None:
    for condition in node.status.conditions:
        if condition.type == GPU_READY_CONDITION and condition.status != "True":
            why = f": {condition.reason}" if condition.reason else ""
            return Rejection(
                step=Step.NODE,
                plugin="baro",
                reason=f"has {GPU_READY_CONDITION}={condition.status}{why}",
                key=GPU_READY_CONDITION,
            )
    return None


def readiness(node: Node) -> str | None:
    """What the node says of itself when it is not ready; kube-scheduler itself goes by the taint."""
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            return f"node {node.metadata.name} is not ready ({condition.reason or condition.status})"
    return None
