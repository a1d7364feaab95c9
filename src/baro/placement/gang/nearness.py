"""Which nodes a gang goes to: the best bandwidth, then near to each other, then few nodes, then least loss.

Bandwidth: the worst grade of any pod's set is the best that lets the whole gang in. Nearness: one domain of
the nearest level that holds everything; where none does, the next wider level, and inside it few of the
nearer domains. What can be carried where is ``options``, how to distribute it is ``cover``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from baro.placement.gang.cover import Bin, Chosen, Counts, Meter, OutOfWork, capacity, cover, least_nodes
from baro.placement.gang.domains import Domain, Domains
from baro.placement.gang.options import Grade, NodeClass, Options

WHOLE: Domain = ("cluster", "")


class Choice(msgspec.Struct, frozen=True):
    """Nodes with what they carry, and the domain that holds them."""

    chosen: Chosen
    domain: Domain = WHOLE


class _Part(msgspec.Struct, frozen=True):
    domain: Domain
    nodes: tuple[str, ...]


class Chooser:
    """One gang before one set of candidates, or before several of which it must use only one."""

    def __init__(
        self,
        options: Options,
        classes: Mapping[NodeClass, Sequence[str]],
        apart: Sequence[Sequence[str]],
        domains: Domains,
        wanted: Counts,
        meter: Meter,
    ) -> None:
        self._options = options
        self._of = {node: of for of, nodes in classes.items() for node in nodes}
        self._order = {node: at for at, node in enumerate(sorted(self._of))}
        self._apart = [[node for node in nodes if node in self._of] for nodes in apart]
        self._classes = classes
        self._domains = domains
        self._wanted = wanted
        self._meter = meter
        self._grade: Grade = (0, 0)

    def choose(self, beside: Collection[str] = ()) -> Choice | None:
        """The best choice; ``None`` when nothing holds the gang. Near to ``beside``, if that can be.

        Raises ``OutOfWork`` when neither is known.
        """
        anywhere = self._set_grade()
        if anywhere is None:
            return None
        try:
            for anchors in (frozenset(beside), frozenset[str]()) if beside else (frozenset[str](),):
                for level in (*self._domains.levels, None):
                    found = self._in_one(self._parts(level, anchors))
                    if found is not None:
                        return self._nearer(found, level)
        except OutOfWork:
            pass
        return Choice(anywhere)

    # --- bandwidth -----------------------------------------------------------------------------------------

    def _set_grade(self) -> Chosen | None:
        """Find the best grade with which the gang fits at all, and a way to do so; ``None`` without one."""
        grades = self._options.grades(self._classes)
        found: Chosen | None = None
        low, high = 0, len(grades)
        while low < high:
            middle = (low + high) // 2
            self._grade = grades[middle]
            try:
                fits = next(filter(None, map(self._cover, self._apart)), None)
            except OutOfWork:
                if found is None:
                    raise
                low = high
                break
            if fits is not None:
                found, high = fits, middle
            else:
                low = middle + 1
        if found is not None:
            self._grade = grades[high]
        return found

    def _bins(self, nodes: Iterable[str]) -> list[Bin]:
        found: dict[NodeClass, list[str]] = {}
        for node in nodes:
            found.setdefault(self._of[node], []).append(node)
        bins = [self._options.bin(of, sorted(members), self._grade) for of, members in found.items()]
        return [item for item in bins if item.loads]

    def _cover(self, nodes: Iterable[str]) -> Chosen | None:
        return cover(self._bins(nodes), self._wanted, self._meter)

    # --- nearness ------------------------------------------------------------------------------------------

    def _parts(self, level: str | None, anchors: frozenset[str]) -> list[_Part]:
        """The domains of a level, those that look the same once, that hold all anchors."""
        seen: dict[object, _Part] = {}
        for nodes in self._apart:
            split = {WHOLE: nodes} if level is None else self._domains.split(nodes, level)
            for domain, members in split.items():
                if anchors and level is not None and not self._domains.hold(domain, anchors):
                    continue
                counted: dict[NodeClass, int] = {}
                for node in members:
                    counted[self._of[node]] = counted.get(self._of[node], 0) + 1
                seen.setdefault(frozenset(counted.items()), _Part(domain, tuple(members)))
        return list(seen.values())

    def _in_one(self, parts: Sequence[_Part]) -> Choice | None:
        """The domain that needs the fewest nodes; of those the one that is left the least empty."""
        able = []
        for part in parts:
            bins = self._bins(part.nodes)
            count = least_nodes(bins, self._wanted)
            if count is not None:
                left = capacity(bins, self._wanted)
                able.append((count, left, part.domain, part))
        able.sort(key=lambda item: item[:3])
        best: tuple[tuple[object, ...], Choice] | None = None
        for count, left, domain, part in able:
            if best is not None and (count, left) > best[0][:2]:
                break
            found = self._cover(part.nodes)
            if found is not None:
                rank = (len(found), left, _cost(found), domain)
                if best is None or rank < best[0]:
                    best = rank, Choice(found, domain)
        return None if best is None else best[1]

    def _nearer(self, found: Choice, level: str | None) -> Choice:
        """Within the domain found: as few domains of each nearer level as will do, the wider levels first."""
        levels = self._domains.levels
        nearer = levels if level is None else levels[: levels.index(level)]
        nodes: Sequence[str] = next(
            part.nodes
            for part in self._parts_all(level)
            if part.domain == found.domain and {node for node, _ in found.chosen} <= set(part.nodes)
        )
        for inner in reversed(nearer):
            parts = [tuple(members) for members in self._domains.split(nodes, inner).values()]
            if len(parts) > 1 and any(len(part) > 1 for part in parts):
                nodes = self._few(parts) or nodes
        try:
            chosen = self._cover(nodes)
        except OutOfWork:
            chosen = None
        return found if chosen is None else Choice(chosen, found.domain)

    def _parts_all(self, level: str | None) -> list[_Part]:
        return [
            _Part(domain, tuple(members))
            for nodes in self._apart
            for domain, members in (
                {WHOLE: nodes} if level is None else self._domains.split(nodes, level)
            ).items()
        ]

    def _few(self, parts: Sequence[tuple[str, ...]]) -> Sequence[str] | None:
        """The nodes of few parts that hold everything: the largest ones, the last as small as will do."""
        by_size = sorted(parts, key=lambda part: (-capacity(self._bins(part), self._wanted), part))
        try:
            low, high = 1, len(by_size)
            while low < high:
                middle = (low + high) // 2
                if self._cover(_joined(by_size[:middle])) is not None:
                    high = middle
                else:
                    low = middle + 1
            for last in reversed(by_size[low - 1 :]):
                nodes = _joined([*by_size[: low - 1], last])
                if self._cover(nodes) is not None:
                    return nodes
        except OutOfWork:
            pass
        return None


def _joined(parts: Iterable[Sequence[str]]) -> list[str]:
    return [node for part in parts for node in part]


def _cost(found: Chosen) -> tuple[float, ...]:
    return tuple(map(sum, zip(*(load.cost for _, load in found), strict=True)))
