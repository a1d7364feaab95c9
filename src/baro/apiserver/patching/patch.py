"""A patch of any kind, as the registry carries it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class Patch(msgspec.Struct, frozen=True):
    """A patch as a function.

    ``converted``: the real server converts the result from a map instead of decoding its text, as it does for
    strategic merge patches. Errors read differently then: they show the patch (``shown``), not the result.
    """

    apply: Callable[[dict[str, Any]], Any]
    shown: str = ""
    converted: bool = False
