"""``baro apiserver``: the embedded API server in the foreground, for trying things with kubectl."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from baro.apiserver.persistence import SqliteStore
    from baro.apiserver.registry import Registry

KUBE_VERSIONS = ("1.34", "1.35", "1.36", "1.37")


@click.command(name="apiserver")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8001, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes a free one."
)
@click.option(
    "--kubeconfig",
    "kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a kubeconfig for this server to FILE.",
)
@click.option(
    "--load",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Create the objects in FILE (YAML, JSON, a folder of them) at start. May be given several times.",
)
@click.option(
    "--data-dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep objects in FOLDER (SQLite), where the next start finds them.",
)
@click.option(
    "--kube-version",
    type=click.Choice(KUBE_VERSIONS),
    default="1.37",
    show_default=True,
    help="Kubernetes version whose kinds, fields and rules apply.",
)
def command(
    *,
    host: str,
    port: int,
    kubeconfig: Path | None,
    files: tuple[Path, ...],
    folder: Path | None,
    kube_version: str,
) -> None:
    """Run an embedded Kubernetes API server (simulated cluster, no authentication).

    It serves nodes, pods, events, leases, everything of resource.k8s.io and custom kinds to kubectl and other
    clients. Objects live in memory unless --data-dir is given. No controller and no scheduler runs.
    """
    from baro.apiserver import create_app, run_in_thread  # noqa: PLC0415 - web libraries are slow to load

    store = _open_store(folder) if folder is not None else None
    app = create_app(store=store, kube_version=kube_version)
    if files:
        _load(app.state.registry, files)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stop.set())
    with run_in_thread(app, host=host, port=port) as server:
        click.echo(server.url)
        if host not in ("127.0.0.1", "::1", "localhost"):
            click.echo(f"warning: anyone who reaches {server.url} may do everything", err=True)
        if kubeconfig is not None:
            server.write_kubeconfig(kubeconfig)
            click.echo(f"try: kubectl --kubeconfig {kubeconfig} get nodes,resourceslices", err=True)
        sys.stdout.flush()
        stop.wait()
    if store is not None:
        store.close()


def _open_store(folder: Path) -> SqliteStore:
    from baro.apiserver.persistence import SqliteStore  # noqa: PLC0415

    return SqliteStore(folder)


def _load(registry: Registry, files: tuple[Path, ...]) -> None:
    from baro.apiserver.loading import load_files  # noqa: PLC0415

    count = load_files(registry, files)
    click.echo(f"loaded {count} objects", err=True)
