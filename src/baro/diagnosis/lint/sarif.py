"""Findings for code scanners: SARIF 2.1.0, with regions, rules and fixes.

Source: OASIS Static Analysis Results Interchange Format 2.1.0. Columns count characters, as in our own
reports; a fix lists the characters to delete and the text to insert.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from baro.diagnosis.lint.engine import Judged
from baro.diagnosis.lint.places import Places, line_and_column
from baro.diagnosis.lint.run import Note
from baro.model.findings import Severity, table
from baro.model.rewrite import planned

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def sarif(judged: Sequence[Judged], version: str) -> dict[str, Any]:
    """The whole report as JSON types. ``version`` is baro's."""
    places = Places()
    pairs = [(one, note) for one in judged for note in one.notes]
    codes = sorted({note.finding.code for _, note in pairs})
    index = {code: number for number, code in enumerate(codes)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "baro", "version": version, "rules": [_rule(c) for c in codes]}},
                "columnKind": "unicodeCodePoints",
                "results": [
                    _result(one, note, index[note.finding.code], places)
                    for one, note in sorted(pairs, key=_order)
                ],
            }
        ],
    }


def _order(pair: tuple[Judged, Note]) -> tuple[str, int, int, str]:
    where = pair[1].finding.where
    return where.file or "", where.line or 0, where.column or 0, pair[1].finding.code


def _rule(code: str) -> dict[str, Any]:
    row = table()[code]
    return {
        "id": code,
        "shortDescription": {"text": f"{row.title}."},
        "fullDescription": {"text": row.explanation},
        "help": {"text": row.remedy},
        "defaultConfiguration": {"level": _LEVELS[row.severity]},
    }


def _result(judged: Judged, note: Note, rule_index: int, places: Places) -> dict[str, Any]:
    finding = note.finding
    where = finding.where
    key = "\0".join((finding.code, where.file or "", where.object or "", where.path or "", finding.message))
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [_location(note)],
        "partialFingerprints": {"finding/v1": hashlib.sha256(key.encode()).hexdigest()[:32]},
    }
    fixes = _fixes(judged, note, places)
    return {**result, "fixes": fixes} if fixes else result


def _location(note: Note) -> dict[str, Any]:
    where = note.finding.where
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri(where.file or "stdin")}}
    if where.line is not None:
        region = {"startLine": where.line}
        if where.column is not None:
            region["startColumn"] = where.column
        physical["region"] = region
    location: dict[str, Any] = {"physicalLocation": physical}
    if where.object:
        logical = {"name": where.object, "kind": "object"}
        if where.path:
            logical["fullyQualifiedName"] = f"{where.object}: {where.path}"
        location["logicalLocations"] = [logical]
    return location


def uri(file: str) -> str:
    """A file name as a URI reference."""
    plain = file.replace("\\", "/")
    return f"file://{quote(plain)}" if plain.startswith("/") else quote(plain)


def _fixes(judged: Judged, note: Note, places: Places) -> list[dict[str, Any]]:
    source = judged.document.source
    root = places.root(source) if source is not None and note.edits else None
    if source is None or root is None:
        return []
    text = places.text_of(source)
    found = planned(text, root, [note.edits], json_text=source.offset is not None)
    changes = found[0][1] if found else []
    replacements = [
        {"deletedRegion": _region(text, start, end), "insertedContent": {"text": new}}
        for start, end, new in changes
    ]
    change = {"artifactLocation": {"uri": uri(source.text.file)}, "replacements": replacements}
    return (
        [{"description": {"text": note.finding.remedy}, "artifactChanges": [change]}] if replacements else []
    )


def _region(text: str, start: int, end: int) -> dict[str, int]:
    first, last = line_and_column(text, start), line_and_column(text, end)
    return {"startLine": first[0], "startColumn": first[1], "endLine": last[0], "endColumn": last[1]}
