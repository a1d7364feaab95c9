"""Running the application: a uvicorn server in a thread of this process, on loopback unless told otherwise.

There is no TLS and no authentication here: whoever can reach the port may do everything. That is right
for a demo on one machine, and the reason why other addresses must be asked for.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Final

import uvicorn
import yaml
from starlette.applications import Starlette

from baro.apiserver.registry import Registry
from baro.model.errors import InputError, InternalError

_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 5.0
CONTEXT: Final = "baro-embedded"


class _Server(uvicorn.Server):
    """Says when it listens, and ends its watches before it waits for connections to close."""

    def __init__(self, config: uvicorn.Config, app: Starlette) -> None:
        super().__init__(config)
        self.listening = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._watches = app.state.watches

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.loop = asyncio.get_running_loop()
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._watches.end()
        await super().shutdown(sockets=sockets)


class RunningServer:
    """A server that answers at ``url`` until :meth:`stop`. Also a context manager."""

    def __init__(self, app: Starlette, server: _Server, thread: threading.Thread, url: str) -> None:
        self.url = url
        self.registry: Registry = app.state.registry
        self._server = server
        self._thread = thread

    def stop(self) -> None:
        """Ends open watches, closes the port and waits for the thread. Calling it twice is fine."""
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            self._server.force_exit = True
            self._thread.join(_STOP_SECONDS)

    def wait(self) -> None:
        """Returns when the server has stopped."""
        self._thread.join()

    def write_kubeconfig(self, path: str | Path) -> Path:
        """Writes a kubeconfig for this server to ``path``."""
        return write_kubeconfig(path, self.url)

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def run_in_thread(app: Starlette, *, host: str = "127.0.0.1", port: int = 0) -> RunningServer:
    """Serves ``app`` (of ``create_app``) in a daemon thread; returns when it listens.

    ``port`` 0 takes a free one. Raises ``InputError`` when the address cannot be had.
    """
    listener = _listen(host, port)
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=65,
    )
    server = _Server(config, app)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="baro-apiserver", daemon=True
    )
    thread.start()
    if not server.listening.wait(_START_SECONDS):
        listener.close()
        raise InternalError("the embedded API server did not start")
    address, taken = listener.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    return RunningServer(app, server, thread, f"http://{shown}:{taken}")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named since asyncio sets TCP_NODELAY only then; without it each answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot listen on {host} port {port}: {error.strerror or error}",
            next_step="choose another --port, or 0 for a free one",
        ) from None
    return listener


def kubeconfig(url: str) -> str:
    """The text of a kubeconfig whose only context is the server at ``url``."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CONTEXT, "cluster": {"server": url}}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
            "current-context": CONTEXT,
            "users": [{"name": CONTEXT, "user": {}}],
        },
        sort_keys=False,
    )


def write_kubeconfig(path: str | Path, url: str) -> Path:
    """Writes :func:`kubeconfig` to ``path``, readable by the owner only; folders are made.

    A kubeconfig of someone else is not overwritten: raises ``InputError`` when the file names other servers.
    """
    target = Path(path)
    if target.exists() and CONTEXT not in target.read_text(encoding="utf-8", errors="replace"):
        raise InputError(
            f"{target} is a kubeconfig of another cluster",
            next_step="name a file of its own and set KUBECONFIG to it",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(kubeconfig(url))
    return target
