"""When kube-scheduler may be allocating devices that baro could choose, and for how long it has not done so.

It decides on devices from its own picture and writes the claim some time later. Until that write is seen, a
device may be promised twice although every claim looks right; and when baro then takes its own allocation
back, kube-scheduler, which keeps a plain set of allocated devices, holds the device for free. So baro lets it
go first. Only pods without gates, with claims of ordinary classes, bring this about, and only for pods whose
classes select some of the same devices: where there are none, nobody has to wait.

What a class selects is compared as a whole; selectors of single requests are not looked at, so that at worst
somebody waits who need not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum

from baro.allocator.cel_selectors import CelSelectors
from baro.allocator.plan import class_selectors
from baro.controller import pods
from baro.controller.marks import moment_of
from baro.controller.view import View
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import DeviceClass, DeviceRequest, DeviceSelector, ResourceClaim

Classes = frozenset[str]
"""Names of device classes; ``UNKNOWN`` stands for any."""
UNKNOWN: Classes = frozenset({""})
RECENT_S = 60.0
"""So long after the last pod without a gate waited, another one is expected that a watch may tell late."""


class Exposure(Enum):
    """How likely it is that kube-scheduler had decided on the same devices before it saw an allocation."""

    NONE = "none"
    """No pod that could get them waits, nor did lately."""
    POSSIBLE = "possible"
    LIKELY = "likely"
    """One waited before, and kube-scheduler has neither allocated for it nor said that it fits nowhere."""


class Rivals:
    """Remembers, for each combination of classes that baro places, when the pods that kube-scheduler could
    allocate for, or what is free, last changed.
    """

    def __init__(self) -> None:
        self._view: View | None = None
        self._now: datetime | None = None
        self._waiting: dict[Classes, set[str]] = {}
        self._undecided: dict[Classes, list[str]] = {}
        """When the pods were created of which kube-scheduler has said nothing."""
        self._seen: dict[Classes, datetime] = {}
        """When such a pod last waited, whose classes are known."""
        self._quiet: dict[Classes, tuple[frozenset[str], int, datetime]] = {}
        self._overlaps: dict[tuple[str, str], bool] = {}
        self._catalogue = -1

    def look(self, view: View, now: datetime) -> None:
        """Takes in who waits now. To be called once before each round."""
        self._view, self._now = view, now
        self._waiting, self._undecided = {}, {}
        for pod in view.indexes.theirs.values():
            classes = _may_allocate(view, pod)
            if classes:
                self._waiting.setdefault(classes, set()).add(pod.metadata.uid)
                if classes == UNKNOWN:  # nothing is decided for a claim that is not there
                    continue
                self._seen[classes] = now
                if not _fits_nowhere(pod):
                    self._undecided.setdefault(classes, []).append(pod.metadata.creation_timestamp or "")
        oldest = now - timedelta(seconds=RECENT_S)
        self._seen = {classes: moment for classes, moment in self._seen.items() if moment >= oldest}
        if not self._waiting:
            self._quiet.clear()
        if self._catalogue != view.catalogue:
            self._catalogue = view.catalogue
            self._overlaps.clear()

    def quiet_s(self, claims: Iterable[ResourceClaim]) -> float:
        """Seconds without a change that matters for these claims, which baro places; infinite when no pod
        waits for which kube-scheduler could take a device that they could get.
        """
        if not self._waiting or self._view is None or self._now is None:
            return math.inf
        view, ours = self._view, _asked(claims)
        rivals = [uids for theirs, uids in self._waiting.items() if self._meet(view, theirs, ours)]
        if not rivals:
            self._quiet.pop(ours, None)
            return math.inf
        uids, generation = frozenset[str]().union(*rivals), view.generation
        before = self._quiet.get(ours)
        if before is None or before[:2] != (uids, generation):
            before = self._quiet[ours] = (uids, generation, self._now)
        return (self._now - before[2]).total_seconds()

    def exposure(self, claims: Iterable[ResourceClaim], allocated: datetime) -> Exposure:
        """Of allocations for these claims, the youngest of which was made at that moment."""
        view = self._view
        if view is None or not (self._waiting or self._seen):
            return Exposure.NONE
        ours = _asked(claims)
        for theirs, created in self._undecided.items():
            # Created in the same second counts as before.
            moments = [moment for text in created if (moment := moment_of(text)) is not None]
            if any(moment <= allocated for moment in moments) and self._meet(view, theirs, ours):
                return Exposure.LIKELY
        if any(self._meet(view, theirs, ours) for theirs in (*self._waiting, *self._seen)):
            return Exposure.POSSIBLE
        return Exposure.NONE

    def _meet(self, view: View, theirs: Classes, ours: Classes) -> bool:
        """Whether a class of theirs and one of ours select a device that both could get."""
        return theirs == UNKNOWN or any(self._overlap(view, one, two) for one in theirs for two in ours)

    def _overlap(self, view: View, theirs: str, ours: str) -> bool:
        known = self._overlaps.get((theirs, ours))
        if known is None:
            known = self._overlaps[theirs, ours] = _overlap(view, theirs, ours)
        return known


def _overlap(view: View, theirs: str, ours: str) -> bool:
    """Whether both classes select one device. Unknown counts as yes."""
    one, other = view.find(DeviceClass, "", theirs), view.find(DeviceClass, "", ours)
    if one is None or other is None:
        return True  # it may come at any time
    engine = CelSelectors.of(view.inventory)
    selectors = (*one.spec.selectors, *class_selectors(other))
    answers = []
    for expression in dict.fromkeys(_expression(selector) for selector in selectors):
        engine.refresh(expression, None)
        answers.append(engine.answers(expression))
    # 0 is a clear no; an error may become a yes.
    return not answers or any(all(verdicts) for verdicts in zip(*answers, strict=False))


def _fits_nowhere(pod: Pod) -> bool:
    """Whether kube-scheduler has said so. It may be trying again at this moment."""
    return any(c.type == "PodScheduled" and c.status == "False" for c in pod.status.conditions)


def _asked(claims: Iterable[ResourceClaim]) -> Classes:
    return frozenset(name for c in claims for r in c.spec.devices.requests for name in _classes(r))


def _expression(selector: DeviceSelector) -> str:
    return selector.cel.expression if selector.cel is not None else "true"


def _may_allocate(view: View, pod: Pod) -> Classes:
    """Classes that kube-scheduler could now allocate from for the pod; empty when for none of its claims."""
    found: set[str] = set()
    for ref in pods.claim_refs(pod, view.owned(pod)):
        if not ref.needed:
            continue
        claim = view.find(ResourceClaim, pod.metadata.namespace, ref.name) if ref.name else None
        if claim is None:
            return UNKNOWN
        if claim.status.allocation is None and not _hidden(view, claim):
            found |= _asked([claim])
    return frozenset(name for name in found if not selects_nothing(view, name))


def _hidden(view: View, claim: ResourceClaim) -> bool:
    """Whether one of the claim's requests can only be met by classes that select nothing by themselves."""
    return any(
        all(selects_nothing(view, name) for name in _classes(request))
        for request in claim.spec.devices.requests
    )


def _classes(request: DeviceRequest) -> list[str]:
    if request.exactly is not None:
        return [request.exactly.device_class_name]
    return [alternative.device_class_name for alternative in request.first_available]


def selects_nothing(view: View, name: str) -> bool:
    """Whether kube-scheduler can take no device from this class: it is exclusive, or there is none."""
    found = view.find(DeviceClass, "", name)
    return found is None or any(
        s.cel is not None and s.cel.expression == "false" for s in found.spec.selectors
    )
