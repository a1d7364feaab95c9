"""``baro lint --server``: a live API server asked by dry run, beside what lint says offline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from baro.cli.output import progress
from baro.diagnosis.lint.registry import note
from baro.kube.client import KubeClient
from baro.kube.dryrun import DryRun, dry_run
from baro.model.errors import BaroError, UnreachableError, Where
from baro.model.kinds.base import KubeObject
from baro.model.kinds.core import Namespace
from baro.model.kinds.resource import DeviceClass, DeviceTaintRule, ResourceSlice
from baro.model.load import Loaded

if TYPE_CHECKING:
    from baro.cli.lint_settings import Settings
    from baro.diagnosis.lint import Judged

_KINDS: tuple[type[KubeObject], ...] = (ResourceSlice, DeviceClass, DeviceTaintRule, Namespace)


class Live:
    """One server: what its devices publish, and its answers."""

    def __init__(self, settings: Settings) -> None:
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

    def answers(self, judged: Sequence[Judged]) -> list[Answer]:
        """For each document what the server says. Raises ``UnreachableError``."""
        with self._client() as client:
            namespace = self._settings.namespace or client.namespace or "default"
            return [
                Answer(live=dry_run(client, one.document.body, namespace), offline=one.server)
                for one in judged
            ]

    def noted(self, judged: Judged, answer: Answer) -> Judged:
        """The document with a finding more, where the server refuses what lint takes for right."""
        if answer.live.accepted is not False or judged.server:
            return judged
        found = note("server-refuses", answer.live.message, judged.document.where)
        return msgspec.structs.replace(judged, notes=(*judged.notes, found))


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says to a document, beside what lint says: ``offline`` as in ``Judged.server``."""

    live: DryRun
    offline: str | None

    @property
    def agrees(self) -> bool | None:
        """Whether both accept or both refuse; None where one of them does not judge."""
        if self.live.accepted is None or self.offline is None:
            return None
        return self.live.accepted == (not self.offline)

    @property
    def same_words(self) -> bool | None:
        return None if self.agrees is None else self.live.message == self.offline

    def shown(self) -> str:
        """For a terminal."""
        words = {True: "accepted", False: "refused", None: "not judged"}[self.live.accepted]
        if self.agrees is False:
            words += " (lint disagrees)"
        elif self.same_words and self.offline:
            return f"{words} (in the same words)"
        return f"{words}: {self.live.message}" if self.live.message else words

    def document(self) -> dict[str, Any]:
        return {
            "accepted": self.live.accepted,
            "message": self.live.message or None,
            "warnings": list(self.live.warnings),
            "agrees": self.agrees,
            "sameWords": self.same_words,
        }
