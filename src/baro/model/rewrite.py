"""Edits made in a text: comments, order, quotes and indentation stay, only what is meant changes.

Works by spans: an edit (``baro.model.edits``) becomes replacements of characters, which are made together.
Nothing is taken on trust: the new text is read again and must give exactly what the edits give as data; an
edit that does not is left out and reported as not placed. Aliases and merges are covered by the same rule:
an edit that would change other places too does not give the same data.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

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
from baro.model.positions import Step
from baro.model.scalartext import written
from baro.model.spans import Span

Replacement: TypeAlias = tuple[int, int, str]
"""Characters ``text[start:end]`` and what takes their place."""

_DIFF_LIMIT: Final = 4000
_ESCAPE: Final = re.compile(r"\\(?:x..|u(?:[dD][89abAB]..\\u....|....)|U.{8}|.)", re.DOTALL)


class PlaceError(ValueError):
    """The edit cannot be made in this text."""


def combine(groups: Iterable[Sequence[Replacement]]) -> tuple[list[Replacement], list[int]]:
    """The replacements of as many groups as go together, in order of place, and which groups those are.

    A group that touches characters that an earlier one changes waits for another round; one that makes the
    very same change goes along.
    """
    taken: list[Replacement] = []
    used: list[int] = []
    for index, group in enumerate(groups):
        fresh = [one for one in group if one not in taken]
        if all(_apart(one, other) for one in fresh for other in taken):
            taken += fresh
            used.append(index)
    return sorted(taken), used


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
    writer = _Writer(text, root, json_text)
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
    text: str, root: Span, edits: Iterable[Edit], *, json_text: bool = False
) -> list[tuple[Edit, list[Replacement]]]:
    """The edits that can be placed, each with its replacements, in the order in which they apply."""
    found: list[tuple[Edit, list[Replacement]]] = []
    for edit in ordered(edits):
        try:
            found.append((edit, replacements(text, root, edit, json_text=json_text)))
        except PlaceError:
            continue
    return found


class _Writer:
    """One text, one object, one edit after another."""

    def __init__(self, text: str, root: Span, json_text: bool) -> None:
        self.text, self.root, self.json = text, root, json_text
        self.line = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"

    # --- places ------------------------------------------------------------------------------------------

    def at(self, path: tuple[Step, ...]) -> Span:
        found = self.root.at(path)
        if found is not None and found.style == "alias":
            found = found.target
        if found is None:
            raise PlaceError(f"{path} is not written here")
        return found

    def line_start(self, position: int) -> int:
        return self.text.rfind("\n", 0, position) + 1

    def line_end(self, position: int) -> int:
        """After the line break of the line that holds ``position``."""
        found = self.text.find("\n", position)
        return len(self.text) if found < 0 else found + 1

    def column(self, position: int) -> int:
        return position - self.line_start(position)

    def leads(self, position: int) -> bool:
        """Whether only blanks stand before it on its line."""
        return not self.text[self.line_start(position) : position].strip(" ")

    def key(self, node: Span) -> tuple[int, int]:
        if node.key is None:
            raise PlaceError("an item of a list has no key")
        return node.key

    def entries(self, owner: Span) -> list[tuple[str, Span]]:
        """The entries of a mapping in the order of the text; none that a merge brought."""
        own = [(str(name), child) for name, child in owner.children.items() if child.parent is owner]
        if len(own) != len(owner.children):
            raise PlaceError("the mapping is merged from another")
        return sorted(own, key=lambda entry: self.key(entry[1])[0])

    def quoted(self, key: str) -> str:
        """A new key, quoted as the object's other keys are."""
        first = next(iter(self.root.children.values()), None)
        mark = self.text[first.key[0]] if first is not None and first.key is not None else ""
        if self.json or mark == '"':
            return json.dumps(key, ensure_ascii=False)
        return written(key, "single" if mark == "'" else "plain")

    # --- values ------------------------------------------------------------------------------------------

    def set_value(self, edit: SetValue) -> list[Replacement]:
        node = self.at(edit.path)
        if node.is_scalar and isinstance(node.value, str) and isinstance(edit.value, str):
            finer = self.changed_part(node, edit.value)
            if finer is not None:
                return finer
        if not node.is_scalar and node.style != "flow":
            raise PlaceError("only a scalar can be replaced")
        raw = self.text[node.start : node.end]
        if isinstance(edit.value, dict | list):
            return [(node.start, node.end, _flow(edit.value, node.value, raw))]
        style = node.style if node.is_scalar else "plain"
        indent = self.column(node.parent.start) + 2 if node.parent else 2
        new = written(edit.value, style, json_text=self.json, line=self.line, indent=indent)  # type: ignore[arg-type]
        if node.key is not None and node.start == node.end and self.text[node.start - 1 : node.start] == ":":
            new = f" {new}"
        return [(node.start, node.end, new)]

    def changed_part(self, node: Span, value: str) -> list[Replacement] | None:
        """Only the characters that differ, so that folds and blocks keep their lines."""
        places = node.characters(self.text)
        old = str(node.value)
        if places is None or node.style == "plain":
            return None
        found: list[Replacement] = []
        for start, end, new in _differences(old, value):
            if not new.isprintable():
                return None
            found.append((places[start], self.after(node, places, start, end), self.escaped(new, node.style)))
        return found

    def after(self, node: Span, places: Sequence[int], start: int, end: int) -> int:
        """Where the last of the characters ``start`` to ``end`` ends; the line may break before the next."""
        if end == start:
            return places[start]
        last, character = places[end - 1], str(node.value)[end - 1]
        if node.style == "double" and self.text[last] == "\\":
            match = _ESCAPE.match(self.text, last)
            return match.end() if match else places[end]
        if node.style == "single" and character == "'":
            return last + 2
        return last + 1 if self.text[last] == character else places[end]

    def escaped(self, new: str, style: str) -> str:
        if style == "single":
            return new.replace("'", "''")
        if style == "double":
            return json.dumps(new, ensure_ascii=False)[1:-1]
        return new

    def rename(self, edit: RenameKey) -> list[Replacement]:
        start, end = self.key(self.at(edit.path))
        quote = self.text[start] if self.text[start] in "'\"" else ""
        return [(start, end, f"{quote}{edit.name}{quote}" if quote else self.quoted(edit.name))]

    def listed(self, edit: Listed) -> list[Replacement]:
        node = self.at(edit.path)
        if node.style != "block":
            return [(node.start, node.start, "["), (node.end, node.end, "]")]
        if not self.leads(node.start):
            raise PlaceError("the value does not begin a line")
        rest = self.indented(self.line_end(node.start), node.end, 2)
        return [(node.start, node.start, "- "), *rest]

    # --- removing ----------------------------------------------------------------------------------------

    def remove(self, edit: Remove) -> list[Replacement]:
        node = self.at(edit.path)
        owner = node.parent
        if owner is None:
            raise PlaceError("the object itself cannot go")
        if node.key is None and len(owner.children) == 1 and owner.parent is not None:
            return self.remove(Remove(edit.path[:-1]))
        if owner.style == "flow":
            return [self.cut_flow(owner, node)]
        if node.key is None:
            if node.dash is None or not self.leads(node.dash):
                raise PlaceError("the item does not begin a line")
            return [(self.line_start(node.dash), self.line_end(node.end - 1), "")]
        return [self.cut_block(owner, node)]

    def cut_flow(self, owner: Span, node: Span) -> Replacement:
        siblings = sorted(owner.children.values(), key=lambda one: one.start)
        index = siblings.index(node)
        first = node.key[0] if node.key else node.start
        if index + 1 < len(siblings):
            following = siblings[index + 1]
            return first, following.key[0] if following.key else following.start, ""
        return (siblings[index - 1].end if index else first), node.end, ""

    def cut_block(self, owner: Span, node: Span) -> Replacement:
        entries = self.entries(owner)
        start = self.key(node)[0]
        if len(entries) == 1:
            return owner.start, node.end, "{}"
        if self.leads(start):
            return self.line_start(start), self.line_end(max(node.end - 1, start)), ""
        following = next(child for _, child in entries if self.key(child)[0] > start)
        return start, self.key(following)[0], ""

    # --- inserting ---------------------------------------------------------------------------------------

    def insert(self, edit: Insert) -> list[Replacement]:
        depth = len(edit.path) - 1
        while depth and self.root.at(edit.path[:depth]) is None:
            depth -= 1
        owner = self.at(edit.path[:depth])
        value = edit.value
        for step in reversed(edit.path[depth + 1 :]):
            value = {str(step): value}
        name = str(edit.path[depth])
        if owner.style == "flow":
            return [self.insert_flow(owner, name, value)]
        if owner.style != "block" or not owner.children:
            raise PlaceError("there is no mapping to put it into")
        entries = self.entries(owner)
        first, last = entries[0][1], entries[-1][1]
        indent = " " * self.column(self.key(first)[0])
        lines = _block(name, value, indent, self.quoted)
        if edit.first and depth < len(edit.path) - 1 and self.leads(self.key(first)[0]):
            start = self.line_start(self.key(first)[0])
            return [(start, start, "".join(line + self.line for line in lines))]
        end = self.line_end(max(last.end - 1, self.key(last)[0]))
        body = "".join(line + self.line for line in lines)
        if end == len(self.text) and not self.text.endswith("\n"):
            body = self.line + body.removesuffix(self.line)
        return [(end, end, body)]

    def insert_flow(self, owner: Span, name: str, value: Any) -> Replacement:
        body = f"{self.quoted(name)}: {self.flow(value)}"
        if not owner.children:
            return owner.start + 1, owner.end - 1, body
        last = max(owner.children.values(), key=lambda one: one.end)
        gap = self.text[owner.start + 1 : (last.key or (last.start, 0))[0]]
        broken = "\n" in gap
        start = last.key[0] if last.key else last.start
        between = self.line + " " * self.column(start) if broken else " "
        return last.end, last.end, f",{between}{body}"

    def flow(self, value: Any) -> str:
        if self.json:
            return json.dumps(value, ensure_ascii=False)
        return _flow(value, None, "")

    # --- shapes ------------------------------------------------------------------------------------------

    def indented(self, start: int, end: int, by: int) -> list[Replacement]:
        """The lines that begin in ``start`` to ``end`` moved to the right; empty ones stay."""
        found: list[Replacement] = []
        position = start
        while position < end:
            stop = self.line_end(position)
            if self.text[position:stop].strip():
                found.append((position, position, " " * by))
            position = stop
        return found

    def dedented(self, start: int, end: int, by: int) -> list[Replacement]:
        found: list[Replacement] = []
        position = start
        while position < end:
            blanks = len(self.text[position:]) if position >= len(self.text) else 0
            while self.text[position + blanks : position + blanks + 1] == " " and blanks < by:
                blanks += 1
            if blanks:
                found.append((position, position + blanks, ""))
            position = self.line_end(position)
        return found

    def nest(self, edit: Nest) -> list[Replacement]:
        owner = self.at(edit.path)
        entries = self.entries(owner)
        moved = [child for name, child in entries if name in edit.keys]
        if len(moved) != len(edit.keys) or any(name == edit.under for name, _ in entries):
            raise PlaceError("the entries to move are not all here")
        if owner.style == "flow":
            return self.nest_flow(owner, entries, moved, edit)
        return self.nest_block(entries, moved, edit)

    def nest_flow(
        self, owner: Span, entries: list[tuple[str, Span]], moved: list[Span], edit: Nest
    ) -> list[Replacement]:
        key = self.quoted(edit.under)
        positions = [index for index, (_, child) in enumerate(entries) if child in moved]
        if positions[-1] - positions[0] + 1 == len(positions):
            start, end = self.key(moved[0])[0], moved[-1].end
            return [(start, start, f"{key}: {{"), (end, end, "}")]
        inner = ", ".join(self.text[self.key(child)[0] : child.end] for child in moved)
        parts = [
            f"{key}: {{{inner}}}" if child is moved[0] else self.text[self.key(child)[0] : child.end]
            for _, child in entries
            if child is moved[0] or child not in moved
        ]
        return [(owner.start, owner.end, f"{{{', '.join(parts)}}}")]

    def nest_block(self, entries: list[tuple[str, Span]], moved: list[Span], edit: Nest) -> list[Replacement]:
        runs = _runs([child for _, child in entries], moved)
        first = runs[0][0]
        start = self.key(first)[0]
        column = self.column(start)
        head = f"{self.quoted(edit.under)}:{self.line}"
        end = self.line_end(max(runs[0][-1].end - 1, start))
        if self.leads(start):
            changes = [(self.line_start(start), self.line_start(start), " " * column + head + "  ")]
        else:
            changes = [(start, start, head + " " * (column + 2))]
        changes += self.indented(self.line_end(start), end, 2)
        for run in runs[1:]:
            begin = self.line_start(self.key(run[0])[0])
            stop = self.line_end(run[-1].end - 1)
            body = self.text[begin:stop]
            moved_text = "".join(
                f"  {line}" if line.strip() else line for line in body.splitlines(keepends=True)
            )
            if not moved_text.endswith("\n"):
                moved_text += self.line
            if not self.text[:end].endswith("\n"):
                raise PlaceError("the text ends without a line break")
            changes += [(end, end, moved_text), (begin, stop, "")]
        if len(runs) > 2:
            raise PlaceError("the entries to move stand too far apart")
        return changes

    def unwrap(self, edit: Unwrap) -> list[Replacement]:
        node = self.at(edit.path)
        owner = node.parent
        start, key_end = self.key(node)
        if owner is None or (node.is_scalar and node.value is not None):
            raise PlaceError("there is no mapping to unwrap")
        if not node.children:
            return self.remove(Remove(edit.path))
        inner = self.entries(node)
        begin, end = self.key(inner[0][1])[0], inner[-1][1].end
        if owner.style == "flow":
            return [(start, begin, ""), (end, node.end, "")]
        if node.style == "flow":
            glue = f"{self.line}{' ' * self.column(start)}"
            parts = [self.text[self.key(child)[0] : child.end] for _, child in inner]
            return [(start, node.end, glue.join(parts))]
        delta = self.column(begin) - self.column(start)
        if not self.leads(begin) or delta < 0:
            raise PlaceError("the entries do not begin a line of their own")
        tail = self.line_end(begin)
        rest = self.dedented(tail, end, delta)
        if self.text[key_end : self.line_start(begin)].strip(" :\r\n"):
            first = (self.line_start(begin), begin, self.text[self.line_start(start) : start])
            if not self.leads(start):
                raise PlaceError("a comment stands between")
            comment = self.text.find("#", key_end, self.line_start(begin))
            return [(start, comment, ""), first, *rest]
        return [(start, begin, ""), *rest]


def _runs(entries: Sequence[Span], moved: Sequence[Span]) -> list[list[Span]]:
    runs: list[list[Span]] = []
    before = False
    for child in entries:
        inside = child in moved
        if inside and before:
            runs[-1].append(child)
        elif inside:
            runs.append([child])
        before = inside
    return runs


def _differences(old: str, new: str) -> list[tuple[int, int, str]]:
    """(start, end, text): what of ``old`` must change to give ``new``."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    middle, wanted = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(middle) + len(wanted) > _DIFF_LIMIT:
        return [(head, head + len(middle), wanted)]
    matcher = difflib.SequenceMatcher(None, middle, wanted, autojunk=False)
    return [
        (head + start, head + end, wanted[first:last])
        for tag, start, end, first, last in matcher.get_opcodes()
        if tag != "equal"
    ]


_SIMPLE = re.compile(r"[\w./-]+")


def _flow(value: Any, old: Any, raw: str) -> str:
    """A collection in flow style; a value inside that stood there before keeps its writing."""
    if value == old and raw and not isinstance(value, dict | list):
        return raw
    if isinstance(value, dict):
        inner = ", ".join(
            f"{written(str(key), 'plain')}: {_flow(item, old, raw)}" for key, item in value.items()
        )
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(_flow(item, old, raw) for item in value)}]"
    return written(value, "plain")


def _block(name: str, value: Any, indent: str, quoted: Callable[[str], str]) -> list[str]:
    """Lines of an entry in block style."""
    if isinstance(value, dict) and value:
        lines = [f"{indent}{quoted(name)}:"]
        for key, item in value.items():
            lines += _block(str(key), item, indent + "  ", quoted)
        return lines
    return [f"{indent}{quoted(name)}: {_flow(value, None, '')}"]
