"""The selectors of claims, templates and classes, each judged by the devices that it can meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from baro.diagnosis.catalogue import Catalogue
from baro.diagnosis.lint import reads, trials
from baro.diagnosis.lint.manifest import CLAIM_KINDS, Manifest, Request, mapping, selectors, text
from baro.diagnosis.lint.mends import compiled
from baro.diagnosis.lint.registry import note, rule
from baro.diagnosis.lint.run import Note, Run, class_expressions
from baro.diagnosis.lint.selectors import SelectorReport, inspect
from baro.model.edits import Edit, SetValue
from baro.model.names import SELECTOR_ANNOTATION, STANDARD_DOMAIN


@rule(*CLAIM_KINDS)
def in_claims(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Selectors of requests: by the devices of their class, where it is known."""
    if not manifest.dra:
        return
    for request in manifest.requests():
        scope = run.yardstick(request)
        for path, expression in request.selectors():
            yield from _judged(manifest, run, path, expression, scope)
        yield from _foreign(manifest, run, request)


@rule("DeviceClass")
def in_classes(manifest: Manifest, run: Run) -> Iterator[Note]:
    """Selectors of a class meet the devices of all drivers, in order."""
    if not manifest.dra:
        return
    found = list(selectors(mapping(manifest.body, "spec"), "spec"))
    for path, expression in found:
        yield from _judged(manifest, run, path, expression, _of_drivers(run, expression))
    annotations = mapping(manifest.body, "metadata", "annotations")
    hidden = text(annotations, SELECTOR_ANNOTATION)
    if hidden:
        path = f"metadata.annotations[{SELECTOR_ANNOTATION}]"
        yield from _judged(manifest, run, path, hidden, _of_drivers(run, hidden), server=False)
    yield from _unguarded(manifest, run, (), found)


def _of_drivers(run: Run, expression: str) -> Catalogue | None:
    """The devices of the driver that a selector names; None where it names none that is known."""
    program = compiled(expression)
    if program is None:
        return None
    named = tuple(
        sorted(driver for driver in reads.of(program.tree).drivers if driver in run.catalogue.drivers)
    )
    return run.only(named) if named else None


def _judged(
    manifest: Manifest, run: Run, path: str, expression: str, scope: Catalogue | None, server: bool = True
) -> Iterator[Note]:
    report = _inspected(run, expression, scope, run.ignored(manifest, path))
    edits = _edits(manifest, path, report)
    written = manifest.written(path)
    for problem in report.problems:
        where = run.places.where(manifest, path, problem.at)
        said = f"{written}: {problem.server}" if problem.server and server else ""
        yield note(problem.code, problem.message, where, *edits, replacement=report.mended, server=said)


def _inspected(run: Run, expression: str, scope: Catalogue | None, ignored: frozenset[str]) -> SelectorReport:
    """The report on a selector; many documents have the same ones."""
    key = (expression, id(scope), ignored)
    if key not in run.reports:
        found = inspect(
            expression,
            run.catalogue if scope is None else scope,
            whole=None if scope is None else run.catalogue,
            ignored=ignored,
            environment=run.target.environment,
        )
        run.reports[key] = found
        if not ignored:
            run.said[expression] = tuple(problem.server for problem in found.problems if problem.server)
    return run.reports[key]


def _edits(manifest: Manifest, path: str, report: SelectorReport) -> tuple[Edit, ...]:
    return () if report.mended is None else (SetValue(manifest.steps(path), report.mended),)


# --- devices of other drivers ----------------------------------------------------------------------------


def _foreign(manifest: Manifest, run: Run, request: Request) -> Iterator[Note]:
    """A request of a class that is at hand: are devices of other drivers kept away by one of the two?"""
    device_class = run.classes.get(request.class_name)
    if device_class is None:
        return
    before = class_expressions(device_class)
    if all(compiled(text) is not None for text in before) and trials.unguarded(before) is None:
        yield from _unguarded(manifest, run, before, list(request.selectors()))


def _unguarded(
    manifest: Manifest, run: Run, before: tuple[str, ...], found: Iterable[tuple[str, str]]
) -> Iterator[Note]:
    """Selectors in their order, after those in ``before``: an error on a device of another driver."""
    pairs = list(found)
    expressions = tuple(expression for _, expression in pairs)
    if any(compiled(expression) is None for expression in expressions):
        return
    failing = trials.unguarded((*before, *expressions))
    if failing is None:
        return
    index, name, domain = failing[0] - len(before), failing[1], failing[2]
    if index < 0:
        return
    path, expression = pairs[index]
    message = (
        f"on a device of another driver reading {domain}/{name} is an error:"
        " kube-scheduler then places the pod on no node that has one"
    )
    guard = f"device.driver == '{domain}'"
    edits: tuple[Edit, ...] = ()
    mended = None
    if domain != STANDARD_DOMAIN and not run.ignored(manifest, path) & {"unguarded-attribute"}:
        mended = f"{guard} && {_grouped(expression)}"
        if compiled(mended) is not None:
            edits = (SetValue(manifest.steps(path), mended),)
    where = run.places.where(manifest, path, max(expression.find(name), 0))
    remedy = f"Test the driver first: {guard} && …"
    yield note("unguarded-attribute", message, where, *edits, remedy=remedy, replacement=mended)


def _grouped(expression: str) -> str:
    return f"({expression})" if "||" in expression or "?" in expression else expression
