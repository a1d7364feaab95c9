"""Requests of a pod as a whole (``spec.resources``): they take the place of the sums of its containers."""

from __future__ import annotations

from collections.abc import Mapping

from baro.model import pods
from baro.model.kinds.base import RawQuantity


def with_whole(
    asked: dict[str, int], whole: Mapping[str, RawQuantity], overhead: Mapping[str, RawQuantity]
) -> dict[str, int]:
    """``asked`` with the pod's own requests for CPU, memory and huge pages; overhead comes on top of them.

    Source: ``PodRequests`` of ``k8s.io/component-helpers/resource``. Amounts are in units of 10^-9.
    """
    found = dict(asked)
    for name, raw in whole.items():
        amount = pods.scaled(raw)
        if amount is not None and (name in ("cpu", "memory") or name.startswith("hugepages-")):
            found[name] = amount + (pods.scaled(overhead.get(name)) or 0)
    return found
