"""The few SVG shapes that pictures need, as text. Knows nothing of GPUs.

All text is escaped; labels become ``aria-label``, so that a screen reader and a test can read the picture.
"""

from __future__ import annotations

from typing import Literal
from xml.sax.saxutils import escape, quoteattr

import msgspec

INK = "#20303c"


class Paint(msgspec.Struct, frozen=True):
    """Fill and outline of a shape; colours are ``#rrggbb``, the outline's width in pixels."""

    fill: str
    stroke: str
    width: float = 1.0
    dashed: bool = False

    def __str__(self) -> str:
        dash = ' stroke-dasharray="5 3"' if self.dashed else ""
        return f'fill="{self.fill}" stroke="{self.stroke}" stroke-width="{self.width:g}"{dash}'


class Canvas:
    """Collects shapes in drawing order; coordinates are pixels from the top left corner."""

    def __init__(self) -> None:
        self._shapes: list[str] = []

    def document(self, width: float, height: float, title: str) -> str:
        """The whole picture on a white ground."""
        size = f'width="{width:.0f}" height="{height:.0f}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" {size} '
            f'role="img" font-family="system-ui, sans-serif" font-size="12" fill="{INK}">'
        )
        ground = f'<rect {size} fill="#ffffff"/>'
        return "\n".join([head, f"<title>{_plain(title)}</title>", ground, *self._shapes, "</svg>"]) + "\n"

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        fill: str = INK,
        size: int = 12,
        anchor: Literal["start", "middle"] = "start",
        weight: Literal["normal", "bold"] = "normal",
    ) -> None:
        style = f'fill="{fill}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"'
        self._shapes.append(f'<text x="{x:.1f}" y="{y:.1f}" {style}>{_plain(text)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str, width: float) -> None:
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self._shapes.append(
            f'<line {ends} stroke="{stroke}" stroke-width="{width:g}" stroke-linecap="round"/>'
        )

    def rect(self, x: float, y: float, width: float, height: float, paint: Paint) -> None:
        """A box with rounded corners."""
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self._shapes.append(f'<rect {place} rx="6" {paint}/>')

    def dot(self, x: float, y: float, paint: Paint, label: str) -> None:
        self._shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" {paint} aria-label={_quoted(label)}/>'
        )

    def arc(self, ends: tuple[float, float], base: float, top: float, stroke: str, label: str) -> None:
        """A curve between two points at height ``base`` that bends up towards ``top``."""
        left, right = ends
        path = f"M {left:.1f} {base:.1f} C {left:.1f} {top:.1f} {right:.1f} {top:.1f} {right:.1f} {base:.1f}"
        style = f'fill="none" stroke="{stroke}" stroke-width="2.5"'
        self._shapes.append(f'<path d="{path}" {style} aria-label={_quoted(label)}/>')


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _plain(text: str) -> str:
    return escape(_printable(text))


def _quoted(text: str) -> str:
    return quoteattr(_printable(text))
