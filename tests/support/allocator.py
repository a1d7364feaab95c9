"""Scenarios of the allocator: reading the oracle documents, a selector engine from tables, builders."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from baro.allocator import Features, NodeDecision, Outcome, Policy, SelectorEngine, allocate
from baro.inventory import Inventory, Snapshot
from baro.model.kinds.core import Node
from baro.model.kinds.resource import DeviceClass, ResourceClaim, ResourceSlice
from tests.support import shared

T = TypeVar("T")
SHARE_ID = "00000000-0000-4000-8000-000000000000"


def convert(body: Any, kind: type[T]) -> T:
    """A v1 object from JSON types; ``null`` means absent."""
    return msgspec.convert(_without_nulls(body), kind)


def _without_nulls(body: Any) -> Any:
    if isinstance(body, dict):
        return {key: _without_nulls(value) for key, value in body.items() if value is not None}
    if isinstance(body, list):
        return [_without_nulls(item) for item in body]
    return body


class TableSelectors:
    """Answers from a document: expression → (``slice#device`` → verdict) or one compile error."""

    def __init__(self, inventory: Inventory, table: Mapping[str, Any]) -> None:
        self._table = table
        self._place = {
            row: f"{record.name}#{inventory.table.device_name(row)}"
            for record in inventory.slices()
            for row in record.rows
        }

    def compile_error(self, expression: str) -> str | None:
        answer = self._table[expression]
        return answer if isinstance(answer, str) else None

    def verdict(self, expression: str, row: int) -> bool | str:
        answer: bool | str = self._table[expression][self._place[row]]
        return answer


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario with upstream's answer (``results``, ``error`` or neither)."""

    name: str
    category: str
    features: Features
    node: str
    snapshot: Snapshot
    claims: tuple[ResourceClaim, ...]
    table: dict[str, Any] | None
    answer: dict[str, Any]
    suspect: bool
    truth: bool | None
    """Whether a brute force found a fit."""

    def decide(self, policy: Policy) -> NodeDecision:
        inventory = Inventory(self.snapshot)
        engine: SelectorEngine | None = None
        if self.table is not None:
            engine = TableSelectors(inventory, self.table)
        return allocate(
            inventory,
            self.node,
            self.claims,
            policy=policy,
            features=self.features,
            selectors=engine,
            new_share_id=lambda: SHARE_ID,
        )


@cache
def oracle() -> tuple[Instance, ...]:
    """``allocator-oracle.json`` with the answers of 1.37.2 (experimental for list attributes)."""
    document = json.loads(shared.path("data/allocator-oracle.json").read_bytes())
    return tuple(map(_oracle_instance, document["instances"]))


def _oracle_instance(body: dict[str, Any]) -> Instance:
    return Instance(
        name=body["name"],
        category=body["category"],
        features=Features.from_gates(body["features"]),
        node=body["node"]["metadata"]["name"],
        snapshot=_snapshot(body, body.get("allocated", [])),
        claims=tuple(convert(claim, ResourceClaim) for claim in body["claims"]),
        table=body["selectorResults"],
        answer=_answer(body),
        suspect="suspect" in body,
        truth=(body.get("bruteForce") or {}).get("fits"),
    )


def _answer(body: dict[str, Any]) -> dict[str, Any]:
    channels = ["incubating", "experimental"]
    if "DRAListTypeAttributes" in body["features"]:
        channels = ["experimental"]
    for answers in (body.get("v1_37", {}), body["result"]):
        for channel in channels:
            found = answers.get(channel)
            if isinstance(found, dict):
                return found
    raise AssertionError(body["name"])


def _snapshot(body: dict[str, Any], allocated: Iterable[Any]) -> Snapshot:
    return Snapshot(
        nodes=(convert(body["node"], Node),),
        slices=_slices(body["resourceSlices"] or ()),
        classes=tuple(convert(item, DeviceClass) for item in body["deviceClasses"] or ()),
        claims=tuple(convert(item, ResourceClaim) for item in allocated),
    )


def _slices(bodies: Iterable[Any]) -> tuple[ResourceSlice, ...]:
    """Slices with names made unique: upstream's scenarios repeat names, which no cluster can."""
    found: list[ResourceSlice] = []
    for number, body in enumerate(bodies):
        item = convert(body, ResourceSlice)
        if any(other.metadata.name == item.metadata.name for other in found):
            meta = msgspec.structs.replace(item.metadata, name=f"{item.metadata.name}-{number}")
            item = msgspec.structs.replace(item, metadata=meta)
        found.append(item)
    return tuple(found)


def outcome_class(answer: Mapping[str, Any]) -> tuple[Outcome, bool]:
    """(outcome, on_node) of an upstream answer."""
    if "error" in answer:
        return Outcome.ERROR, bool(answer.get("errorIsOnNodeOnly"))
    fits = answer["fits"] if "fits" in answer else bool(answer.get("results"))
    return (Outcome.FIT if fits else Outcome.NO_FIT), False


def devices_of(answer: Mapping[str, Any]) -> list[list[tuple[str, str, str, str]]]:
    """Per claim (request, driver, pool, device), in order."""
    return [
        [
            (item["request"], item["driver"], item["pool"], item["device"])
            for item in result.get("devices", {}).get("results") or ()
        ]
        for result in answer.get("results") or ()
    ]


def devices_chosen(decision: NodeDecision) -> list[list[tuple[str, str, str, str]]]:
    return [
        [(item.request, item.driver, item.pool, item.device) for item in allocation.devices.results]
        for allocation in decision.allocations
    ]


@cache
def upstream_cases() -> tuple[Instance, ...]:
    """``allocator-cases.json``: upstream's own scenarios; selectors are evaluated by our engine."""
    document = json.loads(shared.path("data/allocator-cases.json").read_bytes())
    return tuple(map(_upstream_case, document["cases"]))


def _upstream_case(body: dict[str, Any]) -> Instance:
    observed = body["observed"]
    answer = observed["incubating"]
    if answer.get("skipped"):
        answer = observed["experimental"]
    return Instance(
        name=body["name"],
        category="+".join(sorted(body["features"])) or "core",
        features=Features.from_gates(body["features"]),
        node=body["node"]["metadata"]["name"],
        snapshot=_snapshot(body, _holders(body)),
        claims=tuple(convert(claim, ResourceClaim) for claim in body["claims"]),
        table=None,
        answer=answer,
        suspect=False,
        truth=None,
    )


@cache
def slow_instances() -> tuple[Instance, ...]:
    """``allocator-slow.json``: what upstream needs seconds for; the answer is known where it finished."""
    document = json.loads(shared.path("data/allocator-slow.json").read_bytes())
    return tuple(map(_slow_instance, document["instances"]))


def _slow_instance(body: dict[str, Any]) -> Instance:
    return Instance(
        name=body["name"],
        category=body["recipe"],
        features=Features.from_gates(body["features"]),
        node=body["node"]["metadata"]["name"],
        snapshot=_snapshot(body, body.get("allocated") or ()),
        claims=tuple(convert(claim, ResourceClaim) for claim in body["claims"]),
        table=None,
        answer=body["timing"]["incubating"],
        suspect=False,
        truth=None,
    )


def _holders(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Claims that hold what the scenario says is allocated."""
    results = [_result(name) for name in body.get("allocatedDevices") or ()]
    consumed = body.get("allocatedCapacity") or {}
    shared_ids = body.get("allocatedSharedDevices") or ()
    for number, name in enumerate(shared_ids):
        device, _, _ = name.rpartition("/")
        results.append({**_result(device), "shareID": f"share-{number}"})
    for number, (name, amounts) in enumerate(consumed.items()):
        results.append({**_result(name), "shareID": f"consumed-{number}", "consumedCapacity": amounts})
    return [
        {
            "metadata": {"name": f"holder-{number}", "namespace": "held"},
            "spec": {"devices": {}},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
        for number, result in enumerate(results)
    ]


def _result(name: str) -> dict[str, str]:
    driver, pool, device = name.split("/", 1)[0], *name.split("/", 1)[1].rsplit("/", 1)
    return {"request": "r", "driver": driver, "pool": pool, "device": device}
