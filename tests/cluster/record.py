"""``python -m tests.cluster.record FILE OUT``: a real API server's answers to a file of validation records.

FILE is JSON lines (see ``tests.support.recorder``); OUT has the same records with the answers of the
Kubernetes version that was built. ``--check`` compares with the answers that FILE has and lists differences.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from tests.support.real_cluster import BETA_APIS, RealCluster
from tests.support.recorder import Record, Recorder, differences, newest


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--kube-version", default="1.37", envvar="KUBE_VERSION", show_default=True)
@click.option("--kubeconfig", type=click.Path(exists=True, path_type=Path), help="Ask this server instead.")
@click.option("--check", is_flag=True, help="Say where the answers differ from those in FILE; exit code 1.")
def main(file: Path, out: Path, kube_version: str, kubeconfig: Path | None, check: bool) -> None:
    """Send the records of FILE to a real API server, write its answers to OUT."""
    if kubeconfig is not None:
        differing = _record(file, out, kubeconfig)
    else:
        # No controllers: they would change what updates start from.
        with RealCluster(version=kube_version, runtime_config=BETA_APIS, controllers=False) as cluster:
            differing = _record(file, out, cluster.kubeconfig)
    if check:
        for line in differing:
            click.echo(line, err=True)
        sys.exit(1 if differing else 0)


def _record(file: Path, out: Path, kubeconfig: Path) -> list[str]:
    asked = list(_read(file))
    differing: list[str] = []
    with Recorder(kubeconfig) as recorder, out.open("w", encoding="utf-8") as lines:
        for before, after in zip(asked, recorder.record(asked), strict=True):
            lines.write(json.dumps(after, ensure_ascii=False) + "\n")
            expected = newest(before)
            if expected is not None and (fields := differences(after, expected)):
                shown = after.get("error") or after.get("message", "accepted")
                differing.append(f"{before['name']}: {', '.join(fields)}: {shown[:300]}")
    click.echo(f"{len(asked)} records, {len(differing)} differ from the file's own answers", err=True)
    return differing


def _read(file: Path) -> Iterator[Record]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise click.ClickException(f"{file}:{number}: {error}") from error


if __name__ == "__main__":
    main()
