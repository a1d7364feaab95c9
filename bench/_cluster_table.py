"""What ``bench/cluster`` prints: one column a turn, the ratios, and where baro's time went."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from bench._cluster_load import Check, Times
from bench._cluster_planner import PHASES

ALONE, BARO = "kube-scheduler", "baro"
COMPONENTS = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager", "kwok", "baro")
WRITES = ("create", "patch", "update", "delete")


class Phases(msgspec.Struct, rename="camel"):
    """What the planner's process wrote at its end; seconds, and counts of calls."""

    wall: dict[str, float]
    cpu: dict[str, float]
    entered: dict[str, int]
    calls: dict[str, int]
    cpu_elsewhere: float


class Run(msgspec.Struct):
    """One way of binding the pods. ``cpu`` in seconds by component; the load generator is ``(load)``.

    ``requests`` are those of all clients, as the API server counted them.
    """

    who: str
    pods: int
    times: Times
    cpu: dict[str, float]
    check: Check
    other_cpu: float = 0.0
    requests: dict[str, float] = {}
    phases: Phases | None = None
    hot: str = ""

    @property
    def waits(self) -> list[float]:
        """Seconds from sending a pod to its binding, sorted."""
        return sorted(at - self.times.sent[name] for name, at in self.times.bound.items())

    @property
    def took(self) -> float:
        """Seconds from the first pod sent to the last one bound."""
        sent = self.times.sent.values()
        return max(self.times.bound.values(), default=0.0) - min(sent) if self.times.bound else 0.0

    @property
    def rate(self) -> float:
        """Pods bound per second."""
        return len(self.times.bound) / self.took if self.took else 0.0

    @property
    def steady(self) -> float | None:
        """The rate once all pods had been created; ``None`` when hardly any were left by then."""
        last = max(self.times.bound.values(), default=0.0)
        later = sum(at > self.times.created for at in self.times.bound.values())
        return later / (last - self.times.created) if later >= self.pods / 10 else None

    @property
    def cpu_per_pod(self) -> float:
        """CPU milliseconds of everything but the load generator."""
        return 1000 * (sum(self.cpu.values()) - self.cpu["(load)"]) / max(1, len(self.times.bound))


def _quantile(waits: Sequence[float], part: float) -> float | None:
    return waits[min(len(waits) - 1, int(len(waits) * part))] if waits else None


Figure = Callable[[Run], float | None]
COMPARED: dict[str, tuple[Figure, int]] = {
    "pods bound/s, over all": (lambda run: run.rate, 1),
    "pods bound/s, steady": (lambda run: run.steady, 1),
    "created to bound, p50 s": (lambda run: _quantile(run.waits, 0.5), 2),
    "created to bound, p99 s": (lambda run: _quantile(run.waits, 0.99), 2),
    "CPU ms per pod, all but load": (lambda run: run.cpu_per_pod, 1),
    "pods/s that all CPUs could carry": (lambda run: 1000 * (os.cpu_count() or 1) / run.cpu_per_pod, 1),
}
"""Row → its figure and digits. What is the same for both ways is printed apart."""


def _others(run: Run) -> list[tuple[str, str]]:
    created = run.pods / max(1e-9, run.times.created - min(run.times.sent.values()))
    found = [
        ("pods bound", f"{run.check.bound} of {run.pods}"),
        ("pods created/s", f"{created:.1f}"),
        ("claims on several islands", str(run.check.split)),
    ]
    found += [(f"CPU s, {name}", f"{run.cpu.get(name, 0):.1f}") for name in (*COMPONENTS, "(load)")]
    found.append(("CPU s, other work", f"{run.other_cpu:.1f}"))
    found.append(("CPUs that all this got", f"{sum(run.cpu.values()) / max(1e-9, run.took):.2f}"))
    calls = run.phases.calls if run.phases else {}
    mine = sum(count for call, count in calls.items() if call.startswith(WRITES))
    gets = calls.get("get resourceclaims", 0)
    found.append(("API writes per pod, all clients", f"{sum(run.requests.values()) / run.pods:.2f}"))
    found.append(("baro's writes per pod", f"{mine / run.pods:.2f}" if calls else "-"))
    found.append(("baro's reads per pod", f"{gets / run.pods:.2f}" if calls else "-"))
    return found


def show(nodes: int, runs: Sequence[Run]) -> None:
    """The table of one cluster size, and where baro's time went."""
    runs = sorted(runs, key=lambda run: run.who != ALONE)
    print(f"\n{nodes} nodes, {runs[0].pods} pods\n")
    print(f"{'':<34}" + "".join(f"{run.who:>16}" for run in runs) + f"{'ratio of means':>16}")
    for label, (figure, digits) in COMPARED.items():
        values = [figure(run) for run in runs]
        cells = [f"{'-' if value is None else f'{value:.{digits}f}':>16}" for value in values]
        print(f"{label:<34}" + "".join(cells) + f"{_ratio(runs, values):>16}")
    for row in zip(*map(_others, runs), strict=True):
        print(f"{row[0][0]:<34}" + "".join(f"{figure:>16}" for _, figure in row))
    for run in runs:
        for trouble in dict.fromkeys(run.times.troubles):
            print(f"{run.who}: the watch: {trouble}")
    for who in (ALONE, BARO):
        first = next((run for run in runs if run.who == who), None)
        if first is not None:
            calls = sorted(first.requests.items(), key=lambda item: -item[1])
            per_pod = ", ".join(f"{call} {n / first.pods:.2f}" for call, n in calls if n / first.pods >= 0.02)
            print(f"\nAPI writes per pod, {who}: {per_pod}")
    for run in runs:
        if run.phases is not None:
            _show_phases(run, run.phases)
            print(run.hot)
            break


def _ratio(runs: Sequence[Run], values: Sequence[float | None]) -> str:
    """baro's mean over that of kube-scheduler alone."""
    means: list[float] = []
    for who in (BARO, ALONE):
        known = [v for run, v in zip(runs, values, strict=True) if run.who == who and v is not None]
        if not known:
            return "-"
        means.append(sum(known) / len(known))
    return f"{means[0] / means[1]:.2f}"


def _show_phases(run: Run, phases: Phases) -> None:
    print(f"\n{'where baro’s threads are':<46}{'times':>8}{'wall s':>9}{'CPU s':>8}{'CPU ms/pod':>12}")
    for phase in PHASES:
        wall, cpu = phases.wall.get(phase, 0.0), phases.cpu.get(phase, 0.0)
        times = phases.entered.get(phase, 0)
        print(f"{phase:<46}{times:>8}{wall:>9.2f}{cpu:>8.2f}{1000 * cpu / run.pods:>12.2f}")
    rest = phases.cpu_elsewhere
    print(f"{'elsewhere (start, lists, reading watches)':<46}{'':>8}{'':>9}{rest:>8.2f}")
    print(
        "calls: " + ", ".join(f"{call} {count}" for call, count in sorted(phases.calls.items())), flush=True
    )
