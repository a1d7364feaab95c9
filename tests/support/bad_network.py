"""A TCP proxy for tests: it lets so many bytes of a server through per connection, then stalls or cuts.

It works below TLS, so a real API server behind it is still verified by its certificate.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType


class BadNetwork:
    """Forwards connections. ``cut``: end after ``bytes_through`` bytes; else stall until closed."""

    def __init__(self, host: str, port: int, *, bytes_through: int, cut: bool) -> None:
        self._target = (host, port)
        self._limit = bytes_through
        self._cut = cut
        self._closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.struck = 0
        """Connections that met the limit."""

    @property
    def port(self) -> int:
        """The port to connect to on 127.0.0.1."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> BadNetwork:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        for item in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)
            item.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not self._closed.is_set():
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                threading.Thread(target=self._pipe, args=(client, server, None), daemon=True).start()
                threading.Thread(target=self._pipe, args=(server, client, self._limit), daemon=True).start()

    def _pipe(self, source: socket.socket, sink: socket.socket, limit: int | None) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(16384):
                passed += len(data)
                if limit is not None and passed > limit:
                    self.struck += 1
                    if not self._cut:
                        self._closed.wait()  # holds what came, as a dead link does
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
