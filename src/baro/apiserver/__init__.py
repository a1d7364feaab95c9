"""The embedded Kubernetes API server: a convenience that real kubectl can use, not the truth.

Separate rooms, from the inside out: ``storage`` keeps objects, ``patching`` and ``validation`` are functions
on bodies, ``registry`` gives objects their life (create, update, delete and what follows), ``handling`` turns
requests into answers, ``serving`` and ``serve`` put that on a port. ``docs/apiserver.md`` lists what differs
from a real server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baro.apiserver.serve import RunningServer, kubeconfig, run_in_thread, write_kubeconfig
    from baro.apiserver.serving import create_app

__all__ = ["RunningServer", "create_app", "kubeconfig", "run_in_thread", "write_kubeconfig"]


def __getattr__(name: str) -> Any:
    """Loads the web libraries only when a server is wanted."""
    if name == "create_app":
        from baro.apiserver.serving import create_app  # noqa: PLC0415

        return create_app
    if name in __all__:
        from baro.apiserver import serve  # noqa: PLC0415

        return getattr(serve, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
