"""``baro explain``: why is it pending, or why did it get these devices? Reads a cluster or files only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from baro.cli.features import checked, features_there, gates_option, version_option
from baro.cli.output import emit, output_option, progress, style
from baro.cli.sources import SourceOptions, open_source, source_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from baro.diagnosis.explain import Explanation

_COLOURS = {"placed": "green", "fits": "green", "unused": "green", "pending": "yellow", "error": "red"}


@click.command("explain")
@click.argument("names", nargs=-1, metavar="[POD|CLAIM]...")
@source_options
@click.option("--node", metavar="NAME", help="Look at this node only.")
@version_option
@gates_option
@output_option("table", "wide", "json", "yaml")
def command(
    names: tuple[str, ...],
    source: SourceOptions,
    node: str | None,
    kube_version: str | None,
    gates: tuple[str, ...],
    output: str,
) -> int:
    """Say why a pod or claim is pending, or why it has the devices that it has.

    A name is pod/NAME, claim/NAME, NAMESPACE/NAME or NAME (a pod first). Without a name, all pending pods are
    explained. Exit code 0: everything named is placed or would fit now; 1: something is pending for a reason.
    """
    from msgspec import structs  # noqa: PLC0415 - a lazy module imports on use

    from baro.diagnosis.explain import (  # noqa: PLC0415
        Options,
        Verdict,
        World,
        alike,
        documents,
        explain,
        named,
        pending,
    )

    checked(kube_version, gates)
    evidence = open_source(source)
    there = features_there([evidence], kube_version, gates)
    world = World(evidence, Options(features=there.features, told=there.told, node=node))
    subjects = [named(world, name) for name in names] if names else list(pending(world))
    if not subjects:
        progress("no pod is waiting for a node")
    grouped = [(subject, ()) for subject in subjects] if names else alike(world, subjects)
    said = [
        structs.replace(explain(world, first), alike=tuple("/".join(other.key) for other in others))
        for first, others in grouped
    ]
    if output in ("json", "yaml"):
        emit(documents(said), output)
    else:
        _print(said, wide=output == "wide")
    if any(item.verdict is Verdict.UNKNOWN for item in said):
        return 3
    return 0 if all(item.settled for item in said) else 1


def _print(said: Sequence[Explanation], *, wide: bool) -> None:
    from baro.diagnosis.explain import lines  # noqa: PLC0415

    for number, item in enumerate(said):
        first, *rest = lines(item, wide=wide)
        click.echo(("\n" if number else "") + style(first, fg=_COLOURS.get(item.verdict.value), bold=True))
        for line in rest:
            click.echo(line)
