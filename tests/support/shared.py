"""Real inputs that are not part of the project: read in place, skipped when absent.

They lie in a folder beside the checkout, or where ``BARO_SHARED`` points.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

_DEFAULT = Path(__file__).resolve().parents[3] / "shared"


def path(relative: str) -> Path:
    """The file or folder with that name. Skips the calling test when it is not there."""
    found = Path(os.environ.get("BARO_SHARED", _DEFAULT)) / relative
    if not found.exists():
        pytest.skip(f"{relative} is not here: set BARO_SHARED to the folder that holds it")
    return found


def listing(relative: str, pattern: str) -> list[Path]:
    """Files for parametrization, sorted; empty when the folder is absent."""
    return sorted((Path(os.environ.get("BARO_SHARED", _DEFAULT)) / relative).glob(pattern))


def case(number: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Inputs (name → text) and the ``expect`` block of a public case. Skips when absent."""
    matches = listing("data/cases", f"{number}-*.md")
    if not matches:
        pytest.skip(f"case {number} is not here: set BARO_SHARED to the folder that holds it")
    text = matches[0].read_text(encoding="utf-8")
    inputs = {
        name.split(" ")[0]: body
        for name, body in re.findall(r"^`([^`]+)`\n\n```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    }
    expect = re.search(r"^## Expect\n\n```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return inputs, yaml.safe_load(expect.group(1)) if expect else {}
