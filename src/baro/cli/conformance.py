"""``baro conformance``: run recorded answers of real Kubernetes through baro, and count agreement."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from baro.cli import report
from baro.cli.output import progress, table
from baro.model.errors import InputError, Where

if TYPE_CHECKING:
    from baro.conformance import Agreement, Tally

    # Our answer's document, the record's category, and how it agrees with the recorded one.
    Asked = tuple[dict[str, Any], str, Agreement]

KUBE_VERSIONS = ("1.34", "1.35", "1.36", "1.37")
_FILE = click.argument("file")
_LIMIT = 20
"""Differences named one by one on stderr; the rest is counted."""


@click.group("conformance")
def command() -> None:
    """How far baro agrees with real Kubernetes, record by record.

    FILE holds one JSON record a line (or one document with a list of them; - is stdin). Each record gives one
    JSON line on stdout. Where records carry recorded answers, a summary goes to stderr, and exit code 1 means
    that something differs.
    """


@command.command("validate")
@_FILE
@click.option(
    "--kube-version",
    type=click.Choice(KUBE_VERSIONS),
    default="1.37",
    show_default=True,
    help="The API server to agree with.",
)
def validate(file: str, kube_version: str) -> int:
    """Writes of objects: is each accepted, and if not, in the API server's words why."""
    from baro.conformance import validation  # noqa: PLC0415 - a lazy module imports on use

    def ask(record: dict[str, Any]) -> Asked:
        ours = validation.answer(record, kube_version)
        expected = validation.recorded(record, kube_version)
        agreed = {} if expected is None else validation.agreement(ours, expected, validation.sent(record))
        return ours.document(str(record.get("name", ""))), str(record.get("category", "")), agreed

    return _run(file, ask)


@command.command("cel")
@_FILE
def cel(file: str) -> int:
    """Selectors on devices: does each compile, and what does it give."""
    from baro.conformance import cel as room  # noqa: PLC0415

    def ask(raw: dict[str, Any]) -> Asked:
        record = room.read(raw)
        ours = room.answer(record)
        return ours, record.category, room.agreement(ours, record, raw)

    return _run(file, ask)


@command.command("allocate")
@_FILE
@click.option(
    "--policy",
    type=click.Choice(["topology", "first-fit", "best-effort"]),
    default="first-fit",
    show_default=True,
    help="first-fit makes kube-scheduler's own choice, and is compared device by device; of topology and "
    "best-effort (NVIDIA's device plugin) only whether everything fits.",
)
def allocate(file: str, policy: str) -> int:
    """Claims on one node: does everything fit, and on which devices."""
    from baro.allocator import Policy  # noqa: PLC0415
    from baro.conformance import allocation  # noqa: PLC0415

    chosen = Policy(policy)

    def ask(raw: dict[str, Any]) -> Asked:
        instance = allocation.read(raw)
        decision = instance.decide(chosen)
        agreed = allocation.agreement(instance, decision, chosen)
        return allocation.document(instance, decision), instance.category, agreed

    return _run(file, ask)


def _run(file: str, ask: Callable[[dict[str, Any]], Asked]) -> int:
    """Every record through ``ask``, answers to stdout as they come, agreement to stderr at the end.

    A record that cannot be used is one error on stderr; the others are still answered.
    """
    from baro.conformance import Tally  # noqa: PLC0415

    tally, bad = Tally(), 0

    def refuse(error: InputError) -> None:
        nonlocal bad
        bad += 1
        report(error)

    for line, record in _records(file, refuse):
        try:
            document, category, agreed = ask(record)
        except InputError as error:
            where = msgspec.structs.replace(error.where, file=_shown(file), line=line)
            refuse(InputError(error.what, where=where, next_step=error.next_step))
            continue
        click.echo(json.dumps(document, ensure_ascii=False))
        tally.add(str(record.get("name", "")), category, agreed)
    if not tally.records and not bad:
        raise InputError("there is no record in the file", where=Where(file=file), next_step="see --help")
    if tally.judged:
        _summarize(tally)
    if bad:
        progress(f"{bad} of {tally.records + bad} records could not be used")
        return 3
    return 0 if tally.clean else 1


def _shown(file: str) -> str:
    return "<stdin>" if file == "-" else file


def _records(file: str, refuse: Callable[[InputError], None]) -> Iterator[tuple[int, dict[str, Any]]]:
    from baro.conformance.reading import numbered_records  # noqa: PLC0415

    try:
        stream = click.open_file(file, "rb")  # - is stdin
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(why, where=Where(file=file), next_step="give a file that can be read") from None
    with stream:
        yield from numbered_records(stream, _shown(file), refuse)


def _summarize(tally: Tally) -> None:
    aspects = tally.aspects
    rows = [[category or "-", *_counts(tally, aspects, category)] for category in tally.categories]
    rows.append(["all", *_counts(tally, aspects, None)])
    progress(table(rows, ["CATEGORY", *(aspect.upper() for aspect in aspects)]))
    for difference in tally.differences[:_LIMIT]:
        progress(f"differs: {difference.name}: {', '.join(difference.aspects)}")
    if len(tally.differences) > _LIMIT:
        progress(f"and {len(tally.differences) - _LIMIT} more records differ")


def _counts(tally: Tally, aspects: tuple[str, ...], category: str | None) -> Iterator[str]:
    for aspect in aspects:
        agreed, asked = tally.count(aspect, category)
        yield f"{agreed}/{asked}" if asked else "-"
