"""What an analysis of a selector's text found: a code, words, a place, and what should stand there."""

from __future__ import annotations

import msgspec


class Found(msgspec.Struct, frozen=True):
    """``text[start:end]`` is meant; ``new`` is what to write in its place, None when that is not known."""

    code: str
    message: str
    start: int
    end: int
    new: str | None = None
