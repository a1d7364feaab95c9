"""Reads the feature gates of the API server from its metrics, beside the lists of a diagnosis.

A right of its own (``get`` on the URL ``/metrics``) and never needed: without it the defaults of the server's
version are assumed, and ``missing`` says so. A server that has no such page is no fault.
"""

from __future__ import annotations

from collections.abc import Mapping

from baro.diagnosis.evidence import Missing
from baro.diagnosis.gates import GateLines
from baro.kube.client import KubeClient
from baro.kube.errors import NotFoundError
from baro.kube.routes import Route
from baro.model.errors import BaroError, ForbiddenError, UnreachableError

SOURCE = "metrics"
_PATH = "metrics"
_ROUTE = Route("v1", "/metrics", False)
_ASSUMED = "the API server's feature gates are not known, the defaults of its version are assumed"


class GatesReader:
    """One reading, for a thread of its own. ``gates`` and ``missing`` may be asked at any moment."""

    def __init__(self, client: KubeClient, until: float) -> None:
        self._client = client
        self._until = until
        self._done = False
        self._error: BaroError | None = None
        self._gates: Mapping[str, bool] = {}

    def run(self) -> None:
        """Reads; what goes wrong is kept."""
        lines = GateLines()
        try:
            self._client.read_until(
                _PATH, params={}, verb="get", resource=_ROUTE, until=self._until, accept="text/plain",
                enough=lines.feed,
            )  # fmt: skip
            self._gates = dict(lines.end())
        except NotFoundError:
            pass
        except BaroError as error:
            self._error = error
        except Exception as error:
            self._error = UnreachableError(f"{type(error).__name__}: {error}")
        finally:
            self._done = True

    @property
    def gates(self) -> Mapping[str, bool]:
        """Gate → on; empty until they are read."""
        return self._gates if self._done else {}

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Why they are not known, as things stand now."""
        if not self._done:
            return (Missing(SOURCE, f"{_ASSUMED}: no answer in time", "give them: --feature-gates"),)
        if self._error is None:
            return ()
        step = "give them: --feature-gates NAME=true|false"
        if isinstance(self._error, ForbiddenError):
            step = "kubectl auth can-i get /metrics; or give them: --feature-gates NAME=true|false"
        return (Missing(SOURCE, f"{_ASSUMED}: {self._error.what}", step),)
