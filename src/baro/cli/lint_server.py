"""``baro lint --server``: a live API server asked by dry run, beside what lint says offline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from baro.cli.output import progress
from baro.kube.client import KubeClient
from baro.kube.dryrun import DryRun, dry_run
from baro.model.errors import BaroError, UnreachableError, Where
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Namespace
from baro.model.kinds.resource import DeviceClass, DeviceTaintRule, ResourceSlice
from baro.model.load import Loaded

if TYPE_CHECKING:
    from baro.cli.lint import Settings
    from baro.diagnosis.lint import Judged

_KINDS: tuple[type[KubeObject], ...] = (ResourceSlice, DeviceClass, DeviceTaintRule, Namespace)


class Live:
    """One server: what its devices publish, and its answers."""

    def __init__(self, settings: Settings) -> None:
        self.namespace = settings.namespace
        self._settings = settings
        self.evidence: tuple[Loaded, ...] = tuple(self._read())

    def _client(self) -> KubeClient:
        settings = self._settings
        return KubeClient.connect(
            url=settings.url, kubeconfig_path=settings.kubeconfig, context=settings.context
        )

    def _read(self) -> list[Loaded]:
        """Slices, classes, taint rules and namespaces, as far as they may be read."""
        found: list[Loaded] = []
        with self._client() as client:
            for kind in _KINDS:
                try:
                    listed = client.list(kind).items
                except UnreachableError:
                    raise
                except BaroError as error:
                    progress(f"{kind.__name__}s of the server are not used: {error.what}")
                    continue
                for item in listed:
                    name = f"{kind.__name__} {item.metadata.name}"
                    found.append(Loaded(item.to_dict(), Where(file=client.url, object=name)))
        return found

    def answers(self, judged: Sequence[Judged]) -> list[dict[str, Any]]:
        """For each document: accepted, message, and whether the offline answer agrees."""
        found: list[dict[str, Any]] = []
        with self._client() as client:
            for one in judged:
                answer = dry_run(client, one.document.body, self.namespace)
                found.append(_answer(answer, one.server))
        return found


def _answer(answer: DryRun, offline: str | None) -> dict[str, Any]:
    agrees: bool | None = None
    if answer.accepted is not None and offline is not None:
        agrees = answer.accepted == (not offline)
    words = {True: "accepted", False: "refused", None: "not judged"}[answer.accepted]
    shown = f"{words}: {answer.message}" if answer.message else words
    if agrees is not None:
        shown += "" if agrees else " (lint disagrees)"
        shown += " (in the same words)" if agrees and offline and answer.message == offline else ""
    return {
        "accepted": answer.accepted,
        "message": answer.message or None,
        "warnings": list(answer.warnings),
        "agrees": agrees,
        "sameWords": None if agrees is None else answer.message == (offline or ""),
        "shown": shown,
    }
