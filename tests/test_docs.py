"""Documentation that is generated or that names files must not drift from the code."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from baro.cli import COMMANDS
from baro.model.findings import markdown

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_findings_page_is_current() -> None:
    """Rewritten with ``BARO_UPDATE_GOLDEN=1``."""
    page = ROOT / "docs" / "findings.md"
    if os.environ.get("BARO_UPDATE_GOLDEN"):
        page.write_text(markdown(), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == markdown()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_of_the_project_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_commands_that_the_readme_names_exist() -> None:
    named = set(re.findall(r"\bbaro ([a-z]+)\b", (ROOT / "README.md").read_text(encoding="utf-8")))
    commands = {
        word for word in named if word in COMMANDS or f"$ baro {word}" in (ROOT / "README.md").read_text()
    }
    assert commands <= set(COMMANDS)
    assert {"place", "topo", "lint"} <= commands
