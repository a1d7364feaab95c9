"""``baro controller`` in a process of its own, with counters of calls and of seconds by phase.

``python bench/_cluster_planner.py OUT [--cprofile FILE] -- ARGUMENTS`` runs ``baro ARGUMENTS`` until
SIGTERM, then writes OUT, JSON. The production code runs unchanged; the functions named in ``PHASES`` are
wrapped by two clock reads each. The end comes by itself when standard input closes, so that the planner
never outlives the benchmark.
"""

from __future__ import annotations

import cProfile
import functools
import importlib
import inspect
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

PHASES = {
    "loop: waiting for news, and taking it in": ("baro.controller.feed", "Feed.absorb"),
    "loop: a round, mostly waiting for the writers": ("baro.controller.reconcile", "Planner.round"),
    "loop: plan, apart from placing": ("baro.controller.planner", "_Round.run"),
    "loop: place": ("baro.controller.placer", "place"),
    "writers: finalizer and annotations": ("baro.controller.effects", "Effects._patch"),
    "writers: allocation and reservation": ("baro.controller.effects", "Effects._patch_status"),
    "writers: nomination": ("baro.controller.effects", "Effects._nominate"),
    "writers: gate": ("baro.controller.effects", "Effects._ungate"),
    "events": ("baro.kube.events", "EventRecorder.record"),
    "watches: decode": ("baro.kube.client", "HttpWatch._event"),
}
"""What is printed → module and name. A phase inside another one is taken off the outer one."""


class Counters:
    """Seconds by phase, wall and CPU, summed over the threads that are in one; API calls of all threads."""

    def __init__(self) -> None:
        self.wall: defaultdict[str, float] = defaultdict(float)
        self.cpu: defaultdict[str, float] = defaultdict(float)
        self.entered: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._inner = threading.local()
        self._lock = threading.Lock()

    def install(self) -> None:
        """Wraps every phase, and the one method through which all calls but watches go."""
        for phase, (module_name, path) in PHASES.items():
            owner: Any = importlib.import_module(module_name)
            *outer, name = path.split(".")
            for part in outer:
                owner = getattr(owner, part)
            setattr(owner, name, self._timed(phase, getattr(owner, name)))
        client = importlib.import_module("baro.kube.client").KubeClient
        client._send = self._counted(client._send)

    def _timed(self, phase: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(inner):
            return self._timed_steps(phase, inner)

        @functools.wraps(inner)
        def timed(*arguments: Any, **named: Any) -> Any:
            inside = self._inner.__dict__.setdefault("stack", [(0.0, 0.0)])
            inside.append((0.0, 0.0))
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return inner(*arguments, **named)
            finally:
                took, used = time.perf_counter() - wall, time.thread_time() - cpu
                took_inside, used_inside = inside.pop()
                inside[-1] = (inside[-1][0] + took, inside[-1][1] + used)
                with self._lock:
                    self.wall[phase] += took - took_inside
                    self.cpu[phase] += used - used_inside
                    self.entered[phase] += 1

        return timed

    def _timed_steps(self, phase: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        """Each step of a generator by itself: between them its caller works."""

        @functools.wraps(inner)
        def steps(*arguments: Any, **named: Any) -> Any:
            made = inner(*arguments, **named)
            step = self._timed(phase, lambda: next(made, made))
            try:
                while (item := step()) is not made:
                    yield item
            finally:
                made.close()

        return steps

    def _counted(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)
        def counted(client: Any, verb: str, method: str, r: Any, path: str, *rest: Any, **named: Any) -> Any:
            subresource = "/status" if path.endswith("/status") else ""
            with self._lock:
                self.calls[f"{verb} {r.plural}{subresource}"] += 1
            return inner(client, verb, method, r, path, *rest, **named)

        return counted

    def write(self, out: Path) -> None:
        """The counters as JSON."""
        report = {
            "wall": self.wall,
            "cpu": self.cpu,
            "entered": self.entered,
            "calls": self.calls,
            "cpuElsewhere": time.process_time() - sum(self.cpu.values()),
        }
        out.write_bytes(msgspec.json.encode(report))


def _end_with_parent() -> None:
    while os.read(0, 1024):  # not sys.stdin, whose lock the end of the process would trip over
        pass
    os._exit(1)


def main(arguments: list[str]) -> int:
    own, _, given = " ".join(arguments).partition(" -- ")
    out, *options = own.split()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    counters = Counters()
    counters.install()
    cli = importlib.import_module("baro.cli")
    profiler = cProfile.Profile() if options[:1] == ["--cprofile"] else None
    try:
        if profiler is not None:
            profiler.enable()
        return int(cli.main(given.split()) or 0)
    finally:
        if profiler is not None:
            profiler.disable()
            profiler.dump_stats(options[1])
        counters.write(Path(out))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
