"""JSON merge patch (RFC 7386)."""

from __future__ import annotations

import copy
from typing import Any

from baro.apiserver.patching.problems import PatchError, Problem


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """The merged document. A patch that is no object is an error here, as it is in the API server."""
    if not isinstance(patch, dict):
        raise PatchError(Problem.MALFORMED, "Invalid JSON Patch")
    return _merge(document, patch)


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged
