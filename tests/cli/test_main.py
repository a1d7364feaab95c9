"""The entry point: help, exit codes, and what happens when things go wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baro.cli import COMMANDS, LazyGroup, cli, main


def test_help_lists_every_command_without_importing_one() -> None:
    script = (
        "import sys; from baro.cli import main; main(['--help']);"
        "heavy = {'numpy', 'yaml', 'lightkube', 'starlette', 'uvicorn', 'pynvml', 'rich'} & set(sys.modules);"
        "lazy = [name for name in sys.modules if name.startswith('baro.cli.')];"
        "sys.exit(f'{heavy} {lazy}' if heavy or lazy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in COMMANDS:
        assert name in done.stdout


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_a_help_that_starts_with_a_sentence(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    assert f"Usage: baro {name}" in capsys.readouterr().out


def test_the_group_knows_no_other_command() -> None:
    assert isinstance(cli, LazyGroup)
    assert cli.get_command(click.Context(cli), "nonsense") is None


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["place", "--policy", "x"], ["lint"], ["place", "-f", "x", "-o", "xml"], ["--nonsense"]],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", [["lint"], ["place", "-f"], ["topo"]])
def test_a_file_that_is_not_there_is_exit_code_3_and_one_error(
    command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*command, str(tmp_path / "nothing.yaml")]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("error:") == 1
    assert "nothing.yaml" in err


@settings(max_examples=60)
@given(st.binary(max_size=400))
def test_no_garbage_makes_a_reading_command_crash(data: bytes) -> None:
    """Exit codes 0 to 3 and nothing else; a traceback would raise here."""
    import contextlib
    import io
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "garbage.yaml"
        file.write_bytes(data)
        for command in (["lint"], ["place", "-f"], ["topo"]):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                assert main([*command, str(file)]) in (0, 1, 2, 3)


def test_a_closed_pipe_is_not_an_error() -> None:
    command = [sys.executable, "-m", "baro", "topo", "--list-profiles"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode in (0, 141)
