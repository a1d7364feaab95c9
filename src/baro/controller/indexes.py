"""What a round of planning starts from, found without looking at everything: kept in step by the ``View``.

In a large cluster nearly all pods run and nearly all claims are in use; a round is about the few others.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from baro.controller import pods
from baro.controller.gangs import GangKey, gang_of
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim
from baro.model.names import ALLOCATED_BY, INTENT, REASON_ANNOTATION

Key = tuple[str, str]
Turn = tuple[int, str, str, str]


class Turns:
    """Pods that baro may have something to do for, in the order in which they are placed: higher priority
    first, then older, then by name.
    """

    def __init__(self) -> None:
        self._order: list[Turn] = []
        self._held: dict[Key, tuple[Turn, Pod]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Pod]:
        """All of them. Not to be changed meanwhile."""
        held = self._held
        return (held[namespace, name][1] for _, _, namespace, name in self._order)

    def put(self, key: Key, pod: Pod) -> None:
        """The pod as it is now; it stands in line only when ``concerns`` says so."""
        if not concerns(pod):
            self.drop(key)
            return
        turn = (-(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", *key)
        old = self._held.get(key)
        if old is not None and old[0] != turn:
            self.drop(key)
            old = None
        self._held[key] = (turn, pod)
        if old is None:
            insort(self._order, turn)

    def drop(self, key: Key) -> None:
        """The pod no longer stands in line."""
        old = self._held.pop(key, None)
        if old is not None:
            del self._order[bisect_left(self._order, old[0])]


class Indexes:
    """Subsets of a view's pods and claims."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.theirs: dict[Key, Pod] = {}
        """Pods that kube-scheduler may be allocating devices for."""
        self.unused: dict[Key, ResourceClaim] = {}
        """Claims that bear a mark of baro's and that nobody has reserved."""
        self.gangs: dict[GangKey, dict[Key, Pod]] = {}
        """Pods of each gang."""
        self._gang_of: dict[Key, GangKey] = {}

    def put_pod(self, key: Key, pod: Pod) -> None:
        self.turns.put(key, pod)
        gang = gang_of(pod)
        if self._gang_of.get(key) != gang:
            self._leave_gang(key)
        if gang is not None:
            self._gang_of[key] = gang
            self.gangs.setdefault(gang, {})[key] = pod
        if _its_turn(pod):
            self.theirs[key] = pod
        else:
            self.theirs.pop(key, None)

    def drop_pod(self, key: Key) -> None:
        self.turns.drop(key)
        self._leave_gang(key)
        self.theirs.pop(key, None)

    def _leave_gang(self, key: Key) -> None:
        gang = self._gang_of.pop(key, None)
        if gang is not None:
            del self.gangs[gang][key]
            if not self.gangs[gang]:
                del self.gangs[gang]

    def put_claim(self, key: Key, claim: ResourceClaim) -> None:
        annotations = claim.metadata.annotations
        if not claim.status.reserved_for and (ALLOCATED_BY in annotations or INTENT in annotations):
            self.unused[key] = claim
        else:
            self.unused.pop(key, None)

    def drop_claim(self, key: Key) -> None:
        self.unused.pop(key, None)


def concerns(pod: Pod) -> bool:
    """Whether there may be something to do for it: it has baro's gate, or had it and does not run yet."""
    if pods.done(pod) or pod.metadata.deletion_timestamp:
        return False
    if pod.spec.node_name and pod.status.phase not in ("", "Pending"):
        return False
    return pods.gated(pod) or REASON_ANNOTATION in pod.metadata.annotations


def _its_turn(pod: Pod) -> bool:
    waits = not pod.spec.node_name and not pod.spec.scheduling_gates and not pod.metadata.deletion_timestamp
    return waits and bool(pod.spec.resource_claims) and not pods.done(pod)
