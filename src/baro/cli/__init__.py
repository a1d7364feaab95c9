"""The command line: one lazy module per command, output formats, exit codes. No logic of its own.

A command lives in ``baro.cli.<name>`` as a click command called ``command`` and is imported only when it
runs: ``baro --help`` reads the table below and nothing else, which keeps it fast.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from baro.model.errors import BaroError

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("baro.cli.demo", "The whole system on this machine: API server, simulated nodes, planner."),
    "explain": ("baro.cli.explain", "Why is this pod or claim pending, or why has it these devices?"),
    "diagnose": ("baro.cli.diagnose", "Are we wasting GPUs? Five checks on a cluster or on files."),
    "snapshot": ("baro.cli.snapshot", "What a diagnosis looks at, as files, optionally anonymised."),
    "place": ("baro.cli.place", "Where would these claims or gangs go, and why not elsewhere?"),
    "topo": ("baro.cli.topo", "One machine: matrix, islands, GB/s, picture."),
    "lint": ("baro.cli.lint", "Everything that is wrong with a manifest, and the file mended."),
    "conformance": ("baro.cli.conformance", "How far baro agrees with answers recorded from Kubernetes."),
    "apiserver": ("baro.cli.apiserver", "The embedded Kubernetes API server, for real kubectl."),
    "controller": ("baro.cli.controller", "The planner: places gated pods on the right GPUs."),
    "agent": ("baro.cli.agent", "Discover this node (or a simulated one) and publish its ResourceSlices."),
}
"""Name → (module, one line of help), in the order of ``baro --help``."""

PIPE_CLOSED = 141
"""What a shell reports for a process that SIGPIPE ended; ``baro … | head`` is not an error."""


class LazyGroup(click.Group):
    """A click group whose commands are imported when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[cmd_name][0]}.command is no click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="baro", prog_name="baro")
def cli() -> None:
    """baro makes a Kubernetes cluster GPU-native.

    Exit codes: 0 clean or placed, 1 findings or no fit, 2 usage, 3 bad input or unreachable.
    """


def report(error: BaroError) -> None:
    """Print one error to stderr: what and where, and below it what to do next."""
    place = str(error.where)
    click.echo(f"error: {place + ': ' if place else ''}{error.what}", err=True)
    if error.next_step:
        click.echo(f"  next: {error.next_step}", err=True)


def main(arguments: Sequence[str] | None = None) -> Any:
    """Entry point of ``baro`` and ``kubectl-baro``; returns the exit code."""
    plugin = Path(sys.argv[0]).name.startswith("kubectl-")
    try:
        result = cli.main(arguments, prog_name="kubectl baro" if plugin else "baro", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BaroError as error:
        report(error)
        return error.exit_code
    except SystemExit:
        # click ends a process whose pipe is closed with code 1, which here would mean "findings".
        return PIPE_CLOSED
    return result if isinstance(result, int) else 0
