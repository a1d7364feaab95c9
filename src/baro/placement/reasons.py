"""A placement in words: the answer first, then why the other nodes lost, most common reason first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from baro.allocator import NodeDecision, Outcome
from baro.placement.board import Group
from baro.placement.placer import Names

_MOST_LINES = 12
"""A cluster of thousands of nodes must not give thousands of lines."""


def won(
    winner: NodeDecision, tally: Iterable[tuple[NodeDecision, int]], excluded: Sequence[tuple[str, str]]
) -> tuple[str, ...]:
    """``4×H200 on node a: island nvl1, 450 GB/s ring; 3 other nodes had 4 free GPUs but no island``.

    The first line is the whole answer, with a part for each claim. ``tally``: the answers of all nodes, the
    winner's included, and how many gave each.
    """
    chosen = winner.reasons or (f"node {winner.node}",)
    first = "; ".join([*chosen, *_others(winner, tally)])
    return (first, *_limited([why for _, why in excluded[: _MOST_LINES + 1]], len(excluded)))


def _others(winner: NodeDecision, tally: Iterable[tuple[NodeDecision, int]]) -> list[str]:
    count = sum(len(allocation.devices.results) for allocation in winner.allocations)
    split = few = worse = failed = 0
    for answer, nodes in tally:
        if winner.island >= count > 1 and answer.free_gpus >= count > answer.island:
            split += nodes
        elif answer.fits:
            worse += nodes
        elif answer.outcome is Outcome.NO_FIT:
            few += nodes
        else:
            failed += nodes
    # The winner is among those that fit: it has the island, if any has.
    worse -= 1
    lines = []
    if split:
        lines.append(f"{_nodes(split)} had {count} free GPUs but no island")
    if few:
        lines.append(f"{_nodes(few)} did not have what the claims need")
    if worse:
        lines.append(f"{_nodes(worse)} would fit as well")
    if failed:
        lines.append(f"{_nodes(failed)} could not be judged")
    return lines


def _nodes(count: int) -> str:
    return "1 other node" if count == 1 else f"{count} other nodes"


def nowhere(groups: Sequence[Group], excluded: Sequence[tuple[str, str]], names: Names) -> tuple[str, ...]:
    """Why nothing fits, the most common reason first."""
    if not groups and not excluded:
        return ("no node publishes devices",)
    why: Counter[str] = Counter()
    where: dict[str, str] = {}
    for group in groups:
        decision = group.decision
        for text in decision.reasons or ((decision.error,) if decision.error else ("nothing fits",)):
            why[text] += group.count
            where.setdefault(text, group.first)
    common = why.most_common()
    lines = [
        f"node {where[text]}: {names.text(text)}" if count == 1 else f"{count} nodes: {names.text(text)}"
        for text, count in common[: _MOST_LINES + 1]
    ]
    lines += [text for _, text in excluded[: _MOST_LINES + 1]]
    return tuple(_limited(lines, len(common) + len(excluded)))


def _limited(lines: Sequence[str], count: int) -> list[str]:
    """The first lines of ``count``, and how many more there are."""
    if count <= _MOST_LINES:
        return list(lines)
    return [*lines[:_MOST_LINES], f"and {count - _MOST_LINES} more"]
