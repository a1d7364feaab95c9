"""``baro lint --fix``, ``--diff`` and ``--mended``: whole files mended, shown or written."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from baro.cli.lint_work import Work, exit_code
from baro.cli.output import progress
from baro.model.findings import Finding

if TYPE_CHECKING:
    from baro.diagnosis.lint.fixing import Fixed
    from baro.diagnosis.lint.manifest import Manifest
    from baro.model.load import Loaded
    from baro.model.textio import Text


def mend(work: Work, *, write: bool, show_diff: bool) -> int:
    """Mends every file of the call. Exit code 1 when findings at or above ``--fail-on`` are left."""
    from baro.diagnosis.lint.manifest import Manifest  # noqa: PLC0415 - a lazy module imports on use

    files = _by_text(work.documents)
    manifests = {id(text): [Manifest(one, evidence=True) for one in found] for text, found in files}
    left: list[Finding] = []
    fixed = changed = 0
    for text, _ in files:
        others = [one for key, found in manifests.items() if key != id(text) for one in found]
        result, remaining = _mended(work, text, others)
        left += remaining
        old = text.data.decode()
        fixed += len(result.fixed)
        changed += result.text != old
        _hand_over(text, old, result, write=write, show_diff=show_diff)
        for finding in result.left:
            progress(f"{finding.where}: {finding.code} is not mended: its text cannot be changed in place")
    verb = "mended" if write else "can be mended"
    found = f"{fixed} finding{'s' if fixed != 1 else ''}"
    progress(f"{found} {verb} in {changed} of {len(files)} files; {len(left)} left")
    return exit_code(left, work.settings.fail_on)


def _by_text(documents: Sequence[Loaded]) -> list[tuple[Text, list[Loaded]]]:
    found: dict[int, tuple[Text, list[Loaded]]] = {}
    for document in documents:
        source = document.source
        if source is not None:
            found.setdefault(id(source.text), (source.text, []))[1].append(document)
    return list(found.values())


def _mended(work: Work, text: Text, others: Sequence[Manifest]) -> tuple[Fixed, list[Finding]]:
    """The text mended, and the findings that the mended text still has."""
    from baro.diagnosis.lint.fixing import fix  # noqa: PLC0415 - a lazy module imports on use

    last: list[Finding] = []

    def judge(documents: Sequence[Loaded]) -> Sequence[object]:
        judged = work.judge(documents, others)
        last[:] = [finding for one in judged for finding in one.findings]
        return judged

    return fix(text.data.decode(), text.file, judge), last  # type: ignore[arg-type]


def _hand_over(text: Text, old: str, result: Fixed, *, write: bool, show_diff: bool) -> None:
    from baro.model.load import STDIN  # noqa: PLC0415 - a lazy module imports on use
    from baro.model.textio import replace_file  # noqa: PLC0415

    if show_diff:
        lines = difflib.unified_diff(
            old.splitlines(keepends=True), result.text.splitlines(keepends=True), text.file, text.file
        )
        for line in lines:
            click.echo(line, nl=not line.endswith("\n"))
    elif write and text.file != STDIN:
        if result.text != old:
            replace_file(Path(text.file), text, result.text)
    else:
        click.echo(result.text, nl=not result.text.endswith("\n"))
