"""Counting of agreement, per category and aspect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

Agreement = Mapping[str, bool]
"""Aspect (``verdict``, ``text`` …) → whether ours is the recorded one; aspects not recorded are absent."""


class Difference(msgspec.Struct, frozen=True):
    """A record on which we disagree, and in what."""

    name: str
    category: str
    aspects: tuple[str, ...]


class Tally:
    """Adds up agreements. ``clean`` tells whether every aspect of every record agreed."""

    def __init__(self) -> None:
        self.records = 0
        self.differences: list[Difference] = []
        self._asked: Counter[tuple[str, str]] = Counter()
        self._agreed: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, category: str, agreement: Agreement) -> None:
        """One record; an empty ``agreement`` is a record without a recorded answer."""
        self.records += 1
        wrong = tuple(aspect for aspect, same in agreement.items() if not same)
        for aspect, same in agreement.items():
            self._asked[category, aspect] += 1
            self._agreed[category, aspect] += same
        if wrong:
            self.differences.append(Difference(name, category, wrong))

    @property
    def clean(self) -> bool:
        return not self.differences

    @property
    def judged(self) -> bool:
        """Whether any record carried an answer to compare with."""
        return bool(self._asked)

    @property
    def aspects(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(aspect for _, aspect in self._asked))

    @property
    def categories(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(category for category, _ in self._asked))

    def count(self, aspect: str, category: str | None = None) -> tuple[int, int]:
        """(agreed, asked) of one aspect, in one category or in all."""
        keys = [key for key in self._asked if key[1] == aspect and category in (None, key[0])]
        return sum(self._agreed[key] for key in keys), sum(self._asked[key] for key in keys)

    def share(self, aspect: str) -> float:
        """Part of the records that agree; 1.0 when none was asked."""
        agreed, asked = self.count(aspect)
        return agreed / asked if asked else 1.0
