"""``python -m tests.cluster.demo``: the demo on a real control plane with kwok nodes; prints what was chosen.

The first run builds the control plane. Nothing is left behind.
"""

from __future__ import annotations

import click

from baro.cli.output import progress, style, table
from baro.demo.cluster import BUSY_NAMESPACE
from baro.demo.real import RealDemo, RealStory
from baro.demo.story import Comparison
from tests.cluster.up import wait_for_interrupt
from tests.support.real_cluster import RealCluster

NODE = "a"
"""The machine whose free GPUs lie on two islands."""


@click.command()
@click.option("--kube-version", default="1.37", envvar="KUBE_VERSION", show_default=True)
@click.option("--keep", is_flag=True, help="Leave the cluster running for kubectl until Ctrl-C.")
@click.option("--verbose", is_flag=True, help="Print what the planner writes.")
def main(kube_version: str, keep: bool, verbose: bool) -> None:
    """Who takes which GPUs for a TP=4 pod: the real kube-scheduler, and baro beside it."""
    log = progress if verbose else _ignore
    with RealCluster(version=kube_version) as cluster:
        cluster.install_baro()
        cluster.kubectl("create", "namespace", BUSY_NAMESPACE)
        cluster.kubectl("wait", f"--namespace={BUSY_NAMESPACE}", "serviceaccount/default", "--for=create")
        planner = cluster.account_kubeconfig("baro-controller", "baro-system")
        with RealDemo(cluster.kubeconfig, planner, log=log) as demo:
            progress(
                f"Kubernetes {cluster.release} on {cluster.url}: kube-apiserver, kube-scheduler, "
                f"kube-controller-manager, etcd; {len(demo.nodes)} kwok nodes with simulated GPUs"
            )
            _tell(RealStory(demo))
            if keep:
                wait_for_interrupt(cluster)


def _tell(story: RealStory) -> None:
    _heading("1. The machines, and the GPUs that other tenants left free")
    click.echo(table(story.nodes(), ("NODE", "PRODUCT", "FREE GPUS", "NVLINK ISLANDS", "FREE IN ONE ISLAND")))
    _heading(f"2. A TP=4 pod without a gate, on node {NODE}: kube-scheduler chooses; read back, then deleted")
    alone = story.kube_scheduler(NODE)
    click.echo(_table([alone]))
    _heading("3. The same pod with baro's gate, on any node: baro chooses, kube-scheduler binds")
    pod, chosen = story.baro()
    for reason, message in sorted(story.events(pod)):
        click.echo(f"  {reason}: {message}")
    click.echo("")
    click.echo(_table([alone, chosen]))


def _table(rows: list[Comparison]) -> str:
    cells = [(row.who, row.node, " ".join(map(str, row.gpus)), _gbps(row.gbps)) for row in rows]
    return table(cells, ("WHO", "NODE", "GPUS", "ALL-REDUCE RING (PREDICTED)"))


def _heading(text: str) -> None:
    click.echo(f"\n{style(text, bold=True)}\n")


def _gbps(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g} GB/s"


def _ignore(line: str) -> None:
    """For ``log`` when nobody listens."""


if __name__ == "__main__":
    main()
