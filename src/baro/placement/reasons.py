"""A placement in words: the answer first, then why the other nodes lost, most common reason first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from baro.allocator import NodeDecision, Outcome

_MOST_LINES = 12
"""A cluster of thousands of nodes must not give thousands of lines."""


def reasons_for(
    winner: NodeDecision | None, decisions: Sequence[NodeDecision], excluded: Sequence[tuple[str, str]]
) -> tuple[str, ...]:
    """``4×H200 on node a: island nvl1, 450 GB/s ring; 3 other nodes had 4 free GPUs but no island``."""
    if winner is None:
        return _nowhere(decisions, excluded)
    others = [decision for decision in decisions if decision.node != winner.node]
    first = list(winner.reasons) or [f"node {winner.node}"]
    first[0] = "; ".join([first[0], *_others(winner, others)])
    return (*first, *_limited([why for _, why in excluded]))


def _others(winner: NodeDecision, others: Sequence[NodeDecision]) -> list[str]:
    count = sum(len(allocation.devices.results) for allocation in winner.allocations)
    split = [d for d in others if winner.island >= count > 1 and d.free_gpus >= count > d.island]
    few = [d for d in others if d not in split and d.outcome is Outcome.NO_FIT]
    failed = [d for d in others if d.outcome in (Outcome.ERROR, Outcome.GAVE_UP)]
    worse = [d for d in others if d not in split and d.fits]
    lines = []
    if split:
        lines.append(f"{_nodes(len(split))} had {count} free GPUs but no island")
    if few:
        lines.append(f"{_nodes(len(few))} did not have what the claims need")
    if worse:
        lines.append(f"{_nodes(len(worse))} would fit as well")
    if failed:
        lines.append(f"{_nodes(len(failed))} could not be judged")
    return lines


def _nodes(count: int) -> str:
    return "1 other node" if count == 1 else f"{count} other nodes"


def _nowhere(decisions: Sequence[NodeDecision], excluded: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    if not decisions and not excluded:
        return ("no node publishes devices",)
    why: Counter[str] = Counter()
    where: dict[str, str] = {}
    for decision in decisions:
        for text in decision.reasons or ((decision.error,) if decision.error else ("nothing fits",)):
            why[text] += 1
            where.setdefault(text, decision.node)
    lines = [
        f"node {where[text]}: {text}" if count == 1 else f"{count} nodes: {text}"
        for text, count in why.most_common()
    ]
    return tuple(_limited([*lines, *(text for _, text in excluded)]))


def _limited(lines: Sequence[str]) -> list[str]:
    if len(lines) <= _MOST_LINES:
        return list(lines)
    return [*lines[:_MOST_LINES], f"and {len(lines) - _MOST_LINES} more"]
