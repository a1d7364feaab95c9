"""Set-up for all tests: the repository root is importable, so ``tests.support`` is too."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

# The examples of one commit are the same everywhere, so that a change is judged by what it changes. What no
# example has shown yet is looked for with HYPOTHESIS_PROFILE=drawn (other examples in every run) or nightly.
settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("drawn", parent=settings.get_profile("default"), derandomize=False)
settings.register_profile("nightly", parent=settings.get_profile("drawn"), max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
