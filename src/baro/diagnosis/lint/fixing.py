"""Files mended: the text changes where a finding says so, and nowhere else.

Works in rounds. In each the documents of a text are judged, the edits of their findings are placed
(``baro.model.rewrite``), and the new text is read again: it must hold exactly the data that the edits give. A
document whose new text does not is left as it was in that round, its edits are tried one by one, and what
cannot be placed is reported. Rounds go on until nothing is left to mend, so a second run changes nothing.
No file is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from baro.diagnosis.lint.engine import Judged
from baro.diagnosis.lint.places import Places
from baro.model.edits import Edit, EditError, apply
from baro.model.errors import BaroError
from baro.model.findings import Finding
from baro.model.load import Loaded, Source, load_bytes
from baro.model.rewrite import Replacement, combine, planned, replaced

_ROUNDS = 12

Judge: TypeAlias = Callable[[Sequence[Loaded]], Sequence[Judged]]
"""Judges the documents of one text, with all that the run knows."""


class Fixed(msgspec.Struct, frozen=True, kw_only=True):
    """A text after mending. ``fixed`` are the findings that are gone, ``left`` those that could be mended as
    data and not in this text."""

    text: str
    fixed: tuple[Finding, ...] = ()
    left: tuple[Finding, ...] = ()


def fix(text: str, file: str, judge: Judge) -> Fixed:
    """Mends a text. ``file`` is what errors call it. Raises ``InputError`` for a text that cannot be read."""
    refused: set[bytes] = set()
    first: tuple[Finding, ...] | None = None
    left: tuple[Finding, ...] = ()
    for _ in range(_ROUNDS):
        judged = judge(load_bytes(text.encode("utf-8", "surrogatepass"), file))
        if first is None:
            first = _mendable(judged)
        left = _mendable(judged)
        changed = _round(text, file, judged, refused)
        if changed is None:
            break
        text = changed
    remaining = {(finding.code, finding.where.object) for finding in left}
    gone = tuple(f for f in first or () if (f.code, f.where.object) not in remaining)
    return Fixed(text=text, fixed=gone, left=left)


def _mendable(judged: Sequence[Judged]) -> tuple[Finding, ...]:
    return tuple(note.finding for one in judged for note in one.notes if note.edits)


def _round(text: str, file: str, judged: Sequence[Judged], refused: set[bytes]) -> str | None:
    """The text after one round, or None when there is nothing (more) to do."""
    places = Places()
    work = [
        (one, groups)
        for one in judged
        if one.document.source is not None and (groups := _groups(one, refused))
    ]
    plans = [_plan(text, one, groups, places, number) for number, (one, groups) in enumerate(work)]
    placed = [plan for plan in plans if plan.replacements]
    if not placed:
        return None
    new = _together(text, placed)
    wrong = _mismatches(new, file, judged, placed)
    if not wrong:
        return new
    singles: list[_Plan] = []
    for plan in placed:
        singles += (
            [plan] if plan.index not in wrong else _one_by_one(text, file, judged, plan, places, refused)
        )
    good = [plan for plan in singles if plan.replacements]
    if not good:
        return None
    new = _together(text, good)
    return new if not _mismatches(new, file, judged, good) else None


_Group: TypeAlias = tuple[Edit, ...]
"""The edits of one finding: they are made together or not at all."""


class _Plan(msgspec.Struct, frozen=True):
    """Changes to one document: its index among the judged, the groups placed, the characters."""

    index: int
    judged: Judged
    groups: tuple[_Group, ...]
    replacements: tuple[Replacement, ...]

    @property
    def edits(self) -> _Group:
        return tuple(edit for group in self.groups for edit in group)


def _groups(judged: Judged, refused: set[bytes]) -> list[_Group]:
    found = {_mark(judged, note.edits): note.edits for note in judged.notes if note.edits}
    return [group for mark, group in found.items() if mark not in refused]


def _mark(judged: Judged, group: _Group) -> bytes:
    """Tells the edits of a document from the same edits of another, over rounds."""
    where = judged.document.where
    return msgspec.json.encode((where.object, _source(judged).document, _source(judged).steps, group))


def _source(judged: Judged) -> Source:
    source = judged.document.source
    assert source is not None  # noqa: S101 - documents of texts only
    return source


def _plan(text: str, judged: Judged, groups: Sequence[_Group], places: Places, index: int) -> _Plan:
    source = _source(judged)
    root = places.root(source)
    if root is None:
        return _Plan(index, judged, (), ())
    found = planned(text, root, groups, json_text=source.offset is not None)
    replacements, used = combine([changes for _, changes in found])
    return _Plan(index, judged, tuple(found[number][0] for number in used), tuple(replacements))


def _together(text: str, plans: Sequence[_Plan]) -> str:
    changes, _ = combine([plan.replacements for plan in plans])
    return replaced(text, changes)


def _mismatches(new: str, file: str, judged: Sequence[Judged], plans: Sequence[_Plan]) -> set[int]:
    """Documents that do not read as they should, by ``id``; all of them when the text cannot be read."""
    expected: dict[int, Any] = {}
    for plan in plans:
        try:
            expected[id(plan.judged)] = apply(plan.judged.document.body, plan.edits)
        except EditError:
            return {plan.index for plan in plans}
    try:
        found = load_bytes(new.encode("utf-8", "surrogatepass"), file)
    except BaroError:
        return {plan.index for plan in plans}
    if len(found) != len(judged):
        return {plan.index for plan in plans}
    wrong: set[int] = set()
    for one, loaded in zip(judged, found, strict=True):
        want = expected.get(id(one), one.document.body)
        if loaded.body != want:
            wrong |= {plan.index for plan in plans if plan.judged is one} or {plan.index for plan in plans}
    return wrong


def _one_by_one(
    text: str, file: str, judged: Sequence[Judged], plan: _Plan, places: Places, refused: set[bytes]
) -> list[_Plan]:
    """The first group of the document that can be placed alone; those before it are refused for good."""
    for group in plan.groups:
        single = _plan(text, plan.judged, (group,), places, plan.index)
        if single.replacements and not _mismatches(_together(text, [single]), file, judged, [single]):
            return [single]
        refused.add(_mark(plan.judged, group))
    return []
