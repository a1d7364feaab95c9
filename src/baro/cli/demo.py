"""``baro demo``: the whole system on this machine, in a few seconds, without a GPU or a cluster."""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading

import click

from baro.cli.output import progress, style, table


@click.command("demo")
@click.option("--keep", is_flag=True, help="Leave the cluster running for kubectl until Ctrl-C.")
@click.option("--port", default=0, help="Port of the API server on loopback; 0 takes a free one.")
@click.option("--verbose", is_flag=True, help="Print what the planner and the stand-ins write.")
def command(keep: bool, port: int, verbose: bool) -> int:
    """Put a TP=4 pod on one NVLink island of a simulated cluster, and show what first fit would do.

    Machines, scheduler and kubelet are simulated; discovery, publishing, planning and the API are not.
    """
    from baro.cli.lint_output import print_findings  # noqa: PLC0415 - a lazy module imports on use
    from baro.demo.cluster import DemoCluster  # noqa: PLC0415
    from baro.demo.story import Story  # noqa: PLC0415

    # A terminated demo cleans up as an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    log = progress if verbose else _ignore
    with DemoCluster(port=port, log=log) as cluster:
        progress(
            f"embedded API server on {cluster.url}, {len(cluster.nodes)} simulated nodes, planner running"
        )
        story = Story(cluster, click.echo, print_findings)

        _heading("1. Four machines. Each has at least some GPUs free; an integer says no more than that.")
        click.echo(
            table(story.nodes(), ("NODE", "PRODUCT", "FREE GPUS", "NVLINK ISLANDS", "FREE IN ONE ISLAND"))
        )

        _heading("2. The manifest, as such templates are published. baro names every mistake in one run.")
        story.manifest()

        _heading("3. The mended template and a pod with TP=4 are applied. baro places it:")
        pod, rows = story.place()
        for reason, message in sorted(story.events(pod)):
            click.echo(f"  {reason}: {message}")
        click.echo("")
        cells = [(row.who, row.node, " ".join(map(str, row.gpus)), _gbps(row.gbps)) for row in rows]
        click.echo(table(cells, ("WHO", "NODE", "GPUS", "ALL-REDUCE RING (PREDICTED)")))

        _next_steps(str(cluster.kubeconfig), keep)
        if keep:
            _wait_for_interrupt()
    return 0


def _heading(text: str) -> None:
    click.echo(f"\n{style(text, bold=True)}\n")


def _gbps(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g} GB/s"


def _next_steps(kubeconfig: str, keep: bool) -> None:
    click.echo(f"\n{style('Try next:', bold=True)}\n")
    if keep:
        kubectl = shutil.which("kubectl") or "kubectl"
        click.echo(f"  export KUBECONFIG={kubeconfig}")
        click.echo(f"  {kubectl} get pods,resourceclaims -A")
        click.echo(f"  {kubectl} describe pod llm-tp4")
        click.echo("  baro topo --profile hgx-h100-2x4 --set 0,1,4,5")
        progress("\nrunning until Ctrl-C")
        return
    click.echo("  make demo ARGS=--keep               the same, and kubectl works on it until Ctrl-C")
    click.echo("  nvidia-smi topo -m | baro topo -    islands and GB/s of your own machine")
    click.echo("  baro lint YOUR-CLAIMS.yaml          what your manifests say, and what they should say")


def _wait_for_interrupt() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


def _ignore(line: str) -> None:
    """For ``log`` when nobody listens."""
