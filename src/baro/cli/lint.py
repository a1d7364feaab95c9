"""``baro lint``: findings about manifests, in one run, and the files mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from baro.cli.features import gate_changes, gates_option
from baro.cli.output import emit, output_option, progress, style
from baro.model.errors import InputError, Where
from baro.model.findings import Finding, Severity, ranked, worst
from baro.model.names import API_VERSION

if TYPE_CHECKING:
    from baro.cli.lint_server import Answer, Live
    from baro.diagnosis.catalogue import Catalogue
    from baro.diagnosis.lint import Judged, Target
    from baro.model.load import Loaded

COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_EMPTY = ("no object in it", "a list, not an object", "a text, not an object")
KUBE_VERSIONS = ("1.34", "1.35", "1.36", "1.37", "1.38")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for."""

    files: tuple[str, ...]
    evidence: tuple[str, ...] = ()
    kube_version: str | None = None
    gates: tuple[str, ...] = ()
    silenced: frozenset[str] = frozenset()
    fail_on: Severity = Severity.ERROR
    server: bool = False
    kubeconfig: str | None = None
    context: str | None = None
    url: str | None = None
    namespace: str | None = None


def lint_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of the command; it gets them as they are."""
    options: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = [
        click.argument("files", nargs=-1, required=True),
        click.option(
            "--kube-version", type=click.Choice(KUBE_VERSIONS), help="The Kubernetes version to judge for."
        ),
        gates_option,
        click.option(
            "--from",
            "evidence",
            metavar="PATH",
            multiple=True,
            help="Objects of the cluster to judge by (ResourceSlices, classes): a dump or a folder.",
        ),
        click.option(
            "--server", is_flag=True, help="Ask a live API server too, by dry run, and judge by its slices."
        ),
        click.option(
            "--kubeconfig", metavar="FILE", help="For --server. Default: $KUBECONFIG, ~/.kube/config."
        ),
        click.option("--context", metavar="NAME", help="For --server: context of the kubeconfig."),
        click.option("--url", metavar="URL", help="For --server: a server that asks for no credentials."),
        click.option("-n", "--namespace", metavar="NAME", help="For --server: of objects that name none."),
        click.option("--fix", is_flag=True, help="Mend the files in place; stdin goes to stdout."),
        click.option("--diff", is_flag=True, help="Show what --fix would change, and write nothing."),
        click.option("--mended", is_flag=True, help="Print the mended text of all files and no findings."),
        click.option(
            "--ignore", "ignored", metavar="CODE", multiple=True, help="Leave a code out (repeatable)."
        ),
        click.option(
            "--fail-on",
            type=click.Choice([severity.value for severity in Severity]),
            default=Severity.ERROR.value,
            show_default=True,
            help="Exit with 1 when a finding is at least this bad.",
        ),
        output_option("table", "wide", "json", "yaml", "sarif", "github"),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command("lint")
@lint_options
def command(
    fix: bool, diff: bool, mended: bool, ignored: tuple[str, ...], fail_on: str, output: str, **others: Any
) -> int:
    """Look at manifests in FILES (or - for stdin) and say everything that is wrong with what they say of DRA.

    Claims, templates, classes, slices, taint rules, pods and what makes pods are judged; other kinds are left
    alone. What devices publish comes from --from, from ResourceSlices in FILES, or from what is known of the
    drivers. A comment `# baro: ignore CODE` on a line or above it silences a code there.
    """
    if fix + diff + mended > 1:
        raise click.UsageError("give one of --fix, --diff and --mended")
    settings = Settings(silenced=_codes(ignored), fail_on=Severity(fail_on), **others)
    work = Work(settings)
    if fix or diff or mended:
        from baro.cli import lint_files  # noqa: PLC0415 - a lazy module imports on use

        return _unread(work) or lint_files.mend(work, write=fix, show_diff=diff)
    judged = work.judge(work.documents)
    answers: list[Answer] = []
    if work.live is not None:
        answers = work.live.answers(judged)
        judged = tuple(work.live.noted(one, answer) for one, answer in zip(judged, answers, strict=True))
    _print(work, judged, answers, output)
    return _unread(work) or exit_code(
        [finding for one in judged for finding in one.findings], settings.fail_on
    )


def _unread(work: Work) -> int:
    """Says which files could not be read; the exit code for it, 0 when all could."""
    from baro.cli import report as say  # noqa: PLC0415 - the group imports this module

    for error in work.unreadable:
        say(error)
    return 3 if work.unreadable else 0


def exit_code(findings: Sequence[Finding], fail_on: Severity) -> int:
    found = worst(findings)
    return int(found is not None and found.rank <= fail_on.rank)


def _codes(ignored: Sequence[str]) -> frozenset[str]:
    from baro.model.findings import table  # noqa: PLC0415 - the table is read when somebody names a code

    codes = frozenset(part.strip() for text in ignored for part in text.split(",") if part.strip())
    for code in sorted(codes - table().keys()):
        raise click.BadParameter(f"{code!r} is no code; docs/findings.md lists them.", param_hint="--ignore")
    return codes


class Work:
    """The documents and yardsticks of one call."""

    def __init__(self, settings: Settings) -> None:
        from baro.diagnosis import catalogue  # noqa: PLC0415 - a lazy module imports on use
        from baro.model.load import load_paths  # noqa: PLC0415

        self.settings = settings
        self.target = _target(settings)
        self.unreadable: list[InputError] = []
        """Files beside which others are judged all the same."""
        self.documents: tuple[Loaded, ...] = tuple(_documents(settings.files, self.unreadable))
        self.evidence: tuple[Loaded, ...] = load_paths(settings.evidence) if settings.evidence else ()
        self.live: Live | None = None
        if settings.server:
            from baro.cli.lint_server import Live  # noqa: PLC0415

            self.live = Live(settings)
            self.evidence += self.live.evidence
        self.catalogue: Catalogue = catalogue.of_documents((*self.documents, *self.evidence))

    def judge(self, documents: Sequence[Loaded], others: Sequence[Any] = ()) -> tuple[Judged, ...]:
        from baro.diagnosis.lint import lint_all  # noqa: PLC0415 - a lazy module imports on use

        return lint_all(
            documents,
            self.catalogue,
            evidence=(*others, *(one for one in self.evidence if one.kind != "ResourceSlice")),
            target=self.target,
            silenced=self.settings.silenced,
        )


def _documents(paths: Sequence[str], unreadable: list[InputError]) -> Iterator[Loaded]:
    """The objects of the paths. In a folder, files that hold something else (values and templates of a chart)
    are left out, and named. One of several files that cannot be read goes to ``unreadable``; the only one is
    an ``InputError``."""
    from baro.model.load import load_paths  # noqa: PLC0415 - a lazy module imports on use
    from baro.model.textio import Limits, files_below  # noqa: PLC0415

    for path in paths:
        folder = _is_folder(path)
        for file in files_below(Path(path), Limits()) if folder else [path]:
            try:
                yield from load_paths([file])
            except InputError as error:
                why = error.what
                if folder and (error.next_step or "").startswith("this is a template"):
                    why = "a template that is not rendered"
                elif not folder or (not why.startswith("Object '") and why not in _EMPTY):
                    if not folder and len(paths) == 1:
                        raise
                    unreadable.append(error)
                    continue
                progress(f"{file} is left out: {why}")


def _is_folder(path: str) -> bool:
    try:
        return path != "-" and Path(path).is_dir()
    except OSError:  # what is wrong with the path is said when it is read
        return False


def _target(settings: Settings) -> Target:
    from baro.diagnosis.lint import Target  # noqa: PLC0415 - a lazy module imports on use
    from baro.model.validation.rules import GATES, default_gates  # noqa: PLC0415

    if not settings.gates:
        return Target(kube_version=settings.kube_version)
    on = set(default_gates(settings.kube_version or "1.37"))
    for gate, value in gate_changes(settings.gates).items():
        if gate not in GATES:
            progress(f"{gate} is ignored: baro lint knows nothing that depends on it")
        on = on | {gate} if value else on - {gate}
    return Target(kube_version=settings.kube_version, gates=frozenset(on))


# --- printing --------------------------------------------------------------------------------------------


def _print(work: Work, judged: Sequence[Judged], answers: Sequence[Answer], output: str) -> None:
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
