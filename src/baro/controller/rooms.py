"""Which nodes could take a pod now: allowed by its rules, and with room for its CPU and memory.

kube-scheduler takes an allocation away again when the pod fits nowhere, so baro ungates a pod only for a
node that has room for all of it. Pods that are placed but not bound yet count where they will go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from baro.controller import pods
from baro.controller.view import View
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import AllocationResult, ResourceClaim

FIXED = "cannot reach devices that the pod's claims already hold"


class Rooms:
    """What runs where, counted once for a round of planning."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._used: dict[str, dict[str, int]] = {}
        self._where: dict[str, str] = {}
        for pod in view.all(Pod).values():
            if not pods.done(pod) and (node := pod.spec.node_name or self._will_go(pod)):
                self.take(pod, node)

    def take(self, pod: Pod, node: str) -> None:
        """Counts the pod on that node, in place of where it was counted before."""
        asked = self._view.requests(pod)
        before = self._where.pop(pod.metadata.uid, None)
        if before is not None:
            self._add(before, {name: -amount for name, amount in asked.items()})
        self._where[pod.metadata.uid] = node
        self._add(node, asked)

    def candidates(self, pod: Pod, fixed: Iterable[AllocationResult]) -> tuple[list[str], dict[str, int]]:
        """Nodes that may take the pod, sorted, and how many were left out for which reason.

        ``fixed`` are allocations of the pod's claims that stand: their node selectors must all hold.
        """
        selectors = [allocation.node_selector for allocation in fixed if allocation.node_selector]
        asked = self._view.requests(pod)
        found: list[str] = []
        left_out: Counter[str] = Counter()
        nodes = self._view.all(Node)
        pin = next((name for selector in selectors if (name := pods.pinned(selector))), None)
        if pin is not None:  # the usual case by far: look at that node only
            left_out[FIXED] = len(nodes) - 1
            nodes = {key: nodes[key] for key in (("", pin),) if key in nodes}
        if pod.spec.node_name:  # bound already: it stays where it is, whatever its rules say of the node
            here = nodes.get(("", pod.spec.node_name))
            fits = here is not None and all(pods.selects(selector, here) for selector in selectors)
            return ([pod.spec.node_name], {}) if fits else ([], {FIXED: 1})
        for (_, name), node in nodes.items():
            why = self._against(pod, node, asked)
            if why is None and not all(pods.selects(selector, node) for selector in selectors):
                why = FIXED
            if why is None:
                found.append(name)
            else:
                left_out[why] += 1
        return sorted(found), {why: count for why, count in left_out.items() if count > 0}

    def _against(self, pod: Pod, node: Node, asked: pods.Amounts) -> str | None:
        why = pods.refuses(node, pod)
        if why is not None:
            return why
        used = self._used.get(node.metadata.name, {})
        if self._where.get(pod.metadata.uid) == node.metadata.name:  # it counts itself already
            used = {name: amount - asked.get(name, 0) for name, amount in used.items()}
        short = pods.short_of(asked, used, node)
        return None if short is None else f"had too little {short}"

    def _will_go(self, pod: Pod) -> str | None:
        """The node that the allocations of an unbound pod name."""
        for ref in pods.claim_refs(pod, self._view.owned(pod)):
            claim = self._view.find(ResourceClaim, pod.metadata.namespace, ref.name or "")
            if claim is not None and claim.status.allocation is not None:
                node = pods.pinned(claim.status.allocation.node_selector)
                if node is not None and any(c.uid == pod.metadata.uid for c in claim.status.reserved_for):
                    return node
        return None

    def _add(self, node: str, amounts: pods.Amounts) -> None:
        used = self._used.setdefault(node, {})
        for name, amount in amounts.items():
            used[name] = used.get(name, 0) + amount
