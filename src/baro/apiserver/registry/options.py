"""How a client wants something written or deleted."""

from __future__ import annotations

import msgspec

from baro.apiserver.validation import FieldValidation


class WriteOptions(msgspec.Struct):
    """``warnings`` collects what the client should hear (``Warning`` headers)."""

    dry_run: bool = False
    field_validation: FieldValidation = "Warn"
    warnings: list[str] = []


class DeleteOptions(msgspec.Struct, frozen=True):
    """Preconditions and cascade of a delete. ``grace_period`` is accepted and has no effect."""

    uid: str = ""
    resource_version: str = ""
    propagation: str = "Background"
    grace_period: int | None = None
    dry_run: bool = False
