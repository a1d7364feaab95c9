"""Cold start: CPU time of ``baro --help`` beside bare Python, in one run.

CPU time (user + system of the finished child) rather than wall time, since a busy machine does not change
it much. Each command is run once to warm the file cache and then counted.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence

RUNS = 11
COMMANDS: dict[str, Sequence[str]] = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "baro --help": (sys.executable, "-m", "baro", "--help"),
    "baro --version": (sys.executable, "-m", "baro", "--version"),
    "baro topo --help": (sys.executable, "-m", "baro", "topo", "--help"),
    "baro place --help": (sys.executable, "-m", "baro", "place", "--help"),
}


def cpu_seconds(command: Sequence[str]) -> float:
    """User and system time of one finished run, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def main() -> None:
    bare = 0.0
    print(f"{'command':<20} {'CPU ms, median':>15} {'min':>6} {'max':>6} {'over bare':>10}")
    for name, command in COMMANDS.items():
        cpu_seconds(command)
        figures = sorted(cpu_seconds(command) for _ in range(RUNS))
        median = statistics.median(figures)
        bare = bare or median
        print(
            f"{name:<20} {median * 1000:>15.0f} {figures[0] * 1000:>6.0f} {figures[-1] * 1000:>6.0f}"
            f" {(median - bare) * 1000:>10.0f}"
        )


if __name__ == "__main__":
    main()
