"""The seam between the search and the CEL engine.

The engine answers per expression and row; a run-time error is an answer like any other, kept per device.
"""

from __future__ import annotations

from typing import Protocol


class SelectorEngine(Protocol):
    """What the search needs to know of CEL. ``baro.allocator.cel_selectors`` has the real one."""

    def compile_error(self, expression: str) -> str | None:
        """The compiler's message, or ``None`` when the expression compiles."""

    def verdict(self, expression: str, row: int) -> bool | str:
        """Whether the device in that row matches; the text of the run-time error otherwise."""
