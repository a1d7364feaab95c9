"""What becomes of many places at once: chains of ``&&`` and ``||``, counts, lists, and results from branches.

The semantics are those of the scalar code (``calls``, ``folds``), to the choice of the error that counts;
only the order of work differs. Imports NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from baro.cel.code import Failure
from baro.cel.tuples import distinct
from baro.cel.values import equal_or_false
from baro.cel.vectors import HARD, NO, SOFT, YES, Rows, Vector, Words, failure_of, kinds_of


class Merged:
    """The results of places that come from several vectors."""

    def __init__(self, size: int) -> None:
        self.words = Words((False, True))
        self.codes: NDArray[np.int32] = np.zeros(size, dtype=np.int32)

    def take(self, vector: Vector, places: Rows) -> None:
        """The results of these places are the vector's."""
        if len(places):
            self.codes[places] = self.words.translation(vector.values)[vector.codes[places]]

    def fail(self, vector: Vector, places: Rows) -> None:
        """These places fail, as the vector does or because it has no bool there."""
        if len(places):
            failures = [None if type(value) is bool else failure_of(value) for value in vector.values]
            self.codes[places] = self.words.translation(failures)[vector.codes[places]]

    def vector(self) -> Vector:
        return Vector(self.codes, self.words.values)


class _Open(Merged):
    """Places of which some are decided before the end, and some have failed so far."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.open: NDArray[np.bool_] = np.ones(size, dtype=np.bool_)
        self._failed: NDArray[np.int32] = np.full(size, -1, dtype=np.int32)

    def close(self, places: Rows) -> None:
        self.open[places] = False

    def note(self, vector: Vector, places: Rows) -> None:
        """These places have failed, unless something decides."""
        if len(places):
            failures = [None if type(value) is bool else failure_of(value) for value in vector.values]
            self._failed[places] = self.words.translation(failures)[vector.codes[places]]

    def failed(self, places: Rows) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self._failed[places] >= 0
        return found

    def end(self, places: Rows) -> Rows:
        """Of the places, those that are open fail if they have failed; gives the others that are open."""
        left: Rows = places[self.open[places]]
        failed = self.failed(left)
        self.codes[left[failed]] = self._failed[left[failed]]
        sound: Rows = left[~failed]
        return sound


class Chain(_Open):
    """``||`` and ``exists`` (decided by true), ``&&`` and ``all`` (by false): an error only counts when
    nothing decides, and then the first one."""

    def __init__(self, size: int, decisive: bool) -> None:
        super().__init__(size)
        self._decisive = decisive

    def term(self, vector: Vector, places: Rows) -> None:
        """The next operand or element, at open places."""
        kinds = kinds_of(vector.values)[vector.codes[places]]
        decided = places[kinds == (YES if self._decisive else NO)]
        self.codes[decided] = int(self._decisive)
        self.close(decided)
        hard = places[kinds == HARD]
        self.fail(vector, hard)
        self.close(hard)
        soft = places[kinds == SOFT]
        self.note(vector, soft[~self.failed(soft)])

    def finish(self, places: Rows) -> None:
        self.codes[self.end(places)] = int(not self._decisive)


class Count(_Open):
    """``exists_one``: the last error counts."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._found: NDArray[np.int32] = np.zeros(size, dtype=np.int32)

    def element(self, vector: Vector, places: Rows) -> None:
        kinds = kinds_of(vector.values)[vector.codes[places]]
        self._found[places[kinds == YES]] += 1
        self.note(vector, places[kinds == SOFT])
        hard = places[kinds == HARD]
        self.fail(vector, hard)
        self.close(hard)

    def finish(self, places: Rows) -> None:
        left = self.end(places)
        self.codes[left] = self._found[left] == 1


class Collection(_Open):
    """``map``, ``filter`` and ``transformList``: an element's error counts, but a later one of the filter
    replaces it; a filter that gives no bool ends the fold."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._elements = Words()
        self._rounds: list[NDArray[np.int32]] = []

    def keep(self, vector: Vector, places: Rows) -> Rows:
        """The filter's answers; gives the places whose element is wanted and still counts."""
        values = vector.values
        kinds = kinds_of(values)[vector.codes[places]]
        failures = np.fromiter((type(value) is Failure for value in values), np.bool_, len(values))
        failed = failures[vector.codes[places]]
        self.note(vector, places[(kinds == SOFT) & failed])
        ended = places[(kinds == HARD) | ((kinds == SOFT) & ~failed)]
        self.fail(vector, ended)
        self.close(ended)
        kept: Rows = places[kinds == YES]
        return kept

    def sound(self, places: Rows) -> Rows:
        """The places that have not failed: only there an element is computed."""
        found: Rows = places[~self.failed(places)]
        return found

    def element(self, vector: Vector, places: Rows) -> None:
        """Elements to append."""
        values = vector.values
        failures = np.fromiter((type(value) is Failure for value in values), np.bool_, len(values))
        failed = failures[vector.codes[places]]
        hard = kinds_of(values)[vector.codes[places]] == HARD
        self.note(vector, places[failed & ~hard])
        self.fail(vector, places[hard])
        self.close(places[hard])
        good = places[~failed]
        appended = np.zeros(len(self.codes), dtype=np.int32)
        appended[good] = self._elements.translation(values)[vector.codes[good]] + 1
        self._rounds.append(appended)

    def rounds(self) -> Iterator[tuple[NDArray[np.bool_], Vector]]:
        """Round by round which places have an element from it, and the elements."""
        for appended in self._rounds:
            yield appended > 0, Vector(np.maximum(appended - 1, 0), self._elements.values)

    def sizes(self, places: Rows) -> NDArray[np.int32]:
        """How many elements each list has; for places that have not failed."""
        sizes = np.zeros(len(places), dtype=np.int32)
        for appended in self._rounds:
            sizes += appended[places] > 0
        return sizes

    def contains(self, wanted: Vector, places: Rows) -> NDArray[np.bool_]:
        """Whether a value that is no failure is in each list; for places that have not failed."""
        found = np.zeros(len(places), dtype=np.bool_)
        elements = self._elements.values
        for appended in self._rounds:
            pair = [wanted.codes[places], appended[places]]
            group, firsts, _ = distinct(pair, len(places))
            same = [
                code > 0 and equal_or_false(wanted.values[one], elements[code - 1])
                for one, code in zip(pair[0][firsts].tolist(), pair[1][firsts].tolist(), strict=True)
            ]
            found |= np.array(same, dtype=np.bool_)[group]
        return found

    def finish(self, places: Rows) -> None:
        left = self.end(places)
        if not len(left):
            return
        group, firsts, _ = distinct([appended[left] for appended in self._rounds], len(left))
        elements = self._elements.values
        chosen = [appended[left[firsts]].tolist() for appended in self._rounds]
        rows = zip(*chosen, strict=True) if chosen else [()] * len(firsts)
        lists = [tuple([elements[code - 1] for code in codes if code]) for codes in rows]
        self.codes[left] = self.words.translation(lists)[group]
