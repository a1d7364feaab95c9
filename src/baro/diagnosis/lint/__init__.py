"""Lint of manifests: every mistake in one run, in the API server's words and beyond, with what mends it.

``lint_all`` judges documents together, ``lint`` one alone; ``fixing`` rewrites files, ``sarif`` writes
reports for code scanners. A rule is a small function in one module per family (``schema``, ``versions``,
``expressions``, ``constraints``, ``requests``, ``pods``, ``classes``, ``slices``, ``taints``, ``planner``),
registered in a table (``registry``). No server is asked and no file is read here.
"""

from baro.diagnosis.lint.engine import Judged, LintResult, lint, lint_all
from baro.diagnosis.lint.run import Note, Target

__all__ = ["Judged", "LintResult", "Note", "Target", "lint", "lint_all"]
