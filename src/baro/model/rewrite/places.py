"""Where things stand in a text that is being edited: lines, columns, the entries of a mapping in order."""

from __future__ import annotations

import json
from typing import TypeAlias

from baro.model.positions import Step
from baro.model.scalartext import written
from baro.model.spans import Span

Replacement: TypeAlias = tuple[int, int, str]
"""Characters ``text[start:end]`` and what takes their place."""


class PlaceError(ValueError):
    """The edit cannot be made in this text."""


class Places:
    """One text and one object in it: lines, columns, entries."""

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
