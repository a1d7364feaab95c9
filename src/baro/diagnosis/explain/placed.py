"""Why a placed pod has these devices: island and GB/s of the set, and what kube-scheduler would have taken.

The comparison gives the claim's devices back and asks the allocator again on the same node, with what is
free *now*. What else was free when the pod was placed is not recorded anywhere, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from baro.allocator import Policy, compile_plan, predict_set
from baro.allocator.explain import why
from baro.allocator.graph import graph_of
from baro.allocator.ledger import Pick
from baro.allocator.problem import Fatal, NodeProblem
from baro.diagnosis.explain.bench import Bench
from baro.diagnosis.explain.kinds import pinned
from baro.diagnosis.explain.references import made_again
from baro.diagnosis.explain.result import Cause, Holding
from baro.diagnosis.explain.world import World, key_of
from baro.inventory import DeviceKey, claim_name
from baro.inventory.taints import tolerates
from baro.model import pods
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import DeviceRequestAllocationResult, ResourceClaim
from baro.model.quantity import QuantityError

NOT_KNOWN = "compared with what is free now; what else was free when it was placed is not recorded"


def holding(world: World, claim: ResourceClaim, node: str | None) -> Holding:
    """What an allocated claim holds. ``node`` is the pod's; else the one that the allocation names."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation else ()
    node = node or pinned(claim) or _node_of(world, results)
    keys = [DeviceKey(item.driver, item.pool, item.device) for item in results]
    problems = tuple(_problems(world, claim, results))
    bare = Holding(
        claim=claim_name(claim),
        node=node,
        devices=tuple(key.device for key in keys),
        line=f"{len(keys)} device{'s' * (len(keys) != 1)}" + (f" on node {node}" if node else ""),
        problems=problems,
    )
    if node is None or not world.snapshot.slices:
        return bare
    try:
        found = predict_set(world.inventory, node, keys)
        line = _line(world, claim, node, results) or bare.line
        first, first_gbps = _would_take(world, claim, node, Policy.FIRST_FIT)
        best, best_gbps = _would_take(world, claim, node, Policy.TOPOLOGY)
    except (Fatal, QuantityError):
        return bare
    return Holding(
        claim=bare.claim,
        node=node,
        devices=bare.devices,
        line=line,
        gbps=found.gbps if found else None,
        slowest=found.slowest_kind if found else None,
        first_fit=first,
        first_fit_gbps=first_gbps,
        best=best,
        best_gbps=best_gbps,
        problems=problems,
    )


def _node_of(world: World, results: Sequence[DeviceRequestAllocationResult]) -> str | None:
    for item in results:
        for slice_ in world.slices_of_pool.get((item.driver, item.pool), ()):
            if slice_.spec.node_name:
                return slice_.spec.node_name
    return None


def _line(
    world: World, claim: ResourceClaim, node: str, results: Sequence[DeviceRequestAllocationResult]
) -> str | None:
    """The allocator's own sentence: ``4×H200 on node a: island nvl1, 450 GB/s ring``."""
    plan = compile_plan([claim], world.inventory.classes, world.options.features)
    problem = NodeProblem(world.inventory, node, plan, world.options.features, world.engine)
    number = {key: at for at, key in enumerate(problem.keys)}
    by_name = {alternative.name: alternative for _, _, alternative in plan.alternatives()}
    picks = [
        Pick(0, by_name[item.request], number[key])
        for item in results
        if item.request in by_name and (key := DeviceKey(item.driver, item.pool, item.device)) in number
    ]
    if len(picks) != len(results):
        return None
    return next(iter(why(problem, graph_of(problem), picks)), None)


def _would_take(
    world: World, claim: ResourceClaim, node: str, policy: Policy
) -> tuple[tuple[str, ...], float | None]:
    """What a policy would take on the node if the claim held nothing, and what that set is worth."""
    bench = Bench(world, node)
    name = claim_name(claim)
    decision = bench.decide([made_again(claim)], policy, (name,))
    if not decision.fits:
        return (), None
    found = predict_set(bench.inventory, node, decision.devices)
    return tuple(key.device for key in decision.devices), found.gbps if found else None


def _problems(
    world: World, claim: ResourceClaim, results: Sequence[DeviceRequestAllocationResult]
) -> Iterator[str]:
    """What is wrong with devices that are held."""
    if not world.snapshot.slices:
        return
    twice = dict(world.inventory.usage.doubly_held())
    for item in results:
        key = DeviceKey(item.driver, item.pool, item.device)
        row = world.inventory.row(key)
        if key in twice:
            others = [name for name in twice[key] if name != claim_name(claim)]
            yield f"device {item.device} is held by claim {', '.join(others)} as well"
        if row is None:
            yield f"device {item.device} is no longer published"
            continue
        for taint in world.inventory.taints(row):
            if taint.effect in ("NoSchedule", "NoExecute") and not any(
                tolerates(t, taint) for t in item.tolerations
            ):
                value = f"={taint.value}" if taint.value else ""
                yield f"device {item.device} now has the taint {taint.key}{value}:{taint.effect}"


# --- pods that are bound and do not run ---------------------------------------------------------------------


def unprepared(world: World, pod: Pod) -> Iterator[Cause]:
    """Why a bound pod with claims cannot start, as far as the claims tell."""
    owned = world.owned(pod)
    for ref in pods.claim_refs(pod, owned):
        claim = world.claims.get((key_of(pod)[0], ref.name or ""))
        if not ref.needed or claim is None:
            continue
        name = "/".join(key_of(claim))
        if claim.status.allocation is None:
            yield Cause(
                code="pending-not-allocated",
                message=f"the pod is bound to node {pod.spec.node_name}, and claim {name} is not allocated",
                evidence=(
                    "spec.nodeName was set by hand or by a scheduler without DRA: nobody allocates then",
                ),
                next="remove spec.nodeName and create the pod again",
            )
        elif not any(
            consumer.uid == pod.metadata.uid
            if consumer.uid and pod.metadata.uid
            else consumer.name == pod.metadata.name
            for consumer in claim.status.reserved_for
        ):
            yield Cause(
                code="claim-not-reserved-for-pod",
                message=f"claim {name} is not reserved for the pod: kubelet will not let it use the claim",
                evidence=(
                    "status.reservedFor: "
                    + (", ".join(consumer.name for consumer in claim.status.reserved_for) or "empty"),
                    "usual causes: spec.nodeName set by hand, a scheduler without DRA, the gate off in it",
                ),
                next=f"kubectl -n {key_of(claim)[0]} get resourceclaim {claim.metadata.name} -o yaml",
            )
