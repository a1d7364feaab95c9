"""Comments that silence findings: ``# baro: ignore CODE, CODE`` on a line or above it.

On a line of its own the comment speaks for the line below it, and above an object for the whole object.
``# baro: ignore-file CODE`` speaks for the file. Without a code nothing is silenced: an exception names what
it is an exception to.
"""

from __future__ import annotations

import re

import msgspec

from baro.model.textio import Text

_COMMENT = re.compile(r"(?:^|\s)#\s*baro:\s*ignore(-file)?\s+([a-z0-9-]+(?:\s*,\s*[a-z0-9-]+)*)")


class Ignores(msgspec.Struct, frozen=True):
    """What the comments of one text silence. Lines count from 1."""

    file: frozenset[str] = frozenset()
    lines: dict[int, frozenset[str]] = {}

    def at(self, line: int | None, first: int | None) -> frozenset[str]:
        """The codes silenced on a line of an object that begins on line ``first``."""
        here = self.lines.get(line, frozenset()) if line is not None else frozenset()
        whole = self.lines.get(first, frozenset()) if first is not None else frozenset()
        return self.file | here | whole


def ignores(text: Text) -> Ignores:
    """The comments of a YAML text. JSON has none."""
    if text.json or b"baro:" not in text.data:
        return Ignores()
    lines: dict[int, frozenset[str]] = {}
    file: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    for number, line in enumerate(text.data.decode("utf-8", "replace").split("\n"), start=1):
        match = _COMMENT.search(line)
        codes = frozenset(part.strip() for part in match[2].split(",")) if match else frozenset[str]()
        if match is not None and match[1]:
            file |= codes
            codes = frozenset()
        alone = line.lstrip().startswith("#")
        if alone or line.strip() in ("", "---"):
            pending |= codes
            continue
        found = codes | pending
        if found:
            lines[number] = found
        pending = frozenset()
    return Ignores(file, lines)
