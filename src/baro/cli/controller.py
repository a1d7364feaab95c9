"""``baro controller``: the planner as a daemon, or once."""

from __future__ import annotations

import signal
import socket
import time
import uuid
from contextlib import closing
from types import FrameType
from typing import TYPE_CHECKING

import click

from baro.cli.output import progress

if TYPE_CHECKING:
    from baro.controller.reconcile import Planner
    from baro.kube.client import KubeClient


@click.command("controller")
@click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, the pod's account, ~/.kube/config.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@click.option("-s", "--server", metavar="URL", help="A server that asks for no credentials.")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Place pods of this namespace only.")
@click.option("--policy", type=click.Choice(("topology", "first-fit")), default="topology", show_default=True)
@click.option("--once", is_flag=True, help="Place what fits now, then exit; 1 when pods still wait.")
@click.option("--leader-elect", is_flag=True, help="Act only while holding the Lease baro-controller.")
@click.option("--leader-elect-namespace", metavar="NAME", help="Default: the namespace of the client.")
@click.option(
    "--orphan-grace",
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long an allocation that no pod uses is left alone.",
)
@click.option(
    "--writers",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    metavar="N",
    help="How many pods are written at a time.",
)
def command(  # noqa: PLR0913 - one parameter an option
    *,
    kubeconfig: str | None,
    context: str | None,
    server: str | None,
    namespace: str,
    policy: str,
    once: bool,
    leader_elect: bool,
    leader_elect_namespace: str | None,
    orphan_grace: float,
    writers: int,
) -> int:
    """Place pods that carry the scheduling gate baro.dev/placement.

    Chooses node and devices together, writes the claims' allocations, removes the gate; kube-scheduler
    binds. Every pod carries the reason in the annotation baro.dev/placement-reason and in its events.
    """
    from baro.controller.event_queue import EventQueue  # noqa: PLC0415 - NumPy only when it runs
    from baro.controller.placer import with_policy  # noqa: PLC0415
    from baro.controller.reconcile import Planner  # noqa: PLC0415
    from baro.controller.terms import Settings  # noqa: PLC0415
    from baro.kube.client import KubeClient  # noqa: PLC0415
    from baro.kube.events import EventRecorder  # noqa: PLC0415

    settings = Settings(namespace=namespace, orphan_grace_s=orphan_grace)
    with (
        KubeClient.connect(url=server, kubeconfig_path=kubeconfig, context=context) as api,
        closing(EventQueue(EventRecorder(api, component="baro"), log=progress, threads=4)) as events,
        closing(
            Planner(api, with_policy(policy), settings=settings, log=progress, writers=writers, events=events)
        ) as planner,
    ):
        if once:
            return _once(planner)
        _run(api, planner, leader_elect, leader_elect_namespace or api.namespace)
    return 0


def _once(planner: Planner) -> int:
    planner.settle(pause=time.sleep)
    waiting = planner.waiting()
    for pod in waiting:
        meta = pod.metadata
        progress(f"{pod.ref} waits; kubectl describe pod -n {meta.namespace} {meta.name}")
    return 1 if waiting else 0


def _run(api: KubeClient, planner: Planner, leader_elect: bool, namespace: str) -> None:
    """Until SIGTERM or Ctrl-C. ``namespace`` is that of the Lease."""
    from baro.controller.runner import Controller  # noqa: PLC0415
    from baro.kube.lease import Elector, LeaseSettings  # noqa: PLC0415

    elector = None
    if leader_elect:
        lease = LeaseSettings(identity=f"{socket.gethostname()}_{uuid.uuid4()}", namespace=namespace)
        elector = Elector(api, lease, clock=time.monotonic)
    controller = Controller(api, planner, log=progress, elector=elector)

    def stop(number: int, frame: FrameType | None) -> None:
        controller.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    progress(f"baro controller: watching {api.url}")
    controller.run()
