"""A diagnosis as one page: self-contained, no scripts, nothing loaded, fit for print and dark mode.

All text from the cluster is escaped by the template engine. Pictures of machines are inline SVG made by
``baro.topology.svg``: GPUs coloured by what they do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup, escape

from baro.diagnosis.checks import Diagnosis, Problem
from baro.diagnosis.checks.board import NodeView
from baro.diagnosis.checks.split import SetOfPod, sets
from baro.diagnosis.report.summary import Part, Summary, in_gpus
from baro.topology import svg

MOST_PROBLEMS = 500
MOST_PICTURES = 12
"""Pictures are drawn of the machines of the dearest problems."""
FREE = svg.State("#cdeac0", "free")
USED = svg.State("#d7dde3", "in use")
SPLIT = svg.State("#ffb4a2", "in use by a split pod")
OUT = svg.State("#f2d0d9", "tainted")
ABSENT = svg.State("#ffffff", "not published")
_CODE = re.compile("`([^`]+)`")
_PICTURED = frozenset({"split", "stranded"})


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """One machine: its node, what to see, and the drawing."""

    node: str
    caption: str
    drawing: str


def page(diagnosis: Diagnosis, summary: Summary) -> str:
    """The whole page as HTML text."""
    evidence = diagnosis.board.evidence
    problems = diagnosis.problems[:MOST_PROBLEMS]
    return _template().render(
        summary=summary,
        evidence=evidence,
        problems=[_row(number, item) for number, item in enumerate(problems, 1)],
        hidden=len(diagnosis.problems) - len(problems),
        parts=[_part(diagnosis, part) for part in summary.parts],
        pictures=list(_pictures(diagnosis)),
        skipped=diagnosis.skipped,
        left=", ".join(f"{number} × {size}" for size, number in summary.whole.sets.items() if number)
        or "none",
    )


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    folder = resources.files("baro.diagnosis.report").joinpath("templates")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["marked"] = _marked
    return environment.from_string(folder.joinpath("report.html").read_text(encoding="utf-8"))


def _marked(text: str) -> Markup:
    """Escaped text with what stands between backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped just here


def _part(diagnosis: Diagnosis, part: Part) -> dict[str, Any]:
    return {
        "title": part.title,
        "problems": part.problems,
        "gpus": in_gpus(part.gpus) if part.gpus >= 0.05 else "",
        "ran": part.check in diagnosis.ran,
        "lacking": ", no ".join(part.lacking),
    }


def _row(number: int, item: Problem) -> dict[str, Any]:
    lost = item.lost
    return {
        "number": number,
        "item": item,
        "gpus": "" if not lost.gpus else in_gpus(lost.now) if lost.now is not None else "unknown cost",
        "hours": f"{lost.gpu_hours:,.1f}" if lost.gpus and lost.gpu_hours is not None else "",
    }


# --- pictures ---------------------------------------------------------------------------------------------


def _pictures(diagnosis: Diagnosis) -> Iterator[Picture]:
    """One picture a node, of the first problems that links have to do with."""
    wanted: dict[str, list[Problem]] = {}
    for item in diagnosis.problems:
        if item.check in _PICTURED and item.node is not None:
            wanted.setdefault(item.node, []).append(item)
    if not wanted:
        return
    held: dict[str, list[SetOfPod]] = {}
    for found in sets(diagnosis.board):
        if found.view.name in wanted:
            held.setdefault(found.view.name, []).append(found)
    for node, problems in list(wanted.items())[:MOST_PICTURES]:
        view = diagnosis.board.view(node)
        if view is not None:
            yield _picture(view, problems, held.get(node, []))


def _picture(view: NodeView, problems: Sequence[Problem], held: Sequence[SetOfPod]) -> Picture:
    split = {item.subject for item in problems if item.check == "split"}
    apart = 0
    for found in held:
        if f"Pod {found.pod.name}" in split:
            apart |= found.mask
    states = {index: _state(view, at, apart) for at, index in enumerate(view.graph.shape.indices)}
    chosen = [index for at, index in enumerate(view.graph.shape.indices) if apart >> at & 1]
    one_pod = len(split) == 1
    machine = msgspec.structs.replace(view.graph.shape.machine, source=f"node {view.name}")
    return Picture(
        node=view.name,
        caption="; ".join(item.message for item in problems[:3]),
        drawing=svg.render(machine, chosen=chosen if one_pod else (), states=states),
    )


def _state(view: NodeView, at: int, apart: int) -> svg.State:
    bit = 1 << at
    if not view.published & bit:
        return ABSENT
    if apart & bit:
        return SPLIT
    if view.taken & bit:
        return USED
    return OUT if view.blocked & bit else FREE
