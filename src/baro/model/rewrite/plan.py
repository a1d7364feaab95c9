"""From edits to replacements of characters, and which of them go together."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from baro.model.edits import (
    Edit,
    EditError,
    Insert,
    Listed,
    Nest,
    Remove,
    RenameKey,
    SetValue,
    Unwrap,
    ordered,
)
from baro.model.rewrite.places import PlaceError, Replacement
from baro.model.rewrite.shapes import Shapes
from baro.model.spans import Span


def combine(groups: Iterable[Sequence[Replacement]]) -> tuple[list[Replacement], list[int]]:
    """The replacements of as many groups as go together, in order of place, and which groups those are.

    A group that touches characters that an earlier one changes waits for another round; one that makes the
    very same change goes along.
    """
    taken: list[Replacement] = []
    known: set[Replacement] = set()
    used: list[int] = []
    for index, group in enumerate(groups):
        fresh = [one for one in dict.fromkeys(group) if one not in known]
        if all(_free(one, taken) for one in fresh):
            for one in fresh:
                insort(taken, one)
            known.update(fresh)
            used.append(index)
    return taken, used


def _free(one: Replacement, taken: Sequence[Replacement]) -> bool:
    """Whether a replacement goes beside those taken, which are sorted and go beside each other."""
    near = bisect_left(taken, one)
    return all(_apart(one, other) for other in taken[max(near - 2, 0) : near + 2])


def _apart(one: Replacement, other: Replacement) -> bool:
    if one[0] == one[1] == other[0] or other[0] == other[1] == one[0]:
        return False
    return one[1] <= other[0] or other[1] <= one[0]


def replaced(text: str, replacements: Iterable[Replacement]) -> str:
    """``text`` with replacements that do not overlap, sorted by place."""
    parts: list[str] = []
    position = 0
    for start, end, new in replacements:
        parts += (text[position:start], new)
        position = end
    return "".join((*parts, text[position:]))


def replacements(text: str, root: Span, edit: Edit, *, json_text: bool = False) -> list[Replacement]:
    """What an edit of the object at ``root`` means in its text. Raises ``PlaceError``."""
    writer = Shapes(text, root, json_text)
    handlers: dict[type, Callable[[Any], list[Replacement]]] = {
        SetValue: writer.set_value,
        RenameKey: writer.rename,
        Remove: writer.remove,
        Insert: writer.insert,
        Nest: writer.nest,
        Unwrap: writer.unwrap,
        Listed: writer.listed,
    }
    try:
        return handlers[type(edit)](edit)
    except EditError as error:
        raise PlaceError(str(error)) from None


def planned(
    text: str, root: Span, groups: Iterable[Sequence[Edit]], *, json_text: bool = False
) -> list[tuple[tuple[Edit, ...], list[Replacement]]]:
    """The groups of edits that can be placed, each with its replacements; those that keep shapes come first.

    A group is placed as a whole or not at all: half of a change may mean the opposite.
    """
    found: list[tuple[tuple[Edit, ...], list[Replacement]]] = []
    for group in groups:
        try:
            each = [replacements(text, root, edit, json_text=json_text) for edit in ordered(group)]
        except PlaceError:
            continue
        together, used = combine(each)
        if len(used) == len(each):
            found.append((tuple(group), together))
    return sorted(found, key=lambda one: any(not isinstance(edit, SetValue) for edit in one[0]))
