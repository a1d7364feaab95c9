"""Which nodes could take a pod now: allowed by its rules, and with room for its CPU and memory.

kube-scheduler takes an allocation away again when the pod fits nowhere, so baro ungates a pod only for a
node that has room for all of it. Pods that are placed but not bound yet count where they will go.

Pods of equal needs and rules are one *kind*, and each kind remembers which nodes refuse it and why. A change
to a node is judged once for each kind that is asked about; a question costs nothing for nodes that stayed as
they were. One ``Rooms`` belongs to one ``View``, which tells it of every change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from baro.controller import pods
from baro.model.kinds.core import Node, Pod
from baro.model.kinds.resource import AllocationResult

FIXED = "cannot reach devices that the pod's claims already hold"
MOST_KINDS = 64
"""Kinds of pods that are remembered; the one that was not asked about for longest goes first."""


class Openings(msgspec.Struct, frozen=True):
    """Nodes that may take a pod. ``nodes`` names them, sorted; ``None``: all there are but ``without``.

    ``left_out``: how many nodes were left out for which reason. To be used before anything changes.
    """

    nodes: tuple[str, ...] | None
    without: Collection[str]
    left_out: Mapping[str, int]
    count: int
    """How many they are."""


class _Kind:
    """The nodes that refuse pods of one kind. ``stale`` are to be judged again before the next answer."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self.stale = set(nodes)
        self.why: dict[str, str] = {}
        self.without: set[str] = set()
        self.left_out: Counter[str] = Counter()

    def judged(self, node: str, why: str | None) -> None:
        before = self.why.pop(node, None)
        if before is not None:
            self.without.discard(node)
            self.left_out[before] -= 1
            if not self.left_out[before]:
                del self.left_out[before]
        if why is not None:
            self.why[node] = why
            self.without.add(node)
            self.left_out[why] += 1


class Rooms:
    """What runs where, and who may still come."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._where: dict[str, tuple[str, pods.Amounts]] = {}
        self._kinds: dict[bytes, _Kind] = {}

    # --- changes -------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """A node came, or what it offers and demands changed."""
        self._nodes[node.metadata.name] = node
        self._changed(node.metadata.name)

    def remove_node(self, name: str) -> None:
        """The node is gone. What runs there is still counted, should it come back."""
        self._nodes.pop(name, None)
        self._changed(name)

    def count(self, uid: str, node: str | None, asked: pods.Amounts) -> None:
        """The pod with that uid now uses ``asked`` on that node; ``None``: it uses nothing any more."""
        old = self._where.get(uid)
        new = (node, asked) if node is not None else None
        if old == new:
            return
        if old is not None:
            del self._where[uid]
            self._add(old[0], old[1], -1)
        if new is not None:
            self._where[uid] = new
            self._add(new[0], new[1], 1)

    def _add(self, node: str, amounts: pods.Amounts, sign: int) -> None:
        used = self._used.setdefault(node, {})
        for name, amount in amounts.items():
            left = used.get(name, 0) + sign * amount
            if left:
                used[name] = left
            else:
                used.pop(name, None)
        if not used:
            del self._used[node]
        self._changed(node)

    def _changed(self, node: str) -> None:
        for kind in self._kinds.values():
            kind.stale.add(node)

    # --- questions -----------------------------------------------------------------------------------------

    def openings(self, pod: Pod, asked: pods.Amounts, fixed: Iterable[AllocationResult] = ()) -> Openings:
        """Nodes that may take the pod, which asks for that much.

        ``fixed`` are allocations of the pod's claims that stand: their node selectors must all hold.
        """
        selectors = [allocation.node_selector for allocation in fixed if allocation.node_selector]
        if pod.spec.node_name:  # bound already: it stays where it is, whatever its rules say of the node
            here = self._nodes.get(pod.spec.node_name)
            if here is not None and all(pods.selects(selector, here) for selector in selectors):
                return _named([pod.spec.node_name], {})
            return _named([], {FIXED: 1})
        if not selectors and pod.metadata.uid not in self._where:
            kind = self._kind(pod, asked)
            count = len(self._nodes) - len(kind.without)
            return Openings(None, kind.without, dict(kind.left_out), count)
        nodes: Mapping[str, Node] = self._nodes
        left_out: Counter[str] = Counter()
        pin = next((name for selector in selectors if (name := pods.pinned(selector))), None)
        if pin is not None:  # the usual case by far: look at that node only
            left_out[FIXED] = len(nodes) - 1
            nodes = {pin: nodes[pin]} if pin in nodes else {}
        found: list[str] = []
        for name, node in nodes.items():
            why = self._against(pod, node, asked)
            if why is None and not all(pods.selects(selector, node) for selector in selectors):
                why = FIXED
            if why is None:
                found.append(name)
            else:
                left_out[why] += 1
        return _named(found, left_out)

    def takes(self, name: str, wanted: Iterable[tuple[Pod, pods.Amounts]]) -> bool:
        """Whether a node may take these pods at once, beside what it runs."""
        node = self._nodes.get(name)
        if node is None:
            return False
        asked: dict[str, int] = {}
        for pod, amounts in wanted:
            if pods.refuses(node, pod) is not None:
                return False
            for resource, amount in amounts.items():
                asked[resource] = asked.get(resource, 0) + amount
        return pods.short_of(asked, self._used.get(name, {}), node) is None

    def _kind(self, pod: Pod, asked: pods.Amounts) -> _Kind:
        """The pod's kind, with every change taken in."""
        spec = pod.spec
        rules = (spec.node_selector, spec.affinity, spec.tolerations, asked)
        key = msgspec.json.encode(rules, order="sorted")
        kind = self._kinds.pop(key, None)
        if kind is None:
            kind = _Kind(self._nodes)
            if len(self._kinds) >= MOST_KINDS:
                del self._kinds[next(iter(self._kinds))]
        self._kinds[key] = kind  # at the end: asked about last
        for name in kind.stale:
            node = self._nodes.get(name)
            kind.judged(name, None if node is None else self._against(pod, node, asked))
        kind.stale.clear()
        return kind

    def _against(self, pod: Pod, node: Node, asked: pods.Amounts) -> str | None:
        why = pods.refuses(node, pod)
        if why is not None:
            return why
        used: pods.Amounts = self._used.get(node.metadata.name, {})
        own = self._where.get(pod.metadata.uid)
        if own is not None and own[0] == node.metadata.name:  # it counts itself already
            used = {name: amount - own[1].get(name, 0) for name, amount in used.items()}
        short = pods.short_of(asked, used, node)
        return None if short is None else f"had too little {short}"


def _named(nodes: Iterable[str], left_out: Mapping[str, int]) -> Openings:
    names = tuple(sorted(nodes))
    return Openings(names, (), {why: count for why, count in left_out.items() if count > 0}, len(names))
