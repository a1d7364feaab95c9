"""``baro lint``: findings about manifests, in one run, with the mended text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from baro.cli.output import emit, output_option, progress, style
from baro.model.errors import Where
from baro.model.findings import Finding, Severity, ranked, worst
from baro.model.names import API_VERSION

COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


@click.command("lint")
@click.argument("files", nargs=-1, required=True)
@click.option("--kube-version", default="1.37", show_default=True, help="Kubernetes version to judge for.")
@click.option("--mended", is_flag=True, help="Print the mended manifests as YAML instead of the findings.")
@click.option(
    "--fail-on",
    type=click.Choice([severity.value for severity in Severity]),
    default=Severity.ERROR.value,
    show_default=True,
    help="Exit with 1 when a finding is at least this bad.",
)
@output_option("table", "json", "yaml")
def command(files: tuple[str, ...], kube_version: str, mended: bool, fail_on: str, output: str) -> int:
    """Look at claims, templates and classes in FILES (or - for stdin) and say everything that is wrong.

    Attributes and capacities are judged against the ResourceSlices in FILES when there are any, else
    against what NVIDIA's driver publishes.
    """
    import yaml  # noqa: PLC0415 - a lazy module imports on use

    from baro.diagnosis import catalogue, lint  # noqa: PLC0415
    from baro.model.load import load_paths  # noqa: PLC0415

    documents = load_paths(files)
    yardstick = catalogue.of_documents(documents)
    results = [lint.lint(document, yardstick, kube_version=kube_version) for document in documents]
    findings = ranked(item for result in results for item in result.findings)
    if mended:
        bodies = [
            result.mended if result.mended is not None else document.body
            for document, result in zip(documents, results, strict=True)
        ]
        click.echo(yaml.safe_dump_all(bodies, sort_keys=False, allow_unicode=True, width=200), nl=False)
    elif output == "table":
        print_findings(findings)
        progress(summary(findings, len(documents), yardstick.title))
    else:
        emit(report(findings), output)
    found = worst(findings)
    return int(found is not None and found.rank <= Severity(fail_on).rank)


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
            click.echo(f"{indent}  mended: {item.replacement}")
        else:
            click.echo(f"{indent}  remedy: {item.remedy}")


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


def report(findings: Sequence[Finding]) -> dict[str, Any]:
    """The findings as a document: ``{apiVersion, kind: LintReport, findings: […]}``."""
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
        }
        for item in findings
    ]
    return {"apiVersion": API_VERSION, "kind": "LintReport", "findings": items}
