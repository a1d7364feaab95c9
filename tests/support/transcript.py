"""Golden kubectl sessions: the same commands on any server give the same text once it is masked.

A transcript is a text file. A line that starts with ``$ kubectl`` is a command; what stands up to the next
one is its output: standard output as it is, standard error after ``! ``, and ``[1]`` for an exit status. A
command that ends in ``<<EOF`` reads the lines up to ``EOF``. ``#`` starts a comment before a command.

Masked are: UIDs, times and ages, resource versions, generated name endings, temporary folders, addresses and
patch releases of Kubernetes. Runs of spaces become two, since columns are as wide as what they hold, and
causes of a refusal (``* …``, ``  .field …``) are sorted, since the real server lists some in no order.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

Run = Callable[[Sequence[str], "str | None"], tuple[int, str, str]]
"""Runs kubectl with arguments and stdin; returns exit status, stdout and stderr."""

_PROMPT: Final = "$ kubectl "
_HEREDOC: Final = "<<EOF"

_MASKS: Final = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d{4}|Z)?( UTC)?", "<time>"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
    (r'(resourceVersion"?: ?"?|Resource Version: +)\d+', r"\1<revision>"),
    (r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}(?![a-z0-9-])", "<suffix>"),
    (r"/tmp/(LIVE|MERGED)-\d+", r"/tmp/\1-<n>"),
    (r"https?://[\w.\[\]:-]+:\d+", "<server>"),
    (r"v1\.(\d+)\.\d+", r"v1.\1.x"),
)
_AGE: Final = re.compile(r"(?<=  )(\d+[smhd]){1,2}(?=$|  )")


class Step(NamedTuple):
    """One command, with the comment lines before it."""

    comment: tuple[str, ...]
    line: str
    stdin: str | None


def mask(text: str) -> str:
    """``text`` without what differs from run to run."""
    for pattern, shown in _MASKS:
        text = re.sub(pattern, shown, text)
    lines = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        spaced = line[:indent] + re.sub(r" {2,}", "  ", line[indent:]).rstrip()
        lines.append(_AGE.sub("<age>", spaced))
    blocks = groupby(lines, key=lambda line: line.startswith(("* ", "  .")))
    return "\n".join(line for listed, block in blocks for line in (sorted(block) if listed else block))


def steps(transcript: str) -> list[Step]:
    """The commands of a transcript, without what they printed."""
    found: list[Step] = []
    comment: list[str] = []
    lines = iter(transcript.splitlines())
    for line in lines:
        if line.startswith("#"):
            comment.append(line)
        if not line.startswith(_PROMPT):
            continue
        stdin = None
        if line.endswith(_HEREDOC):
            body: list[str] = []
            for inner in lines:
                if inner == "EOF":
                    break
                body.append(inner)
            stdin = "\n".join(body) + "\n"
        found.append(Step(tuple(comment), line, stdin))
        comment = []
    return found


def arguments(step: Step) -> list[str]:
    """What kubectl is called with."""
    return shlex.split(step.line.removeprefix(_PROMPT).removesuffix(_HEREDOC))


def play(transcript: str, run: Run) -> str:
    """Runs the commands of ``transcript`` and returns the transcript of that, masked."""
    blocks: list[str] = []
    for step in steps(transcript):
        code, out, err = run(arguments(step), step.stdin)
        lines = [*step.comment, step.line]
        if step.stdin is not None:
            lines += [*step.stdin.splitlines(), "EOF"]
        lines += mask(out).splitlines()
        lines += [f"! {line}".rstrip() for line in mask(err).splitlines()]
        if code:
            lines.append(f"[{code}]")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"
