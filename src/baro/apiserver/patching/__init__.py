"""The three kinds of patch, as functions from a document and a patch to a new document.

Nothing here knows of stores or HTTP; the input is never changed. Strategic merge reads the list types and
merge keys of ``baro.model.schema``. Server-side apply is a room of its own (``ownership``).
"""

from baro.apiserver.patching.json_patch import apply_json_patch
from baro.apiserver.patching.merge_patch import apply_merge_patch
from baro.apiserver.patching.patch import Patch
from baro.apiserver.patching.problems import PatchError, Problem
from baro.apiserver.patching.strategic import apply_strategic_patch, go_map

__all__ = [
    "Patch",
    "PatchError",
    "Problem",
    "apply_json_patch",
    "apply_merge_patch",
    "apply_strategic_patch",
    "go_map",
]
