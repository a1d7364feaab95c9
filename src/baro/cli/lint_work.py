"""One call of ``baro lint``: its documents, what they are judged by, and what that says in an exit code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baro.cli.features import gate_changes
from baro.cli.lint_settings import Settings
from baro.cli.output import progress
from baro.model.errors import InputError
from baro.model.findings import Finding, Severity, worst

if TYPE_CHECKING:
    from baro.cli.lint_server import Live
    from baro.diagnosis.catalogue import Catalogue
    from baro.diagnosis.lint import Judged, Target
    from baro.model.load import Loaded

_EMPTY = ("no object in it", "a list, not an object", "a text, not an object")


def exit_code(findings: Sequence[Finding], fail_on: Severity) -> int:
    found = worst(findings)
    return int(found is not None and found.rank <= fail_on.rank)


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
