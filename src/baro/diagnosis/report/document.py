"""A diagnosis as a document of JSON types: ``{apiVersion, kind: Diagnosis, summary, problems, …}``."""

from __future__ import annotations

from typing import Any

from baro.diagnosis.checks import Diagnosis, Problem
from baro.diagnosis.report.summary import Summary
from baro.model.names import API_VERSION

KIND = "Diagnosis"


def document(diagnosis: Diagnosis, summary: Summary) -> dict[str, Any]:
    """The whole report. Unknown figures are null. The same evidence gives the same document."""
    evidence = diagnosis.board.evidence
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "origin": evidence.origin,
        "takenAt": evidence.taken_at or None,
        "serverVersion": evidence.server_version or None,
        "summary": {
            "answer": summary.sentence,
            "gpus": summary.total,
            "wasted": round(summary.wasted, 2),
            "freeWholeGpus": summary.whole.free,
            "setsLeft": {str(size): number for size, number in summary.whole.sets.items()},
            "checks": [
                {
                    "name": part.check,
                    "title": part.title,
                    "problems": part.problems,
                    "gpus": round(part.gpus, 2),
                    "unknownCost": part.unknown,
                    "ran": part.check in diagnosis.ran,
                    "lacking": list(part.lacking),
                }
                for part in summary.parts
            ],
        },
        "problems": [_problem(item) for item in diagnosis.problems],
        "skipped": [
            {"check": item.check, "why": item.why, "next": item.next_step or None}
            for item in diagnosis.skipped
        ],
        "missing": [
            {
                "source": item.source,
                "why": item.why,
                "next": item.next_step or None,
                "partial": item.partial,
            }
            for item in evidence.missing
        ],
        "unreadable": [{"where": str(item.where), "why": item.what} for item in evidence.unreadable],
    }


def _problem(item: Problem) -> dict[str, Any]:
    lost = item.lost
    return {
        "code": item.code,
        "check": item.check,
        "severity": item.severity.value,
        "title": item.title,
        "message": item.message,
        "subject": item.subject or None,
        "node": item.node,
        "evidence": list(item.evidence),
        "next": list(item.next),
        "remedy": item.remedy,
        "lost": {
            "gpus": len(lost.gpus),
            "share": None if lost.share is None else round(lost.share, 3),
            "hours": None if lost.hours is None else round(lost.hours, 2),
            "gpuHours": None if lost.gpu_hours is None else round(lost.gpu_hours, 2),
            "basis": lost.basis or None,
        },
        "facts": dict(item.facts),
    }
