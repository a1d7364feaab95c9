"""``baro diagnose`` on a generated (simulated) dump of 10,000 nodes × 8 GPUs with 200 faults of 20 kinds.

Reads, checks and reports in one fresh process, as the command does. Time is CPU time of that process, memory
its peak resident set, both from the operating system; the peak after reading alone is printed too. The budget
of the project: everything found, nothing false, at most 10 s and 1 GiB.
Run: ``python -m bench diagnose`` or ``python -m bench diagnose --nodes 1000 --each 10``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = """
import json, resource, sys, time

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

from baro.diagnosis.checks import CHECKS, diagnose
from baro.diagnosis.files import read_files
from baro.diagnosis.report.document import document
from baro.diagnosis.report.summary import summarise

start = time.process_time()
evidence = read_files([sys.argv[1]])
read, peak_read = time.process_time() - start, peak()
diagnosis = diagnose(evidence)
checked = time.process_time() - start - read
report = document(diagnosis, summarise(diagnosis))
json.dumps(report)
total = time.process_time() - start
problems = [(item["code"], item["subject"], item["severity"]) for item in report["problems"]]
print(json.dumps({
    "read": read, "checked": checked, "total": total, "peakRead": peak_read, "peak": peak(),
    "answer": report["summary"]["answer"], "problems": problems,
}))
"""


def measure(file: Path) -> dict[str, Any]:
    """One run in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file)], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def main(arguments: Sequence[str] = ()) -> None:
    """Prints one row a kind and the totals."""
    parser = argparse.ArgumentParser(prog="python -m bench diagnose")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--each", type=int, default=10, help="faults of every kind")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(ROOT))
    from tests.support.faulty_cluster import KINDS, dump  # noqa: PLC0415 - tests lie beside this folder

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dump.json"
        pieces, planted = dump(options.nodes, options.each)
        with file.open("w") as stream:
            stream.writelines(pieces)
        size = file.stat().st_size / 2**20
        found = measure(file)
    wanted = Counter((item.code, item.subject) for item in planted)
    given = Counter((code, subject) for code, subject, severity in found["problems"] if severity != "info")
    print("| kind | planted | found | false |\n|---|---|---|---|")
    for kind in (*KINDS, *sorted({code for code, _ in given} - set(KINDS))):
        mine = {key: number for key, number in wanted.items() if key[0] == kind}
        hits = sum(min(given[key], number) for key, number in mine.items())
        false = sum(number for key, number in given.items() if key[0] == kind) - hits
        print(f"| {kind} | {sum(mine.values())} | {hits} | {false} |")
    hits = sum(min(given[key], number) for key, number in wanted.items())
    print(f"| **all** | {sum(wanted.values())} | {hits} | {sum(given.values()) - hits} |")
    print(f"\n{options.nodes:,} nodes × 8 GPUs, {size:,.0f} MiB of JSON: {found['answer']}\n")
    print("| | reading | checks | all, with the report |\n|---|---|---|---|")
    print(f"| CPU seconds | {found['read']:.1f} | {found['checked']:.1f} | {found['total']:.1f} |")
    print(f"| peak MiB | {found['peakRead']:,.0f} | | {found['peak']:,.0f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
