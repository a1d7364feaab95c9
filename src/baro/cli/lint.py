"""``baro lint``: findings about manifests, in one run, and the files mended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from baro.cli.features import gates_option
from baro.cli.lint_output import print_all
from baro.cli.lint_settings import Settings
from baro.cli.lint_work import Work, exit_code
from baro.cli.output import output_option
from baro.model.findings import Severity

if TYPE_CHECKING:
    from baro.cli.lint_server import Answer

KUBE_VERSIONS = ("1.34", "1.35", "1.36", "1.37", "1.38")


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
        from baro.cli import lint_files  # noqa: PLC0415 - only then are files written

        return _unread(work) or lint_files.mend(work, write=fix, show_diff=diff)
    judged = work.judge(work.documents)
    answers: list[Answer] = []
    if work.live is not None:
        answers = work.live.answers(judged)
        judged = tuple(work.live.noted(one, answer) for one, answer in zip(judged, answers, strict=True))
    print_all(work, judged, answers, output)
    return _unread(work) or exit_code(
        [finding for one in judged for finding in one.findings], settings.fail_on
    )


def _unread(work: Work) -> int:
    """Says which files could not be read; the exit code for it, 0 when all could."""
    from baro.cli import report as say  # noqa: PLC0415 - the group imports this module

    for error in work.unreadable:
        say(error)
    return 3 if work.unreadable else 0


def _codes(ignored: Sequence[str]) -> frozenset[str]:
    from baro.model.findings import table  # noqa: PLC0415 - the table is read when somebody names a code

    codes = frozenset(part.strip() for text in ignored for part in text.split(",") if part.strip())
    for code in sorted(codes - table().keys()):
        raise click.BadParameter(f"{code!r} is no code; docs/findings.md lists them.", param_hint="--ignore")
    return codes
