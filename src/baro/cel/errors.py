"""Errors of the CEL engine, printed as cel-go prints them.

``Source`` turns character offsets into lines and columns and draws the snippet with the caret.
Nothing here knows the grammar or the types.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

MAX_DEPTH = 250
"""How deep an expression may nest, in levels that upstream counts."""
MOST_ISSUES = 100
"""How many complaints upstream keeps; after one more it stops parsing."""
_MAX_SNIPPET_BYTES = 16384

NOWHERE, LOST = -1, -2


class Issue(msgspec.Struct, frozen=True):
    """One complaint about an expression. ``line`` and ``column`` count from 1, in characters."""

    line: int
    column: int
    message: str


class CelCompileError(ValueError):
    """The expression cannot be compiled. ``message`` is exactly what the API server prints.

    ``line`` and ``column`` are those of the first issue as printed, ``None`` when the message has no place
    (wrong result type, failed constant folding); ``issues`` are sorted by place.
    """

    def __init__(self, message: str, issues: tuple[Issue, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.issues = issues
        self.line = issues[0].line if issues else None
        self.column = issues[0].column if issues else None


class CelRuntimeError(Exception):
    """Evaluation on one device failed. ``message`` is what the scheduler prints after ``CEL runtime error:
    ``.

    ``absorbable`` is false for the failures that ``&&`` and ``||`` cannot hide: a panic inside the evaluator.
    """

    def __init__(self, message: str, *, absorbable: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.absorbable = absorbable


def _place(issue: Issue) -> tuple[int, int]:
    return issue.line, issue.column


class Source:
    """An expression's text with its line starts."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.skipped: list[tuple[int, int]] = []  # spans that are no token
        self._starts = [0, *(index + 1 for index, char in enumerate(text) if char == "\n")]

    def issue(self, offset: int, message: str) -> Issue:
        """The complaint at a character offset.

        Upstream has two ways of having no place: ``NOWHERE`` prints as -1:0, ``LOST`` (a node that recovery
        from a syntax error left out) as 1:0.
        """
        if offset < 0:
            return Issue(-1 if offset == NOWHERE else 1, 0, message)
        if not self.text:
            return Issue(1, 0, message)  # cel-go has no first column in an empty text
        return Issue(*self.place(offset), message)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def between(self, start: int, end: int) -> str:
        """The text from start to end without what is no token."""
        kept, at = "", start
        for first, last in self.skipped:
            if start <= first < end:
                kept += self.text[at:first]
                at = last
        return kept + self.text[at:end]

    def compile_error(self, issues: list[Issue]) -> CelCompileError:
        """All complaints with their snippets as one error: the first 100 found, in order of place."""
        kept = tuple(sorted(issues[:MOST_ISSUES], key=_place))
        shown = [self._display(issue) for issue in kept]
        if len(issues) > MOST_ISSUES:
            shown.append(f"{len(issues) - MOST_ISSUES} more errors were truncated")
        text = "\n".join(shown)
        return CelCompileError(f"compilation failed: {text}", kept)

    def _display(self, issue: Issue) -> str:
        head = f"ERROR: <input>:{issue.line}:{issue.column}: {issue.message}"
        lines = self.text.split("\n")
        if not 0 < issue.line <= len(lines) or not self.text:
            return head
        snippet = lines[issue.line - 1].replace("\t", " ")
        if len(snippet.encode()) > _MAX_SNIPPET_BYTES:
            return head
        column = max(issue.column - 1, 0)
        before, at = snippet[:column], snippet[column : column + 1]
        dots = "".join("." if char.isascii() else "．" for char in before)
        caret = "^" if at.isascii() else "＾"  # a wide caret under a wide character
        return f"{head}\n | {snippet}\n | {dots}{caret}"
