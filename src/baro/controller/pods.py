"""Facts about one pod that placement depends on: its claims, its needs, the nodes it may run on.

Pure functions over objects. Rules are kube-scheduler's, as far as baro models them: node selector and
required node affinity, taints, room for requests. Inter-pod rules and volumes are not modelled; a pod that
kube-scheduler then finds to fit nowhere loses its allocation again and is planned anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from baro.inventory.node_selection import NodeSelectorError, matches
from baro.inventory.taints import tolerated
from baro.model.kinds.core import Container, Node, NodeSelector, Pod, Taint
from baro.model.kinds.resource import ResourceClaim
from baro.model.names import PLACEMENT_GATE
from baro.model.quantity import Quantity

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
"""On a claim made from a template: the entry of ``spec.resourceClaims`` that it serves."""

Amounts = Mapping[str, int]
"""Resource name → amount in units of 10^-9."""


class ClaimRef(msgspec.Struct, frozen=True):
    """An entry of a pod's ``resourceClaims``. ``name`` is the claim's, ``None`` while it is not known.

    ``needed`` is false for an entry whose status says that no claim is to be made.
    """

    entry: str
    name: str | None
    from_template: bool
    needed: bool = True


def gated(pod: Pod) -> bool:
    """Whether the pod waits for baro."""
    return any(gate.name == PLACEMENT_GATE for gate in pod.spec.scheduling_gates)


def done(pod: Pod) -> bool:
    """Whether the pod has ended and uses nothing any more."""
    return pod.status.phase in ("Succeeded", "Failed")


def claim_refs(pod: Pod, owned: Iterable[ResourceClaim]) -> tuple[ClaimRef, ...]:
    """The claims of a pod. ``owned`` are claims whose controller is this pod.

    A template's claim is named by the pod's status; while the status is not written yet, the annotation on
    an owned claim tells as well.
    """
    named = {status.name: status for status in pod.status.resource_claim_statuses}
    by_entry = {claim.metadata.annotations.get(POD_CLAIM_ANNOTATION): claim for claim in owned}
    refs = []
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name:
            refs.append(ClaimRef(entry.name, entry.resource_claim_name, False))
        elif entry.name in named:
            name = named[entry.name].resource_claim_name
            refs.append(ClaimRef(entry.name, name, True, needed=name is not None))
        else:
            claim = by_entry.get(entry.name)
            refs.append(ClaimRef(entry.name, claim.metadata.name if claim else None, True))
    return tuple(refs)


def owned_by(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim was made for this very pod, not for an earlier one of the same name."""
    return any(
        owner.uid == pod.metadata.uid and owner.controller for owner in claim.metadata.owner_references
    )


# --- room --------------------------------------------------------------------------------------------------


def requests(pod: Pod) -> dict[str, int]:
    """What the pod asks of a node, as kube-scheduler adds it up (containers, init containers, overhead)."""
    running: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(running, _asked(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        asked = _asked(container)
        if container.restart_policy == "Always":  # a sidecar: runs beside everything that follows
            _add(sidecars, asked)
            asked = {}
        _max(peak, _sum(sidecars, asked))
    total = _sum(running, sidecars)
    _max(total, peak)
    _add(total, {name: Quantity.parse(raw).scaled for name, raw in pod.spec.overhead.items()})
    total["pods"] = 10**9
    return total


def _asked(container: Container) -> dict[str, int]:
    resources = container.resources
    # A limit without a request is the request; the API server writes it so, the embedded one may not.
    raw = {**resources.limits, **resources.requests}
    return {name: Quantity.parse(value).scaled for name, value in raw.items()}


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _sum(one: Amounts, other: Amounts) -> dict[str, int]:
    total = dict(one)
    _add(total, other)
    return total


def _max(total: dict[str, int], other: Amounts) -> None:
    for name, amount in other.items():
        total[name] = max(total.get(name, 0), amount)


def short_of(asked: Amounts, used: Amounts, node: Node) -> str | None:
    """The first resource that the node lacks, or ``None``. What a node does not say is not checked."""
    for name, amount in asked.items():
        allocatable = node.status.allocatable.get(name)
        if allocatable is None or amount == 0:
            continue
        if used.get(name, 0) + amount > Quantity.parse(allocatable).scaled:
            return name
    return None


# --- nodes -------------------------------------------------------------------------------------------------


def refuses(node: Node, pod: Pod) -> str | None:
    """Why the pod may not run on the node at all, in kube-scheduler's words, or ``None``."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return "didn't match the pod's node selector"
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is not None and affinity.required is not None and not selects(affinity.required, node):
        return "didn't match the pod's node affinity"
    taints = list(node.spec.taints)
    if node.spec.unschedulable:
        taints.append(Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"))
    for taint in taints:
        if not tolerated((taint,), pod.spec.tolerations):
            if taint.key == "node.kubernetes.io/unschedulable":
                return "were unschedulable"
            return f"had untolerated taint {{{taint.key}: {taint.value}}}"
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            return "were not ready"
    return None


def selects(selector: NodeSelector, node: Node) -> bool:
    """Whether a node selector admits the node. One that cannot be parsed admits none."""
    try:
        return matches(selector, node.metadata.name, node.metadata.labels)
    except NodeSelectorError:
        return False


def pinned(selector: NodeSelector | None) -> str | None:
    """The node that an allocation names, when it names a single one by name."""
    if selector is None or len(selector.node_selector_terms) != 1:
        return None
    for field in selector.node_selector_terms[0].match_fields:
        if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
            return field.values[0]
    return None
