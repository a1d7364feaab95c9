"""Causes of nodes that a filter keeps the pod off, before any device is looked at there.

Each with evidence about one of the nodes: who has the port or uses the CPU, whether anybody has the resource.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from baro.diagnosis.explain.kinds import Kind, Question
from baro.diagnosis.explain.nodes import readiness
from baro.diagnosis.explain.result import Cause, Step
from baro.diagnosis.explain.words import nodes_text
from baro.diagnosis.explain.world import World, near
from baro.model import pods

GIVE_BACK = "kubectl get resourceclaims -o yaml  (an allocation is given back by deleting the claim)"
_FILTER_CODES = {
    Step.PORTS: "pending-host-port",
    Step.VOLUMES: "pending-volume",
    Step.SPREAD: "pending-spread",
    Step.NEAR: "pending-pod-affinity",
}


def of_filtered(world: World, question: Question, kind: Kind) -> Cause:
    out = kind.rejected
    where = nodes_text(kind.nodes)
    if out is None:
        return Cause(
            code="pending-claim-elsewhere",
            message=f"{where}: {kind.answer.reason}",
            next=GIVE_BACK,
        )
    first = kind.nodes[0]
    ready = readiness(world.inventory.nodes[first])
    evidence = [ready] if ready else []
    if out.step is Step.RESOURCES:
        return _of_resources(world, question, kind, where, evidence)
    return Cause(
        code=_FILTER_CODES.get(out.step, "pending-node"),
        message=f"{where}: {out.reason}",
        evidence=(*evidence, *out.evidence),
        next=_filter_next(world, question, out.step, first),
    )


def _filter_next(world: World, question: Question, step: Step, node: str) -> str:
    """The command that shows what a filter went by."""
    namespace, name = world.key(question.pod) if question.pod is not None else ("default", "")
    match step:
        case Step.PORTS:
            return f"kubectl get pods -A -o wide --field-selector spec.nodeName={node}"
        case Step.VOLUMES:
            return f"kubectl -n {namespace} get pvc; kubectl get pv"
        case Step.SPREAD | Step.NEAR:
            return f"kubectl -n {namespace} get pod {name} -o yaml  (affinity, topologySpreadConstraints)"
    return f"kubectl describe node {node}"


def _of_resources(world: World, question: Question, kind: Kind, where: str, evidence: list[str]) -> Cause:
    out, first = kind.rejected, kind.nodes[0]
    resources = out.key.split(",") if out else []
    extended = [name for name in resources if pods.is_extended(name)]
    reason = out.reason if out else ""
    if not extended:
        return Cause(
            code="pending-resources",
            message=f"{where}: {reason}",
            evidence=(*evidence, *_largest_users(world, first, resources[:1])),
            next=f"kubectl describe node {first}  (Allocated resources)",
        )
    for name in extended:
        evidence += _of_extended(world, first, name)
    return Cause(
        code="pending-extended-resource",
        message=f"{where}: {reason}",
        evidence=tuple(evidence),
        next=f"kubectl describe node {first}; kubectl get pods -A --field-selector spec.nodeName={first}",
    )


def _of_extended(world: World, node: str, resource: str) -> Iterator[str]:
    """Who has it, whether anybody has, and what was probably meant."""
    yield from _largest_users(world, node, [resource])
    nodes = world.inventory.nodes.values()
    have = [item for item in nodes if pods.scaled(item.status.allocatable.get(resource))]
    if have:
        total = sum(pods.scaled(item.status.allocatable[resource]) or 0 for item in have)
        used = sum(world.used.get(item.metadata.name, {}).get(resource, 0) for item in have)
        yield (
            f"in the cluster {pods.shown(total)} {resource} on {len(have)} node{'s' * (len(have) != 1)},"
            f" {pods.shown(min(used, total))} of them asked for by pods"
        )
        return
    known = {name for item in nodes for name in item.status.allocatable if pods.is_extended(name)}
    close = near(resource, known)
    if world.snapshot.slices and resource not in world.class_of_resource:
        drivers = sorted({item.spec.driver for item in world.snapshot.slices if item.spec.devices})
        yield (
            f"DRA publishes devices of {', '.join(drivers)}, and no DeviceClass serves {resource}"
            " (spec.extendedResourceName)"
        )
    if resource in known:
        yield f"no node has any {resource} to give now"
    else:
        yield f"no node has ever advertised {resource}" + (f"; nearest: {', '.join(close)}" if close else "")


def _largest_users(world: World, node: str, resources: Sequence[str]) -> Iterator[str]:
    for resource in resources:
        users = [
            (amount, f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}")
            for pod in world.bound.get(node, ())
            if (amount := world.asked(pod).get(resource, 0))
        ]
        users.sort(key=lambda item: (-item[0], item[1]))
        if users:
            listed = ", ".join(f"{name} ({pods.shown(amount, resource)})" for amount, name in users[:4])
            more = f" and {len(users) - 4} more" if len(users) > 4 else ""
            yield f"{resource} of node {node} is asked for by {listed}{more}"
