"""How commands print: ``-o table|wide|json|yaml``, JSON types only, no colour off a terminal.

stdout carries data and nothing else; progress and errors go to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def output_option(*formats: str, default: str = "table") -> Callable[[Command], Command]:
    """The ``-o/--output`` option with the formats that a command knows."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats or ("table", "wide", "json", "yaml")),
        default=default,
        show_default=True,
        help="Output format.",
    )


def emit(document: Any, fmt: str) -> None:
    """Print a document of JSON types as ``json`` or ``yaml``."""
    if fmt == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    import yaml  # noqa: PLC0415 - only for YAML output

    click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110), nl=False)


def table(rows: Sequence[Sequence[object]], headers: Sequence[str]) -> str:
    """Columns as kubectl aligns them: three spaces between, upper-case headers, no rules."""
    lines = [[str(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def colour() -> bool:
    """Whether stdout may carry colour: a terminal, and neither ``NO_COLOR`` nor ``TERM=dumb``."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def style(text: str, **kind: Any) -> str:
    """``click.style`` where colour is allowed, else the text."""
    return click.style(text, **kind) if colour() else text


def progress(text: str) -> None:
    """One line of progress on stderr."""
    click.echo(text, err=True)
