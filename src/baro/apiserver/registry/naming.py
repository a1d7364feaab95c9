"""Names, UIDs and times that the server gives to new objects. Randomness and clock come from outside."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Final

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX: Final = 5
_MAX_BASE: Final = 58

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """RFC 3339 in whole seconds, as ``metadata`` writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Namer:
    """Makes names from ``generateName`` and UIDs out of one source of randomness."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def name(self, base: str) -> str:
        suffix = "".join(self._random.choice(_ALPHABET) for _ in range(_SUFFIX))
        return base[:_MAX_BASE] + suffix

    def uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))
