"""One CEL selector: does it compile, would it ever match, and what was meant.

Two ways of judging. The tree shows what is read and what it is compared with: names that nobody publishes,
types that never agree. Evaluation on typical devices shows what would happen: thresholds that are just
missed, errors in kube-scheduler. What is mended is the text, in the few shapes that people really write; each
proposal compiles before it is offered.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

import msgspec

from baro.cel import MAX_COST, MAX_EXPRESSION_BYTES, CelCompileError, Program, compile_selector
from baro.cel.environment import EnvironmentName
from baro.diagnosis.catalogue import Catalogue
from baro.diagnosis.lint import naming, products, reads, thresholds, trials, values
from baro.diagnosis.lint.found import Found
from baro.diagnosis.lint.mends import compiled, mended
from baro.diagnosis.lint.reads import Read, Reads
from baro.diagnosis.published import known_drivers
from baro.model.names import STANDARD_DOMAIN
from baro.model.validation.causes import shown

_ROUNDS: Final = 8


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with an expression. ``at`` is the character it points to, where that is known.

    ``server`` is the API server's own message, for what the server refuses.
    """

    code: str
    message: str
    at: int | None = None
    server: str = ""


class SelectorReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with one expression, in the order found, and the mended text."""

    problems: tuple[Problem, ...] = ()
    line: int | None = None
    """Position of a compile error within the expression, counted from 1."""
    column: int | None = None
    mended: str | None = None

    @property
    def codes(self) -> list[str]:
        return [problem.code for problem in self.problems]


def inspect(
    expression: str,
    catalogue: Catalogue,
    *,
    whole: Catalogue | None = None,
    ignored: frozenset[str] = frozenset(),
    environment: EnvironmentName = "admission",
) -> SelectorReport:
    """All problems of one selector in one go: what is behind a syntax error is looked at too.

    ``catalogue`` holds the devices that the selector can meet (``of_class``), ``whole`` all that is
    known, for hints; without it the selector may meet any device. Codes in ``ignored`` are neither
    said nor mended.
    """
    work = _Work(expression, ignored)
    devices = catalogue if whole is not None else trials.whole_devices(catalogue, expression)
    work.compile(whole or catalogue, environment)
    for _ in range(_ROUNDS):
        program = compiled(work.text)
        if program is None or not work.take(_found(work.text, program, devices, whole)):
            break
    program = compiled(work.text)
    if program is not None:
        work.take(thresholds.unreachable(work.text, program, devices))
        _evaluated(work, compiled(work.text), devices, of_class=whole is not None)
    changed = work.text != expression
    offered = work.text if changed and compiled(work.text, environment) is not None else None
    return SelectorReport(problems=tuple(work.problems), line=work.line, column=work.column, mended=offered)


class _Work:
    """An expression under repair: the text as it is by now, and what was found."""

    def __init__(self, expression: str, ignored: frozenset[str]) -> None:
        self.original = self.text = expression
        self.ignored = ignored
        self.problems: list[Problem] = []
        self.line: int | None = None
        self.column: int | None = None

    def say(self, code: str, message: str, at: int | None = None, server: str = "") -> None:
        problem = Problem(code, message, at, server)
        if code not in self.ignored and all((code, message) != (p.code, p.message) for p in self.problems):
            self.problems.append(problem)

    def compile(self, catalogue: Catalogue, environment: EnvironmentName) -> None:
        """What the API server says about length, syntax, types and cost."""
        size = len(self.text.encode("utf-8", "surrogatepass"))
        if size > MAX_EXPRESSION_BYTES:
            message = f"the expression has {size} bytes, the limit is {MAX_EXPRESSION_BYTES}"
            server = f"Too long: may not be more than {MAX_EXPRESSION_BYTES} bytes"
            self.say("cel-too-long", message, server=server)
            return
        try:
            program = compile_selector(self.text, environment)
        except CelCompileError as error:
            self.refused(error, catalogue, environment)
            return
        cost = program.cost_estimate.max
        if cost > MAX_COST:
            message = f"too complex: an evaluation may cost {_number(cost)}, the limit is {_number(MAX_COST)}"
            self.say("cel-too-costly", message, server="Forbidden: too complex, exceeds cost limit")
        elif cost * 2 > MAX_COST:
            message = f"an evaluation may cost {_number(cost)} of {_number(MAX_COST)}"
            self.say("cel-costly", message)

    def refused(self, error: CelCompileError, catalogue: Catalogue, environment: EnvironmentName) -> None:
        code = "cel-syntax" if "Syntax error" in error.message else "cel-compile"
        self.line, self.column = error.line, error.column
        at = _offset(self.text, error.line, error.column)
        server = f"Invalid value: {shown(self.text)}: {error.message}"
        self.say(code, headline(error.message), at, server)
        if code not in self.ignored:
            self.text = mended(self.text, catalogue, environment) or self.text

    def take(self, found: Iterator[Found]) -> bool:
        """Notes what was found and makes the changes; whether the text changed."""
        changes: list[tuple[int, int, str]] = []
        for one in found:
            if one.code in self.ignored:
                continue
            self.say(one.code, one.message, self.place(one))
            if one.new is not None and all(one.end <= a or one.start >= b for a, b, _ in changes):
                changes.append((one.start, one.end, one.new))
        text = self.text
        for start, end, new in sorted(changes, reverse=True):
            text = text[:start] + new + text[end:]
        if text == self.text or compiled(text) is None:
            return False
        self.text = text
        return True

    def place(self, found: Found) -> int | None:
        """The place in the text as it was written: mends before may have moved it."""
        if self.text == self.original:
            return found.start
        part = self.text[found.start : found.end]
        for text in (part, part.strip("'\"")):
            at = self.original.find(text)
            if text and at >= 0:
                return at
        return None


def headline(message: str) -> str:
    """The first line of a compile error, without the picture of the source below it."""
    return message.splitlines()[0] if message else message


def _number(cost: int) -> str:
    return f"{cost:,}" if cost < 2**63 else "any amount"


def _offset(text: str, line: int | None, column: int | None) -> int | None:
    if line is None or column is None or line < 1 or column < 1:
        return None
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return min(start + column - 1, max(len(text) - 1, 0))


# --- what the tree shows ---------------------------------------------------------------------------------


def _found(text: str, program: Program, scope: Catalogue, whole: Catalogue | None) -> Iterator[Found]:
    read = reads.of(program.tree)
    yield from values.constants(text, read)
    yield from values.comparisons(text, read, scope)
    yield from products.products(text, read, scope)
    yield from naming.drivers(text, read, whole or scope)
    for one in read.reads:
        yield from _unknown(text, program, one, read, scope, whole)


def _unknown(
    text: str, program: Program, read: Read, all_reads: Reads, scope: Catalogue, whole: Catalogue | None
) -> Iterator[Found]:
    """A read of what nobody publishes. Guarded reads do not fail and are fine."""
    if read.guarded or read.key in all_reads.guards:
        return
    what, code = read.kind, f"unknown-{read.kind}"
    if not scope.knows_domain(read.domain):
        if read.domain != STANDARD_DOMAIN:
            yield from _elsewhere(text, program, read, scope, whole)
        return
    known = scope.attribute_names() if what == "attribute" else scope.capacity_names()
    if read.full in known:
        if trials.measured_lack(program, read, scope):
            message = f"some devices in the ResourceSlices given have no {what} {read.full}"
            yield Found("attribute-missing-on-some", message, read.start, read.end)
        return
    if _conditional(read, scope) and not trials.fails_on(program, read.name, scope):
        return
    title = scope.title_of(read.domain)
    new, hint = _meant(text, read, all_reads, scope)
    suffix = f"; {hint}" if hint else ""
    if not scope.certain(read.domain):
        if new is not None:
            message = f"{read.full} is not among what {title} is known to publish{suffix}"
            yield Found("attribute-not-seen", message, read.start, read.end)
        return
    message = f"{title} {publishes(title)} no {what} {read.full}{suffix}"
    start, end, replacement = new or (read.start, read.end, None)
    yield Found(code, message, start, end, replacement)


def _elsewhere(
    text: str, program: Program, read: Read, scope: Catalogue, whole: Catalogue | None
) -> Iterator[Found]:
    """A read in a domain in which none of the devices publishes anything: another driver's, or a slip."""
    names = scope.attribute_names() if read.kind == "attribute" else scope.capacity_names()
    near = naming.nearest(read.domain, {full.rpartition("/")[0] for full in names})
    new = _written(text, read, near, read.name) if near and f"{near}/{read.name}" in names else None
    hint = f"; {read.name} stands in {near}" if new else f"; the nearest is {near}" if near else ""
    if whole is not None and scope.drivers and all(one.facts.certain for one in scope.drivers.values()):
        if trials.fails_on(program, read.name, scope):
            message = f"{scope.title} {publishes(scope.title)} nothing in the domain {read.domain}{hint}"
            yield Found(f"unknown-{read.kind}", message, read.start, read.end, new)
    elif new is not None:
        message = f"no driver that is known publishes in the domain {read.domain}{hint}"
        yield Found("attribute-not-seen", message, read.start, read.end)


def publishes(title: str) -> str:
    """The verb for one driver or several."""
    return "publish" if " and " in title else "publishes"


def _conditional(read: Read, scope: Catalogue) -> bool:
    """Whether the slices lack a name that the driver publishes for other devices."""
    for driver, one in scope.drivers.items():
        facts = known_drivers().get(driver) if one.measured else None
        if facts is not None and (read.full in facts.attributes or read.full in facts.all_capacities()):
            return True
    return False


def _meant(
    text: str, read: Read, all_reads: Reads, scope: Catalogue
) -> tuple[tuple[int, int, str] | None, str]:
    """(what to replace by what, the words for it) where it can be known what was meant."""
    attributes, capacities = scope.attribute_names(), scope.capacity_names()
    same, other = (attributes, capacities) if read.kind == "attribute" else (capacities, attributes)
    if read.full in other:
        kind = "capacity" if read.kind == "attribute" else "attribute"
        holder = "capacity" if kind == "capacity" else "attributes"
        new = f"device.{holder}['{read.domain}'].{read.name}"
        return (read.start, read.end, new), f"{read.name} is {'a' if kind == 'capacity' else 'an'} {kind}"
    if read.name in same and "/" in read.name:
        domain, _, name = read.name.rpartition("/")
        return (
            read.start,
            read.end,
            _written(text, read, domain, name),
        ), "attributes are grouped by domain first"
    standard = f"{STANDARD_DOMAIN}/{read.name}"
    if standard in same:
        new = _written(text, read, STANDARD_DOMAIN, read.name)
        return (read.start, read.end, new), f"{read.name} stands in the domain {STANDARD_DOMAIN}"
    published = sorted(name.rpartition("/")[2] for name in same if name.rpartition("/")[0] == read.domain)
    meant = scope.meant(read.domain, read.name) if read.kind == "attribute" else None
    if meant in published:
        former = any(
            read.name in one.facts.former for one in scope.drivers.values() if one.facts.driver == read.domain
        )
        words = f"older releases did; use {meant}" if former else f"use {meant}"
        return _in_place_of(text, read, str(meant), all_reads), words
    near = difflib.get_close_matches(read.name, published, n=1, cutoff=0.75)
    if near:
        new = _written(text, read, read.domain, near[0])
        return (read.start, read.end, new), f"the nearest is {near[0]}"
    return None, f"it publishes {', '.join(published)}" if published else ""


def _written(text: str, read: Read, domain: str, name: str) -> str:
    """A read in the quotes of the one that stands there."""
    quote = '"' if '"' in text[read.start : read.end] else "'"
    holder = "attributes" if read.kind == "attribute" else "capacity"
    return f"device.{holder}[{quote}{domain}{quote}].{name}"


def _in_place_of(text: str, read: Read, name: str, all_reads: Reads) -> tuple[int, int, str] | None:
    """Product names are long and are compared by containment: ``model == 'H100'`` is
    ``productName.contains('H100')``. Where an index was meant nothing takes its place."""
    new = _written(text, read, read.domain, name)
    for comparison in all_reads.comparisons:
        same = comparison.read == read and name == "productName"
        if same and comparison.operator == "==" and comparison.type == "string":
            constant = text[slice(*comparison.literal)]
            return comparison.start, comparison.end, f"{new}.contains({constant})"
    if name == "uuid" and read.name != "gpuUUID":
        return None  # an index is no UUID
    return read.start, read.end, new


# --- what evaluation shows -------------------------------------------------------------------------------


def _evaluated(work: _Work, program: Program | None, scope: Catalogue, *, of_class: bool) -> None:
    """Errors on every device, and selectors that none of the devices given matches."""
    if program is None or any(problem.code != "cel-costly" for problem in work.problems):
        return
    error = trials.always_fails(program, scope)
    if error is not None:
        work.say("cel-runtime-error", f"evaluation fails on every device: {error}", 0)
        return
    message = trials.matches_nothing(work.text, program, scope)
    if message is None and of_class:
        message = trials.never(work.text, program, scope)
    if message is not None:
        work.say("selector-matches-nothing", message, 0)
