"""An explanation in a terminal: the answer first, then a table of nodes, then what would do. One screen.

``wide`` has every node on a line of its own and nothing left out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from baro.diagnosis.explain.funnel import some
from baro.diagnosis.explain.kinds import FILTERED
from baro.diagnosis.explain.result import (
    Answer,
    Explanation,
    Funnel,
    Group,
    Holding,
    Miss,
    MissKind,
    Stage,
    Step,
    Verdict,
)

WIDTH = 110
_MOST_GROUPS = 5
_MOST_CAUSES = 3
_MOST_EVIDENCE = 4
_MOST_MISSES = 4
_MOST_RELEASES = 2
_MOST_NOTES = 3
_LONGEST = 200
_LONGEST_WHY = 72


def lines(said: Explanation, *, wide: bool = False) -> list[str]:
    """The lines of one explanation, without colour."""
    word = "" if said.verdict is Verdict.PLACED else f"{said.verdict.value}: "
    found = list(_wrapped(f"{said.title}{_and_others(said)}: {word}{said.headline}", "  "))
    for cause in said.causes[: None if wide else _MOST_CAUSES]:
        found += _cause(cause.code, cause.message, cause.evidence, cause.next, said.headline, wide=wide)
    hidden = len(said.causes) - _MOST_CAUSES
    if hidden > 0 and not wide:
        found.append(f"  and {hidden} more causes: -o wide")
    for item in said.holdings:
        found += _holding(item)
    found += _tables(said.groups, wide=wide)
    if said.misses:
        found += _misses(said.misses, wide=wide)
    elif said.verdict in (Verdict.PENDING, Verdict.ERROR) and _none_does(said.groups):
        found.append("no single change that baro tries would make it fit")
    if said.scheduler is not None:
        found += _scheduler(said)
    for note in said.notes[: None if wide else _MOST_NOTES]:
        found += _wrapped(f"note: {note}", "  ")
    return found


def _and_others(said: Explanation) -> str:
    if not said.alike:
        return ""
    return f" and {len(said.alike)} like it ({some(said.alike, 3)})"


def _none_does(groups: Sequence[Group]) -> bool:
    """Whether devices were asked for and nobody had them."""
    steps = [group.answer.step for group in groups if group.answer.outcome != FILTERED]
    return bool(steps) and Step.FITS not in steps


def _cause(
    code: str, message: str, evidence: Sequence[str], step: str, headline: str, *, wide: bool
) -> Iterator[str]:
    if message != headline:
        yield from _wrapped(f"  also: {message}", "    ")
    for item in evidence[: None if wide else _MOST_EVIDENCE]:
        yield from _wrapped(f"  - {item if wide else _short(item)}", "    ")
    if len(evidence) > _MOST_EVIDENCE and not wide:
        yield f"    and {len(evidence) - _MOST_EVIDENCE} more: -o wide"
    if step:
        yield from _wrapped(f"  next: {step}  [{code}]", "    ")
    else:
        yield f"  [{code}]"


def _holding(item: Holding) -> Iterator[str]:
    yield from _wrapped(f"  {item.claim}: {', '.join(item.devices)}", "    ")
    if len(item.devices) > 1:
        yield f"    ring: {_gbps(item.gbps)}" + (f", slowest hop {item.slowest}" if item.slowest else "")
    if item.first_fit and set(item.first_fit) != set(item.devices):
        worth = f" ({_gbps(item.first_fit_gbps)})" if len(item.devices) > 1 else ""
        yield f"    kube-scheduler's first fit would take: {', '.join(item.first_fit)}{worth}"
    elif item.first_fit:
        yield "    kube-scheduler's first fit would take the same devices"
    if item.best_gbps is not None and item.gbps is not None and item.best_gbps > item.gbps:
        yield f"    split: policy topology would take {', '.join(item.best)} ({_gbps(item.best_gbps)})"
    for problem in item.problems:
        yield f"    problem: {problem}"


def _gbps(value: float | None) -> str:
    return "GB/s not known" if value is None else f"{value:.4g} GB/s"


def _misses(misses: Sequence[Miss], *, wide: bool) -> Iterator[str]:
    """One line each; releases of one holder on one node are one line, and two nodes of them are enough."""
    yield "what would do, each tried on the allocator:"
    texts: list[str] = []
    singles: dict[str, list[str]] = {}
    for miss in misses:
        if miss.changes[0].kind is MissKind.RELEASE and len(miss.changes) == 1 and not wide:
            holder = miss.text.partition("freeing ")[2].removesuffix(" would do")
            singles.setdefault(miss.first, []).append(holder)
        else:
            texts.append(miss.text)
    merged = []
    for node, holders in list(singles.items())[:_MOST_RELEASES]:
        merged.append(f"node {node}: freeing {' or '.join(holders)} would do")
    shown = [*merged, *texts[: None if wide else _MOST_MISSES - len(merged)]]
    for text in shown:
        yield from _wrapped(f"  - {text}", "    ")
    hidden = len(singles) - len(merged) + len(texts) - (len(shown) - len(merged))
    if hidden:
        yield f"  and {hidden} more: -o wide"


def _scheduler(said: Explanation) -> Iterator[str]:
    word = said.scheduler
    if word is None:
        return
    when = f", {word.at}" if word.at else ""
    yield from _wrapped(f"kube-scheduler ({word.source}{when}): {word.said}", "  ")
    if word.agrees is None:
        yield f"  cannot be compared: {word.why}"
    elif word.agrees:
        yield "  agrees" + (f" ({word.why})" if word.why else "")
    else:
        yield from _wrapped(f"  differs: {word.why}", "    ")
        if word.expected:
            yield from _wrapped(f"  expected by the evidence: {word.expected}", "    ")


# --- tables of nodes ----------------------------------------------------------------------------------------


def _tables(groups: Sequence[Group], *, wide: bool) -> Iterator[str]:
    """One table per request: a row per group of nodes, a column per step."""
    if not groups:
        return
    shown = groups if wide else groups[:_MOST_GROUPS]
    keys = dict.fromkeys((funnel.claim, funnel.request) for group in shown for funnel in group.answer.funnels)
    rows = [(names, group.answer) for group in shown for names in _rows(group, wide=wide)]
    if not keys:
        yield from _aligned([("NODES", "WHY"), *((names, _why(said)) for names, said in rows)])
    for number, (claim, request) in enumerate(keys):
        of_rows = [(names, said, _funnel(said, claim, request)) for names, said in rows]
        labels = _labels(funnel for _, _, funnel in of_rows if funnel is not None)
        wanted = next((funnel.wanted for _, _, funnel in of_rows if funnel is not None and funnel.wanted), "")
        of = next((funnel.device_class for _, _, funnel in of_rows if funnel and funnel.device_class), "")
        yield f"claim {claim}, request {request}: {wanted or 'refused'}{f' of class {of}' if of else ''}"
        head = ("  NODES", *(label.upper() for label in labels), *(("WHY",) if not number else ()))
        body = [
            (
                f"  {names}",
                *_counts(funnel, labels),
                *((_why(said),) if not number else ()),
            )
            for names, said, funnel in of_rows
            if funnel is not None or not number
        ]
        yield from _aligned([head, *body])
        if not wide:
            yield from _legend(of_rows, labels)
    if len(groups) > len(shown):
        rest = groups[len(shown) :]
        yield f"  and {sum(len(group.nodes) for group in rest)} nodes in {len(rest)} more groups: -o wide"


def _rows(group: Group, *, wide: bool) -> Iterator[str]:
    if wide:
        yield from group.nodes
    elif len(group.nodes) == 1:
        yield group.nodes[0]
    else:
        yield f"{group.nodes[0]} (+{len(group.nodes) - 1})"


def _funnel(said: Answer, claim: str, request: str) -> Funnel | None:
    return next((item for item in said.funnels if (item.claim, item.request) == (claim, request)), None)


def _labels(funnels: Iterable[Funnel]) -> list[str]:
    """The steps that any of the funnels has, in the order of the longest."""
    found: list[str] = []
    for funnel in funnels:
        at = 0
        for stage in funnel.stages:
            if stage.label in found:
                at = found.index(stage.label) + 1
            else:
                found.insert(at, stage.label)
                at += 1
    return found


def _counts(funnel: Funnel | None, labels: Sequence[str]) -> Iterator[str]:
    by_label = {stage.label: stage for stage in funnel.stages} if funnel is not None else {}
    for label in labels:
        yield str(by_label[label].after) if label in by_label else "-"


def _why(said: Answer) -> str:
    stop = said.stop()
    if stop is None or said.error:
        return _short(said.error or said.reason, _LONGEST_WHY)
    funnel, stage = stop
    need = max(funnel.need, 1)
    many = len({item.request for item in said.funnels}) > 1
    of = f" by request {funnel.request}" if many else ""
    match stage.step:
        case Step.PUBLISHED | Step.HERE:
            found = f"{stage.after} published"
        case Step.FREE:
            found = f"{stage.after} free"
        case Step.CONSTRAINT if stage.text.startswith("match"):
            found = f"largest group {stage.after}"
        case Step.CONSTRAINT:
            found = f"{stage.after} values"
        case _:
            found = f"{stage.label} leaves {stage.after}"
    return f"{found}, {need} needed{of}"


def _legend(rows: Sequence[tuple[str, Answer, Funnel | None]], labels: Sequence[str]) -> Iterator[str]:
    """What the selectors and constraints of the table are, once."""
    stages: dict[str, Stage] = {}
    for _, _, funnel in rows:
        for stage in funnel.stages if funnel is not None else ():
            if stage.text:
                stages.setdefault(stage.label, stage)
    for label in labels:
        if label in stages:
            yield from _wrapped(f"  {label}: {_short(stages[label].text, 100)}", "    ")


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    columns = max(map(len, rows))
    words = columns - 1 if rows[0][-1] == "WHY" else -1
    widths = [max(len(row[at]) for row in rows if at < len(row)) for at in range(columns)]
    for row in rows:
        cells = [
            cell.ljust(widths[at]) if at == 0 else cell if at == words else cell.rjust(widths[at])
            for at, cell in enumerate(row)
        ]
        yield "  ".join(cells).rstrip()


def _short(text: str, most: int = _LONGEST) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _wrapped(text: str, indent: str) -> Iterator[str]:
    start = text[: len(text) - len(text.lstrip())]
    yield from textwrap.wrap(
        text.strip(),
        WIDTH,
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
