"""Semantic versions as Kubernetes reads them: strict SemVer 2.0, and the lenient ``semver(s, true)`` of CEL.

Accepted texts, order and error texts follow github.com/blang/semver/v4 (``Parse``) and
k8s.io/apiserver ``pkg/cel/library/semverlib.go`` (``normalize``). Two versions are equal when neither comes
before the other: build metadata does not count. DRA's ``matchAttribute`` compares the *texts* of version
attributes instead, so use the raw attribute there.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

import msgspec

from baro.model.gotext import go_quote

_MAX_UINT64 = 2**64 - 1
_DIGITS = re.compile(r"[0-9]*", re.ASCII)
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]*", re.ASCII)

_Identifier: TypeAlias = tuple[int, int, str]
"""Numeric identifiers sort first and by value (0, number, ""), the others by bytes (1, 0, text)."""


class SemVerError(ValueError):
    """The text is not a semantic version; the message is blang/semver's own."""


class SemVer(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A version; equal, ordered and hashed by SemVer 2.0 precedence.

    ``prerelease`` and ``build`` are the dot-separated identifiers, empty when absent.
    """

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> SemVer:
        """Read a strict version: three numbers, no leading ``v``. Raises ``SemVerError``; cached."""
        return _parse(text)

    @staticmethod
    def normalize(text: str) -> SemVer:
        """Read a lenient version: ``v`` prefix, one or two numbers, leading zeros. Raises ``SemVerError``."""
        parts = [_strip_zeros(part) for part in text.removeprefix("v").split(".", 2)]
        if len(parts) < 3 and any(mark in parts[-1] for mark in "+-"):
            raise SemVerError("short version cannot contain PreRelease/Build meta data")
        return _parse(".".join(parts + ["0"] * (3 - len(parts))))

    @property
    def precedence(self) -> tuple[int, int, int, bool, tuple[_Identifier, ...]]:
        """The sort key: a release comes after its prereleases."""
        identifiers = tuple(
            (0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.prerelease
        )
        return self.major, self.minor, self.patch, not identifiers, identifiers

    def __eq__(self, other: object) -> bool:
        return self.precedence == other.precedence if isinstance(other, SemVer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.precedence)

    def __lt__(self, other: SemVer) -> bool:
        return self.precedence < other.precedence if isinstance(other, SemVer) else NotImplemented

    def __le__(self, other: SemVer) -> bool:
        return self.precedence <= other.precedence if isinstance(other, SemVer) else NotImplemented

    def __gt__(self, other: SemVer) -> bool:
        return self.precedence > other.precedence if isinstance(other, SemVer) else NotImplemented

    def __ge__(self, other: SemVer) -> bool:
        return self.precedence >= other.precedence if isinstance(other, SemVer) else NotImplemented

    def __str__(self) -> str:
        prerelease = f"-{'.'.join(self.prerelease)}" if self.prerelease else ""
        build = f"+{'.'.join(self.build)}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{prerelease}{build}"

    def __repr__(self) -> str:
        return f"SemVer({str(self)!r})"


@lru_cache(maxsize=4_096)  # a fleet has few driver versions, on many devices
def _parse(text: str) -> SemVer:
    if not text:
        raise SemVerError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise SemVerError("No Major.Minor.Patch elements found")
    major, minor = _number("major", parts[0]), _number("minor", parts[1])
    rest, plus, build = parts[2].partition("+")
    rest, dash, prerelease = rest.partition("-")
    patch = _number("patch", rest)
    return SemVer(
        major,
        minor,
        patch,
        tuple(_prerelease(part) for part in prerelease.split(".")) if dash else (),
        tuple(_build(part) for part in build.split(".")) if plus else (),
    )


def _number(which: str, text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise SemVerError(f"Invalid character(s) found in {which} number {go_quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise SemVerError(f"{which.capitalize()} number must not contain leading zeroes {go_quote(text)}")
    return _uint64(text)


def _uint64(text: str) -> int:
    if not text:
        raise SemVerError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > _MAX_UINT64:
        raise SemVerError(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return int(text)


def _prerelease(text: str) -> str:
    if not text:
        raise SemVerError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise SemVerError(f"Numeric PreRelease version must not contain leading zeroes {go_quote(text)}")
        return str(_uint64(text))
    if not _IDENTIFIER.fullmatch(text):
        raise SemVerError(f"Invalid character(s) found in prerelease {go_quote(text)}")
    return text


def _build(text: str) -> str:
    if not text:
        raise SemVerError("Build meta data is empty")
    if not _IDENTIFIER.fullmatch(text):
        raise SemVerError(f"Invalid character(s) found in build meta data {go_quote(text)}")
    return text


def _strip_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1] in tuple("0123456789") else f"0{stripped}"
