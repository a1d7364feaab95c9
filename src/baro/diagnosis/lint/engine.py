"""All rules over all documents: findings in order, and what is left of them after comments and options."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from baro.diagnosis.catalogue import Catalogue
from baro.diagnosis.lint import (  # noqa: F401 - a module of rules registers them when it is imported
    classes,
    constraints,
    expressions,
    planner,
    pods,
    requests,
    schema,
    slices,
    taints,
    templates,
    versions,
)
from baro.diagnosis.lint.manifest import Manifest
from baro.diagnosis.lint.registry import notes
from baro.diagnosis.lint.run import Note, Run, Target
from baro.model.convert import to_v1
from baro.model.edits import EditError, apply
from baro.model.errors import InputError
from baro.model.findings import Finding
from baro.model.load import Loaded

ROUNDS = 8
"""How often mending is repeated: a mended text may show what was hidden behind the mistake."""


class LintResult(msgspec.Struct, frozen=True, kw_only=True):
    """Findings of one document, and the document as it should be (``None`` when nothing is to mend)."""

    findings: tuple[Finding, ...] = ()
    mended: dict[str, Any] | None = None


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One document with everything that was found in it.

    ``server`` is what the API server of the target would answer to its creation: empty when it would accept,
    None where nothing is known of the kind.
    """

    document: Loaded
    notes: tuple[Note, ...] = ()
    server: str | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(note.finding for note in self.notes)


def judge(manifest: Manifest, run: Run) -> Judged:
    """One document of the run. Of a template that is not rendered only that is said."""
    raw = templates.unrendered(manifest)
    if raw is not None:
        return Judged(document=manifest.document, notes=(raw,))
    found = [note for note in notes(manifest, run) if not _silent(note, manifest, run)]
    said = schema.answer(manifest, run)
    return Judged(
        document=manifest.document,
        notes=tuple(_unique(found)),
        server=None if said is None else said.message,
    )


def _silent(note: Note, manifest: Manifest, run: Run) -> bool:
    return note.finding.code in run.ignored(manifest, note.finding.where)


def _unique(found: Iterable[Note]) -> list[Note]:
    kept: dict[tuple[object, ...], Note] = {}
    for note in found:
        where = note.finding.where
        place = (where.file, where.line, where.column) if where.line is not None else where
        kept.setdefault((note.finding.code, note.finding.message, place), note)
    return list(kept.values())


def lint_all(
    documents: Sequence[Loaded],
    catalogue: Catalogue,
    *,
    evidence: Sequence[Loaded | Manifest] = (),
    target: Target | None = None,
    silenced: frozenset[str] = frozenset(),
) -> tuple[Judged, ...]:
    """Judges ``documents`` together. ``evidence`` are more objects that may be referred to, not judged.

    ``catalogue`` is what devices publish, ``silenced`` the codes that are not wanted.
    """
    run = make_run(documents, catalogue, evidence=evidence, target=target, silenced=silenced)
    return tuple(judge(manifest, run) for manifest in run.manifests if not manifest.evidence)


def make_run(
    documents: Sequence[Loaded],
    catalogue: Catalogue,
    *,
    evidence: Sequence[Loaded | Manifest] = (),
    target: Target | None = None,
    silenced: frozenset[str] = frozenset(),
) -> Run:
    """See ``lint_all``. Evidence that several runs share can be given as manifests."""
    manifests = [Manifest(document) for document in documents]
    manifests += [one if isinstance(one, Manifest) else Manifest(one, evidence=True) for one in evidence]
    return Run(manifests, catalogue, target, silenced=silenced)


def lint(document: Loaded, catalogue: Catalogue, *, kube_version: str | None = None) -> LintResult:
    """All findings of one document alone, and the document mended as data."""
    target = Target(kube_version=kube_version)
    (judged,) = lint_all([document], catalogue, target=target)
    return LintResult(findings=judged.findings, mended=mended(document, judged, catalogue, target))


def mended(document: Loaded, judged: Judged, catalogue: Catalogue, target: Target) -> dict[str, Any] | None:
    """The document with all edits made, in the v1 shape; None when nothing changes."""
    body: dict[str, Any] = document.body
    for _ in range(ROUNDS):
        changed = body
        for note in judged.notes:
            try:
                changed = apply(changed, note.edits)
            except EditError:
                continue  # another note has made the change, or waits for it
        if changed == body:
            break
        body = changed
        (judged,) = lint_all([Loaded(body, document.where)], catalogue, target=target)
    with contextlib.suppress(InputError):
        body = to_v1(body)
    return None if body == document.body else body
