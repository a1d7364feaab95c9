"""Edits of values and entries: set, rename, remove, insert."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from baro.model.edits import Insert, Remove, RenameKey, SetValue
from baro.model.rewrite.places import PlaceError, Places, Replacement
from baro.model.scalartext import written
from baro.model.spans import Span

_DIFF_LIMIT: Final = 4000
_ESCAPE: Final = re.compile(r"\\(?:x..|u(?:[dD][89abAB]..\\u....|....)|U.{8}|.)", re.DOTALL)


class Entries(Places):
    """What happens to one entry, or to its value."""

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
        own = [
            child for child in owner.children.values() if child.parent is owner
        ]  # not what a merge brought
        if not own:
            raise PlaceError("everything in the mapping is merged")
        first, last = (end(own, key=lambda child: child.start) for end in (min, max))
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
