"""Findings: what a check, lint or diagnosis says, with a code from one table.

The table is ``findings.yaml`` beside this module: code → severity, title, explanation, remedy. Codes are
stable: they are never renamed and never reused. A finding that is raised with a code outside the table is
a bug, and a test holds the table and the code base against each other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from enum import StrEnum
from importlib import resources

import msgspec

from baro.model.errors import InternalError, Where


class Severity(StrEnum):
    """How much a finding matters, worst first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)


class FindingType(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table."""

    severity: Severity
    title: str
    explanation: str
    remedy: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding: what, where, evidence, and the text that mends it where there is one."""

    code: str
    severity: Severity
    message: str
    where: Where = Where()
    remedy: str = ""
    replacement: str | None = None
    """Text that replaces what stands at ``where.path``."""


@functools.cache
def table() -> dict[str, FindingType]:
    """The whole findings table, code → row."""
    text = resources.files("baro.model").joinpath("findings.yaml").read_bytes()
    return msgspec.yaml.decode(text, type=dict[str, FindingType])


def finding(
    code: str, message: str, where: Where | None = None, *, remedy: str = "", replacement: str | None = None
) -> Finding:
    """A finding with the severity of its code; ``remedy`` defaults to the table's."""
    row = table().get(code)
    if row is None:
        raise InternalError(f"no finding has the code {code!r}", next_step="add it to findings.yaml")
    return Finding(
        code=code,
        severity=row.severity,
        message=message,
        where=where or Where(),
        remedy=remedy or row.remedy,
        replacement=replacement,
    )


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Worst first, then by file and line as a reader goes through them."""

    def key(item: Finding) -> tuple[int, str, int, int]:
        return (item.severity.rank, item.where.file or "", item.where.line or 0, item.where.column or 0)

    return sorted(findings, key=key)


def worst(findings: Sequence[Finding]) -> Severity | None:
    """The worst severity present, or ``None`` without findings."""
    return min((item.severity for item in findings), key=lambda severity: severity.rank, default=None)


def markdown() -> str:
    """The whole table as a docs page; ``docs/findings.md`` is this text."""
    parts = [
        "# Findings",
        "Every finding baro can report, generated from `src/baro/model/findings.yaml`. Codes are stable.",
    ]
    for code, row in table().items():
        parts += [
            f"## {code}",
            f"*{row.severity.value}*: {row.title}.",
            row.explanation,
            f"**What to do.** {row.remedy}",
        ]
    return "\n\n".join(parts) + "\n"
