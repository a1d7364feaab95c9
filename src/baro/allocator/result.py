"""From picks to ``AllocationResult`` objects, field by field as upstream writes them (§2.10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from baro.allocator.ledger import Pick
from baro.allocator.problem import Fatal, NodeProblem
from baro.model.kinds.base import RawQuantity
from baro.model.kinds.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from baro.model.kinds.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)


def results(
    problem: NodeProblem, picks: Iterable[Pick], new_share_id: Callable[[], str]
) -> tuple[AllocationResult, ...]:
    """One result per claim, in order. ``allocationTimestamp`` is left to the writer."""
    by_claim: list[list[Pick]] = [[] for _ in problem.plan.claims]
    for pick in picks:
        by_claim[pick.claim].append(pick)
    return tuple(
        AllocationResult(
            devices=DeviceAllocationResult(
                results=tuple(_device(problem, pick, new_share_id) for pick in mine),
                config=_config(problem, claim, mine),
            ),
            node_selector=_node_selector(problem, mine),
        )
        for claim, mine in enumerate(by_claim)
    )


def _device(
    problem: NodeProblem, pick: Pick, new_share_id: Callable[[], str]
) -> DeviceRequestAllocationResult:
    key, rare = problem.keys[pick.device], problem.rare[pick.device]
    binding = problem.features.binding_conditions
    skipped = problem.frame.record_of[pick.device].skip_node_operations if problem.features.alpha else ()
    share_id: str | None = None
    consumed: dict[str, RawQuantity] = {}
    if problem.shareable >> pick.device & 1:
        share_id = new_share_id()
        for name, amount in (problem.amounts(pick.alternative, pick.device) or {}).items():
            consumed[problem.frame.written(name, pick.device)] = str(amount)
    return DeviceRequestAllocationResult(
        request=pick.alternative.name,
        driver=key.driver,
        pool=key.pool,
        device=key.device,
        admin_access=True if pick.alternative.admin else None,
        tolerations=pick.alternative.tolerations,
        binding_conditions=rare.binding_conditions if binding else (),
        binding_failure_conditions=rare.binding_failure_conditions if binding else (),
        share_id=share_id,
        consumed_capacity=consumed,
        skip_node_operations=skipped,
    )


def _config(problem: NodeProblem, claim: int, picks: list[Pick]) -> tuple[DeviceAllocationConfiguration, ...]:
    """Class configs in order of requests, each class once; then the claim's own for what was chosen."""
    own_configs = problem.plan.claims[claim].claim.spec.devices.config
    users: dict[str, list[str]] = {}
    for pick in picks:
        device_class = pick.alternative.device_class
        if device_class is not None and device_class.spec.config:
            names = users.setdefault(device_class.metadata.name, [])
            if pick.alternative.name not in names:
                names.append(pick.alternative.name)
    if not users and not own_configs:
        return ()
    chosen = list(dict.fromkeys(pick.alternative.name for pick in picks))
    found: list[DeviceAllocationConfiguration] = []
    for class_name, names in users.items():
        for config in problem.inventory.classes[class_name].spec.config:
            found.append(
                DeviceAllocationConfiguration(
                    source="FromClass",
                    requests=() if len(names) == len(chosen) else tuple(names),
                    opaque=config.opaque,
                )
            )
    for own in own_configs:
        named = [name in own.requests or name.split("/")[0] in own.requests for name in chosen]
        if not own.requests or any(named):
            # 1.37 leaves the list out when it covers everything that was chosen.
            requests = () if all(named) else own.requests
            found.append(
                DeviceAllocationConfiguration(source="FromClaim", requests=requests, opaque=own.opaque)
            )
    return tuple(found)


def _node_selector(problem: NodeProblem, picks: list[Pick]) -> NodeSelector | None:
    """This node if any device is tied to it, else the union of the devices' requirements, else none."""
    expressions: list[NodeSelectorRequirement] = []
    fields: list[NodeSelectorRequirement] = []
    for pick in picks:
        record, rare = problem.frame.record_of[pick.device], problem.rare[pick.device]
        node_name, selector = record.node_name, record.node_selector
        if record.per_device:
            node_name, selector = rare.node_name, rare.node_selector
        if node_name or (rare.binds_to_node and problem.features.binding_conditions):
            return _only(problem.node)
        terms = () if selector is None else selector.node_selector_terms
        if len(terms) > 1:
            claim = problem.plan.claims[pick.claim].claim.metadata.name
            text = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise Fatal(f"create NodeSelector for claim {claim}: {text}")
        if selector is not None and terms:
            term = selector.node_selector_terms[0]
            _merge(expressions, term.match_expressions)
            _merge(fields, term.match_fields)
    if not expressions and not fields:
        return None
    return NodeSelector(
        node_selector_terms=(
            NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields)),
        )
    )


@lru_cache(maxsize=4096)
def _only(node: str) -> NodeSelector:
    here = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(here,)),))


def _merge(into: list[NodeSelectorRequirement], more: Iterable[NodeSelectorRequirement]) -> None:
    for item in more:
        same = (item.key, item.operator, frozenset(item.values))
        if not any((old.key, old.operator, frozenset(old.values)) == same for old in into):
            into.append(item)
