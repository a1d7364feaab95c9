"""Planner daemons under a test's control.

``RunningPlanner`` is one in a thread, stopped, killed or overtaken ahead of any of its writes;
``PlannerProcess`` is ``baro controller`` itself, killed by the kernel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from baro.controller.placer import with_policy
from baro.controller.reconcile import Planner
from baro.controller.runner import Controller
from baro.controller.terms import Settings
from baro.kube.api import KubeApi, Listed, WatchStream
from baro.kube.client import KubeClient
from baro.kube.lease import Elector
from baro.kube.routes import route
from baro.model.kinds.base import KubeObject
from baro.model.kinds.resource import ResourceClaim
from tests.support.kube import Killed, Write
from tests.support.real_access import eventually

T = TypeVar("T", bound=KubeObject)
Right = tuple[str, str]
"""Verb and ``group/resource`` as RBAC judges them."""
COMMAND = (sys.executable, "-c", "import sys; from baro.cli import main; sys.exit(main())")
"""``baro``, of this Python."""


class Tapped:
    """A ``KubeApi`` that lets a test act before each write, and notes the rights that calls need."""

    def __init__(self, api: KubeApi, rights: set[Right], before: Callable[[Write], None] | None) -> None:
        self._api = api
        self._rights = rights
        self._before = before
        self.writes: list[Write] = []

    @property
    def met(self) -> bool:
        """Whether something happens ahead of the writes."""
        return self._before is not None

    def get(self, kind: type[T], namespace: str, name: str) -> T:
        self._note("get", kind)
        return self._api.get(kind, namespace, name)

    def list(self, kind: type[T], namespace: str = "", **selectors: str) -> Listed[T]:
        self._note("list", kind)
        return self._api.list(kind, namespace, **selectors)

    def watch(
        self, kind: type[T], namespace: str = "", *, resource_version: str, timeout_s: int = 300
    ) -> WatchStream[T]:
        self._note("watch", kind)
        return self._api.watch(kind, namespace, resource_version=resource_version, timeout_s=timeout_s)

    def create(
        self,
        kind: type[T],
        namespace: str,
        body: T | Mapping[str, Any],
        *,
        subresource: tuple[str, str] | None = None,
    ) -> T:
        meta = body.to_dict()["metadata"] if isinstance(body, KubeObject) else body["metadata"]
        self._about_to("create", kind, namespace, meta.get("name", ""), None, {})
        return self._api.create(kind, namespace, body, subresource=subresource)

    def replace(self, kind: type[T], namespace: str, name: str, body: T | Mapping[str, Any]) -> T:
        self._about_to("update", kind, namespace, name, None, {})
        return self._api.replace(kind, namespace, name, body)

    def patch_merge(
        self,
        kind: type[T],
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        subresource: str | None = None,
    ) -> T:
        self._about_to("patch", kind, namespace, name, subresource, body)
        return self._api.patch_merge(kind, namespace, name, body, subresource)

    def delete(self, kind: type[T], namespace: str, name: str, **preconditions: Any) -> None:
        self._about_to("delete", kind, namespace, name, None, {})
        self._api.delete(kind, namespace, name, **preconditions)

    def _about_to(
        self, verb: str, kind: type[KubeObject], namespace: str, name: str, part: str | None, body: Any
    ) -> None:
        write = Write(len(self.writes) + 1, verb, kind, namespace, name, part, body)
        if self._before is not None:
            self._before(write)
        self.writes.append(write)
        self._note(verb, kind, part)
        if part == "status" and kind is ResourceClaim:
            self._note(verb, kind, "binding")  # asked for besides, from 1.36 on

    def _note(self, verb: str, kind: type[KubeObject], part: str | None = None) -> None:
        r = route(kind)
        self._rights.add((verb, f"{r.group}/{r.plural}/{part}" if part else f"{r.group}/{r.plural}"))


class _Observed(Planner):
    """A planner that tells whether it is in a round, and calls ``over`` at the end of each."""

    def __init__(self, over: Callable[[], None], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.acting = False
        self._over = over

    def round(self, *, patient: bool = True) -> bool:
        self.acting = True
        try:
            return super().round(patient=patient)
        finally:
            self.acting = False
            self._over()


class RunningPlanner:
    """A planner daemon in a thread. Killed by its tap, it is gone at once, in the middle of its work.

    ``heard`` is called whenever it said something, and at its end.
    """

    def __init__(
        self,
        client: KubeClient,
        tapped: Tapped,
        *,
        namespace: str,
        elector: Callable[[KubeApi], Elector] | None = None,
        orphan_grace_s: float = 0.0,
        writers: int = 1,
        heard: Callable[[], None] = lambda: None,
    ) -> None:
        self.log: list[str] = []
        self.tapped = tapped
        self.killed = threading.Event()
        self.failed: list[BaseException] = []
        self._client = client
        self._heard = heard
        settings = Settings(namespace=namespace, orphan_grace_s=orphan_grace_s, patience_s=1.0)
        self._planner = _Observed(
            heard, tapped, with_policy("topology"), settings=settings, log=self._say, writers=writers
        )
        chosen = elector(tapped) if elector is not None else None
        self._controller = Controller(tapped, self._planner, log=self._say, elector=chosen)
        self._thread = threading.Thread(target=self._run, daemon=True, name="planner")
        self._thread.start()

    def _say(self, line: str) -> None:
        self.log.append(line)
        self._heard()

    def _run(self) -> None:
        try:
            self._controller.run()
        except Killed:
            self.killed.set()
        except BaseException as error:
            self.failed.append(error)
        finally:
            self._planner.close()
            self._heard()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def acting(self) -> bool:
        """Whether it lives and is between the beginning and the end of a round."""
        return self._planner.acting and self.alive

    def wait_killed(self, deadline_s: float) -> None:
        self._thread.join(deadline_s)
        assert self.killed.is_set(), f"the planner lives on: {self.failed} {self.log}"

    def stop(self) -> None:
        self._controller.stop()
        self._thread.join(timeout=120)
        assert not self.alive, "the planner does not stop"
        self._client.close()


class PlannerProcess:
    """``baro controller`` with these flags."""

    def __init__(self, flags: Sequence[str], namespace: str) -> None:
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in ``kill``
        self._process = subprocess.Popen(
            [*COMMAND, "controller", *flags, "--namespace", namespace, "--orphan-grace", "0"],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> str:
        """SIGKILL; gives what it had said. Calling it twice is fine."""
        self._process.kill()
        self._process.wait(timeout=60)
        if self._output.closed:
            return ""
        said = self.said()
        self._output.close()
        return said

    def said(self) -> str:
        """What it has printed so far, nothing once it was killed."""
        return "" if self._output.closed else os.pread(self._output.fileno(), 1 << 20, 0).decode()

    def stop(self) -> None:
        """SIGTERM once it is up: it must end by itself, with success."""
        eventually(lambda: "watching" in self.said() or self._process.poll() is not None, "it is up")
        self._process.terminate()
        code = self._process.wait(timeout=120)
        assert code == 0, self.kill()
