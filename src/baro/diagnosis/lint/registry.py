"""The table of rules. A rule is a small function; a module of rules registers its own when it is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from baro.diagnosis.lint.manifest import Manifest
from baro.diagnosis.lint.run import Note, Run
from baro.model.edits import Edit
from baro.model.errors import Where
from baro.model.findings import finding

Rule: TypeAlias = Callable[[Manifest, Run], Iterator[Note]]
"""Looks at one document. It must take any JSON types in it: what is of a wrong type is passed over."""

_RULES: list[tuple[frozenset[str], Rule]] = []


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    """Registers a rule for documents of these kinds; without kinds, for all."""

    def register(function: Rule) -> Rule:
        _RULES.append((frozenset(kinds), function))
        return function

    return register


def notes(manifest: Manifest, run: Run) -> Iterator[Note]:
    """What all rules say about a document, in the order of the table."""
    for kinds, function in _RULES:
        if not kinds or manifest.kind in kinds:
            yield from function(manifest, run)


def note(
    code: str,
    message: str,
    where: Where,
    *edits: Edit,
    remedy: str = "",
    replacement: str | None = None,
    server: str = "",
) -> Note:
    """A note with a finding of that code. ``replacement`` is the text that stands there once mended."""
    found = finding(code, message, where, remedy=remedy, replacement=replacement)
    return Note(finding=found, edits=edits, server=server)
