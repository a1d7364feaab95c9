"""``baro agent``: discovers this node, or a simulated machine, and publishes its ResourceSlices."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from baro.cli.output import progress
from baro.model.errors import BaroError
from baro.model.names import DRIVER

if TYPE_CHECKING:
    from baro.agent.publisher import Published
    from baro.agent.service import Settings
    from baro.topology.machine import Machine


@click.command("agent")
@click.option("--simulate", metavar="PROFILE", help="A simulated machine instead of this one: name or file.")
@click.option("--node", metavar="NAME", help="Name of the Node; by default NODE_NAME or the host name.")
@click.option("--driver", default=DRIVER, show_default=True, help="Name of the DRA driver.")
@click.option("--pool", metavar="NAME", help="Name of the pool; by default the node's.")
@click.option("--compat/--no-compat", default=True, help="Repeat attributes in the domain gpu.nvidia.com.")
@click.option("--once", is_flag=True, help="Publish once and end, instead of keeping it up to date.")
@click.option("--print", "print_only", is_flag=True, help="Print the slices as YAML; needs no cluster.")
@click.option("--interval", default=60.0, show_default=True, type=click.FloatRange(min=1), help="Seconds.")
@click.option(
    "--sysfs-root",
    default=Path("/sys"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where sysfs is mounted.",
)
@click.option("--server", metavar="URL", help="An API server without authentication, such as baro apiserver.")
@click.option("--kubeconfig", metavar="FILE", help="Path of the kubeconfig.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
def command(  # noqa: PLR0913, PLR0917 one parameter per flag
    simulate: str | None,
    node: str | None,
    driver: str,
    pool: str | None,
    compat: bool,
    once: bool,
    print_only: bool,
    interval: float,
    sysfs_root: Path,
    server: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Discover the GPUs of this node over NVML and sysfs, and publish them as ResourceSlices.

    With --simulate the machine comes from a machine profile (`baro topo --list-profiles`) and needs no GPU.
    """
    from baro.agent.service import Agent, Settings  # noqa: PLC0415 a lazy command

    name = node or os.environ.get("NODE_NAME") or socket.gethostname().lower()
    settings = Settings(node=name, driver=driver, pool=pool, compat=compat)
    with machine_source(simulate, name, sysfs_root) as (title, read):
        if print_only:
            print_slices(read(), settings)
            return
        from baro.agent.cluster import ClusterSlices, node_uid  # noqa: PLC0415
        from baro.agent.publisher import Publisher  # noqa: PLC0415
        from baro.kube.client import KubeClient  # noqa: PLC0415

        with KubeClient.connect(url=server, kubeconfig_path=kubeconfig, context=context) as client:
            agent = Agent(read, Publisher(ClusterSlices(client)), settings, lambda: node_uid(client, name))
            tell = Teller(f"{name} ({title})")
            if once:
                tell.round(*agent.round())
            else:
                agent.run(stop_on_signals(), interval, tell.round, tell.error)


class Teller:
    """Says on stderr what changed; the same warning once."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._told: set[str] = set()

    def round(self, machine: Machine, done: Published) -> None:
        """One publication: silent when nothing was written."""
        for warning in machine.warnings:
            self._once(f"warning: {warning.message} [{warning.code}]")
        if not done.topology:
            self._once("the server does not know NodeTopology (CRD of baro.dev): only slices are published")
        if done.writes:
            counts = f"{done.created} created, {done.updated} updated, {done.deleted} deleted"
            progress(f"{self._what}: {len(machine.gpus)} GPUs, generation {done.generation}: {counts}")

    def error(self, error: BaroError) -> None:
        """A round that failed; the next one tries again."""
        progress(f"error: {error}")

    def _once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            progress(text)


@contextmanager
def machine_source(
    simulate: str | None, node: str, sysfs_root: Path
) -> Iterator[tuple[str, Callable[[], Machine]]]:
    """A title and a function that discovers anew, over an open NVML session, real or simulated."""
    from baro.agent.discovery import discover  # noqa: PLC0415
    from baro.agent.nvml import real_nvml, session  # noqa: PLC0415

    if simulate is None:
        with session(real_nvml()) as real:
            yield "NVML", lambda: discover(real, sysfs_root)
        return
    from baro.agent.simulated import SimulatedNvml, write_sysfs  # noqa: PLC0415
    from baro.topology.profiles import load_profile  # noqa: PLC0415

    profile = load_profile(simulate)
    title = f"simulated {profile.name}"
    with tempfile.TemporaryDirectory(prefix="baro-sysfs-") as folder:
        write_sysfs(profile, Path(folder))
        with session(SimulatedNvml(profile, node)) as nvml:
            yield title, lambda: discover(nvml, Path(folder), title)


def print_slices(machine: Machine, settings: Settings) -> None:
    """The slices as ``kubectl apply`` takes them, one YAML document each."""
    import yaml  # noqa: PLC0415

    from baro.agent.service import slices_of  # noqa: PLC0415
    from baro.agent.slices import lost_taints, reconcile  # noqa: PLC0415

    slices = slices_of(machine, settings, lost_taints(machine, settings.driver))
    documents = [item.to_dict() for item in reconcile((), slices).create]
    click.echo(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=110), nl=False)
    for warning in machine.warnings:
        progress(f"warning: {warning.message} [{warning.code}]")


def stop_on_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stop.set())
    return stop
