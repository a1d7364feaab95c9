"""Claims on one node, and what upstream's allocator answers.

An instance holds a ``node``, ``deviceClasses``, ``resourceSlices``, ``claims`` to place in order, what is
``allocated`` already, and the allocator ``features`` that are on. It may hold ``selectorResults`` (expression
→ device → verdict), which then stand in for the CEL engine. Three shapes of recorded answers are read:
``result`` per channel with ``v1_37`` before it, ``observed`` per channel, and ``timing``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from baro.allocator import Features, NodeDecision, Outcome, Policy, SelectorEngine, allocate
from baro.conformance.tally import Agreement
from baro.inventory import Inventory, Snapshot
from baro.model.errors import InputError, Where
from baro.model.kinds.core import Node
from baro.model.kinds.resource import DeviceClass, ResourceClaim, ResourceSlice

T = TypeVar("T")

SHARE_ID: Final = "00000000-0000-4000-8000-000000000000"
"""Stands for every share in recorded answers."""


class TableSelectors:
    """A selector engine whose answers come from a document: expression → (``slice#device`` → verdict), or one
    compile error for the expression."""

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
    """One scenario with upstream's answer (``results``, ``error`` or ``fits``; empty when not recorded)."""

    name: str
    category: str
    features: Features
    node: str
    snapshot: Snapshot
    claims: tuple[ResourceClaim, ...]
    table: dict[str, Any] | None = None
    answer: dict[str, Any] = {}
    suspect: bool = False
    """Upstream's answer is wrong or doubtful, in 1.37.2 still."""
    own_words: bool = False
    """Error texts are those of upstream's test doubles."""
    truth: bool | None = None
    """Whether a brute force found a fit."""

    def decide(self, policy: Policy) -> NodeDecision:
        """Our answer under ``policy``."""
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


# --- reading ---------------------------------------------------------------------------------------------


def read(body: Mapping[str, Any]) -> Instance:
    """An instance from its JSON. Raises ``InputError`` naming the instance for what does not decode."""
    name = str(body.get("name", ""))
    try:
        return _instance(name, body)
    except (msgspec.ValidationError, KeyError, TypeError, AttributeError) as error:
        what = f"no {error.args[0]}" if isinstance(error, KeyError) else str(error)
        where = Where(object=name or "instance")
        raise InputError(what, where=where, next_step="see docs/conformance.md for the members") from None


def _instance(name: str, body: Mapping[str, Any]) -> Instance:
    features = body.get("features") or ()
    brute_force: Mapping[str, Any] = body.get("bruteForce") or {}
    allocated: Iterable[Any] = body["allocated"] or () if "allocated" in body else _holders(body)
    return Instance(
        name=name,
        category=str(body.get("category") or body.get("recipe") or "+".join(sorted(features)) or "core"),
        features=Features.from_gates(features),
        node=body["node"]["metadata"]["name"],
        snapshot=_snapshot(body, allocated),
        claims=tuple(convert(claim, ResourceClaim) for claim in body["claims"]),
        table=body.get("selectorResults"),
        answer=_answer(body, features),
        suspect="suspect" in body,
        own_words="observed" in body,
        truth=brute_force.get("fits"),
    )


def convert(body: Any, kind: type[T]) -> T:
    """A v1 object from JSON types; ``null`` means absent."""
    return msgspec.convert(_without_nulls(body), kind)


def _without_nulls(body: Any) -> Any:
    if isinstance(body, dict):
        return {key: _without_nulls(value) for key, value in body.items() if value is not None}
    if isinstance(body, list):
        return [_without_nulls(item) for item in body]
    return body


def _answer(body: Mapping[str, Any], features: Sequence[str]) -> dict[str, Any]:
    """The answer of the channel that the gates select: experimental for list attributes."""
    channels = ("experimental",) if "DRAListTypeAttributes" in features else ("incubating", "experimental")
    recorded = (body.get("v1_37"), body.get("result"), body.get("observed"), body.get("timing"))
    for answers in recorded:
        if not isinstance(answers, Mapping):
            continue
        for channel in channels:
            found = answers.get(channel)
            if isinstance(found, dict) and not found.get("skipped"):
                return found
    return {}


def _snapshot(body: Mapping[str, Any], allocated: Iterable[Any]) -> Snapshot:
    return Snapshot(
        nodes=(convert(body["node"], Node),),
        slices=_slices(body.get("resourceSlices") or ()),
        classes=tuple(convert(item, DeviceClass) for item in body.get("deviceClasses") or ()),
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


def _holders(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Claims that hold what upstream's own scenarios list as allocated."""
    results = [_result(name) for name in body.get("allocatedDevices") or ()]
    consumed = body.get("allocatedCapacity") or {}
    for number, name in enumerate(body.get("allocatedSharedDevices") or ()):
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


def _result(name: str) -> dict[str, Any]:
    driver, pool, device = name.split("/", 1)[0], *name.split("/", 1)[1].rsplit("/", 1)
    return {"request": "r", "driver": driver, "pool": pool, "device": device}


# --- answers ---------------------------------------------------------------------------------------------


def document(instance: Instance, decision: NodeDecision) -> dict[str, Any]:
    """The JSON line that ``baro conformance allocate`` writes: ``allocation`` has one result per claim."""
    found: dict[str, Any] = {"name": instance.name, "outcome": decision.outcome.value}
    found["allocation"] = [msgspec.to_builtins(item) for item in decision.allocations]
    if decision.error is not None:
        found |= {"error": decision.error, "errorIsOnNodeOnly": decision.on_node}
    return found


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
    """As :func:`devices_of`, of our answer."""
    return [
        [(item.request, item.driver, item.pool, item.device) for item in allocation.devices.results]
        for allocation in decision.allocations
    ]


def agreement(instance: Instance, decision: NodeDecision, policy: Policy) -> Agreement:
    """``outcome`` (fits, no fit, error, and whether an error is of this node only), and for first-fit the
    ``devices`` and the ``error`` text (those of upstream's own scenarios are its test doubles').

    Where upstream is suspect, ``outcome`` is what a brute force found. Policy topology may also find the fit
    that the brute force found where upstream met an error first, and may meet another error first; so may
    policy best-effort.
    """
    if instance.suspect:
        return {} if instance.truth is None else {"outcome": decision.fits is instance.truth}
    answer = instance.answer
    if not answer or not instance.claims or answer.get("timeout"):
        return {}  # not recorded, or "nothing to do", which cannot be told from "no fit"
    outcome, on_node = outcome_class(answer)
    if policy is not Policy.FIRST_FIT:
        lucky = outcome is Outcome.ERROR and decision.fits and instance.truth is True
        return {"outcome": decision.outcome is outcome or lucky}
    found = {"outcome": (decision.outcome, decision.on_node) == (outcome, on_node)}
    if found["outcome"]:
        if "error" in answer and not instance.own_words:
            found["error"] = _same_words(decision.error or "", answer["error"])
        elif decision.fits and "results" in answer:
            found["devices"] = devices_chosen(decision) == devices_of(answer)
    return found


def _same_words(mine: str, recorded: str) -> bool:
    """Equal texts; the one about too many devices was worded anew in 1.37.2, after the recording."""
    limit = "exceeds the claim limit of 32"
    return mine == recorded or (limit in mine and limit in recorded)
