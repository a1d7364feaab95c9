"""How a client wants something written or deleted."""

from __future__ import annotations

from typing import Final

import msgspec

from baro.apiserver.validation import FieldValidation

ATTEMPTS: Final = 16
"""Tries of an unconditional write, and of a generated name, before the client is told."""


class WriteOptions(msgspec.Struct):
    """``warnings`` collects what the client should hear (``Warning`` headers).

    ``manager`` signs the write in ``managedFields``; without one nothing is recorded. ``force`` lets an
    applier take fields of others.
    """

    dry_run: bool = False
    field_validation: FieldValidation = "Warn"
    warnings: list[str] = []
    manager: str = ""
    force: bool = False


class DeleteOptions(msgspec.Struct, frozen=True):
    """Preconditions and cascade of a delete. ``grace_period`` is accepted and has no effect."""

    uid: str = ""
    resource_version: str = ""
    propagation: str = "Background"
    grace_period: int | None = None
    dry_run: bool = False
