"""An explanation as a document: ``Explanation``, the stable JSON of ``baro explain``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from baro.diagnosis.explain.result import Cause, Explanation, Group, Holding
from baro.model.findings import table
from baro.model.names import API_VERSION

KIND = "Explanation"


def document(said: Explanation) -> dict[str, Any]:
    """Everything that is known, with all nodes. Counts are devices; absent figures are null."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "subject": {"kind": said.kind, "namespace": said.namespace, "name": said.name},
        "verdict": said.verdict.value,
        "headline": said.headline,
        "node": said.node,
        "step": said.step.value if said.step else None,
        "causes": [_cause(item) for item in said.causes],
        "nodes": [_group(item) for item in said.groups],
        "nearMisses": [
            {
                "text": item.text,
                "nodes": item.nodes,
                "first": item.first,
                "changes": [_json(change) for change in item.changes],
            }
            for item in said.misses
        ],
        "scheduler": None if said.scheduler is None else _json(said.scheduler),
        "holdings": [_holding(item) for item in said.holdings],
        "notes": list(said.notes),
        "alike": list(said.alike),
    }


def documents(said: Sequence[Explanation]) -> dict[str, Any]:
    """One document, or a list of several."""
    if len(said) == 1:
        return document(said[0])
    return {"apiVersion": API_VERSION, "kind": f"{KIND}List", "items": [document(item) for item in said]}


def _holding(item: Holding) -> dict[str, Any]:
    return {
        "claim": item.claim,
        "node": item.node,
        "devices": list(item.devices),
        "line": item.line,
        "gbps": item.gbps,
        "slowestHop": item.slowest,
        "firstFit": {"devices": list(item.first_fit), "gbps": item.first_fit_gbps},
        "topology": {"devices": list(item.best), "gbps": item.best_gbps},
        "problems": list(item.problems),
    }


def _cause(item: Cause) -> dict[str, Any]:
    row = table().get(item.code)
    return {
        "code": item.code,
        "severity": row.severity.value if row else None,
        "message": item.message,
        "evidence": list(item.evidence),
        "next": item.next,
    }


def _group(item: Group) -> dict[str, Any]:
    said = item.answer
    return {
        "names": list(item.nodes),
        "count": len(item.nodes),
        "outcome": said.outcome,
        "step": said.step.value,
        "reason": said.reason,
        "error": said.error,
        "errorIsOnNodeOnly": said.on_node,
        "scheduler": list(said.scheduler),
        "devices": list(said.devices),
        "gbps": said.gbps,
        "requests": [
            {
                "claim": funnel.claim,
                "request": funnel.request,
                "wanted": funnel.wanted,
                "need": funnel.need,
                "class": funnel.device_class,
                "error": funnel.error,
                "stages": [_json(stage) for stage in funnel.stages],
            }
            for funnel in said.funnels
        ],
    }


def _json(value: msgspec.Struct) -> Any:
    return msgspec.to_builtins(value)
