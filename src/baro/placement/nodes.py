"""Which nodes may be considered at all, and why not the others.

The allocator knows devices; here are the facts of the node object: cordons, taints, readiness, and what the
pod itself demands of its node.
"""

from __future__ import annotations

from collections.abc import Iterable

from baro.inventory import Inventory
from baro.inventory.node_selection import NodeSelectorError, matches
from baro.inventory.taints import BLOCKING_EFFECTS, tolerates
from baro.model.kinds.core import Node, NodeSelector, Pod
from baro.model.names import GPU_READY_CONDITION


def why_excluded(inventory: Inventory, name: str, pod: Pod | None = None) -> str | None:
    """One sentence, or ``None`` when the node may be used. A node that has only slices may be used."""
    node = inventory.nodes.get(name)
    if node is None:
        return None
    if node.spec.unschedulable:
        return f"node {name} is cordoned (unschedulable)"
    tolerations = pod.spec.tolerations if pod else ()
    for taint in node.spec.taints:
        if taint.effect in BLOCKING_EFFECTS and not any(tolerates(t, taint) for t in tolerations):
            return f"node {name} has the taint {taint.key}:{taint.effect}"
    return _not_ready(node) or _not_wanted(node, pod)


def reaches(inventory: Inventory, name: str, selectors: Iterable[NodeSelector]) -> bool:
    """Whether the node matches all of these, which allocations carry. What cannot be read matches nothing."""
    labels = inventory.labels(name)
    try:
        return all(matches(selector, name, labels) for selector in selectors)
    except NodeSelectorError:
        return False


def _not_ready(node: Node) -> str | None:
    """``GPUReady`` False and Unknown both block; a node without the condition is not judged by it."""
    for condition in node.status.conditions:
        if condition.type == GPU_READY_CONDITION and condition.status != "True":
            why = f": {condition.reason}" if condition.reason else ""
            return f"node {node.metadata.name} has {GPU_READY_CONDITION}={condition.status}{why}"
    return None


def _not_wanted(node: Node, pod: Pod | None) -> str | None:
    if pod is None:
        return None
    name, labels = node.metadata.name, node.metadata.labels
    for key, value in pod.spec.node_selector.items():
        if labels.get(key) != value:
            return f"node {name} lacks the label {key}={value} of the pod's nodeSelector"
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is not None and affinity.required is not None:
        try:
            if not matches(affinity.required, name, labels):
                return f"node {name} does not match the pod's node affinity"
        except NodeSelectorError as error:
            return f"the pod's node affinity cannot be evaluated: {error}"
    return None
