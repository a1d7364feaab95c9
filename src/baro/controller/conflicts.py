"""One device in two claims: who yields.

The API server does not notice it, so every planner looks for it in every round, by the same rule: of what is
only announced, everything yields to an allocation, and else all but the oldest; of allocations, see
``_losers``. Until it is settled nobody builds on any of these claims. Before an allocation is taken back,
kube-scheduler is kept off its devices that another claim holds: see ``shields``.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from baro.controller import pods
from baro.controller.actions import Action, Explain, Release, Withdraw
from baro.controller.indexes import Key
from baro.controller.marks import intent, ours
from baro.controller.shields import confirmed, missing
from baro.controller.view import View, key_of
from baro.inventory.usage import DeviceKey
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import AllocationResult, ResourceClaim


class _Stuck(msgspec.Struct):
    """A claim that shares devices with others, of which none may yield."""

    claim: ResourceClaim
    devices: list[DeviceKey] = []
    others: set[str] = set()


class Conflicts:
    """The double holdings of a view. ``contested`` is complete once ``actions`` was read to its end.

    ``shielded``: whether kube-scheduler is to be kept off devices that are held twice, and can be.
    """

    def __init__(self, view: View, *, shielded: bool) -> None:
        self.contested: set[Key] = set()
        self._view = view
        self._shielded = shielded

    def actions(self) -> Iterator[Action]:
        """What is to be taken back, and what can only be reported."""
        freed: set[Key] = set()
        stuck: dict[Key, _Stuck] = {}
        for device in sorted(self._view.contested):
            everyone = self._holders(device)
            self.contested.update(key_of(claim) for claim in everyone)
            holders = [claim for claim in everyone if key_of(claim) not in freed]
            if len(holders) < 2:
                continue
            losers = self._intents(holders) or self._losers(holders)
            for claim in losers:
                freed.add(key_of(claim))
                others = ", ".join(sorted(c.ref for c in holders if c is not claim))
                why = f"device {device} is also held by {others}"
                if claim.status.allocation is None:
                    yield Withdraw(claim, why)
                    continue
                gated = tuple(pod for pod in self._consumers(claim) if pods.gated(pod))
                yield from self._give_back(Release(claim, why, while_gated=gated))
            if not losers:
                for claim in holders:
                    mine = stuck.setdefault(key_of(claim), _Stuck(claim))
                    mine.devices.append(device)
                    mine.others.update(other.ref for other in holders if other is not claim)
        for each in stuck.values():
            yield from self._cannot_yield(each)

    def _give_back(self, release: Release) -> Iterator[Action]:
        """The release, as soon as kube-scheduler is kept off the devices that stay with another claim."""
        if self._shielded:
            kept = [device for device in _devices(release.claim) if self._stays(device, release.claim)]
            yield from missing(self._view, kept, release.why)
            if not confirmed(self._view, kept):
                return
        yield release

    def _stays(self, device: DeviceKey, claim: ResourceClaim) -> bool:
        """Whether another claim is allocated the device as well."""
        return any(other.status.allocation for other in self._holders(device) if other is not claim)

    def _holders(self, device: DeviceKey) -> list[ResourceClaim]:
        found: list[ResourceClaim] = []
        for share in self._view.inventory.usage.holders.get(device, ()):
            namespace, _, name = share.claim.rpartition("/")
            claim = self._view.find(ResourceClaim, namespace, name)
            if share.share_id is None and claim is not None and claim not in found:
                found.append(claim)
        return found

    def _intents(self, holders: list[ResourceClaim]) -> list[ResourceClaim]:
        """Announcements that are to be withdrawn. The one that stays waits until the others are gone."""
        meant = sorted((c for c in holders if intent(c)), key=lambda c: (_stamp(intent(c)), c.metadata.uid))
        return meant if len(meant) < len(holders) else meant[1:]

    def _losers(self, holders: list[ResourceClaim]) -> list[ResourceClaim]:
        """The claims of baro's that are to be released so that one holder is left.

        A claim in use by a bound pod never yields, nor one that somebody else allocated: baro takes back
        only what is its own and not yet in use. Among those: gated before ungated (kube-scheduler may be
        binding that one), then the later allocation, then the greater uid. Every planner sees the same.
        """

        def rank(claim: ResourceClaim) -> tuple[int, str, str]:
            ungated = any(not pods.gated(pod) for pod in self._consumers(claim))
            return (0 if ungated else 1, _stamp(claim.status.allocation), claim.metadata.uid)

        may = sorted((claim for claim in holders if ours(claim) and not self._in_use(claim)), key=rank)
        return may if len(may) < len(holders) else may[1:]

    def _in_use(self, claim: ResourceClaim) -> bool:
        if any(consumer.resource != "pods" for consumer in claim.status.reserved_for):
            return True  # a pod group: not ours to judge
        return any(pod.spec.node_name and not pods.done(pod) for pod in self._consumers(claim))

    def _consumers(self, claim: ResourceClaim) -> Iterator[Pod]:
        """The pods that the claim is reserved for, as far as they are known."""
        for consumer in claim.status.reserved_for:
            pod = self._view.find(Pod, claim.metadata.namespace, consumer.name)
            if pod is not None and pod.metadata.uid == consumer.uid:
                yield pod

    def _cannot_yield(self, stuck: _Stuck) -> Iterator[Action]:
        """One text for all devices of a claim: an event is written again when what it says has changed."""
        plural = "s" if len(stuck.devices) > 1 else ""
        devices, others = ", ".join(map(str, stuck.devices)), ", ".join(sorted(stuck.others))
        verb = "are" if plural else "is"
        text = (
            f"device{plural} {devices} of {stuck.claim.ref} {verb} also held by {others}. None of them is "
            f"baro's to take back: delete one of the pods"
        )
        if self._shielded:
            yield from missing(self._view, stuck.devices, text)
        for pod in self._consumers(stuck.claim):
            yield Explain(pod, "DeviceHeldTwice", text)


def _devices(claim: ResourceClaim) -> list[DeviceKey]:
    results = claim.status.allocation.devices.results if claim.status.allocation else ()
    return [DeviceKey(result.driver, result.pool, result.device) for result in results]


def _stamp(allocation: AllocationResult | None) -> str:
    return (allocation.allocation_timestamp if allocation else None) or ""
