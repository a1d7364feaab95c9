"""docs/explain.md shows what the commands really print, on a cluster that is beside it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from baro.cli import main
from tests.support.explain_page import dump

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "explain.md"
EXAMPLE = ROOT / "docs" / "examples" / "pending.yaml"
_SESSION = re.compile(r"```console\n(\$ .*?)```", re.DOTALL)


def test_the_example_is_what_its_builder_makes() -> None:
    """Rewritten with ``BARO_UPDATE_GOLDEN=1``."""
    if os.environ.get("BARO_UPDATE_GOLDEN"):
        EXAMPLE.write_text(dump(), encoding="utf-8")
    assert EXAMPLE.read_text(encoding="utf-8") == dump()


def test_every_session_of_the_page_is_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rewritten with ``BARO_UPDATE_GOLDEN=1``."""
    monkeypatch.chdir(ROOT)
    page = PAGE.read_text(encoding="utf-8")

    def run(session: re.Match[str]) -> str:
        command = session[1].splitlines()[0]
        words = command.removeprefix("$ ").split()
        assert words[0] == "baro"
        code = main(words[1:])
        assert code in (0, 1), command
        return f"```console\n{command}\n{capsys.readouterr().out}```"

    fresh = _SESSION.sub(run, page)
    if os.environ.get("BARO_UPDATE_GOLDEN"):
        PAGE.write_text(fresh, encoding="utf-8")
    assert fresh == page or os.environ.get("BARO_UPDATE_GOLDEN")
    assert len(_SESSION.findall(page)) >= 5
