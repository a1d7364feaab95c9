"""Edits of shapes: entries that move one level down or up, values that become lists."""

from __future__ import annotations

from collections.abc import Sequence

from baro.model.edits import Listed, Nest, Remove, Unwrap
from baro.model.rewrite.entries import Entries
from baro.model.rewrite.places import PlaceError, Replacement
from baro.model.spans import Span


class Shapes(Entries):
    """What happens to a mapping as a whole; lines move to the right or to the left with their comments."""

    def listed(self, edit: Listed) -> list[Replacement]:
        node = self.at(edit.path)
        if node.style != "block":
            return [(node.start, node.start, "["), (node.end, node.end, "]")]
        if not self.leads(node.start):
            raise PlaceError("the value does not begin a line")
        rest = self.indented(self.line_end(node.start), node.end, 2)
        return [(node.start, node.start, "- "), *rest]

    # --- moving ------------------------------------------------------------------------------------------

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
