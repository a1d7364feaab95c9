"""``baro diagnose``: are we wasting GPUs? Five checks on a cluster or on files; writes nothing to either."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from baro.cli.output import emit, output_option, progress, style
from baro.cli.sources import SourceOptions, open_source, source_options
from baro.model.errors import InputError, Where
from baro.model.findings import Severity

if TYPE_CHECKING:
    from baro.diagnosis.checks import Diagnosis
    from baro.diagnosis.report.summary import Summary

CHECK_NAMES = ("split", "counted", "stranded", "ready", "dra")
_READING = ("baro explain ", "baro place ")
"""Commands that read the same evidence."""
COLOURS: dict[str, dict[str, Any]] = {
    "answer": {"bold": True},
    "error": {"fg": "red"},
    "warning": {"fg": "yellow"},
    "info": {"fg": "cyan"},
    "quiet": {"dim": True},
}


@click.command("diagnose")
@source_options
@click.option(
    "--check",
    "checks",
    multiple=True,
    type=click.Choice(CHECK_NAMES),
    help="Run this check only (may be repeated).",
)
@click.option(
    "--html", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Also write a page."
)
@click.option(
    "--fail-on",
    type=click.Choice([*(severity.value for severity in Severity), "never"]),
    default=Severity.WARNING.value,
    show_default=True,
    help="Exit with 1 when a problem is at least this bad.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
@output_option("table", "wide", "json", "yaml")
def command(  # one parameter an option
    source: SourceOptions,
    checks: tuple[str, ...],
    html: Path | None,
    fail_on: str,
    quiet: bool,
    output: str,
) -> int:
    """Find GPUs that are wasted: split over slow links, counted without regard to links, stranded, not really
    ready, or held back by broken DRA.

    Reads the current context, or what --from names: kubectl dumps, a baro snapshot, kernel and kubelet logs,
    pod-resources dumps, nvidia-smi -q -x, topo -m, CDI specs. Problems are ranked by GPU-hours lost, as far
    as the evidence tells; every problem names a command that looks closer. Nothing is changed anywhere.
    """
    from baro.diagnosis.checks import diagnose  # noqa: PLC0415 - a lazy module imports on use
    from baro.diagnosis.report.summary import summarise  # noqa: PLC0415

    evidence = open_source(source, quiet=quiet)
    diagnosis = _as_printed(diagnose(evidence, checks or None), source.paths)
    summary = summarise(diagnosis)
    if html is not None:
        _write_page(html, diagnosis, summary, quiet=quiet)
    if output in ("json", "yaml"):
        from baro.diagnosis.report.document import document  # noqa: PLC0415

        emit(document(diagnosis, summary), output)
    else:
        _print(diagnosis, summary, wide=output == "wide")
    return _exit_code(diagnosis, fail_on)


def _as_printed(diagnosis: Diagnosis, paths: Sequence[str]) -> Diagnosis:
    """The diagnosis with the commands of baro reading what this call has read."""
    if not paths or "-" in paths:
        return diagnosis
    given = " ".join(f"--from {shlex.quote(path)}" for path in paths)
    problems = tuple(
        msgspec.structs.replace(
            item,
            next=tuple(
                f"{command} {given}" if command.startswith(_READING) else command for command in item.next
            ),
        )
        for item in diagnosis.problems
    )
    return msgspec.structs.replace(diagnosis, problems=problems)


def _exit_code(diagnosis: Diagnosis, fail_on: str) -> int:
    if fail_on == "never":
        return 0
    limit = Severity(fail_on).rank
    return int(any(item.severity.rank <= limit for item in diagnosis.problems))


def _print(diagnosis: Diagnosis, summary: Summary, *, wide: bool) -> None:
    from baro.diagnosis.report.text import lines  # noqa: PLC0415

    for kind, text in lines(diagnosis, summary, wide=wide):
        click.echo(style(text, **COLOURS[kind.value]) if kind.value in COLOURS else text)


def _write_page(file: Path, diagnosis: Diagnosis, summary: Summary, *, quiet: bool) -> None:
    from baro.diagnosis.report.page import page  # noqa: PLC0415

    text = page(diagnosis, summary)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write the page: {error.strerror or error}", where=Where(file=str(file))
        ) from error
    if not quiet:
        progress(f"wrote {file}")
