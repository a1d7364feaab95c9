"""The same pods on a real control plane: once through kube-scheduler alone, once through baro.

API server, etcd, controllers and kube-scheduler are upstream's; nodes are kwok's and their GPUs simulated
(8 devices in two islands of 4, one slice each). Each pod has one claim from a template: 4 devices of one
island (``matchAttribute``). Alone: shared class, kube-scheduler allocates and binds. baro: exclusive class
and gate, ``baro controller`` as a separate process under its own service account allocates, kube-scheduler
binds. Each column has a cluster of its own.

Times are from sending the pod until a watch shows it bound; *steady* is the rate once creation has ended
(``-`` when less than a tenth was left by then). CPU seconds are from the first pod sent to the last one
bound. All share
one machine with the load generator. ``--profile`` adds cProfile of the planner, which slows it; counters
by phase are always there. Run ``python bench/cluster.py [--nodes 500,5000] [--pods 900,1000] [--profile]
[--only kube-scheduler|baro] [--limit SECONDS]``.
"""

from __future__ import annotations

import argparse
import os
import pstats
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from baro.kube.client import KubeClient
from baro.model.names import EXCLUSIVE_CLASS, NVIDIA_DRIVER
from bench._cluster_load import (
    NAMESPACE,
    BenchCluster,
    Check,
    Times,
    check,
    join_nodes,
    prepare,
    send_pods,
)
from bench._cluster_planner import PHASES
from tests.support.real_access import eventually
from tests.support.real_cluster import RealCluster
from tests.support.real_process import Component

ALONE, BARO = "kube-scheduler", "baro"
PLANNER = Path(__file__).with_name("_cluster_planner.py")
COMPONENTS = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager", "kwok", "baro")
WRITES = ("create", "patch", "update", "delete")
PROFILE_LINES = 30


class Phases(msgspec.Struct, rename="camel"):
    """What the planner's process wrote at its end; seconds, and counts of calls."""

    wall: dict[str, float]
    cpu: dict[str, float]
    entered: dict[str, int]
    calls: dict[str, int]
    cpu_elsewhere: float


class Column(msgspec.Struct):
    """One way of binding the pods. ``cpu`` in seconds by component; the load generator is ``(load)``."""

    who: str
    pods: int
    times: Times
    cpu: dict[str, float]
    check: Check
    phases: Phases | None = None
    hot: str = ""


def measure(who: str, nodes: int, pods: int, limit_s: float, profile: bool) -> Column:
    """A fresh cluster, its nodes, the pods, and everything stopped again."""
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
        prepare(api, EXCLUSIVE_CLASS if who == BARO else NVIDIA_DRIVER)
        if who == BARO:
            _start_planner(cluster, profile)
        before = _cpu(cluster)
        times = send_pods(api, pods, gated=who == BARO, limit_s=limit_s)
        after = _cpu(cluster)
        column = Column(who, pods, times, {n: after[n] - before[n] for n in after}, check(api))
        if who == BARO:
            cluster.components["baro"].stop(grace_s=20)
            column.phases = msgspec.json.decode(_counters(cluster).read_bytes(), type=Phases)
            column.hot = _hot(cluster.folder / "planner.pstats") if profile else ""
        return column


def _start_planner(cluster: RealCluster, profile: bool) -> None:
    kubeconfig = cluster.account_kubeconfig("baro-controller", "baro-system")
    extra = ("--cprofile", cluster.folder / "planner.pstats") if profile else ()
    command = [
        sys.executable,
        PLANNER,
        _counters(cluster),
        *extra,
        "--",
        "controller",
        "--kubeconfig",
        kubeconfig,
    ]
    planner = Component("baro", command, cluster.folder / "baro.log")
    planner.start()
    cluster.components["baro"] = planner
    eventually(lambda: "watching" in planner.tail() or None, "baro controller starts")
    time.sleep(5)  # it lists everything; not part of what is measured


def _counters(cluster: RealCluster) -> Path:
    return cluster.folder / "planner.json"


def _cpu(cluster: RealCluster) -> dict[str, float]:
    used = {name: component.cpu_seconds() for name, component in cluster.components.items()}
    return {**used, "(load)": time.process_time()}


def _hot(path: Path) -> str:
    import io  # noqa: PLC0415 - only for --profile

    text = io.StringIO()
    pstats.Stats(str(path), stream=text).sort_stats("cumulative").print_stats(PROFILE_LINES)
    return text.getvalue()


# --- printing ------------------------------------------------------------------------------------------


def rows(column: Column) -> list[tuple[str, str]]:
    """Label and figure, in the order in which they are printed."""
    times = column.times
    waits = sorted(at - times.sent[name] for name, at in times.bound.items())
    start, last = min(times.sent.values()), max(times.bound.values(), default=0.0)
    later = sum(at > times.created for at in times.bound.values())
    steady = f"{later / (last - times.created):.1f}" if later >= column.pods / 10 else "-"
    found = [
        ("pods bound", f"{column.check.bound} of {column.pods}"),
        ("pods created/s", f"{column.pods / (times.created - start):.1f}"),
        ("pods bound/s, over all", f"{len(waits) / (last - start):.1f}" if waits else "-"),
        ("pods bound/s, steady", steady),
        ("created to bound, p50 s", f"{waits[len(waits) // 2]:.2f}" if waits else "-"),
        ("created to bound, p99 s", f"{waits[int(len(waits) * 0.99)]:.2f}" if waits else "-"),
        ("claims on several islands", str(column.check.split)),
    ]
    found += [(f"CPU s, {name}", f"{column.cpu.get(name, 0):.1f}") for name in (*COMPONENTS, "(load)")]
    found.append(("CPU s, all but load", f"{sum(column.cpu.values()) - column.cpu['(load)']:.1f}"))
    calls = column.phases.calls if column.phases else {}
    writes = sum(count for call, count in calls.items() if call.startswith(WRITES))
    per_pod: Callable[[int], str] = lambda count: f"{count / max(1, len(waits)):.2f}"  # noqa: E731
    found.append(("baro's API writes per pod", per_pod(writes) if column.phases else "-"))
    found.append(("baro's API reads per pod", per_pod(calls.get("get resourceclaims", 0)) if calls else "-"))
    return found


def show(nodes: int, columns: Sequence[Column]) -> None:
    """The table of one cluster size, and where baro's time went."""
    print(f"\n{nodes} nodes, {columns[0].pods} pods\n")
    print(f"{'':<30}" + "".join(f"{column.who:>16}" for column in columns))
    for row in zip(*map(rows, columns), strict=True):
        print(f"{row[0][0]:<30}" + "".join(f"{figure:>16}" for _, figure in row))
    for column in columns:
        for trouble in dict.fromkeys(column.times.troubles):
            print(f"{column.who}: the watch: {trouble}")
        if column.phases is not None:
            _show_phases(column, column.phases)
            print(column.hot)


def _show_phases(column: Column, phases: Phases) -> None:
    print(f"\n{'where baro’s threads are':<40}{'times':>8}{'wall s':>9}{'CPU s':>8}{'ms/pod':>8}")
    for phase in PHASES:
        wall, cpu = phases.wall.get(phase, 0.0), phases.cpu.get(phase, 0.0)
        per_pod = 1000 * wall / column.pods
        print(f"{phase:<40}{phases.entered.get(phase, 0):>8}{wall:>9.2f}{cpu:>8.2f}{per_pod:>8.1f}")
    print(f"{'elsewhere (start, watches: read, decode)':<40}{'':>8}{'':>9}{phases.cpu_elsewhere:>8.2f}")
    print(
        "calls: " + ", ".join(f"{call} {count}" for call, count in sorted(phases.calls.items())), flush=True
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench cluster", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", default="500,5000", help="cluster sizes, separated by commas")
    parser.add_argument("--pods", default="900,1000", help="pods for each size, or one number for all")
    parser.add_argument("--only", choices=(ALONE, BARO), help="one column only")
    parser.add_argument("--profile", action="store_true", help="cProfile of the planner's thread")
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds after which waiting pods are left"
    )
    given = parser.parse_args(arguments)
    sizes, counts = ([int(part) for part in text.split(",")] for text in (given.nodes, given.pods))
    for at, nodes in enumerate(sizes):
        pods = counts[min(at, len(counts) - 1)]
        who = [given.only] if given.only else [ALONE, BARO]
        _say(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} before")
        show(nodes, [measure(each, nodes, pods, given.limit, given.profile) for each in who])


if __name__ == "__main__":
    main(sys.argv[1:])
