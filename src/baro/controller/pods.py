"""Facts about one pod that placement depends on: its claims, its needs, the nodes it may run on.

Pure functions over objects; what the pod alone tells comes from ``baro.model.pods``. Rules are
kube-scheduler's, as far as baro models them: node selector and required node affinity, taints, room for
requests. Inter-pod rules and volumes are not modelled; a pod that
kube-scheduler then finds to fit nowhere loses its allocation again and is planned anew.
"""

from __future__ import annotations

from baro.inventory.node_selection import NodeSelectorError, matches
from baro.inventory.taints import tolerated
from baro.model.kinds.core import Node, NodeSelector, Pod, Taint
from baro.model.pods import Amounts, claim_refs, done, gated, owned_by, requests
from baro.model.quantity import Quantity

__all__ = [
    "Amounts",
    "claim_refs",
    "done",
    "gated",
    "owned_by",
    "pinned",
    "refuses",
    "requests",
    "selects",
    "short_of",
]


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
