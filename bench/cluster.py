"""The same pods on a real control plane: through kube-scheduler alone, and through baro, in turns.

API server, etcd, controllers and kube-scheduler are upstream's; nodes are kwok's and their GPUs simulated
(8 devices in two islands of 4, one slice each). Each pod has one claim from a template: 4 devices of one
island (``matchAttribute``). Alone: shared class, kube-scheduler allocates and binds. baro: exclusive class
and gate, ``baro controller`` as a separate process under its own service account allocates, kube-scheduler
binds. Both run on the same cluster, one after the other and ``--repeat`` times in turns, so that noise shows;
baro's process runs only in its own turns. All clients may send as fast as they can (kube-scheduler 1,000
calls a second instead of its default of 50, in both).

Times are from sending the pod until a watch shows it bound; *steady* is the rate once creation has ended
(``-`` when less than a tenth was left by then). CPU seconds are from the first pod sent to the last one
bound. All share one machine with the load generator; *other work* is what other processes took of it
meanwhile. ``--profile`` adds cProfile of the planner's thread, which slows it; counters by phase are always
there. Run ``python -m bench cluster [--nodes 500,5000] [--pods 900,1000] [--repeat 2] [--profile]
[--only kube-scheduler|baro] [--limit SECONDS]``.
"""

from __future__ import annotations

import argparse
import os
import pstats
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from baro.kube.client import KubeClient
from baro.model.names import EXCLUSIVE_CLASS, NVIDIA_DRIVER
from bench._cluster_load import (
    NAMESPACE,
    BenchCluster,
    check,
    clear,
    join_nodes,
    prepare,
    requests,
    send_pods,
)
from bench._cluster_table import ALONE, BARO, Phases, Run, show
from tests.support.real_access import eventually
from tests.support.real_cluster import RealCluster
from tests.support.real_process import Component

PLANNER = Path(__file__).with_name("_cluster_planner.py")
PROFILE_LINES = 30
LISTS_S = 5.0
"""baro lists everything when it starts, which is not part of what is measured."""


def measure(nodes: int, pods: int, turns: Sequence[str], limit_s: float, profile: bool) -> list[Run]:
    """A cluster of that size, and each turn on it."""
    with (
        BenchCluster(say=_say) as cluster,
        KubeClient.connect(kubeconfig_path=str(cluster.kubeconfig)) as api,
    ):
        cluster.install_baro()
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("wait", f"--namespace={NAMESPACE}", "serviceaccount/default", "--for=create")
        began = time.monotonic()
        join_nodes(api, nodes)
        _say(f"{nodes} nodes with their slices, ready after {time.monotonic() - began:.0f} s")
        templates = {ALONE: "shared", BARO: "exclusive"}
        prepare(api, templates[ALONE], NVIDIA_DRIVER)
        prepare(api, templates[BARO], EXCLUSIVE_CLASS)
        runs: list[Run] = []
        for number, who in enumerate(turns):
            if who == BARO:
                _start_planner(cluster, profile)
            run = _turn(cluster, api, who, f"run{number}", templates[who], pods, limit_s)
            if who == BARO:
                _stop_planner(cluster, run, profile)
            clear(api)
            runs.append(run)
            _say(f"turn {number + 1} of {len(turns)}, {who}: {run.rate:.1f} pods/s")
        return runs


def _turn(
    cluster: RealCluster, api: KubeClient, who: str, name: str, template: str, pods: int, limit_s: float
) -> Run:
    """One way of binding the pods, on a cluster without pods."""
    calls, machine, before = requests(cluster), _machine_s(), _cpu(cluster)
    times = send_pods(api, name, template, pods, gated=who == BARO, limit_s=limit_s)
    after, machine = _cpu(cluster), _machine_s() - machine
    used = {component: after[component] - before[component] for component in after}
    run = Run(who, pods, times, used, check(api), other_cpu=max(0.0, machine - sum(used.values())))
    run.requests = {call: count - calls.get(call, 0) for call, count in requests(cluster).items()}
    return run


def _start_planner(cluster: RealCluster, profile: bool) -> None:
    kubeconfig = cluster.account_kubeconfig("baro-controller", "baro-system")
    extra = ("--cprofile", cluster.folder / "planner.pstats") if profile else ()
    arguments = (_counters(cluster), *extra, "--", "controller", "--kubeconfig", kubeconfig)
    planner = Component("baro", [sys.executable, PLANNER, *arguments], cluster.folder / "baro.log")
    planner.start()
    cluster.components["baro"] = planner
    eventually(lambda: "watching" in planner.tail() or None, "baro controller starts")
    time.sleep(LISTS_S)


def _stop_planner(cluster: RealCluster, run: Run, profile: bool) -> None:
    """Takes over what its process wrote at its end."""
    cluster.components.pop("baro").stop(grace_s=20)
    run.phases = msgspec.json.decode(_counters(cluster).read_bytes(), type=Phases)
    run.hot = _hot(cluster.folder / "planner.pstats") if profile else ""


def _counters(cluster: RealCluster) -> Path:
    return cluster.folder / "planner.json"


def _cpu(cluster: RealCluster) -> dict[str, float]:
    used = {name: component.cpu_seconds() for name, component in cluster.components.items()}
    return {**used, "(load)": time.process_time()}


def _machine_s() -> float:
    """CPU seconds that all processes of the machine have used."""
    fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    user, nice, system, _idle, _iowait, irq, softirq = map(int, fields[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _hot(path: Path) -> str:
    import io  # noqa: PLC0415 - only for --profile

    text = io.StringIO()
    pstats.Stats(str(path), stream=text).sort_stats("cumulative").print_stats(PROFILE_LINES)
    return text.getvalue()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench cluster", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", default="500,5000", help="cluster sizes, separated by commas")
    parser.add_argument("--pods", default="900,1000", help="pods for each size, or one number for all")
    parser.add_argument("--repeat", type=int, default=2, help="turns of each")
    parser.add_argument("--only", choices=(ALONE, BARO), help="one of both only")
    parser.add_argument("--profile", action="store_true", help="cProfile of the planner's thread")
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds after which waiting pods are left"
    )
    given = parser.parse_args(arguments)
    sizes, counts = ([int(part) for part in text.split(",")] for text in (given.nodes, given.pods))
    for at, nodes in enumerate(sizes):
        pods = counts[min(at, len(counts) - 1)]
        who = [given.only] if given.only else [ALONE, BARO]
        # There and back, so that neither always has the younger cluster.
        turns = [each for lap in range(given.repeat) for each in (who if lap % 2 == 0 else who[::-1])]
        _say(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} before")
        show(nodes, measure(nodes, pods, turns, given.limit, given.profile))


if __name__ == "__main__":
    main(sys.argv[1:])
