"""``python -m tests.cluster.up``: a real control plane with kwok and baro's ``deploy/``, until Ctrl-C.

For trying things by hand, and as a cluster for ``BARO_TEST_KUBECONFIG``. No planner runs on it.
"""

from __future__ import annotations

import signal
import threading

import click

from tests.support.real_access import kubectl_path
from tests.support.real_cluster import BETA_APIS, RealCluster


@click.command()
@click.option("--kube-version", default="1.37", envvar="KUBE_VERSION", show_default=True)
@click.option("--beta-apis", is_flag=True, help="Serve resource.k8s.io/v1beta1 and v1beta2 too.")
def main(kube_version: str, beta_apis: bool) -> None:
    """Start a control plane and say how to reach it."""
    with RealCluster(version=kube_version, runtime_config=BETA_APIS if beta_apis else ()) as cluster:
        cluster.install_baro()
        wait_for_interrupt(cluster)


def wait_for_interrupt(cluster: RealCluster) -> None:
    """Says how to reach the cluster, and returns on Ctrl-C or SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    click.echo(f"\n  export KUBECONFIG={cluster.kubeconfig}\n  {kubectl_path()} get nodes,pods -A")
    click.echo("\nrunning until Ctrl-C", err=True)
    stop.wait()


if __name__ == "__main__":
    main()
