"""Which devices are in use, from the claims that are allocated.

A result with ``adminAccess`` does not count; one with a ``shareID`` takes a share of a device, any other
takes the whole device. Keyed by device name, not by row, so that a device which is no longer published
stays in use until its claim is released.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from baro.model.kinds.base import RawQuantity
from baro.model.kinds.resource import ResourceClaim


class DeviceKey(NamedTuple):
    """The name of a device in a cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class Share(NamedTuple):
    """One holder's part of a device; ``share_id`` is ``None`` for the whole device."""

    claim: str
    share_id: str | None
    consumed: Mapping[str, RawQuantity]


class Usage:
    """Holders per device. Claims are named ``namespace/name``."""

    def __init__(self) -> None:
        self.holders: dict[DeviceKey, list[Share]] = {}
        self._claims: dict[str, tuple[DeviceKey, ...]] = {}

    def hold(self, claim: ResourceClaim) -> frozenset[DeviceKey]:
        """Count a claim's devices, in place of what it held before. Returns the devices touched."""
        name = claim_name(claim)
        touched = set(self.release(name))
        allocation = claim.status.allocation
        held: list[DeviceKey] = []
        for result in allocation.devices.results if allocation else ():
            if result.admin_access:
                continue
            key = DeviceKey(result.driver, result.pool, result.device)
            held.append(key)
            share = Share(name, result.share_id, result.consumed_capacity)
            self.holders.setdefault(key, []).append(share)
        if held:
            self._claims[name] = tuple(held)
        return frozenset(touched | set(held))

    def release(self, claim: str) -> frozenset[DeviceKey]:
        """Forget a claim. Returns the devices that it held."""
        held = self._claims.pop(claim, ())
        for key in set(held):
            left = [share for share in self.holders[key] if share.claim != claim]
            if left:
                self.holders[key] = left
            else:
                del self.holders[key]
        return frozenset(held)

    def doubly_held(self) -> Iterator[tuple[DeviceKey, tuple[str, ...]]]:
        """Devices that more than one claim holds as a whole: the API server does not prevent it."""
        for key, shares in self.holders.items():
            whole = tuple(sorted({share.claim for share in shares if share.share_id is None}))
            if len(whole) > 1:
                yield key, whole


def claim_name(claim: ResourceClaim) -> str:
    """``namespace/name``, or the name alone, as upstream's messages print a claim."""
    meta = claim.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
