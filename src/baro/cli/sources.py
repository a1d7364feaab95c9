"""Where a command reads from: ``--from`` files, or a cluster by kubectl's rules. One set of options for all.

``source_options`` adds the options and hands the command one value, ``source``; ``open_source`` turns it
into ``Evidence``; ``open_client`` is for the few commands that ask the server more than lists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from baro.cli.output import progress

if TYPE_CHECKING:
    from baro.diagnosis.evidence import Evidence
    from baro.kube.client import KubeClient

Command = TypeVar("Command", bound=Callable[..., Any])


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user said about where to read. ``paths`` empty means a cluster."""

    paths: tuple[str, ...] = ()
    kubeconfig: str | None = None
    context: str | None = None
    server: str | None = None
    namespace: str | None = None
    all_namespaces: bool = False
    deadline_s: float = 10.0

    @property
    def from_cluster(self) -> bool:
        """Whether a server is asked."""
        return not self.paths


def source_options(command: Command) -> Command:
    """Adds ``--from … -A`` to a click command, which gets one argument ``source: SourceOptions`` for them."""

    @click.option(
        "--from",
        "from_",
        multiple=True,
        metavar="PATH",
        help="Read this file, directory or - instead of a cluster (may be repeated).",
    )
    @click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config.")
    @click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
    @click.option("-s", "--server", metavar="URL", help="A server that asks for no credentials.")
    @click.option("-n", "--namespace", metavar="NAME", help="Only this namespace.")
    @click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces.")
    @click.option(
        "--deadline",
        type=click.FloatRange(min=0.1),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="How long a cluster is read; what has not come by then is named as missing.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        from_: tuple[str, ...],
        kubeconfig: str | None,
        context: str | None,
        server: str | None,
        namespace: str | None,
        all_namespaces: bool,
        deadline: float,
        **others: Any,
    ) -> Any:
        if from_ and (kubeconfig or context or server):
            raise click.UsageError("--from reads files: it goes with neither --kubeconfig, --context nor -s")
        if namespace and all_namespaces:
            raise click.UsageError("give either -n or -A")
        source = SourceOptions(
            paths=from_,
            kubeconfig=kubeconfig,
            context=context,
            server=server,
            namespace=namespace,
            all_namespaces=all_namespaces,
            deadline_s=deadline,
        )
        return command(*args, source=source, **others)

    return wrapped  # type: ignore[return-value]  # functools.wraps keeps what click reads


def open_source(source: SourceOptions, *, quiet: bool = False) -> Evidence:
    """Reads what ``source`` names. Progress goes to stderr unless ``quiet``.

    Raises ``InputError`` for files and kubeconfigs that cannot be used, ``UnreachableError`` and
    ``ForbiddenError`` when the server gives nothing at all; less than that is in ``Evidence.missing``.
    ``Evidence.namespace`` is that of ``-n``, else empty for files and ``-A``, else the context's.
    """
    if source.paths:
        from baro.diagnosis.files import read_files  # noqa: PLC0415 - a lazy module imports on use

        return read_files(source.paths, namespace=source.namespace or "")
    from baro.kube.reading import read_cluster  # noqa: PLC0415

    with open_client(source) as client:
        namespace = "" if source.all_namespaces else source.namespace or client.namespace or "default"
        if not quiet:
            progress(f"reading {client.url} …")
        return read_cluster(
            client,
            namespace=namespace,
            deadline_s=source.deadline_s,
            progress=None if quiet else progress,
        )


def open_client(source: SourceOptions) -> KubeClient:
    """A client for the server that the options name; nothing is sent yet. Close it."""
    from baro.kube.client import KubeClient  # noqa: PLC0415

    return KubeClient.connect(
        url=source.server, kubeconfig_path=source.kubeconfig, context=source.context, timeout_s=15.0
    )
