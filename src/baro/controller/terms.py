"""What a round of planning goes by besides the picture of the cluster: settings, and the caller's memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeAlias

import msgspec

from baro.controller.rivals import Exposure
from baro.model.kinds.resource import ResourceClaim


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``namespace`` empty means all. Times in seconds."""

    namespace: str = ""
    orphan_grace_s: float = 60.0
    """How long an allocation without any consumer is left alone."""
    patience_s: float = 10.0
    """How long a pod may wait for its claim objects before that is said."""
    settle_s: float = 1.5
    """How old an allocation is before its pod is ungated, where kube-scheduler allocates as well. Its time
    has whole seconds, so this is half a second at least."""
    undecided_s: float = 5.0
    """The same while kube-scheduler is likely to have decided on a pod that it has not written yet."""
    quiet_s: float = 1.0
    """For how long kube-scheduler must have been quiet before baro allocates, while it may be allocating."""
    deference_s: float = 10.0
    """A pod of this age no longer waits for that."""
    batch: int = 64
    """Pods placed in one round, so that writes start before a long queue is through."""


Quiet: TypeAlias = Callable[[tuple[ResourceClaim, ...]], float]
"""For how many seconds kube-scheduler has allocated nothing that claims could get; infinite: it cannot."""


Exposed: TypeAlias = Callable[[tuple[ResourceClaim, ...], datetime], Exposure]
"""How far allocations made at a moment may collide with what kube-scheduler had decided before."""


class Memory(msgspec.Struct, frozen=True):
    """What the caller remembers and the API does not tell. Forgetting it costs time, never a wrong write."""

    skip: frozenset[str] = frozenset()
    """Uids of pods that are not to be placed now: backing off, or nothing changed since they did not fit."""
    barred: frozenset[str] = frozenset()
    """Uids of pods whose gate the server has just refused to take off."""
    quiet_s: Quiet = lambda claims: math.inf
    """What ``Rivals`` says of claims."""
    exposure: Exposed = lambda claims, allocated: Exposure.NONE
    """What ``Rivals`` says of allocations."""
    written: Mapping[str, str] = {}
    """Uid → resourceVersion of claims that this process has just allocated. One that still is at that version
    need not be read again before ungating."""
    shields: bool = True
    """Whether the server takes taint rules of baro's, as far as is known."""
