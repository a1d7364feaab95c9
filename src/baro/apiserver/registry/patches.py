"""Patches applied to documents, with the server's answers where they do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baro.apiserver.patching import Patch, PatchError, Problem
from baro.apiserver.status import StatusError, bad_patch, bad_request, entity_too_large

Body = dict[str, Any]


def patched(patch: Patch, document: Body, *, kind: str, api_version: str) -> Body:
    """What ``patch`` makes of an object. Raises the StatusErrors of patches, 400 when it is another kind."""
    try:
        result = patch.apply(document)
    except PatchError as error:
        raise _status(error) from None
    if not isinstance(result, Mapping):
        raise bad_patch()
    if result.get("kind") != kind or result.get("apiVersion") != api_version:
        raise bad_request(
            f"the patch makes it a {result.get('kind')} of {result.get('apiVersion')}, "
            "which is not what the URL names"
        )
    return dict(result)


def _status(error: PatchError) -> StatusError:
    if error.problem is Problem.MALFORMED:
        return bad_request(error.message)
    if error.problem is Problem.TOO_LONG:
        return entity_too_large(error.message)
    if error.problem is Problem.UNKEYED:
        return StatusError(500, "", error.message)
    return bad_patch()
