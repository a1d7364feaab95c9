"""Whether two claims held one device at a moment at which pods of both were bound: judged from watches.

Pods and claims come over two watches, and neither is ever as far as the other. So no picture put together of
both shows one moment: a claim that has long given a device back is still there while its pod, placed anew, is
already seen running. What is compared here are the resourceVersions between which each thing held; they count
all writes to one server in their order. Nothing is told before both watches have come far enough to prove it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias, TypeVar

import msgspec

from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Pod
from baro.model.kinds.resource import ResourceClaim

T = TypeVar("T", bound=KubeObject)


class _Progress(msgspec.Struct, eq=False):
    """How far a watch has come: everything up to this version is known."""

    version: int = 0


class _Span(msgspec.Struct, eq=False):
    """It held from version ``since`` on, up to and without ``until``."""

    since: int
    progress: _Progress
    until: float = math.inf

    @property
    def known_until(self) -> float:
        """While it still holds: as far as the watch has come."""
        return min(self.until, self.progress.version + 1)


class _Holding(msgspec.Struct, eq=False):
    """A claim holds devices, reserved for these pods."""

    name: str
    version: str
    devices: tuple[str, ...]
    uids: tuple[str, ...]
    span: _Span


Suspect: TypeAlias = tuple[str, _Holding, _Holding]
"""A device and two claims that held it at one moment."""


class Uses:
    """Takes what two watches tell, each in its order. ``found`` says what was in use twice."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._claims = _Progress()
        self._pods = _Progress()
        self._holdings: dict[str, _Holding] = {}
        self._holders: defaultdict[str, list[_Holding]] = defaultdict(list)
        """Those that hold a device as far as is known now."""
        self._bound: dict[str, _Span] = {}
        self._suspects: list[Suspect] = []

    def listed(self, kind: type[T], items: Iterable[T]) -> None:
        """A new list of a kind, after a gap in its watch: when something changed meanwhile is unknown."""
        fresh = {item.metadata.uid: item for item in items}
        progress = self._claims if kind is ResourceClaim else self._pods
        unknown = progress.version + 1
        if kind is ResourceClaim:
            for uid, holding in list(self._holdings.items()):
                if uid not in fresh or fresh[uid].metadata.resource_version != holding.version:
                    self._end(uid, unknown)
        for uid, span in self._bound.items():
            if kind is Pod and uid not in fresh:
                span.until = min(span.until, unknown)
        for item in sorted(fresh.values(), key=lambda item: int(item.metadata.resource_version)):
            self.told(item)

    def told(self, obj: KubeObject, *, gone: bool = False) -> None:
        """A version of a pod or claim; ``gone``: the one that its deletion made."""
        version = int(obj.metadata.resource_version)
        match obj:
            case ResourceClaim():
                self._claim(obj, version, gone)
                self._claims.version = max(self._claims.version, version)
            case Pod():
                self._pod(obj, version, gone)
                self._pods.version = max(self._pods.version, version)
        self._judge()

    def _claim(self, claim: ResourceClaim, version: int, gone: bool) -> None:
        uid = claim.metadata.uid
        devices = () if gone else exclusive_devices(claim)
        uids = tuple(sorted(consumer.uid for consumer in claim.status.reserved_for))
        old = self._holdings.get(uid)
        if old is not None and (old.devices, old.uids) == (devices, uids):
            old.version = claim.metadata.resource_version
            return
        self._end(uid, version)
        if not devices:
            return
        span = _Span(version, self._claims)
        new = self._holdings[uid] = _Holding(
            claim.metadata.name, claim.metadata.resource_version, devices, uids, span
        )
        for device in devices:
            self._suspects += [(device, other, new) for other in self._holders[device]]
            self._holders[device].append(new)

    def _end(self, uid: str, version: int) -> None:
        old = self._holdings.pop(uid, None)
        if old is not None:
            old.span.until = version
            for device in old.devices:
                self._holders[device].remove(old)

    def _pod(self, pod: Pod, version: int, gone: bool) -> None:
        uid = pod.metadata.uid
        if gone or pod.status.phase in ("Succeeded", "Failed"):
            span = self._bound.get(uid)
            if span is not None:
                span.until = min(span.until, version)
        elif pod.spec.node_name and uid not in self._bound:
            self._bound[uid] = _Span(version, self._pods)

    def _judge(self) -> None:
        for device, one, other in self._suspects:
            text = f"{device} is in use through {' and '.join(sorted((one.name, other.name)))}"
            if text not in self.found and any(
                _meet(one.span, other.span, a, b) for a in self._spans(one) for b in self._spans(other)
            ):
                self.found.append(text)

    def _spans(self, holding: _Holding) -> list[_Span]:
        return [self._bound[uid] for uid in holding.uids if uid in self._bound]


def _meet(*spans: _Span) -> bool:
    """Whether there is a version at which all of it held for certain."""
    return max(span.since for span in spans) < min(span.known_until for span in spans)


def exclusive_devices(claim: ResourceClaim) -> tuple[str, ...]:
    """``driver/pool/device`` of what the claim holds for itself alone."""
    allocation = claim.status.allocation
    return tuple(
        f"{result.driver}/{result.pool}/{result.device}"
        for result in (allocation.devices.results if allocation else ())
        if not result.admin_access and result.share_id is None
    )
