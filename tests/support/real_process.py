"""One program of a test cluster: started, watched, killed and started again, with its log at hand.

Every program runs in a process group of its own, so that Ctrl-C reaches only the supervisor, and holds a
lifeline (see ``tests/cluster/go/lifeline``): it ends by itself when the supervisor is gone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

TAIL_LINES = 25
POLL_S = 0.05
FIRST_PORT = 10_240
"""Below are ports of well-known services."""


class ComponentError(RuntimeError):
    """A program ended, or did not become ready; the text ends with the tail of its log."""


class Component:
    """One program. ``health`` is the URL that answers 200 once it works; ``None``: it has none.

    ``lifeline`` is how long the program waits after the supervisor's death before it ends itself.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        *,
        health: str | None = None,
        lifeline: str = "0s",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self.health = health
        self._environment = {**os.environ, "BARO_LIFELINE": lifeline, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; ``ComponentError`` when it does not run."""
        if self._process is None or self._process.poll() is not None:
            raise ComponentError(f"{self.name} is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it (again); its log is continued. Does not wait until it is ready."""
        if self.running:
            return
        self._close_lifeline()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,  # the lifeline: never written to
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def ready(self) -> bool:
        """Whether it answers on its health URL now."""
        if self.health is None:
            return self.running
        try:
            with urllib.request.urlopen(self.health, timeout=2, context=_unverified()) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError, ValueError):
            return False

    def wait_ready(self, timeout_s: float) -> None:
        """Until it is ready; ``ComponentError`` when it ends first or takes too long."""
        deadline = time.monotonic() + timeout_s
        while not self.ready():
            if not self.running:
                code = self._process.returncode if self._process is not None else None
                raise ComponentError(f"{self.name} ended with exit code {code}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ComponentError(f"{self.name} was not ready within {timeout_s:.0f} s\n{self.tail()}")
            time.sleep(POLL_S)

    def stop(self, grace_s: float = 3.0) -> None:
        """SIGTERM, and SIGKILL when it does not end in time. Fine when it does not run."""
        self._signal(signal.SIGTERM)
        try:
            if self._process is not None:
                self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close_lifeline()

    def kill(self) -> None:
        """SIGKILL to the whole group, as a crash of the machine would."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        self._close_lifeline()

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The end of its log, with the file's name."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            text = ""
        shown = "\n".join(f"  {line}" for line in text.splitlines()[-lines:])
        return f"the end of {self.log}:\n{shown or '  (empty)'}"

    def cpu_seconds(self) -> float:
        """CPU time used so far, user and system; for benchmarks."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _signal(self, number: int) -> None:
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def _close_lifeline(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()


def free_ports(count: int) -> list[int]:
    """Distinct free ports on loopback, none of which the kernel gives to a client.

    A client's port of the moment could be the one that a killed server wants to have again; and a client
    that knocks there meanwhile may even be connected to itself. Another server may still take one first.
    """
    low, high = _clients_ports()
    eligible = [*range(FIRST_PORT, min(low, 65_536)), *range(high + 1, 65_536)]
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            tried = stack.enter_context(socket.socket())
            port = secrets.choice(eligible) if eligible else 0
            with contextlib.suppress(OSError):
                tried.bind(("127.0.0.1", port))
                found.append(int(tried.getsockname()[1]))
    return found


def _clients_ports() -> tuple[int, int]:
    """First and last port that the kernel gives to clients."""
    try:
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()
    except OSError:  # no Linux
        return 32_768, 65_535
    return int(low), int(high)


def _unverified() -> ssl.SSLContext:
    """For health checks only: scheduler and controller manager serve certificates that they made up."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
