"""What a check finds: a problem with its evidence, what it costs, and the command to look closer.

A ``Problem`` is a ``Finding`` of a cluster: its code stands in ``findings.yaml``. What it costs is counted in
GPUs and, where its age is known, in GPU-hours; what is not known is ``None`` and is printed as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from baro.model.errors import InternalError
from baro.model.findings import Severity, table

MOST_EVIDENCE: Final = 12
"""Lines of evidence of one problem; more are counted."""
MOST_NAMED: Final = 5


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """What a problem costs: ``gpus`` (identities, so that no GPU counts twice) times ``share`` of each.

    ``share`` is 0 to 1, None when unknown; ``hours`` how long it has lasted, None when unknown. ``basis``
    says how the figures come about.
    """

    gpus: frozenset[str] = frozenset()
    share: float | None = 1.0
    hours: float | None = None
    basis: str = ""

    @property
    def now(self) -> float | None:
        """Whole GPUs' worth lost at this moment."""
        return None if self.share is None else len(self.gpus) * self.share

    @property
    def gpu_hours(self) -> float | None:
        """GPUs times share times age; None when one of them is unknown."""
        now = self.now
        return None if now is None or self.hours is None else now * self.hours


NOTHING: Final = Lost()


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One problem. ``subject`` is the object it is about, as ``Kind namespace/name``.

    ``evidence`` are observations in reading order, ``next`` read-only commands. ``facts`` are the figures of
    the message for machines.
    """

    check: str
    code: str
    severity: Severity
    message: str
    subject: str = ""
    node: str | None = None
    evidence: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    remedy: str = ""
    lost: Lost = NOTHING
    facts: Mapping[str, Any] = {}

    @property
    def title(self) -> str:
        """The title of the code."""
        return table()[self.code].title


def problem(  # noqa: PLR0913 - the parts of a problem, all named
    check: str,
    code: str,
    message: str,
    *,
    subject: str = "",
    node: str | None = None,
    evidence: Iterable[str] = (),
    next: Iterable[str] = (),
    lost: Lost = NOTHING,
    facts: Mapping[str, Any] | None = None,
    severity: Severity | None = None,
    remedy: str = "",
) -> Problem:
    """A problem with the severity (unless given) and remedy of its code."""
    row = table().get(code)
    if row is None:
        raise InternalError(f"no finding has the code {code!r}", next_step="add it to findings.yaml")
    lines = tuple(evidence)
    if len(lines) > MOST_EVIDENCE:
        lines = (*lines[:MOST_EVIDENCE], f"… and {len(lines) - MOST_EVIDENCE} more")
    return Problem(
        check=check,
        code=code,
        severity=severity or row.severity,
        message=message,
        subject=subject,
        node=node,
        evidence=lines,
        next=tuple(next),
        remedy=remedy or row.remedy,
        lost=lost,
        facts=facts or {},
    )


def on_node(node: str | None, command: str) -> str:
    """A command for a shell on a node, ready to paste there."""
    return f"{command}  # on {f'node {node}' if node else 'the node'}"


def named(names: Iterable[str], most: int = MOST_NAMED) -> str:
    """``a, b, c and 4 more``."""
    known = list(names)
    if len(known) <= most:
        return ", ".join(known)
    return f"{', '.join(known[:most])} and {len(known) - most} more"


def count(number: int, thing: str, plural: str = "") -> str:
    """``1 GPU``, ``3 GPUs``."""
    return f"{number:,} {thing if number == 1 else plural or thing + 's'}"
