"""The head of a report: how many GPUs are wasted, and by what. No GPU counts twice.

Every problem names the GPUs that it costs and the share of each. A GPU with several problems counts once,
with the largest share, under the first of: not ready, DRA broken, stranded, split. A node never loses more
GPUs than it has.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from baro.diagnosis.checks import CHECKS, Check, Diagnosis
from baro.diagnosis.checks.problem import Problem, count
from baro.diagnosis.checks.stranded import Whole, whole_gpus
from baro.diagnosis.evidence import Evidence

_ORDER = ("ready", "dra", "stranded", "split", "counted")
_KINDS = {
    "Node": "nodes",
    "Pod": "pods",
    "ResourceSlice": "resourceslices",
    "ResourceClaim": "resourceclaims",
}
_WORDS = {
    "ready": "not ready",
    "dra": "held back by DRA",
    "stranded": "stranded",
    "split": "lost to split pods",
    "counted": "lost to counting",
}


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One check's line in the head. ``gpus`` is in whole GPUs' worth; ``unknown`` problems tell no share."""

    check: str
    title: str
    problems: int
    gpus: float
    unknown: int = 0
    lacking: tuple[str, ...] = ()
    """Kinds of objects that the check looks at and that no file has: "nothing found" means little then."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Totals. ``total`` is 0 when the evidence shows no GPU at all; ``whole`` is what is left to give."""

    total: int
    wasted: float
    parts: tuple[Part, ...]
    whole: Whole

    @property
    def sentence(self) -> str:
        """The answer in one line."""
        if not self.total:
            return "no GPU in the evidence"
        head = f"{quantity(self.wasted)} of {self.total:,} GPUs wasted"
        dearest = sorted(self.parts, key=lambda part: -part.gpus)
        said = [f"{quantity(part.gpus)} {_WORDS[part.check]}" for part in dearest if part.gpus >= 0.05]
        blind = sum(part.unknown for part in self.parts)
        if blind:
            said.append(f"{count(blind, 'problem')} of unknown cost")
        return f"{head}: {', '.join(said)}" if said else head


def summarise(diagnosis: Diagnosis) -> Summary:
    """The head of a diagnosis."""
    gpus = _wasted(diagnosis.problems, diagnosis.board.physical)
    titles = {item.name: item.title for item in CHECKS}
    lacking = {item.name: _lacking(item, diagnosis.board.evidence) for item in CHECKS}
    parts = tuple(
        Part(
            check=name,
            title=titles[name],
            problems=sum(item.check == name for item in diagnosis.problems),
            gpus=gpus.get(name, 0.0),
            unknown=sum(item.check == name and item.lost.now is None for item in diagnosis.problems),
            lacking=lacking[name],
        )
        for name in titles
    )
    return Summary(
        total=sum(diagnosis.board.physical.values()),
        wasted=sum(gpus.values()),
        parts=parts,
        whole=whole_gpus(diagnosis.board, _unusable(diagnosis.problems)),
    )


def _lacking(check: Check, evidence: Evidence) -> tuple[str, ...]:
    """What a check looks at and no file has. Clusters and snapshots say themselves what could not be read."""
    if evidence.taken_at or not evidence.documents:
        return ()
    given = {document.kind for document in evidence.documents}
    return tuple(name for kind, name in _KINDS.items() if name in check.looks_at and kind not in given)


def _unusable(problems: Iterable[Problem]) -> set[str]:
    """GPUs that cannot be given to anybody, although no claim holds them."""
    return {
        gpu
        for item in problems
        if item.check in ("ready", "dra") and item.lost.share == 1
        for gpu in item.lost.gpus
    }


def _wasted(problems: Iterable[Problem], physical: dict[str, int]) -> dict[str, float]:
    """Check → whole GPUs' worth."""
    shares: dict[str, tuple[str, float]] = {}
    for item in sorted(problems, key=lambda item: _ORDER.index(item.check)):
        share = item.lost.share or 0.0
        for gpu in item.lost.gpus:
            known = shares.get(gpu)
            if known is None or known[1] < share:
                shares[gpu] = (known[0] if known else item.check, share)
    by_node: dict[str, dict[str, float]] = {}
    for gpu, (check, share) in shares.items():
        node = by_node.setdefault(gpu.split("/", 1)[0], {})
        node[check] = node.get(check, 0.0) + share
    found: dict[str, float] = {}
    for name, losses in by_node.items():
        left = float(physical.get(name, 0)) or sum(losses.values())
        for check in _ORDER:
            lost = min(losses.get(check, 0.0), left)
            left -= lost
            found[check] = found.get(check, 0.0) + lost
    return found


def in_gpus(gpus: float) -> str:
    """``1 GPU``, ``2.5 GPUs``."""
    shown = quantity(gpus)
    return f"{shown} {'GPU' if shown == '1' else 'GPUs'}"


def quantity(gpus: float) -> str:
    """``13``, ``1.4``."""
    return f"{gpus:,.0f}" if abs(gpus - round(gpus)) < 0.05 else f"{gpus:,.1f}"
