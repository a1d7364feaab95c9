"""Scenarios of the allocator: the oracle documents, read in place."""

from __future__ import annotations

import json
from functools import cache

from baro.conformance.allocation import Instance, devices_chosen, devices_of, outcome_class, read
from tests.support import shared

__all__ = [
    "Instance",
    "devices_chosen",
    "devices_of",
    "oracle",
    "outcome_class",
    "slow_instances",
    "upstream_cases",
]


@cache
def oracle() -> tuple[Instance, ...]:
    """``allocator-oracle.json`` with the answers of 1.37.2 (experimental for list attributes)."""
    document = json.loads(shared.path("data/allocator-oracle.json").read_bytes())
    return tuple(map(read, document["instances"]))


@cache
def upstream_cases() -> tuple[Instance, ...]:
    """``allocator-cases.json``: upstream's own scenarios; selectors are evaluated by our engine."""
    document = json.loads(shared.path("data/allocator-cases.json").read_bytes())
    return tuple(map(read, document["cases"]))


@cache
def slow_instances() -> tuple[Instance, ...]:
    """``allocator-slow.json``: what upstream needs seconds for; the answer is known where it finished."""
    document = json.loads(shared.path("data/allocator-slow.json").read_bytes())
    return tuple(map(read, document["instances"]))
