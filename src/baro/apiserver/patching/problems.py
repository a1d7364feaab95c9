"""Why a patch cannot be applied. The kinds follow what the API server answers to each."""

from __future__ import annotations

from enum import Enum


class Problem(Enum):
    """``MALFORMED`` and ``UNKEYED`` become 400 and 500 with the text, ``MISFIT`` 422, ``TOO_LONG`` 413."""

    MALFORMED = "malformed"
    MISFIT = "misfit"
    TOO_LONG = "too long"
    UNKEYED = "unkeyed"


class PatchError(Exception):
    """The patch is malformed or does not fit the document."""

    def __init__(self, problem: Problem, message: str) -> None:
        super().__init__(message)
        self.problem = problem
        self.message = message
