"""The five checks of ``baro diagnose``. Each answers: are we wasting GPUs?

A check is a pure function from a ``Board`` (the evidence, indexed once) to problems. One check never stops
another: what a check needs and the evidence lacks is named in ``Diagnosis.skipped``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import msgspec

from baro.diagnosis.checks import (
    cdi,
    claims,
    counted,
    driver_logs,
    gates,
    kubelet,
    pools,
    ready,
    signals,
    split,
    stacks,
    stranded,
    versions,
)
from baro.diagnosis.checks.board import Board
from baro.diagnosis.checks.logs import with_statuses
from baro.diagnosis.checks.problem import Lost, Problem, problem
from baro.diagnosis.evidence import Evidence

__all__ = ["CHECKS", "Board", "Check", "Diagnosis", "Lost", "Problem", "Skipped", "diagnose", "problem"]

Part = Callable[[Board], Iterator[Problem]]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check: its parts, and the sources without which it would judge wrongly."""

    name: str
    title: str
    parts: tuple[Part, ...]
    needs: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Sources that it looks at as well, without being wrong where they lack."""

    @property
    def looks_at(self) -> tuple[str, ...]:
        return (*self.needs, *self.also)


class Skipped(msgspec.Struct, frozen=True):
    """A check that could not judge, and why."""

    check: str
    why: str
    next_step: str = ""


CHECKS: tuple[Check, ...] = (
    Check(
        name="split",
        title="split pods",
        parts=(split.check,),
        needs=("pods", "resourceslices", "resourceclaims"),
    ),
    Check(name="counted", title="integer-only allocation", parts=(counted.check,), needs=("nodes", "pods")),
    Check(
        name="stranded",
        title="stranded capacity",
        parts=(stranded.check,),
        needs=("pods", "resourceslices", "resourceclaims"),
    ),
    Check(
        name="ready",
        title="not really ready",
        parts=(ready.check, signals.check),
        also=("nodes", "pods"),
    ),
    Check(
        name="dra",
        title="DRA broken",
        parts=(
            pools.check,
            claims.check,
            stacks.check,
            kubelet.check,
            driver_logs.check,
            cdi.check,
            versions.check,
            gates.check,
        ),
        also=("resourceslices", "resourceclaims"),
    ),
)
"""In the order of the report's head."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. ``problems`` are ranked; ``ran`` names the checks that judged."""

    board: Board
    problems: tuple[Problem, ...]
    skipped: tuple[Skipped, ...] = ()
    ran: tuple[str, ...] = ()


def diagnose(evidence: Evidence, checks: Iterable[str] | None = None) -> Diagnosis:
    """Runs the named checks (all by default) on the evidence. Unknown names raise ``KeyError``."""
    known = {item.name: item for item in CHECKS}
    chosen = [known[name] for name in dict.fromkeys(checks)] if checks is not None else list(CHECKS)
    board = Board(with_statuses(evidence))
    problems: list[Problem] = []
    skipped: list[Skipped] = []
    ran: list[str] = []
    for item in chosen:
        lacking = evidence.lacks(*item.needs)
        # A cluster without DRA has no slices to be missed: what the other sources say still counts.
        if lacking and not all("does not serve" in missing.why for missing in lacking):
            whys = "; ".join(f"{missing.source}: {missing.why}" for missing in lacking)
            skipped.append(Skipped(item.name, f"needs {whys}", lacking[0].next_step))
            continue
        ran.append(item.name)
        problems += chain.from_iterable(part(board) for part in item.parts)
    return Diagnosis(board=board, problems=tuple(ranked(problems)), skipped=tuple(skipped), ran=tuple(ran))


def ranked(problems: Iterable[Problem]) -> list[Problem]:
    """Most GPU-hours lost first, then the worst severity, then by code and subject.

    A problem of unknown age ranks as if it were one hour old, one of unknown share as if it cost nothing.
    """

    def key(item: Problem) -> tuple[float, int, str, str]:
        now = item.lost.now or 0.0
        hours = 1.0 if item.lost.hours is None else max(item.lost.hours, 0.0)
        return (-now * hours, item.severity.rank, item.code, item.subject)

    return sorted(problems, key=key)
