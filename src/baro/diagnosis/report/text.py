"""A diagnosis as plain text for a terminal: the answer first, then the problems, the dearest first.

Returns lines with what they are, so that the command line may colour them; knows no terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from enum import StrEnum

from baro.diagnosis.checks import Diagnosis, Problem
from baro.diagnosis.checks.problem import count
from baro.diagnosis.report.summary import Summary, in_gpus

WIDTH = 110
SHOWN = 20
"""Problems in the short form; the wide form has all."""


class Style(StrEnum):
    """What a line is."""

    ANSWER = "answer"
    PLAIN = "plain"
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    QUIET = "quiet"


Line = tuple[Style, str]


def lines(diagnosis: Diagnosis, summary: Summary, *, wide: bool = False) -> Iterator[Line]:
    """The report. ``wide`` shows every problem with all its evidence."""
    yield Style.ANSWER, summary.sentence
    yield from _head(diagnosis, summary)
    problems = diagnosis.problems
    shown = problems if wide else problems[:SHOWN]
    for number, item in enumerate(shown, 1):
        yield Style.PLAIN, ""
        yield from _block(number, item, wide=wide)
    if len(problems) > len(shown):
        yield Style.PLAIN, ""
        yield Style.QUIET, f"and {count(len(problems) - len(shown), 'more problem')}: -o wide shows all"
    yield from _foot(diagnosis)


def _head(diagnosis: Diagnosis, summary: Summary) -> Iterator[Line]:
    whole = summary.whole
    if whole.total:
        left = ", ".join(f"{number}× {size}" for size, number in whole.sets.items() if number)
        yield (
            Style.PLAIN,
            f"free: {count(whole.free, 'published GPU')}; well-linked sets left: {left or 'none'}",
        )
    ran = set(diagnosis.ran)
    for part in summary.parts:
        if part.check not in ran:
            continue
        cost = f", {in_gpus(part.gpus)}" if part.gpus >= 0.05 else ""
        found = f"{count(part.problems, 'problem')}{cost}" if part.problems else "nothing found"
        if part.lacking:
            found += f" (no {', no '.join(part.lacking)} among the files)"
        yield (Style.PLAIN if part.problems else Style.QUIET), f"  {part.title:<26}{found}"


def _block(number: int, item: Problem, *, wide: bool) -> Iterator[Line]:
    yield Style(item.severity.value), f"{number}. {item.severity.value} {item.code}{_cost(item)}"
    yield from _wrapped(Style.PLAIN, item.message, "   ")
    for line in item.evidence if wide else item.evidence[:2]:
        yield from _wrapped(Style.QUIET, line, "   · ")
    if wide and item.lost.gpus and item.lost.basis:
        yield from _wrapped(Style.QUIET, f"cost: {item.lost.basis}", "   ")
    for command in item.next if wide else item.next[:1]:
        yield Style.PLAIN, f"   next: {command}"
    if wide:
        yield from _wrapped(Style.PLAIN, f"remedy: {item.remedy}", "   ")


def _wrapped(kind: Style, text: str, indent: str) -> Iterator[Line]:
    """Lines of at most ``WIDTH`` characters; commands are never broken, so that they can be pasted."""
    for line in textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent="     ",
        break_long_words=False,
        break_on_hyphens=False,
    ):
        yield kind, line


def _cost(item: Problem) -> str:
    """``  (4 GPUs, 12.5 GPU-hours)``."""
    lost = item.lost
    if not lost.gpus:
        return ""
    if lost.now is None:
        return f"  ({count(len(lost.gpus), 'GPU')}, cost unknown)"
    hours = "age unknown" if lost.gpu_hours is None else f"{lost.gpu_hours:,.1f} GPU-hours"
    return f"  ({in_gpus(lost.now)}, {hours})"


def _foot(diagnosis: Diagnosis) -> Iterator[Line]:
    evidence = diagnosis.board.evidence
    notes = [f"not judged: {item.check}: {item.why}" for item in diagnosis.skipped]
    notes += [
        f"{'in part' if item.partial else 'not read'}: {item.source}: {item.why}"
        + (f" (next: {item.next_step})" if item.next_step else "")
        for item in evidence.missing
    ]
    notes += [f"unreadable: {item.where}: {item.what}" for item in evidence.unreadable[:SHOWN]]
    if notes:
        yield Style.PLAIN, ""
    for note in notes:
        yield Style.WARNING, note
