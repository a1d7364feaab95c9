"""What ``baro lint`` prints: findings for people, for programs and for code hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from baro.cli.output import emit, progress, style
from baro.model.errors import Where
from baro.model.findings import Finding, Severity, ranked
from baro.model.names import API_VERSION

if TYPE_CHECKING:
    from baro.cli.lint_server import Answer
    from baro.cli.lint_work import Work
    from baro.diagnosis.lint import Judged

COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def print_all(work: Work, judged: Sequence[Judged], answers: Sequence[Answer], output: str) -> None:
    findings = ranked(finding for one in judged for finding in one.findings)
    if output == "sarif":
        from importlib.metadata import version  # noqa: PLC0415

        from baro.diagnosis.lint.sarif import sarif  # noqa: PLC0415

        emit(sarif(judged, version("baro")), "json")
    elif output == "github":
        for item in findings:
            click.echo(github(item))
    elif output in ("json", "yaml"):
        emit(report(findings, judged, answers), output)
    else:
        print_findings(findings)
        if output == "wide" or answers:
            print_answers(judged, answers)
        progress(summary(findings, len(judged), work.catalogue.title))


def print_findings(findings: Sequence[Finding], indent: str = "") -> None:
    """One block a finding: severity, code and place; what; the mended text or the remedy."""
    last = {item.replacement: index for index, item in enumerate(findings)}
    for index, item in enumerate(findings):
        head = style(item.severity.value, fg=COLOURS[item.severity], bold=True)
        click.echo(f"{indent}{head} {item.code}  {_place(item.where)}")
        click.echo(f"{indent}  {item.message}")
        if item.replacement is not None and last[item.replacement] > index:
            continue  # the same mended text follows below the last finding that it answers
        if item.replacement is not None:
            text = item.replacement.replace("\n", f"\n{indent}    ")
            click.echo(
                f"{indent}  mended: {text}" if "\n" not in text else f"{indent}  mended:\n{indent}    {text}"
            )
        else:
            click.echo(f"{indent}  remedy: {item.remedy}")


def print_answers(judged: Sequence[Judged], answers: Sequence[Answer]) -> None:
    """What the API server says to each document: offline and, if one was asked, live."""
    for index, one in enumerate(judged):
        said = {None: "no rules for this kind", "": "accepted"}.get(one.server, one.server) or ""
        click.echo(f"{one.document.where}")
        click.echo("  offline: " + said.replace("\n", "\n           "))
        if answers:
            click.echo("  server:  " + answers[index].shown().replace("\n", "\n           "))


def _place(where: Where) -> str:
    """``file:line:column`` says enough in a terminal; without a line, everything that is known."""
    if where.file is None or where.line is None:
        return str(where)
    return str(Where(file=where.file, line=where.line, column=where.column))


def summary(findings: Sequence[Finding], documents: int, yardstick: str) -> str:
    """One line for stderr."""
    counts = ", ".join(
        f"{count} {severity.value}{'s' if count > 1 and severity is not Severity.INFO else ''}"
        for severity in Severity
        if (count := sum(item.severity is severity for item in findings))
    )
    plural = "s" if documents != 1 else ""
    return f"{documents} document{plural}, judged against {yardstick}: {counts or 'no findings'}"


def github(item: Finding) -> str:
    """A finding as an annotation of GitHub Actions."""

    def data(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def prop(text: object) -> str:
        return data(str(text)).replace(":", "%3A").replace(",", "%2C")

    level = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}[item.severity]
    named = {"file": item.where.file, "line": item.where.line, "col": item.where.column, "title": item.code}
    props = ",".join(f"{key}={prop(value)}" for key, value in named.items() if value is not None)
    return f"::{level} {props}::{data(f'{item.message}. {item.remedy}')}"


def report(
    findings: Sequence[Finding], judged: Sequence[Judged] = (), answers: Sequence[Answer] = ()
) -> dict[str, Any]:
    """The findings as a document: ``{apiVersion, kind: LintReport, findings: […], documents: […]}``."""
    server = {note.finding: note for one in judged for note in one.notes}
    items = [
        {
            "code": item.code,
            "severity": item.severity.value,
            "message": item.message,
            "file": item.where.file,
            "line": item.where.line,
            "column": item.where.column,
            "object": item.where.object,
            "path": item.where.path,
            "remedy": item.remedy,
            "replacement": item.replacement,
            "server": server[item].server or None if item in server else None,
            "fixable": bool(server[item].edits) if item in server else False,
        }
        for item in findings
    ]
    documents = [
        {
            "file": one.document.where.file,
            "line": one.document.where.line,
            "object": one.document.where.object,
            "accepted": None if one.server is None else not one.server,
            "message": one.server or None,
            **({"server": answers[index].document()} if answers else {}),
        }
        for index, one in enumerate(judged)
    ]
    return {"apiVersion": API_VERSION, "kind": "LintReport", "findings": items, "documents": documents}
