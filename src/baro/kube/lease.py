"""Leader election by a ``Lease``, as client-go does it: one active planner, quick take-over.

A courtesy and nothing more: two planners that both believe to lead do no harm (their writes are guarded
and double holdings are detected), they only waste work. A holder stops leading when it could not renew for
``renew_deadline_s``, which must be less than ``lease_duration_s``, the time after which others may take over.
A rival judges the lease by its own clock: it waits that long after it last saw the lease change, so clocks
of different machines need not agree.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from baro.kube.api import KubeApi, guard
from baro.kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from baro.model.errors import InputError, UnreachableError
from baro.model.kinds.core import Lease


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds; the defaults are kube-scheduler's."""

    namespace: str = "kube-system"
    name: str = "baro-controller"
    identity: str
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.retry_period_s < self.renew_deadline_s < self.lease_duration_s:
            raise InputError("leader election needs retry period < renew deadline < lease duration")


class Elector:
    """Call ``tick`` every ``retry_period_s``; it says whether this process leads now.

    ``clock`` is a steady clock in seconds, ``utc`` gives the time that is written into the lease.
    """

    def __init__(
        self,
        api: KubeApi,
        settings: LeaseSettings,
        *,
        clock: Callable[[], float],
        utc: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._settings = settings
        self._clock = clock
        self._utc = utc
        self._renewed: float | None = None
        self._seen: tuple[str, float] | None = None

    @property
    def leads(self) -> bool:
        """Whether the last renewal is recent enough to act upon."""
        return self._renewed is not None and self._clock() - self._renewed < self._settings.renew_deadline_s

    def tick(self) -> bool:
        """Tries to get or renew. A server that does not answer costs the lead only after the deadline."""
        started = self._clock()
        try:
            if self._try():
                self._renewed = started
            else:
                self._renewed = None
        except (ConflictError, AlreadyExistsError):
            self._renewed = None  # somebody else was quicker
        except (UnreachableError, ApiError):
            pass
        return self.leads

    def _try(self) -> bool:
        s = self._settings
        try:
            lease = self._api.get(Lease, s.namespace, s.name)
        except NotFoundError:
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": s.name, "namespace": s.namespace},
                "spec": self._spec(acquired=True, transitions=0),
            }
            self._api.create(Lease, s.namespace, body)
            return True
        holder = lease.spec.holder_identity or ""
        mine = holder == s.identity
        if holder and not mine and not self._expired(lease):
            return False
        transitions = (lease.spec.lease_transitions or 0) + (0 if mine else 1)
        spec = self._spec(acquired=not mine, transitions=transitions)
        self._api.patch_merge(Lease, s.namespace, s.name, {"metadata": guard(lease), "spec": spec})
        return True

    def _expired(self, lease: Lease) -> bool:
        version = lease.metadata.resource_version
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, self._clock())
        duration = lease.spec.lease_duration_seconds or self._settings.lease_duration_s
        return self._clock() - self._seen[1] >= duration

    def _spec(self, *, acquired: bool, transitions: int) -> dict[str, Any]:
        now = self._utc().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": int(self._settings.lease_duration_s),
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        return {**spec, "acquireTime": now} if acquired else spec

    def release(self) -> None:
        """Gives the lease up, so that a successor need not wait for it to expire."""
        s = self._settings
        if not self.leads:
            return
        self._renewed = None
        try:
            lease = self._api.get(Lease, s.namespace, s.name)
            if lease.spec.holder_identity == s.identity:
                spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
                self._api.patch_merge(Lease, s.namespace, s.name, {"metadata": guard(lease), "spec": spec})
        except (ApiError, UnreachableError):
            pass  # it expires by itself
