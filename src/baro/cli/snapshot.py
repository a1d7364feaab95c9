"""``baro snapshot``: what a diagnosis looks at, as files that ``--from`` reads. Reads only; writes ``-o``."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from baro.cli.output import progress
from baro.cli.sources import SourceOptions, open_source, source_options
from baro.model.errors import InputError, Where


@click.command("snapshot")
@source_options
@click.option(
    "-o",
    "--output",
    "target",
    required=True,
    metavar="FILE.json|DIR",
    type=click.Path(path_type=Path),
    help="One JSON file, or a new directory with one file a kind.",
)
@click.option("--anonymise", is_flag=True, help="Write pseudonyms instead of names; see docs/diagnose.md.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def command(source: SourceOptions, target: Path, anonymise: bool, quiet: bool) -> None:
    """Write nodes, pods, events, claims, slices and classes to files, for a diagnosis elsewhere or later.

    Never written: Secrets, environment, commands and arguments of containers, managedFields. With --anonymise
    names, namespaces, nodes, UIDs and GPU UUIDs become pseudonyms that keep their order. Files are readable
    by their owner only, and complete or not there at all.
    """
    from baro.diagnosis.snapshot import objects  # noqa: PLC0415 - a lazy module imports on use

    evidence = open_source(source, quiet=quiet)
    if evidence.captures and not quiet:
        progress(f"{len(evidence.captures)} captures are left out: give them beside the snapshot with --from")
    found = objects(evidence, anonymise=anonymise)
    try:
        count = _write_file(target, found) if target.suffix == ".json" else _write_folder(target, found)
    except OSError as error:
        raise InputError(
            f"cannot write the snapshot: {error.strerror or error}", where=Where(file=str(target))
        ) from error
    if not quiet:
        for item in evidence.missing:
            progress(f"{'in part' if item.partial else 'not read'}: {item.source}: {item.why}")
        progress(f"wrote {count} objects to {target}; next: baro diagnose --from {target}")


def _write_file(target: Path, found: Iterator[dict[str, Any]]) -> int:
    """One list, beside the target first, then in its place."""
    handle, name = tempfile.mkstemp(dir=target.absolute().parent, prefix=".baro-snapshot-")  # 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            count = _list(stream.write, found)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return count


def _list(write: Any, found: Iterator[dict[str, Any]]) -> int:
    write('{"apiVersion": "v1", "kind": "List", "items": [')
    count = 0
    for body in found:
        write(",\n" if count else "\n")
        write(json.dumps(body, ensure_ascii=False))
        count += 1
    write("\n]}\n")
    return count


def _write_folder(target: Path, found: Iterator[dict[str, Any]]) -> int:
    """One file of JSON lines for each kind, in a directory that appears when it is complete."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(
            "there is something already", where=Where(file=str(target)), next_step="name a new directory"
        )
    folder = Path(tempfile.mkdtemp(dir=target.absolute().parent, prefix=".baro-snapshot-"))  # mode 0700
    streams: dict[str, Any] = {}
    count = 0
    try:
        for body in found:
            kind = str(body.get("kind") or "object").lower()
            if kind not in streams:
                handle = os.open(folder / f"{kind}.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                streams[kind] = os.fdopen(handle, "w", encoding="utf-8")
            streams[kind].write(json.dumps(body, ensure_ascii=False) + "\n")
            count += 1
        for stream in streams.values():
            stream.close()
        folder.replace(target)
    except BaseException:
        for stream in streams.values():
            stream.close()
        for file in folder.iterdir() if folder.exists() else ():
            file.unlink()
        if folder.exists():
            folder.rmdir()
        raise
    return count
