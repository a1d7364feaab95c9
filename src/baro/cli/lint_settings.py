"""What the user of ``baro lint`` asked for."""

from __future__ import annotations

import msgspec

from baro.model.findings import Severity


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for."""

    files: tuple[str, ...]
    evidence: tuple[str, ...] = ()
    kube_version: str | None = None
    gates: tuple[str, ...] = ()
    silenced: frozenset[str] = frozenset()
    fail_on: Severity = Severity.ERROR
    server: bool = False
    kubeconfig: str | None = None
    context: str | None = None
    url: str | None = None
    namespace: str | None = None
