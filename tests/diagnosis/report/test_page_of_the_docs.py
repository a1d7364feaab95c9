"""docs/diagnose.md shows what the commands really print, on a cluster that is beside it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from baro.cli import main
from tests.support.diagnose_page import files

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "diagnose.md"
EXAMPLE = ROOT / "docs" / "examples" / "diagnose"
UPDATE = bool(os.environ.get("BARO_UPDATE_GOLDEN"))
_SESSION = re.compile(r"```console\n(\$ .*?)```", re.DOTALL)


@pytest.mark.parametrize("name", files())
def test_the_example_is_what_its_builder_makes(name: str) -> None:
    """Rewritten with ``BARO_UPDATE_GOLDEN=1``."""
    if UPDATE:
        EXAMPLE.mkdir(parents=True, exist_ok=True)
        (EXAMPLE / name).write_text(files()[name], encoding="utf-8")
    assert (EXAMPLE / name).read_text(encoding="utf-8") == files()[name]


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
        assert main(words[1:]) in (0, 1), command
        return f"```console\n{command}\n{capsys.readouterr().out}```"

    fresh = _SESSION.sub(run, page)
    if UPDATE:
        PAGE.write_text(fresh, encoding="utf-8")
    assert fresh == page or UPDATE
    assert len(_SESSION.findall(page)) >= 3
