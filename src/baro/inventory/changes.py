"""Which nodes changed since a reader last looked, so that an index over nodes redoes only those.

Readers remember ``now`` and ask ``since`` later. The log is bounded by the number of nodes: only the last
change of a node is kept.
"""

from __future__ import annotations

import msgspec


class Changes(msgspec.Struct, frozen=True):
    """``None`` stands for every node. Structure is node objects, slices, topologies, taints; the rest is
    what is in use."""

    nodes: frozenset[str] | None
    """All that changed, in whatever way."""
    structure: frozenset[str] | None
    """Those of which more changed than what is in use."""


class ChangeLog:
    """Moments are integers that grow with every change."""

    def __init__(self) -> None:
        self.now = 0
        self.structured = 0
        """When more than use changed last."""
        self._use = _Kind()
        self._structure = _Kind()

    def use(self, node: str | None) -> None:
        """What is in use changed on a node, or with ``None`` perhaps anywhere."""
        self.now += 1
        self._use.note(node, self.now)

    def structure(self, node: str | None) -> None:
        """Anything else changed on a node, or with ``None`` perhaps anywhere."""
        self.now += 1
        self.structured = self.now
        self._structure.note(node, self.now)

    def structure_of(self, node: str) -> int:
        """When more than the use of a node changed last, at the latest."""
        return self._structure.last(node)

    def since(self, moment: int) -> Changes:
        """Everything that was noted after that moment; 0 is before everything."""
        structure = self._structure.since(moment)
        use = self._use.since(moment)
        return Changes(None if structure is None or use is None else structure | use, structure)


class _Kind:
    """Nodes in order of their last change."""

    def __init__(self) -> None:
        self._when: dict[str, int] = {}
        self._everywhere = 0

    def note(self, node: str | None, now: int) -> None:
        if node is None:
            self._everywhere = now
            self._when.clear()
        else:
            self._when.pop(node, None)
            self._when[node] = now

    def last(self, node: str) -> int:
        return self._when.get(node, self._everywhere)

    def since(self, moment: int) -> frozenset[str] | None:
        if self._everywhere > moment:
            return None
        found = []
        for node, when in reversed(self._when.items()):
            if when <= moment:
                break
            found.append(node)
        return frozenset(found)
