"""Pseudonyms: one for each name of a kind of thing, in the order of the names."""

from __future__ import annotations

import re
from typing import Any, Final

_WORDS: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_UUID: Final = re.compile(
    r"\b(?:GPU-|MIG-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I
)
_ADDRESS: Final = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")


class Pseudonyms:
    """One pseudonym for each name of a kind of thing. ``learn`` all names first: the order is kept."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}
        self._given: dict[str, dict[str, str]] = {}
        self._words: dict[str, str] = {}

    def learn(self, kind: str, name: object) -> None:
        """Note a name; empty ones and anything but text are left out."""
        if isinstance(name, str) and name:
            self._names.setdefault(kind, set()).add(name)

    def settle(self) -> None:
        """Give pseudonyms to what was learnt, in the order of the names."""
        for kind, names in self._names.items():
            width = len(str(len(names)))
            self._given[kind] = {
                name: f"{kind}-{number:0{width}d}" for number, name in enumerate(sorted(names), 1)
            }
        for given in self._given.values():
            self._words.update(given)

    def known(self, kind: str) -> frozenset[str] | set[str]:
        """The names of a kind that were learnt."""
        return self._names.get(kind, frozenset())

    def of(self, kind: str, name: object) -> Any:
        """The pseudonym; what was never learnt gets one now. Empty stays empty."""
        if not isinstance(name, str) or not name:
            return name
        given = self._given.setdefault(kind, {})
        if name not in given:
            given[name] = f"{kind}-x{len(given) + 1}"
            self._words[name] = given[name]
        return given[name]

    def text(self, text: object) -> Any:
        """A sentence with the names in it replaced: known words, UUIDs and addresses."""
        if not isinstance(text, str):
            return text
        text = _UUID.sub(lambda match: str(self.of("uuid", match[0].lower())), text)
        text = _ADDRESS.sub("0.0.0.0", text)  # noqa: S104 - a placeholder
        return _WORDS.sub(lambda match: self._words.get(match[0], match[0]), text)
