"""Short words that several parts of an explanation share."""

from __future__ import annotations

from collections.abc import Sequence

from baro.diagnosis.explain.funnel import some


def nodes_text(names: Sequence[str]) -> str:
    """``node a``, ``nodes a, b`` or ``812 nodes (first: a)``."""
    if len(names) == 1:
        return f"node {names[0]}"
    if len(names) <= 4:
        return f"nodes {some(names)}"
    return f"{len(names)} nodes (first: {names[0]})"
